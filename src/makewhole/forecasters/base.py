"""What a base learner is, and how to use a model as one."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from makewhole import arguments
from makewhole.forecasters.adapters import (
    CallableForecaster,
    RegressorForecaster,
    RiverForecaster,
    SklearnForecaster,
)


@runtime_checkable
class BaseForecaster(Protocol):
    """A model inside an `InsuredForecaster`: it predicts μ̂, a probability, and ĉ, a half-width.

    To write your own, implement these two methods, and test it with `makewhole.checks.check_forecaster`.
    """

    def predict(self, x: Any) -> tuple[Any, Any]:
        """Return μ̂ and ĉ: two numbers, or for K classes two arrays of K numbers. Must not change anything."""

    def learn(self, x: Any, outcome: Any, *, mu: Any, net: Any, gross: Any) -> None:
        """Learn an outcome.

        `mu` is the μ̂ that was predicted. `net` and `gross` are the sums of the stakes and of their absolute
        values, divided by the cap.
        """


def adapt(model: Any, classes: int | None = None, *, graded: bool = False) -> BaseForecaster:
    """Return a base learner for a model.

    A base learner is returned as it is. A river or scikit-learn classifier, or any other callable, is
    wrapped. With `graded` outcomes so is a regressor, whose quantities must lie in [0, 1]. Raises a TypeError
    for anything else.

    Examples
    --------
    >>> from makewhole.forecasters import adapt
    >>> adapt(lambda x: 0.25).predict(None)
    (0.25, 0.0)
    """
    if isinstance(model, type):
        name = model.__name__
        raise TypeError(f"base must be an object, not a class: write {name}(...) instead of {name}")
    if hasattr(model, "learn") and hasattr(model, "predict"):
        base: BaseForecaster = model
        return base
    classifies = hasattr(model, "predict_proba_one") or hasattr(model, "predict_proba")
    if graded and classifies:
        raise TypeError(
            "base must be a regressor where outcomes are graded: RegressorForecaster(model, low=..., "
            f"high=...); got the classifier {model!r}"
        )
    if graded and (hasattr(model, "predict_one") or hasattr(model, "predict")):
        return RegressorForecaster(model)
    if hasattr(model, "learn_one") and hasattr(model, "predict_proba_one"):
        return RiverForecaster(model, classes=classes)
    if hasattr(model, "predict_proba"):
        return SklearnForecaster(model, classes=classes)
    if callable(model):
        return CallableForecaster(model, classes=classes)
    raise TypeError(
        "base must be a base learner (predict, learn), a river or scikit-learn classifier that gives "
        f"probabilities, or a callable; got {model!r} (a regressor? graded=True takes "
        "RegressorForecaster(model, low=..., high=...))"
    )


class Said(NamedTuple):
    """A base learner's μ̂ and ĉ: one of each for a binary event, else one per class."""

    mus: tuple[float, ...]
    widths: tuple[float, ...]


_new = tuple.__new__
# A sum of probabilities this close to 1 is close enough, in whatever order it is added up.
_SURELY = 0.5 * arguments.SUM_TOLERANCE


def ask(
    base: BaseForecaster | None,
    classes: int | None,
    c_range: tuple[float, float],
    x: Any,
    mu: Any,
    c_hat: Any,
) -> Said:
    """Return valid μ̂ and ĉ: the base's prediction for x, or without a base the caller's numbers.

    ĉ is clipped to `c_range`. Raises a TypeError if the caller gives `mu` and there is a base, or does not
    give it and there is no base.
    """
    low, high = c_range
    width: Any
    if base is None:
        if type(mu) is float and c_hat is None and classes is None and 0.0 <= mu <= 1.0:
            width = 0.0 if low <= 0.0 <= high else min(max(0.0, low), high)
            return _new(Said, ((mu,), (width,)))
        if mu is None:
            raise TypeError("mu must be given, because there is no base: forecast(mu=...)")
        width = 0.0 if low <= 0.0 <= high else min(max(0.0, low), high)
        if c_hat is not None:
            width = read_width(c_hat, c_range)
    elif mu is not None or c_hat is not None:
        raise TypeError("mu and c_hat must not be given, because there is a base: forecast(x)")
    else:
        mu, width = base.predict(x)
        if type(width) is not float or not low <= width <= high:
            width = np.clip(arguments.numbers("c_hat", width), low, high)
    return valid(mu, width, classes)


