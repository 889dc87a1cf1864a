"""What a base learner is, and how to make one of a model you already have."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

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
