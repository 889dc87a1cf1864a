"""The logs that the market's studies replay: forecasts, outcomes, and stakes of honest customers.

A log is a dict of arrays of equal length: mu and c_hat, the model's forecast; y, the outcome; and stake, what
a customer would stake, in units of the cap.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from makewhole import arguments, frames
from makewhole.arguments import Floats
from makewhole.datasets import load_538, load_flights
from makewhole.forecasters import TwoLayerLearner
from makewhole.studies import decisions

Log = dict[str, Floats]


def available() -> tuple[str, ...]:
    """Return the logs that need no download, and the others if MAKEWHOLE_DATA names their folder."""
    return ("coins", "flights", *(("mnist", "games") if os.environ.get("MAKEWHOLE_DATA") else ()))


def _coins(rounds: int, seed: int) -> Log:
    """Return fair coins, and bets on either side."""
    draw = np.random.default_rng(seed)
    y, stake = (draw.random(rounds) < 0.5).astype(np.float64), draw.choice([-1.0, 1.0], rounds)
    return {"mu": np.full(rounds, 0.5), "c_hat": np.zeros(rounds), "y": y, "stake": stake}


def _flights(rounds: int, seed: int) -> Log:
    """Return passengers who insure a delay for any amount up to the cap; all stakes are on one side."""
    events = load_flights()
    events = events.take(np.arange(min(rounds, len(events))))
    stake = np.random.default_rng(seed).uniform(0, 1, len(events))
    mu, c_hat = TwoLayerLearner(events.inputs, 8, seed=seed).run(events, events.outcome, stake)
    return {"mu": mu, "c_hat": c_hat, "y": events.outcome, "stake": stake}


def _mnist(rounds: int, seed: int) -> Log:
    """Return one decision task of the benchmark, with different stakes for different digits."""
    settings = decisions.DecisionSettings(rounds=rounds, c_range=(0.0, 0.5))  # sound mode needs ĉ ≥ 0
    events = decisions.load(settings, seed)
    made = decisions.predict_and_stake(events, settings, seed)
    stake = made.stake[:, 8] / made.caps[8]
    return {"mu": made.mu, "c_hat": made.c_hat[:, 8], "y": events.outcome, "stake": stake}


def _games(rounds: int, seed: int) -> Log:
    """Return published win probabilities of baseball games, and fans of both teams."""
    games = load_538("mlb")
    y = games["y"].to_numpy().astype(np.float64)
    stake = np.random.default_rng(seed).uniform(-1, 1, len(y))
    return {"mu": games["mu"].to_numpy(), "c_hat": np.zeros(len(y)), "y": y, "stake": stake}


LOGS: dict[str, Callable[[int, int], Log]] = {
    "coins": _coins,
    "flights": _flights,
    "mnist": _mnist,
    "games": _games,
}


def own_logs(data: Any, rounds: int) -> dict[str, Log]:
    """Return the user's logs by name: columns as arrays, stakes in units of the largest."""
    if not isinstance(data, Mapping) or not all(isinstance(name, str) for name in data):
        raise TypeError(f"data must be a dict from a log's name to a frame; got {type(data).__name__}")
    logs = {}
    for name, frame in data.items():
        present = frames.open_native(frame).collect_schema().names()
        wanted = {k: k for k in ("mu", "y", "stake", *(["c_hat"] if "c_hat" in present else []))}
        table = frames.read_columns(frame, wanted)
        columns = {
            k: arguments.numbers(f"data[{name!r}][{k!r}]", table[k].to_numpy())[:rounds] for k in wanted
        }
        arguments.probabilities(f"data[{name!r}]['mu']", columns["mu"])
        arguments.binary_outcomes(f"data[{name!r}]['y']", columns["y"])
        widths = columns.get("c_hat", np.zeros(0))
        rule = "must lie in [0, 0.5]: the certificates of this study are for such c_hat"
        arguments.reject(f"data[{name!r}]['c_hat']", widths, (widths < 0) | (widths > 0.5), rule)
        largest = float(np.abs(columns["stake"]).max(initial=0.0))
        if not largest:
            raise ValueError(f"data[{name!r}]['stake'] must have a stake other than 0")
        columns["stake"] = columns["stake"] / largest
        logs[name] = {"c_hat": np.zeros(len(columns["y"]))} | columns
    if not logs:
        raise ValueError("data must hold at least one log; got none")
    return logs


def read(log: str, rounds: int, seed: int, own: Mapping[str, Log] | None) -> Log:
    """Return the first rounds of one of our logs, or of the user's."""
    columns = LOGS[log](rounds, seed) if own is None else own[log]
    return {name: np.asarray(column)[:rounds] for name, column in columns.items()}
