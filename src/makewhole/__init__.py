"""Act on a forecast as if it were right; be made whole when it isn't."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from makewhole import agents, checks, forecasters, multiclass, plots
    from makewhole.auditing.audit import audit
    from makewhole.auditing.report import AuditReport
    from makewhole.backtesting.backtest import BacktestResult, backtest
    from makewhole.bets import delay_quote, hedge, loss_bounds, must_accept, payment, premium
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
    from makewhole.insured.certificates import Certificate
    from makewhole.insured.forecaster import InsuredForecaster
    from makewhole.insured.statement import (
        ConservationError,
        ForecastClosed,
        Refusal,
        StakeRefused,
        Statement,
        UnknownForecast,
    )
    from makewhole.mending.classifier import SoundClassifier
    from makewhole.protocol import Chance, Record, Replay, play

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


# Loaded lazily, to keep `import makewhole` fast: by name, the module it is, or is in.
_HOMES = {
    "AuditReport": "auditing.report",
    "BacktestResult": "backtesting.backtest",
    "Certificate": "insured.certificates",
    "Chance": "protocol",
    "ConservationError": "insured.statement",
    "Correction": "corrections",
    "DeterministicSwap": "corrections",
    "Forecast": "decisions",
    "ForecastClosed": "insured.statement",
    "Grouped": "corrections",
    "InsuredForecaster": "insured.forecaster",
    "NaiveBestResponse": "corrections",
    "NoCorrection": "corrections",
    "Plan": "decisions",
    "Proposal": "corrections",
    "Record": "protocol",
    "Refusal": "insured.statement",
    "Replay": "protocol",
    "Reserve": "corrections",
    "SoundClassifier": "mending.classifier",
    "StakeRefused": "insured.statement",
    "StandardRegret": "corrections",
    "Statement": "insured.statement",
    "SwapRegret": "corrections",
    "UnknownForecast": "insured.statement",
    "agents": "agents",
    "audit": "auditing.audit",
    "backtest": "backtesting.backtest",
    "checks": "checks",
    "decide": "decisions",
    "delay_quote": "bets",
    "forecasters": "forecasters",
    "hedge": "bets",
    "insure": "decisions",
    "loss_bounds": "bets",
    "multiclass": "multiclass",
    "must_accept": "bets",
    "payment": "bets",
    "play": "protocol",
    "plots": "plots",
    "premium": "bets",
}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module 'makewhole' has no attribute {name!r}")
    import importlib

    module = importlib.import_module(f"makewhole.{_HOMES[name]}")
    value = module if name == _HOMES[name] else getattr(module, name)
    globals()[name] = value  # the next time, this function is not asked
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
