"""The base class of the two swap corrections: equal cells over the range of λ, each with two sums."""

from __future__ import annotations

import copy
from array import array
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Self

import numpy as np

from makewhole import arguments
from makewhole.corrections import _kernels
from makewhole.corrections.base import Memory, Part, Proposal, Stepped

# From this many cells on, copying an array before every step is faster than copying a list.
_MANY = 64
# 3·8 bytes per cell; the theory asks for √T cells, so this is enough for 10¹² forecasts.
_MOST = 1_000_000


class CellCorrection(Stepped):
    """K equal half-open cells over [low, high].

    Each cell keeps its best response, Σwx/Σw over the outcomes credited to it: the λ that would have balanced
    them. The best response of a cell without outcomes is 0 if the cell contains 0, else its midpoint. The two
    outermost cells also take all targets beyond [low, high], but such targets break the guarantees.
    """

    options = ("cells",)
    settings = ("low", "high")

    def __init__(self, cells: int = 10, low: float = -1.0, high: float = 1.0) -> None:
        self._cells = arguments.whole("cells", cells, least=2, most=_MOST)
        self.low, self.high = arguments.interval("(low, high)", (low, high))
        if not self.low <= 0.0 <= self.high or self.low == self.high:
            raise ValueError(f"[low, high] must contain 0, with low < high; got [{low!r}, {high!r}]")
        self._step = (self.high - self.low) / self._cells
        if not 1e-300 < self._step < 1e300:
            raise ValueError(
                f"(high - low) / cells must lie between 1e-300 and 1e300; got [{low!r}, {high!r}]"
            )
        midpoints = [(a + b) / 2 for a, b in pairwise(self.edges)]
        values = [0.0] * (2 * cells) + midpoints + [self.low, self._step, 1 / self._step]
        home = self.cell_of(0.0)
        values[2 * cells + home] = 0.0
        self._values = values
        self._marks = [*range(cells), home, 0]

    def blank(self) -> Memory:
        """Return what it has learned so far; as arrays if there are many cells."""
        if self._cells < _MANY:
            return self._values[:], self._marks[:]
        return array("d", self._values), array("q", self._marks)

    def memories(self) -> dict[Part, Memory]:
        """Return all that it has learned."""
        return {None: self.blank()}

    def with_memories(self, memories: Mapping[Part, Memory]) -> Self:
        """Return a copy with these memories."""
        values, marks = memories[None]
        twin = copy.copy(self)
        vars(twin).update(_values=list(values), _marks=list(marks))
        return twin

    @property
    def cells(self) -> int:
        """The number of cells."""
        return self._cells

    @property
    def edges(self) -> list[float]:
        """The cells' edges, from `low` to `high`."""
        return [_kernels.edge(self.low, self._step, k) for k in range(self._cells)] + [self.high]

    def cell_of(self, x: float) -> int:
        """Return the index of the cell that contains x; the two outermost cells are open-ended."""
        return _kernels.cell_of(self.low, self._step, 1 / self._step, self._cells, x)

    def covers(self, c_range: tuple[float, float]) -> bool:
        """Whether the cells cover all targets that can occur if ĉ lies in `c_range`."""
        return self.low <= -1.0 - c_range[1] and self.high >= 1.0 - c_range[0]

    def proposed(self, memory: Memory) -> tuple[Proposal, Memory]:
        """Return the next proposal, and the memory after it."""
        values, marks = memory
        if marks[marks[-2]] != marks[-2]:  # the current cell will change
            memory = values, marks[:]
        return tuple.__new__(Proposal, self._propose(memory[0], memory[1])), memory

    def mean_proposal(self) -> float:
        """Return the mean λ of the next proposal: all that an agent can know who does not see a draw."""
        (lam, *_), _ = self.proposed((self._values, self._marks))
        return float(lam)

    def state(self) -> dict[str, Any]:
        """Return settings, sums and weights as plain data."""
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
        """Return a correction with the state that `state()` returned."""
        sums = arguments.numbers("sums", state["sums"])
        weights = arguments.numbers("weights", state["weights"])
        arguments.reject("sums", sums, np.abs(sums) > 1e200, "must lie in [-1e200, 1e200]")
        cells = arguments.whole("cells", state["cells"], least=2)
        if sums.shape != (cells,) or weights.shape != (cells,) or (weights < 0).any():
            raise ValueError(f"the state must hold {cells} sums and as many weights of at least 0")
        made = cls(cells=cells, low=state["low"], high=state["high"])
        current = arguments.whole("current", state["current"], least=0)
        if current >= made.cells:
            raise ValueError(f"current must be one of {made.cells} cells; got {current}")
        draws = arguments.whole("draws", state["draws"], least=0) & 0xFFFFFFFF
        made._marks[-2], made._marks[-1] = current, draws
        for k, (total, weight) in enumerate(zip(sums.tolist(), weights.tolist(), strict=True)):
            made._values[k], made._values[made.cells + k] = total, weight
            if weight > 0:  # the best response is the ratio of the sums
                arguments.within(
                    "sums / weights", total / weight if abs(total) < 1e300 * weight else 1e300, -1e12, 1e12
                )
                made._values[2 * made.cells + k] = total / weight
                made._marks[k] = made.cell_of(total / weight)
        return made
