"""What the two swap corrections share: equal cells over the range of λ, each with two sums."""

from __future__ import annotations

from array import array
from itertools import pairwise
from typing import Any, Self

from makewhole import arguments
from makewhole.corrections import _kernels
from makewhole.corrections.base import Memory, Proposal, Stepped

# From so many cells on a memory is copied before every step in less time as an array than as a list.
_MANY = 64


class CellCorrection(Stepped):
    """K equal half-open cells over [low, high]; each knows its best response, Σwx/Σw.

    An empty cell answers itself: with 0 if it holds 0, else with its midpoint. The outermost cells are
    open-ended, so a range narrower than the targets' is allowed; it voids the guarantee.
    """

    options = ("cells",)
    settings = ("low", "high")

    def __init__(self, cells: int = 10, low: float = -1.0, high: float = 1.0) -> None:
        self._cells = arguments.whole("cells", cells, least=2)
        self.low, self.high = arguments.interval("(low, high)", (low, high))
        if not self.low <= 0.0 <= self.high or self.low == self.high:
            raise ValueError(f"[low, high] must hold 0 and more; got [{low!r}, {high!r}]")
        self._step = (self.high - self.low) / self._cells
        if not 1e-300 < self._step < 1e300:
            raise ValueError(
                f"[low, high] must be neither that narrow nor that wide; got [{low!r}, {high!r}]"
            )
        midpoints = [(a + b) / 2 for a, b in pairwise(self.edges)]
        values = [0.0] * (2 * cells) + midpoints + [self.low, self._step, 1 / self._step]
        home = self.cell_of(0.0)
        values[2 * cells + home] = 0.0
        self._values = self._stored(values, "d")
        self._marks = self._stored([*range(cells), home, 0], "q")

    def _stored(self, numbers: list[Any], code: str) -> Any:
        return numbers if self._cells < _MANY else array(code, numbers)

    @property
    def cells(self) -> int:
        """How many cells there are."""
        return self._cells

    @property
    def edges(self) -> list[float]:
        """The cells' edges, from `low` to `high`."""
        return [_kernels.edge(self.low, self._step, k) for k in range(self._cells)] + [self.high]

    @property
    def best_responses(self) -> list[float]:
        """Each cell's best response to what was credited to it."""
        return list(self._values[2 * self._cells : 3 * self._cells])

    def cell_of(self, x: float) -> int:
        """The cell that holds x; the outermost two are open-ended."""
        return _kernels.cell_of(self.low, self._step, 1 / self._step, self._cells, x)

    def covers(self, c_range: tuple[float, float]) -> bool:
        """Whether the cells reach over all that a target can be when ĉ lies in `c_range`."""
        return self.low <= -1.0 - c_range[1] and self.high >= 1.0 - c_range[0]

    def proposed(self, memory: Memory) -> tuple[Proposal, Memory]:
        """The next proposal, and the memory after it."""
        values, marks = memory
        if marks[marks[-2]] != marks[-2]:  # the current cell points elsewhere: it will move
            memory = values, marks[:]
        return tuple.__new__(Proposal, self._propose(memory[0], memory[1])), memory

    def state(self) -> dict[str, Any]:
        """Everything as plain data, O(cells)."""
        current, draws = self._marks[-2:]
        return {
            "cells": self._cells,
            "low": self.low,
            "high": self.high,
            "sums": list(self._values[: self._cells]),
            "weights": list(self._values[self._cells : 2 * self._cells]),
            "current": current,
            "draws": draws,
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Continue where `state()` was taken."""
        made = cls(cells=state["cells"], low=state["low"], high=state["high"])
        sums = arguments.numbers("sums", state["sums"])
        weights = arguments.numbers("weights", state["weights"])
        if sums.shape != (made.cells,) or weights.shape != (made.cells,) or (weights < 0).any():
            raise ValueError(f"the state must hold {made.cells} sums and as many weights of at least 0")
        current = arguments.whole("current", state["current"], least=0)
        if current >= made.cells:
            raise ValueError(f"current must be one of {made.cells} cells; got {current}")
        draws = arguments.whole("draws", state["draws"], least=0) & 0xFFFFFFFF
        made._marks[-2], made._marks[-1] = current, draws
        for k, (total, weight) in enumerate(zip(sums.tolist(), weights.tolist(), strict=True)):
            made._values[k], made._values[made.cells + k] = total, weight
            if weight > 0:  # the best response follows from the sums
                made._values[2 * made.cells + k] = total / weight
                made._marks[k] = made.cell_of(total / weight)
        return made
