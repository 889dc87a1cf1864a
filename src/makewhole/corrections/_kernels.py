"""Every step that runs both interpreted, one at a time, and compiled, over a whole log.

Each function here is plain Python. The correction classes call it on lists; `compiled_replay` compiles the
very same source with numba, on arrays, so the two cannot drift apart. They stand in one file because
numba's cache notices a change only in the file of the function it compiled.

A correction remembers a list of numbers and a list of whole numbers, and no more: arrays cost the compiled
loop a reference count each. Its proposal is a tuple (λ, cell, split):

    propose(values, marks) -> proposal         observe(values, marks, proposal, target, weight)
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from makewhole.jit import jit

Step = tuple[float, int, bool]


class Rules(NamedTuple):
    """How a book publishes: only stakes >= 0; honest intervals; a correction that adds up losses."""

    one_sided: bool
    sound: bool
    integrates: bool


NEARLY_HALF = 0.5 - 1e-9

# --- Algorithm 1: what is published, and what it means for the correction ---------------------------------


def publish(
    mu_hat: float, c_hat: float, lam: float, rules: Rules, least: float
) -> tuple[float, float, float]:
    """Publish (μ, c), and what the target is measured from: c = ĉ + λ, from ĉ.

    One-sided, everything goes into μ, the ask, and c is 0. Sound,
    [μ − c, μ + c] is an interval inside [0, 1]. `least` is the least c (one-sided: ask) that the forecaster
    can still afford. Where a number was clipped, the loss is not w·(x − λ) for x = z − ĉ: then the target is
    measured from the λ in effect, except for a c that was raised and a correction that averages its targets;
    for that one x = z − ĉ stays in range, and accounts for more than was lost.
    """
    one_sided, sound, integrates = rules
    wanted = c_hat + lam
    if one_sided:
        return min(max(mu_hat + wanted, 0.0, least), 1.0), 0.0, -lam
    if not sound:
        return mu_hat, wanted, c_hat
    c = min(max(wanted, 0.0, least), 0.5)
    if c > NEARLY_HALF:  # nearer to ½ the steps of a reserve are lost in rounding, and λ would stand still
        c = 0.5
    mu = min(max(mu_hat, c), 1.0 - c)
    if c == wanted or (c > wanted and not integrates):
        return mu, c, c_hat
    return mu, c, c - lam


def balance(
    mu: float, c: float, origin: float, outcome: float, net: float, gross: float, max_stake: float
) -> tuple[float, float, float]:
    """Settle one forecast: (loss ℓ, target x, weight w).

    With z = (B/A)·(y − μ), x = z − origin is the λ that would have balanced it, and ℓ/M = w·(x − λ).
    """
    if gross == 0.0:
        return 0.0, -origin, 0.0
    error = outcome - mu
    return net * error - gross * c, net / gross * error - origin, gross / max_stake


# --- none, naive best response, standard regret -----------------------------------------------------------


def none_propose(values: Any, marks: Any) -> Step:
    """λ = 0."""
    return 0.0, 0, False


def none_observe(values: Any, marks: Any, proposal: Step, target: float, weight: float) -> None:
    """Nothing is learned."""


def mean_propose(values: Any, marks: Any) -> Step:
    """λ = Σwx / Σw; values = [Σwx, Σw, their ratio]."""
    return values[2], 0, False


def mean_observe(values: Any, marks: Any, proposal: Step, target: float, weight: float) -> None:
    """Add to the two sums; keep their ratio."""
    values[0] += weight * target
    values[1] += weight
    values[2] = values[0] / values[1]


def gradient_propose(values: Any, marks: Any) -> Step:
    """λ where the descent stands; values = [λ, steps, rate]."""
    return values[0], 0, False


def gradient_observe(values: Any, marks: Any, proposal: Step, target: float, weight: float) -> None:
    """λ ← λ + (p/√t)·w·(x − λ), the gradient taken where the forecast was made."""
    values[1] += 1.0
    values[0] += values[2] / values[1] ** 0.5 * weight * (target - proposal[0])


def reserve_propose(values: Any, marks: Any) -> Step:
    """λ where the books stand; values = [λ, rate, floor]."""
    return values[0], 0, False


def reserve_observe(values: Any, marks: Any, proposal: Step, target: float, weight: float) -> None:
    """λ ← λ + η·ℓ/M, no lower than the floor; ℓ/M = w·(x − λ) with the λ the forecast was made with."""
    lam = values[0] + values[1] * weight * (target - proposal[0])
    values[0] = max(lam, values[2])


# Groups that overlap: values = [rate, a weight for everyone, a weight for each group], and marks = [where the
# next forecast's members stand, how many they are, and the members, forecast after forecast]: each the place
# of its weight. The proposal's "cell" is where its members stand.


def members_propose(values: Any, marks: Any) -> Step:
    """λ = the sum of the members' weights."""
    at, size = marks[0], marks[1]
    lam = 0.0
    for k in range(at, at + size):
        lam += values[marks[k]]
    marks[0] = at + size if at + size < len(marks) else 2
    return lam, at, False


