"""Claims of the paper, the verdicts on them, and 95 % intervals over seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

Verdict = Literal["holds", "fails", "undecided"]

# Two-sided 95 % quantiles of Student's t for few degrees of freedom.
_STUDENT = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}


def _student(freedom: int) -> float:
    """The two-sided 95 % quantile of Student's t.

    From ten degrees of freedom on it is the normal quantile with two terms of the Cornish–Fisher expansion.
    """
    z = 1.959964
    second = (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
    return _STUDENT.get(freedom, z + (z**3 + z) / (4 * freedom) + second)


class SeedInterval(NamedTuple):
    """A mean over seeds with its 95 % interval (Student's t); infinite with a single seed."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        if math.isinf(self.low):
            return f"{self.mean:.4g} (one seed)"
        return f"{self.mean:.4g} [{self.low:.4g}, {self.high:.4g}]"


class Judgement(NamedTuple):
    """A verdict and the interval it rests on."""

    verdict: Verdict
    interval: SeedInterval


class Claim(NamedTuple):
    """What was claimed, where in the paper, the verdict, its numbers, and the figure that shows it."""

    text: str
    where: str
    verdict: Verdict
    numbers: str
    figure: str = ""


def interval(values: Sequence[float]) -> SeedInterval:
    """The mean of one number per seed, with its 95 % interval."""
    array = np.asarray(values, dtype=np.float64)
    mean, freedom = float(array.mean()), len(array) - 1
    if freedom < 1:
        return SeedInterval(mean, -math.inf, math.inf)
    half = _student(freedom) * float(array.std(ddof=1)) / math.sqrt(len(array))
    return SeedInterval(mean, mean - half, mean + half)


def positive(differences: Sequence[float]) -> Judgement:
    """Judge whether a difference, one per seed, is above zero.

    The verdict is "holds" if its interval lies above zero, "fails" if it lies below, else "undecided".
    """
    measured = interval(differences)
    if measured.low > 0:
        return Judgement("holds", measured)
    return Judgement("fails" if measured.high < 0 else "undecided", measured)


def all_of(verdicts: Sequence[Verdict]) -> Verdict:
    """The verdict on a claim that consists of several: "fails" if one fails, "holds" if all hold."""
    if "fails" in verdicts:
        return "fails"
    return "undecided" if "undecided" in verdicts else "holds"
