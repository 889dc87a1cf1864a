"""Bounds on the mean of independent outcomes. They hold for any number of rows.

Take n independent outcomes in [0, 1]. Their probabilities may all differ; p is the mean of them. Let m be the
average of the outcomes. The chance that the average comes out as far above p as m, or farther, is at most
exp(−n·KL(m ‖ p)), where KL(m ‖ p) = m·ln(m/p) + (1−m)·ln((1−m)/(1−p)). The same holds below p (`tail`).

If each outcome is 0 or 1, a sharper bound also holds (`count_tail`). If S of them are 1, so m = S/n, it is

    P(S <= k) <= Φ(−√(2n·KL((k+1)/n ‖ p)))   where k + 1 <= np,

and likewise above. For equal probabilities this is Zubkov and Serov's bound on the binomial distribution.
For others it follows from Hoeffding (1956), Theorem 4: with the same p, the tail beyond np ∓ 1 is largest
where all probabilities are equal. Φ(−x) is computed by Pollak's upper bound (1956).

The bounds do not cover outcomes whose probabilities depend on earlier outcomes; `makewhole.insured.monitor`
does.

References: Hoeffding (1956), "On the distribution of the number of successes in independent trials";
Hoeffding (1963), "Probability inequalities for sums of bounded random variables", Theorems 1 and 2;
Zubkov & Serov (2013), "A complete proof of universal inequalities for the distribution function of the
binomial law"; Pollak (1956), "A remark on 'Elementary inequalities for Mills' ratio'".
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from makewhole.arguments import Floats

# How many bisections make two floats neighbours: [0, 1] has fewer than 2⁶² of them.
_HALVINGS = 62

# Dividing a probability by less than this may overflow.
_TINY = 1e-300

# What a bettor stakes on a unit of rows, as shares of the most that she can stake without ever owing
# anything. She tries all of them in parallel: one of them is near the best for any gap. Shared by the audit
# by betting and by the watch.
BETTING_SHARES = 0.98 * 2.0 ** -np.arange(10)


def divergence(mean: Any, p: Any) -> Floats:
    """The Kullback-Leibler divergence KL(mean ‖ p); infinite where `mean` is impossible under p (0 or 1)."""
    mean, p = np.broadcast_arrays(np.asarray(mean, np.float64), np.asarray(p, np.float64))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio = np.log(mean / p)
        if (p < _TINY).any():  # mean / p may overflow; the logarithms do not, but round more and take longer
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


def count_tail(mean: Any, p: Any, rows: Any) -> Floats:
    """Like `tail`, but smaller: an upper bound for outcomes that are 0 or 1 and weigh the same.

    The smaller of `tail` and, where p is at least one outcome away from `mean`, the bound by Zubkov and Serov
    (at the top of this module).
    """
    mean, p, rows = (np.asarray(given, np.float64) for given in (mean, p, rows))
    side = np.sign(p - mean)
    nearer = np.clip(mean + side / np.maximum(rows, 1.0), 0.0, 1.0)  # one outcome more towards p
    x = np.sqrt(2 * rows * divergence(nearer, p))
    with np.errstate(invalid="ignore"):
        normal = np.exp(-x * x / 2) * np.sqrt(2 / np.pi) / (x + np.sqrt(x * x + 8 / np.pi))
    sharper = (side != 0) & (side * (p - nearer) >= 0) & (rows >= 1)
    chance: Floats = np.where(sharper, np.fmin(normal, tail(mean, p, rows)), tail(mean, p, rows))
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


def interval(mean: Floats, rows: Floats, risk: Any, *, counts: Any = False) -> tuple[Floats, Floats]:
    """The interval (low, high) in which p lies, given that `rows` outcomes average `mean`.

    Each of its two ends is wrong with a chance of at most `risk`. The ends are where `tail` equals `risk`, to
    the last digit, however close to 0: a few heavy rows can put the lower end many orders of magnitude below
    `mean`. Where `counts` is true, each outcome is 0 or 1, and `count_tail` is used.

    Examples
    --------
    >>> from makewhole import bounds
    >>> import numpy as np
    >>> low, high = bounds.interval(np.array([0.0, 0.5]), np.array([10.0, 1000.0]), risk=0.025)
    >>> low.round(3).tolist(), high.round(3).tolist()
    ([0.0, 0.457], [0.308, 0.543])
    >>> low, high = bounds.interval(np.array([0.0, 0.5]), np.array([10.0, 1000.0]), risk=0.025, counts=True)
    >>> low.round(3).tolist(), high.round(3).tolist()
    ([0.0, 0.468], [0.308, 0.532])
    """
    counts = np.broadcast_to(counts, mean.shape)
    most = -np.log(risk) / np.maximum(rows, 1e-300)
    ends = []
    for outermost in (0.0, 1.0):
        # Non-negative floats sort in the order of their bits: bisecting the bits finds numbers of any size.
        outside = np.full(mean.shape, outermost).view(np.int64)
        inside = (mean.astype(np.float64) + 0.0).view(np.int64)  # + 0.0 turns −0 into 0
        for _ in range(_HALVINGS):
            middle = (outside + inside) // 2
            p = middle.view(np.float64)
            fits = divergence(mean, p) <= most
            if counts.any():
                fits &= ~counts | (count_tail(mean, p, rows) >= risk)
            inside, outside = np.where(fits, middle, inside), np.where(fits, outside, middle)
        # Return `outside`, not `inside`: rounding then makes the interval wider, never narrower.
        ends.append(outside.view(np.float64))
    return ends[0], ends[1]


def likely_sum(worst: Floats, best: Floats, risk: float) -> float:
    """Return a sum that independent losses exceed with a probability of at most `risk`.

    Loss j lies in [−V, W], where V is best_j and W is worst_j, and its mean is at most 0; it may have any
    distribution. Then E e^(tL) ≤ (W·e^(−tV) + V·e^(tW))/(V + W) for every t > 0, because e^(tL) lies below
    its chord (Hoeffding 1963). Let K(t) be the sum of the logarithms. By Markov's inequality the losses
    exceed [K(t) + ln(1/risk)]/t with a probability of at most `risk`. The least over t is returned, which is
    at most Σ W. It holds at any count.

    Examples
    --------
    >>> import numpy as np
    >>> days = np.ones(20)  # of fifty flights each, which can lose 39 and win 11 together
    >>> round(likely_sum(39 * days, 11 * days, risk=0.005))
    336
    """
    random = (worst > 0.0) & (best > 0.0)  # where best is 0, a mean of at most 0 leaves nothing to lose
    w, width = worst[random], (worst + best)[random]
    log_w, log_v = np.log(w) - np.log(width), np.log(best[random]) - np.log(width)
    needed, most = -math.log(risk), float(w.sum())
    if float(-log_v.sum()) <= needed:  # the smallest is approached as t grows
        return most
    scale = 1.0 / float(width.max())
    low, high = -50.0, 50.0  # of ln(t/scale)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        t = scale * math.exp(middle)
        beyond = np.logaddexp(log_v, log_w - t * width)  # K(t) = Σ (t·W + this)
        # t·K′ − K increases with t; where it is ln(1/risk), [K + ln(1/risk)]/t is smallest.
        reached = float(-(t * width * np.exp(log_w - t * width - beyond) + beyond).sum()) >= needed
        low, high = (low, middle) if reached else (middle, high)
    t = scale * math.exp(high)
    return min(most, most + (float(np.logaddexp(log_v, log_w - t * width).sum()) + needed) / t)
