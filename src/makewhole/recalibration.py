"""Three ways from forecasts and outcomes to a map from forecasts to better ones. Needs scikit-learn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.isotonic import IsotonicRegression

from makewhole import bounds
from makewhole.arguments import Floats

Labels = dict[str, Any]  # every row's label, by the name of a way to group them
Map = Callable[[Floats, Labels], Floats]


class Settings(NamedTuple):
    """What the three ways are told."""

    bins: int
    confidence: float
    max_patches: int


class Patch(NamedTuple):
    """Where a multicalibrated forecast is moved, and by how much: a bin, everyone's or one group's."""

    group: str | None
    label: str | None
    bin: int
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


def fit_patches(p: Floats, y: Floats, labels: Labels, settings: Settings) -> Map:
    """A monotone map, and then bin after bin what is off by more than chance."""
    codes = {name: np.unique(values, return_inverse=True) for name, values in labels.items()}
    start = fit_isotonic(p, y, labels, settings)
    said, patches = start(p, labels), list[Patch]()
    while len(patches) < settings.max_patches:
        found = _worst_cell(said, y, codes, settings)
        if found is None:
            break
        patches.append(found)
        said = _patched(said, found, labels, settings.bins)
    return _Patched(start, tuple(patches), settings.bins)


@dataclass(frozen=True)
class _Patched:
    start: Map
    patches: tuple[Patch, ...]
    bins: int

    def __call__(self, p: Floats, labels: Labels) -> Floats:
        p = self.start(p, labels)
        for patch in self.patches:
            p = _patched(p, patch, labels, self.bins)
        return p


def _patched(p: Floats, patch: Patch, labels: Labels, bins: int) -> Floats:
    inside = np.minimum((p * bins).astype(np.int64), bins - 1) == patch.bin
    if patch.group is not None:
        inside &= labels[patch.group] == patch.label
    return np.where(inside, np.clip(p + patch.shift, 0.0, 1.0), p)


def _worst_cell(said: Floats, y: Floats, codes: dict[str, Any], settings: Settings) -> Patch | None:
    """Of the cells whose gap, looked at alone, is more than chance, the one that costs most in all."""
    bins = settings.bins
    place = np.minimum((said * bins).astype(np.int64), bins - 1)
    sets: list[tuple[str | None, Any, Any]] = [(None, np.array([None]), place)]
    sets += [(name, values, code * bins + place) for name, (values, code) in codes.items()]
    found = []
    for name, values, at in sets:
        size = len(values) * bins
        rows = np.bincount(at, minlength=size).astype(np.float64)
        found.append((name, values, rows, np.bincount(at, y, size), np.bincount(at, said, size)))
    # Stricter than the audit, which allows for how many cells it looks at: what is left over here must not
    # add up to something there, on more data.
    limit = np.log(2 / (1 - settings.confidence))
    worst, cost = None, 0.0
    for name, values, rows, happened, total in found:
        mean, mu = happened / np.maximum(rows, 1), np.clip(total / np.maximum(rows, 1), 0.0, 1.0)
        refuted = rows * bounds.divergence(mean, mu) > limit
        lost = np.where(refuted, np.abs(happened - total), 0.0)
        k = int(np.argmax(lost))
        if lost[k] > cost:
            label = None if name is None else str(values[k // bins])
            worst, cost = Patch(name, label, k % bins, float(mean[k] - mu[k])), float(lost[k])
    return worst


METHODS: dict[str, Callable[[Floats, Floats, Labels, Settings], Map]] = {
    "histogram": fit_histogram,
    "isotonic": fit_isotonic,
    "multicalibration": fit_patches,
}
