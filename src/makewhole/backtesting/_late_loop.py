"""The loop of a backtest whose outcomes come late, or whose customers decide when they see a forecast.

Open forecasts stand in slots. kept[slot] = [loss, target, weight, λ, room, row, mark, inner target],
where row is that in the log, room what the forecast could lose staked in full, and mark twice the cell, + 1
if split. Only a correction over another needs what comes after: [inner λ, inner mark]. So a forecast
takes one line of the processor's cache, or two: with a million open, settling one is mostly waiting for its
line. free[open:] are the free slots. counts = [open forecasts, the most that were open together]. The
order in which forecasts settle is sorted beforehand: due = [when known], [who]. Of a chunk's forecasts, the
first is number `waiting` there: those that were already open come first. slot_of has the slot of each.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from makewhole.corrections._kernels import HELPERS, Step, none_observe, none_propose
from makewhole.jit import jit
from makewhole.rules import add_exactly, balance, publish, refine, room


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
    kept: Any, slot: int, row: int, potential: float, lesson: Any, own: float, proposal: Step, inner: Step
) -> None:
    """Put an open forecast into a slot: (loss, target, weight), and what was proposed for it."""
    kept[slot, 0], kept[slot, 1], kept[slot, 2] = lesson
    kept[slot, 3], kept[slot, 4], kept[slot, 5] = proposal[0], potential, row
    kept[slot, 6], kept[slot, 7] = 2 * proposal[1] + (1 if proposal[2] else 0), own
    if kept.shape[1] > 8:
        kept[slot, 8], kept[slot, 9] = inner[0], 2 * inner[1] + (1 if inner[2] else 0)


def recall(kept: Any, slot: int) -> tuple[Step, Step]:
    """Return the two proposals of an open forecast: the correction's, and its inner correction's."""
    mark, inner_lam, inner_mark = int(kept[slot, 6]), 0.0, 0
    if kept.shape[1] > 8:
        inner_lam, inner_mark = kept[slot, 8], int(kept[slot, 9])
    own = (kept[slot, 3], mark >> 1, mark & 1 != 0)
    return own, (inner_lam, inner_mark >> 1, inner_mark & 1 != 0)


def make_late_replay(
    propose: Callable[..., Any],
    observe: Callable[..., None],
    inner_propose: Callable[..., Any],
    inner_observe: Callable[..., None],
    composed: bool,
) -> Callable[..., int]:
    """Return the loop of Algorithm 1 over columns, where forecasts stay open until their outcome is known.

    Before each forecast, those that are due are settled, in the given order. The loop returns how many were
    settled. With `last`, all open forecasts are settled at the end.
    """

    def replay(
        memory: Any, book: Any, columns: Any, times: Any, people: Any, settings: Any, totals: Any, out: Any
    ) -> int:
        values, marks, inner_values, inner_marks = memory
        kept, free, counts, due_known, due_who, slot_of = book
        mu_hat, c_hat, outcome, net, gross = columns
        kind, amount, view = people  # empty if the log has stakes
        (time, rows), (how, max_stake, last) = times, settings
        c_out, lam_out, mu_out, loss_out, stake_out, total_out, settled_lam, settled_row = out
        total, low, potential, opened = totals[0], totals[1], totals[5], counts[0]
        waiting = len(slot_of) - len(time)
        t, done = 0, 0
        while t < len(time) or (last and opened > 0):
            # An outcome known at the time of its own forecast still comes after that forecast.
            if opened > 0 and (
                t == len(time) or (due_known[done] <= time[t] and due_who[done] < waiting + t)
            ):
                opened -= 1
                slot = slot_of[due_who[done]]
                free[opened] = slot
                loss, target, weight, lam = kept[slot, 0], kept[slot, 1], kept[slot, 2], kept[slot, 3]
                total, low = add_exactly(total, low, loss)
                potential = potential - kept[slot, 4] if opened > 0 else 0.0
                if weight > 0.0:
                    proposal, inner = recall(kept, slot)
                    observe(values, marks, proposal, target, weight, loss, 0.0)
                    inner_observe(inner_values, inner_marks, inner, kept[slot, 7], weight, loss, 0.0)
                total_out[done], settled_lam[done], settled_row[done] = total + low, lam, int(kept[slot, 5])
                done += 1
                continue
            inner, proposal = inner_propose(inner_values, inner_marks), propose(values, marks)
            width = refine(c_hat[t], inner[0]) if composed else c_hat[t]
            mu, c, origin = publish(mu_hat[t], width, proposal[0], how, 0.0)
            b, size = net[t], gross[t]
            if len(kind) > 0:
                b = would_stake(kind[t], amount[t], view[t], mu, c, outcome[t], how.one_sided)
                fair = would_stake(kind[t], amount[t], view[t], mu_hat[t], 0.0, outcome[t], how.one_sided)
                size, totals[7] = abs(b), totals[7] + abs(fair)
            lesson = balance(mu, c, origin, outcome[t], b, size, max_stake)
            slot, full = free[opened], room(mu, c, how.one_sided, max_stake)
            hold(kept, slot, rows[t], full, lesson, lesson[1] + origin - c_hat[t], proposal, inner)
            slot_of[waiting + t], opened, potential = slot, opened + 1, potential + full
            if opened > 1:
                totals[6], counts[1] = max(totals[6], potential), max(counts[1], opened)
            c_out[t], lam_out[t], mu_out[t], loss_out[t], stake_out[t] = c, proposal[0], mu, lesson[0], b
            t += 1
        totals[0], totals[1], totals[5], counts[0] = total, low, potential, opened
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
    own = (would_stake, hold, recall)
    return jit(replay, *HELPERS, *own, *kernels)
