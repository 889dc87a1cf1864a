"""Barrier: c depends on how much capital is left, so the capital is never lost."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal, Self

from makewhole import arguments
from makewhole.corrections import _kernels
from makewhole.corrections.base import Memory, Part, Stepped
from makewhole.corrections.certificate import Terms

Shape = Literal["exponential", "linear", "guard"]
SHAPES: tuple[Shape, ...] = ("exponential", "linear", "guard")

# By default the price falls to about a third with every thirtieth of the capital.
_PART = 30.0


class Barrier(Stepped):
    """Charge by how much capital is left: λ is close to 0 while most of it is, and ½ when none is.

    Let L be the capital left after losses (and gains); then λ = g(L). A forecast loses at most L, so the
    capital is never lost (docs/theory.md, "Capital"). It is for sound mode, and one-sided.

    - "exponential": g(L) = ½·exp(−L/s). The price is small until little is left. It moves by at most a factor
      exp(M/s) after one forecast.
    - "guard": g(L) = ½·(1 − L/M), or 0: nothing is charged until the next forecast could lose all of L.
      Its total premium is within one cap M of the least that any policy which never loses the capital can
      charge.
    - "linear": g(L) = ½·(1 − L/capital): with `keep_gains=False` this is `Reserve.for_capital`.

    One-sided, the price is twice that, because it is an amount above μ instead of a half-width.

    Parameters
    ----------
    capital
        What may be lost, in the unit of the stakes.
    shape
        How the price depends on L; see above.
    scale
        s, for "exponential": at least M. By default a thirtieth of the capital, or M if that is more.
    spread
        λ is at least this. A small spread pays for the customers' luck: without one, the book of honest
        customers is as likely to lose as to win, and ends at the barrier sooner or later. 0 means none. By
        default it is 0 as well, but a forecaster's default `Lines` then charge named customers 0.02.
    keep_gains
        True: gains raise L, even above the capital; the *total* loss is at most the capital. False: L is at
        most the capital. If each outcome comes before the next forecast, the loss over *every* stretch of
        time is then at most the capital, but customers pay for the noise.

    Examples
    --------
    A clairvoyant wins the capital, and no more:

    >>> import makewhole as mw
    >>> f = mw.InsuredForecaster(None, mw.Barrier(capital=50), max_stake=1, stop=False)
    >>> for _ in range(1000):
    ...     payments = f.settle(f.forecast(mu=0.5), 1, stake=1.0)
    >>> f.statement().total_loss < 50, f.statement().certificate.bound
    (True, 50.0)
    """

    name = "barrier"
    about = "next to nothing, until little of a capital is left"
    against = "everyone: the *total* loss stays below the capital"
    settings = ("capital", "shape", "scale", "spread", "keep_gains")
    variants: ClassVar = {}
    integrates = True
    capital: float

    _propose = staticmethod(_kernels.barrier_propose)
    _observe = staticmethod(_kernels.barrier_observe)

    def __init__(
        self,
        capital: float,
        shape: Shape = "exponential",
        *,
        scale: float | None = None,
        spread: float | None = None,
        keep_gains: bool = True,
    ) -> None:
        self.capital = arguments.within("capital", capital, 1e-100, 1e100)
        if shape not in SHAPES:
            raise ValueError(f"shape must be one of {', '.join(map(repr, SHAPES))}; got {shape!r}")
        if scale is not None and shape != "exponential":
            raise ValueError(f"scale must be None with shape={shape!r}; got {scale!r}")
        if not isinstance(keep_gains, bool):
            raise TypeError(f"keep_gains must be True or False; got {keep_gains!r}")
        self.shape, self.keep_gains = shape, keep_gains
        self.scale = None if scale is None else arguments.positive("scale", scale)
        self.has_spread = spread is not None
        self.spread = 0.0 if spread is None else arguments.within("spread", spread, 0.0, 0.5)
        self._values, self._marks = self._begin(max_stake=1.0, top=0.5, lost=[0.0, 0.0, 0.0]), []

    def _begin(self, max_stake: float, top: float, lost: list[float], lines: int = 1) -> list[float]:
        """Return the kernels' values for one of `lines` lines; `lost` is the loss so far, in three parts."""
        capital = self.capital / lines
        scale = max(max_stake, capital / _PART if self.scale is None else self.scale / lines)
        if self.shape == "linear":
            scale = capital
        elif self.shape == "guard":
            scale = max_stake
        straight, floor = float(self.shape != "exponential"), -math.inf if self.keep_gains else 0.0
        return [capital, scale, straight, top, self.spread, max_stake, floor, *lost]

    @property
    def _cap(self) -> float:  # type: ignore[override]  # it depends on the terms
        return float(self._values[5])

    @property
    def left(self) -> float:
        """The capital that is left."""
        return float(self._values[0] - self._values[7] - self._values[8])

    # --- what it certifies --------------------------------------------------------------------------------

    def line_bound(self, terms: Terms) -> float | None:
        """Return the capital, or a line's share of it."""
        return self.capital / terms.lines

    def stretch_bound(self, terms: Terms) -> float | None:
        """Return the same if gains are not kept: the loss so far then never counts as less than 0."""
        return None if self.keep_gains else self.line_bound(terms)

    def theorem(self, terms: Terms) -> str:
        """Return the name of the theorem."""
        return "Theorem D"

    # --- in a book ----------------------------------------------------------------------------------------

    def in_mode(self, terms: Terms) -> Self:
        """Return a copy for these terms; raise a ValueError if no price protects the capital."""
        if not (terms.sound or terms.one_sided):
            raise ValueError("a Barrier must be in sound mode (mode='sound'), or one-sided")
        if terms.c_range[0] < 0:
            raise ValueError(f"c_range must not begin below 0 with a Barrier; got {terms.c_range}")
        least = terms.max_stake * terms.lines
        if self.shape == "linear" and self.capital < least:
            each = "max_stake" if terms.lines == 1 else "max_stake for every class"
            raise ValueError(
                f"capital must be at least {each}, {least:g}, with shape='linear'; got {self.capital:g}"
            )
        if self.scale is not None and self.scale < terms.max_stake:
            raise ValueError(f"scale must be at least max_stake, {terms.max_stake:g}; got {self.scale:g}")
        top = 1.0 if terms.one_sided else 0.5
        values = self._begin(terms.max_stake, top, self._values[7:], terms.lines)
        return self.with_memories({None: (values, self._marks)})

    def begun(self) -> Self:
        """Return a copy for new books, which start with the whole capital."""
        return self.with_memories({None: ([*self._values[:7], 0.0, 0.0, 0.0], self._marks)})

    def gentler(self, terms: Terms) -> bool:
        """Whether its price is above the solvency guard's, no matter how little is left."""
        return bool(self._values[1] > terms.max_stake * (1.0 + 1e-9))

    def with_capital(self, capital: float, terms: Terms) -> Self:
        """Return a copy with another capital, which has lost the same."""
        own: Any = {name: self.state()[name] for name in ("scale", "spread", "keep_gains")}
        made = type(self)(capital, self.shape, **own)
        made._values[7:] = self._values[7:]  # noqa: SLF001 - of the same class
        return made.in_mode(terms)

    def carried(self, memory: Memory) -> Memory:
        """Return a memory with the settings of this correction."""
        values, marks = memory
        return [*self._values[:7], *values[7:]], marks

    def overdrawn(self, memory: Memory) -> float:
        """Return how much more it has lost than its capital; a little too much, because of rounding."""
        (capital, *_, lost, low, rest), _ = memory
        excess = lost - capital + low + rest
        return excess + 2.0**-50 * capital if excess > 0.0 else 0.0

    def read_part(self, part: Part, state: Any) -> Memory:
        """Return the memory for which `part_state` returned `state`, with the settings of these terms."""
        return self.carried(super().read_part(part, state))

    def __repr__(self) -> str:
        shape = "" if self.shape == "exponential" else f", {self.shape!r}"
        scale = "" if self.scale is None else f", scale={self.scale!r}"
        spread = f", spread={self.spread!r}" if self.has_spread else ""
        keep = "" if self.keep_gains else ", keep_gains=False"
        return f"Barrier({self.capital!r}{shape}{scale}{spread}{keep})"

    def __eq__(self, other: object) -> bool:
        return super().__eq__(other) and repr(self) == repr(other)

    __hash__ = None

    def state(self) -> dict[str, Any]:
        """Return settings and the sum of losses, in its three parts, as plain data."""
        known = {name: getattr(self, name) for name in type(self).settings}
        own = {"spread": self.spread if self.has_spread else None}
        return known | own | {"lost": list(self._values[7:])}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Return a correction with the state that `state()` returned."""
        settings = {name: state[name] for name in cls.settings}
        made = cls(settings.pop("capital"), settings.pop("shape"), **settings)
        lost = arguments.numbers("lost", state["lost"])
        if lost.shape != (3,) or (abs(lost) > 1e100).any():
            raise ValueError(f"lost must be three numbers that a book can have; got {state['lost']!r}")
        made._values[7:] = lost.tolist()
        return made
