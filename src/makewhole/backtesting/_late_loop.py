"""The loop of a backtest whose outcomes come late, or whose customers decide when they see a forecast.

Open forecasts stand in slots. kept[slot] = [loss, target, weight, λ, room, row, mark, inner target],
where row is that in the log, room what the forecast could lose staked in full, and mark twice the cell, + 1
if split. Only a correction over another, or a capital, needs what comes after: [inner λ, inner mark, what the
forecast can lose as staked]. So a forecast takes one line of the processor's cache, or two: with a million
open, settling one is mostly waiting for its line. free[open:] are the free slots. counts = [open forecasts,
the most that were open together]. The order in which forecasts settle is sorted beforehand: due = [when
known], [who]. Of a chunk's forecasts, the first is number `first` there: those that were already open come
first. slot_of has the slot of each.
totals = [loss, what rounding cut off from it, sum of c, how many c < 0, loss at the model's odds, what open
forecasts could lose staked in full, its maximum while several were open, 0,
what open forecasts can lose as staked, refused stakes, their sum, what the thaw has conceded, the largest
profit, settled forecasts].
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

from makewhole.backtesting._limited_loop import ThawTerms, make_learn, stopped, thaw_left, turn_back
from makewhole.corrections._kernels import HELPERS, Step, none_observe, none_propose
from makewhole.jit import jit
from makewhole.rules import (
    Publishing,
    add_exactly,
    balance,
    least_price,
    left_of,
    publish,
    refine,
    released,
    room,
    too_much,
    worst_loss,
)


class LateTerms(NamedTuple):
    """How forecasts are published, the cap M, and what limits stakes; `capital` is infinite without one.

    With `stop`, selling stops where a stake can win too little; `spread` is what the base's price is without.
    With `last`, all that is open is settled at the end.
    """

    how: Publishing
    max_stake: float
    capital: float
    thaw: ThawTerms
    stop: bool
    spread: float
    last: bool


def would_stake(
    kind: int, amount: float, view: float, mu: float, c: float, outcome: float, one_sided: bool
) -> float:
    """Return the stake of a customer on a published forecast; see `makewhole.agents.Customers`.

    `kind` is 0 for a hedger, who would lose `amount` if the event happened; 1 for a customer who believes in
    the probability `view`; 2 for a clairvoyant; any other number for no customer.
    """
    if kind == 0:
        return amount if mu + c < 1.0 else 0.0
    edge = (view if kind == 1 else outcome) - mu
    if abs(edge) <= c or edge == 0.0 or kind > 2:
        return 0.0
    if edge > 0.0:
        return amount
    return 0.0 if one_sided else -amount


def hold(
    kept: Any, slot: int, row: int, risks: Any, lesson: Any, own: float, proposal: Step, inner: Step
) -> None:
    """Put an open forecast into a slot: (loss, target, weight), and what was proposed for it.

    `risks` is what it can lose staked in full, and as staked.
    """
    potential, staked = risks
    kept[slot, 0], kept[slot, 1], kept[slot, 2] = lesson
    kept[slot, 3], kept[slot, 4], kept[slot, 5] = proposal[0], potential, row
    kept[slot, 6], kept[slot, 7] = 2 * proposal[1] + (1 if proposal[2] else 0), own
    if kept.shape[1] > 8:
        kept[slot, 8], kept[slot, 9] = inner[0], 2 * inner[1] + (1 if inner[2] else 0)
        kept[slot, 10] = staked


def recall(kept: Any, slot: int) -> tuple[Step, Step]:
    """Return the two proposals of an open forecast: the correction's, and its inner correction's."""
    mark, inner_lam, inner_mark = int(kept[slot, 6]), 0.0, 0
    if kept.shape[1] > 8:
        inner_lam, inner_mark = kept[slot, 8], int(kept[slot, 9])
    own = (kept[slot, 3], mark >> 1, mark & 1 != 0)
    return own, (inner_lam, inner_mark >> 1, inner_mark & 1 != 0)


def refuses(
    limits: LateTerms, lost: float, at_risk: float, risk: float, b: float, said: Any, thawing: bool
) -> bool:
    """Whether a stake that can lose `risk` is more than the capital leaves, or selling has stopped."""
    if too_much(limits.capital, lost, at_risk, 0.0, risk):
        return True
    return limits.stop and stopped(b, said, 0.0, limits.how, limits.spread, thawing)


def to_thaw(thaw: ThawTerms, lam: float, rounds: int, profit: float, conceded: float) -> bool:
    """Whether a thaw can still lower this λ."""
    return lam > thaw.least and thaw_left(thaw, rounds, profit, conceded) > 0.0


def most_late(potential: float, count: int, now: float, opened: int) -> tuple[float, int]:
    """Return the most that could be lost, and the most that were open, while several forecasts were."""
    return (max(potential, now), max(count, opened)) if opened > 1 else (potential, count)


def make_late_replay(
    propose: Callable[..., Any],
    inner_propose: Callable[..., Any],
    learn: Callable[..., float],
    inner_learn: Callable[..., float],
    composed: bool,
) -> Callable[..., int]:
    """Return the loop of Algorithm 1 over columns, where forecasts stay open until their outcome is known.

    Before each forecast, those that are due are settled, in the given order; an outcome known at the time of
    its own forecast still comes after that forecast. The loop returns how many were settled.
    `make_learn` makes the functions that learn.
    """

    def replay(memory: Any, book: Any, columns: Any, people: Any, limits: Any, totals: Any, out: Any) -> int:
        values, marks, inner_values, inner_marks = memory
        kept, free, counts, due_known, due_who, slot_of, time, rows = book
        (mu_hat, c_hat, outcome, net, gross), (kind, most, view) = columns, people
        how, cap, capital, thaw, stop, _, last = limits
        c_out, lam_out, mu_out, loss_out, stake_out, fair_out, total_out, settled_lam, settled_row = out
        total, low, potential, at_risk, opened = totals[0], totals[1], totals[5], totals[8], counts[0]
        t, done, before, first, sided = 0, 0, int(totals[13]), len(slot_of) - len(time), how.one_sided
        while t < len(time) or (last and opened > 0):
            if opened > 0 and (t == len(time) or (due_known[done] <= time[t] and due_who[done] < first + t)):
                slot, opened = slot_of[due_who[done]], opened - 1
                free[opened], settled_row[done] = slot, int(kept[slot, 5])
                loss, target, weight, lam = kept[slot, 0], kept[slot, 1], kept[slot, 2], kept[slot, 3]
                total, low = add_exactly(total, low, loss)
                potential = potential - kept[slot, 4] if opened > 0 else 0.0
                at_risk = released(at_risk, kept[slot, 10], opened) if kept.shape[1] > 8 else 0.0
                (proposal, inner), totals[12] = recall(kept, slot), max(totals[12], -(total + low))
                total_out[done], settled_lam[done], done = total + low, lam, done + 1
                left = thaw_left(thaw, before + done, totals[12], totals[11]) if lam > thaw.least else 0.0
                totals[11] += learn(values, marks, proposal, (target, weight, loss), thaw.least, left, cap)
                if composed:
                    own = (kept[slot, 7], weight, loss)
                    inner_learn(inner_values, inner_marks, inner, own, thaw.above, math.inf, cap)
                continue
            inner, proposal = inner_propose(inner_values, inner_marks), propose(values, marks)
            width = refine(c_hat[t], inner[0]) if composed else c_hat[t]
            least = least_price(left_of(capital, total + low, at_risk), 1, cap, sided)
            mu, c, origin = publish(mu_hat[t], width, proposal[0], how, least)
            b, size, y = net[t], gross[t], outcome[t]
            if len(kind) > 0:  # otherwise the log has stakes
                b = would_stake(kind[t], most[t], view[t], mu, c, y, sided)
                fair = would_stake(kind[t], most[t], view[t], mu_hat[t], 0.0, y, sided)
                fair_out[t], size = abs(fair), abs(b)
            thawing = stop and to_thaw(thaw, proposal[0], before + done, totals[12], totals[11])
            risk, said = worst_loss(b, size, mu, c, 0.0), (mu, c, mu_hat[t], c_hat[t])
            if refuses(limits, total + low, at_risk, risk, b, said, thawing):
                totals[9], totals[10], b, size, risk = totals[9] + 1.0, totals[10] + size, 0.0, 0.0, 0.0
            lesson, slot = balance(mu, c, origin, y, b, size, cap), free[opened]
            full, at_risk = room(mu, c, sided, cap), at_risk + risk
            hold(kept, slot, rows[t], (full, risk), lesson, lesson[1] + origin - c_hat[t], proposal, inner)
            slot_of[first + t], opened, potential = slot, opened + 1, potential + full
            totals[6], counts[1] = most_late(totals[6], counts[1], potential, opened)
            c_out[t], lam_out[t], mu_out[t], loss_out[t], stake_out[t] = c, proposal[0], mu, lesson[0], b
            t += 1
        totals[0], totals[1], totals[5], totals[8], counts[0] = total, low, potential, at_risk, opened
        return done

    return replay


@functools.cache
def compiled_late_replay(
    propose: Callable[..., Any],
    observe: Callable[..., None],
    inner: tuple[Callable[..., Any], Callable[..., None]] | None = None,
) -> Callable[..., int]:
    """Return the compiled loop for one of our corrections, or for a reserve over one."""
    inner_propose, inner_observe = inner or (none_propose, none_observe)
    lessons = make_learn(propose, observe), make_learn(inner_propose, inner_observe)
    replay = make_late_replay(propose, inner_propose, *lessons, composed=inner is not None)
    own = (would_stake, hold, recall, stopped, refuses, to_thaw, most_late, thaw_left, turn_back)
    return jit(replay, *HELPERS, *own, propose, observe, inner_propose, inner_observe, *lessons)
