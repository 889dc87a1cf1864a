"""Swap regret: the paper's Algorithm 3."""

from __future__ import annotations

import math
import os
from typing import Any, ClassVar, Self

from makewhole import arguments
from makewhole.corrections import _kernels
from makewhole.corrections.base import Proposal
from makewhole.corrections.cells import CellCorrection


class SwapRegret(CellCorrection):
    """Play a best response to the rounds in which that very cell was played.

    From the current cell step to the cell that holds its best response, until a cell repeats. Of that
    cycle draw one cell evenly, play its best response, and credit the outcome to it. A step costs as much
    as the path is long, whatever the number of rounds.

    The mean loss vanishes, like (log T / T)^¼, in expectation and against agents who cannot see the draw.
    Agents who can, and the published c shows it, may win about 0.17 of the cap per forecast for ever:
    `DeterministicSwap` holds against them too.

    Parameters
    ----------
    cells
        How many cells; an odd number keeps 0 inside a cell. `for_horizon` picks the paper's.
    low, high
        The range of λ: [−1 − c₊, 1 − c₋] if ĉ lies in [c₋, c₊]. A narrower one voids the guarantee.
    seed
        The same seed gives the same draws, bit for bit. None takes a fresh one.

    Examples
    --------
    >>> import makewhole as mw
    >>> correction = mw.SwapRegret(cells=10, seed=0)
    >>> for target in (0.5, 0.5, 0.25, 0.5):
    ...     correction.observe(correction.propose(), target, weight=1.0)
    >>> proposal = correction.propose()
    >>> proposal.lam, proposal.cell
    (0.5, 6)

    References
    ----------
    Zhao & Ermon (2021), "Right Decisions from Wrong Predictions", Algorithm 3; Blum & Mansour (2007),
    "From External to Internal Regret".
    """

    name = "swap"
    about = "the paper's Algorithm 3, which draws at random"
    against = "bettors who cannot see the draw; others can win 0.17·M per forecast for ever"
    why_no_bound = "the paper's swap bounds the mean, in expectation, against agents who cannot see its draw"
    # The second is what the paper's authors used: narrower than the targets, so without its guarantee.
    variants: ClassVar = {"swap": {}, "swap ±0.1": {"cells": 40, "low": -0.1, "high": 0.1}}

    _propose = staticmethod(_kernels.swap_propose)
    _observe = staticmethod(_kernels.swap_observe)

    def __init__(
        self, cells: int = 10, low: float = -1.0, high: float = 1.0, seed: int | None = None
    ) -> None:
        super().__init__(cells, low, high)
        seed = (
            int.from_bytes(os.urandom(4), "big") if seed is None else arguments.whole("seed", seed, least=0)
        )
        # Mixed twice, so that neighbouring seeds start far apart and long seeds count in full.
        self._marks[-1] = _kernels.scramble(_kernels.scramble(seed) ^ (seed >> 32) ^ 0x5EED)

    @classmethod
    def for_horizon(
        cls, rounds: int, c_range: tuple[float, float] = (0.0, 0.0), seed: int | None = None
    ) -> Self:
        """The paper's choice for T rounds: K = max(2, ⌈(T / log T)^¼⌉) cells over all that x can be."""
        rounds = arguments.whole("rounds", rounds, least=1)
        low, high = arguments.interval("c_range", c_range)
        cells = max(2, math.ceil((rounds / math.log(rounds)) ** 0.25)) if rounds > 1 else 2
        return cls(cells, low=-1.0 - high, high=1.0 - low, seed=seed)

    @classmethod
    def fitted(
        cls, rounds: int, c_range: tuple[float, float] = (0.0, 0.0), seed: int | None = None, **settings: Any
    ) -> Self:
        """The paper's number of cells over all that x can be."""
        made = cls.for_horizon(rounds, c_range)
        return cls(**({"cells": made.cells, "low": made.low, "high": made.high, "seed": seed} | settings))

    def seen(self, lam: float) -> Proposal:
        """Of the cycle, the cell whose best response was played."""
        return self.drawn(lam)

    def __repr__(self) -> str:
        return f"SwapRegret(cells={self.cells}, low={self.low!r}, high={self.high!r})"

    def cycle(self) -> list[int]:
        """The cells of which the next proposal will draw one, without drawing."""
        cell, length = _kernels.find_cycle(self._marks, self._marks[-2])
        cells = [cell]
        while len(cells) < length:
            cells.append(self._marks[cells[-1]])
        return cells

    def drawn(self, lam: float) -> Proposal:
        """What someone who keeps a copy of this correction, but not its seed, learns from seeing λ.

        Of the cycle, the cell whose best response was played; the copy moves on to it.
        """
        cell = min(self.cycle(), key=lambda k: abs(self._values[2 * self.cells + k] - lam))
        self._marks[-2] = cell
        return Proposal(lam, cell)
