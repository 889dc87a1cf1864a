"""Use a river or scikit-learn model, or any function, as a base learner; neither library is imported."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from makewhole import arguments, frames


def _answer(chances: Mapping[Any, float], labels: Sequence[Any], classes: int | None) -> tuple[Any, Any]:
    """Return μ̂ and ĉ = 0, given a model's probabilities by label.

    μ̂ is the probability of outcome 1, or with `classes` of each class. If the model gives no probabilities
    yet, all labels get the same one. Raises a ValueError for a label that is not in `labels`.
    """
    for label in chances:
        if label not in labels:
            raise ValueError(f"labels must name the model's classes, {list(chances)!r}; got {list(labels)!r}")
    if not classes:
        no, yes = float(chances.get(labels[0], 0.0)), float(chances.get(labels[1], 0.0))
        total = no + yes
        return (yes / total if total > 0 else 0.5), 0.0
    vector = np.array([chances.get(label, 0.0) for label in labels], dtype=np.float64)
    total = vector.sum()
    vector = vector / total if total > 0 else np.full(len(labels), 1 / len(labels))
    return vector, np.zeros(len(vector))


class RiverForecaster:
    """A river classifier as a base learner, with ĉ = 0.

    Before it has learned anything, it gives every class the same probability.

    Parameters
    ----------
    model
        Any river classifier with `predict_proba_one`, pipelines included.
    labels
        The model's labels for the outcomes 0, 1, …; by default False and True, or with `classes` 0 … K−1.
    classes
        The number of classes; None for a binary event.

    Examples
    --------
    >>> from river import linear_model
    >>> from makewhole.forecasters import RiverForecaster
    >>> base = RiverForecaster(linear_model.LogisticRegression())
    >>> base.predict({"rain": 1.0})
    (0.5, 0.0)
    >>> for _ in range(50):
    ...     base.learn({"rain": 1.0}, outcome=1)
    >>> round(base.predict({"rain": 1.0})[0], 2)
    0.61
    """

    def __init__(self, model: Any, labels: Sequence[Any] | None = None, classes: int | None = None) -> None:
        self.model = model
        default = (False, True) if classes is None else tuple(range(classes))
        self.labels = default if labels is None else tuple(labels)
        self.classes = classes
        _check_labels(self.labels, classes)

    def predict(self, x: Any) -> tuple[Any, Any]:
        """Return μ̂, the model's probability of outcome 1 (or of each class), and ĉ = 0."""
        return _answer(self.model.predict_proba_one(x), self.labels, self.classes)

    def learn(self, x: Any, outcome: int, **_: Any) -> None:
        """Call the model's `learn_one`."""
        self.model.learn_one(x, self.labels[outcome])


