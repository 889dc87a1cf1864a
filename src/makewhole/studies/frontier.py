"""What certainty costs: the premium agents pay over fair, against the capital that is certified.

Every log is replayed in sound mode. A reserve's rate is the dial: the smaller, the more capital it takes and
the less c moves. Corrections without a certificate stand beside it with the most they were ever down.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from makewhole.arguments import Floats
from makewhole.backtesting.backtest import backtest
from makewhole.corrections import Correction, DeterministicSwap, Reserve, StandardRegret, SwapRegret
from makewhole.datasets import load_538, load_flights
from makewhole.forecasters import TwoLayerLearner
from makewhole.frames import make_frame
from makewhole.studies import decisions
from makewhole.studies.claims import Claim, Verdict, interval, positive

RATES = (0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
OTHERS = ("swap", "deterministic swap", "standard 0.1")
_IID_ROUNDS = 400_000


@dataclass(frozen=True)
class FrontierSettings:
    """Which logs, and how long those are that we make up."""

    logs: tuple[str, ...]
    rounds: int = 50_000


def available_logs() -> tuple[str, ...]:
    """Those that need no download, and the others where MAKEWHOLE_DATA says they are at hand."""
    return (
        "flights",
        "insider",
        "clairvoyant",
        *(("mnist", "games") if os.environ.get("MAKEWHOLE_DATA") else ()),
    )


# --- logs: μ̂, ĉ, outcome, stake, and the cap ---------------------------------------------------------------


def _flights(rounds: int, seed: int) -> dict[str, Floats]:
    """Passengers who insure against delay for any amount up to the cap: honest, and all on one side."""
    events = load_flights()
    events = events.take(np.arange(min(rounds, len(events))))
    stake = np.random.default_rng(seed).uniform(0, 1, len(events))
    mu, c_hat = TwoLayerLearner(events.inputs, 8, seed=seed).run(events, events.outcome, stake)
    return {"mu": mu, "c_hat": c_hat, "y": events.outcome, "stake": stake}


def _insider(rounds: int, seed: int) -> dict[str, Floats]:
    """The forecast says ½, the truth is 0.7, and somebody knows."""
    y = (np.random.default_rng(seed).random(rounds) < 0.7).astype(np.float64)
    return {"mu": np.full(rounds, 0.5), "c_hat": np.zeros(rounds), "y": y, "stake": np.ones(rounds)}


def _clairvoyant(rounds: int, seed: int) -> dict[str, Floats]:
    """One in ten knows the outcome; the others bet at random."""
    draw = np.random.default_rng(seed)
    y = (draw.random(rounds) < 0.5).astype(np.float64)
    honest = draw.choice([-1.0, 1.0], rounds)
    stake = np.where(draw.random(rounds) < 0.1, 2 * y - 1, honest)
    return {"mu": np.full(rounds, 0.5), "c_hat": np.zeros(rounds), "y": y, "stake": stake}


def _mnist(rounds: int, seed: int) -> dict[str, Floats]:
    """One decision task of the benchmark, with different stakes for different digits."""
    settings = decisions.DecisionSettings(rounds=rounds)
    events = decisions.load(settings, seed)
    made = decisions.predict_and_stake(events, settings, seed)
    stake = made.stake[:, 8] / made.caps[8]
    return {"mu": made.mu, "c_hat": made.c_hat[:, 8], "y": events.outcome, "stake": stake}


def _games(rounds: int, seed: int) -> dict[str, Floats]:
    """Published win probabilities of baseball games, and fans of both teams."""
    games = load_538("mlb")
    y = games["y"].to_numpy().astype(np.float64)
    stake = np.random.default_rng(seed).uniform(-1, 1, len(y))
    return {"mu": games["mu"].to_numpy(), "c_hat": np.zeros(len(y)), "y": y, "stake": stake}


LOGS: dict[str, Callable[[int, int], dict[str, Floats]]] = {
    "flights": _flights,
    "insider": _insider,
    "clairvoyant": _clairvoyant,
    "mnist": _mnist,
    "games": _games,
}


# --- runs -------------------------------------------------------------------------------------------------


def contenders(rounds: int, c_range: tuple[float, float], seed: int) -> dict[str, Correction]:
    """Reserves at several rates, alone and over deterministic swap; and the others."""
    made: dict[str, Correction] = {f"reserve {rate}": Reserve(rate) for rate in RATES}
    for rate in RATES:
        over = DeterministicSwap.for_horizon(rounds, c_range)
        made[f"reserve {rate} over deterministic swap"] = Reserve(rate, over=over)
    made["swap"] = SwapRegret.for_horizon(rounds, c_range, seed)
    made["deterministic swap"] = DeterministicSwap.for_horizon(rounds, c_range)
    return made | {"standard 0.1": StandardRegret(0.1)}


def run(settings: FrontierSettings, log: str, seed: int) -> dict[str, Any]:
    """One log under every contender: what it cost agents and the forecaster, in units of the cap."""
    columns = LOGS[log](settings.rounds, seed)
    frame = make_frame(columns, "polars")
    c_range = (float(columns["c_hat"].min()), float(columns["c_hat"].max()))
    found = {}
    for name, correction in contenders(len(columns["y"]), c_range, seed).items():
        options: dict[str, Any] = {"c_hat": "c_hat", "mode": "sound", "max_stake": 1.0, "trace": True}
        result = backtest(frame, correction=correction, **options)
        trace = result.trace or {}
        gross = np.abs(columns["stake"])
        found[name] = {
            "capital": 0.5 / correction.rate if isinstance(correction, Reserve) else None,
            "premium": float((gross * trace["c"]).sum() / gross.sum()),
            "mean_c": result.mean_c,
            "mean_size_of_lam": float(np.abs(trace["lam"]).mean()),
            "total_loss": result.total_loss,
            "worst": float(max(0.0, np.cumsum(trace["payment"]).max())),
        }
    return {"log": log, "seed": seed, "contenders": found, "variance": _variances(seed)}


def _variances(seed: int) -> dict[str, tuple[float, float]]:
    """Var λ of a reserve in exact mode on independent targets, measured and by the formula."""
    draw = np.random.default_rng(seed)
    y, w = (draw.random(_IID_ROUNDS) < 0.5).astype(np.float64), draw.uniform(0, 1, _IID_ROUNDS)
    frame = make_frame({"mu": np.full(_IID_ROUNDS, 0.5), "y": y, "stake": w}, "polars")
    found = {}
    for rate in (0.3, 0.1, 0.03):
        trace = backtest(frame, correction=Reserve(rate), max_stake=1.0, trace=True).trace or {}
        measured = float(trace["lam"][_IID_ROUNDS // 10 :].var())
        first, second = 0.5, 1 / 3  # E[w] and E[w²] of a uniform weight; targets ±½ have variance ¼
        found[f"{rate}"] = (measured, rate * second * 0.25 / (2 * first - rate * second))
    return found


def claims(results: list[dict[str, Any]]) -> list[Claim]:
    """That certificates hold, that the formula does, and where going without would be the cheaper choice."""
    shares = [v["worst"] / v["capital"] for r in results for v in r["contenders"].values() if v["capital"]]
    kept: Verdict = "holds" if max(shares) <= 1 else "fails"
    text = "no reserve was ever down by more than its certificate"
    found = [Claim(text, "our Theorem B", kept, f"at most {max(shares):.3f} of it", "frontier")]
    rates = results[0]["variance"]
    ratios = {k: interval([r["variance"][k][0] / r["variance"][k][1] for r in results]) for k in rates}
    near: Verdict = "holds" if all(abs(ratio.mean - 1) < 0.05 for ratio in ratios.values()) else "fails"
    numbers = "measured over predicted, " + ", ".join(f"rate {k}: {ratio}" for k, ratio in ratios.items())
    found.append(Claim("the noise in λ is what the formula says", "our Theorem A", near, numbers, "frontier"))
    logs = dict.fromkeys(r["log"] for r in results)
    return [*found, *(_worth_it([r for r in results if r["log"] == log], log) for log in logs)]


def _worth_it(results: list[dict[str, Any]], log: str) -> Claim:
    """Whether agents pay no more with a certificate of 50 caps than under the cheapest without one."""

    def premiums(name: str) -> list[float]:
        return [r["contenders"][name]["premium"] for r in results]

    def down(name: str) -> float:
        return float(np.mean([r["contenders"][name]["worst"] for r in results]))

    other = min(OTHERS, key=lambda name: float(np.mean(premiums(name))))
    certified = "reserve 0.01 over deterministic swap"
    verdict, _ = positive([a - b for a, b in zip(premiums(other), premiums(certified), strict=True)])
    numbers = "; ".join(
        f"{name}: premium {interval(premiums(name))}, down by {down(name):.1f} caps at worst"
        for name in (certified, "reserve 0.01", other)
    )
    text = f"on {log} a certificate of 50 caps costs agents less than the cheapest correction without one"
    return Claim(text, "ours", verdict, numbers, "frontier")
