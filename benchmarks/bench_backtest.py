"""Replaying a log, against one NumPy pass that computes the payments of the same rows."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl

import makewhole as mw
from makewhole.backtesting.result import BacktestResult
from timing import Row, side_by_side

ROWS = 5_000_000
OPEN = 300  # forecasts open at the same time, if outcomes come late
FLIGHTS = 63_000
FEW = 20_000  # rows for the plain loop
GROUPS = 1_000
NAMES, CROWD = 1_000, 1_000_000  # customers with lines


def rows() -> list[Row]:
    """Return a row per compiled correction, on one core; the last compares with 20 million rows a second."""
    draw = np.random.default_rng(0)
    mu, stake = draw.uniform(size=ROWS), draw.normal(size=ROWS)
    outcome = (draw.random(ROWS) < mu).astype(np.float64)
    c = np.full(ROWS, 0.1)
    cap = float(np.abs(stake).max())
    log = pl.DataFrame({"mu": mu, "y": outcome, "stake": stake})
    corrections: dict[str, mw.Correction] = {
        "NoCorrection": mw.NoCorrection(),
        "NaiveBestResponse": mw.NaiveBestResponse(),
        "StandardRegret": mw.StandardRegret(),
        "Reserve": mw.Reserve(),
        "SwapRegret(10)": mw.SwapRegret(10, seed=0),
        "DeterministicSwap(101)": mw.DeterministicSwap(101),
        "DeterministicSwap, √T cells": mw.DeterministicSwap.for_horizon(ROWS),
    }

    def numpy_pass() -> None:
        _ = stake * (outcome - mu) - np.abs(stake) * c

    def replay(correction: mw.Correction) -> Callable[[], BacktestResult]:
        return lambda: mw.backtest(log, correction=correction, max_stake=cap)

    for correction in corrections.values():
        mw.backtest(log[:10], correction=correction, max_stake=cap)  # compile first
    peer, *ours = side_by_side(numpy_pass, *(replay(c) for c in corrections.values()))
    nano = 1e9 / ROWS
    compiled = [
        Row(f"backtest, {name}", seconds * nano, "one NumPy pass", peer * nano, "ns/row", 4.0)
        for name, seconds in zip(corrections, ours, strict=True)
    ]
    slowest = max(row.ours for row in compiled)
    return [
        *compiled,
        Row("backtest, slowest of these", slowest, "20 million rows a second", 50.0, "ns/row", 1.0),
        *group_rows(log, cap),
        *limited_rows(log, cap),
        *late_rows(log, cap),
        *capital_rows(),
    ]


def group_rows(log: pl.DataFrame, cap: float) -> list[Row]:
    """Compare many groups, each with its own correction, with the same rows as one group."""
    log = log.with_columns(group=np.random.default_rng(2).integers(0, GROUPS, ROWS))
    texts = log.with_columns(pl.col("group").cast(pl.String))
    correction, own = mw.StandardRegret(), mw.Balance()
    for frame in (log, texts):
        mw.backtest(frame[:10], group="group", correction=correction)  # compile first
    mw.backtest(log[:10], group="group", correction=own)
    whole, grouped, named, balanced = side_by_side(
        lambda: mw.backtest(log, correction=correction, max_stake=cap),
        lambda: mw.backtest(log, group="group", correction=correction, max_stake=cap),
        lambda: mw.backtest(texts, group="group", correction=correction, max_stake=cap),
        lambda: mw.backtest(log, group="group", correction=own, max_stake=cap),
    )
    nano, peer, name = 1e9 / ROWS, "the same without groups", f"backtest, {GROUPS:,} groups"
    return [
        Row(name, grouped * nano, peer, whole * nano, "ns/row", 5.0),
        Row(f"{name}, named by text", named * nano, peer, whole * nano, "ns/row"),
        Row(f"{name}, Balance", balanced * nano, "one StandardRegret", whole * nano, "ns/row"),
    ]


def limited_rows(log: pl.DataFrame, cap: float) -> list[Row]:
    """Compare a capital, customers with lines, and a thaw with a plain loop and 5 million rows a second."""
    draw = np.random.default_rng(3)
    idle = log.with_columns(who=draw.integers(0, NAMES, ROWS), stake=log["stake"] * (draw.random(ROWS) < 0.7))
    crowd = idle.with_columns(who=draw.integers(0, CROWD, ROWS))
    few, limits = idle[:FEW], dict[str, Any](capital=1000 * cap, max_stake=cap)

    def one_by_one() -> None:
        f = mw.InsuredForecaster(**limits)
        for mu, y, b, who in few.select("mu", "y", "stake", "who").iter_rows():
            f.settle(f.forecast(mu=mu), int(y), stake=b, by=who)

    new = mw.InsuredForecaster(**limits)
    mw.backtest(few, new, by="who")  # compile first
    mw.backtest(few, max_stake=cap)
    named, many, alone, thawed, peer = side_by_side(
        lambda: mw.backtest(idle, new, by="who"),
        lambda: mw.backtest(crowd, new, by="who"),
        lambda: mw.backtest(idle, new),
        lambda: mw.backtest(idle, max_stake=cap),
        one_by_one,
        repeats=3,
    )
    nano, slow, fast = 1e9 / ROWS, peer * 1e9 / FEW, "5 million rows a second"
    name = f"backtest, {NAMES:,} names with lines"
    return [
        Row(name, named * nano, "loop over InsuredForecaster", slow, "ns/row", 0.01),
        Row(name, named * nano, fast, 200.0, "ns/row", 1.0),
        Row(f"backtest, {CROWD:,} names with lines", many * nano, fast, 200.0, "ns/row"),
        Row("backtest, capital and thaw, no names", alone * nano, fast, 200.0, "ns/row", 1.0),
        Row("backtest, default correction and thaw", thawed * nano, fast, 200.0, "ns/row", 1.0),
    ]


def late_rows(log: pl.DataFrame, cap: float) -> list[Row]:
    """Compare late outcomes and customers with a plain loop over a forecaster, and with no delays."""
    draw, time = np.random.default_rng(1), np.arange(ROWS)
    log = log.with_columns(time=time, known=time + draw.integers(1, 2 * OPEN, ROWS))
    few = log[:FEW]
    correction, customers = mw.StandardRegret(), mw.agents.Customers(clairvoyant=0.05)
    times: Any = {"time": "time", "known": "known", "correction": correction, "max_stake": cap}

    def one_by_one() -> None:
        f, due = mw.InsuredForecaster(None, correction, max_stake=cap), list[tuple[int, int, int, int]]()
        for moment, known, mu, y, b in few.select("time", "known", "mu", "y", "stake").iter_rows():
            while due and due[0][0] <= moment:
                _, _, number, happened = heapq.heappop(due)
                f.settle(number, happened)
            quote = f.forecast(mu=mu)
            f.stake(quote, b)
            heapq.heappush(due, (known, moment, int(str(quote.id)), int(y)))

    mw.backtest(few, **times)  # compile first
    mw.backtest(few.drop("stake"), customers=customers, correction=correction)
    prompt, late, betting, peer = side_by_side(
        lambda: mw.backtest(log, correction=correction, max_stake=cap),
        lambda: mw.backtest(log, **times),
        lambda: mw.backtest(log, customers=customers, correction=correction, max_stake=cap),
        one_by_one,
        repeats=3,
    )
    nano, slow = 1e9 / ROWS, peer * 1e9 / FEW
    name = f"backtest, {OPEN} open at once"
    return [
        Row(name, late * nano, "loop over InsuredForecaster", slow, "ns/row", 0.1),
        Row(name, late * nano, "5 million rows a second", 200.0, "ns/row", 1.0),
        Row(name, late * nano, "the same without delays", prompt * nano, "ns/row"),
        Row("backtest, customers", betting * nano, "the same with stakes", prompt * nano, "ns/row"),
    ]


def capital_rows() -> list[Row]:
    """Compare the search for a capital, on a year of flights with a clock, with three seconds."""
    draw = np.random.default_rng(5)
    mu, made = draw.beta(2, 6, FLIGHTS), np.sort(draw.integers(0, 365 * 24, FLIGHTS))
    late = {
        "mu": mu,
        "y": draw.random(FLIGHTS) < mu,
        "made": made,
        "known": made + draw.integers(2, 12, FLIGHTS),
    }
    flights = pl.DataFrame(late)
    times: Any = {"time": "made", "known": "known", "customers": mw.agents.Customers(clairvoyant=0.02)}
    mw.find_capital(flights[:FEW], **times)  # compile first
    (seconds,) = side_by_side(lambda: mw.find_capital(flights, **times), repeats=3)
    return [Row(f"find_capital, {FLIGHTS:,} rows with a clock", seconds, "three seconds", 3.0, "s", 1.0)]
