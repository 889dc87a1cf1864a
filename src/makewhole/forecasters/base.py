"""What a base learner is, and how to make one of a model you already have."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from makewhole import arguments
from makewhole.forecasters.adapters import CallableForecaster, RiverForecaster, SklearnForecaster


@runtime_checkable
class BaseForecaster(Protocol):
    """Says μ̂ and ĉ, and learns from what happened.

    Write your own with these two methods; `makewhole.checks.check_forecaster` tells whether it fits.
    """

    def predict(self, x: Any) -> tuple[Any, Any]:
        """μ̂ and ĉ: two numbers, or for K classes two arrays of K numbers. Changes nothing."""

    def learn(self, x: Any, outcome: Any, *, mu: Any, net: Any, gross: Any) -> None:
        """Learn an outcome; `net` and `gross` are the stakes divided by the cap, `mu` what was predicted."""


def adapt(model: Any, classes: int | None = None) -> BaseForecaster:
    """Take a base learner as it is; wrap a river or scikit-learn classifier, or any callable.

    Examples
    --------
    >>> from makewhole.forecasters import adapt
    >>> adapt(lambda x: 0.25).predict(None)
    (0.25, 0.0)
    """
    if hasattr(model, "learn") and hasattr(model, "predict"):
        base: BaseForecaster = model
        return base
    if hasattr(model, "learn_one") and hasattr(model, "predict_proba_one"):
        return RiverForecaster(model, classes=classes)
    if hasattr(model, "predict_proba"):
        return SklearnForecaster(model, classes=classes)
    if callable(model):
        return CallableForecaster(model, classes=classes)
    raise TypeError(
        "base must be a base learner (predict, learn), a river or scikit-learn classifier that gives "
        f"probabilities, or a callable; got {model!r}"
    )


class Said(NamedTuple):
    """What a base said: μ̂ and ĉ of every line, one for a binary event, else one per class."""

    mus: tuple[float, ...]
    widths: tuple[float, ...]


def ask(
    base: BaseForecaster | None,
    classes: int | None,
    c_range: tuple[float, float],
    x: Any,
    mu: Any,
    c_hat: Any,
) -> Said:
    """μ̂ and ĉ of every line, valid: what the base says of x, or without a base what was given."""
    low, high = c_range
    width: Any
    if base is None:
        if type(mu) is float and c_hat is None and classes is None and 0.0 <= mu <= 1.0:
            return tuple.__new__(Said, ((mu,), (0.0 if low <= 0.0 <= high else min(max(0.0, low), high),)))
        if mu is None:
            raise TypeError("there is no base: give the probability, forecast(mu=...)")
        width = min(max(0.0, low), high)
        if c_hat is not None:
            width = read_width(c_hat, c_range)
    elif mu is not None or c_hat is not None:
        raise TypeError("there is a base, and it gives mu and c_hat: forecast(x)")
    else:
        mu, width = base.predict(x)
        if type(width) is not float or not low <= width <= high:
            width = np.clip(arguments.numbers("c_hat", width), low, high)
    return valid(mu, width, classes)


def read_width(c_hat: Any, c_range: tuple[float, float]) -> Any:
    """A ĉ that the caller gives, or an array of them."""
    low, high = c_range
    width = arguments.numbers("c_hat", c_hat)
    arguments.reject("c_hat", width, (width < low) | (width > high), f"must lie in c_range [{low}, {high}]")
    return width


def valid(mu: Any, width: Any, classes: int | None) -> Said:
    """One forecast's μ̂ and ĉ as numbers, one per line."""
    if classes is None:
        if type(mu) is float and type(width) is float and 0.0 <= mu <= 1.0:
            return tuple.__new__(Said, ((mu,), (width,)))
        value = arguments.probabilities("mu", mu)
        if value.ndim or np.ndim(width):
            raise ValueError(f"mu and c_hat must be single numbers; got {mu!r}, {width!r}")
        return Said((float(value),), (float(width),))
    vector = arguments.distribution("mu", mu, simplex=True)
    if vector.shape != (classes,) or np.shape(width) not in ((), (classes,)):
        raise ValueError(f"mu and c_hat must hold {classes} classes; got shape {vector.shape}")
    return Said(tuple(vector.tolist()), tuple(np.broadcast_to(width, vector.shape).tolist()))
