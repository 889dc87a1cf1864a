"""Conclusions from outcomes that are independent given the forecasts; their probabilities may all differ.

Two tests share the risk. The first looks at each cell alone, and finds a bet that wins much. The second looks
at all cells together, and finds many small gaps, none of which could be told from chance by itself.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from makewhole import bounds
from makewhole.arguments import Floats
from makewhole.auditing.evidence import Evidence, GapBounds, log_mean_exp, smallest_unrefuted
from makewhole.auditing.means import Means

_ON_COUNTS = "the bounds on counts of Hoeffding (1956) and of Zubkov and Serov (2013)"
_ON_WEIGHTS = "the bounds of Chernoff and of Hoeffding (1963) on weighted means"
_ON_GRADES = "Chernoff's bounds on means of numbers in [0, 1] (Hoeffding 1963)"

# The share of the risk for the test of all cells together; single cells have the rest. A tenth costs them
# little, and many small gaps add up to evidence so fast that a larger share would gain hardly anything.
_TOGETHER = 0.1

# The sizes of small gaps that the test of all cells together tries, in standard deviations of a cell's mean.
_SIZES = np.array([0.25, 0.5, 1.0, 1.5, 2.0, 3.0])


def conclude(means: Means, families: list[Any], confidence: float) -> Evidence:
    """Draw all conclusions. `families` are the sets of groups that share no rows, as `Cells` has them."""
    p_value, risk = compute_p_values(means), 1 - confidence

    def chance(c: Any) -> float:
        """Return the p-value of the test of all cells together."""
        evidence = float(_log_evidence(means._replace(c=np.broadcast_to(c, means.c.shape)), families))
        return min(1.0, math.exp(-max(0.0, evidence)) / _TOGETHER)

    gaps = bound_gaps(means, confidence)
    together, together_c = chance(means.c), smallest_unrefuted(lambda c: chance(c) <= risk, gaps)
    if together <= risk and together_c <= float(means.c[means.full].min()):
        # The evidence need not fall as c rises. A larger c must not be refuted if a smaller one is not.
        together = float(np.nextafter(risk, 1.0))
    method = _ON_GRADES if means.graded else _ON_COUNTS
    return Evidence(
        gaps=gaps,
        p_value=p_value,
        together=min(together, float(p_value[means.full].min())),
        together_c=together_c,
        method=method if (means.ways == 1).all() else _ON_WEIGHTS,
    )


def bound_gaps(means: Means, confidence: float) -> GapBounds:
    """Bound every cell's gap p − μ, where p is the (weighted) mean of the outcomes' true probabilities.

    All bounds hold together with at least this confidence. Nine tenths of the risk 1 − confidence are divided
    equally among the cells, the two sides of each, and the bounds tried for each side (Bonferroni); a tenth
    goes to the test of all cells together:

        risk = (1 − confidence) · 0.9 / (2 · cells · ways).

    Where all rows weigh the same and outcomes are 0 or 1, they are counts, and p lies where
    `bounds.count_tail` is at least the risk; where they are other numbers in [0, 1], where `bounds.tail` is.
    Where rows weigh differently, two bounds are tried. The first is Chernoff's: divided by the largest
    weight, w·y lies in [0, 1]; its mean is m·share, where m is the mean outcome. So p lies where
    n·KL(m·share ‖ p·share) <= ln(1/risk). The second is Hoeffding's: |m − p| <= spread·√(ln(1/risk) / 2). The
    narrower of the two is taken on each side.

    Dividing the risk between two bounds is conservative: both are thresholds of the same mean m.
    """
    full, share, ways = means.full, means.share, means.ways
    risk = (1 - _TOGETHER) * (1 - confidence) / (2 * means.cells * ways)
    low, high = np.zeros(full.shape), np.ones(full.shape)
    scaled = (means.outcome * share)[full]
    low[full], high[full] = bounds.interval(scaled, means.rows[full], risk[full], counts=means.counted[full])
    low, high = low / share, np.minimum(high / share, 1.0)
    if means.spread is not None:
        reach = bounds.weighted_reach(means.spread, risk)
        low = np.where(ways == 2, np.maximum(low, means.outcome - reach), low)
        high = np.where(ways == 2, np.minimum(high, means.outcome + reach), high)
    return GapBounds(low - means.mu, high - means.mu)


def compute_p_values(means: Means) -> Floats:
    """Test in every cell whether the truth can lie within c of the forecast.

    The edge is the end of [μ − c, μ + c] that is nearer to the mean outcome m. `chance` is an upper bound on
    the chance of a mean as far out as m if the truth were the edge: `bounds.count_tail`, or, where rows weigh
    differently, the smaller of exp(−n·KL(m·share ‖ edge·share)) and exp(−2·((m − edge) / spread)²).
    Multiplied by the number of tests (Bonferroni), it is a p-value for all cells together:

        p-value = min(1, 2 · cells · ways · chance / 0.9), and 1 where m lies within c of μ.
    """
    outcome, share, ways = means.outcome, means.share, means.ways
    edge = np.clip(means.mu + np.sign(means.gap) * means.c, 0.0, 1.0)
    chance = np.where(
        means.counted,
        bounds.count_tail(outcome, edge, means.rows),
        bounds.tail(outcome * share, edge * share, means.rows),
    )
    if means.spread is not None:
        second = bounds.weighted_tail(outcome - edge, means.spread)
        chance = np.where(ways == 2, np.minimum(chance, second), chance)
    outside = np.abs(means.gap) - means.c > 0
    return np.where(outside, np.minimum(1.0, 2 * means.cells * ways * chance / (1 - _TOGETHER)), 1.0)


def _log_evidence(means: Means, families: list[Any]) -> Floats:
    """Return the log evidence of all cells together that some truth lies farther than c from its μ.

    The evidence of one cell for a gap is a likelihood ratio: with n rows of mean outcome m, an edge e (of
    [μ − c, μ + c]) and a probability q beyond it, (q/e)^(nm)·((1−q)/(1−e))^(n(1−m)). Its expectation is at
    most 1 if the mean of the true probabilities does not pass the edge: E exp(λ·Σy) = Π(1 + p_i(e^λ − 1)) is
    largest, for a given mean, where all p_i are equal, and rises with it. (Weights as in `bound_gaps`.) Both
    sides are tried, with q beyond the edge by each number of standard deviations in `_SIZES`, and their
    evidence is averaged. Cells without common rows are independent, so their evidence is multiplied; it is
    then averaged over the sizes, the families and the classes. A mean of evidence also has an expectation of
    at most 1, so it reaches 1/risk with a chance of at most that risk (Markov's inequality).
    """
    share, bins = means.share, slice(None, -1)
    mean, rows, sides = means.outcome * share, np.maximum(means.rows, 1), []
    for sign in (1.0, -1.0):
        edge = np.clip(means.mu + sign * means.c, 0.0, 1.0) * share
        step = np.sqrt(np.maximum(edge * (1 - edge), 1 / rows) / rows)
        beyond = np.clip(edge + sign * _SIZES[:, None, None, None] * step, 0.0, share)
        with np.errstate(divide="ignore", invalid="ignore"):
            happened = np.where(mean > 0, mean * (np.log(beyond) - np.log(edge)), 0.0)
            not_ = np.where(mean < 1, (1 - mean) * (np.log1p(-beyond) - np.log1p(-edge)), 0.0)
            sides.append(np.where(beyond == edge, 0.0, means.rows * (happened + not_)))
    cell = np.where(means.full, log_mean_exp(np.stack(sides)), 0.0)  # [size, class, group, bin]
    cell = np.maximum(cell, -1e300)  # outcomes impossible within c refute, regardless of other cells
    # Products over the cells of a family, averaged over the sizes: one number for each class.
    logs = [log_mean_exp(cell[:, :, family, bins].sum(axis=(2, 3))) for family in families]
    return log_mean_exp(np.concatenate(logs))
