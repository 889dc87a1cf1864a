"""Deterministic swap: balances the forecasts of each cell of λ, without a random draw."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Self

from makewhole import arguments
from makewhole.corrections import _kernels
from makewhole.corrections.cells import CellCorrection
from makewhole.corrections.certificate import Terms


class DeterministicSwap(CellCorrection):
    """A swap correction without a random draw: it balances the forecasts of each cell of λ.

    The range of λ is divided into N cells. Each cell keeps its best response: the λ that would have balanced
    all forecasts credited to it so far. If a cell contains its own best response, propose that. Else there
    are two neighbouring cells whose best responses point at each other; propose the boundary between them,
    and credit the outcome to the lower cell if its target lies below the boundary, else to the upper one. A
    binary search finds one or the other within log₂ N steps: the best response of the lowest cell cannot
    point down, nor that of the highest cell up.

    Theorem C, for outcomes that come before the next forecast, against everyone: |Σℓ| ≤ M·R·(ΣA/(M·N) + N),
    and in each cell |Σℓ| ≤ (R/N)·ΣA + R·M. Here ℓ is the loss on a forecast, A its gross stake, M the cap and
    R = high − low. With ⌈√T⌉ cells, the mean loss is at most (2√T + 1)·R·M/T in absolute value. In sound mode
    the loss has the same upper bounds, but the forecaster may win more.

    Parameters
    ----------
    cells
        The number of cells; `for_horizon` takes ⌈√T⌉.
    low, high
        The range of λ. If ĉ lies in [c₋, c₊], it should be [−1 − c₊, 1 − c₋]; with a narrower range the
        guarantee does not hold.

    Examples
    --------
    >>> import makewhole as mw
    >>> correction = mw.DeterministicSwap(cells=2)
    >>> for target in (-0.5, 0.5):  # now the best response of each cell lies in the other
    ...     correction.observe(correction.propose(), target, weight=1.0)
    >>> correction.propose()
    Proposal(lam=0.0, cell=0, split=True)
    """

    name = "deterministic"
    about = "a variant of it that draws nothing"
    against = "everyone: it is at most about 2·R·M/√T"
    why_no_bound = "deterministic swap bounds the mean loss, not the total (Theorem C)"
    mean_theorem = "our Theorem C"
    variants: ClassVar = {"deterministic swap": {}}

    _propose = staticmethod(_kernels.deterministic_propose)
    _observe = staticmethod(_kernels.deterministic_observe)

    def __init__(self, cells: int = 100, low: float = -1.0, high: float = 1.0) -> None:
        super().__init__(cells, low, high)

    @classmethod
    def for_horizon(cls, rounds: int, c_range: tuple[float, float] = (0.0, 0.0)) -> Self:
        """Make one for T rounds, with ⌈√T⌉ cells: the mean loss is then at most (2√T + 1)·R·M/T.

        The cells cover all targets that can occur if ĉ lies in `c_range`.
        """
        low, high = arguments.interval("c_range", c_range)
        cells = max(2, math.isqrt(arguments.whole("rounds", rounds, least=1) - 1) + 1)
        return cls(cells, low=-1.0 - high, high=1.0 - low)

    @classmethod
    def fitted(
        cls, rounds: int, c_range: tuple[float, float] = (0.0, 0.0), seed: int | None = None, **settings: Any
    ) -> Self:
        """Make one with ⌈√T⌉ cells, unless `settings` say otherwise."""
        made = cls.for_horizon(rounds, c_range)
        return cls(**({"cells": made.cells, "low": made.low, "high": made.high} | settings))

    def mean_bound(self, rounds: int, terms: Terms) -> float | None:
        """Return R·(1/N + N/T)·M (Theorem C)."""
        reach = self.high - self.low
        return reach * (1 / self.cells + self.cells / rounds) * terms.max_stake

    def __repr__(self) -> str:
        return f"DeterministicSwap(cells={self.cells}, low={self.low!r}, high={self.high!r})"
