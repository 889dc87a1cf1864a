"""The loop of a backtest with a capital, with lines of capital for named customers, or with a thaw.

Every outcome is known before the next forecast, and each forecast has one stake. So nothing else is ever open
when a stake is placed. `names` are (by, accounts, limits): by[t] has the numbers of her levels, the widest
first, −1 for one without a name (no columns if none has). accounts[who] = [what she has taken, what rounding
cut off from that, what had thawed of her line, after how many settled forecasts]. limits[who] has two rows,
as a customer and as a group above one, each a `Limit`; a single one is for all. totals = [loss, what rounding
cut off from it, sum of c, how many c < 0, loss at the model's odds, turnover, refused stakes, their sum, what
the thaw has conceded, the largest profit].
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

from makewhole.corrections._kernels import HELPERS, Step, none_observe, none_propose
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
    most_paid,
    own_price,
    publish,
    refine,
    stops,
    surcharge,
    thaw_allowed,
    thawed_line,
    too_much,
    with_surcharge,
    with_thaw,
    worst_loss,
)


class LineTerms(NamedTuple):
    """What all lines have in common, as in `LineBook`."""

    top: float
    keep_gains: bool
    spread: float
    thaw: float


class ThawTerms(NamedTuple):
    """A `Thaw`; `least` is the least λ that it lowers. Both are infinite without one."""

    budget: float
    per_forecast: float
    root: float
    share: float
    above: float
    least: float


class Limits(NamedTuple):
    """How forecasts are published, the cap M, and what limits stakes; `capital` is infinite without one.

    With `stop`, selling stops where a stake can win too little; `spread` is what the base's price is without.
    """

    how: Publishing
    max_stake: float
    capital: float
    lines: LineTerms
    thaw: ThawTerms
    stop: bool
    spread: float


def last_of(by: Any, t: int) -> int:
    """Return which of her levels is her own name: the last that is there, or −1."""
    last: int = by.shape[1] - 1
    while last >= 0 and by[t, last] < 0:
        last -= 1
    return last


def limit_of(limits: Any, who: int, row: int) -> tuple[float, float, float, float]:
    """Return the limits of a name: row 0 as a customer, row 1 as a group."""
    at = who if len(limits) > 1 else 0
    return limits[at, row, 0], limits[at, row, 1], limits[at, row, 2], limits[at, row, 3]


def thawed_of(accounts: Any, who: int, limit: Any, thaw: float, rounds: int) -> float:
    """Return what has thawed of a line by now."""
    taken, since = accounts[who, 0] + accounts[who, 1], rounds - accounts[who, 3]
    return thawed_line(limit[0], limit[2], thaw, taken, accounts[who, 2], since)


def price_of(names: Any, t: int, lines: LineTerms, rounds: int) -> float:
    """Return a customer's price, the highest among her levels; −1 without a name."""
    by, accounts, limits = names
    last, price = last_of(by, t), lines.spread
    for k in range(last + 1):
        who = by[t, k]
        if who >= 0:
            limit = limit_of(limits, who, 0 if k == last else 1)
            line = limit[0] + thawed_of(accounts, who, limit, lines.thaw, rounds)
            left = left_of(line, accounts[who, 0], accounts[who, 1])
            price = line_price(left, 0.0, limit[2], limit[3], lines.top, price)
    return price if last >= 0 else -1.0


def beyond(names: Any, t: int, size: float, risk: float, lines: LineTerms, rounds: int) -> bool:
    """Whether a stake is more than her share of the cap, or can take more than one of her lines leaves."""
    by, accounts, limits = names
    last = last_of(by, t)
    for k in range(last + 1):
        who = by[t, k]
        if who >= 0:
            limit = limit_of(limits, who, 0 if k == last else 1)
            line = limit[0] + thawed_of(accounts, who, limit, lines.thaw, rounds)
            taken = accounts[who, 0] + accounts[who, 1]
            if size > limit[1] * (1.0 + 2.0**-50) or too_much(line, taken, 0.0, 0.0, risk):
                return True
    return False


def stopped(b: float, said: Any, more: float, how: Publishing, spread: float, thawing: bool) -> bool:
    """Whether selling stops for a stake; `said` is (μ, c, μ̂, ĉ), and `more` her surcharge."""
    mu, c, mu_hat, c_hat = said
    base_mu, base_c, _ = publish(mu_hat, c_hat, spread, how, 0.0)
    base = most_paid(b, abs(b), base_mu, base_c, 0.0)
    most, common = most_paid(b, abs(b), mu, c, more), most_paid(b, abs(b), mu, c, 0.0)
    return b != 0.0 and stops(most, base, common, thawing)


def pay(names: Any, t: int, paid: float, lines: LineTerms, rounds: int) -> None:
    """Add what she was paid to the accounts of her levels."""
    by, accounts, limits = names
    last = last_of(by, t)
    for k in range(last + 1):
        who = by[t, k]
        if who >= 0:
            limit = limit_of(limits, who, 0 if k == last else 1)
            accounts[who, 2] = thawed_of(accounts, who, limit, lines.thaw, rounds)
            accounts[who, 3] = rounds
            taken, low = add_exactly(accounts[who, 0], accounts[who, 1], paid)
            if taken < 0.0 and not lines.keep_gains:
                taken = low = 0.0
            accounts[who, 0], accounts[who, 1] = taken, low


