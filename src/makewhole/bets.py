"""Fair bets on a binary event: who pays whom, in three forms, and what a decision can lose.

One sign convention everywhere: the agent *receives*, and the forecaster *loses*,

    payment(b, y) = b·(y − μ) − |b|·c

Free functions without state. Scalars in, floats out; arrays broadcast over events. Any finite `c` is a
price; it is also a belief when `c >= 0` and `[μ − c, μ + c]` lies in [0, 1].
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from makewhole import arguments

# A contract that `payment` computed must pass Lemma 1 although both round: a few units in the last place.
_ROUNDING = 8 * float(np.finfo(np.float64).eps)


class Premium(NamedTuple):
    """A bet in insurance form: pay `price` now, receive `payout` if the outcome is `pays_on`."""

    price: Any
    payout: Any
    pays_on: Any


class LossBounds(NamedTuple):
    """An action's expected loss under μ − c … μ + c: the least, the one under μ, the most."""

    low: Any
    expected: Any
    high: Any


class Acceptance(NamedTuple):
    """Lemma 1's answer: must the forecaster accept, and which stake is at least as good for the agent."""

    accepts: Any
    stake: Any


def payment(stake: Any, outcome: Any, mu: Any, c: Any) -> Any:
    """What the agent receives, and the forecaster loses, once the outcome is known.

    Parameters
    ----------
    stake
        The agent's stake b, of any sign.
    outcome
        0 or 1.
    mu, c
        The forecast: a probability and its half-width.

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
    return arguments.plain(b * (y - m) - np.abs(b) * width)


def premium(stake: Any, mu: Any, c: Any) -> Premium:
    """The bet as people know insurance: a price now, a payout if the event goes the wrong way.

    A stake b > 0 costs b·(μ + c) and pays b on 1; b < 0 costs |b|·(1 − μ + c) and pays |b| on 0. So μ + c
    is the ask, μ − c the bid and 2c the spread.

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
    """Price delay insurance: what the customer pays if there is no delay, to receive `payout` if there is.

    It is the stake b = payout + quote. There is no such quote where μ + c reaches 1.

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
    """The stake l(1) − l(0) that makes the total loss the same for both outcomes.

    Examples
    --------
    >>> import makewhole as mw
    >>> mw.hedge((2, -10))  # lose 2 if not effective, gain 10 if effective
    -12.0
    """
    table = arguments.pairs("losses", losses)
    return arguments.plain(table[..., 1] - table[..., 0])


def loss_bounds(losses: Any, mu: Any, c: Any) -> LossBounds:
    """Expected loss under every probability in [μ − c, μ + c]: the least, under μ, the most.

    With the hedge the agent's total loss is `high` for both outcomes, whatever the true probability.

    Examples
    --------
    >>> import makewhole as mw
    >>> mw.loss_bounds((2, -10), mu=0.5, c=0.125)
    LossBounds(low=-5.5, expected=-4.0, high=-2.5)
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
    """Lemma 1: whether a forecaster who believes [μ − c, μ + c] must be willing to lose f(0), f(1).

    It must exactly when f loses nothing in expectation under every probability it believes possible, and
    then the stake b = f(1) − f(0) pays the agent at least as much for both outcomes. Contracts within
    rounding of fair are accepted.

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
