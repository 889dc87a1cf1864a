"""Run a correction, or one for each group, in the loop of a backtest."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from makewhole.backtesting.log import CHUNK, ChunkColumns
from makewhole.corrections import BookCorrection
from makewhole.corrections._kernels import (
    compiled_add_groups,
    compiled_group_replay,
    compiled_replay,
    make_replay,
)
from makewhole.jit import call
from makewhole.rules import Publishing

_NOTHING = (np.zeros(0), np.zeros(0, np.int64))


class Player:
    """Runs one correction over chunks of a log: compiled if it has kernels, else in a plain Python loop."""

    def __init__(self, correction: BookCorrection) -> None:
        self.correction, self.over = correction, correction.over
        self.compiled = correction.kernels is not None
        self.memory: Any = correction.arrays() if self.compiled else _NOTHING
        self.memory += _NOTHING if self.over is None else self.over.arrays()
        self._replay = self._loop()

    def _loop(self) -> Callable[..., None]:
        kernels = self.correction.kernels
        if kernels is not None:
            inner = None if self.over is None else self.over.kernels
            return functools.partial(call, compiled_replay(*kernels, inner))
        correction = self.correction

        def propose(*_: Any) -> tuple[float, Any]:
            proposal = correction.propose()
            return proposal.lam, proposal

        def observe(
            _: Any, __: Any, proposal: tuple[float, Any], target: float, weight: float, *___: Any
        ) -> None:
            correction.observe(proposal[1], target, min(weight, 1.0))  # as in a forecaster

        return make_replay(propose, observe)

    def replay(self, columns: ChunkColumns, *settings: Any) -> None:
        """Run the loop over a chunk's columns; `settings` are its further arguments."""
        given: Any = columns if self.compiled else ChunkColumns(*(column.tolist() for column in columns))
        self._replay(self.memory, given, *settings)

    def finish(self) -> None:
        """Store what the loop has learned in the correction."""
        if self.compiled:
            self.correction.adopt(self.memory[:2])
        if self.over is not None:
            self.over.adopt(self.memory[2:])


class GroupPlayer:
    """Runs copies of a correction, one for each group, over chunks of a log, in one compiled loop."""

    def __init__(self, corrections: list[Any]) -> None:
        self.corrections = corrections
        first = corrections[0]
        memories = [
            one.arrays() + (_NOTHING if one.over is None else one.over.arrays()) for one in corrections
        ]
        self.memory = tuple(np.stack(part) for part in zip(*memories, strict=True))
        inner = None if first.over is None else first.over.kernels
        self._replay = compiled_group_replay(*first.kernels, inner)
        self._links = np.full(len(corrections), -1), np.empty(CHUNK, np.int64)

    def replay(
        self, codes: Any, columns: ChunkColumns, how: Publishing, max_stake: float, totals: Any, out: Any
    ) -> Any:
        """Run the loop over a chunk's columns; `codes` are its groups. Return the groups' sums."""
        sums = np.zeros((len(self.corrections), 8))
        call(self._replay, self.memory, codes, self._links, columns, (how, max_stake), sums, out)
        call(compiled_add_groups(), totals, sums, out.loss, out.total)
        return sums

    def finish(self) -> None:
        """Store what the loop has learned in the corrections."""
        values, marks, inner_values, inner_marks = self.memory
        for k, one in enumerate(self.corrections):
            one.adopt((values[k], marks[k]))
            if one.over is not None:
                one.over.adopt((inner_values[k], inner_marks[k]))
