"""The formulas of a capital, of lines and of a thaw, as plain functions that can also be compiled.

The bookkeeping calls them as they are, one forecast at a time; backtests compile the same source, to run over
a whole log. So both give the same numbers.
"""

from __future__ import annotations

import math

from makewhole.corrections._kernels import barrier_price


def least_price(left: float, lines: int, max_stake: float, one_sided: bool) -> float:
    """Return the least c (one-sided: ask) at which a forecast cannot lose more than is left of a capital.

    `left` is what is left for all of so many lines.
    """
    left = max(0.0, left - 1e-12 * max_stake) / lines  # rounding must not pass it
    return 1.0 - left / max_stake if one_sided else 0.5 - left / (2 * max_stake)


def line_price(left: float, at_risk: float, scale: float, room: float, margin: float, top: float) -> float:
    """Return the least c (one-sided: ask) for a name, when so much of its line is left.

    It is smooth in what was settled. What is open counts only so far as a forecast, which can lose `room`,
    must not be able to lose more than is left: else many open bets would price her out.
    """
    asked = barrier_price(left, scale, False, top)
    left -= at_risk + margin
    if left < room:
        asked = max(asked, barrier_price(left, room, True, top))
    return asked


def own_price(mu: float, c: float, mu_hat: float, price: float, one_sided: bool) -> tuple[float, float]:
    """Return the μ and c for a customer who is asked this price; `mu` and `c` are what was published."""
    if one_sided:
        return min(max(mu, price), 1.0), 0.0
    if price <= c:
        return mu, c
    wide = min(price, 0.5)
    return min(max(mu_hat, wide), 1.0 - wide), wide


def surcharge(b: float, mu: float, c: float, own_mu: float, own_c: float) -> float:
    """Return what a stake costs more at a price of one's own than at the published one, whatever happens."""
    return max(0.0, abs(b) * (own_c - c) + b * (own_mu - mu))


def thaw_allowed(
    budget: float, per_forecast: float, root: float, share: float, rounds: int, profit: float
) -> float:
    """Return what a thaw may have conceded after so many settled forecasts, and such a largest profit."""
    return budget + per_forecast * rounds + root * math.sqrt(rounds) + share * profit


def concede(lam: float, left: float, max_stake: float) -> tuple[float, float]:
    """Return the weight of the bet that a correction is told of, and what that concedes: at most `left`."""
    weight = min(1.0, left / (max_stake * lam))
    return weight, max_stake * weight * lam


FORMULAS = (least_price, line_price, own_price, surcharge, thaw_allowed, concede)
