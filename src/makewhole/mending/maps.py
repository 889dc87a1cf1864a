"""Methods that learn, from forecasts and outcomes, a map from forecasts to better ones."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.isotonic import IsotonicRegression
from threadpoolctl import threadpool_limits

from makewhole import bounds
from makewhole.arguments import Floats
from makewhole.mending.labels import Labels
from makewhole.mending.levels import equal_mass_edges

_TINY = 1e-300  # a divisor where there are no rows
_LEAST = 1e-6  # log odds need probabilities strictly between 0 and 1
_PRIOR_ROWS = 10  # how many rows that happened as forecast are added to a cell before it is moved
_HALVINGS = 40  # steps in the search for a shift of log odds
_FAR = 8.0  # the largest shift of log odds by one patch
_MANY_ROWS = 100_000  # from this many rows on, trees use all cores
_MOST_LABELS = 250  # the most labels of a grouping that the trees tell apart; scikit-learn's allow 255
# Few leaves, and few trees: there is little left to learn after the model.
_TREES = {
    "max_iter": 50,
    "learning_rate": 0.2,
    "max_leaf_nodes": 8,
    "min_samples_leaf": 40,
    "l2_regularization": 10.0,
    "validation_fraction": 0.2,
    "n_iter_no_change": 5,
    "random_state": 0,
}
_TO_STOP_EARLY = 20  # rows of both outcomes: with fewer, too few are held out to stop early


class Known(NamedTuple):
    """What a map looks at: the forecasts, the labels of the groups, and the numbers in X, if there are any.

    `features` has a column for each number; None if X has no numbers.
    """

    p: Floats
    labels: Labels
    features: Floats | None = None


Map = Callable[[Known], Floats]


class MapSettings(NamedTuple):
    """The settings of the methods.

    `bins` is how many bins the histogram and multicalibration have. Multicalibration moves a cell only if
    chance explains its gap with a probability below 1 − `confidence`. It makes at most `max_patches` moves.
    """

    bins: int
    confidence: float
    max_patches: int


class Patch(NamedTuple):
    """One step of multicalibration: which forecasts it moves, and by how much on the scale of log odds.

    It moves the forecasts of the rows whose grouping `group` has this `label` (None: of all rows), and only
    those that lie in `bin` (None: in any).
    """

    group: str | None
    label: str | None
    bin: int | None
    shift: float


class Codes(NamedTuple):
    """The labels of a grouping as numbers: the different labels, and for each row the place of its label."""

    labels: Any
    places: Any


def fit_histogram(known: Known, y: Floats, weight: Floats, settings: MapSettings) -> Map:
    """Learn a map that forecasts the frequency of each bin, in bins of equal weight."""
    edges = equal_mass_edges(known.p, weight, settings.bins)
    place = np.searchsorted(edges, known.p, side="right")
    rows = np.bincount(place, weight, minlength=len(edges) + 1)
    happened = np.bincount(place, weight * y, minlength=len(edges) + 1)
    return _Histogram(edges, np.where(rows > 0, happened / np.maximum(rows, _TINY), _mean(y, weight)))


@dataclass(frozen=True)
class _Histogram:
    edges: Floats
    happened: Floats

    def __call__(self, known: Known) -> Floats:
        mapped: Floats = self.happened[np.searchsorted(self.edges, known.p, side="right")]
        return mapped


def fit_isotonic(known: Known, y: Floats, weight: Floats, settings: MapSettings) -> Map:
    """Learn a map that never decreases, by isotonic regression."""
    regression = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip")
    return _Isotonic(regression.fit(known.p, y, sample_weight=weight))


@dataclass(frozen=True)
class _Isotonic:
    regression: Any

    def __call__(self, known: Known) -> Floats:
        mapped: Floats = self.regression.predict(known.p)
        return mapped


def fit_smoothed(known: Known, y: Floats, weight: Floats, settings: MapSettings) -> Map:
    """Learn an isotonic map and smooth its steps, so that a step with few rows does not forecast 0 or 1."""
    isotonic = fit_isotonic(known, y, weight, settings)
    level, place = np.unique(isotonic(known), return_inverse=True)
    rows, happened = np.bincount(place, weight), np.bincount(place, weight * y)
    # Add two rows to each step, with the frequency of all rows.
    smoothed = (happened + 2 * _mean(y, weight)) / (rows + 2)
    return _Smoothed(isotonic, level, np.maximum.accumulate(smoothed))


@dataclass(frozen=True)
class _Smoothed:
    isotonic: Map
    level: Floats
    smoothed: Floats

    def __call__(self, known: Known) -> Floats:
        mapped: Floats = np.interp(self.isotonic(known), self.level, self.smoothed)
        return mapped


def fit_patches(known: Known, y: Floats, weight: Floats, settings: MapSettings) -> Map:
    """Learn a smoothed isotonic map; then move the cells that are off by more than chance, one by one.

    Warns with a ConvergenceWarning if such cells are left after `max_patches` moves.
    """
    labels = known.labels
    codes = {name: Codes(*np.unique(values, return_inverse=True)) for name, values in labels.items()}
    start = fit_smoothed(known, y, weight, settings)
    p, patches = np.clip(start(known), _LEAST, 1 - _LEAST), list[Patch]()
    while len(patches) < settings.max_patches:
        worst = _worst_cell(p, y, weight, codes, settings)
        if worst is None:
            break
        inside = _inside(p, worst, labels, settings.bins)
        mine = weight[inside]
        rows = _counted(mine.sum(), (mine**2).sum())
        # Add rows that happened as forecast: a few surprising rows must not move a small cell far.
        target = (float(mine @ y[inside]) * rows + float(mine @ p[inside]) * _PRIOR_ROWS) / (
            rows + _PRIOR_ROWS
        )
        patches.append(worst._replace(shift=_balancing_shift(p[inside], target, mine)))
        p = _apply(p, patches[-1], labels, settings.bins)
    else:
        if _worst_cell(p, y, weight, codes, settings) is not None:
            message = f"multicalibration stopped at max_patches={settings.max_patches}, with gaps left"
            warnings.warn(message, ConvergenceWarning, stacklevel=2)
    return _Patched(start, tuple(patches), settings.bins)


@dataclass(frozen=True)
class _Patched:
    start: Map
    patches: tuple[Patch, ...]
    bins: int

    def __call__(self, known: Known) -> Floats:
        p = np.clip(self.start(known), _LEAST, 1 - _LEAST)
        for patch in self.patches:
            p = _apply(p, patch, known.labels, self.bins)
        return p


def _inside(p: Floats, patch: Patch, labels: Labels, bins: int) -> Any:
    """Return which rows a patch moves."""
    inside = np.ones(len(p), bool) if patch.group is None else labels[patch.group] == patch.label
    return inside if patch.bin is None else inside & (_bin_of(p, bins) == patch.bin)


def _apply(p: Floats, patch: Patch, labels: Labels, bins: int) -> Floats:
    """Return the forecasts after one patch."""
    odds = p / (1 - p) * np.exp(patch.shift)
    moved = np.clip(odds / (1 + odds), _LEAST, 1 - _LEAST)
    return np.where(_inside(p, patch, labels, bins), moved, p)


def _bin_of(p: Floats, bins: int) -> Any:
    return np.minimum((p * bins).astype(np.int64), bins - 1)


def _balancing_shift(p: Floats, happened: float, weight: Floats) -> float:
    """Return how far log odds must move for the weighted forecasts to add up to `happened`.

    Their sum grows with the shift, so bisection finds it. If all outcomes were 1, or all 0, no shift is large
    enough; then the largest allowed is returned.
    """
    odds, low, high = p / (1 - p), -_FAR, _FAR
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        moved = odds * np.exp(middle)
        if float(weight @ (moved / (1 + moved))) < happened:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _worst_cell(
    p: Floats, y: Floats, weight: Floats, codes: dict[str, Codes], settings: MapSettings
) -> Patch | None:
    """Of the cells that are off by more than chance, return the one with the largest total error; or None.

    A cell is all rows or a group, or a bin of these, as in the audit. Each cell is tested alone. The audit
    corrects for the number of cells, and so is less strict with each: it does not refute what passes here.
    """
    bins, place = settings.bins, _bin_of(p, settings.bins)
    limit = np.log(2 / (1 - settings.confidence))
    everyone = Codes(np.array([None]), np.zeros(len(y), dtype=np.int64))
    worst, cost = None, 0.0
    for name, code in [(None, everyone), *codes.items()]:
        shape, at = (len(code.labels), bins), code.places * bins + place
        cells = [
            np.bincount(at, w, math.prod(shape)).reshape(shape)
            for w in (weight, weight**2, weight * y, weight * p)
        ]
        mass, squares, happened, total = (np.column_stack([cell, cell.sum(axis=1)]) for cell in cells)
        mean, mu = happened / np.maximum(mass, _TINY), np.clip(total / np.maximum(mass, _TINY), 0.0, 1.0)
        rows = _counted(mass, squares)
        lost = np.where(rows * bounds.divergence(mean, mu) > limit, np.abs(happened - total), 0.0)
        k, b = np.unravel_index(int(np.argmax(lost)), lost.shape)
        if lost[k, b] > cost:
            label = None if name is None else str(code.labels[k])
            worst, cost = Patch(name, label, None if b == bins else int(b), 0.0), float(lost[k, b])
    return worst


def _counted(mass: Any, squares: Any) -> Any:
    """Return how many rows of equal weight are as good evidence: Kish's effective number, (Σw)² / Σw²."""
    return mass**2 / np.maximum(squares, _TINY)


