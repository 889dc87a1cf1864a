"""Act on a forecast as if it were right; be made whole when it isn't."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from makewhole import agents, checks, forecasters, multiclass, plots
    from makewhole.auditing.audit import audit
    from makewhole.auditing.value import value
    from makewhole.backtesting.backtest import backtest
    from makewhole.backtesting.capital import find_capital
    from makewhole.bets import delay_quote, hedge, loss_bounds, must_accept, payment, premium
    from makewhole.corrections import (
        Balance,
        Barrier,
        Correction,
        DeterministicSwap,
        Grouped,
        NaiveBestResponse,
        NoCorrection,
        OverlappingReserve,
        Reserve,
        StandardRegret,
        SwapRegret,
    )
    from makewhole.decisions import Forecast, Quote, decide, insure
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
    from makewhole.insured.thaw import Thaw
    from makewhole.mending.classifier import SoundClassifier
    from makewhole.protocol import play
    from makewhole.watching.watch import Watch

__version__ = "0.1.0"

__all__ = [
    "Balance",
    "Barrier",
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
    "PriceRefused",
    "Quote",
    "Refusal",
    "Reserve",
    "SoundClassifier",
    "StakeRefused",
    "StandardRegret",
    "SwapRegret",
    "TeachingError",
    "Thaw",
    "UnknownForecast",
    "Watch",
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
    "value",
]

# Public names are loaded when they are first asked for, to keep `import makewhole` and the command line fast.
_HOMES = {
    "Balance": "corrections",
    "Barrier": "corrections",
    "ConservationError": "insured.refusals",
    "Correction": "corrections",
    "DeterministicSwap": "corrections",
    "Forecast": "decisions",
    "Quote": "decisions",
    "ForecastClosed": "insured.refusals",
    "ForecastOpen": "insured.refusals",
    "Grouped": "corrections",
    "InsuredForecaster": "insured.forecaster",
    "Lines": "insured.lines",
    "NaiveBestResponse": "corrections",
    "NoCorrection": "corrections",
    "OverlappingReserve": "corrections",
    "PriceRefused": "insured.refusals",
    "Refusal": "insured.refusals",
    "Reserve": "corrections",
    "SoundClassifier": "mending.classifier",
    "StakeRefused": "insured.refusals",
    "StandardRegret": "corrections",
    "SwapRegret": "corrections",
    "TeachingError": "insured.refusals",
    "Thaw": "insured.thaw",
    "UnknownForecast": "insured.refusals",
    "Watch": "watching.watch",
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
    "value": "auditing.value",
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
