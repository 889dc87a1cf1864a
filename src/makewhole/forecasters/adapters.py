"""Models you already have as base learners. None of these libraries is imported here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from makewhole import arguments


def _answer(probabilities: Any, classes: int | None) -> tuple[Any, Any]:
    """(μ̂, ĉ = 0) from a vector of class probabilities: the whole of it, or that of class 1."""
    vector = np.asarray(probabilities, dtype=np.float64)
    total = vector.sum()
    vector = vector / total if total > 0 else np.full(len(vector), 1 / len(vector))
    return (vector, np.zeros(len(vector))) if classes else (float(vector[1]), 0.0)


class RiverForecaster:
    """A river classifier as base learner, with ĉ = 0.

    Before it has learned anything it says the same for every class.

    Parameters
    ----------
    model
        Any river classifier with `predict_proba_one`, pipelines included.
    labels
        The model's label for outcome 0, 1, …; by default False and True.
    classes
        None for a binary event, else the number of classes.

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
        self.labels = (False, True) if labels is None else tuple(labels)
        self.classes = classes

    def predict(self, x: Any) -> tuple[Any, Any]:
        """The model's probabilities."""
        said = self.model.predict_proba_one(x)
        return _answer([said.get(label, 0.0) for label in self.labels], self.classes)

    def learn(self, x: Any, outcome: int, **_: Any) -> None:
        """One `learn_one`."""
        self.model.learn_one(x, self.labels[outcome])


class SklearnForecaster:
    """A scikit-learn classifier as base learner, with ĉ = 0.

    With `partial_fit` it goes on learning, one row at a time; without, it must be fitted already and
    stays as it is. A model that has seen nothing says the same for every class.

    Parameters
    ----------
    model
        Any classifier with `predict_proba`.
    labels
        The model's label for outcome 0, 1, …; by default its own `classes_` if it is fitted, else 0 and 1.
    classes
        None for a binary event, else the number of classes.

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
            raise ValueError(f"{model!r} must be fitted first, or have partial_fit")
        self.labels = np.asarray(
            model.classes_ if fitted and labels is None else (0, 1) if labels is None else labels
        )
        self.classes = classes
        if len(self.labels) != (classes or 2):
            raise ValueError(f"labels must name {classes or 2} classes; got {self.labels.tolist()}")

    def predict(self, x: Any) -> tuple[Any, Any]:
        """The model's probabilities."""
        if not hasattr(self.model, "classes_"):
            return _answer(np.ones(len(self.labels)), self.classes)
        said = dict(zip(self.model.classes_.tolist(), self.model.predict_proba(self._row(x))[0], strict=True))
        return _answer([said.get(label, 0.0) for label in self.labels.tolist()], self.classes)

    def learn(self, x: Any, outcome: int, **_: Any) -> None:
        """One `partial_fit`, where the model has it."""
        if self._learns:
            self.model.partial_fit(self._row(x), self.labels[[outcome]], classes=np.sort(self.labels))

    def _row(self, x: Any) -> Any:
        return x if np.ndim(x) == 2 else np.reshape(x, (1, -1))


class CallableForecaster:
    """Any function of x as base learner: it returns μ̂, or a pair (μ̂, ĉ). It is never trained here.

    A torch module is one: x goes in as it is, a tensor with one number (or K of them) may come out.

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
        """What the function says."""
        said = self.function(x)
        mu, c = said if isinstance(said, tuple) else (said, 0.0)
        if not self.classes:
            return float(mu), float(c)
        vector = arguments.numbers("mu", self._detached(mu))
        return vector, np.broadcast_to(arguments.numbers("c", self._detached(c)), vector.shape)

    def learn(self, x: Any, outcome: Any, **_: Any) -> None:
        """Nothing."""

    @staticmethod
    def _detached(value: Any) -> Any:
        """A tensor that carries gradients must be let go of before it turns into an array."""
        return value.detach() if hasattr(value, "detach") else value
