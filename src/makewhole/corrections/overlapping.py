"""A reserve for groups that overlap: the loss of every group has the same bound, however many there are."""

from __future__ import annotations

import copy
from typing import Any, ClassVar, Self

from makewhole import arguments
from makewhole.corrections import _kernels
from makewhole.corrections.base import BookCorrection, Memory, Part, Stepped
from makewhole.corrections.certificate import Terms
from makewhole.corrections.members import Members
from makewhole.corrections.names import read_names
from makewhole.corrections.reserve import over_state, read_over, read_over_state, read_rate

# A group's sum of losses: the weight at its start, the losses since, and what rounding cut off from them.
Sum = tuple[float, float, float]


class OverlappingReserve(Members):
    """A `Reserve` for groups that overlap: each group loses at most M/(2η), and so does the total.

    A forecast may belong to any number of groups: `f.forecast(mu=0.3, groups=["AA", "JFK"])`. There is one
    weight for each group and one for all forecasts. λ is the sum of the weights of a forecast's groups and
    the one for all. After a forecast that lost ℓ, each of these weights moves by η·ℓ/M, but not below 0; η is
    the rate and M the cap. The bound holds for any number of groups. It needs `mode="sound"` and ĉ >= 0. For
    groups that do not overlap, `Grouped` gives each its own correction.

    Parameters
    ----------
    rate
        η, above 0 and at most ½.
    over
        Another of makewhole's corrections, which changes ĉ first, as in `Reserve`.

    Examples
    --------
    >>> import makewhole as mw
    >>> f = mw.InsuredForecaster(None, mw.OverlappingReserve(0.01), mode="sound", max_stake=1)
    >>> for _ in range(10_000):  # an agent knows every outcome of AA from JFK
    ...     payments = f.settle(f.forecast(mu=0.5, groups=["AA", "JFK"]), 1, stake=1.0)
    >>> {name: round(s.total_loss, 1) for name, s in f.statement().groups.items()}
    {'AA': 16.7, 'JFK': 16.7}
    >>> f.peek(mu=0.5, groups=["AA", "JFK"]).c > 0.49, f.statement().certificate.bound
    (True, 50.0)
    """

    settings = ("rate", "over")
    rate: float

    _propose = staticmethod(_kernels.members_propose)
    _observe = staticmethod(_kernels.members_observe)
    _nothing: ClassVar = (0.0, 0.0, 0.0)

    def __init__(self, rate: float = 0.01, over: Stepped | None = None) -> None:
        self.rate = read_rate(rate)
        self.over = read_over(over)
        self._scale = self.rate  # η/M; outside a book, M is 1
        self._parts = {None: self._nothing}

    @property
    def _cap(self) -> float:  # type: ignore[override]  # it depends on the terms
        return self.rate / self._scale

    # --- what it certifies --------------------------------------------------------------------------------

    def line_bound(self, terms: Terms) -> float | None:
        """Return (½ − c₋)·M/η: the bound for every group and for the total."""
        return (
            max(0.0, 0.5 - (0.0 if self.over is not None else terms.c_range[0])) * terms.max_stake / self.rate
        )

    def theorem(self, terms: Terms) -> str:
        """Return the name of the theorem that proves the bound."""
        return "Theorem B, for every group and in total"

    def in_mode(self, terms: Terms) -> Self:
        """Return a copy; raise a ValueError outside sound mode."""
        if not terms.sound or terms.one_sided or terms.c_range[0] < 0:
            raise ValueError("OverlappingReserve needs mode='sound', one_sided=False and c_hat >= 0")
        if self.rate > 0.5:
            raise ValueError(f"rate must be at most 0.5 in sound mode; got {self.rate!r}")
        twin, old, new = copy.deepcopy(self), self._scale, self.rate / terms.max_stake
        if new != old:  # the unit of losses changes: every sum restarts from the weight it has reached
            sums = {name: (start + old * total, 0.0, 0.0) for name, (start, total, _) in self._parts.items()}
            vars(twin).update(_parts=sums, _scale=new)
        return twin

    def with_over(self, over: BookCorrection | None) -> Self:
        """Return a copy that is over `over`."""
        twin = copy.deepcopy(self)
        vars(twin).update(over=over)
        return twin

    def read_part(self, part: Part, state: Any) -> Memory:
        """Return a sum; raise a ValueError if its weight is below 0."""
        return _read_sum(state, self._scale)

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other) or not isinstance(other, OverlappingReserve):
            return False
        own = (self.rate, self._scale, self._parts, self.over)
        return own == (other.rate, other._scale, other._parts, other.over)

    __hash__ = None  # type: ignore[assignment]  # it changes as it learns

    def __repr__(self) -> str:
        over = "" if self.over is None else f", over={self.over!r}"
        return f"OverlappingReserve(rate={self.rate!r}{over})"

    def state(self) -> dict[str, Any]:
        """Return the rate, η/M, the groups' names, the sums (the one for all first), and `over`."""
        names = [name for name in self._parts if name is not None]
        sums = [list(self._parts[name]) for name in (None, *names)]
        known = {"rate": self.rate, "scale": self._scale, "over": over_state(self.over)}
        return known | {"names": names, "sums": sums}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Return a correction with the state that `state()` returned."""
        made = cls(state["rate"], read_over_state(state["over"]))
        names = read_names("names", state["names"])
        made._scale = arguments.positive("scale", state["scale"])
        sums = state["sums"]
        if len(sums) != len(names) + 1:
            raise ValueError(f"sums must be one for all and one for each of {len(names)} names; got {sums!r}")
        read = [_read_sum(plain, made._scale) for plain in sums]
        made._parts = dict(zip((None, *names), read, strict=True))
        return made


def _read_sum(state: Any, scale: float) -> Sum:
    """Return a sum from plain data, three numbers; raise a ValueError if its weight is below 0."""
    if not isinstance(state, list) or len(state) != 3:
        raise ValueError(f"sum must be three numbers; got {state!r}")
    start, total, residual = (arguments.scalar("sum", number) for number in state)
    arguments.within("weight", start + scale * total, 0.0, 1e12)
    arguments.within("low", scale * residual, -1.0, 1.0)
    return start, total, residual
