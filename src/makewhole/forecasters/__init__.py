"""Base learners, which predict μ̂ and ĉ: the paper's networks, a calibrated one, adapters for other models."""

from makewhole.forecasters.adapters import (
    CallableForecaster,
    RegressorForecaster,
    RiverForecaster,
    SklearnForecaster,
)
from makewhole.forecasters.base import (
    BaseForecaster,
    Rows,
    Said,
    adapt,
    ask,
    ask_many,
    given_many,
    valid,
)
from makewhole.forecasters.calibrated import CalibratedForecaster
from makewhole.forecasters.two_layer import SparseRow, TwoLayerLearner

__all__ = [
    "BaseForecaster",
    "CalibratedForecaster",
    "CallableForecaster",
    "RegressorForecaster",
    "RiverForecaster",
    "Rows",
    "Said",
    "SklearnForecaster",
    "SparseRow",
    "TwoLayerLearner",
    "adapt",
    "ask",
    "ask_many",
    "given_many",
    "valid",
]
