"""A thaw: lower c where forecasts are not staked in full, and count what that concedes."""

from __future__ import annotations

from dataclasses import dataclass

from makewhole import arguments
from makewhole.insured.journal import Journaled
from makewhole.rules import thaw_allowed

_MOST = 1e100


@dataclass(frozen=True)
class Thaw:
    """Lower λ with every forecast that was not staked in full, within a budget.

    If c is too wide for everyone, nothing is learned, and c stays as it is. With a thaw, the correction also
    learns from an imaginary bet, which fills the part of the cap that was not staked, w̃ = 1 − A/M, and would
    have been balanced at λ = 0. Both are one step: λ moves by η·(w·(x − λ) − w̃·λ). So λ comes down as if
    M·w̃·λ had been won. As nothing was won, later customers may win that much more. What is conceded in this
    way is at most the budget after t settled forecasts, budget + per_forecast·t + root·√t + share·P, where P
    is the largest profit so far. The certificate grows by the first three of these. Small stakes cannot
    prevent a thaw: they leave most of the cap unstaked.

    Parameters
    ----------
    budget
        What may be conceded in total, in the unit of the stakes.
    per_forecast
        This much more for every settled forecast. The certificate then grows, and the mean loss need not
        vanish: it may tend to this number.
    root
        This much more times the square root of the number of settled forecasts. There is then no constant
        certificate, but the mean loss still vanishes.
    share
        Up to this part, at most 1, of the largest profit so far: the most that was won, net since the start,
        after any settled forecast. The certificate is then what may be lost over any stretch of time: the
        same as before with `Barrier(..., keep_gains=False)`, and with a `Reserve` in sound mode if ĉ is 0.
        With a capital and any other correction it is the capital (docs/theory.md, "A thaw from profits"). Not
        for groups, nor for a `Reserve` in exact mode or one-sided without a capital.
    above
        Only a λ above this, and above the correction's own spread, is lowered.
    per_day
        The most that may be conceded on one day, within the total: the certificate stays as it is. A
        forecaster has no clock and must be told the day, `f.begin_day(date.today().toordinal())`: repeating a
        day changes nothing, and a day that it is not told of is part of the one before. A ledger tells it,
        by UTC. Not for backtests.

    Examples
    --------
    >>> import makewhole as mw
    >>> f = mw.InsuredForecaster(None, mw.Reserve(0.01), mode="sound", max_stake=1, thaw=mw.Thaw(budget=10))
    >>> f.statement().certificate.bound
    60.0
    >>> for _ in range(1000):  # a customer who knows every outcome
    ...     payments = f.settle(f.forecast(mu=0.5), 1, stake=1.0)
    >>> wide = f.forecast(mu=0.5).c
    >>> for _ in range(1000):  # no stakes
    ...     payments = f.settle(f.forecast(mu=0.5), 1)
    >>> round(wide, 2), round(f.forecast(mu=0.5).c, 2)
    (0.5, 0.4)
    """

    budget: float = 0.0
    per_forecast: float = 0.0
    root: float = 0.0
    above: float = 0.02
    share: float = 0.0
    per_day: float | None = None

    def __post_init__(self) -> None:
        for name in ("budget", "per_forecast", "root"):
            object.__setattr__(self, name, arguments.within(name, getattr(self, name), 0.0, _MOST))
        object.__setattr__(self, "above", arguments.within("above", self.above, 0.0, 1.0))
        object.__setattr__(self, "share", arguments.within("share", self.share, 0.0, 1.0))
        if self.per_day is not None:
            object.__setattr__(self, "per_day", arguments.positive("per_day", self.per_day))
        if not (self.budget or self.per_forecast or self.root or self.share):
            raise ValueError(
                "budget, per_forecast, root or share must be above 0; for no thaw, say thaw=None"
            )

    def allowed(self, rounds: int, profit: float = 0.0) -> float:
        """What may have been conceded after `rounds` settled forecasts; `profit` is the largest so far."""
        return thaw_allowed(self.budget, self.per_forecast, self.root, self.share, rounds, profit)

    @property
    def constant(self) -> bool:
        """Whether the budget does not grow with the number of forecasts."""
        return not (self.per_forecast or self.root)


class ThawState(Journaled):
    """What a thaw has conceded so far, and the largest profit, if it may concede a share of that.

    `day` is the number of the current day, if it is known, and `before` what was conceded before that day.
    """

    __slots__ = changing = ("conceded", "profit", "day", "before")

    def __init__(self) -> None:
        self.conceded = self.profit = self.before = 0.0
        self.day: int | None = None
