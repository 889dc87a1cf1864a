"""A reserve for groups that overlap: no group can lose more than the certificate, however many there are."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from makewhole import arguments
from makewhole.corrections import _kernels
from makewhole.corrections.base import (
    BookCorrection,
    Kernels,
    Memory,
    Part,
    Proposal,
    Stepped,
    check_lesson,
    steps_as_registered,
)
from makewhole.corrections.certificate import Terms
from makewhole.corrections.names import Name, read_names
from makewhole.corrections.reserve import over_state, read_over, read_over_state, read_rate


class OverlappingReserve(BookCorrection):
    """One weight for everyone and one for each group; λ is the sum of a forecast's weights.

    Every loss raises the weights of the groups that the forecast belongs to by η·ℓ/M, every gain lowers
    them, none below 0. A forecast may belong to any number of groups:
    `f.forecast(mu=0.3, groups=["AA", "JFK"])`. Every group's total loss is at most M/(2η), however many
    groups there are, and so is the total. It needs sound mode and ĉ >= 0. For groups that do not overlap,
    `Grouped` gives each its own correction.

    Parameters
    ----------
    rate
        η, above 0 and at most ½.
    over
        Another of our corrections, as in `Reserve`: it refines ĉ first.

    Examples
    --------
    >>> import makewhole as mw
    >>> f = mw.InsuredForecaster(None, mw.OverlappingReserve(0.01), mode="sound", max_stake=1)
    >>> for _ in range(10_000):  # someone knows all about flights of AA from JFK
    ...     payments = f.settle(f.forecast(mu=0.5, groups=["AA", "JFK"]), 1, stake=1.0)
    >>> {name: round(s.total_loss, 1) for name, s in f.statement().groups.items()}
    {'AA': 16.7, 'JFK': 16.7}
    >>> f.peek(mu=0.5, groups=["AA", "JFK"]).c > 0.49, f.statement().certificate.bound
    (True, 50.0)
    """

    settings = ("rate", "over")
    integrates = True
    rate: float
    grouped = True

    _propose = staticmethod(_kernels.members_propose)
    _observe = staticmethod(_kernels.members_observe)

    def __init__(self, rate: float = 0.01, over: Stepped | None = None) -> None:
        self.rate = read_rate(rate)
        self.over = read_over(over)
        self._weights: dict[Part, float] = {None: 0.0}

    @property
    def kernels(self) -> Kernels | None:
        """Its two steps; None where a subclass steps in its own way."""
        return Kernels(self._propose, self._observe) if steps_as_registered(self) else None

    def propose(self) -> Proposal:
        """The λ for a forecast that belongs to no group: everyone's weight."""
        return self.proposed(self.gather([self._weights[None]]))[0]

    def observe(self, proposal: Proposal, target: float, weight: float) -> None:
        """Learn an outcome of a forecast that belongs to no group."""
        check_lesson(target, weight)
        self.check(proposal)
        if weight:
            memory = self.learned(self.gather([self._weights[None]]), proposal, target, weight)
            self._weights[None] = self.scatter(memory)[0]

    def check(self, proposal: Proposal) -> None:
        """Raise a ValueError unless the proposal may have been this correction's."""
        if proposal[1] != 2 or proposal[2]:
            raise ValueError(f"proposal must come from this correction; got {proposal!r}")

    # --- what it certifies --------------------------------------------------------------------------------

    def line_bound(self, terms: Terms) -> float | None:
        """M/(2η), for every group and for all."""
        return (
            max(0.0, 0.5 - (0.0 if self.over is not None else terms.c_range[0])) * terms.max_stake / self.rate
        )

    def theorem(self, terms: Terms) -> str:
        """Theorem B, group by group."""
        return "Theorem B, for every group and for all"

    def in_mode(self, terms: Terms) -> Self:
        """The same; a ValueError outside sound mode."""
        if not terms.sound or terms.one_sided or terms.c_range[0] < 0:
            raise ValueError("overlapping groups need mode='sound', stakes of both signs and c_hat >= 0")
        if self.rate > 0.5:
            raise ValueError(f"rate must be at most 0.5 in sound mode; got {self.rate!r}")
        return copy.deepcopy(self)

    # --- groups and memory: a weight for everyone, and one for each group ---------------------------------

    def check_groups(self, groups: tuple[Name, ...]) -> tuple[Name, ...]:
        """The groups of a forecast: any will do."""
        return groups

    def parts(self, groups: tuple[Name, ...]) -> tuple[Part, ...]:
        """Everyone's weight, and that of every group."""
        return (None, *groups)

    def memories(self) -> dict[Part, Memory]:
        """All weights."""
        return dict(self._weights)

    def blank(self) -> Memory:
        """A group begins at 0."""
        return 0.0

    def with_memories(self, memories: Mapping[Part, Memory]) -> Self:
        """The same with these weights."""
        twin = copy.copy(self)
        vars(twin).update(_weights=dict(memories), over=copy.deepcopy(self.over))
        return twin

    def with_over(self, over: BookCorrection | None) -> Self:
        """The same over a correction that has learned more."""
        twin = copy.deepcopy(self)
        vars(twin).update(over=over)
        return twin

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.with_memories(self._weights)

    def gather(self, memories: list[Memory]) -> Memory:
        """The kernels' two lists: the rate and the weights; where the members stand, how many, and which."""
        return [self.rate, *memories], [2, len(memories), *range(1, 1 + len(memories))]

    def scatter(self, memory: Memory) -> list[Memory]:
        """The weights."""
        weights: list[Memory] = memory[0][1:]
        return weights

    def proposed(self, memory: Memory) -> tuple[Proposal, Memory]:
        """The next proposal; it changes no weight."""
        return tuple.__new__(Proposal, self._propose(memory[0], memory[1])), memory

    def learned(self, memory: Memory, proposal: Proposal, target: float, weight: float) -> Memory:
        """The weights after an outcome."""
        values = memory[0][:]
        self._observe(values, memory[1], proposal, target, weight)
        return values, memory[1]

    def part_state(self, part: Part, memory: Memory) -> Any:
        """A weight."""
        return memory

    def read_part(self, part: Part, state: Any) -> Memory:
        """A weight, checked."""
        return arguments.within("weight", state, 0.0, np.inf)

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other) or not isinstance(other, OverlappingReserve):
            return False
        return (self.rate, self._weights, self.over) == (other.rate, other._weights, other.over)

    __hash__ = None  # type: ignore[assignment]  # it changes as it learns

    def __repr__(self) -> str:
        over = "" if self.over is None else f", over={self.over!r}"
        return f"OverlappingReserve(rate={self.rate!r}{over})"

    def state(self) -> dict[str, Any]:
        """The rate, the names of all groups, their weights after everyone's; and what it is over."""
        names = [name for name in self._weights if name is not None]
        weights = [self._weights[name] for name in (None, *names)]
        return {"rate": self.rate, "over": over_state(self.over), "names": names, "weights": weights}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Continue where `state()` was taken."""
        made = cls(state["rate"], read_over_state(state["over"]))
        names = read_names("names", state["names"])
        weights = arguments.numbers("weights", state["weights"]).tolist()
        if len(weights) != len(names) + 1 or min(weights) < 0:
            raise ValueError("weights must be one for each name and one for everyone, none below 0")
        made._weights = dict(zip((None, *names), weights, strict=True))
        return made

    # --- compiled -----------------------------------------------------------------------------------------

    def begin(self, groups: tuple[Name, ...]) -> Any:
        """Begin these groups; returns where each one's weight stands in the compiled loop's list."""
        for name in groups:
            self._weights.setdefault(name, 0.0)
        places = {name: place for place, name in enumerate(self._weights, 1)}
        return np.array([places[name] for name in groups], dtype=np.int64)

    def arrays(self) -> tuple[Any, Any]:
        """The memory as arrays, for the compiled loop: the rate and all weights, everyone's first."""
        return np.array([self.rate, *self._weights.values()]), np.array([2, 1, 1], dtype=np.int64)

    def adopt(self, arrays: tuple[Any, Any]) -> None:
        """Take over the weights that the compiled loop has left."""
        self._weights = dict(zip(self._weights, arrays[0][1:].tolist(), strict=True))
