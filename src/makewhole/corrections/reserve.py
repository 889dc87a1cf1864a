"""Reserve: λ is the book itself, so the total loss is bounded by a constant, for ever."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Mapping
from typing import Any, ClassVar, Self

from makewhole import arguments
from makewhole.corrections import _kernels
from makewhole.corrections.base import BookCorrection, Memory, Part, Stepped
from makewhole.corrections.certificate import Terms

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
        Deprecated: use `OverlappingReserve(rate, over)`.

    Examples
    --------
    >>> import makewhole as mw
    >>> f = mw.InsuredForecaster(None, mw.Reserve(rate=0.01), mode="sound", max_stake=1)
    >>> for _ in range(10_000):  # someone who always knows the outcome
    ...     payments = f.settle(f.forecast(mu=0.5), 1, stake=1.0)
    >>> round(f.statement().total_loss, 2), f.statement().certificate.bound
    (50.0, 50.0)
    """

    name = "reserve"
    about = "proportional to the total loss so far"
    against = "everyone, like 1/T: the *total* loss is bounded for ever"
    mean_theorem = "our Theorem A"
    options = ("rate",)
    settings = ("rate", "start", "over")
    variants: ClassVar = {f"reserve {rate:g}": {"rate": rate} for rate in (0.1, 0.01, 0.001)}
    integrates = True
    rate: float

    _propose = staticmethod(_kernels.reserve_propose)
    _observe = staticmethod(_kernels.reserve_observe)

    def __new__(
        cls,
        rate: float = 0.01,
        start: float = 0.0,
        over: Stepped | None = None,
        *,
        overlapping: bool = False,
    ) -> Any:
        """Make a Reserve; with `overlapping` (deprecated) an OverlappingReserve."""
        if not overlapping:
            return super().__new__(cls)
        from makewhole.corrections.overlapping import OverlappingReserve

        message = "Reserve(rate, overlapping=True) is deprecated: write OverlappingReserve(rate)"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        if start:
            raise ValueError(f"start must be 0 with overlapping groups; got {start!r}")
        return OverlappingReserve(rate, over)

    def __init__(
        self,
        rate: float = 0.01,
        start: float = 0.0,
        over: Stepped | None = None,
        *,
        overlapping: bool = False,
    ) -> None:
        self.rate = read_rate(rate)
        self.start = arguments.within("start", start, -_FAR, _FAR)
        self.over = read_over(over)
        self._values, self._marks = [self.start, self.rate, -math.inf], []

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

    # --- what it certifies --------------------------------------------------------------------------------

    def line_bound(self, terms: Terms) -> float | None:
        """Theorem A, or in sound mode Theorem B: (1 − c₋ − λ₁)·M/η, or (½ − c₋ − λ₁)·M/η."""
        top = 0.5 if terms.sound and not terms.one_sided else 1.0
        return max(0.0, top - self._width_range(terms)[0] - self.start) * terms.max_stake / self.rate

    def late_loss(self, terms: Terms, open_at_once: int) -> float | None:
        """M·D·R/(1 − ηD) with D forecasts open at once: all that λ can have moved by in the meantime."""
        share = self.rate * open_at_once
        if share >= 1:
            return None
        low, high = self._width_range(terms)
        reach = max(1.0 - low, self.start) - min(-1.0 - high, self.start)
        return open_at_once * terms.max_stake * reach / (1 - share)

    def _width_range(self, terms: Terms) -> tuple[float, float]:
        """The range of what λ is added to: ĉ's, or over another correction always [0, ½]."""
        return terms.c_range if self.over is None else (0.0, 0.5)

    def theorem(self, terms: Terms) -> str:
        """Theorem B with honest intervals, else Theorem A."""
        return "Theorem B" if terms.sound and not terms.one_sided else "Theorem A"

    def mean_bound(self, rounds: int, terms: Terms) -> float | None:
        """Theorem A: |Σℓ| <= M/η, whatever the number of rounds (ĉ = 0)."""
        return terms.max_stake / (self.rate * rounds)

    # --- in a book ----------------------------------------------------------------------------------------

    def in_mode(self, terms: Terms) -> Self:
        """With the floor under λ that Theorem B needs, −c₊, in sound mode; without one in the other modes."""
        sound = terms.sound and not terms.one_sided
        if self.over is not None and not sound:
            raise ValueError("a reserve over another correction needs mode='sound', and stakes of both signs")
        if sound and self.rate > 0.5:
            raise ValueError(f"rate must be at most 0.5 in sound mode; got {self.rate!r}")
        twin = copy.deepcopy(self)
        floor = -self._width_range(terms)[1] if sound else -math.inf
        twin._values[2] = floor
        twin._values[0] = max(twin._values[0], floor)
        return twin

    def begun(self) -> Self:
        """The same at the start of a new book: what it has learned elsewhere is where this one begins."""
        return self._starting_at(self._values[0])

    def _starting_at(self, start: float) -> Self:
        twin = copy.deepcopy(self)
        twin.__dict__["start"] = arguments.within("the correction's λ", start, -_FAR, _FAR)
        return twin

    def resembles(self, other: object) -> bool:
        """Whether the other was made with the same settings, wherever each began."""
        if type(self) is not type(other) or not isinstance(other, Reserve):
            return False
        return repr((self.rate, self.over)) == repr((other.rate, other.over))

    def with_memories(self, memories: Mapping[Part, Memory]) -> Self:
        """The same that remembers this; what it is over is copied as it is."""
        twin = super().with_memories(memories)
        twin.__dict__["over"] = copy.deepcopy(self.over)
        return twin

    def read_part(self, part: Part, state: Any) -> Memory:
        """The memory that `part_state` was taken of, with this book's floor whatever the state says."""
        (lam, rate, _), marks = super().read_part(part, state)
        floor = self._values[2]
        return [max(lam, floor), rate, floor], marks

    def with_over(self, over: BookCorrection | None) -> Self:
        """The same over a correction that has learned more."""
        twin = copy.deepcopy(self)
        twin.__dict__["over"] = over
        return twin

    def __eq__(self, other: object) -> bool:
        return super().__eq__(other) and isinstance(other, Reserve) and self.over == other.over

    __hash__ = None

    def __repr__(self) -> str:
        start = f", start={self.start!r}" if self.start else ""
        over = "" if self.over is None else f", over={self.over!r}"
        return f"Reserve(rate={self.rate!r}{start}{over})"

    def state(self) -> dict[str, Any]:
        """Rate, start, λ and floor; and the state of what it is over."""
        lam, _, floor = self._values
        known = {"rate": self.rate, "start": self.start, "over": over_state(self.over), "lam": lam}
        return known | {"floor": None if math.isinf(floor) else floor}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Continue where `state()` was taken."""
        if state.get("overlapping"):  # a file of version 2
            from makewhole.corrections.overlapping import OverlappingReserve

            return OverlappingReserve.from_state(state)  # type: ignore[return-value]  # what that spelling meant
        made = cls(state["rate"], state["start"], read_over_state(state["over"]))
        made._values[0] = float(arguments.numbers("lam", state["lam"]))
        if state["floor"] is not None:
            made._values[2] = float(arguments.numbers("floor", state["floor"]))
        return made


def read_rate(rate: float) -> float:
    """A reserve's rate: above 0 and at most 1."""
    value = arguments.positive("rate", rate)
    if value > 1:
        raise ValueError(f"rate must be at most 1; got {rate!r}")
    return value


def read_over(over: Any) -> Stepped | None:
    """A copy of the correction that a reserve is over."""
    ours = isinstance(over, Stepped) and not isinstance(over, Reserve) and over.kernels is not None
    if over is not None and not ours:
        raise TypeError(f"over must be one of makewhole's other corrections; got {over!r}")
    twin: Stepped | None = copy.deepcopy(over)
    return twin


def over_state(over: Any) -> dict[str, Any] | None:
    """What a reserve is over, as plain data."""
    from makewhole.corrections import name_of

    return None if over is None else {"type": name_of(over), "state": over.state()}


def read_over_state(state: dict[str, Any] | None) -> Stepped | None:
    """The correction that `over_state` was taken of."""
    from makewhole.corrections import by_name

    if state is None:
        return None
    kind = by_name(state["type"])
    if kind is None:
        raise ValueError(f"over must be one of makewhole's corrections; got {state['type']!r}")
    made: Stepped = kind.from_state(state["state"])
    return made
