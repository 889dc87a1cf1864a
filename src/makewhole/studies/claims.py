"""Claims of the paper, the verdicts on them, and 95 % intervals over seeds.

How a verdict is reached: a claim is a set of comparisons, such as one for each share of cautious passengers;
each has one number per seed. The claim *holds* if in every comparison the 95 % interval lies above 0: to be
called true by mistake, a claim with one false part must pass that part by chance, so no correction for
multiple comparisons is needed. It *fails* if in some comparison the interval lies below 0. There the
intervals are wider: the 5 % are shared among the comparisons (Bonferroni), because one of many is below 0 by
chance more often than a single one. Otherwise it is *undecided*. Every claim is judged by itself: among many
claims one in twenty would be called wrongly by chance, if each were a toss-up. Each study says what its seeds
draw; where the data are the same for all seeds, an interval says nothing about other data.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

Verdict = Literal["holds", "fails", "undecided"]
RISK = 0.05

# How we read words of the paper, in numbers; used by the claims, and printed beside them.
SMALL_C = 0.1  # "small": a half-width that moves a price by less than a tenth of the payout
FADING = 0.7  # "exponentially rarer": the share of |c| > 0.1, 0.2, 0.3 decays at an even rate, or 0.7 of it;
# a power law's rate falls to log(3/2)/log(2) = 0.58 of it
RARELY = 0.1  # "almost always incorrect": right in fewer than one case in ten
OFTEN = 0.5  # "mostly": in more than half of the cases
NOTICEABLE = 0.1  # "no noticeable difference": no share of forecasts differs by more than one in ten
VANISHES = 0.25  # "converges to 0": as fast as T^(-1/4), which is what the paper's Theorem 1 states
CLOSE = 0.01  # "close to zero": a mean loss of less than a hundredth of the most that may be staked
FREE = 0.01  # "does not lose": less than a cent for a dollar insured; no sum over finitely many flights is 0


class SeedInterval(NamedTuple):
    """A mean over seeds with its 95 % interval (Student's t); infinite with a single seed."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        if math.isinf(self.low):
            return f"{self.mean:.3g} (one seed)"
        return f"{self.mean:.3g} [{self.low:.3g}, {self.high:.3g}]"


class Judgement(NamedTuple):
    """A verdict and the interval it rests on."""

    verdict: Verdict
    interval: SeedInterval


class Claim(NamedTuple):
    """What was claimed, where in the paper, the verdict, its numbers, and the figure that shows it.

    `measured` says in a sentence what was measured, `change` what would change the verdict, and `setting` in
    which setting. `key` names the paper's sentence in `makewhole.studies.paper`. The study fills in `judge`,
    the function that reached the verdict, the number of `seeds`, and `quote`, the paper's own words.
    """

    text: str
    where: str
    verdict: Verdict
    numbers: str
    figure: str = ""
    judge: str = ""
    measured: str = ""
    change: str = ""
    setting: str = ""
    key: str = ""
    seeds: int = 0
    quote: str = ""


def judged_by(judge: Callable[..., list[Claim]], claims: list[Claim]) -> list[Claim]:
    """Return the claims with the name of the function that judged them."""
    judge = getattr(judge, "func", judge)  # the function inside a functools.partial
    return [claim._replace(judge=f"{judge.__module__}.{judge.__qualname__}") for claim in claims]


def student(freedom: int, risk: float = RISK) -> float:
    """Return the two-sided quantile of Student's t: beyond it lies `risk`.

    The distribution function is a finite sum for whole degrees of freedom (Abramowitz & Stegun, 26.7.3 and
    26.7.4); it is inverted by bisection in the angle whose tangent is t/√freedom.
    """

    def within(angle: float) -> float:
        cosine = math.cos(angle)
        odd = freedom % 2 == 1
        term, total = (cosine if odd else 1.0), 0.0
        for k in range(2 if odd else 1, freedom, 2):
            total += term
            term *= cosine**2 * k / (k + 1)
        total *= math.sin(angle)
        return (angle + total) * 2 / math.pi if odd else total

    low, high = 0.0, math.pi / 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if within(middle) < 1 - risk else (low, middle)
    return math.sqrt(freedom) * math.tan(low)


def interval(values: Sequence[float], risk: float = RISK) -> SeedInterval:
    """Return the mean of one number per seed, with its 95 % interval (or for another `risk`)."""
    array = np.asarray(values, dtype=np.float64)
    mean, freedom = float(array.mean()), len(array) - 1
    if freedom < 1:
        return SeedInterval(mean, -math.inf, math.inf)
    half = student(freedom, risk) * float(array.std(ddof=1)) / math.sqrt(len(array))
    return SeedInterval(mean, mean - half, mean + half)


def positive(differences: Sequence[float]) -> Judgement:
    """Judge whether a difference, one per seed, is above zero."""
    return Judgement(all_positive({"": differences}), interval(differences))


def all_positive(differences: Mapping[Any, Sequence[float]]) -> Verdict:
    """Judge a claim that every one of several differences, each one number per seed, is above zero."""
    if not differences:
        return "undecided"
    if all(interval(d).low > 0 for d in differences.values()):
        return "holds"
    shared = RISK / len(differences)
    return "fails" if any(interval(d, shared).high < 0 for d in differences.values()) else "undecided"


def any_positive(differences: Mapping[Any, Sequence[float]]) -> Verdict:
    """Judge a claim that at least one of several differences, each one number per seed, is above zero.

    It is the opposite of "all are below zero", so that the 5 % are shared among those that may be above.
    """
    turned: dict[Verdict, Verdict] = {"holds": "fails", "fails": "holds", "undecided": "undecided"}
    return turned[all_positive({name: [-d for d in each] for name, each in differences.items()})]


def shares(values: Mapping[Any, Sequence[float]]) -> str:
    """Return several shares in words, with their intervals cut to [0, 1]."""
    cut = {name: interval(v) for name, v in values.items()}
    return "; ".join(
        f"{name}: {one._replace(low=max(one.low, 0.0), high=min(one.high, 1.0))}" for name, one in cut.items()
    )


def listed(differences: Mapping[Any, Sequence[float]]) -> str:
    """Return the intervals of several comparisons, in words."""
    return "; ".join(f"{name}: {interval(d)}" for name, d in differences.items())
