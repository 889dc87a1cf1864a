"""Evidence against what was published: the money of a bettor who stakes on every forecast.

If the truth always lies within c of μ, given what happened before, her money has no upward drift. So the
chance that it ever reaches 1/p times what she began with is at most p (Ville's inequality).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from makewhole.arguments import Floats

# Her money: the most she ever had, and what she has now on each of the two sides.
Money = tuple[float, float, float]

# She begins with 1, half of it for each side.
START: Money = (1.0, 0.5, 0.5)

_SHARE = 0.15  # the part of her money that she stakes on each forecast

_BLOCK = 1024  # forecasts per block
ENOUGH = 1e200  # then she stops: this is evidence enough, and more would overflow


def bet(money: Money, mu: float, c: float, y: float) -> Money:
    """Her money after one more forecast.

    A price below 0 counts as 0, and one above 1 as 1: no interval needs to be wider. So she loses at most
    twice what she stakes, and never owes anything.

    Examples
    --------
    >>> from makewhole.insured.evidence import START, bet
    >>> money = START
    >>> for _ in range(30):
    ...     money = bet(money, mu=0.5, c=0.1, y=1)  # it should not happen thirty times in a row
    >>> round(1 / money[0], 2)  # a bound on the chance that it ever looks this wrong
    0.34
    """
    most, rising, falling = money
    if most > ENOUGH:
        return money
    if c < 0.0:
        c = 0.0
    elif c > 1.0:
        c = 1.0
    error = y - mu
    rising *= 1.0 + 0.15 * (error - c)  # _SHARE, written out: this runs for every forecast
    falling *= 1.0 + 0.15 * (-error - c)
    now = rising + falling
    return now if now > most else most, rising, falling


def bet_many(money: Money, mus: Sequence[float], cs: Sequence[float], ys: Sequence[float]) -> Money:
    """Her money after many forecasts; results identical to `bet` on one after the other."""
    price = np.clip(np.asarray(cs, np.float64), 0.0, 1.0)
    error = np.asarray(ys, np.float64) - np.asarray(mus, np.float64)
    for start in range(0, len(error), _BLOCK):
        if money[0] > ENOUGH:
            break
        money = _bet_block(money, error[start : start + _BLOCK], price[start : start + _BLOCK])
    return money


def _bet_block(money: Money, error: Floats, price: Floats) -> Money:
    factors = [1.0 + _SHARE * (side - price) for side in (error, -error)]
    with np.errstate(over="ignore"):
        parts = [
            np.multiply.accumulate(np.concatenate([[part], factor]))[1:]
            for part, factor in zip(money[1:], factors, strict=True)
        ]
        now = parts[0] + parts[1]
    enough = now > ENOUGH
    last = int(np.argmax(enough)) if enough.any() else len(now) - 1
    rising, falling = (float(part[last]) for part in parts)
    return max(money[0], float(now[: last + 1].max())), rising, falling