def read_width(c_hat: Any, c_range: tuple[float, float]) -> Any:
    """Return a ĉ that the caller gives, or an array of them; raise a ValueError outside `c_range`."""
    low, high = c_range
    width = arguments.numbers("c_hat", c_hat)
    arguments.reject("c_hat", width, (width < low) | (width > high), f"must lie in c_range [{low}, {high}]")
    return width


def valid(mu: Any, width: Any, classes: int | None) -> Said:
    """Return one forecast's μ̂ and ĉ, checked; raise a ValueError if they are not probabilities."""
    if classes is None:
        if type(mu) is float and type(width) is float and 0.0 <= mu <= 1.0:
            return tuple.__new__(Said, ((mu,), (width,)))
        value = arguments.probabilities("mu", mu)
        if value.ndim or np.ndim(width):
            raise ValueError(f"mu and c_hat must be single numbers; got {mu!r}, {width!r}")
        return Said((float(value),), (float(width),))
    plain = arguments.plain_row(mu, classes)  # a fast path for the most common case: a tenth of the time
    if plain is not None and type(width) is float:
        total = 0.0
        for p in plain:
            total += p if 0.0 <= p <= 1.0 else 2.0  # takes the sum far from 1
        if abs(total - 1.0) <= _SURELY:
            return _new(Said, (tuple(plain), (width,) * classes))
    vector = arguments.distribution("mu", mu, simplex=True)
    if vector.shape != (classes,) or np.shape(width) not in ((), (classes,)):
        raise ValueError(f"mu and c_hat must hold {classes} classes; got shape {vector.shape}")
    return Said(tuple(vector.tolist()), tuple(np.broadcast_to(width, vector.shape).tolist()))


class Rows:
    """Many rows of features: an array, a frame or a sequence. `rows[k]` is one row; of a frame, a dict."""

    def __init__(self, given: Any) -> None:
        self.given = given
        self._frame = given if hasattr(given, "columns") and hasattr(given, "shape") else None
        if self._frame is None and not hasattr(given, "__len__"):
            raise TypeError(f"xs must be an array, a frame or a sequence of rows; got {type(given).__name__}")
        self._columns: dict[str, list[Any]] | None = None

    def __len__(self) -> int:
        return len(self.given)

    def __getitem__(self, k: int) -> Any:
        if self._frame is None:
            return self.given[k]
        if self._columns is None:
            from makewhole.frames import open_native

            frame = open_native(self._frame)
            self._columns = {name: frame[name].to_list() for name in frame.columns}
        return {name: values[k] for name, values in self._columns.items()}


def ask_many(
    base: BaseForecaster, rows: Rows, classes: int | None, c_range: tuple[float, float]
) -> tuple[Any, Any]:
    """Return valid μ̂ and ĉ of every row, as two arrays.

    The base is asked once for all rows if it has `predict_many`, else row by row.
    """
    answer = getattr(base, "predict_many", None)  # optional for a user's own base
    if answer is not None:
        mu, width = answer(rows.given)
    else:
        answers = [base.predict(rows[k]) for k in range(len(rows))]
        mu = [pair[0] for pair in answers]
        width = [pair[1] for pair in answers]
    shape = (len(rows),) if classes is None else (len(rows), classes)
    chances = _probabilities(mu, classes) if len(rows) else np.zeros(shape)
    if chances.shape != shape:
        raise ValueError(f"the base must return one probability per row and class; got shape {chances.shape}")
    widths = np.broadcast_to(np.clip(arguments.numbers("c_hat", width), *c_range), shape)
    return chances, widths


def given_many(mu: Any, c_hat: Any, classes: int | None, c_range: tuple[float, float]) -> tuple[Any, Any]:
    """Return valid μ̂ and ĉ that the caller gives, as two arrays."""
    chances = _probabilities(mu, classes)
    if chances.ndim != (1 if classes is None else 2) or (classes and chances.shape[1] != classes):
        wanted = "one probability per forecast" if classes is None else f"{classes} per forecast"
        raise ValueError(f"mu must be {wanted}; got shape {chances.shape}")
    low, high = c_range
    width = np.asarray(min(max(0.0, low), high)) if c_hat is None else read_width(c_hat, c_range)
    try:
        return chances, np.broadcast_to(width, chances.shape)
    except ValueError:
        raise ValueError(f"c_hat must be one per forecast; got shape {width.shape}") from None


def _probabilities(mu: Any, classes: int | None) -> Any:
    if classes is None:
        return arguments.probabilities("mu", mu)
    return arguments.distribution("mu", mu, simplex=True)