def _mean(y: Floats, weight: Floats) -> float:
    return float(weight @ y / weight.sum())


def fit_boosting(known: Known, y: Floats, weight: Floats, settings: MapSettings) -> Map:
    """Learn small trees on the log odds of the forecast, the groups, and the numbers in X."""
    columns = {
        name: {str(label): code for code, label in enumerate(_commonest(values))}
        for name, values in known.labels.items()
    }
    if y.min() == y.max():
        return _Boosted(columns, None, float(y[0]))
    read = _Boosted(columns, None, 0.0)
    seen = read.features_of(known)
    labelled = np.arange(seen.shape[1]) - 1 < len(columns)
    labelled[0] = False
    stop = bool(np.bincount(y.astype(np.int64)).min() >= _TO_STOP_EARLY)
    trees = HistGradientBoostingClassifier(**_TREES, early_stopping=stop, categorical_features=labelled)
    with _threads_for(len(y)):
        # With weights, even equal ones, scikit-learn takes many times longer to find its bins.
        equal = weight.min() == weight.max()
        return _Boosted(columns, trees.fit(seen, y, sample_weight=None if equal else weight), 0.0)


def _threads_for(rows: int) -> Any:
    """Use one thread if there are few rows: several would spend more time waiting than working."""
    return threadpool_limits(1 if rows < _MANY_ROWS else None, user_api="openmp")


