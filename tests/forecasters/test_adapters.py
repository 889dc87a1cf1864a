"""Models people already have, for real: river, scikit-learn, callables."""

from typing import Any

import numpy as np
import pytest
from river import datasets, linear_model, naive_bayes, preprocessing, tree
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import makewhole as mw
from makewhole.forecasters import RiverForecaster, SklearnForecaster, adapt


def blobs(classes: int, rows: int = 300) -> tuple[Any, Any]:
    draw = np.random.default_rng(0)
    y = draw.integers(0, classes, rows)
    return draw.normal(size=(rows, 2)) + 2 * y[:, None], y


def test_a_river_pipeline_learns_while_it_is_insured() -> None:
    model = preprocessing.StandardScaler() | linear_model.LogisticRegression()
    twin = model.clone()
    f = mw.InsuredForecaster(model, max_stake=1)
    for x, y in datasets.Phishing().take(300):
        q = f.forecast(x)
        assert q.mu == pytest.approx(twin.predict_proba_one(x)[True])
        f.settle(q, int(y), stake=1.0 if y else -1.0)
        twin.learn_one(x, y)


def test_a_river_model_of_many_classes() -> None:
    labels = ["brickface", "sky", "foliage", "cement", "window", "path", "grass"]
    base = RiverForecaster(naive_bayes.GaussianNB(), labels=labels, classes=7)
    f = mw.InsuredForecaster(base, max_stake=1, classes=7)
    right = 0
    for x, y in datasets.ImageSegments().take(400):
        q = f.forecast(x)
        right += labels[int(np.argmax(q.mu))] == y
        f.settle(q, labels.index(y), stake=np.zeros(7))
    assert right > 3 * 400 / 7  # it learns: three times what chance alone would get


def test_river_models_pass_the_check() -> None:
    rows = [x for x, _ in datasets.Phishing().take(30)]
    mw.checks.check_forecaster(linear_model.LogisticRegression, xs=rows)
    mw.checks.check_forecaster(tree.HoeffdingTreeClassifier, xs=rows)


def test_an_sklearn_model_with_partial_fit_goes_on_learning() -> None:
    X, y = blobs(2)
    f = mw.InsuredForecaster(SGDClassifier(loss="log_loss", random_state=0), max_stake=1)
    assert f.forecast(X[0]).mu == 0.5  # it has seen nothing
    for x, outcome in zip(X, y, strict=True):
        f.settle(f.forecast(x), int(outcome))
    assert f.forecast([0.0, 0.0]).mu < 0.2
    assert f.forecast([2.0, 2.0]).mu > 0.8


def test_a_fitted_sklearn_model_stays_as_it_is() -> None:
    X, y = blobs(2)
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)
    f = mw.InsuredForecaster(model, max_stake=1)
    q = f.forecast(X[0])
    assert q.mu == pytest.approx(model.predict_proba(X[:1])[0, 1])
    f.settle(q, 1)
    assert f.forecast(X[0]).mu == q.mu


def test_labels_say_which_outcome_is_which() -> None:
    X, y = blobs(2)
    model = RandomForestClassifier(10, random_state=0).fit(X, np.where(y == 1, "late", "on time"))
    late = SklearnForecaster(model, labels=["on time", "late"])
    said = model.predict_proba([[2.5, 2.5]])[0, list(model.classes_).index("late")]
    assert late.predict([2.5, 2.5])[0] == pytest.approx(said)
    by_default = SklearnForecaster(model)  # in the model's own order, "late" comes first
    assert by_default.predict([2.5, 2.5])[0] == pytest.approx(1 - said)


def test_sklearn_with_many_classes() -> None:
    X, y = blobs(3)
    f = mw.InsuredForecaster(GaussianNB().fit(X[:30], y[:30]), max_stake=1, classes=3)
    for x, outcome in zip(X[30:], y[30:], strict=True):
        f.settle(f.forecast(x), int(outcome), stake=[0.1, 0.1, 0.1])
    assert np.argmax(f.forecast([4.0, 4.0]).mu) == 2


