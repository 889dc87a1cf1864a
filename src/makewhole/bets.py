"""Fair bets on a binary event: payments, premiums, hedges, and the losses that they bound.

An agent who stakes b on a forecast (μ, c) receives, and the forecaster loses,

    payment(b, y) = b·(y − μ) − |b|·c

once the outcome y, 0 or 1, is known. Here μ is the forecast probability that y = 1, and c, the half-width, is
the price of the bet per unit staked. c may be any finite number. If c >= 0 and [μ − c, μ + c] lies inside
[0, 1], it is also an interval of probabilities.

The functions take numbers or arrays, which broadcast over events, and return floats or arrays.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from makewhole import arguments, rules

# Tolerance for Lemma 1, a few units in the last place: contracts that `payment` has rounded must pass.
_ROUNDING = 8 * float(np.finfo(np.float64).eps)


class Premium(NamedTuple):
    """A bet in insurance form: pay `price` now, receive `payout` if the outcome is `pays_on`."""

    price: Any
    payout: Any
    pays_on: Any


class LossBounds(NamedTuple):
    """The expected loss of an action: the smallest in [μ − c, μ + c], the one under μ, and the largest.

    With c < 0 that interval is empty, and `low` lies above `high`: see `loss_bounds`.
    """

    low: Any
    expected: Any
    high: Any


class Acceptance(NamedTuple):
    """Whether the forecaster must accept a contract, and a stake that is at least as good for the agent."""

    accepts: Any
    stake: Any


def payment(stake: Any, outcome: Any, mu: Any, c: Any) -> Any:
    """Return what the agent receives, and the forecaster loses, once the outcome is known.

    Parameters
    ----------
    stake
        The agent's stake b: positive to bet that y = 1, negative to bet that y = 0.
    outcome
        0 or 1.
    mu, c
        The forecast: a probability and its half-width.

    Raises
    ------
    ValueError
        If `mu` lies outside [0, 1], an outcome is not 0 or 1, or the shapes do not broadcast.

    Examples
    --------
    >>> import makewhole as mw
    >>> mw.payment(stake=-12, outcome=0, mu=0.5, c=0.0)
    6.0
    >>> mw.payment(stake=[10, -10], outcome=1, mu=0.25, c=0.125)
    array([ 6.25, -8.75])
    """
    b = arguments.numbers("stake", stake)
    y = arguments.binary_outcomes("outcome", outcome)
    m = arguments.probabilities("mu", mu)
    width = arguments.numbers("c", c)
    arguments.together(stake=b, outcome=y, mu=m, c=width)
    return arguments.plain(rules.payment(b, y, m, width))


def premium(stake: Any, mu: Any, c: Any) -> Premium:
    """Return the bet in insurance form: a price to pay now, and a payout if the event goes the wrong way.

    A stake b > 0 costs b·(μ + c) and pays b if y = 1. A stake b < 0 costs |b|·(1 − μ + c) and pays |b| if
    y = 0. In market terms, μ + c is the ask, μ − c the bid and 2c the spread.

    Examples
    --------
    >>> import makewhole as mw
    >>> mw.premium(stake=100, mu=0.25, c=0.05)
    Premium(price=30.0, payout=100.0, pays_on=1)
    >>> mw.premium(stake=-100, mu=0.25, c=0.05)
    Premium(price=80.0, payout=100.0, pays_on=0)
    """
    b = arguments.numbers("stake", stake)
    m = arguments.probabilities("mu", mu)
    width = arguments.numbers("c", c)
    arguments.together(stake=b, mu=m, c=width)
    b, m, width = np.broadcast_arrays(b, m, width)
    price = np.abs(b) * (np.where(b < 0, 1 - m, m) + width)
    pays_on = np.where(b < 0, 0, 1)
    return Premium(arguments.plain(price), arguments.plain(np.abs(b)), arguments.plain(pays_on))


def delay_quote(payout: Any, mu: Any, c: Any) -> Any:
    """Return what a customer pays if there is no delay, in exchange for `payout` if there is one.

    This is a bet with the stake b = payout + quote. Raises a ValueError if μ + c is 1 or more: no such quote
    exists.

    Examples
    --------
    >>> import makewhole as mw
    >>> quote = mw.delay_quote(payout=300, mu=0.20, c=0.05)
    >>> quote
    100.0
    >>> mw.payment(300 + quote, outcome=[1, 0], mu=0.20, c=0.05)
    array([ 300., -100.])
    """
    received = arguments.numbers("payout", payout)
    m = arguments.probabilities("mu", mu)
    width = arguments.numbers("c", c)
    arguments.together(payout=received, mu=m, c=width)
    arguments.reject("payout", received, received < 0, "must not be negative")
    ask = np.asarray(m + width)
    arguments.reject("mu + c", ask, ask >= 1, "must be below 1 for delay insurance")
    return arguments.plain(received * ask / (1 - ask))


def hedge(losses: Any) -> Any:
    """Return the stake l(1) − l(0), which makes the total loss the same for both outcomes.

    `losses` are an action's losses (if y = 0, if y = 1), on the last axis.

    Examples
    --------
    >>> import makewhole as mw
    >>> mw.hedge((2, -10))  # lose 2 if not effective, gain 10 if effective
    -12.0
    """
    table = arguments.pairs("losses", losses)
    return arguments.plain(table[..., 1] - table[..., 0])


def loss_bounds(losses: Any, mu: Any, c: Any) -> LossBounds:
    """Return the smallest and largest expected loss in [μ − c, μ + c], and the one under μ.

    `losses` are an action's losses (if y = 0, if y = 1), on the last axis. `low` and `high` are
    `expected` ∓ c·|l(1) − l(0)|. If the agent stakes `hedge(losses)`, its total loss is `high` for both
    outcomes, regardless of the true probability and for every c.

    They are bounds on an expected loss only if c >= 0 and [μ − c, μ + c] lies inside [0, 1]
    (`Forecast.is_interval`). Beyond [0, 1], `high` can exceed the larger of the two losses: the hedge then
    costs more than it can pay. With c < 0, a price at which the agent is paid to bet, the interval is empty:
    `low` lies above `expected`, and `high`, still the total loss with the hedge, below it.

    Examples
    --------
    >>> import makewhole as mw
    >>> mw.loss_bounds((2, -10), mu=0.5, c=0.125)
    LossBounds(low=-5.5, expected=-4.0, high=-2.5)
    >>> mw.loss_bounds((0, 8), mu=0.5, c=-0.125)  # no interval: only `high` has a meaning
    LossBounds(low=5.0, expected=4.0, high=3.0)
    """
    table = arguments.pairs("losses", losses)
    m = arguments.probabilities("mu", mu)
    width = arguments.numbers("c", c)
    if_0, if_1 = table[..., 0], table[..., 1]
    arguments.together(losses=if_0, mu=m, c=width)
    expected = m * if_1 + (1 - m) * if_0
    half = width * np.abs(if_1 - if_0)
    return LossBounds(*(arguments.plain(v) for v in (expected - half, expected, expected + half)))


def must_accept(contract: Any, mu: Any, c: Any) -> Acceptance:
    """Return whether a forecaster who stands behind [μ − c, μ + c] must accept a contract (Lemma 1).

    The contract (f(0), f(1)) is what the forecaster loses if y = 0 and if y = 1. It must accept exactly when
    its expected loss is at most 0 (up to rounding) under every probability in [μ − c, μ + c]. The stake
    b = f(1) − f(0), which is also returned, then pays the agent at least as much for both outcomes.

    Raises a ValueError if [μ − c, μ + c] does not lie inside [0, 1].

    Examples
    --------
    >>> import makewhole as mw
    >>> mw.must_accept((-4, 6), mu=0.5, c=0.1)  # lose 6 for heads, win 4 for tails
    Acceptance(accepts=False, stake=10.0)
    >>> mw.must_accept((-6, 4), mu=0.5, c=0.1)  # lose 4 for heads, win 6 for tails
    Acceptance(accepts=True, stake=10.0)
    """
    f = arguments.pairs("contract", contract)
    m = arguments.probabilities("mu", mu)
    width = arguments.numbers("c", c)
    if_0, if_1 = f[..., 0], f[..., 1]
    arguments.together(contract=if_0, mu=m, c=width)
    ends = np.asarray(np.minimum(np.minimum(m - width, 1 - m - width), width))
    arguments.reject(
        "[mu - c, mu + c]", ends, ends < -_ROUNDING, "must lie in [0, 1] with c >= 0", " outside"
    )
    b = if_1 - if_0
    most_expected = if_0 + b * m + np.abs(b) * width
    scale = np.abs(if_0) + np.abs(if_1)
    return Acceptance(arguments.plain(most_expected <= _ROUNDING * scale), arguments.plain(b))
