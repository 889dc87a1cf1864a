"""Replaying a log, against one NumPy pass that computes the payments of the same rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl

import makewhole as mw
from timing import Row, side_by_side

ROWS = 5_000_000


def rows() -> list[Row]:
    """One row per compiled correction, on one core; the last states rows a second against 20 million."""
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

    def replay(correction: mw.Correction) -> Callable[[], mw.BacktestResult]:
        return lambda: mw.backtest(log, correction=correction, max_stake=cap)

    for correction in corrections.values():
        mw.backtest(log[:10], correction=correction, max_stake=cap)  # compile first
    peer, *ours = side_by_side(numpy_pass, *(replay(c) for c in corrections.values()))
    nano = 1e9 / ROWS
    found = [
        Row(f"backtest, {name}", seconds * nano, "one NumPy pass", peer * nano, "ns/row", 4.0)
        for name, seconds in zip(corrections, ours, strict=True)
    ]
    slowest = max(row.ours for row in found)
    return [
        *found,
        Row("backtest, slowest of these", slowest, "20 million rows a second", 50.0, "ns/row", 1.0),
    ]
