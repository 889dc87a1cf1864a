"""Which rows certify: never one that the model, the map or the levels have learned from."""

import contextlib
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    PredefinedSplit,
    ShuffleSplit,
    StratifiedKFold,
    TimeSeriesSplit,
)

import makewhole as mw
from makewhole.mending.splitting import plan_certificate, split_rows
from simulated import draw_rows, frozen

ROWS = 600
CLUSTER = np.arange(ROWS) // 10
OUTCOME = np.random.default_rng(0).integers(0, 2, ROWS)
SPLITTERS: Any = {
    "number": 5,
    "KFold": KFold(4, shuffle=True, random_state=0),
    "StratifiedKFold": StratifiedKFold(4),
    "TimeSeriesSplit": TimeSeriesSplit(5, gap=7),
    "GroupKFold": GroupKFold(5),
    "ShuffleSplit": ShuffleSplit(4, test_size=0.3, train_size=0.5, random_state=0),
    "list of splits": list(KFold(3).split(np.zeros(ROWS))),
    "overlapping": [(np.arange(300), np.arange(300, 500)), (np.arange(ROWS), np.arange(500, ROWS))],
}


@pytest.mark.parametrize("name", SPLITTERS)
def test_rows_that_certify_are_in_no_fold(name: str) -> None:
    X = np.arange(ROWS, dtype=float)[:, None]
    split = split_rows(X, OUTCOME, CLUSTER if name == "GroupKFold" else None, SPLITTERS[name], 0.25, 0)
    assert not set(split.certify) & set(split.learn)
    assert len(set(split.certify)) == len(split.certify) > 0
    for train, test in split.folds:
        assert not set(train) & set(test)
        assert set(train) | set(test) <= set(split.learn)
    if name == "number":
        assert len(split.certify) == ROWS // 4
        assert sorted(np.concatenate([fold.test for fold in split.folds])) == sorted(split.learn)
    if name == "TimeSeriesSplit":
        assert list(split.certify) == list(range(500, 600))
        assert max(split.learn) == 492
        assert all(max(train) < min(test) for train, test in split.folds)
    if name == "GroupKFold":
        assert not set(CLUSTER[split.certify]) & set(CLUSTER[split.learn])


def test_a_number_of_folds_keeps_clusters_together() -> None:
    split = split_rows(np.zeros((ROWS, 1)), OUTCOME, CLUSTER, 4, 0.3, 0)
    parts = [split.certify, *(fold.test for fold in split.folds)]
    assert len(set(CLUSTER)) == sum(len(set(CLUSTER[part])) for part in parts)


def test_the_random_split_does_not_look_at_the_outcomes() -> None:
    """Whatever the outcomes are, the same rows are set aside, unless a class would vanish."""
    X = np.zeros((ROWS, 1))
    one, other = (split_rows(X, y, None, 5, 0.4, 3).certify for y in (OUTCOME, 1 - OUTCOME))
    np.testing.assert_array_equal(one, other)


def test_rows_are_added_to_learn_from_in_their_random_order_until_every_class_is_there() -> None:
    X = np.zeros((ROWS, 1))
    aside = split_rows(X, OUTCOME, None, 5, 0.4, 3).certify
    rare = np.zeros(ROWS, dtype=int)
    rare[aside[[100, 50, 7]]] = 1  # the only three rows of their class
    split = split_rows(X, rare, None, 5, 0.4, 3)
    np.testing.assert_array_equal(split.certify, aside[:50])  # row 7 is still set aside, though it is a one
    assert set(aside[50:]) <= set(split.learn)
    rare[aside[7]] = 0
    np.testing.assert_array_equal(split_rows(X, rare, None, 5, 0.4, 3).certify, aside[:50])


def test_a_class_that_is_too_rare_is_an_error() -> None:
    X, rare = np.zeros((ROWS, 1)), np.zeros(ROWS, dtype=int)
    rare[split_rows(X, OUTCOME, None, 5, 0.4, 3).certify[:2]] = 1
    with pytest.raises(ValueError, match="y must have more rows of its rarest class: with 2 of 600 rows"):
        split_rows(X, rare, None, 5, 0.4, 3)


@pytest.mark.slow
def test_adding_rows_does_not_make_a_rare_class_rarer_among_those_that_certify() -> None:
    """Optional stopping: Σ(y − p) over the rows set aside has the mean 0. Moving ones only would lower it."""
    draw, chance, sums = np.random.default_rng(0), 0.05, []
    for seed in range(1500):
        y = (draw.random(40) < chance).astype(int)
        certify = np.arange(0)  # too few ones: nothing is certified (`fit` refuses a single class)
        if y.any():
            with contextlib.suppress(ValueError):
                certify = split_rows(np.zeros((40, 1)), y, None, 2, 0.5, seed).certify
        sums.append(float((y[certify] - chance).sum()))
    assert abs(np.mean(sums)) < 3 * np.std(sums) / np.sqrt(len(sums))


