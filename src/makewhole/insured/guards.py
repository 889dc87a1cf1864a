"""The solvency guard: no price so low, and no stake so large, that more than a capital could be lost.

Let L be what is left of a capital when what was lost, and what open bets can lose, is taken off. A forecast
is published at no less than the price at which it cannot lose more than L, and a stake with which it could,
at a price that has become too low meanwhile, is refused. So L is never below 0 (Theorem D).
"""

from __future__ import annotations

from makewhole.corrections.names import Name
from makewhole.insured._kernels import least_price
from makewhole.insured.book import OpenForecast, part_of
from makewhole.insured.changes import Get
from makewhole.insured.refusals import StakeRefused
from makewhole.insured.totals import Standing

_NOTHING = Standing()


def least_c(get: Get, name: Name | None, capital: float, lines: int, cap: float, one_sided: bool) -> float:
    """The least c (one-sided: ask) under the capital of all (None), or of a group of forecasts."""
    left: float = capital - get(("totals", name)).loss - get(("standing", name)).at_risk
    return least_price(left, lines, cap, one_sided)


def least_c_of_groups(
    get: Get, groups: tuple[Name, ...], capital: float, lines: int, cap: float, one_sided: bool
) -> float:
    """The same where each group has this capital; 0 where no bet is open: its correction sees to that."""
    at_risk = [name for name in groups if (get(("standing", name)) or _NOTHING).at_risk]
    return max([0.0, *(least_c(get, name, capital, lines, cap, one_sided) for name in at_risk)])


def check_capital(
    get: Get,
    name: Name | None,
    capital: float,
    open_: OpenForecast,
    after: OpenForecast,
    amounts: tuple[float, ...],
) -> None:
    """Refuse a stake with which more than the capital of all, or of a group, could be lost."""
    left = capital - get(("totals", name)).loss - (get(("standing", name)).at_risk - open_.at_risk)
    if after.at_risk > left:
        whose = "" if name is None else f" of {name!r}"
        message = (
            f"with this stake the forecast could lose {after.at_risk:g}; the capital{whose} leaves {left:g}"
        )
        raise StakeRefused(message, part_of(amounts, open_.at_risk, after.at_risk, left))
