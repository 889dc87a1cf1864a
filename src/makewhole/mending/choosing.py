"""Learn a map for each class, and keep it only if it is better on rows that it has not seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from makewhole.arguments import Floats
from makewhole.mending.maps import METHODS, Known, Map, MapSettings
from makewhole.mending.splitting import Fold

UNCHANGED = "unchanged"

# The rule of one standard error: a map is kept if its gain is more than this many. It may be wrong: a map
# that gains nothing passes one time in six, less often if it loses on average. Asking for less where an audit
# refutes the forecasts was tried, and did harm: an audit of few rows can also be wrong.
_ERRORS = 1.0

# A gain or a loss of this many standard errors on the first two folds is clear: the other folds are skipped.
# By chance alone it happens once in a million times.
_CLEAR = 5.0

# Rounding may always cost this much log loss per row: few data sets would show it.
_TRIFLE = 3e-5


@dataclass(frozen=True)
class Mender:
    """A map for each class; with two classes only for the second. Without maps, forecasts stay as they are.

    `least` is the smallest probability that is forecast.
    """

    maps: tuple[Map, ...]
    least: float

    def __call__(self, raw: Floats, labels: Any, features: Floats | None) -> Floats:
        """Return better forecasts; those of several classes are scaled to add up to 1."""
        if self.maps:
            mapped = [map_(Known(p, labels, features)) for map_, p in zip(self.maps, raw.T, strict=True)]
            raw = np.column_stack(mapped)
        mended: Floats = np.clip(raw, self.least, 1 - self.least)
        if mended.shape[1] == 1:
            return mended
        classes = mended.shape[1]
        added: Floats = self.least + (1 - classes * self.least) * mended / mended.sum(axis=1, keepdims=True)
        return added


class MapLesson(NamedTuple):
    """The rows a map is learned from: held-out forecasts, their outcomes and what else is known.

    `weight` has the mean 1. Rows of a `cluster` may depend on each other; None if no rows do.
    """

    raw: Floats
    outcome: Any
    labels: Any
    features: Floats | None
    weight: Floats
    cluster: Any

    def take(self, rows: Any) -> MapLesson:
        """Return some of the rows."""
        labels = {name: values[rows] for name, values in self.labels.items()}
        features = None if self.features is None else self.features[rows]
        cluster = None if self.cluster is None else self.cluster[rows]
        weight = self.weight[rows] / max(float(self.weight[rows].mean()), 1e-300)
        return MapLesson(self.raw[rows], self.outcome[rows], labels, features, weight, cluster)


def learn(lesson: MapLesson, method: str, settings: MapSettings, least: float) -> Mender:
    """Learn a map for each class."""
    binary = lesson.raw.shape[1] == 1
    maps = [
        METHODS[method](
            Known(p, lesson.labels, lesson.features),
            (lesson.outcome == k + binary).astype(np.float64),
            lesson.weight,
            settings,
        )
        for k, p in enumerate(lesson.raw.T)
    ]
    return Mender(tuple(maps), least)


class Choice(NamedTuple):
    """The choice, a method or `UNCHANGED`, and the map's gain in log loss with its standard error."""

    kept: str
    gain: float
    error: float

    def spare(self, rows: int) -> float:
        """Return how much log loss per row rounding may cost: what chance would hide.

        It is what the map has gained beyond chance. If nothing was gained, it is a loss too small to show in
        the given number of rows. If forecasts are right, rounding that costs a log loss k per row changes a
        row's log loss by about √(2k), up or down. On n rows the loss is then √(kn/2) standard errors: 0.7 if
        k = 1/n.
        """
        return max(1 / rows, _TRIFLE, self.gain - _ERRORS * self.error)


def choose(lesson: MapLesson, folds: list[Fold], method: str, settings: MapSettings, least: float) -> Choice:
    """Say whether the map is better than the forecasts as they are, on rows it has not seen.

    In every fold the map is learned from the rows outside and compared inside, until the answer is clear.
    """
    gains: list[Floats] = []
    tested: list[Any] = []
    gain = error = 0.0
    unchanged = Mender((), least)
    for train, test in folds:
        if not len(test) or len(np.unique(lesson.outcome[train])) < 2:
            continue
        mender, inside = learn(lesson.take(train), method, settings, least), lesson.take(test)
        given = (inside.raw, inside.labels, inside.features)
        gains.append(_log_loss(unchanged(*given), inside.outcome) - _log_loss(mender(*given), inside.outcome))
        tested.append(test)
        rows = np.concatenate(tested)
        cluster = None if lesson.cluster is None else lesson.cluster[rows]
        gain, error = _mean_and_error(np.concatenate(gains), lesson.weight[rows], cluster)
        if len(gains) > 1 and abs(gain) > _CLEAR * error:
            break
    return Choice(method if gain > _ERRORS * error else UNCHANGED, gain, error)


def _log_loss(mu: Floats, outcome: Any) -> Floats:
    if mu.shape[1] == 1:
        mu = np.column_stack([1 - mu, mu])
    lost: Floats = -np.log(mu[np.arange(len(mu)), outcome])
    return lost


def _mean_and_error(gains: Floats, weight: Floats, cluster: Any) -> tuple[float, float]:
    """The weighted mean, and its standard error; rows of a cluster count as one."""
    total = max(float(weight.sum()), 1e-300)
    mean = float(weight @ gains) / total
    away = weight * (gains - mean)
    if cluster is not None:
        away = np.bincount(np.unique(cluster, return_inverse=True)[1], away).astype(np.float64)
    return mean, float(np.sqrt((away**2).sum())) / total
