"""Three methods that learn, from forecasts and outcomes, a map from forecasts to better ones."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.isotonic import IsotonicRegression

from makewhole import bounds
from makewhole.arguments import Floats

Labels = dict[str, Any]  # by the name of a grouping, an array with every row's label
Map = Callable[[Floats, Labels], Floats]

_LEAST = 1e-6  # log odds need probabilities strictly between 0 and 1
_PRIOR_ROWS = 10  # how many rows that went as forecast are added to a cell before it is moved
_HALVINGS = 40  # steps in the search for a shift of log odds
_FAR = 8.0  # the largest shift of log odds by one patch


class Settings(NamedTuple):
    """The settings of the three methods.

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


def fit_histogram(p: Floats, y: Floats, labels: Labels, settings: Settings) -> Map:
    """Learn a map that forecasts, in each of some bins with equal counts, the frequency of the bin."""
    edges = np.unique(np.quantile(p, np.linspace(0, 1, settings.bins + 1)[1:-1]))
    place = np.searchsorted(edges, p, side="right")
    rows = np.bincount(place, minlength=len(edges) + 1)
    happened = np.bincount(place, y, minlength=len(edges) + 1) / np.maximum(rows, 1)
    return _Histogram(edges, np.where(rows > 0, happened, y.mean()))


@dataclass(frozen=True)
class _Histogram:
    edges: Floats
    happened: Floats

    def __call__(self, p: Floats, labels: Labels) -> Floats:
        mapped: Floats = self.happened[np.searchsorted(self.edges, p, side="right")]
        return mapped


def fit_isotonic(p: Floats, y: Floats, labels: Labels, settings: Settings) -> Map:
    """Learn a map that never decreases, by isotonic regression."""
    return _Isotonic(IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip").fit(p, y))


@dataclass(frozen=True)
class _Isotonic:
    regression: Any

    def __call__(self, p: Floats, labels: Labels) -> Floats:
        mapped: Floats = self.regression.predict(p)
        return mapped


def _fit_smoothed(p: Floats, y: Floats, labels: Labels, settings: Settings) -> Map:
    """Learn an isotonic map and smooth its steps, so that a step with few rows does not forecast 0 or 1."""
    isotonic = fit_isotonic(p, y, labels, settings)
    level, place = np.unique(isotonic(p, labels), return_inverse=True)
    rows, happened = np.bincount(place), np.bincount(place, y)
    # Add two rows to each step, with the frequency of all rows.
    smoothed = (happened + 2 * y.mean()) / (rows + 2)
    return _Smoothed(isotonic, level, np.maximum.accumulate(smoothed))


@dataclass(frozen=True)
class _Smoothed:
    isotonic: Map
    level: Floats
    smoothed: Floats

    def __call__(self, p: Floats, labels: Labels) -> Floats:
        mapped: Floats = np.interp(self.isotonic(p, labels), self.level, self.smoothed)
        return mapped


def fit_patches(p: Floats, y: Floats, labels: Labels, settings: Settings) -> Map:
    """Learn a smoothed isotonic map; then move one cell after the other that is off by more than chance.

    Warns with a ConvergenceWarning if there are such cells left after `max_patches` moves.
    """
    codes = {name: Codes(*np.unique(values, return_inverse=True)) for name, values in labels.items()}
    start = _fit_smoothed(p, y, labels, settings)
    said, patches = np.clip(start(p, labels), _LEAST, 1 - _LEAST), list[Patch]()
    while len(patches) < settings.max_patches:
        worst = _worst_cell(said, y, codes, settings)
        if worst is None:
            break
        inside = _inside(said, worst, labels, settings.bins)
        rows, happened, total = int(inside.sum()), float(y[inside].sum()), float(said[inside].sum())
        # Add rows that went as forecast: a few surprising rows must not move a small cell far.
        target = (happened * rows + total * _PRIOR_ROWS) / (rows + _PRIOR_ROWS)
        patches.append(worst._replace(shift=_balancing_shift(said[inside], target)))
        said = _apply(said, patches[-1], labels, settings.bins)
    else:
        if _worst_cell(said, y, codes, settings) is not None:
            message = f"multicalibration stopped at max_patches={settings.max_patches}, with gaps left"
            warnings.warn(message, ConvergenceWarning, stacklevel=2)
    return _Patched(start, tuple(patches), settings.bins)


@dataclass(frozen=True)
class _Patched:
    start: Map
    patches: tuple[Patch, ...]
    bins: int

    def __call__(self, p: Floats, labels: Labels) -> Floats:
        p = np.clip(self.start(p, labels), _LEAST, 1 - _LEAST)
        for patch in self.patches:
            p = _apply(p, patch, labels, self.bins)
        return p


def _inside(p: Floats, patch: Patch, labels: Labels, bins: int) -> Any:
    """Which rows a patch moves."""
    inside = np.ones(len(p), bool) if patch.group is None else labels[patch.group] == patch.label
    return inside if patch.bin is None else inside & (_bin_of(p, bins) == patch.bin)


def _apply(p: Floats, patch: Patch, labels: Labels, bins: int) -> Floats:
    """Return the forecasts after one patch."""
    odds = p / (1 - p) * np.exp(patch.shift)
    moved = np.clip(odds / (1 + odds), _LEAST, 1 - _LEAST)
    return np.where(_inside(p, patch, labels, bins), moved, p)


def _bin_of(p: Floats, bins: int) -> Any:
    return np.minimum((p * bins).astype(np.int64), bins - 1)


def _balancing_shift(p: Floats, happened: float) -> float:
    """Return how far log odds must move for the forecasts to add up to `happened`.

    Their sum grows with the shift, so repeated halving finds it. If all outcomes were 1, or all 0, no shift
    is large enough; then the largest allowed is returned.
    """
    odds, low, high = p / (1 - p), -_FAR, _FAR
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        moved = odds * np.exp(middle)
        if float((moved / (1 + moved)).sum()) < happened:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _worst_cell(said: Floats, y: Floats, codes: dict[str, Codes], settings: Settings) -> Patch | None:
    """Of the cells that are off by more than chance, return the one with the largest total error; or None.

    A cell is all rows or a group, or a bin of these, as in the audit. Each cell is tested alone. The audit
    allows for the number of cells, and so tests each less strictly: what is left here is not refuted there.
    """
    bins, place = settings.bins, _bin_of(said, settings.bins)
    limit = np.log(2 / (1 - settings.confidence))
    everyone = Codes(np.array([None]), np.zeros(len(y), dtype=np.int64))
    worst, cost = None, 0.0
    for name, code in [(None, everyone), *codes.items()]:
        shape, at = (len(code.labels), bins), code.places * bins + place
        cells = [np.bincount(at, weights, math.prod(shape)).reshape(shape) for weights in (None, y, said)]
        rows, happened, total = (np.column_stack([cell, cell.sum(axis=1)]) for cell in cells)
        mean, mu = happened / np.maximum(rows, 1), np.clip(total / np.maximum(rows, 1), 0.0, 1.0)
        lost = np.where(rows * bounds.divergence(mean, mu) > limit, np.abs(happened - total), 0.0)
        k, b = np.unravel_index(int(np.argmax(lost)), lost.shape)
        if lost[k, b] > cost:
            label = None if name is None else str(code.labels[k])
            worst, cost = Patch(name, label, None if b == bins else int(b), 0.0), float(lost[k, b])
    return worst


METHODS: dict[str, Callable[[Floats, Floats, Labels, Settings], Map]] = {
    "histogram": fit_histogram,
    "isotonic": fit_isotonic,
    "multicalibration": fit_patches,
}
