"""The loop of a backtest whose outcomes come late, or whose customers decide when they see a forecast.

Open forecasts stand in slots. kept[slot] = [loss, target, weight, λ, room, row, mark, inner target],
where row is that in the log, room what the forecast could lose staked in full, and mark twice the cell, + 1
if split. Only a correction over another, or a capital, needs what comes after: [inner λ, inner mark, what the
forecast can lose as staked]. So a forecast takes one line of the processor's cache, or two: with a million
open, settling one is mostly waiting for its line. free[open:] are the free slots. counts = [open forecasts,
the most that were open together]. The order in which forecasts settle is sorted beforehand: due = [when
known], [who]. Of a chunk's forecasts, the first is number `waiting` there: those that were already open come
first. slot_of has the slot of each.
totals = [loss, what rounding cut off from it, sum of c, how many c < 0, loss at the model's odds, what open
forecasts could lose staked in full, its maximum while several were open, what customers would stake at c = 0,
what open forecasts can lose as staked, refused stakes, their sum, what the thaw has conceded, the largest
profit, settled forecasts, then for each of three kinds of customers what they would stake at c = 0, and for
each what they staked].
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


def make_settle(learn: Callable[..., float], inner_learn: Callable[..., float]) -> Callable[..., None]:
    """Return a function that settles the forecast in a slot; `opened` others are still open."""

    def settle(memory: Any, kept: Any, slot: int, opened: int, limits: LateTerms, totals: Any) -> None:
        values, marks, inner_values, inner_marks = memory
        thaw, cap, loss, weight = limits.thaw, limits.max_stake, kept[slot, 0], kept[slot, 2]
        totals[0], totals[1] = add_exactly(totals[0], totals[1], loss)
        totals[5] = totals[5] - kept[slot, 4] if opened > 0 else 0.0
        if kept.shape[1] > 8:
            totals[8] = released(totals[8], kept[slot, 10], opened)
        totals[12], totals[13] = max(totals[12], -(totals[0] + totals[1])), totals[13] + 1.0
        left = thaw_left(thaw, int(totals[13]), totals[12], totals[11])
        (proposal, inner), lesson = recall(kept, slot), (kept[slot, 1], weight, loss)
        totals[11] += learn(values, marks, proposal, lesson, thaw.least, left, cap)
        lesson = (kept[slot, 7], weight, loss)
        inner_learn(inner_values, inner_marks, inner, lesson, thaw.above, math.inf, cap)

    return settle


def wanted(people: Any, t: int, said: Any, y: float, one_sided: bool, totals: Any) -> float:
    """Return the stake of this row's customer, and add up what she would stake at c = 0."""
    kind, amount, view = people
    mu, c, mu_hat, _ = said
    fair = would_stake(kind[t], amount[t], view[t], mu_hat, 0.0, y, one_sided)
    totals[7] += abs(fair)
    if kind[t] < 3:
        totals[14 + kind[t]] += abs(fair)
    return would_stake(kind[t], amount[t], view[t], mu, c, y, one_sided)


def refused(b: float, risk: float, said: Any, lam: float, limits: LateTerms, totals: Any) -> bool:
    """Whether the capital or the stop refuses a stake; `said` is (μ, c, μ̂, ĉ)."""
    if too_much(limits.capital, totals[0] + totals[1], totals[8], 0.0, risk):
        return True
    left = thaw_left(limits.thaw, int(totals[13]), totals[12], totals[11])
    thawing = lam > limits.thaw.least and left > 0.0
    return limits.stop and stopped(b, said, 0.0, limits.how, limits.spread, thawing)


def make_late_replay(
    propose: Callable[..., Any],
    inner_propose: Callable[..., Any],
    settle: Callable[..., None],
    composed: bool,
) -> Callable[..., int]:
    """Return the loop of Algorithm 1 over columns, where forecasts stay open until their outcome is known.

    Before each forecast, those that are due are settled, in the given order. The loop returns how many were
    settled.
    """

    def replay(
        memory: Any, book: Any, columns: Any, times: Any, people: Any, limits: Any, totals: Any, out: Any
    ) -> int:
        values, marks, inner_values, inner_marks = memory
        kept, free, counts, due_known, due_who, slot_of = book
        mu_hat, c_hat, outcome, net, gross = columns
        (time, rows), how, max_stake = times, limits.how, limits.max_stake
        c_out, lam_out, mu_out, loss_out, stake_out, total_out, settled_lam, settled_row = out
        waiting, opened, t, done = len(slot_of) - len(time), counts[0], 0, 0
        while t < len(time) or (limits.last and opened > 0):
            # An outcome known at the time of its own forecast still comes after that forecast.
            if opened > 0 and (
                t == len(time) or (due_known[done] <= time[t] and due_who[done] < waiting + t)
            ):
                opened -= 1
                slot = slot_of[due_who[done]]
                free[opened] = slot
                settle(memory, kept, slot, opened, limits, totals)
                total_out[done], settled_lam[done] = totals[0] + totals[1], kept[slot, 3]
                settled_row[done] = int(kept[slot, 5])
                done += 1
                continue
            inner, proposal = inner_propose(inner_values, inner_marks), propose(values, marks)
            width = refine(c_hat[t], inner[0]) if composed else c_hat[t]
            left = left_of(limits.capital, totals[0] + totals[1], totals[8])
            least = least_price(left, 1, max_stake, how.one_sided)
            mu, c, origin = publish(mu_hat[t], width, proposal[0], how, least)
            b, size, said = net[t], gross[t], (mu, c, mu_hat[t], c_hat[t])
            if len(people[0]) > 0:
                b = wanted(people, t, said, outcome[t], how.one_sided, totals)
                size = abs(b)
            risk = worst_loss(b, size, mu, c, 0.0)
            if refused(b, risk, said, proposal[0], limits, totals):
                totals[9], totals[10] = totals[9] + 1.0, totals[10] + size
                b, size, risk = 0.0, 0.0, 0.0
            totals[8] += risk
            if len(people[0]) > 0 and people[0][t] < 3:
                totals[17 + people[0][t]] += size
            lesson = balance(mu, c, origin, outcome[t], b, size, max_stake)
            slot, full = free[opened], room(mu, c, how.one_sided, max_stake)
            hold(kept, slot, rows[t], (full, risk), lesson, lesson[1] + origin - c_hat[t], proposal, inner)
            slot_of[waiting + t], opened, totals[5] = slot, opened + 1, totals[5] + full
            if opened > 1:
                totals[6], counts[1] = max(totals[6], totals[5]), max(counts[1], opened)
            c_out[t], lam_out[t], mu_out[t], loss_out[t], stake_out[t] = c, proposal[0], mu, lesson[0], b
            t += 1
        counts[0] = opened
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
    learn, inner_learn = make_learn(propose, observe), make_learn(inner_propose, inner_observe)
    settle = make_settle(learn, inner_learn)
    replay = make_late_replay(propose, inner_propose, settle, composed=inner is not None)
    own = (would_stake, wanted, hold, recall, stopped, refused, thaw_left, turn_back)
    kernels = (propose, observe, inner_propose, inner_observe, learn, inner_learn, settle)
    return jit(replay, *HELPERS, *own, *kernels)