def members_observe(values: Any, marks: Any, proposal: Step, target: float, weight: float) -> None:
    """Raise or lower every member's weight by η·ℓ/M, none below 0."""
    step = values[0] * weight * (target - proposal[0])
    for k in range(proposal[1], proposal[1] + marks[1]):
        values[marks[k]] = max(0.0, values[marks[k]] + step)


# --- cells: shared by swap regret and deterministic swap --------------------------------------------------
# With K cells, values = [Σwx of each | Σw of each | best response of each | low, step, 1/step] and
# marks = [the cell each best response lies in | current cell | draws].


def edge(low: float, step: float, k: int) -> float:
    """Where cell k begins, and cell k − 1 ends."""
    return low + step * k


def cell_of(low: float, step: float, per_unit: float, cells: int, x: float) -> int:
    """Find the half-open cell that holds x; the outermost cells are open-ended."""
    place = (x - low) * per_unit
    if place < 0.0:
        cell = 0
    elif place >= cells:
        cell = cells - 1
    else:
        cell = int(place)
    # The multiplication may round across an edge; the edges decide (written out: a call costs as much).
    if cell > 0 and x < low + step * cell:
        return cell - 1
    if cell < cells - 1 and x >= low + step * (cell + 1):
        return cell + 1
    return cell


def credit(values: Any, marks: Any, cell: int, target: float, weight: float) -> None:
    """Credit an outcome to a cell; keep its best response, Σwx/Σw, and the cell that holds it."""
    cells = len(marks) - 2
    values[cell] += weight * target
    values[cells + cell] += weight
    best = values[cell] / values[cells + cell]
    values[2 * cells + cell] = best
    marks[cell] = cell_of(values[-3], values[-2], values[-1], cells, best)


# --- swap regret (the paper's Algorithm 3) ----------------------------------------------------------------


def scramble(counter: int) -> int:
    """Hash a counter to 32 random bits; the same bits from Python's integers and from machine words."""
    word = counter & 0xFFFFFFFF
    word = ((word ^ (word >> 16)) * 0x21F0AAAD) & 0xFFFFFFFF
    word = ((word ^ (word >> 15)) * 0x735A2D97) & 0xFFFFFFFF
    return word ^ (word >> 15)


def find_cycle(points: Any, start: int) -> tuple[int, int]:
    """Follow best responses from `start` until a cell repeats: that cell, and the length of the cycle.

    Brent's way, without a list of visited cells: first the length, then two walkers that far apart meet
    at the first cell that repeats.
    """
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
    """Move on to a cell of the cycle that the current one leads into, drawn evenly."""
    cells = len(marks) - 2
    cell, length = find_cycle(marks, marks[cells])
    if length > 1:
        marks[cells + 1] = (marks[cells + 1] + 0x9E3779B9) & 0xFFFFFFFF
        for _ in range((scramble(marks[cells + 1]) * length) >> 32):
            cell = marks[cell]
    marks[cells] = cell


