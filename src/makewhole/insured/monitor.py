"""A confidence sequence for the mean loss: it tells losing from bad luck, however often you look."""

from __future__ import annotations

import math
from typing import NamedTuple

# Howard et al.'s stitched boundary: epochs in which the variance grows by ETA, weights k^-S over the epochs.
_ETA, _S, _ZETA = 2.0, 1.4, 3.1055472779775810  # ζ(1.4)
_K1 = (_ETA**0.25 + _ETA**-0.25) / math.sqrt(2)
_K2 = (math.sqrt(_ETA) + 1) / 2


class Interval(NamedTuple):
    """Where the mean loss lies, with the monitor's confidence, at all times simultaneously."""

    low: float
    high: float


def mean_interval(count: int, total: float, variance: float, range_: float, alpha: float) -> Interval:
    """Return an interval for the mean of `count` losses in [−range_, range_] that add up to `total`.

    `variance` is the sum of their squared surprises: a loss's surprise is its distance from the mean of those
    before it. An ordinary confidence interval holds at one moment, chosen in advance; if you check it after
    every forecast, it will exclude the truth sooner or later. This one covers the mean of the conditional
    expectations of all losses so far, at all moments simultaneously, with probability 1 − alpha, however
    the losses depend on each other. It is an empirical-Bernstein bound: its width depends on how much the
    losses vary, not on their range.

    Examples
    --------
    >>> from makewhole.insured.journal import Journal
    >>> from makewhole.insured.totals import Totals
    >>> totals, journal = Totals(), Journal()
    >>> for t in range(2000):
    ...     loss = 0.5 if t % 3 else -0.5
    ...     totals.settle(journal, loss, 0.0, turnover=1.0, bets=1, c=0.125, loss_range=1.0)
    >>> low, high = totals.mean_loss_interval(loss_range=1.0)
    >>> 0 < low < 1 / 6 < high
    True

    References
    ----------
    Howard, Ramdas, McAuliffe & Sekhon (2021), "Time-uniform, nonparametric, nonasymptotic confidence
    sequences", Theorem 4 and equation (10).
    """
    if not count:
        return Interval(-range_, range_)
    mean = total / count
    half = boundary(variance, 2 * range_, alpha / 2) / count
    return Interval(max(mean - half, -range_), min(mean + half, range_))


def boundary(variance: float, scale: float, alpha: float) -> float:
    """How far a sum may stray from its expectation, at any time, except with probability alpha (one side).

    `variance` is Σ(x − prediction)², and no x strays from its prediction by more than `scale`.
    """
    unit = scale * scale  # the variance from which the epochs are counted
    v = max(variance, unit)
    level = _S * math.log(math.log(_ETA * v / unit)) + math.log(_ZETA / (alpha * math.log(_ETA) ** _S))
    return math.sqrt(_K1**2 * v * level + (_K2 * scale * level) ** 2) + _K2 * scale * level
