"""A certificate, the proven bound on a forecaster's total loss, and the terms on which it depends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from makewhole import arguments


class Terms(NamedTuple):
    """The settings of a forecaster on which a correction's bound depends.

    `max_stake` is the cap M on the gross stake of one forecast, `c_range` the range of the base's ĉ, `sound`
    whether [μ − c, μ + c] always lies inside [0, 1], `one_sided` whether only stakes >= 0 are accepted.
    `lines` is 1, or the number of classes: each class is a binary bet, and they share a capital.
    """

    max_stake: float
    c_range: tuple[float, float] = (0.0, 0.0)
    sound: bool = False
    one_sided: bool = False
    lines: int = 1


# |ĉ| is at most this; far beyond it, rounding would swallow what is learned.
WIDEST = 100.0

# With this cap the sums of 2⁵³ forecasts, on any number of classes, can still be saved and read.
MOST_STAKE = 1e60


def read_terms(max_stake: Any, c_range: Any, *, sound: bool, one_sided: bool, lines: int = 1) -> Terms:
    """Return the terms of a forecaster or a backtest; raise a ValueError for impossible numbers."""
    cap = arguments.within("max_stake", max_stake, 1e-100, MOST_STAKE)
    low, high = arguments.interval("c_range", c_range)
    for end in (low, high):
        arguments.within("c_range", end, -WIDEST, WIDEST)
    return Terms(cap, (low, high), sound, one_sided, lines)


@dataclass(frozen=True, slots=True)
class Certificate:
    """A proven bound on a forecaster's total loss, at any time and against any bettors.

    `theorem` names the theorem (docs/theory.md); if there is no bound, `bound` is None and `theorem` says
    why. `rate`, `max_stake` and `c_range` are the settings that it depends on. `exposure` is the part of the
    bound that covers late outcomes: `max_exposure` if that is set, else what the forecasts that were open at
    the same time could have lost. In the latter case the bound grows if more are open later.
    """

    bound: float | None
    theorem: str
    rate: float | None = None
    max_stake: float | None = None
    c_range: tuple[float, float] | None = None
    exposure: float = 0.0

    def __str__(self) -> str:
        return f"no bound: {self.theorem}" if self.bound is None else f"{self.bound:,.6g} ({self.theorem})"
