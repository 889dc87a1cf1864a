"""Act on a forecast as if it were right; be made whole when it isn't."""

from typing import TYPE_CHECKING, Any

from makewhole import agents, forecasters, multiclass
from makewhole.backtest import BacktestResult, backtest
from makewhole.bets import delay_quote, hedge, loss_bounds, must_accept, payment, premium
from makewhole.certificates import Certificate
from makewhole.corrections import (
    Correction,
    DeterministicSwap,
    Grouped,
    NaiveBestResponse,
    NoCorrection,
    Proposal,
    Reserve,
    StandardRegret,
    SwapRegret,
)
from makewhole.decisions import Forecast, Plan, decide, insure
from makewhole.findings import AuditReport
from makewhole.insured import InsuredForecaster
from makewhole.protocol import Chance, Record, Replay, play
from makewhole.soundness import audit
from makewhole.statements import (
    ConservationError,
    ForecastClosed,
    Refusal,
    StakeRefused,
    Statement,
    UnknownForecast,
)

if TYPE_CHECKING:
    from makewhole import checks, plots
    from makewhole.mend import SoundClassifier

__version__ = "0.1.0"

__all__ = [
    "AuditReport",
    "BacktestResult",
    "Certificate",
    "Chance",
    "ConservationError",
    "Correction",
    "DeterministicSwap",
    "Forecast",
    "ForecastClosed",
    "Grouped",
    "InsuredForecaster",
    "NaiveBestResponse",
    "NoCorrection",
    "Plan",
    "Proposal",
    "Record",
    "Refusal",
    "Replay",
    "Reserve",
    "SoundClassifier",
    "StakeRefused",
    "StandardRegret",
    "Statement",
    "SwapRegret",
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


def __getattr__(name: str) -> Any:
    """Load the modules that few programs need when they are first asked for."""
    if name in ("checks", "plots"):
        import importlib

        return importlib.import_module(f"makewhole.{name}")
    if name == "SoundClassifier":
        from makewhole.mend import SoundClassifier

        return SoundClassifier
    raise AttributeError(f"module 'makewhole' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