class SklearnForecaster:
    """A scikit-learn classifier as a base learner, with ĉ = 0.

    If the model has `partial_fit`, it goes on learning, one row at a time. Otherwise it must already be
    fitted, and does not change. A model that has learned nothing gives every class the same probability.

    Parameters
    ----------
    model
        Any classifier with `predict_proba`.
    labels
        The model's labels for the outcomes 0, 1, …; by default its `classes_` if it is fitted, else 0, 1, …
    classes
        The number of classes; None for a binary event.

    Raises
    ------
    ValueError
        If the model is neither fitted nor has `partial_fit`, or `labels` has the wrong length.

    Examples
    --------
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from makewhole.forecasters import SklearnForecaster
    >>> base = SklearnForecaster(GaussianNB())
    >>> base.predict([1.0])
    (0.5, 0.0)
    >>> for x, y in [(0.0, 0), (1.0, 1), (0.25, 0), (0.75, 1)]:
    ...     base.learn([x], y)
    >>> base.predict([0.75])[0] > 0.9
    True
    """

    def __init__(self, model: Any, labels: Sequence[Any] | None = None, classes: int | None = None) -> None:
        self.model = model
        self._learns = hasattr(model, "partial_fit")
        fitted = hasattr(model, "classes_")
        if not fitted and not self._learns:
            raise ValueError(f"model must be fitted first, or have partial_fit; got {model!r}")
        default = model.classes_ if fitted else np.arange(classes or 2)
        self.labels = np.asarray(default if labels is None else labels)
        self.classes = classes
        _check_labels(self.labels.tolist(), classes)

    def predict(self, x: Any) -> tuple[Any, Any]:
        """Return μ̂ and ĉ = 0 for one row: an array, a dict, a Series, or a frame with one row."""
        chances: dict[Any, float] = {}
        if hasattr(self.model, "classes_"):
            row = self.model.predict_proba(one_row(self.model, x))[0].tolist()
            chances = dict(zip(self.model.classes_.tolist(), row, strict=True))
        return _answer(chances, self.labels.tolist(), self.classes)

    def predict_many(self, xs: Any) -> tuple[Any, Any]:
        """Return μ̂ and ĉ = 0 for each of many rows, with one call of the model."""
        labels = self.labels.tolist()
        if not hasattr(self.model, "classes_") or not len(xs):
            answers = [_answer({}, labels, self.classes) for _ in range(len(xs))]
            return [mu for mu, _ in answers], [c for _, c in answers]
        table = xs
        if not hasattr(xs, "columns") and isinstance(xs[0], Mapping):
            table = as_table(self.model, [dict(x) for x in xs])
        chances = np.asarray(self.model.predict_proba(table), dtype=np.float64)
        known = self.model.classes_.tolist()
        answers = [
            _answer(dict(zip(known, row, strict=True)), labels, self.classes) for row in chances.tolist()
        ]
        return [mu for mu, _ in answers], [c for _, c in answers]

    def learn(self, x: Any, outcome: int, **_: Any) -> None:
        """Call the model's `partial_fit`, if it has one."""
        if self._learns:
            self.model.partial_fit(
                one_row(self.model, x), self.labels[[outcome]], classes=np.sort(self.labels)
            )


def one_row(model: Any, x: Any) -> Any:
    """Return one row of features in the form that scikit-learn takes."""
    if isinstance(x, Mapping) or (hasattr(x, "to_dict") and np.ndim(x) == 1):  # a dict, or a Series
        return as_table(model, [dict(x)])
    if np.ndim(x) < 2:
        return np.reshape(x, (1, -1))
    if len(x) != 1:
        raise ValueError(f"x must be one row of features; got {len(x)} rows")
    return x


def as_table(model: Any, rows: list[dict[Any, Any]]) -> Any:
    """Return rows of named features as a frame if the model was fitted on names, else as an array."""
    names = getattr(model, "feature_names_in_", None)  # set by scikit-learn
    if names is None:
        return np.array([list(row.values()) for row in rows])
    missing = [name for name in names if name not in rows[0]]
    if missing:
        raise ValueError(f"x must have the feature {missing[0]!r} of the model; got {list(rows[0])!r}")
    return frames.make_frame({str(name): [row[name] for row in rows] for name in names}, "pandas")


