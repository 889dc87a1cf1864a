"""Forecasts on a grid whose true probabilities are known: what several tests of SoundClassifier share."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit, logit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.frozen import FrozenEstimator

import makewhole as mw

GRID = (np.arange(400) + 0.5) / 400  # what may be said; each with the same chance
GROUPS = (0.5, 0.3, 0.2)  # how frequent each of three groups is


class Said(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn is not typed
    """A model that says what is in the first column of X."""

    def __init__(self) -> None:
        self.classes_ = np.array([0, 1])

    def fit(self, X: Any, y: Any) -> Any:
        return self

    def predict_proba(self, X: Any) -> Any:
        said = np.asarray(X, dtype=float)[:, 0]
        return np.column_stack([1 - said, said])


def frozen() -> Any:
    return FrozenEstimator(Said())


def forecasts(rows: int, seed: int, bias: float) -> tuple[Any, Any]:
    """Log odds that are `bias` times too large; the second column is a group that means nothing."""
    rng = np.random.default_rng(seed)
    p = rng.choice(GRID, rows)
    said = expit(bias * logit(p))
    return np.column_stack([said, rng.integers(0, 20, rows)]), (rng.random(rows) < p).astype(int)


def truth(said: Any, group: Any) -> Any:
    """The true probabilities: another curve in each group, and not all of them increasing."""
    moved = 0.25 * np.sin(6 * said) * (group == 1) - 0.1 * ((group == 0) & (said > 0.5))
    return np.clip(said + moved + 0.03, 0.01, 0.99)


def draw_rows(rows: int, seed: int) -> tuple[Any, Any]:
    draw = np.random.default_rng([rows, seed])
    said, group = draw.choice(GRID, rows), draw.choice(3, rows, p=GROUPS)
    return np.column_stack([said, group]), (draw.random(rows) < truth(said, group)).astype(int)


def all_rows() -> Any:
    """Every row that there can be; those of one group have the same chance."""
    return np.array([(said, group) for group in range(3) for said in GRID])


def promise_holds(fitted: mw.SoundClassifier) -> bool:
    """Whether no bet on what is published, nor on that and the group, wins on average: computed exactly."""
    X = all_rows()
    p, mu, reach = truth(X[:, 0], X[:, 1]), fitted.predict_proba(X)[:, 1], fitted.predict_interval(X)
    chance = np.array(GROUPS)[X[:, 1].astype(int)] / len(GRID)
    for value in np.unique(mu):
        for group in (None, 0, 1, 2):
            bet = (mu == value) & (True if group is None else X[:, 1] == group)
            total = chance[bet].sum()
            mean = (chance[bet] @ p[bet]) / total if total else value
            low, high = chance[bet] @ reach[bet, 0], chance[bet] @ reach[bet, 1]
            if total and not low / total - 1e-12 <= mean <= high / total + 1e-12:
                return False
    return True
