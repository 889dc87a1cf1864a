"""A claim of the paper, what the data say of it, and with what certainty."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

Verdict = Literal["holds", "fails", "undecided"]

# Two-sided 95 % quantiles of Student's t for few degrees of freedom.
_STUDENT = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}


def _student(freedom: int) -> float:
    """From ten on, the normal's quantile with two terms of the Cornish–Fisher expansion is near enough."""
    z = 1.959964
    second = (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
    return _STUDENT.get(freedom, z + (z**3 + z) / (4 * freedom) + second)


class Interval(NamedTuple):
    """A mean over seeds with its 95 % interval (Student's t); infinite with a single seed."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        if math.isinf(self.low):
            return f"{self.mean:.4g} (one seed)"
        return f"{self.mean:.4g} [{self.low:.4g}, {self.high:.4g}]"


class Claim(NamedTuple):
    """What was claimed, where, what came out, and the numbers behind it."""

    text: str
    where: str
    verdict: Verdict
    numbers: str
    figure: str = ""


def interval(values: Sequence[float]) -> Interval:
    """The mean of one number per seed, and how sure it is."""
    array = np.asarray(values, dtype=np.float64)
    mean, freedom = float(array.mean()), len(array) - 1
    if freedom < 1:
        return Interval(mean, -math.inf, math.inf)
    half = _student(freedom) * float(array.std(ddof=1)) / math.sqrt(len(array))
    return Interval(mean, mean - half, mean + half)


def positive(differences: Sequence[float]) -> tuple[Verdict, Interval]:
    """Whether a difference, one per seed, is above zero: holds, fails (below zero), or undecided."""
    found = interval(differences)
    if found.low > 0:
        return "holds", found
    return ("fails" if found.high < 0 else "undecided"), found


def all_of(verdicts: Sequence[Verdict]) -> Verdict:
    """A claim made of many holds if all hold, and fails if any fails."""
    if "fails" in verdicts:
        return "fails"
    return "undecided" if "undecided" in verdicts else "holds"