class RegressorForecaster:
    """A river or scikit-learn regressor as a base learner for graded outcomes.

    The model forecasts a quantity, such as a delay in minutes, between two ends. The base learner's μ̂ is
    where this forecast lies between the ends, from 0 (`low`) to 1 (`high`); a forecast beyond an end counts
    as that end. Its half-width ĉ is 0. Outcomes are also such shares: `share` computes them. The model learns
    the quantity that the outcome stands for. A scikit-learn model without `partial_fit` must already be
    fitted, and does not change.

    Parameters
    ----------
    model
        A river regressor (`predict_one`, `learn_one`) or a scikit-learn regressor (`predict`).
    low, high
        The two ends. Anything beyond them is not insured.

    Examples
    --------
    >>> from river import linear_model
    >>> import makewhole as mw
    >>> base = mw.forecasters.RegressorForecaster(linear_model.LinearRegression(), low=0, high=180)
    >>> f = mw.InsuredForecaster(base, max_stake=100, graded=True)
    >>> q = f.forecast({"rain": 1.0}, id="UA-123")
    >>> f.stake("UA-123", 100.0)  # she loses 100 if she is three hours late, and less in proportion
    0
    >>> f.settle("UA-123", base.share(45))  # 45 minutes are a quarter of them
    [25.0]
    """

    def __init__(self, model: Any, low: float = 0.0, high: float = 1.0) -> None:
        self.low, self.high = arguments.scalar("low", low), arguments.scalar("high", high)
        if not 0 < self.high - self.low < np.inf:
            raise ValueError(f"low must be less than high, by a finite number; got {low!r} and {high!r}")
        self.model = model
        self._river = hasattr(model, "predict_one") and hasattr(model, "learn_one")
        if not self._river and not hasattr(model, "predict"):
            raise TypeError(f"model must be a river or scikit-learn regressor; got {model!r}")
        self._learns = self._river or hasattr(model, "partial_fit")
        self._fitted = self._river or hasattr(model, "n_features_in_")  # set by scikit-learn
        if not self._fitted and not self._learns:
            raise ValueError(f"model must be fitted first, or have partial_fit; got {model!r}")

    def share(self, quantity: float) -> float:
        """Return the outcome that a quantity stands for: where it lies between the two ends, from 0 to 1."""
        place = (arguments.scalar("quantity", quantity) - self.low) / (self.high - self.low)
        return min(max(place, 0.0), 1.0)

    def predict(self, x: Any) -> tuple[float, float]:
        """Return μ̂, where the model's forecast lies between the ends, and ĉ = 0."""
        if self._river:
            return self.share(self.model.predict_one(x)), 0.0
        if not self._fitted:
            return 0.5, 0.0
        quantity = np.ravel(self.model.predict(one_row(self.model, x)))
        return self.share(float(quantity[0])), 0.0

    def learn(self, x: Any, outcome: float, **_: Any) -> None:
        """Teach the model the quantity that the outcome stands for."""
        quantity = self.low + outcome * (self.high - self.low)
        if self._river:
            self.model.learn_one(x, quantity)
        elif self._learns:
            self.model.partial_fit(one_row(self.model, x), [quantity])
            self._fitted = True


class CallableForecaster:
    """Any function as a base learner. It is not trained.

    Parameters
    ----------
    function
        Takes the features x, and returns μ̂ or a pair (μ̂, ĉ). It may return a torch tensor with one number
        (with `classes`, K numbers).
    classes
        The number of classes; None for a binary event.

    Examples
    --------
    >>> from makewhole.forecasters import CallableForecaster
    >>> CallableForecaster(lambda hour: (0.1 + hour / 100, 0.02)).predict(20)
    (0.30000000000000004, 0.02)
    """

    def __init__(self, function: Callable[[Any], Any], classes: int | None = None) -> None:
        self.function = function
        self.classes = classes

    def predict(self, x: Any) -> tuple[Any, Any]:
        """Return μ̂ and ĉ; raise a ValueError if the function returns the wrong number of probabilities."""
        answer = self.function(x)
        mu, c = answer if isinstance(answer, tuple) else (answer, 0.0)
        size = self.classes or 1
        vector, width = _plain_numbers("mu", mu), _plain_numbers("c", c)
        if vector.size != size or width.size not in (1, size):
            raise ValueError(f"the function must return {size} probabilities; got {answer!r}")
        if not self.classes:
            return vector.item(), width.item()
        return vector.reshape(size), np.broadcast_to(width.ravel(), size)

    def learn(self, x: Any, outcome: Any, **_: Any) -> None:
        """Do nothing."""


def _plain_numbers(name: str, value: Any) -> Any:
    """Return numbers as an array; a tensor by way of a list, which drops its gradients and device."""
    return arguments.numbers(name, value.detach().tolist() if hasattr(value, "detach") else value)


def _check_labels(labels: Sequence[Any], classes: int | None) -> None:
    if len(labels) != (classes or 2):
        raise ValueError(f"labels must name {classes or 2} classes; got {list(labels)!r}")
