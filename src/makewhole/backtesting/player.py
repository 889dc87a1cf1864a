"""Run one correction in the loop of a backtest."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from makewhole.backtesting.log import Columns
from makewhole.corrections import BookCorrection
from makewhole.corrections._kernels import compiled_replay, make_replay
from makewhole.jit import call


class Player:
    """Runs one correction over chunks of a log: compiled if it has kernels, else in a plain Python loop."""

    def __init__(self, correction: BookCorrection) -> None:
        self.correction, self.over = correction, correction.over
        self.compiled = correction.kernels is not None
        nothing = (np.zeros(0), np.zeros(0, np.int64))
        self.memory: Any = correction.arrays() if self.compiled else nothing
        self.memory += nothing if self.over is None else self.over.arrays()
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
            correction.observe(proposal[1], target, weight)

        return make_replay(propose, observe)

    def replay(self, columns: Columns, *settings: Any) -> None:
        """Run the loop over a chunk's columns; `settings` are its further arguments."""
        given: Any = columns if self.compiled else Columns(*(column.tolist() for column in columns))
        self._replay(self.memory, given, *settings)

    def finish(self) -> None:
        """Store what the loop has learned in the correction."""
        if self.compiled:
            self.correction.adopt(self.memory[:2])
        if self.over is not None:
            self.over.adopt(self.memory[2:])
