"""The loop of a backtest with a capital, with lines of capital for named customers, or with a thaw.

Every outcome is known before the next forecast, and each forecast has one stake. So nothing else is ever open
when a stake is placed. accounts[who] = [line, scale of its price, what she has taken, what rounding cut off
from that]. by[t] has the numbers of her levels, −1 for one without a name: no columns if none has. totals =
[loss, what rounding cut off from it, sum of c, how many c < 0, loss at the model's odds, turnover, refused
stakes, their sum, what the thaw has conceded, the largest profit].
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

from makewhole.corrections._kernels import HELPERS, none_observe, none_propose
from makewhole.jit import jit
from makewhole.rules import (
    Publishing,
    add_exactly,
    balance,
    concede,
    learned_loss,
    least_price,
    left_of,
    line_price,
    own_price,
    publish,
    refine,
    surcharge,
    thaw_allowed,
    too_much,
    with_surcharge,
    with_thaw,
    worst_loss,
)


class LineTerms(NamedTuple):
    """What all lines have in common, as in `LineBook`."""

    room: float
    margin: float
    top: float
    keep_gains: bool
    spread: float


class ThawTerms(NamedTuple):
    """A `Thaw`; `least` is the least λ that it lowers. Both are infinite without one."""

    budget: float
    per_forecast: float
    root: float
    share: float
    above: float
    least: float


class Limits(NamedTuple):
    """How forecasts are published, the cap M, and what limits stakes; `capital` is infinite without one."""

    how: Publishing
    max_stake: float
    capital: float
    lines: LineTerms
    thaw: ThawTerms


def surcharge_of(
    names: Any, t: int, b: float, said: tuple[float, float, float], lines: LineTerms, how: Publishing
) -> float:
    """Return what a stake costs a customer in addition to the published price; `said` is (μ, c, μ̂).

    Here and below `names` are (by, accounts). Her price is the highest among her levels.
    """
    by, accounts = names
    mu, c, mu_hat = said
    price, named = lines.spread, False
    for k in range(by.shape[1]):
        who = by[t, k]
        if who >= 0:
            left = left_of(accounts[who, 0], accounts[who, 2], accounts[who, 3])
            price = line_price(left, 0.0, accounts[who, 1], lines.room, lines.margin, lines.top, price)
            named = True
    if not named:
        return 0.0
    own_mu, own_c = own_price(mu, c, mu_hat, price, how.one_sided, how.sound)
    return surcharge(b, mu, c, own_mu, own_c)


def refused(names: Any, t: int, risk: float, capital: float, lost: float) -> bool:
    """Whether a stake that can lose this much is more than the capital, or one of her lines, leaves."""
    by, accounts = names
    for k in range(by.shape[1]):
        who = by[t, k]
        if who >= 0:
            taken = accounts[who, 2] + accounts[who, 3]
            if too_much(accounts[who, 0], taken, 0.0, 0.0, risk):
                return True
    return too_much(capital, lost, 0.0, 0.0, risk)


def pay(names: Any, t: int, paid: float, keep_gains: bool) -> None:
    """Add what she was paid to the accounts of her levels."""
    by, accounts = names
    for k in range(by.shape[1]):
        who = by[t, k]
        if who >= 0:
            taken, low = add_exactly(accounts[who, 2], accounts[who, 3], paid)
            if taken < 0.0 and not keep_gains:
                taken = low = 0.0
            accounts[who, 2], accounts[who, 3] = taken, low


def thaw_left(thaw: ThawTerms, rounds: int, profit: float, conceded: float) -> float:
    """Return what a thaw may still concede after this many settled forecasts."""
    return thaw_allowed(thaw.budget, thaw.per_forecast, thaw.root, thaw.share, rounds, profit) - conceded


def turn_back(marks: Any, cell: int, draws: int) -> None:
    """Undo what an unused proposal has changed: with swap corrections, the current cell."""
    if len(marks) > 1:
        marks[-2], marks[-1] = cell, draws


def make_limited_replay(
    propose: Callable[..., Any],
    observe: Callable[..., None],
    inner_propose: Callable[..., Any],
    inner_observe: Callable[..., None],
    composed: bool,
) -> Callable[..., None]:
    """Return the loop of Algorithm 1 over columns, with a capital, lines and a thaw.

    `book` is ((by, accounts), how many forecasts were settled before).
    """

    def replay(memory: Any, columns: Any, book: Any, limits: Limits, totals: Any, out: Any) -> None:
        values, marks, inner_values, inner_marks = memory
        (mu_hat, c_hat, outcome, net, gross), (names, rounds) = columns, book
        how, max_stake, capital, lines, thaw = limits
        c_out, lam_out, total_out, mu_out, loss_out = out  # the last two are empty if not wanted
        total, low, conceded, profit = totals[0], totals[1], totals[8], totals[9]
        for t in range(len(mu_hat)):
            inner, proposal = inner_propose(inner_values, inner_marks), propose(values, marks)
            width = refine(c_hat[t], inner[0]) if composed else c_hat[t]
            left = left_of(capital, total + low, 0.0)
            least = least_price(left, 1, max_stake, how.one_sided)
            mu, c, origin = publish(mu_hat[t], width, proposal[0], how, least)
            b, size, loss, told, target, weight = net[t], gross[t], 0.0, 0.0, 0.0, 0.0
            more = surcharge_of(names, t, b, (mu, c, mu_hat[t]), lines, how)
            if refused(names, t, worst_loss(b, size, mu, c, more), capital, total + low):
                totals[6], totals[7] = totals[6] + 1.0, totals[7] + size
            else:
                loss, target, weight = balance(mu, c, origin, outcome[t], b, size, max_stake)
                loss, target = with_surcharge(loss, target, more, size, how.sound)
                told = learned_loss(loss, more, how.sound)
                total, low = add_exactly(total, low, loss)
                pay(names, t, loss, lines.keep_gains)
                totals[4], totals[5] = totals[4] + b * (outcome[t] - mu_hat[t]), totals[5] + size
            profit, extra, cost, lower = max(profit, -(total + low)), 0.0, 0.0, 0.0
            if proposal[0] > thaw.least:
                cell, draws = (marks[-2], marks[-1]) if len(marks) > 1 else (0, 0)
                lower = min(proposal[0], propose(values, marks)[0])
                turn_back(marks, cell, draws)
                to_concede = thaw_left(thaw, rounds + t + 1, profit, conceded)
                if lower > thaw.least and to_concede > 0.0:
                    extra, cost = concede(lower, 1.0 - weight, to_concede, max_stake)
                    conceded += cost
            if weight > 0.0 or extra > 0.0:
                aim, both = with_thaw(target, weight, proposal[0] - lower, extra)
                observe(values, marks, proposal, aim, both, told - cost, 0.0)
            extra, cost = 0.0, 0.0
            if inner[0] > thaw.above:
                cell, draws = (inner_marks[-2], inner_marks[-1]) if len(inner_marks) > 1 else (0, 0)
                lower = min(inner[0], inner_propose(inner_values, inner_marks)[0])
                turn_back(inner_marks, cell, draws)
                if lower > thaw.above:
                    extra, cost = concede(lower, 1.0 - weight, math.inf, max_stake)
            if weight > 0.0 or extra > 0.0:
                aim, both = with_thaw(target + origin - c_hat[t], weight, inner[0] - lower, extra)
                inner_observe(inner_values, inner_marks, inner, aim, both, told - cost, 0.0)
            totals[2], totals[3] = totals[2] + c, totals[3] + (1.0 if c < 0.0 else 0.0)
            c_out[t], lam_out[t], total_out[t] = c, proposal[0], total + low
            if len(mu_out) > 0:
                mu_out[t], loss_out[t] = mu, loss
        totals[0], totals[1], totals[8], totals[9] = total, low, conceded, profit

    return replay


@functools.cache
def compiled_limited_replay(
    propose: Callable[..., Any],
    observe: Callable[..., None],
    inner: tuple[Callable[..., Any], Callable[..., None]] | None = None,
) -> Callable[..., None]:
    """Return the compiled loop for one of our corrections, or for a reserve over one."""
    inner_propose, inner_observe = inner or (none_propose, none_observe)
    kernels = (propose, observe, inner_propose, inner_observe)
    replay = make_limited_replay(*kernels, composed=inner is not None)
    own = (surcharge_of, refused, pay, thaw_left, turn_back)
    return jit(replay, *HELPERS, *own, *kernels)
