"""The corrections that the studies compare, by name."""

from __future__ import annotations

from collections.abc import Callable

from makewhole.corrections import (
    Correction,
    DeterministicSwap,
    NaiveBestResponse,
    NoCorrection,
    Reserve,
    StandardRegret,
    SwapRegret,
)

Range = tuple[float, float]

# name -> made for so many rounds, ĉ in such a range, with such a seed
LINEUP: dict[str, Callable[[int, Range, int], Correction]] = {
    "none": lambda rounds, c_range, seed: NoCorrection(),
    "naive": lambda rounds, c_range, seed: NaiveBestResponse(),
    "standard 0.01": lambda rounds, c_range, seed: StandardRegret(rate=0.01),
    "standard 0.1": lambda rounds, c_range, seed: StandardRegret(rate=0.1),
    "standard 1": lambda rounds, c_range, seed: StandardRegret(rate=1.0),
    "swap": lambda rounds, c_range, seed: SwapRegret.for_horizon(rounds, c_range, seed),
    # What the paper's authors used: narrower than the targets, so without its guarantee.
    "swap ±0.1": lambda rounds, c_range, seed: SwapRegret(cells=40, low=-0.1, high=0.1, seed=seed),
    "deterministic swap": lambda rounds, c_range, seed: DeterministicSwap.for_horizon(rounds, c_range),
    "reserve 0.1": lambda rounds, c_range, seed: Reserve(rate=0.1),
    "reserve 0.01": lambda rounds, c_range, seed: Reserve(rate=0.01),
    "reserve 0.001": lambda rounds, c_range, seed: Reserve(rate=0.001),
}


def make_correction(name: str, rounds: int, c_range: Range = (0.0, 0.0), seed: int = 0) -> Correction:
    """One of the line-up, fitted to a run."""
    if name not in LINEUP:
        raise ValueError(f"correction must be one of {', '.join(LINEUP)}; got {name!r}")
    return LINEUP[name](rounds, c_range, seed)
