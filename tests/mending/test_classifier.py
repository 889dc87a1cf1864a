"""SoundClassifier: it follows scikit-learn's conventions, and audits of new data do not refute it."""

from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.special import expit
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils.estimator_checks import parametrize_with_checks

import makewhole as mw
from makewhole.mending.maps import _balancing_shift
from samples import version_of

METHODS: Any = ("histogram", "isotonic", "multicalibration", "boosting")
MARKED: Any = (*METHODS[:3], pytest.param("boosting", marks=pytest.mark.slow))


WEIGHTS_ARE_NOT_COUNTS = {  # a row of weight 2 is not two rows: it is the evidence of one
    f"check_sample_weight_equivalence_on_{kind}_data": "a weighted row is the evidence of one row"
    for kind in ("dense", "sparse")
}


checks_of = partial(parametrize_with_checks, expected_failed_checks=lambda _: WEIGHTS_ARE_NOT_COUNTS)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:there are too few certification rows")
@checks_of(  # type: ignore[untyped-decorator]  # scikit-learn is not typed
    [
        mw.SoundClassifier(
            LogisticRegression(), method="multicalibration", groups=[0], c=0.1, random_state=0
        ),
    ]
)
def test_it_is_a_scikit_learn_classifier(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:there are too few certification rows")
@checks_of(  # type: ignore[untyped-decorator]  # scikit-learn is not typed
    [
        mw.SoundClassifier(method="histogram", random_state=0),
        mw.SoundClassifier(LogisticRegression(), method="isotonic", random_state=0),
        mw.SoundClassifier(method="multicalibration", groups=[0], c=0.1, random_state=0),
        mw.SoundClassifier(method="boosting", random_state=0),
    ]
)
def test_with_any_method_it_is_a_scikit_learn_classifier(estimator: Any, check: Any) -> None:
    check(estimator)


def people(rows: int, seed: int) -> tuple[pd.DataFrame, Any]:
    """Two groups that a model without the group gets wrong, in opposite directions."""
    draw = np.random.default_rng(seed)
    x, g = draw.normal(size=rows), draw.choice(["a", "b", "c"], rows)
    p = expit(x + np.select([g == "a", g == "b"], [1.0, -1.0], 0.0))
    return pd.DataFrame({"x": x, "g": g}), (draw.uniform(size=rows) < p).astype(int)


class OnlyX(LogisticRegression):  # type: ignore[misc]  # scikit-learn is not typed
    """A model that does not look at the group."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        return super().fit(np.asarray(X[["x"]]), y)

    def predict_proba(self, X: Any) -> Any:
        return super().predict_proba(np.asarray(X[["x"]]))


@pytest.mark.parametrize("method", MARKED)
def test_what_is_mended_is_better_and_sound_on_new_data(method: Any) -> None:
    X, y = make_classification(6000, n_informative=8, random_state=0)
    X = np.hstack([X] * 3)  # naive Bayes takes what it is told three times for three reasons
    fitted = mw.SoundClassifier(GaussianNB(), method=method, random_state=0).fit(X[:4000], y[:4000])
    assert fitted.kept_ == method
    assert fitted.gain_ > fitted.gain_error_ > 0
    assert not fitted.raw_report_.sound
    assert fitted.verdict_ == "certified"
    mu, reach = fitted.predict_proba(X[4000:])[:, 1], fitted.predict_interval(X[4000:])
    table = pd.DataFrame({"mu": mu, "y": y[4000:], "c": np.maximum(reach[:, 1] - mu, mu - reach[:, 0])})
    raw = mw.audit(table.assign(mu=fitted.estimator_.predict_proba(X[4000:])[:, 1]))
    new = mw.audit(table, c="c")
    assert new.sound
    assert new.brier < raw.brier


@pytest.mark.slow
def test_multicalibration_mends_groups_that_a_monotone_map_cannot() -> None:
    X, y = people(12_000, 0)
    fresh, happened = people(6000, 1)
    found, mean_c = {}, {}
    for method in METHODS:
        fitted = mw.SoundClassifier(OnlyX(), method=method, groups=["g"], random_state=0).fit(X, y)
        table = fresh.assign(mu=fitted.predict_proba(fresh)[:, 1], y=happened)
        found[method] = mw.audit(table, groups=["g"])
        mean_c[method] = fitted.mean_c_
        assert fitted.refuted_c_ == pytest.approx(found[method].smallest_c, abs=0.06)
        assert found[method].smallest_c < fitted.c_
    for method in ("multicalibration", "boosting"):
        assert found[method].smallest_c < 0.03
        assert found[method].brier < found["isotonic"].brier
        assert mean_c[method] < 0.7 * mean_c["isotonic"]
    assert found["isotonic"].smallest_c > 0.05
    assert found["histogram"].smallest_c > 0.05


def test_a_row_is_as_wide_as_its_groups_need() -> None:
    X, y = people(8000, 2)
    fitted = mw.SoundClassifier(OnlyX(), method="isotonic", groups=["g"], random_state=0).fit(X, y)
    needed = {label: widths.mean() for label, widths in fitted.c_by_cell_["g"].items()}
    assert needed["a"] > needed["c"] + 0.05
    interval, mu = fitted.predict_interval(X), fitted.predict_proba(X)[:, 1]
    low, high = interval["low"].to_numpy(), interval["high"].to_numpy()
    assert np.all((low >= 0) & (high <= 1) & (low < mu) & (mu < high))
    fresh, happened = people(2000, 9)
    reach, said = fitted.predict_interval(fresh), fitted.predict_proba(fresh)[:, 1]
    c = np.maximum(reach["high"] - said, said - reach["low"])
    table = fresh.assign(mu=said, y=happened, c=c)
    assert mw.audit(table, groups=["g"], c="c").sound
    assert not mw.audit(table, groups=["g"]).sound


@pytest.mark.parametrize("method", MARKED)
def test_several_classes_and_text_labels(method: Any) -> None:
    X, k = make_classification(3000, n_informative=8, n_classes=3, random_state=1)
    X = np.hstack([X] * 3)
    y = np.array(["cat", "dog", "eel"])[k]
    fitted = mw.SoundClassifier(GaussianNB(), method=method, random_state=0).fit(X, y)
    p = fitted.predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    assert set(fitted.predict(X)) <= {"cat", "dog", "eel"}
    assert fitted.predict_interval(X[:7]).shape == (7, 3, 2)
    assert fitted.report_.log_loss < fitted.raw_report_.log_loss
    assert len(fitted.report_.by_class) == 3
    frame = pl.DataFrame(fitted.predict_interval(X[:7]).reshape(7, 6))
    named = fitted.predict_interval(pd.DataFrame(X[:7]))
    assert list(named.columns) == ["low 0", "high 0", "low 1", "high 1", "low 2", "high 2"]
    np.testing.assert_array_equal(named, frame)


@pytest.mark.slow
def test_dataframes_pipelines_and_functions_of_x_are_fine() -> None:
    X, y = people(2000, 4)
    model = make_pipeline(
        make_column_transformer((OneHotEncoder(), ["g"]), remainder="passthrough"), LogisticRegression()
    )
    by_name = mw.SoundClassifier(model, groups=["g"], random_state=0).fit(X, y)
    by_function = mw.SoundClassifier(
        model, groups=lambda X: {"g": X["g"], "far": X["x"] > 1}, method="multicalibration", random_state=0
    ).fit(X, y)
    assert set(by_name.report_.groups) == {"g"}
    assert set(by_function.report_.groups["far"]) == {"True", "False"}
    array = X.assign(g=X["g"].map({"a": 0, "b": 1, "c": 2})).to_numpy()
    by_number = mw.SoundClassifier(groups=[1], random_state=0).fit(array, y)
    assert set(by_number.report_.groups["1"]) == {"0", "1", "2"}
    if version_of("scikit-learn") >= (1, 8):  # whose ColumnTransformer takes polars
        in_polars = mw.SoundClassifier(model, groups=["g"], random_state=0).fit(pl.from_pandas(X), y)
        np.testing.assert_allclose(in_polars.predict_proba(pl.from_pandas(X)), by_name.predict_proba(X))


@pytest.mark.slow
def test_refitting_starts_anew_and_nothing_is_predicted_before() -> None:
    X, y = people(1500, 5)
    model = mw.SoundClassifier(OnlyX(), groups=["g"], random_state=0)
    for ask in (model.predict, model.predict_proba, model.predict_interval):
        with pytest.raises(NotFittedError):
            ask(X)
    once = model.fit(X, y).predict_proba(X)
    model.fit(X[:700], y[:700])
    again = model.fit(X, y).predict_proba(X)
    np.testing.assert_array_equal(once, again)
    np.testing.assert_array_equal(clone(model).fit(X, y).predict_proba(X), once)
    assert model.get_params()["method"] == "multicalibration"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            dict(method="magic"),
            "method must be one of histogram, isotonic, multicalibration, boosting; got 'magic'",
        ),
        (dict(c=-0.1), r"c must be 'auto' or lie in \[0, 1\]; got -0.1"),
        (dict(bins=0), "bins must be a whole number of at least 1; got 0"),
        (dict(cv=1), "cv must be a whole number of at least 2; got 1"),
        (dict(cv="five"), "cv must be a whole number of at least 2; got 'five'"),
        (dict(holdout=0.0), r"holdout must lie between 0 and 1; got 0.0"),
        (dict(holdout=1), r"holdout must lie between 0 and 1; got 1"),
        (dict(groups=["nowhere"]), "groups must be columns of X, x, g; got 'nowhere'"),
        (dict(groups=lambda X: {"g": [1, 2]}), r"groups\['g'\] must be 1500 labels; got shape \(2,\)"),
        (dict(groups=lambda X: X["g"]), "groups must give a mapping from names to labels"),
        (dict(estimator=object()), "estimator must have predict_proba"),
    ],
)
def test_bad_settings_are_named(options: Any, message: str) -> None:
    X, y = people(1500, 6)
    with pytest.raises((ValueError, TypeError), match=message):
        mw.SoundClassifier(**({"estimator": OnlyX()} | options)).fit(X, y)


def test_a_fit_that_fails_changes_nothing() -> None:
    X, y = people(1500, 6)
    fitted = mw.SoundClassifier(OnlyX(), groups=["g"], random_state=0).fit(X, y)
    before, reach = dict(vars(fitted)), fitted.predict_interval(X)
    with pytest.raises(ValueError, match="sample_weight|Sample weights"):
        fitted.fit(X.assign(more=1.0), y, sample_weight=np.zeros(1500))
    with pytest.raises(ValueError, match="cluster must be one label for each row"):
        fitted.fit(X.assign(more=1.0), y, cluster=np.zeros((1500, 2)))
    with pytest.raises(ValueError, match="largest_cluster needs cluster, a label for each row; got 7"):
        fitted.fit(X.assign(more=1.0), y, largest_cluster=7)
    assert vars(fitted) == before
    pd.testing.assert_frame_equal(fitted.predict_interval(X), reach)


def test_one_class_or_a_class_of_one_row_is_an_error() -> None:
    X, _ = people(100, 7)
    with pytest.raises(ValueError, match="y must have at least two classes; got one class"):
        mw.SoundClassifier(OnlyX()).fit(X, np.ones(100))
    with pytest.raises(ValueError, match="at least two rows of every class; got one of 1"):
        mw.SoundClassifier(OnlyX()).fit(X, np.eye(100)[0].astype(int))


@pytest.mark.slow
def test_the_patches_end_where_the_audit_of_the_same_data_finds_nothing() -> None:
    X, y = people(5000, 8)
    fitted = mw.SoundClassifier(OnlyX(), method="multicalibration", groups=["g"], random_state=0).fit(X, y)
    assert 0 < len(fitted.maps_[0].patches) < 200
    assert fitted.maps_[0].patches[0].bin is None  # whole groups first
    none = mw.SoundClassifier(OnlyX(), method="multicalibration", max_patches=0, random_state=0).fit(X, y)
    plain = mw.SoundClassifier(OnlyX(), method="isotonic", random_state=0).fit(X, y)
    np.testing.assert_allclose(none.predict_proba(X), plain.predict_proba(X), atol=0.1)  # but for smoothing


# --- hard cases -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("p", "happened", "shift"),
    [(0.9, 0.5, -2.197), (0.95, 0.5, -2.944), (0.05, 0.5, 2.944), (0.02, 0.2, 2.506)],
)
def test_forecasts_far_off_are_moved_to_where_they_belong(p: float, happened: float, shift: float) -> None:
    assert _balancing_shift(np.full(1000, p), 1000 * happened, np.ones(1000)) == pytest.approx(
        shift, abs=1e-3
    )


@pytest.mark.slow
def test_a_minority_the_model_is_blind_to_is_mended() -> None:
    draw = np.random.default_rng(0)
    X = pd.DataFrame(
        {"x": draw.normal(size=20_000), "g": np.where(draw.uniform(size=20_000) < 0.05, "b", "a")}
    )
    y = (draw.uniform(size=20_000) < np.where(X["g"] == "b", 0.5, expit(3.5 + X["x"]))).astype(int)
    fitted = mw.SoundClassifier(OnlyX(), groups=["g"], random_state=0).fit(X, y)
    said = fitted.predict_proba(X)[:, 1]
    assert said[X["g"] == "b"].mean() == pytest.approx(0.5, abs=0.03)
    plain = mw.SoundClassifier(OnlyX(), groups=["g"], method="isotonic", random_state=0).fit(X, y)
    assert fitted.refuted_c_ < 0.05 < 0.3 < plain.refuted_c_
    assert fitted.mean_c_ < 0.1
    with pytest.warns(ConvergenceWarning, match="stopped at max_patches=1, with gaps left"):
        mw.SoundClassifier(OnlyX(), groups=["g"], max_patches=1, random_state=0).fit(*people(4000, 1))


def test_labels_are_the_same_whatever_a_frame_makes_of_them() -> None:
    X, y = people(4000, 2)
    X["g"] = X["g"].map({"a": 0, "b": 1, "c": 2})
    fitted = mw.SoundClassifier(OnlyX(), groups="g", random_state=0).fit(X, y)
    expected = fitted.predict_proba(X)
    floats = pd.concat([X, pd.DataFrame({"x": [0.0], "g": [np.nan]})])
    np.testing.assert_allclose(fitted.predict_proba(floats)[:-1], expected)
    np.testing.assert_allclose(fitted.predict_proba(X.astype({"g": object})), expected)
    missing = X.astype({"g": object})
    missing.loc[:99, "g"] = None
    refitted = mw.SoundClassifier(OnlyX(), groups="g", random_state=0).fit(missing, y)
    assert "(missing)" in refitted.c_by_group_["g"]
    as_nan = missing.assign(g=missing["g"].astype(float))
    np.testing.assert_allclose(refitted.predict_proba(as_nan), refitted.predict_proba(missing))


def test_the_least_probability_is_the_least_with_classes_too() -> None:
    X, k = make_classification(900, n_informative=8, n_classes=3, random_state=1, class_sep=4.0)
    fitted = mw.SoundClassifier(GaussianNB(), method="histogram", random_state=0).fit(X, k)
    assert fitted.predict_proba(X).min() >= fitted.least_ * (1 - 1e-9)


@pytest.mark.parametrize("options", [dict(confidence=1.0), dict(c="wide"), dict(c=np.array([0.1, 0.2]))])
def test_settings_are_checked_before_the_work(options: Any) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(options))} must"):
        mw.SoundClassifier(OnlyX(), **options).fit(*people(200, 3))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_groups_that_mean_nothing_do_no_harm(seed: int) -> None:
    draw = np.random.default_rng(seed)

    def some(rows: int) -> tuple[pd.DataFrame, Any]:
        x = draw.normal(size=rows)
        g = draw.integers(0, 2000, rows).astype(str)
        return pd.DataFrame({"x": x, "g": g}), (draw.random(rows) < expit(x - 5)).astype(int)

    X, y = some(20_000)
    fresh, happened = some(30_000)
    found = {}
    for method in ("isotonic", "multicalibration"):
        fitted = mw.SoundClassifier(OnlyX(), method=method, groups=["g"], random_state=0).fit(X, y)
        table = fresh.assign(mu=fitted.predict_proba(fresh)[:, 1], y=happened)
        found[method] = mw.audit(table, groups=["g"], max_groups=2000)
    assert found["multicalibration"].smallest_c <= found["isotonic"].smallest_c + 0.05
    assert found["multicalibration"].brier < found["isotonic"].brier * 1.03


def test_labels_do_not_depend_on_how_wide_a_float_is() -> None:
    X, y = people(3000, 9)
    array = np.column_stack([X["x"], X["g"].map({"a": 0, "b": 1, "c": 2})])
    fitted = mw.SoundClassifier(groups=[1], random_state=0).fit(array.astype("f4"), y)
    assert set(fitted.c_by_group_["1"]) == {"0", "1", "2"}
    np.testing.assert_allclose(
        fitted.predict_proba(array.astype("f4")), fitted.predict_proba(array), atol=1e-4
    )


def test_a_number_and_its_digits_are_different_groups() -> None:
    X, y = people(6000, 2)
    mixed = X.assign(g=X["g"].map({"a": 1, "b": "1", "c": "c"}).astype(object))
    fitted, apart = (
        mw.SoundClassifier(OnlyX(), groups="g", random_state=0).fit(frame, y) for frame in (mixed, X)
    )
    assert set(fitted.c_by_group_["g"]) == {"1", "'1'", "c"}
    np.testing.assert_allclose(fitted.predict_proba(mixed), apart.predict_proba(X), rtol=1e-9)
    np.testing.assert_allclose(fitted.predict_interval(mixed), apart.predict_interval(X), rtol=1e-9)
    for value in (1, "1"):  # also where the other is not there to be told apart from
        mine = (mixed["g"] == value).to_numpy()
        alone = fitted.predict_interval(mixed[mine])
        np.testing.assert_allclose(alone, fitted.predict_interval(mixed)[mine], rtol=1e-9)


def test_a_column_by_number_and_one_by_name_are_different_groupings() -> None:
    X, y = people(3000, 2)
    frame = pd.DataFrame({"1": X["x"] > 0, "g": X["g"], "x": X["x"]})
    fitted = mw.SoundClassifier(OnlyX(), groups=[1, "1"], random_state=0).fit(frame, y)
    assert {name: set(found) for name, found in fitted.c_by_group_.items()} == {
        "1": {"a", "b", "c"},
        "'1'": {"True", "False"},
    }
    assert fitted.predict_interval(frame).shape == (3000, 2)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("later", "got"), [("other", "got 'other'"), (None, "got no 'g'")], ids=["another name", "none"]
)
def test_a_function_that_names_other_groups_later_is_told(method: Any, later: str | None, got: str) -> None:
    X, y = people(1500, 5)
    names = ["g"]
    model = mw.SoundClassifier(
        OnlyX(), groups=lambda X: dict.fromkeys(names, X["g"]), method=method, random_state=0
    ).fit(X, y)
    names[:] = [] if later is None else ["g", later]
    for ask in (model.predict, model.predict_proba, model.predict_interval):
        with pytest.raises(ValueError, match=rf"groups must give the names .* for fit, 'g'; {got} \(return"):
            ask(X)
    names[:] = ["g", "new"]
    assert set(model.fit(X, y).c_by_group_) == {"g", "new"}  # fitted again, it learns the new names
