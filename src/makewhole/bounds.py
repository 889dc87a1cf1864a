"""Bounds on the mean of independent outcomes, after Chernoff and Hoeffding. They hold for any number of rows.

Take n independent outcomes in [0, 1]. Their probabilities may all differ; p is the mean of them. Let m be the
average of the outcomes. The chance that the average comes out as far above p as m, or farther, is at most
exp(−n·KL(m ‖ p)), where KL(m ‖ p) = m·ln(m/p) + (1−m)·ln((1−m)/(1−p)). The same holds below p.

The bounds do not cover outcomes whose probabilities depend on earlier outcomes; `makewhole.insured.monitor`
does.

Reference: Hoeffding (1963), "Probability inequalities for sums of bounded random variables", Theorems 1
and 2.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from makewhole.arguments import Floats

# How often the floats between two ends are halved until they are neighbours: [0, 1] has fewer than 2⁶².
_HALVINGS = 62

# Dividing a probability by less than this may overflow.
_TINY = 1e-300


def divergence(mean: Any, p: Any) -> Floats:
    """The Kullback-Leibler divergence KL(mean ‖ p); infinite where `mean` is impossible under p (0 or 1)."""
    mean, p = np.broadcast_arrays(np.asarray(mean, np.float64), np.asarray(p, np.float64))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio = np.log(mean / p)
        if (p < _TINY).any():  # where mean / p may overflow; this does not, but rounds more and takes longer
            ratio = np.where(p < _TINY, np.log(mean) - np.log(p), ratio)
        happened = np.where(mean > 0, mean * ratio, 0.0)
        not_happened = np.where(mean < 1, (1 - mean) * np.log((1 - mean) / (1 - p)), 0.0)
    sums: Floats = np.maximum(happened + not_happened, 0.0)
    return sums


def tail(mean: Any, p: Any, rows: Any) -> Floats:
    """An upper bound on the chance that `rows` outcomes average as far from p as `mean`, or farther.

    The bound is exp(−rows·KL(mean ‖ p)) (Theorem 1).
    """
    chance: Floats = np.exp(-np.asarray(rows, np.float64) * divergence(mean, p))
    return chance


def weighted_tail(gap: Any, spread: Any) -> Floats:
    """An upper bound on the chance that a weighted average lies at least `gap` above its mean (or below).

    `spread` is √Σw² / Σw, where w are the weights. The bound is exp(−2·(gap / spread)²) (Theorem 2).
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        chance: Floats = np.exp(-2 * (np.asarray(gap) / np.where(np.asarray(spread) > 0, spread, 1.0)) ** 2)
    return chance


def weighted_reach(spread: Any, risk: Any) -> Floats:
    """The gap at which `weighted_tail` equals `risk`: spread·√(ln(1/risk) / 2)."""
    reach: Floats = np.asarray(spread) * np.sqrt(-np.log(risk) / 2)
    return reach


def interval(mean: Floats, rows: Floats, risk: Any) -> tuple[Floats, Floats]:
    """The interval (low, high) in which p lies, given that `rows` outcomes average `mean`.

    Each of its two ends is wrong with a chance of at most `risk`. The ends are where `tail` equals `risk`, to
    the last digit, however close to 0: a few heavy rows can put the lower end many orders of magnitude below
    `mean`.

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
        # Floats that are not negative are ordered as their bits are: halving those finds numbers of any size.
        outside = np.full(mean.shape, outermost).view(np.int64)
        inside = (mean.astype(np.float64) + 0.0).view(np.int64)  # + 0.0 makes 0 of −0
        for _ in range(_HALVINGS):
            middle = (outside + inside) // 2
            fits = divergence(mean, middle.view(np.float64)) <= most
            inside, outside = np.where(fits, middle, inside), np.where(fits, outside, middle)
        # Return `outside`, not `inside`: rounding then makes the interval wider, never narrower.
        ends.append(outside.view(np.float64))
    return ends[0], ends[1]