def swap_propose(values: Any, marks: Any) -> Step:
    """Play the best response of a cell of the cycle."""
    cells = len(marks) - 2
    if marks[marks[cells]] != marks[cells]:
        draw_from_cycle(marks)
    cell = marks[cells]
    return values[2 * cells + cell], cell, False


def swap_observe(values: Any, marks: Any, proposal: Step, target: float, weight: float) -> None:
    """Credit the cell that was drawn."""
    credit(values, marks, proposal[1], target, weight)


# --- deterministic swap (ours) ----------------------------------------------------------------------------


def search(marks: Any) -> bool:
    """Move on to a cell that holds its own best response; or to the left of two that point at each other.

    The first cell asked is the current one, the second the one it points to, and then halves: a cell that
    points right stands left of what we look for, one that points left stands right of it. Returns whether
    it ended between two cells.
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
    """Play a best response that lies in its own cell, or the boundary of two that point at each other."""
    cells = len(marks) - 2
    if marks[marks[cells]] != marks[cells] and search(marks):
        return edge(values[-3], values[-2], marks[cells] + 1), marks[cells], True
    cell = marks[cells]
    return values[2 * cells + cell], cell, False


def deterministic_observe(values: Any, marks: Any, proposal: Step, target: float, weight: float) -> None:
    """Credit the cell; of a boundary, the side on which the target lies."""
    # Two branches, not one cell computed from λ: the processor then need not wait for λ to go on.
    if not proposal[2] or target < proposal[0]:
        credit(values, marks, proposal[1], target, weight)
    else:
        credit(values, marks, proposal[1] + 1, target, weight)


# --- a whole log ------------------------------------------------------------------------------------------


def refine(c_hat: float, inner_lam: float) -> float:
    """What a reserve over another correction adds to: ĉ as that one would have it, kept honest."""
    return min(max(c_hat + inner_lam, 0.0), 0.5)


def make_replay(
    propose: Callable[..., Any],
    observe: Callable[..., None],
    inner_propose: Callable[..., Any] = none_propose,
    inner_observe: Callable[..., None] = none_observe,
    composed: bool = False,
) -> Callable[..., None]:
    """Make the loop of Algorithm 1 over columns, for one correction; composed, for a reserve over another."""

    def replay(
        memory: Any,
        columns: Any,
        rules: Rules,
        max_stake: float,
        totals: Any,
        out: Any,
    ) -> None:
        values, marks, inner_values, inner_marks = memory
        mu_hat, c_hat, outcome, net, gross = columns
        c_out, lam_out, total_out, mu_out, loss_out = out  # the last two are empty where nobody asked
        traced = len(mu_out) > 0
        total, c_sum, negative = totals[0], totals[1], totals[2]
        for t in range(len(mu_hat)):
            inner = inner_propose(inner_values, inner_marks)
            proposal = propose(values, marks)
            lam = proposal[0]
            width = refine(c_hat[t], inner[0]) if composed else c_hat[t]
            mu, c, origin = publish(mu_hat[t], width, lam, rules, 0.0)
            loss, target, weight = balance(mu, c, origin, outcome[t], net[t], gross[t], max_stake)
            total += loss
            c_out[t], lam_out[t], total_out[t] = c, lam, total
            c_sum += c
            negative += 1.0 if c < 0.0 else 0.0
            if traced:
                mu_out[t], loss_out[t] = mu, loss
            if weight > 0.0:
                observe(values, marks, proposal, target, weight)
                inner_observe(inner_values, inner_marks, inner, target + origin - c_hat[t], weight)
        totals[0], totals[1], totals[2] = total, c_sum, negative

    return replay


# What the steps call: whoever compiles one must hand these to `jit` too.
HELPERS = (
    publish,
    balance,
    refine,
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
    """Compile the loop for one of our corrections, or for a reserve over one."""
    inner_propose, inner_observe = inner or (none_propose, none_observe)
    replay = make_replay(propose, observe, inner_propose, inner_observe, composed=inner is not None)
    return jit(replay, *HELPERS, propose, observe, inner_propose, inner_observe)
