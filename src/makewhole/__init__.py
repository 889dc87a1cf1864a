"""Act on a forecast as if it were right; be made whole when it isn't."""

from typing import TYPE_CHECKING, Any

from makewhole import agents, forecasters, multiclass
from makewhole.backtesting.backtest import BacktestResult, backtest
from makewhole.bets import delay_quote, hedge, loss_bounds, must_accept, payment, premium
from makewhole.corrections import (
    Certificate,
    Correction,
    DeterministicSwap,
    Grouped,
    NaiveBestResponse,
    NoCorrection,
    OverlappingReserve,
    Proposal,
    Reserve,
    StandardRegret,
    SwapRegret,
)
from makewhole.decisions import Forecast, Plan, decide, insure
from makewhole.insured.changes import Bet, Change, Opening, Payments, Settlement
from makewhole.insured.forecaster import InsuredForecaster
from makewhole.insured.refusals import (
    ChangeRefused,
    ConservationError,
    ForecastClosed,
    ForecastOpen,
    Refusal,
    StakeRefused,
    TeachingError,
    UnknownForecast,
)
from makewhole.insured.statement import Statement
from makewhole.protocol import Chance, Record, Replay, play

if TYPE_CHECKING:
    from makewhole import checks, plots
    from makewhole.auditing.audit import audit
    from makewhole.auditing.report import AuditReport
    from makewhole.mending.classifier import SoundClassifier

__version__ = "0.1.0"

__all__ = [
    "AuditReport",
    "BacktestResult",
    "Bet",
    "Certificate",
    "Chance",
    "Change",
    "ChangeRefused",
    "ConservationError",
    "Correction",
    "DeterministicSwap",
    "Forecast",
    "ForecastClosed",
    "ForecastOpen",
    "Grouped",
    "InsuredForecaster",
    "NaiveBestResponse",
    "NoCorrection",
    "Opening",
    "OverlappingReserve",
    "Payments",
    "Plan",
    "Proposal",
    "Record",
    "Refusal",
    "Replay",
    "Reserve",
    "Settlement",
    "SoundClassifier",
    "StakeRefused",
    "StandardRegret",
    "Statement",
    "SwapRegret",
    "TeachingError",
    "UnknownForecast",
    "agents",
    "audit",
    "backtest",
    "checks",
    "decide",
    "delay_quote",
    "forecasters",
    "hedge",
    "insure",
    "loss_bounds",
    "multiclass",
    "must_accept",
    "payment",
    "play",
    "plots",
    "premium",
]


# What few programs need is loaded when it is first asked for: by name, the module it is, or is in.
_LATER = {
    "AuditReport": "auditing.report",
    "SoundClassifier": "mending.classifier",
    "audit": "auditing.audit",
    "checks": "checks",
    "plots": "plots",
}


def __getattr__(name: str) -> Any:
    """Load it when it is first asked for."""
    if name not in _LATER:
        raise AttributeError(f"module 'makewhole' has no attribute {name!r}")
    import importlib

    module = importlib.import_module(f"makewhole.{_LATER[name]}")
    return module if name == _LATER[name] else getattr(module, name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