def test_the_sketch_is_the_same_whatever_the_outcomes_are() -> None:
    rows = 4000
    X, y = np.zeros((rows, 1)), np.arange(rows) % 2
    split = split_rows(X, y, None, 5, 0.4, 3)
    rare = np.zeros(rows, dtype=int)
    rare[split.certify[[300, 200]]] = 1
    other = split_rows(X, rare, None, 5, 0.4, 3)
    assert len(other.learn) > len(split.learn)
    np.testing.assert_array_equal(split.sketch, other.sketch)


class Memory(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn is not typed
    """A model that knows the outcomes of all rows that it was fitted to, and says ½ of others."""

    def fit(self, X: Any, y: Any) -> Any:
        self.classes_, self.known_ = np.array([0, 1]), dict(zip(X[:, 0].tolist(), y.tolist(), strict=True))
        return self

    def predict_proba(self, X: Any) -> Any:
        said = np.array([self.known_.get(x, 0.5) for x in X[:, 0].tolist()])
        return np.column_stack([1 - said, said])


@pytest.mark.slow
@pytest.mark.parametrize("name", SPLITTERS)
@pytest.mark.parametrize("method", ["multicalibration", "boosting"])
def test_nothing_that_certifies_was_learned(name: str, method: Any) -> None:
    """A model that knows what it has seen by heart, and nothing else, is certified to know nothing."""
    X = np.arange(ROWS, dtype=float)[:, None]
    model = mw.SoundClassifier(Memory(), method=method, cv=SPLITTERS[name], random_state=0)
    fitted = model.fit(X, OUTCOME, cluster=CLUSTER if name == "GroupKFold" else None)
    new = fitted.predict_interval(X[-5:] + 1000)
    assert np.all(new[:, 0] < 0.5)
    assert np.all(new[:, 1] > 0.5)
    assert fitted.report_.brier > 0.24


def test_a_frozen_model_is_not_fitted_again_and_all_rows_are_for_the_map() -> None:
    X, y = draw_rows(3000, 0)
    model = LogisticRegression().fit(X[:500], y[:500])
    coefficients = model.coef_.copy()
    fitted = mw.SoundClassifier(FrozenEstimator(model), random_state=0).fit(X, y)
    np.testing.assert_array_equal(fitted.estimator_.coef_, coefficients)
    assert fitted.report_.rows == 1200
    assert fitted.least_ == 1 / 1802
    late = mw.SoundClassifier(frozen(), cv=TimeSeriesSplit(4)).fit(X, y)
    assert late.report_.rows == 600
    with pytest.raises(
        ValueError, match=r"only classes that the frozen estimator knows, \[0, 1\]; got \[7\]"
    ):
        mw.SoundClassifier(frozen()).fit(X, np.where(np.arange(3000) == 5, 7, y))


@pytest.mark.parametrize(
    ("cv", "message"),
    [
        (PredefinedSplit([-1] * 300 + [0] * 300), "cv must give at least two splits, .*; got 1 from"),
        (
            [(np.arange(300), np.arange(300, 600)), (np.arange(600), [])],
            "rows to certify with; got none of 600",
        ),
        (PredefinedSplit([0] * 300 + [1] * 300), "cv must hold out some of the rows .*; got none from"),
        (KFold(2), "cv must leave every class among the 300 rows to learn from; got no row of class 0 there"),
    ],
)
def test_a_splitter_that_will_not_do_is_named(cv: Any, message: str) -> None:
    X, y = draw_rows(600, 0)
    y = 1 - np.arange(600) // 300 if isinstance(cv, KFold) else y
    with pytest.raises(ValueError, match=message):
        mw.SoundClassifier(frozen(), cv=cv).fit(X, y)


def test_too_few_clusters_are_named() -> None:
    X, y = draw_rows(100, 0)
    with pytest.raises(ValueError, match="cluster must have at least 3 clusters, .*; got 2"):
        mw.SoundClassifier(frozen()).fit(X, y, cluster=np.arange(100) % 2)


@pytest.mark.parametrize("cv", [5, GroupKFold(5), KFold(5), KFold(5, shuffle=True, random_state=0)])
def test_no_cluster_is_learned_from_and_certified_with(cv: Any) -> None:
    """A tree that has seen a day knows the day's outcome: what it certified on the same days was wrong."""
    draw = np.random.default_rng(0)
    day = draw.permutation(np.repeat(np.arange(200), 20))
    X, y = draw.uniform(size=200)[day][:, None], draw.integers(0, 2, 200)[day]
    if isinstance(cv, KFold):  # every day has rows in the last fold, so there is nothing left to learn from
        with pytest.raises(ValueError, match="cv must (leave every class|hold out some of the rows)"):
            split_rows(X, y, day, cv, 0.4, 0)
        return
    split = split_rows(X, y, day, cv, 0.4, 0)
    assert not np.intersect1d(day[split.learn], day[split.certify]).size
    for fold in split.folds:
        assert not np.intersect1d(day[fold.train], day[fold.test]).size


def test_a_cluster_cut_in_two_by_time_is_only_certified_with() -> None:
    day = np.arange(100) // 7
    X, y = np.zeros((100, 1)), np.arange(100) % 2
    split = split_rows(X, y, day, TimeSeriesSplit(3), 0.4, 0)
    assert not np.intersect1d(day[split.learn], day[split.certify]).size
    assert split.certify.tolist() == list(range(75, 100))


@pytest.mark.parametrize(
    ("last", "error", "message"),
    [
        ((np.arange(50), np.repeat(np.arange(50, 60), 3)), ValueError, "every row once in a part"),
        ((np.arange(100) < 50, np.arange(100) >= 50), TypeError, "cv must give row numbers; got bool"),
        ((np.arange(50), np.array([60.5, 70.0])), TypeError, "cv must give row numbers; got float64"),
        ((np.arange(50), np.array([60, 100])), ValueError, "from 0 to 99; got 100"),
        ((np.arange(50), np.array([-1, 70])), ValueError, "from 0 to 99; got -1"),
    ],
)
def test_rows_that_a_list_of_splits_names_are_checked(last: Any, error: Any, message: str) -> None:
    X, y = np.zeros((100, 1)), np.arange(100) % 2
    with pytest.raises(error, match=message):
        split_rows(X, y, None, [(np.arange(20), np.arange(20, 40)), last], 0.4, 0)


def test_too_few_clusters_are_named_in_our_words() -> None:
    X, y = np.zeros((90, 1)), np.arange(90) % 2
    with pytest.raises(
        ValueError, match="holdout must leave at least two clusters to learn from; got 1 of 3"
    ):
        split_rows(X, y, np.arange(90) // 30, 5, 0.5, 0)
    with pytest.raises(ValueError, match="at least two clusters to certify with; got 1"):
        split_rows(X, y, np.arange(90) // 30, 5, 0.3, 0)


def test_the_sketch_does_not_look_at_outcomes_and_keeps_clusters_whole() -> None:
    rng = np.random.default_rng(8)
    X, y, day = np.zeros((5000, 1)), rng.integers(0, 2, 5000), np.repeat(np.arange(250), 20)
    one, other = (split_rows(X, outcome, None, 5, 0.4, 3).sketch for outcome in (y, 1 - y))
    np.testing.assert_array_equal(one, other)
    split = split_rows(X, y, None, 5, 0.4, 3)
    assert len(split.sketch) == len(split.learn) // 5
    assert set(split.sketch) <= set(split.learn)
    by_day = split_rows(X, y, day, 5, 0.4, 3)
    assert len(by_day.sketch) == 30 * 20
    assert not set(day[by_day.sketch]) & set(day[np.setdiff1d(np.arange(5000), by_day.sketch)])
    for few in (
        split_rows(X[:1600], y[:1600], None, 5, 0.4, 3),
        split_rows(X, y, None, TimeSeriesSplit(3), 0.4, 3),
    ):
        assert len(few.sketch) == 0


def test_which_rows_certify() -> None:
    X, y = np.zeros((5000, 1)), np.random.default_rng(9).integers(0, 2, 5000)
    split = split_rows(X, y, None, 5, 0.4, 3)
    kept = plan_certificate(split, True, True, 0.9)
    assert sorted([*kept.levels, *kept.certify]) == list(range(5000))
    assert kept.confidence == pytest.approx(0.98)  # a fifth of the risk
    mended = plan_certificate(split, True, False, 0.9)
    np.testing.assert_array_equal(mended.certify, split.certify)
    assert mended.confidence == pytest.approx(0.92)
    for unchanged in (True, False):
        fitted = plan_certificate(split, False, unchanged, 0.9)
        np.testing.assert_array_equal(fitted.certify, split.certify)
        assert fitted.confidence == 0.9
