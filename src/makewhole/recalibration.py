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

_LEAST = 1e-6  # log odds need probabilities strictly between 0 and 1
_STEPS, _FAR = 10, 8.0  # Newton's steps, and the farthest that log odds are moved at once


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


def fit_patches(p: Floats, y: Floats, labels: Labels, settings: Settings) -> Map:
    """A monotone map, and then cell after cell what is off by more than chance."""
    codes = {name: np.unique(values, return_inverse=True) for name, values in labels.items()}
    start = fit_isotonic(p, y, labels, settings)
    said, patches = np.clip(start(p, labels), _LEAST, 1 - _LEAST), list[Patch]()
    while len(patches) < settings.max_patches:
        worst = _worst_cell(said, y, codes, settings)
        if worst is None:
            break
        inside = _inside(said, worst, labels, settings.bins)
        patches.append(worst._replace(shift=_balancing_shift(said[inside], float(y[inside].sum()))))
        said = _patched(said, patches[-1], labels, settings.bins)
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
    """How far log odds must move for the forecasts to add up to what happened (Newton's steps)."""
    odds, shift = p / (1 - p), 0.0
    for _ in range(_STEPS):
        moved = odds * np.exp(shift)
        moved /= 1 + moved
        slope = float((moved * (1 - moved)).sum())
        # Where everything happened, or nothing, there is no balance: then go as far as is sensible.
        shift = float(np.clip(shift + (happened - float(moved.sum())) / max(slope, 1e-9), -_FAR, _FAR))
    return shift


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
