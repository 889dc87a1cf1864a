"""Reserve: λ is proportional to the total loss, so the total loss is bounded by a constant."""

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

# The largest |λ|: beyond it, rounding would swallow the steps.
_FAR = 10_000.0
# The largest |λ| that late outcomes can have led to.
_FARTHEST = 1e12


class Reserve(Stepped):
    """Raise λ after every loss and lower it after every gain, so that the total loss stays bounded.

    After a forecast that lost ℓ, λ moves by η·ℓ/M, where η is the rate and M the cap. So the total loss is
    M·(λ − λ₁)/η, where λ₁ is the first λ. If each outcome comes before the next forecast, λ cannot leave the
    range of its targets; hence the *total* loss, not only its mean, is always bounded by a constant, against
    everyone (Theorem A). With `mode="sound"` the bound is M/(2η): a forecaster that sets aside this amount
    cannot run out of money (Theorem B). While several forecasts are open, the bound is larger by what they
    could lose; the certificate says how much. A small rate needs more money; with a large rate c varies more
    (the bound is proportional to 1/η, the noise in c to √η).

    Limits: it does not improve the forecasts, it only wins losses back. If some agents know more than the
    forecaster, c grows, and all agents pay it.

    Parameters
    ----------
    rate
        η, above 0 and at most 1; at most ½ in sound mode.
    start
        λ₁, the first λ.
    over
        Another of makewhole's corrections, for sound mode. It changes ĉ to clip(ĉ + λ', 0, ½), where λ' is
        its own λ, and learns from its own targets. The reserve adds to the result, and has the same bound.
    overlapping
        Deprecated: use `OverlappingReserve(rate, over)`.
    capital
        The most it may lose, if it is made for a capital (`for_capital`): a forecaster then guards this
        capital as it does its own `capital=`.

    Examples
    --------
    >>> import makewhole as mw
    >>> f = mw.InsuredForecaster(None, mw.Reserve(rate=0.01), mode="sound", max_stake=1)
    >>> for _ in range(10_000):  # an agent who knows every outcome
    ...     payments = f.settle(f.forecast(mu=0.5), 1, stake=1.0)
    >>> round(f.statement().total_loss, 2), f.statement().certificate.bound
    (50.0, 50.0)
    """

    name = "reserve"
    about = "proportional to the total loss so far"
    against = "everyone, like 1/T: the *total* loss is bounded for ever"
    mean_theorem = "our Theorem A"
    options = ("rate",)
    settings = ("rate", "start", "over", "capital")
    variants: ClassVar = {f"reserve {rate:g}": {"rate": rate} for rate in (0.1, 0.01, 0.001)}
    integrates = True
    sizable = True
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
        capital: float | None = None,
    ) -> Any:
        """Return a Reserve, or with `overlapping` (deprecated) an OverlappingReserve."""
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
        capital: float | None = None,
    ) -> None:
        self.rate = read_rate(rate)
        self.start = arguments.within("start", start, -_FAR, _FAR)
        self.over = read_over(over)
        self.capital = None if capital is None else arguments.positive("capital", capital)
        self._values, self._marks = self._starting(self.start, self.rate, -math.inf), []

    @staticmethod
    def _starting(lam: float, scale: float, floor: float) -> list[float]:
        """Return the kernels' values: η/M, the floor, and a sum of losses that begins at this λ."""
        return [scale, floor, lam, 0.0, 0.0]

    @property
    def _cap(self) -> float:  # type: ignore[override]  # it depends on the terms
        return self.rate / float(self._values[0])

    @property
    def _lam(self) -> float:
        lam: float = self._propose(self._values, self._marks)[0]
        return lam

    @classmethod
    def for_capital(cls, capital: float, max_stake: float) -> Self:
        """Make a Reserve that can lose at most `capital`.

        Its rate is M/(2·capital), where M is the cap `max_stake`. It remembers the capital, which a
        forecaster guards as it does its own `capital=`: in sound mode or one-sided, with any number of open
        forecasts or classes, and under any cap. Raises a ValueError if `capital` is less than `max_stake`.

        Examples
        --------
        >>> import makewhole as mw
        >>> mw.Reserve.for_capital(capital=50_000, max_stake=1000)
        Reserve(rate=0.01, capital=50000.0)
        """
        capital, cap = arguments.positive("capital", capital), arguments.positive("max_stake", max_stake)
        if capital < cap:
            raise ValueError(f"capital must be at least max_stake, {cap:g}; got {capital:g}")
        return cls(cap / (2 * capital), capital=capital)

    def sized(self, capital: float, max_stake: float) -> Self:
        """Return a new Reserve that can lose at most `capital` in sound mode, over the same correction.

        It does not remember the capital: where outcomes come late, nothing guards it.
        """
        return type(self)(max_stake / (2 * capital), over=self.over)  # type: ignore[arg-type]  # as it was given

    # --- what it certifies --------------------------------------------------------------------------------

    def line_bound(self, terms: Terms) -> float | None:
        """Return (1 − c₋ − λ₁)·M/η (Theorem A), or in sound mode (½ − c₋ − λ₁)·M/η (Theorem B)."""
        top = 0.5 if terms.sound and not terms.one_sided else 1.0
        return max(0.0, top - self._width_range(terms)[0] - self.start) * terms.max_stake / self.rate

    def stretch_bound(self, terms: Terms) -> float | None:
        """Return (½ + c₊ − c₋)·M/η in sound mode, where λ never falls below −c₊ (Theorem B); else None."""
        if terms.one_sided or not terms.sound:
            return None
        low, high = self._width_range(terms)
        return max(0.0, 0.5 - low + high) * terms.max_stake / self.rate

    def late_loss(self, terms: Terms, open_at_once: int) -> float | None:
        """Return M·D·R/(1 − ηD), where D is the number of forecasts open at the same time.

        It covers how far λ can have moved before their outcomes came. None if ηD is 1 or more: no bound.
        """
        share = self.rate * open_at_once
        if share >= 1:
            return None
        low, high = self._width_range(terms)
        reach = max(1.0 - low, self.start) - min(-1.0 - high, self.start)
        return open_at_once * terms.max_stake * reach / (1 - share)

    def _width_range(self, terms: Terms) -> tuple[float, float]:
        """Return the range of what λ is added to: that of ĉ, or [0, ½] over another correction."""
        return terms.c_range if self.over is None else (0.0, 0.5)

    def theorem(self, terms: Terms) -> str:
        """Return "Theorem B" in sound mode, else "Theorem A"."""
        return "Theorem B" if terms.sound and not terms.one_sided else "Theorem A"

    def mean_bound(self, rounds: int, terms: Terms) -> float | None:
        """Return M/(η·T): the bound M/η of Theorem A with ĉ = 0, divided by the number of rounds T."""
        return terms.max_stake / (self.rate * rounds)

    # --- in a book ----------------------------------------------------------------------------------------

    def in_mode(self, terms: Terms) -> Self:
        """Return a copy for these terms: in sound mode λ stays at or above −c₊, as Theorem B requires.

        Raises a ValueError if the rate is too large for sound mode, or if it is over another correction
        outside sound mode.
        """
        sound = terms.sound and not terms.one_sided
        if self.over is not None and not sound:
            raise ValueError("a Reserve with over=... needs mode='sound' and one_sided=False")
        if sound and self.rate > 0.5:
            raise ValueError(f"rate must be at most 0.5 in sound mode; got {self.rate!r}")
        floor, scale = -self._width_range(terms)[1] if sound else -math.inf, self.rate / terms.max_stake
        if self._values[:2] == [scale, floor] and self._lam >= floor:  # it continues where it was
            return self.with_memories(self.memories())
        return self.with_memories({None: (self._starting(max(self._lam, floor), scale, floor), self._marks)})

    def gentler(self, terms: Terms) -> bool:
        """Whether its price is above the solvency guard's, no matter how little of its capital is left."""
        return self.rate < 0.5 * (1.0 - 1e-9)

    def begun(self) -> Self:
        """Return a copy for new books, which starts with the λ that it has learned elsewhere."""
        return self._starting_at(self._lam)

    def _starting_at(self, start: float) -> Self:
        twin = copy.deepcopy(self)
        vars(twin).update(start=arguments.within("the correction's λ", start, -_FAR, _FAR))
        return twin

    def resembles(self, other: object) -> bool:
        """Whether the other has the same rate and is over the same correction; `start` may differ."""
        if type(self) is not type(other) or not isinstance(other, Reserve):
            return False
        return repr((self.rate, self.over)) == repr((other.rate, other.over))

    def with_memories(self, memories: Mapping[Part, Memory]) -> Self:
        """Return a copy with these memories; the correction that it is over is copied as it is."""
        twin = super().with_memories(memories)
        vars(twin).update(over=copy.deepcopy(self.over))
        return twin

    def read_part(self, part: Part, state: Any) -> Memory:
        """Return the memory that `part_state` turned into `state`, with the lowest λ of these terms."""
        (_, _, start, total, low), marks = super().read_part(part, state)
        scale, floor = self._values[:2]
        for name, lam in (("origin", start), ("λ", start + scale * total), ("low", 1e12 * scale * low)):
            arguments.within(name, lam, -_FARTHEST, _FARTHEST)
        if start + scale * total < floor:
            return self._starting(floor, scale, floor), marks
        return [scale, floor, start, total, low], marks

    def with_over(self, over: BookCorrection | None) -> Self:
        """Return a copy that is over `over`."""
        twin = copy.deepcopy(self)
        vars(twin).update(over=over)
        return twin

    def __eq__(self, other: object) -> bool:
        return super().__eq__(other) and isinstance(other, Reserve) and self.over == other.over

    __hash__ = None

    def __repr__(self) -> str:
        start = f", start={self.start!r}" if self.start else ""
        over = "" if self.over is None else f", over={self.over!r}"
        capital = "" if self.capital is None else f", capital={self.capital!r}"
        return f"Reserve(rate={self.rate!r}{start}{over}{capital})"

    def state(self) -> dict[str, Any]:
        """Return settings, the parts of λ, and the state of the correction it is over, as plain data.

        λ is `origin` + `scale`·`losses`; `low` is what rounding has cut off from the losses.
        """
        scale, floor, origin, losses, residual = self._values
        known = {"rate": self.rate, "start": self.start, "over": over_state(self.over)}
        known["capital"] = self.capital
        sums = {"scale": scale, "origin": origin, "losses": losses, "low": residual}
        return known | sums | {"floor": None if math.isinf(floor) else floor}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Return a correction with the state that `state()` returned."""
        over = read_over_state(state["over"])
        made = cls(state["rate"], state["start"], over, capital=state["capital"])
        floor = -math.inf if state["floor"] is None else float(arguments.numbers("floor", state["floor"]))
        scale, origin, losses, residual = _read_sums(state)
        made._values = [scale, floor, origin, losses, residual]
        arguments.scalar("λ", made._lam)
        return made


def _read_sums(state: dict[str, Any]) -> list[float]:
    """Return η/M and the parts of λ, from plain data."""
    names = ("scale", "origin", "losses", "low")
    sums: list[float] = [float(arguments.numbers(name, state[name])) for name in names]
    arguments.positive("scale", sums[0])
    return sums


def read_rate(rate: float) -> float:
    """Return a rate above 0 and at most 1; raise a ValueError otherwise."""
    value = arguments.positive("rate", rate)
    if value > 1:
        raise ValueError(f"rate must be at most 1; got {rate!r}")
    return value


def read_over(over: Any) -> Stepped | None:
    """Return a copy of the correction that a reserve is over; raise a TypeError if it cannot be used."""
    ours = isinstance(over, Stepped) and not isinstance(over, Reserve) and over.kernels is not None
    if over is not None and not ours:
        raise TypeError(f"over must be another of makewhole's corrections, not a Reserve; got {over!r}")
    twin: Stepped | None = copy.deepcopy(over)
    return twin


def over_state(over: Any) -> dict[str, Any] | None:
    """Return the correction that a reserve is over, as plain data."""
    from makewhole.corrections import name_of

    return None if over is None else {"type": name_of(over), "state": over.state()}


def read_over_state(state: dict[str, Any] | None) -> Stepped | None:
    """Return the correction for which `over_state` returned `state`."""
    from makewhole.corrections import by_name

    if state is None:
        return None
    kind = by_name(state["type"])
    if kind is None:
        raise ValueError(f"over must be one of makewhole's corrections; got {state['type']!r}")
    made: Stepped = kind.from_state(state["state"])
    return made
