"""Three ways from forecasts and outcomes to a map from forecasts to better ones. Needs scikit-learn."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.isotonic import IsotonicRegression

from makewhole import bounds
from makewhole.arguments import Floats

Labels = dict[str, Any]  # every row's label, by the name of a way to group them
Map = Callable[[Floats, Labels], Floats]

_LEAST = 1e-6  # log odds need probabilities strictly between 0 and 1
_DOUBT = 10
_HALVINGS, _FAR = 40, 8.0  # how finely, and how far at most, log odds are moved at once


class Settings(NamedTuple):
    """What the three ways are told."""

    bins: int
    confidence: float
    max_patches: int


class Patch(NamedTuple):
    """Where a multicalibrated forecast is moved, and by how much on the scale of log odds.

    Everyone's or one group's; a bin of it, or None for all of it.
    """

    group: str | None
    label: str | None
    bin: int | None
    shift: float


def fit_histogram(p: Floats, y: Floats, labels: Labels, settings: Settings) -> Map:
    """Bins of equal counts, each saying what happened in it."""
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
        found: Floats = self.happened[np.searchsorted(self.edges, p, side="right")]
        return found


def fit_isotonic(p: Floats, y: Floats, labels: Labels, settings: Settings) -> Map:
    """A monotone map."""
    return _Isotonic(IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip").fit(p, y))


@dataclass(frozen=True)
class _Isotonic:
    regression: Any

    def __call__(self, p: Floats, labels: Labels) -> Floats:
        found: Floats = self.regression.predict(p)
        return found


def _fit_smoothed(p: Floats, y: Floats, labels: Labels, settings: Settings) -> Map:
    """A monotone map whose steps know how few rows they rest on: none says 0 or 1 for want of the other."""
    isotonic = fit_isotonic(p, y, labels, settings)
    level, place = np.unique(isotonic(p, labels), return_inverse=True)
    rows, happened = np.bincount(place), np.bincount(place, y)
    # As if two rows more of each step had gone as everyone's do.
    smoothed = (happened + 2 * y.mean()) / (rows + 2)
    return _Smoothed(isotonic, level, np.maximum.accumulate(smoothed))


@dataclass(frozen=True)
class _Smoothed:
    isotonic: Map
    level: Floats
    smoothed: Floats

    def __call__(self, p: Floats, labels: Labels) -> Floats:
        found: Floats = np.interp(self.isotonic(p, labels), self.level, self.smoothed)
        return found


def fit_patches(p: Floats, y: Floats, labels: Labels, settings: Settings) -> Map:
    """A monotone map, and then cell after cell what is off by more than chance."""
    codes = {name: np.unique(values, return_inverse=True) for name, values in labels.items()}
    start = _fit_smoothed(p, y, labels, settings)
    said, patches = np.clip(start(p, labels), _LEAST, 1 - _LEAST), list[Patch]()
    while len(patches) < settings.max_patches:
        worst = _worst_cell(said, y, codes, settings)
        if worst is None:
            break
        inside = _inside(said, worst, labels, settings.bins)
        rows, happened, total = int(inside.sum()), float(y[inside].sum()), float(said[inside].sum())
        # As if ten rows more had gone as forecast: one surprise among a few rows must not turn them over.
        target = (happened * rows + total * _DOUBT) / (rows + _DOUBT)
        patches.append(worst._replace(shift=_balancing_shift(said[inside], target)))
        said = _patched(said, patches[-1], labels, settings.bins)
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
            p = _patched(p, patch, labels, self.bins)
        return p


def _inside(p: Floats, patch: Patch, labels: Labels, bins: int) -> Any:
    inside = np.ones(len(p), bool) if patch.group is None else labels[patch.group] == patch.label
    return inside if patch.bin is None else inside & (_bin_of(p, bins) == patch.bin)


def _patched(p: Floats, patch: Patch, labels: Labels, bins: int) -> Floats:
    odds = p / (1 - p) * np.exp(patch.shift)
    moved = np.clip(odds / (1 + odds), _LEAST, 1 - _LEAST)
    return np.where(_inside(p, patch, labels, bins), moved, p)


def _bin_of(p: Floats, bins: int) -> Any:
    return np.minimum((p * bins).astype(np.int64), bins - 1)


def _balancing_shift(p: Floats, happened: float) -> float:
    """How far log odds must move for the forecasts to add up to what happened.

    Their sum grows with the shift, so halving finds it; where everything happened, or nothing, there is no
    balance, and it goes as far as is sensible.
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


def _worst_cell(said: Floats, y: Floats, codes: dict[str, Any], settings: Settings) -> Patch | None:
    """Of the cells whose gap, looked at alone, is more than chance, the one that costs most in all.

    A cell is everyone or a group, or a bin of it, as in the audit. It is stricter than the audit, which
    allows for how many cells it looks at: what is left over here must not add up to something there.
    """
    bins, place = settings.bins, _bin_of(said, settings.bins)
    limit = np.log(2 / (1 - settings.confidence))
    everyone = (np.array([None]), np.zeros(len(y), dtype=np.int64))
    worst, cost = None, 0.0
    for name, (values, code) in [(None, everyone), *codes.items()]:
        shape, at = (len(values), bins), code * bins + place
        cells = [np.bincount(at, weights, len(values) * bins).reshape(shape) for weights in (None, y, said)]
        rows, happened, total = (np.column_stack([cell, cell.sum(axis=1)]) for cell in cells)
        mean, mu = happened / np.maximum(rows, 1), np.clip(total / np.maximum(rows, 1), 0.0, 1.0)
        lost = np.where(rows * bounds.divergence(mean, mu) > limit, np.abs(happened - total), 0.0)
        k, b = np.unravel_index(int(np.argmax(lost)), lost.shape)
        if lost[k, b] > cost:
            label = None if name is None else str(values[k])
            worst, cost = Patch(name, label, None if b == bins else int(b), 0.0), float(lost[k, b])
    return worst


METHODS: dict[str, Callable[[Floats, Floats, Labels, Settings], Map]] = {
    "histogram": fit_histogram,
    "isotonic": fit_isotonic,
    "multicalibration": fit_patches,
}