def thaw_left(thaw: ThawTerms, rounds: int, profit: float, conceded: float) -> float:
    """Return what a thaw may still concede after this many settled forecasts."""
    return thaw_allowed(thaw.budget, thaw.per_forecast, thaw.root, thaw.share, rounds, profit) - conceded


def turn_back(marks: Any, cell: int, draws: int) -> None:
    """Undo what an unused proposal has changed: with swap corrections, the current cell."""
    if len(marks) > 1:
        marks[-2], marks[-1] = cell, draws


def make_learn(propose: Callable[..., Any], observe: Callable[..., None]) -> Callable[..., float]:
    """Return a function that lets a correction learn, in one step with a thaw, as `Memories.learn` does.

    It takes the lesson (target, weight, loss), the least λ that a thaw lowers, and the most that it may
    concede; it returns what that was.
    """

    def learn(
        values: Any, marks: Any, proposal: Step, lesson: Any, least: float, left: float, max_stake: float
    ) -> float:
        target, weight, loss = lesson
        lam, lower, extra, cost = proposal[0], 0.0, 0.0, 0.0
        if lam > least and left > 0.0:
            cell, draws = (marks[-2], marks[-1]) if len(marks) > 1 else (0, 0)
            lower = min(lam, propose(values, marks)[0])
            turn_back(marks, cell, draws)
            if lower > least:
                extra, cost = concede(lower, 1.0 - weight, left, max_stake)
        if weight > 0.0 or extra > 0.0:
            aim, both = with_thaw(target, weight, lam - lower, extra)
            observe(values, marks, proposal, aim, both, loss - cost, 0.0)
        return cost

    return learn


def make_limited_replay(
    propose: Callable[..., Any],
    learn: Callable[..., float],
    inner_propose: Callable[..., Any],
    inner_learn: Callable[..., float],
    composed: bool,
) -> Callable[..., None]:
    """Return the loop of Algorithm 1 over columns, with a capital, lines and a thaw.

    `book` is (names, how many forecasts were settled before).
    """

    def replay(memory: Any, columns: Any, book: Any, limits: Limits, totals: Any, out: Any) -> None:
        values, marks, inner_values, inner_marks = memory
        (mu_hat, c_hat, outcome, net, gross), (names, rounds) = columns, book
        how, max_stake, capital, lines, thaw, stop, spread = limits
        c_out, lam_out, total_out, mu_out, loss_out = out  # the last two are empty if not wanted
        total, low, conceded, profit = totals[0], totals[1], totals[8], totals[9]
        for t in range(len(mu_hat)):
            inner, proposal = inner_propose(inner_values, inner_marks), propose(values, marks)
            width = refine(c_hat[t], inner[0]) if composed else c_hat[t]
            left = left_of(capital, total + low, 0.0)
            least = least_price(left, 1, max_stake, how.one_sided)
            mu, c, origin = publish(mu_hat[t], width, proposal[0], how, least)
            b, size, loss, told, target, weight = net[t], gross[t], 0.0, 0.0, 0.0, 0.0
            price, more = price_of(names, t, lines, rounds + t), 0.0
            if price >= 0.0:
                own_mu, own_c = own_price(mu, c, mu_hat[t], price, how.one_sided, how.sound)
                more = surcharge(b, mu, c, own_mu, own_c)
            risk = worst_loss(b, size, mu, c, more)
            thawing = proposal[0] > thaw.least and thaw_left(thaw, rounds + t, profit, conceded) > 0.0
            said = (mu, c, mu_hat[t], c_hat[t])
            if (
                too_much(capital, total + low, 0.0, 0.0, risk)
                or beyond(names, t, size, risk, lines, rounds + t)
                or (stop and stopped(b, said, more, how, spread, thawing))
            ):
                totals[6], totals[7] = totals[6] + 1.0, totals[7] + size
            else:
                loss, target, weight = balance(mu, c, origin, outcome[t], b, size, max_stake)
                loss, target = with_surcharge(loss, target, more, size, how.sound)
                told = learned_loss(loss, more, how.sound)
                total, low = add_exactly(total, low, loss)
                pay(names, t, loss, lines, rounds + t + 1)
                totals[4], totals[5] = totals[4] + b * (outcome[t] - mu_hat[t]), totals[5] + size
            profit = max(profit, -(total + low))
            left = thaw_left(thaw, rounds + t + 1, profit, conceded)
            own, lesson = target + origin - c_hat[t], (target, weight, told)
            conceded += learn(values, marks, proposal, lesson, thaw.least, left, max_stake)
            lesson = (own, weight, told)
            inner_learn(inner_values, inner_marks, inner, lesson, thaw.above, math.inf, max_stake)
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
    learn, inner_learn = make_learn(propose, observe), make_learn(inner_propose, inner_observe)
    replay = make_limited_replay(propose, learn, inner_propose, inner_learn, composed=inner is not None)
    own = (last_of, limit_of, thawed_of, price_of, beyond, stopped, pay, thaw_left, turn_back)
    kernels = (propose, observe, inner_propose, inner_observe, learn, inner_learn)
    return jit(replay, *HELPERS, *own, *kernels)
