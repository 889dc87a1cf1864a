"""What an audit concludes from its cells: where each gap lies, and how surely a bet wins.

Three modules draw these conclusions, each from its own assumptions: `independent` (the outcomes are
independent given the forecasts), `clusters` (those of different clusters are), and `betting` (every forecast
is right given what happened before it).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from makewhole.arguments import Floats


class GapBounds(NamedTuple):
    """Bounds on the gap between truth and forecast in every cell, which hold for all cells together."""

    low: Floats
    high: Floats


class Evidence(NamedTuple):
    """The conclusions about all cells, as arrays [class, group, bin].

    `p_value` is for the two bets on one cell, and holds for all cells together. `together` is one p-value for
    everything: at most the smallest of the others, and smaller if many cells are off by a little.
    `together_c` is the smallest constant c that neither it nor a gap refutes. `method` names the bounds.
    """

    gaps: GapBounds
    p_value: Floats
    together: float
    together_c: float
    method: str


def smallest_unrefuted(refutes: Callable[[float], bool], gaps: GapBounds, halvings: int = 30) -> float:
    """Return the smallest c in [0, 1] that is not refuted, by bisection.

    The search begins at the c that the gaps of single cells need: a smaller one is refuted anyway.
    """
    low, high = float(np.clip(np.maximum(gaps.low, -gaps.high).max(), 0.0, 1.0)), 1.0
    if not refutes(low):
        return low
    for _ in range(halvings):
        middle = (low + high) / 2
        low, high = (middle, high) if refutes(middle) else (low, middle)
    return high


def log_mean_exp(logs: Floats, axis: int = 0, weights: Any = None) -> Floats:
    """Return the logarithm of the (weighted) mean of exp(logs); `logs` may be infinite."""
    most = np.max(logs, axis=axis, keepdims=True)
    most = np.where(np.isfinite(most), most, np.where(most > 0, np.inf, 0.0))
    with np.errstate(invalid="ignore", divide="ignore"):
        scaled = np.where(logs == most, 1.0, np.exp(logs - most))
        mean = np.log(np.average(scaled, axis=axis, weights=weights))
    total: Floats = np.squeeze(most, axis=axis) + mean
    return total
