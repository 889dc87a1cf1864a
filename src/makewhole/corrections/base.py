"""What a correction is: a verb pair, `propose` and `observe`, and a state that can be saved."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np


class Proposal(NamedTuple):
    """The λ a correction proposes, and what it needs to credit the outcome later.

    `cell` is the cell to credit; with `split`, the outcome goes to `cell` if its target lies below `lam`
    and to the next cell otherwise.
    """

    lam: float
    cell: int = 0
    split: bool = False


@runtime_checkable
class Correction(Protocol):
    """Adapts λ so that c = ĉ + λ balances the books.

    Write your own with these four methods and `makewhole.checks.check_correction` tells whether it fits.
    """

    def propose(self) -> Proposal:
        """The λ for the next forecast. Several forecasts may be open at once."""

    def observe(self, proposal: Proposal, target: float, weight: float) -> None:
        """Learn that λ = `target` would have balanced the forecast made with `proposal`.

        Targets lie in [−1 − c₊, 1 − c₋] where ĉ lies in [c₋, c₊]; `weight`, the gross stake divided by
        the cap, in [0, 1]. Anything else, and what is not finite, must raise a ValueError and change
        nothing; a weight of 0 must change nothing, too.
        """

    def state(self) -> dict[str, Any]:
        """Everything it has learned and was told, as plain data."""

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Continue where `state()` was taken."""


def unchanged(correction: object) -> bool:
    """Whether it is one of ours, and no subclass has its own way of proposing or observing."""
    kind: Any = type(correction)
    return (
        isinstance(correction, Stepped)
        and kind.propose is Stepped.propose
        and kind.observe is Stepped.observe
    )


class Stepped:
    """A correction whose two steps are functions in `_kernels`, so that backtests run it compiled."""

    _propose: ClassVar[Callable[..., Any]]
    _observe: ClassVar[Callable[..., None]]
    _values: list[float]
    _marks: list[int]
    _cells: int = 1
    integrates: ClassVar[bool] = False  # whether λ adds up losses, rather than averaging targets

    def propose(self) -> Proposal:
        """The λ for the next forecast, and the cell to credit."""
        return tuple.__new__(Proposal, self._propose(self._values, self._marks))

    def observe(self, proposal: Proposal, target: float, weight: float) -> None:
        """Learn that λ = `target` would have balanced the forecast made with `proposal`.

        `weight` is the gross stake divided by the cap, in [0, 1]; at 0 there is nothing to learn.
        """
        if not 0.0 <= weight <= 1.0:
            raise ValueError(f"weight must lie in [0, 1]; got {weight!r}")
        if not -np.inf < target < np.inf:
            raise ValueError(f"target must be finite; got {target!r}")
        self.check(proposal)
        if weight:
            self._observe(self._values, self._marks, proposal, target, weight)

    def check(self, proposal: Proposal) -> None:
        """Raise a ValueError unless the proposal may have been this correction's."""
        _, cell, split = proposal
        if not 0 <= cell < self._cells - split:
            raise ValueError(f"proposal must come from this correction; got cell {cell} of {self._cells}")

    def state(self) -> dict[str, Any]:
        """Everything it has learned and was told, as plain data."""
        raise NotImplementedError

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Continue where `state()` was taken."""
        raise NotImplementedError

    def resembles(self, other: object) -> bool:
        """Whether the other was made with the same settings, whatever each has learned."""
        return type(self) is type(other) and repr(self) == repr(other)

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other) or not isinstance(other, Stepped):
            return False
        return (self._values, self._marks) == (other._values, other._marks)

    __hash__ = None  # type: ignore[assignment]  # it changes as it learns

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        twin = copy.copy(self)
        twin._values, twin._marks = self._values[:], self._marks[:]
        return twin

    def arrays(self) -> tuple[Any, Any]:
        """The memory as arrays, for the compiled loop."""
        return np.array(self._values, dtype=np.float64), np.array(self._marks, dtype=np.int64)

    def adopt(self, arrays: tuple[Any, Any]) -> None:
        """Take over the memory that the compiled loop has left."""
        self._values, self._marks = arrays[0].tolist(), arrays[1].tolist()
