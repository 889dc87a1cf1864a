"""The base class of corrections for overlapping groups: numbers for everyone and each group, added up to λ.

A forecast belongs to everyone and to its groups: these are its members. λ is the sum of their weights.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self

import numpy as np

from makewhole.corrections.base import (
    BookCorrection,
    Kernels,
    Memory,
    Part,
    Proposal,
    check_lesson,
    steps_as_registered,
)
from makewhole.corrections.names import Name


class Members(BookCorrection):
    """A correction with a few numbers for everyone (the part None) and as many for each group.

    `_nothing` are the numbers of a new group. `_scale` is the number with which the kernels' list begins.
    """

    grouped = True
    integrates = True

    _propose: ClassVar[Callable[..., Any]]
    _observe: ClassVar[Callable[..., None]]
    _nothing: ClassVar[tuple[float, ...]]
    _scale: float
    _cap: float = 1.0  # M, where losses are given in units of it
    _parts: dict[Part, tuple[float, ...]]

    @property
    def kernels(self) -> Kernels | None:
        """Its two steps, to be compiled; None for a subclass that overrides them."""
        return Kernels(self._propose, self._observe) if steps_as_registered(self) else None

    def propose(self) -> Proposal:
        """Return the λ for a forecast without groups: the weight for all."""
        return self.proposed(self.gather([self._parts[None]]))[0]

    def observe(self, proposal: Proposal, target: float, weight: float) -> None:
        """Learn an outcome of a forecast without groups."""
        check_lesson(target, weight)
        self.check(proposal)
        if weight:
            loss = weight * (target - proposal.lam) * self._cap
            memory = self.learned(self.gather([self._parts[None]]), proposal, target, weight, loss, 0.0)
            self._parts[None] = self.scatter(memory)[0]

    def check(self, proposal: Proposal) -> None:
        """Raise a ValueError if the proposal cannot have come from this correction."""
        if proposal[1] != 2 or proposal[2]:
            raise ValueError(f"proposal must come from this correction; got {proposal!r}")

    # --- groups and memory --------------------------------------------------------------------------------

    def check_groups(self, groups: tuple[Name, ...]) -> tuple[Name, ...]:
        """Return the groups of a forecast; at most `most_groups`, with any names."""
        if self.most_groups is not None and len(groups) > self.most_groups:
            asked = f"groups must be at most {self.most_groups} with {self!r}"
            raise ValueError(f"{asked}; got {len(groups)}: {list(groups)!r}")
        return groups

    def parts(self, groups: tuple[Name, ...]) -> tuple[Part, ...]:
        """Return the parts of the memory that a forecast uses: everyone's, and each of its groups'."""
        return (None, *groups)

    def memories(self) -> dict[Part, Memory]:
        """Return the numbers for everyone and for each group."""
        return dict(self._parts)

    def blank(self) -> Memory:
        """Return the numbers of a new group."""
        return self._nothing

    def with_memories(self, memories: Mapping[Part, Memory]) -> Self:
        """Return a copy with these numbers."""
        twin = copy.copy(self)
        vars(twin).update(_parts=dict(memories), over=copy.deepcopy(self.over))
        return twin

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.with_memories(self._parts)

    def gather(self, memories: list[Memory]) -> Memory:
        """Return the two lists that the kernels take.

        The first has `_scale` and the numbers of each member; the second has the position and the number of
        the members, and their places in the first list.
        """
        numbers = [number for memory in memories for number in memory]
        return [self._scale, *numbers], [2, len(memories), *range(1, 1 + len(numbers), len(self._nothing))]

    def scatter(self, memory: Memory) -> list[Memory]:
        """Return the numbers of each member."""
        values, size = memory[0], len(self._nothing)
        return list(zip(*(values[1 + k :: size] for k in range(size)), strict=True))

    def proposed(self, memory: Memory) -> tuple[Proposal, Memory]:
        """Return the next proposal, and the memory, which does not change."""
        return tuple.__new__(Proposal, self._propose(memory[0], memory[1])), memory

    def learned(
        self, memory: Memory, proposal: Proposal, target: float, weight: float, loss: float, residual: float
    ) -> Memory:
        """Return the memory after an outcome."""
        values = memory[0][:]
        self._observe(values, memory[1], proposal, target, weight, loss, residual)
        return values, memory[1]

    def part_state(self, part: Part, memory: Memory) -> Any:
        """Return the numbers of a member as plain data."""
        return list(memory)

    # --- compiled -----------------------------------------------------------------------------------------

    def begin(self, groups: tuple[Name, ...]) -> Any:
        """Add these groups, and return the place of each one's numbers in the compiled loop's list."""
        for name in groups:
            self._parts.setdefault(name, self._nothing)
        places = {name: 1 + len(self._nothing) * place for place, name in enumerate(self._parts)}
        return np.array([places[name] for name in groups], dtype=np.int64)

    def arrays(self) -> tuple[Any, Any]:
        """Return the memory as arrays, for the compiled loop: `_scale`, everyone's numbers, the groups'."""
        values, _ = self.gather(list(self._parts.values()))
        return np.array(values), np.array([2, 1, 1], dtype=np.int64)

    def adopt(self, arrays: tuple[Any, Any]) -> None:
        """Take over the numbers after the compiled loop."""
        self._parts = dict(zip(self._parts, self.scatter((arrays[0].tolist(), None)), strict=True))
