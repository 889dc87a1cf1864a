"""Act on a forecast as if it were right; be made whole when it isn't."""

from makewhole import agents, checks, forecasters, multiclass, plots
from makewhole.backtest import BacktestResult, backtest
from makewhole.bets import delay_quote, hedge, loss_bounds, must_accept, payment, premium
from makewhole.corrections import (
    Correction,
    DeterministicSwap,
    NaiveBestResponse,
    NoCorrection,
    Proposal,
    StandardRegret,
    SwapRegret,
)
from makewhole.decisions import Forecast, Plan, decide, insure
from makewhole.insured import InsuredForecaster
from makewhole.protocol import Chance, Record, Replay, play
from makewhole.statements import ForecastClosed, Refusal, StakeRefused, Statement, UnknownForecast

__version__ = "0.1.0"

__all__ = [
    "BacktestResult",
    "Chance",
    "Correction",
    "DeterministicSwap",
    "Forecast",
    "ForecastClosed",
    "InsuredForecaster",
    "NaiveBestResponse",
    "NoCorrection",
    "Plan",
    "Proposal",
    "Record",
    "Refusal",
    "Replay",
    "StakeRefused",
    "StandardRegret",
    "Statement",
    "SwapRegret",
    "UnknownForecast",
    "agents",
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
