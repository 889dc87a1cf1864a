"""Act on a forecast as if it were right; be made whole when it isn't."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from makewhole import agents, checks, forecasters, multiclass, plots
    from makewhole.auditing.audit import audit
    from makewhole.auditing.report import AuditReport
    from makewhole.backtesting.backtest import backtest
    from makewhole.backtesting.capital import CapitalReport, find_capital
    from makewhole.backtesting.result import BacktestResult
    from makewhole.bets import delay_quote, hedge, loss_bounds, must_accept, payment, premium
    from makewhole.corrections import (
        Balance,
        Barrier,
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
    from makewhole.insured.book import Payments
    from makewhole.insured.forecaster import InsuredForecaster
    from makewhole.insured.lines import Lines
    from makewhole.insured.refusals import (
        ConservationError,
        ForecastClosed,
        ForecastOpen,
        PriceRefused,
        Refusal,
        StakeRefused,
        TeachingError,
        UnknownForecast,
    )
    from makewhole.insured.statement import Statement
    from makewhole.insured.thaw import Thaw
    from makewhole.mending.classifier import SoundClassifier
    from makewhole.protocol import Chance, Record, Replay, play

__version__ = "0.1.0"

__all__ = [
    "AuditReport",
    "BacktestResult",
    "Balance",
    "Barrier",
    "CapitalReport",
    "Certificate",
    "Chance",
    "ConservationError",
    "Correction",
    "DeterministicSwap",
    "Forecast",
    "ForecastClosed",
    "ForecastOpen",
    "Grouped",
    "InsuredForecaster",
    "Lines",
    "NaiveBestResponse",
    "NoCorrection",
    "OverlappingReserve",
    "Payments",
    "Plan",
    "PriceRefused",
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
    "TeachingError",
    "Thaw",
    "UnknownForecast",
    "agents",
    "audit",
    "backtest",
    "checks",
    "decide",
    "delay_quote",
    "find_capital",
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

# Public names are loaded when they are first asked for, to keep `import makewhole` and the command line fast.
_HOMES = {
    "AuditReport": "auditing.report",
    "BacktestResult": "backtesting.result",
    "Balance": "corrections",
    "Barrier": "corrections",
    "CapitalReport": "backtesting.capital",
    "Certificate": "corrections",
    "Chance": "protocol",
    "ConservationError": "insured.refusals",
    "Correction": "corrections",
    "DeterministicSwap": "corrections",
    "Forecast": "decisions",
    "ForecastClosed": "insured.refusals",
    "ForecastOpen": "insured.refusals",
    "Grouped": "corrections",
    "InsuredForecaster": "insured.forecaster",
    "Lines": "insured.lines",
    "NaiveBestResponse": "corrections",
    "NoCorrection": "corrections",
    "OverlappingReserve": "corrections",
    "Payments": "insured.book",
    "Plan": "decisions",
    "PriceRefused": "insured.refusals",
    "Proposal": "corrections",
    "Record": "protocol",
    "Refusal": "insured.refusals",
    "Replay": "protocol",
    "Reserve": "corrections",
    "SoundClassifier": "mending.classifier",
    "StakeRefused": "insured.refusals",
    "StandardRegret": "corrections",
    "Statement": "insured.statement",
    "SwapRegret": "corrections",
    "TeachingError": "insured.refusals",
    "Thaw": "insured.thaw",
    "UnknownForecast": "insured.refusals",
    "agents": "agents",
    "audit": "auditing.audit",
    "backtest": "backtesting.backtest",
    "checks": "checks",
    "datasets": "datasets",
    "decide": "decisions",
    "delay_quote": "bets",
    "find_capital": "backtesting.capital",
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
    "river": "river",
    "studies": "studies",
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
