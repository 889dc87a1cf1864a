"""Divide the rows: some to certify with, which nothing else sees, and some to learn from, in folds."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import GroupKFold, GroupShuffleSplit, StratifiedKFold, check_cv
from sklearn.utils import check_random_state
from sklearn.utils.validation import _num_samples

_SKETCH = 500  # the fewest rows in a sketch: fewer show too little
_SHARE_IF_KEPT = 0.2  # the share of the risk for forecasts kept as they are; c of mended ones is 2 % wider
_FEWEST = 2  # rows of every class to learn from: one to fit a model to while the other is held out


class Fold(NamedTuple):
    """The rows of one fold: those to learn from, and those held out."""

    train: Any
    test: Any


class Split(NamedTuple):
    """The rows to learn from, those to certify with, and the folds of those to learn from.

    `sketch` are some of the rows to learn from, drawn without looking at the outcomes: if only their
    forecasts are used, all other rows can certify. It is empty if there are too few rows for this, or if a
    splitter chose the rows that certify.
    """

    learn: Any
    certify: Any
    folds: list[Fold]
    sketch: Any


class CertificatePlan(NamedTuple):
    """The rows that levels are learned from, those that certify, and the confidence they certify with."""

    levels: Any
    certify: Any
    confidence: float


def plan_certificate(split: Split, frozen: bool, unchanged: bool, confidence: float) -> CertificatePlan:
    """Say which rows certify, with what confidence.

    Normally they are those set aside. But if a model was fitted beforehand, and its forecasts are kept
    unchanged, it has learned from none of the rows, and the levels only from the sketch's forecasts: all
    other rows can certify. But the outcomes of these same rows decided whether the forecasts are kept. So the
    bounds from them and the bounds from the rows set aside must all hold together, whichever are used, and
    they share the risk. The set with more rows gets the smaller share: c grows with the square root of the
    logarithm of 1/risk.
    """
    if not frozen or not len(split.sketch):
        return CertificatePlan(split.learn if frozen else _held_out(split), split.certify, confidence)
    risk = 1 - confidence
    if not unchanged:
        return CertificatePlan(split.learn, split.certify, 1 - (1 - _SHARE_IF_KEPT) * risk)
    others = split.learn[~np.isin(split.learn, split.sketch)]
    return CertificatePlan(split.sketch, np.concatenate([split.certify, others]), 1 - _SHARE_IF_KEPT * risk)


def _held_out(split: Split) -> Any:
    """Return the rows to learn from that some fold holds out."""
    return np.unique(np.concatenate([fold.test for fold in split.folds]))


def split_rows(X: Any, outcome: Any, cluster: Any, cv: Any, holdout: float, random_state: Any) -> Split:
    """Divide the rows for `SoundClassifier.fit`.

    With a number `cv`, a random share `holdout` of the rows (of the clusters, if there are any) is set aside
    to certify with, and the others are divided into `cv` folds. With a splitter, its last split says which
    rows to certify with and which to learn from, and its other splits are the folds. Rows to certify with are
    taken out of every fold.
    """
    if isinstance(cv, (int, np.integer)):
        return _split_at_random(outcome, cluster, int(cv), holdout, check_random_state(random_state))
    return _split_by(check_cv(cv, outcome, classifier=True), X, outcome, cluster)


def _split_at_random(outcome: Any, cluster: Any, cv: int, holdout: float, draw: Any) -> Split:
    rows = len(outcome)
    if cluster is None:
        aside = max(1, round(holdout * rows))
        certify, learn = _until_every_class(draw.permutation(rows), aside, outcome)
        fewest = int(np.bincount(outcome[learn]).min())
        folds: Any = StratifiedKFold(min(cv, fewest), shuffle=True, random_state=draw)
    else:
        different = len(np.unique(cluster))
        if different < 3:
            raise ValueError(
                "cluster must have at least 3 clusters, one to certify with and two to learn from; got "
                f"{different}"
            )
        half = GroupShuffleSplit(1, test_size=holdout, random_state=draw)
        learn, certify = next(half.split(outcome, groups=cluster))
        left = len(np.unique(cluster[learn]))
        if left < 2:
            raise ValueError(
                f"holdout must leave at least two clusters to learn from; got {left} of {different} (give "
                "more clusters, or a smaller holdout)"
            )
        folds = GroupKFold(min(cv, left))
    _check(learn, certify, outcome, cluster)
    groups = None if cluster is None else cluster[learn]
    inside = folds.split(learn, outcome[learn], groups)
    # The size of the sketch must not depend on outcomes, so rows that were added do not count.
    sketch = _some_rows(learn if cluster is not None else learn[: rows - aside], cluster, draw)
    return Split(learn, certify, [Fold(learn[train], learn[test]) for train, test in inside], sketch)


def _some_rows(learn: Any, cluster: Any, draw: Any) -> Any:
    """Return a fifth of the rows or clusters: at least `_SKETCH` rows, or none if that is half of them."""
    if len(learn) < 2 * _SKETCH:
        return learn[:0]
    if cluster is None:
        return learn[: max(_SKETCH, len(learn) // 5)]  # the rows are in random order
    different = draw.permutation(np.unique(cluster[learn]))
    return learn[np.isin(cluster[learn], different[: len(different) // 5])]


def _until_every_class(order: Any, aside: int, outcome: Any) -> tuple[Any, Any]:
    """Divide rows in random order: the first `aside` certify, the others are to learn from.

    If a class has too few rows to learn from, rows are added, the last one set aside first, until it has
    enough. Whether a row is added depends only on rows that were added before it. So the rows that are still
    set aside are independent draws, as if their number had been fixed (docs/theory.md, "SoundClassifier"). To
    move only rows of the rare class would make it look rarer than it is among the rows that certify.
    """
    classes = int(outcome.max()) + 1
    counts = np.bincount(outcome[order[aside:]], minlength=classes)
    keep = aside
    while keep and counts.min() < _FEWEST:
        keep -= 1
        counts[outcome[order[keep]]] += 1
    if not keep:
        rarest = int(np.bincount(outcome, minlength=classes).argmin())
        raise ValueError(
            f"y must have more rows of its rarest class: with {int((outcome == rarest).sum())} of "
            f"{len(outcome)} rows, no row was left to certify with (give more rows, or another random_state)"
        )
    return order[:keep], np.concatenate([order[aside:], order[keep:aside][::-1]])


def _split_by(splitter: Any, X: Any, outcome: Any, cluster: Any) -> Split:
    with warnings.catch_warnings():  # clusters are kept whole here, regardless of the splitter
        warnings.filterwarnings("ignore", "The groups parameter is ignored", UserWarning)
        given = list(splitter.split(X, outcome, cluster))
    splits = [Fold(*(_row_numbers(part, _num_samples(X)) for part in one)) for one in given]
    if len(splits) < 2:
        raise ValueError(
            f"cv must give at least two splits, the last to certify with and the others to learn from; got "
            f"{len(splits)} from {splitter!r} (use more splits)"
        )
    last = splits[-1]
    here = np.zeros(_num_samples(X), bool)
    here[_apart(last, cluster).train] = True
    here[last.test] = False
    learn = np.flatnonzero(here)
    _check(learn, last.test, outcome, cluster)
    inside = [Fold(train[here[train]], test[here[test]]) for train, test in splits[:-1]]
    folds = [_apart(fold, cluster) for fold in inside]
    folds = [fold for fold in folds if len(fold.train) and len(fold.test)]
    if not folds:
        raise ValueError(
            "cv must hold out some of the rows that it does not certify with, to learn from; got none from "
            f"{splitter!r} (its last split's test rows are the certification rows)"
        )
    return Split(learn, last.test, folds, learn[:0])


def _row_numbers(part: Any, rows: int) -> Any:
    """Return the rows that one part of a split names, checked."""
    numbers = np.asarray(part)
    if numbers.dtype.kind not in "iu" and numbers.size:
        raise TypeError(
            f"cv must give row numbers; got {numbers.dtype} (for a boolean mask use np.flatnonzero(mask))"
        )
    numbers = numbers.astype(np.int64)
    outside = numbers[(numbers < 0) | (numbers >= rows)]
    if len(outside):
        raise ValueError(f"cv must give row numbers from 0 to {rows - 1}; got {outside[0]}")
    if len(np.unique(numbers)) < len(numbers):
        raise ValueError("cv must give every row once in a part; some occur twice")
    return numbers


def _apart(fold: Fold, cluster: Any) -> Fold:
    """Remove training rows that share a cluster with a test row: they may reveal its outcome."""
    if cluster is None:
        return fold
    return fold._replace(train=fold.train[~np.isin(cluster[fold.train], cluster[fold.test])])


def _check(learn: Any, certify: Any, outcome: Any, cluster: Any) -> None:
    if not len(certify):
        raise ValueError(
            f"cv and holdout must leave rows to certify with; got none of {len(outcome)} rows (give more "
            "rows, or a larger holdout)"
        )
    if cluster is not None and len(np.unique(cluster[certify])) < 2:
        raise ValueError(
            "cv and holdout must leave at least two clusters to certify with; got 1 (give more clusters, or "
            "a larger holdout)"
        )
    missing = np.setdiff1d(outcome, outcome[learn])
    if len(missing):
        raise ValueError(
            f"cv must leave every class among the {len(learn)} rows to learn from; got no row of class "
            f"{missing[0]} there (give more rows, or another cv)"
        )
