"""A correction in the loop of a backtest."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from makewhole.arguments import Floats
from makewhole.corrections import Correction
from makewhole.corrections._kernels import compiled_replay, make_replay
from makewhole.corrections.base import Stepped, unchanged
from makewhole.jit import call


class Player:
    """A correction in a loop: compiled if it is one of ours, else plain."""

    def __init__(self, correction: Correction) -> None:
        self.correction = correction
        self.stepped = compilable(correction)
        self.over: Stepped | None = getattr(self.stepped, "over", None)
        nothing = (np.zeros(0), np.zeros(0, np.int64))
        self.memory: Any = self.stepped.arrays() if self.stepped else nothing
        self.memory += nothing if self.over is None else self.over.arrays()
        self._replay = self._loop()

    def _loop(self) -> Callable[..., None]:
        if self.stepped is not None:
            inner = None if self.over is None else (self.over._propose, self.over._observe)
            compiled = compiled_replay(self.stepped._propose, self.stepped._observe, inner)
            return functools.partial(call, compiled)
        correction = self.correction

        def propose(*_: Any) -> tuple[float, Any]:
            proposal = correction.propose()
            return proposal.lam, proposal

        def observe(_: Any, __: Any, proposal: tuple[float, Any], target: float, weight: float) -> None:
            correction.observe(proposal[1], target, weight)

        return make_replay(propose, observe)

    def replay(self, columns: tuple[Floats, ...], *settings: Any) -> None:
        """Run through a chunk's columns; `settings` are what the loop takes after them."""
        given: Any = columns if self.stepped else tuple(column.tolist() for column in columns)
        self._replay(self.memory, given, *settings)

    def finish(self) -> None:
        """Let the correction have what the loop has learned."""
        if self.stepped is not None:
            self.stepped.adopt(self.memory[:2])
        if self.over is not None:
            self.over.adopt(self.memory[2:])


def compilable(correction: Correction) -> Stepped | None:
    """One of ours, unless a subclass has its own way of proposing or observing."""
    return correction if isinstance(correction, Stepped) and unchanged(correction) else None
