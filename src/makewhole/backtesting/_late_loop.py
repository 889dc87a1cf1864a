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

from makewhole.backtesting._limited_loop import ThawTerms, thaw_left, turn_back
from makewhole.corrections._kernels import HELPERS, Step, none_observe, none_propose
from makewhole.jit import jit
from makewhole.rules import (
    Publishing,
    add_exactly,
    balance,
    concede,
    least_price,
    left_of,
    most_paid,
    publish,
    refine,
    released,
    room,
    stops,
    too_much,
    with_thaw,
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


def stopped(b: float, said: Any, limits: LateTerms, thawing: bool) -> bool:
    """Whether selling stops for a stake; `said` is (μ, c, μ̂, ĉ)."""
    mu, c, mu_hat, c_hat = said
    base_mu, base_c, _ = publish(mu_hat, c_hat, limits.spread, limits.how, 0.0)
    base, here = most_paid(b, abs(b), base_mu, base_c, 0.0), most_paid(b, abs(b), mu, c, 0.0)
    return b != 0.0 and stops(here, base, here, thawing)


def make_late_replay(
    propose: Callable[..., Any],
    observe: Callable[..., None],
    inner_propose: Callable[..., Any],
    inner_observe: Callable[..., None],
    composed: bool,
) -> Callable[..., int]:
    """Return the loop of Algorithm 1 over columns, where forecasts stay open until their outcome is known.

    Before each forecast, those that are due are settled, in the given order. The loop returns how many were
    settled.
    """

    def replay(
        memory: Any,
        book: Any,
        columns: Any,
        times: Any,
        people: Any,
        limits: LateTerms,
        totals: Any,
        out: Any,
    ) -> int:
        values, marks, inner_values, inner_marks = memory
        kept, free, counts, due_known, due_who, slot_of = book
        mu_hat, c_hat, outcome, net, gross = columns
        kind, amount, view = people  # empty if the log has stakes
        time, rows = times
        how, max_stake, capital, thaw, stop, _, last = limits
        c_out, lam_out, mu_out, loss_out, stake_out, total_out, settled_lam, settled_row = out
        total, low, potential, opened = totals[0], totals[1], totals[5], counts[0]
        at_risk, conceded, profit, settled = totals[8], totals[11], totals[12], int(totals[13])
        waiting = len(slot_of) - len(time)
        t, done = 0, 0
        while t < len(time) or (last and opened > 0):
            # An outcome known at the time of its own forecast still comes after that forecast.
            if opened > 0 and (
                t == len(time) or (due_known[done] <= time[t] and due_who[done] < waiting + t)
            ):
                opened -= 1
                settled += 1
                slot = slot_of[due_who[done]]
                free[opened] = slot
                loss, target, weight, lam = kept[slot, 0], kept[slot, 1], kept[slot, 2], kept[slot, 3]
                total, low = add_exactly(total, low, loss)
                potential = potential - kept[slot, 4] if opened > 0 else 0.0
                if kept.shape[1] > 8:
                    at_risk = released(at_risk, kept[slot, 10], opened)
                profit, extra, cost, lower = max(profit, -(total + low)), 0.0, 0.0, 0.0
                proposal, inner = recall(kept, slot)
                if lam > thaw.least:
                    cell, draws = (marks[-2], marks[-1]) if len(marks) > 1 else (0, 0)
                    lower = min(lam, propose(values, marks)[0])
                    turn_back(marks, cell, draws)
                    to_concede = thaw_left(thaw, settled, profit, conceded)
                    if lower > thaw.least and to_concede > 0.0:
                        extra, cost = concede(lower, 1.0 - weight, to_concede, max_stake)
                        conceded += cost
                if weight > 0.0 or extra > 0.0:
                    aim, both = with_thaw(target, weight, lam - lower, extra)
                    observe(values, marks, proposal, aim, both, loss - cost, 0.0)
                if composed:
                    extra, cost, lower = 0.0, 0.0, 0.0
                    if inner[0] > thaw.above:
                        cell, draws = (inner_marks[-2], inner_marks[-1]) if len(inner_marks) > 1 else (0, 0)
                        lower = min(inner[0], inner_propose(inner_values, inner_marks)[0])
                        turn_back(inner_marks, cell, draws)
                        if lower > thaw.above:
                            extra, cost = concede(lower, 1.0 - weight, math.inf, max_stake)
                    if weight > 0.0 or extra > 0.0:
                        aim, both = with_thaw(kept[slot, 7], weight, inner[0] - lower, extra)
                        inner_observe(inner_values, inner_marks, inner, aim, both, loss - cost, 0.0)
                total_out[done], settled_lam[done], settled_row[done] = total + low, lam, int(kept[slot, 5])
                done += 1
                continue
            inner, proposal = inner_propose(inner_values, inner_marks), propose(values, marks)
            width = refine(c_hat[t], inner[0]) if composed else c_hat[t]
            least = least_price(left_of(capital, total + low, at_risk), 1, max_stake, how.one_sided)
            mu, c, origin = publish(mu_hat[t], width, proposal[0], how, least)
            b, size = net[t], gross[t]
            if len(kind) > 0:
                b = would_stake(kind[t], amount[t], view[t], mu, c, outcome[t], how.one_sided)
                fair = would_stake(kind[t], amount[t], view[t], mu_hat[t], 0.0, outcome[t], how.one_sided)
                size, totals[7] = abs(b), totals[7] + abs(fair)
                if kind[t] < 3:
                    totals[14 + kind[t]] += abs(fair)
            risk = worst_loss(b, size, mu, c, 0.0)
            thawing = proposal[0] > thaw.least and thaw_left(thaw, settled, profit, conceded) > 0.0
            said = (mu, c, mu_hat[t], c_hat[t])
            if too_much(capital, total + low, at_risk, 0.0, risk) or (
                stop and stopped(b, said, limits, thawing)
            ):
                totals[9], totals[10] = totals[9] + 1.0, totals[10] + size
                b, size, risk = 0.0, 0.0, 0.0
            at_risk += risk
            if len(kind) > 0 and kind[t] < 3:
                totals[17 + kind[t]] += size
            lesson = balance(mu, c, origin, outcome[t], b, size, max_stake)
            slot, full = free[opened], room(mu, c, how.one_sided, max_stake)
            hold(kept, slot, rows[t], (full, risk), lesson, lesson[1] + origin - c_hat[t], proposal, inner)
            slot_of[waiting + t], opened, potential = slot, opened + 1, potential + full
            if opened > 1:
                totals[6], counts[1] = max(totals[6], potential), max(counts[1], opened)
            c_out[t], lam_out[t], mu_out[t], loss_out[t], stake_out[t] = c, proposal[0], mu, lesson[0], b
            t += 1
        totals[0], totals[1], totals[5], counts[0] = total, low, potential, opened
        totals[8], totals[11], totals[12], totals[13] = at_risk, conceded, profit, settled
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
    kernels = (propose, observe, inner_propose, inner_observe)
    replay = make_late_replay(*kernels, composed=inner is not None)
    own = (would_stake, hold, recall, stopped, thaw_left, turn_back)
    return jit(replay, *HELPERS, *own, *kernels)
