"""Reserve: constant steps, and a total loss that is bounded for ever."""

from __future__ import annotations

import copy
import math
from typing import Any, Self

from makewhole import arguments
from makewhole.corrections import _kernels
from makewhole.corrections.base import Stepped
from makewhole.corrections.members import Name, read_names

# Farther from 0, rounding would eat the steps.
_FAR = 10_000.0


class Reserve(Stepped):
    """λ ← λ + η·ℓ/M: every loss raises the price, every gain lowers it, and the sum is bounded by a constant.

    λ is the books themselves: Σℓ = M·(λ − λ₁)/η, and λ cannot leave the range of its targets. So the *total*
    loss, not only its mean, is bounded, for ever and against anyone (Theorem A); with honest intervals,
    `mode="sound"`, a forecaster that sets aside M/(2η) cannot be ruined (Theorem B). The rate is the dial:
    capital goes with 1/η, the noise in c with √η.

    Limits: it pays back past luck rather than forecasting better, and honest agents pay the spread that
    those who know better force on it.

    Parameters
    ----------
    rate
        η, above 0 and at most 1; at most ½ in sound mode.
    start
        λ₁, where it begins.
    over
        Another of our corrections, for sound mode: it refines ĉ to clip(ĉ + λ', 0, ½) and learns from its own
        targets, never from this one's; the reserve then bounds what is left, with the same certificate.
    overlapping
        Groups, for sound mode with ĉ >= 0: a forecast may belong to any number of them,
        `f.forecast(mu=0.3, groups=["AA", "JFK"])`, and λ is the sum of their weights and of everyone's, none
        below 0. Every group's total loss is at most M/(2η), however many there are, and so is the total.

    Examples
    --------
    >>> import makewhole as mw
    >>> f = mw.InsuredForecaster(None, mw.Reserve(rate=0.01), mode="sound", max_stake=1)
    >>> for _ in range(10_000):  # someone who always knows the outcome
    ...     payments = f.settle(f.forecast(mu=0.5), 1, stake=1.0)
    >>> round(f.statement().total_loss, 2), f.statement().certificate.bound
    (50.0, 50.0)
    """

    _propose = staticmethod(_kernels.reserve_propose)
    _observe = staticmethod(_kernels.reserve_observe)
    integrates = True

    def __init__(
        self,
        rate: float = 0.01,
        start: float = 0.0,
        over: Stepped | None = None,
        *,
        overlapping: bool = False,
    ) -> None:
        self.rate = arguments.positive("rate", rate)
        if self.rate > 1:
            raise ValueError(f"rate must be at most 1; got {rate!r}")
        self.start = arguments.within("start", start, -_FAR, _FAR)
        if over is not None and (not isinstance(over, Stepped) or isinstance(over, Reserve)):
            raise TypeError(f"over must be one of makewhole's other corrections; got {over!r}")
        self.over = copy.deepcopy(over)
        self._values, self._marks = [self.start, self.rate, -math.inf], []
        self.grouped = bool(overlapping)
        self._places: dict[Name, int] = {}
        if self.grouped:
            if self.start:
                raise ValueError(f"start must be 0 with overlapping groups; got {start!r}")
            self._propose, self._observe = _kernels.members_propose, _kernels.members_observe  # type: ignore[misc]  # instead of the class's
            self._values, self._cells = [self.rate, 0.0], 3
            self.member(())

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        twin = super().__deepcopy__(memo)
        twin.over, twin._places = copy.deepcopy(self.over), self._places.copy()
        return twin

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other) or not isinstance(other, Reserve) or self._values != other._values:
            return False
        return (self.over, self._places) == (other.over, other._places)

    __hash__ = None

    @classmethod
    def for_capital(cls, capital: float, max_stake: float) -> Self:
        """The rate whose certificate, in sound mode with ĉ >= 0, is this capital: M/(2·capital).

        Examples
        --------
        >>> import makewhole as mw
        >>> mw.Reserve.for_capital(capital=50_000, max_stake=1000)
        Reserve(rate=0.01)
        """
        capital, cap = arguments.positive("capital", capital), arguments.positive("max_stake", max_stake)
        if capital < cap:
            raise ValueError(f"capital must be at least max_stake, {cap:g}; got {capital:g}")
        return cls(cap / (2 * capital))

    def checked(self, groups: tuple[Name, ...]) -> tuple[Name, ...]:
        """The groups of a forecast: any will do."""
        return groups

    def member(self, groups: tuple[Name, ...]) -> Self:
        """Turn to the members of these groups: the next step is theirs."""
        for name in groups:
            if name not in self._places:
                self._places[name] = len(self._values)
                self._values.append(0.0)
        self._marks = [2, 1 + len(groups), 1, *(self._places[name] for name in groups)]
        return self

    def place(self, group: Name) -> int:
        """Where a group's weight stands."""
        return self._places[group]

    def in_mode(self, mode: str, one_sided: bool, c_range: tuple[float, float]) -> Self:
        """The same as a forecaster or a backtest in this mode wants it."""
        if self.grouped and (mode != "sound" or one_sided or c_range[0] < 0):
            raise ValueError("overlapping groups need mode='sound', stakes of both signs and c_hat >= 0")
        if self.over is not None and (mode != "sound" or one_sided):
            raise ValueError("a reserve over another correction needs mode='sound', and stakes of both signs")
        if mode == "sound" and not one_sided:
            return self.for_sound(c_range)
        twin = copy.deepcopy(self)
        twin._values[2] = -math.inf  # where it may have had a floor, there is none in this mode
        return twin

    def begun(self) -> Self:
        """The same at the start of a book of its own: what it learned elsewhere is where this one begins."""
        twin = copy.deepcopy(self)
        if not self.grouped:
            twin.start = arguments.within("the correction's λ", twin._values[0], -_FAR, _FAR)
        return twin

    def resembles(self, other: object) -> bool:
        """Whether the other was made with the same settings, wherever each began."""
        if type(self) is not type(other) or not isinstance(other, Reserve):
            return False
        mine, theirs = (repr((r.rate, r.over, r.grouped)) for r in (self, other))
        return mine == theirs

    def for_sound(self, c_range: tuple[float, float]) -> Self:
        """The same as Theorem B wants it: a rate of at most ½, and λ no lower than −c₊."""
        if self.rate > 0.5:
            raise ValueError(f"rate must be at most 0.5 in sound mode; got {self.rate!r}")
        twin = copy.deepcopy(self)
        if self.grouped:  # no weight goes below 0
            return twin
        floor = -0.5 if self.over is not None else -c_range[1]  # what it adds to is then in [0, ½]
        twin._values[2] = floor
        twin._values[0] = max(twin._values[0], floor)
        return twin

    def __repr__(self) -> str:
        start = f", start={self.start!r}" if self.start else ""
        over = "" if self.over is None else f", over={self.over!r}"
        groups = ", overlapping=True" if self.grouped else ""
        return f"Reserve(rate={self.rate!r}{start}{over}{groups})"

    def state(self) -> dict[str, Any]:
        """Rate, start, λ and floor; and the state of what it is over."""
        from makewhole.corrections import name_of

        inner: Any = self.over
        over = None if inner is None else {"type": name_of(inner), "state": inner.state()}
        found = {"rate": self.rate, "start": self.start, "over": over, "overlapping": self.grouped}
        if self.grouped:
            return found | {"names": list(self._places), "weights": self._values[1:]}
        lam, _, floor = self._values
        found |= {"lam": lam}
        return found | {"floor": None if math.isinf(floor) else floor}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Continue where `state()` was taken."""
        from makewhole.corrections import by_name

        made = cls(state["rate"], state["start"], overlapping=state["overlapping"])
        if made.grouped:
            made.member(read_names("names", state["names"]))
            weights = arguments.numbers("weights", state["weights"]).tolist()
            if len(weights) != len(made._places) + 1 or min(weights) < 0:
                raise ValueError("weights must be one for each name and one for everyone, none below 0")
            made._values = [made.rate, *weights]
            made.member(())
        else:
            made._values[0] = float(arguments.numbers("lam", state["lam"]))
            if state["floor"] is not None:
                made._values[2] = float(arguments.numbers("floor", state["floor"]))
        if state["over"] is not None:
            kind = by_name(state["over"]["type"])
            if kind is None:
                raise ValueError(
                    f"over must be one of makewhole's corrections; got {state['over']['type']!r}"
                )
            made.over = kind.from_state(state["over"]["state"])
        return made
