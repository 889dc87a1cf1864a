"""The corrections that the studies compare, by name.

No other module of the studies knows a correction's class. What a study needs to know of a correction, it asks
the functions below.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from makewhole.corrections import (
    Correction,
    DeterministicSwap,
    Grouped,
    NaiveBestResponse,
    NoCorrection,
    Reserve,
    StandardRegret,
    SwapRegret,
)
from makewhole.corrections.base import Stepped, unchanged
from makewhole.corrections.cells import CellCorrection

Range = tuple[float, float]
# Makes a fresh correction for a run: takes the number of rounds, the range of ĉ, and the seed.
Maker = Callable[[int, Range, int], Correction]

LINEUP: dict[str, Maker] = {
    "none": lambda rounds, c_range, seed: NoCorrection(),
    "naive": lambda rounds, c_range, seed: NaiveBestResponse(),
    "standard 0.01": lambda rounds, c_range, seed: StandardRegret(rate=0.01),
    "standard 0.1": lambda rounds, c_range, seed: StandardRegret(rate=0.1),
    "standard 1": lambda rounds, c_range, seed: StandardRegret(rate=1.0),
    "swap": lambda rounds, c_range, seed: SwapRegret.for_horizon(rounds, c_range, seed),
    # The setting of the paper's authors. Its range is narrower than the targets', so it has no guarantee.
    "swap ±0.1": lambda rounds, c_range, seed: SwapRegret(cells=40, low=-0.1, high=0.1, seed=seed),
    "deterministic swap": lambda rounds, c_range, seed: DeterministicSwap.for_horizon(rounds, c_range),
    "reserve 0.1": lambda rounds, c_range, seed: Reserve(rate=0.1),
    "reserve 0.01": lambda rounds, c_range, seed: Reserve(rate=0.01),
    "reserve 0.001": lambda rounds, c_range, seed: Reserve(rate=0.001),
}


class Kernels(NamedTuple):
    """The two steps of a correction as plain functions that numba can compile, and their memory."""

    propose: Callable[..., Any]
    observe: Callable[..., None]
    memory: tuple[Any, Any]


class Bound(NamedTuple):
    """What a theorem promises of |mean loss|, in units of the cap, against everyone."""

    theorem: str
    mean_loss: float


def make_correction(
    name: str,
    rounds: int,
    c_range: Range = (0.0, 0.0),
    seed: int = 0,
    own: Mapping[str, Maker] | None = None,
) -> Correction:
    """Make a fresh correction for a run; `own` are the user's makers by name.

    Raises a ValueError if nobody has a correction of that name, and a TypeError if the user's maker returns
    something else than a correction for a single book.
    """
    if own and name in own:
        made = own[name](rounds, c_range, seed)
        _check_own(name, made)
        return made
    if name not in LINEUP:
        raise ValueError(f"correction must be one of {', '.join(LINEUP)}; got {name!r}")
    return LINEUP[name](rounds, c_range, seed)


def _check_own(name: str, made: Any) -> None:
    if not isinstance(made, Correction):
        raise TypeError(
            f"corrections[{name!r}] must return a correction with the methods propose, observe, state and "
            f"from_state; got {made!r}"
        )
    if isinstance(made, Grouped) or (isinstance(made, Reserve) and made.grouped):
        raise TypeError(f"corrections[{name!r}] must return a correction without groups; got {made!r}")


def make_reserve(rate: float, over: Any = None) -> Correction:
    """A reserve with this rate, on its own or over another correction of ours."""
    return Reserve(rate, over=over)


def kernels_of(correction: Correction) -> Kernels | None:
    """The compilable steps of one of our corrections; None for anybody else's.

    A subclass with its own `propose` or `observe` counts as somebody else's. Raises a ValueError for a
    reserve over another correction, which needs sound mode.
    """
    if isinstance(correction, Reserve) and correction.over is not None:
        raise ValueError(f"{correction!r} needs sound mode: only the frontier study has it")
    if not isinstance(correction, Stepped) or not unchanged(correction):
        return None
    return Kernels(type(correction)._propose, type(correction)._observe, correction.arrays())


def cell_of(correction: Correction, x: float) -> int:
    """The cell of λ that holds x; −1 for a correction without cells."""
    return correction.cell_of(x) if isinstance(correction, CellCorrection) else -1


def bound_of(correction: Correction, rounds: int) -> Bound | None:
    """What a theorem promises of a correction after so many rounds with ĉ = 0; None for most."""
    if not unchanged(correction):  # a subclass that steps in its own way has no theorem
        return None
    if isinstance(correction, DeterministicSwap):  # R·(1/K + K/T) with R = 2
        return Bound("our Theorem C", 2.0 * (1 / correction.cells + correction.cells / rounds))
    if isinstance(correction, Reserve):  # |Σℓ| <= 1/η, whatever T
        return Bound("our Theorem A", 1.0 / (correction.rate * rounds))
    if isinstance(correction, StandardRegret):  # falling rates: |Σℓ| <= R·√T / p
        return Bound("Zinkevich (2003)", 2.0 / (correction.rate * math.sqrt(rounds)))
    return None


def capital_of(correction: Correction) -> float | None:
    """The most that a forecaster can lose in sound mode, in caps, where that is certified."""
    return 0.5 / correction.rate if isinstance(correction, Reserve) and unchanged(correction) else None
