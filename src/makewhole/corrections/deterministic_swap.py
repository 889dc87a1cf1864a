"""Deterministic swap: exact against everyone, without a draw to read."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Self

from makewhole import arguments
from makewhole.corrections import _kernels
from makewhole.corrections.cells import CellCorrection
from makewhole.corrections.certificate import Terms


class DeterministicSwap(CellCorrection):
    """Play a cell that holds its own best response; else the boundary of two that point at each other.

    The lowest cell cannot point left nor the highest right, so a search by halves meets, after at most
    log₂ K cells, one that answers itself or two neighbours k, k+1 that point at each other. Then their
    common boundary v is played, and the outcome goes to k if its target lies below v, else to k+1. No
    randomness, hence nothing to read.

    Theorem C: against everyone, on every path, |Σℓ| ≤ M·R·(ΣA/(M·K) + K) with R = high − low, and per cell
    |Σℓ| ≤ (R/K)·ΣA + R·M: exact at every price level. With ⌈√T⌉ cells, |mean ℓ| ≤ (2√T + 1)·RM/T. (For
    outcomes that come before the next forecast.)

    Parameters
    ----------
    cells
        How many cells; `for_horizon` picks ⌈√T⌉.
    low, high
        The range of λ: [−1 − c₊, 1 − c₋] if ĉ lies in [c₋, c₊]. A narrower one voids the guarantee.

    Examples
    --------
    >>> import makewhole as mw
    >>> correction = mw.DeterministicSwap(cells=2)
    >>> for target in (-0.5, 0.5):  # each cell learns to point at the other
    ...     correction.observe(correction.propose(), target, weight=1.0)
    >>> correction.propose()
    Proposal(lam=0.0, cell=0, split=True)
    """

    name = "deterministic"
    about = "a variant of it that draws nothing"
    against = "everyone: it is at most about 2·R·M/√T"
    why_no_bound = "deterministic swap bounds the mean, not the total (Theorem C)"
    mean_theorem = "our Theorem C"
    variants: ClassVar = {"deterministic swap": {}}

    _propose = staticmethod(_kernels.deterministic_propose)
    _observe = staticmethod(_kernels.deterministic_observe)

    def __init__(self, cells: int = 100, low: float = -1.0, high: float = 1.0) -> None:
        super().__init__(cells, low, high)

    @classmethod
    def for_horizon(cls, rounds: int, c_range: tuple[float, float] = (0.0, 0.0)) -> Self:
        """⌈√T⌉ cells (at least 2) over all that x can be: the mean loss is at most (2√T + 1)·RM/T."""
        low, high = arguments.interval("c_range", c_range)
        cells = max(2, math.isqrt(arguments.whole("rounds", rounds, least=1) - 1) + 1)
        return cls(cells, low=-1.0 - high, high=1.0 - low)

    @classmethod
    def fitted(
        cls, rounds: int, c_range: tuple[float, float] = (0.0, 0.0), seed: int | None = None, **settings: Any
    ) -> Self:
        """⌈√T⌉ cells over all that x can be."""
        made = cls.for_horizon(rounds, c_range)
        return cls(**({"cells": made.cells, "low": made.low, "high": made.high} | settings))

    def mean_bound(self, rounds: int, terms: Terms) -> float | None:
        """Theorem C: R·(1/K + K/T) caps."""
        reach = self.high - self.low
        return reach * (1 / self.cells + self.cells / rounds) * terms.max_stake

    def __repr__(self) -> str:
        return f"DeterministicSwap(cells={self.cells}, low={self.low!r}, high={self.high!r})"