def _commonest(values: Any) -> Any:
    """Return the most common labels, as many as the trees can tell apart."""
    different, counts = np.unique(values, return_counts=True)
    return different[np.argsort(-counts, kind="stable")][:_MOST_LABELS]


@dataclass(frozen=True)
class _Boosted:
    """`codes` number the labels of each grouping. Without `trees` the forecast is always `constant`."""

    codes: dict[str, dict[str, int]]
    trees: Any
    constant: float

    def features_of(self, known: Known) -> Floats:
        p = np.clip(known.p, _LEAST, 1 - _LEAST)
        columns = [np.log(p / (1 - p))]
        for name, codes in self.codes.items():
            different, place = np.unique(known.labels[name], return_inverse=True)
            columns.append(np.array([codes.get(str(label), np.nan) for label in different])[place])
        if known.features is not None:
            columns.extend(known.features.T)
        return np.column_stack(columns)

    def __call__(self, known: Known) -> Floats:
        if self.trees is None:
            return np.full(len(known.p), self.constant)
        with _threads_for(len(known.p)):
            mapped: Floats = self.trees.predict_proba(self.features_of(known))[:, 1]
        return mapped


METHODS: dict[str, Callable[[Known, Floats, Floats, MapSettings], Map]] = {
    "histogram": fit_histogram,
    "isotonic": fit_smoothed,
    "multicalibration": fit_patches,
    "boosting": fit_boosting,
}
