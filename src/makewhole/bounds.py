"""Bounds on a mean of outcomes that hold at every count, one row or a billion: Chernoff and Hoeffding's.

For independent outcomes in [0, 1], of whatever probabilities, with mean p: the chance that their average over
n rows is as far as m above p (or below) is at most exp(−n·KL(m ‖ p)), with
KL(m ‖ p) = m·ln(m/p) + (1−m)·ln((1−m)/(1−p)).

Reference: Hoeffding (1963), "Probability inequalities for sums of bounded random variables", Theorems 1 and
2. Outcomes whose probabilities depend on earlier outcomes are not covered: for those see `makewhole.monitor`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from makewhole.arguments import Floats

# Halvings of [0, 1]: the last is below one part in 10¹⁵.
_HALVINGS = 50


def divergence(mean: Any, p: Any) -> Floats:
    """KL(mean ‖ p), infinite where p makes the mean impossible."""
    mean, p = np.broadcast_arrays(np.asarray(mean, np.float64), np.asarray(p, np.float64))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        happened = np.where(mean > 0, mean * np.log(mean / p), 0.0)
        not_happened = np.where(mean < 1, (1 - mean) * np.log((1 - mean) / (1 - p)), 0.0)
    found: Floats = np.maximum(happened + not_happened, 0.0)
    return found


def tail(mean: Any, p: Any, rows: Any) -> Floats:
    """The chance, at most, of an average as far from p as `mean`, on its side."""
    found: Floats = np.exp(-np.asarray(rows, np.float64) * divergence(mean, p))
    return found


def weighted_tail(gap: Any, spread: Any) -> Floats:
    """The same for a weighted average, as far as `gap` from its mean; `spread` is √Σw² / Σw (Theorem 2)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        found: Floats = np.exp(-2 * (np.asarray(gap) / np.where(np.asarray(spread) > 0, spread, 1.0)) ** 2)
    return found


def weighted_reach(spread: Any, risk: Any) -> Floats:
    """How far a weighted average may be from its mean, but for a chance of `risk`."""
    found: Floats = np.asarray(spread) * np.sqrt(-np.log(risk) / 2)
    return found


def interval(mean: Floats, rows: Floats, risk: Any) -> tuple[Floats, Floats]:
    """Where p lies: each of the two ends is wrong with a chance of at most `risk`.

    Examples
    --------
    >>> from makewhole import bounds
    >>> import numpy as np
    >>> low, high = bounds.interval(np.array([0.0, 0.5]), np.array([10.0, 1000.0]), risk=0.025)
    >>> low.round(3).tolist(), high.round(3).tolist()
    ([0.0, 0.457], [0.308, 0.543])
    """
    most = -np.log(risk) / np.maximum(rows, 1e-300)
    ends = []
    for outermost in (0.0, 1.0):
        outside, inside = np.full(mean.shape, outermost), mean.astype(np.float64)
        for _ in range(_HALVINGS):
            middle = (outside + inside) / 2
            fits = divergence(mean, middle) <= most
            inside, outside = np.where(fits, middle, inside), np.where(fits, outside, middle)
        # `outside` is not ruled out by rounding: the end errs, if at all, on the wide side.
        ends.append(outside)
    return ends[0], ends[1]
