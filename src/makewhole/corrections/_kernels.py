"""The steps of all corrections, as plain functions that can also be compiled.

The correction classes call these functions on lists, one forecast at a time. `compiled_replay` compiles the
same source with numba, to run on arrays over a whole log, so both give the same numbers. The formulas of
money are in `makewhole.rules`.

A correction's memory is two lists: `values`, numbers, and `marks`, whole numbers. There are only two because
every array costs the compiled loop a reference count per step. A proposal is a tuple (λ, cell, split):

    propose(values, marks) -> proposal
    observe(values, marks, proposal, target, weight, loss, rest)

`loss` is what the forecast lost, in money, and `rest` is what was lost in rounding when the payments were
added up to it. Only reserves use them: they must add up what was paid, exactly.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from makewhole.jit import jit
from makewhole.rules import COMPILED, Publishing, add_exactly, balance, barrier_price, publish, refine

Step = tuple[float, int, bool]


# --- none, naive best response, standard regret -----------------------------------------------------------


def none_propose(values: Any, marks: Any) -> Step:
    """λ = 0."""
    return 0.0, 0, False


def none_observe(
    values: Any, marks: Any, proposal: Step, target: float, weight: float, loss: float, rest: float
) -> None:
    """Nothing is learned."""


def mean_propose(values: Any, marks: Any) -> Step:
    """λ = Σwx / Σw; values = [Σwx, Σw, their ratio]."""
    return values[2], 0, False


def mean_observe(
    values: Any, marks: Any, proposal: Step, target: float, weight: float, loss: float, rest: float
) -> None:
    """Add to the two sums; keep their ratio."""
    values[0] += weight * target
    values[1] += weight
    values[2] = values[0] / values[1]


def gradient_propose(values: Any, marks: Any) -> Step:
    """λ as it is now; values = [λ, steps, rate, least λ, largest λ]."""
    return values[0], 0, False


def gradient_observe(
    values: Any, marks: Any, proposal: Step, target: float, weight: float, loss: float, rest: float
) -> None:
    """λ ← λ + (rate/√t)·w·(x − λ'), kept in its range; λ' is the λ with which the forecast was made."""
    values[1] += 1.0
    lam = values[0] + values[2] / math.sqrt(values[1]) * weight * (target - proposal[0])
    if lam < values[3]:
        lam = values[3]
    elif lam > values[4]:
        lam = values[4]
    values[0] = lam


def book_loss(values: Any, at: int, scale: float, floor: float, loss: float, rest: float) -> None:
    """Add a loss to the sum of losses at values[at : at + 3] = [λ at its start, sum, what rounding cut off].

    λ = start + scale·sum is never stored, so no step is lost in rounding, however small it is. If λ would
    fall below the floor, the sum starts anew from there.
    """
    total, low = add_exactly(values[at + 1], values[at + 2], loss)
    if rest != 0.0:
        total, low = add_exactly(total, low, rest)
    if values[at] + scale * total < floor:
        values[at], total, low = floor, 0.0, 0.0
    values[at + 1], values[at + 2] = total, low


def reserve_propose(values: Any, marks: Any) -> Step:
    """λ = start + (η/M)·(sum of losses); values = [η/M, floor, start, sum, what rounding cut off]."""
    return values[2] + values[0] * values[3], 0, False


def reserve_observe(
    values: Any, marks: Any, proposal: Step, target: float, weight: float, loss: float, rest: float
) -> None:
    """λ ← λ + η·ℓ/M, but not below the floor."""
    book_loss(values, 2, values[0], values[1], loss, rest)


def barrier_propose(values: Any, marks: Any) -> Step:
    """λ by what is left of the capital.

    values = [capital, scale, straight, top, spread, M, least sum, start, sum of losses, what rounding cut
    off].
    """
    left = values[0] - values[7] - values[8]
    return barrier_price(left, values[1], values[2] != 0.0, values[3], values[4]), 0, False


def barrier_observe(
    values: Any, marks: Any, proposal: Step, target: float, weight: float, loss: float, rest: float
) -> None:
    """Losses use up the capital; gains give it back, as far as the least sum."""
    book_loss(values, 7, 1.0, values[6], loss, rest)


# Groups that overlap. values = [η/M, then three numbers for all and for each group, as in `book_loss`].
# marks = [position of the next forecast's members in marks, how many members a forecast has, then the
# members, forecast after forecast]. A member is the place of its three numbers in values. A proposal's "cell"
# is the position of its members.


def members_propose(values: Any, marks: Any) -> Step:
    """λ is the sum of the members' own."""
    at, size = marks[0], marks[1]
    lam = 0.0
    for k in range(at, at + size):
        place = marks[k]
        lam += values[place] + values[0] * values[place + 1]
    marks[0] = at + size if at + size < len(marks) else 2
    return lam, at, False


def members_observe(
    values: Any, marks: Any, proposal: Step, target: float, weight: float, loss: float, rest: float
) -> None:
    """Every member's λ moves by η·ℓ/M, but not below 0."""
    for k in range(proposal[1], proposal[1] + marks[1]):
        book_loss(values, marks[k], values[0], 0.0, loss, rest)


# Balance in groups that overlap: values = [η, a weight for all and one for each group]; marks as above.


def balanced_propose(values: Any, marks: Any) -> Step:
    """λ is the sum of the members' weights."""
    at, size = marks[0], marks[1]
    lam = 0.0
    for k in range(at, at + size):
        lam += values[marks[k]]
    marks[0] = at + size if at + size < len(marks) else 2
    return lam, at, False


def balanced_observe(
    values: Any, marks: Any, proposal: Step, target: float, weight: float, loss: float, rest: float
) -> None:
    """Every member's weight moves by η·w·(x − λ), with the λ that was proposed."""
    step = values[0] * weight * (target - proposal[0])
    for k in range(proposal[1], proposal[1] + marks[1]):
        values[marks[k]] += step


# --- cells: shared by swap regret and deterministic swap --------------------------------------------------
# With N cells, values = [Σwx of each | Σw of each | best response of each | low, step, 1/step] and
# marks = [the cell in which each best response lies | current cell | draws]. A cell "points" to that cell.


def edge(low: float, step: float, k: int) -> float:
    """Return where cell k begins and cell k − 1 ends."""
    return low + step * k


def cell_of(low: float, step: float, per_unit: float, cells: int, x: float) -> int:
    """Return the half-open cell that contains x; the two outermost cells are open-ended."""
    place = (x - low) * per_unit
    if place < 0.0:
        cell = 0
    elif place >= cells:
        cell = cells - 1
    else:
        cell = int(place)
    # The multiplication may round across an edge: compare with the edges (written out, for speed).
    if cell > 0 and x < low + step * cell:
        return cell - 1
    if cell < cells - 1 and x >= low + step * (cell + 1):
        return cell + 1
    return cell


def credit(values: Any, marks: Any, cell: int, target: float, weight: float) -> None:
    """Credit an outcome to a cell: update its sums, its best response Σwx/Σw, and where that lies."""
    cells = len(marks) - 2
    values[cell] += weight * target
    values[cells + cell] += weight
    best = values[cell] / values[cells + cell]
    values[2 * cells + cell] = best
    marks[cell] = cell_of(values[-3], values[-2], values[-1], cells, best)


# --- swap regret (the paper's Algorithm 3) ----------------------------------------------------------------


def scramble(counter: int) -> int:
    """Return 32 random bits, a hash of the counter; the same in Python and compiled."""
    word = counter & 0xFFFFFFFF
    word = ((word ^ (word >> 16)) * 0x21F0AAAD) & 0xFFFFFFFF
    word = ((word ^ (word >> 15)) * 0x735A2D97) & 0xFFFFFFFF
    return word ^ (word >> 15)


def find_cycle(points: Any, start: int) -> tuple[int, int]:
    """Follow best responses from `start` until a cell repeats; return that cell and the cycle's length.

    Nearly always the next cell points at itself or back at `start`. Otherwise this is Brent's algorithm,
    which needs no list of visited cells. It finds the length first. Then two pointers, that far apart, move
    on until they meet, at the first cell of the cycle.
    """
    following = points[start]
    after = points[following]
    if after == following:
        return following, 1
    if after == start:
        return start, 2
    slow, fast = start, points[start]
    power = length = 1
    while slow != fast:
        if power == length:
            slow = fast
            power *= 2
            length = 0
        fast = points[fast]
        length += 1
    slow = fast = start
    for _ in range(length):
        fast = points[fast]
    while slow != fast:
        slow = points[slow]
        fast = points[fast]
    return slow, length


def draw_from_cycle(marks: Any) -> None:
    """Make a random cell of the cycle, to which the current cell leads, the current cell."""
    cells = len(marks) - 2
    cell, length = find_cycle(marks, marks[cells])
    if length > 1:
        marks[cells + 1] = (marks[cells + 1] + 0x9E3779B9) & 0xFFFFFFFF
        for _ in range((scramble(marks[cells + 1]) * length) >> 32):
            cell = marks[cell]
    marks[cells] = cell


def swap_propose(values: Any, marks: Any) -> Step:
    """Propose the best response of a random cell of the cycle."""
    cells = len(marks) - 2
    if marks[marks[cells]] != marks[cells]:
        draw_from_cycle(marks)
    cell = marks[cells]
    return values[2 * cells + cell], cell, False


def swap_observe(
    values: Any, marks: Any, proposal: Step, target: float, weight: float, loss: float, rest: float
) -> None:
    """Credit the cell that was drawn."""
    credit(values, marks, proposal[1], target, weight)


# --- deterministic swap (ours) ----------------------------------------------------------------------------


def search(marks: Any) -> bool:
    """Find a cell that contains its own best response, or two neighbours that point at each other.

    Make it, or the left one of the two, the current cell. Return whether it is two. The search looks at the
    current cell, then at the cell it points to, and then halves the rest: what it looks for lies to the right
    of a cell that points right, and to the left of a cell that points left.
    """
    cells = len(marks) - 2
    cell = marks[cells]
    left, right = -1, cells
    guess = marks[cell]
    while marks[cell] != cell:
        if marks[cell] > cell:
            left = cell
        else:
            right = cell
        if right - left == 1:
            marks[cells] = left
            return True
        cell = guess if left < guess < right else (left + right) // 2
        guess = -1
    marks[cells] = cell
    return False


def deterministic_propose(values: Any, marks: Any) -> Step:
    """Propose a best response that lies in its own cell, or the boundary of two that point at each other."""
    cells = len(marks) - 2
    if marks[marks[cells]] != marks[cells] and search(marks):
        return edge(values[-3], values[-2], marks[cells] + 1), marks[cells], True
    cell = marks[cells]
    return values[2 * cells + cell], cell, False


def deterministic_observe(
    values: Any, marks: Any, proposal: Step, target: float, weight: float, loss: float, rest: float
) -> None:
    """Credit the cell; for a boundary, the cell on the side of the target."""
    # Two branches instead of one computed cell: the processor then need not wait for λ.
    if not proposal[2] or target < proposal[0]:
        credit(values, marks, proposal[1], target, weight)
    else:
        credit(values, marks, proposal[1] + 1, target, weight)


# --- a whole log ------------------------------------------------------------------------------------------


def make_replay(
    propose: Callable[..., Any],
    observe: Callable[..., None],
    inner_propose: Callable[..., Any] = none_propose,
    inner_observe: Callable[..., None] = none_observe,
    composed: bool = False,
) -> Callable[..., None]:
    """Return the loop of Algorithm 1 over columns, for one correction.

    If `composed`, it is a reserve over another correction, whose steps are the inner ones.
    """

    def replay(
        memory: Any,
        columns: Any,
        how: Publishing,
        max_stake: float,
        totals: Any,
        out: Any,
    ) -> None:
        values, marks, inner_values, inner_marks = memory
        mu_hat, c_hat, outcome, net, gross = columns
        c_out, lam_out, total_out, mu_out, loss_out = out  # the last two are empty if not wanted
        traced = len(mu_out) > 0
        total, low, c_sum, negative, fair = totals[0], totals[1], totals[2], totals[3], totals[4]
        for t in range(len(mu_hat)):
            inner = inner_propose(inner_values, inner_marks)
            proposal = propose(values, marks)
            lam = proposal[0]
            width = refine(c_hat[t], inner[0]) if composed else c_hat[t]
            mu, c, origin = publish(mu_hat[t], width, lam, how, 0.0)
            loss, target, weight = balance(mu, c, origin, outcome[t], net[t], gross[t], max_stake)
            # As in `add_exactly`, but what is cut off is added to the total only after the last row.
            sum_ = total + loss
            back = sum_ - total
            low += (total - (sum_ - back)) + (loss - back)
            total = sum_
            c_out[t], lam_out[t], total_out[t] = c, lam, total + low
            c_sum += c
            negative += 1.0 if c < 0.0 else 0.0
            fair += net[t] * (outcome[t] - mu_hat[t])  # what is lost at the model's own odds
            if traced:
                mu_out[t], loss_out[t] = mu, loss
            if weight > 0.0:
                observe(values, marks, proposal, target, weight, loss, 0.0)
                own = target + origin - c_hat[t]
                inner_observe(inner_values, inner_marks, inner, own, weight, loss, 0.0)
        totals[0], totals[1] = add_exactly(total, low, 0.0)
        totals[2], totals[3], totals[4] = c_sum, negative, fair

    return replay


def make_group_replay(
    propose: Callable[..., Any],
    observe: Callable[..., None],
    inner_propose: Callable[..., Any],
    inner_observe: Callable[..., None],
    composed: bool,
) -> Callable[..., None]:
    """Return the loop of Algorithm 1 over columns where each group has a correction of its own.

    `memory` has the memories of all groups, a row each; `codes` says whose forecast it is. Of as many rows at
    a time as `following` has entries, all of one group are replayed, then all of the next. For that they are
    linked: first[group], which is −1 between calls, is its next row, and following[row] the one after it.
    sums[group] = [forecasts, gross stakes, losses, c, the loss and what rounding cut off from it, how many
    c < 0, the loss at the model's odds].
    """

    def replay(memory: Any, codes: Any, links: Any, columns: Any, settings: Any, sums: Any, out: Any) -> None:
        all_values, all_marks, all_inner_values, all_inner_marks = memory
        mu_hat, c_hat, outcome, net, gross = columns
        (first, following), (how, max_stake) = links, settings
        c_out, lam_out, _, mu_out, loss_out = out
        for begin in range(0, len(mu_hat), len(following)):
            end = min(begin + len(following), len(mu_hat))
            for t in range(end - 1, begin - 1, -1):
                following[t - begin] = first[codes[t]]
                first[codes[t]] = t
            for start in range(begin, end):
                group = codes[start]
                if first[group] != start:
                    continue  # its turn has been
                values, marks = all_values[group], all_marks[group]
                inner_values, inner_marks = all_inner_values[group], all_inner_marks[group]
                count, staked, lost, c_sum = sums[group, 0], sums[group, 1], sums[group, 2], sums[group, 3]
                total, low, negative, fair = sums[group, 4], sums[group, 5], sums[group, 6], sums[group, 7]
                t = start
                while t >= 0:
                    inner, proposal = inner_propose(inner_values, inner_marks), propose(values, marks)
                    width = refine(c_hat[t], inner[0]) if composed else c_hat[t]
                    mu, c, origin = publish(mu_hat[t], width, proposal[0], how, 0.0)
                    loss, target, weight = balance(mu, c, origin, outcome[t], net[t], gross[t], max_stake)
                    c_out[t], lam_out[t], mu_out[t], loss_out[t] = c, proposal[0], mu, loss
                    sum_ = total + loss  # as in `make_replay`
                    back = sum_ - total
                    low += (total - (sum_ - back)) + (loss - back)
                    total = sum_
                    count, staked, lost, c_sum = count + 1.0, staked + gross[t], lost + loss, c_sum + c
                    negative += 1.0 if c < 0.0 else 0.0
                    fair += net[t] * (outcome[t] - mu_hat[t])
                    if weight > 0.0:
                        observe(values, marks, proposal, target, weight, loss, 0.0)
                        own = target + origin - c_hat[t]
                        inner_observe(inner_values, inner_marks, inner, own, weight, loss, 0.0)
                    t = following[t - begin]
                first[group] = -1
                sums[group, 0], sums[group, 1], sums[group, 2], sums[group, 3] = count, staked, lost, c_sum
                sums[group, 4], sums[group, 5], sums[group, 6], sums[group, 7] = total, low, negative, fair

    return replay


def add_groups(totals: Any, sums: Any, losses: Any, running: Any) -> None:
    """Add the groups' sums to the totals, and write the sum of the losses so far, row by row."""
    total = totals[0]
    for t in range(len(losses)):
        total += losses[t]
        running[t] = total
    for group in range(len(sums)):
        if sums[group, 0] > 0.0:
            lost, low = add_exactly(sums[group, 4], sums[group, 5], 0.0)
            totals[0], totals[1] = add_exactly(totals[0], totals[1], lost)
            totals[0], totals[1] = add_exactly(totals[0], totals[1], low)
            totals[2] += sums[group, 3]
            totals[3] += sums[group, 6]
            totals[4] += sums[group, 7]


# The functions that the steps call: pass them to `jit` together with a step.
HELPERS = (
    *COMPILED,
    book_loss,
    edge,
    cell_of,
    credit,
    scramble,
    find_cycle,
    draw_from_cycle,
    search,
)


@functools.cache
def compiled_replay(
    propose: Callable[..., Any],
    observe: Callable[..., None],
    inner: tuple[Callable[..., Any], Callable[..., None]] | None = None,
) -> Callable[..., None]:
    """Return the compiled loop for one of our corrections, or for a reserve over one."""
    inner_propose, inner_observe = inner or (none_propose, none_observe)
    replay = make_replay(propose, observe, inner_propose, inner_observe, composed=inner is not None)
    return jit(replay, *HELPERS, propose, observe, inner_propose, inner_observe)


@functools.cache
def compiled_group_replay(
    propose: Callable[..., Any],
    observe: Callable[..., None],
    inner: tuple[Callable[..., Any], Callable[..., None]] | None = None,
) -> Callable[..., None]:
    """Return the compiled loop for groups that have corrections of their own."""
    inner_propose, inner_observe = inner or (none_propose, none_observe)
    replay = make_group_replay(propose, observe, inner_propose, inner_observe, composed=inner is not None)
    return jit(replay, *HELPERS, propose, observe, inner_propose, inner_observe)


@functools.cache
def compiled_add_groups() -> Callable[..., None]:
    """Return `add_groups`, compiled."""
    return jit(add_groups, *COMPILED)
