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
    """The paper's swap correction: it balances the forecasts of each cell of λ, with a random draw.

    The range of λ is divided into cells. Each cell keeps its best response: the λ that would have balanced
    all forecasts credited to it so far. For a new forecast, start at the current cell and step to the cell
    that contains its best response, from there to the next, and so on until a cell repeats. The repeating
    cells form a cycle. Draw one of them at random, propose its best response, and credit the outcome to it.

    With (T / log T)^½ cells the mean loss tends to 0 like (log T / T)^¼, in expectation, against agents who
    cannot see which cell was drawn (Theorem J in docs/theory.md). But the published c shows it: agents who
    keep track can go on winning about 0.17 of the cap per forecast, or more. `DeterministicSwap` also holds
    against them.

    Parameters
    ----------
    cells
        The number of cells. With an odd number, 0 lies inside a cell. `for_horizon` takes the paper's number.
    low, high
        The range of λ. If ĉ lies in [c₋, c₊], it should be [−1 − c₊, 1 − c₋]; with a narrower range the
        guarantee does not hold.
    seed
        The same seed gives the same draws, bit for bit. None draws a new seed.

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
    against = "bettors who cannot see the draw; others can win 0.17·M per forecast, or more, for ever"
    why_no_bound = (
        "the paper's swap bounds the mean loss only, in expectation, against agents who cannot see its draw"
    )
    # The second has the number of cells that minimises the bound in the paper's proof, the third the number
    # that can be proved. The last is what the authors used: its range is too narrow for the guarantee.
    variants: ClassVar = {
        "swap": {},
        "swap 1/3": {"power": 1 / 3},
        "swap 1/2": {"power": 1 / 2},
        "swap ±0.1": {"cells": 40, "low": -0.1, "high": 0.1},
    }

    _propose = staticmethod(_kernels.swap_propose)
    _observe = staticmethod(_kernels.swap_observe)

    def __init__(
        self, cells: int = 10, low: float = -1.0, high: float = 1.0, seed: int | None = None
    ) -> None:
        super().__init__(cells, low, high)
        seed = (
            int.from_bytes(os.urandom(4), "big") if seed is None else arguments.whole("seed", seed, least=0)
        )
        # Mixed twice, so that neighbouring seeds give different draws, and all bits of long seeds count.
        self._marks[-1] = _kernels.scramble(_kernels.scramble(seed) ^ (seed >> 32) ^ 0x5EED)

    @classmethod
    def for_horizon(
        cls,
        rounds: int,
        c_range: tuple[float, float] = (0.0, 0.0),
        seed: int | None = None,
        *,
        power: float = 0.25,
    ) -> Self:
        """Make one for T rounds: max(2, ⌈(T / log T)^power⌉) cells.

        They cover all targets that can occur if ĉ lies in `c_range`. The paper prints a power of ¼. Its proof
        would give the smallest bound with ⅓, but one step does not follow. With ½ the mean loss is of the
        order (log T / T)^¼, in expectation (Theorem J in docs/theory.md).
        """
        rounds = arguments.whole("rounds", rounds, least=1)
        low, high = arguments.interval("c_range", c_range)
        if not 0 < power <= 1:
            raise ValueError(f"power must lie in (0, 1]; got {power!r}")
        cells = max(2, math.ceil((rounds / math.log(rounds)) ** power)) if rounds > 1 else 2
        return cls(cells, low=-1.0 - high, high=1.0 - low, seed=seed)

    @classmethod
    def fitted(
        cls, rounds: int, c_range: tuple[float, float] = (0.0, 0.0), seed: int | None = None, **settings: Any
    ) -> Self:
        """Make one with the paper's number of cells, unless `settings` say otherwise."""
        power = {"power": settings.pop("power")} if "power" in settings else {}
        made = cls.for_horizon(rounds, c_range, **power)
        return cls(**({"cells": made.cells, "low": made.low, "high": made.high, "seed": seed} | settings))

    def seen(self, lam: float) -> Proposal:
        """Return the proposal that an observer infers from λ; see `drawn`."""
        return self.drawn(lam)

    def __repr__(self) -> str:
        return f"SwapRegret(cells={self.cells}, low={self.low!r}, high={self.high!r})"

    def cycle(self) -> list[int]:
        """Return the cells from which the next proposal will draw one; nothing is drawn."""
        cell, length = _kernels.find_cycle(self._marks, self._marks[-2])
        cells = [cell]
        while len(cells) < length:
            cells.append(self._marks[cells[-1]])
        return cells

    def mean_proposal(self) -> float:
        """Return the mean λ of the next proposal over the draw; nothing is drawn."""
        cells = self.cycle()
        return float(sum(self._values[2 * self.cells + k] for k in cells) / len(cells))

    def drawn(self, lam: float) -> Proposal:
        """Infer from the published λ which cell was drawn, and make it the current cell.

        This is for an observer who keeps a copy of the correction without its seed: the cell is the one of
        the cycle whose best response is λ.
        """
        cell = min(self.cycle(), key=lambda k: abs(self._values[2 * self.cells + k] - lam))
        self._marks[-2] = cell
        return Proposal(lam, cell)