def test_classes_are_the_models_own_labels_unless_told() -> None:
    X, y = blobs(3)
    for labels in (np.array(["a", "b", "c"]), np.array([1, 2, 3])):
        f = mw.InsuredForecaster(GaussianNB().fit(X, labels[y]), max_stake=1, classes=3)
        assert [int(np.argmax(f.forecast([2.0 * k, 2.0 * k]).mu)) for k in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError, match="labels must name 4 classes"):
        mw.InsuredForecaster(GaussianNB().fit(X, y), max_stake=1, classes=4)
    with pytest.raises(ValueError, match="x must be one row of features; got 3"):
        adapt(GaussianNB().fit(X, y), classes=3).predict(X[:3])


def test_a_river_model_with_other_labels_is_not_taken_for_undecided() -> None:
    model = naive_bayes.GaussianNB()
    for x in (0.0, 1.0, 0.1, 0.9):
        model.learn_one({"x": x}, "yes" if x > 0.5 else "no")
    with pytest.raises(ValueError, match=r"labels must name the model's classes, \['no', 'yes'\]"):
        mw.InsuredForecaster(model, max_stake=1).forecast({"x": 1.0})
    base = RiverForecaster(model, labels=["no", "yes"])
    assert mw.InsuredForecaster(base, max_stake=1).forecast({"x": 0.9}).mu > 0.9


@pytest.mark.slow
def test_sklearn_models_pass_the_check() -> None:
    X, y = blobs(2)
    mw.checks.check_forecaster(lambda: SGDClassifier(loss="log_loss", random_state=0), xs=X)
    mw.checks.check_forecaster(lambda: LogisticRegression().fit(X, y), xs=X[:20])
    X3, y3 = blobs(3)
    mw.checks.check_forecaster(lambda: GaussianNB().fit(X3, y3), xs=X3, classes=3)


def test_a_model_that_cannot_serve_is_named() -> None:
    with pytest.raises(ValueError, match="must be fitted first, or have partial_fit"):
        adapt(LogisticRegression())
    X, y = blobs(3)
    with pytest.raises(ValueError, match="labels must name 2 classes"):
        adapt(GaussianNB().fit(X, y))


class TensorLike:
    """What a torch module returns, as far as we use it: `detach()`, `tolist()`, no array with gradients."""

    def __init__(self, values: Any, attached: bool = True) -> None:
        self.values, self.attached = np.asarray(values, dtype=np.float32), attached

    def detach(self) -> "TensorLike":
        return TensorLike(self.values, attached=False)

    def tolist(self) -> Any:
        return self.values.tolist()

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        if self.attached:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad.")
        return self.values.astype(dtype) if dtype else self.values


def test_any_callable_is_a_base_tensors_included() -> None:
    assert adapt(lambda x: TensorLike([0.25])).predict(None) == (0.25, 0.0)
    mu, c = adapt(lambda x: TensorLike([0.25, 0.75]), classes=2).predict(None)
    assert (mu.tolist(), c.tolist()) == ([0.25, 0.75], [0.0, 0.0])
    mu, c = adapt(lambda x: (np.array([0.25, 0.75]), 0.1), classes=2).predict(None)
    assert c.tolist() == [0.1, 0.1]
    mu, c = adapt(lambda x: TensorLike([[0.25, 0.75]]), classes=2).predict(None)  # a batch of one
    assert mu.tolist() == [0.25, 0.75]
    with pytest.raises(ValueError, match="the function must return 1 probabilities"):
        adapt(lambda x: [0.25, 0.75]).predict(None)
    mw.checks.check_forecaster(lambda: lambda x: (0.3, 0.02))
    mw.checks.check_forecaster(lambda: lambda x: [0.3, 0.3, 0.4], classes=3)
