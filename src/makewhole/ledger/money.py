"""Money in whole units: prices are rounded up, exactly, so that rounding never costs the forecaster money."""

from __future__ import annotations

from typing import Any

from makewhole import arguments

# Whole numbers up to here are exact as floats, and so are their sums.
MOST_UNITS = 2**50


# Floats are inexact: 0.2 + 0.02 is more than 0.22. This part of the payout is subtracted before a price is
# rounded up, so that it is 2,200 of 10,000 and not 2,201; in total that is at most half a unit.
_NOISE = 50
_LENIENT_UP_TO = 2 ** (_NOISE - 1)


def whole_price(stake: int, mu: float, c: float, turnover: int = 0) -> int:
    """The price of a bet that pays |stake| later: if y = 1 for a stake above 0, if y = 0 for one below.

    It is |b|·(μ + c), or |b|·(1 − μ + c) for b < 0, computed exactly and then rounded up to a whole unit.
    A fraction of a unit is not counted if it is below |b|/2⁵⁰, unless the sum of all payouts so far, the
    `turnover`, is beyond 2⁴⁹: so all prices together are less than half a unit below the exact ones.

    Examples
    --------
    >>> whole_price(10_000, 0.2, 0.02), whole_price(-1, 0.25, 0.0)
    (2200, 1)
    """
    above, below = mu.as_integer_ratio()
    if stake < 0:
        above = below - above
    more, of = c.as_integer_ratio()
    size = abs(stake)
    share, whole = above * of + more * below, below * of
    if turnover + size < _LENIENT_UP_TO:
        share, whole = (share << _NOISE) - whole, whole << _NOISE
    return max(0, -(-size * share // whole))


def due_for(stake: int, price: int, outcome: int | None) -> int:
    """The amount finally due for a stake: its payout if it wins, or after a void (no outcome) its price."""
    if outcome is None:
        return price
    return abs(stake) if (stake > 0) == bool(outcome) else 0


def read_units(name: str, value: Any, *, least: int = 0) -> int:
    """Return an amount of money, a whole number of units; otherwise a ValueError."""
    if type(value) is float and value.is_integer():
        value = int(value)
    if isinstance(value, float):
        raise ValueError(f"{name} must be a whole number of units, not a fraction; got {value!r}")
    return arguments.whole(name, value, least=least, most=MOST_UNITS)


def read_signed(name: str, value: Any) -> int:
    """Return an amount of either sign, a whole number of units; otherwise a ValueError."""
    signed = isinstance(value, (int, float)) and not isinstance(value, bool)  # abs(True) would pass for 1
    size = read_units(name, abs(value) if signed else value)
    return size if value > 0 else -size
