"""Batches of forecasts, statements of large books, and an insured river model against the model itself."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from river import datasets, linear_model, preprocessing

import makewhole as mw
from bench_corrections import STEPS, river_step
from timing import Row, side_by_side

BATCH = 100_000
STAKES = 5_000


def stream_step(insure: bool) -> Callable[[], None]:
    """Return a pass over a real stream: scale, predict, learn; if insured, with a bet on every row."""
    stream = list(datasets.Phishing())

    def run() -> None:
        model = preprocessing.StandardScaler() | linear_model.LogisticRegression()
        if not insure:
            for x, y in stream:
                model.predict_proba_one(x)
                model.learn_one(x, y)
            return
        f = mw.InsuredForecaster(model, max_stake=1.0)
        for x, y in stream:
            f.settle(f.forecast(x), int(y), stake=0.5)

    return run


def batch() -> Callable[[], None]:
    """Return a batch of a hundred thousand forecasts, and their outcomes."""
    mus = np.random.default_rng(0).uniform(size=BATCH)
    outcomes = dict.fromkeys(range(BATCH), 1)

    def run() -> None:
        f = mw.InsuredForecaster(max_stake=1.0)
        f.forecast_many(mu=mus)
        f.settle_many(outcomes)

    return run


def statements() -> Callable[[], None]:
    """Return a hundred statements of a book with 10⁴ open forecasts and 10⁴ groups."""
    f = mw.InsuredForecaster(None, mw.Grouped(mw.Reserve(0.01)), mode="sound", max_stake=1.0)
    f.forecast_many(mu=np.full(10_000, 0.5), groups=[f"group {k}" for k in range(10_000)])

    def run() -> None:
        for _ in range(100):
            f.statement()

    return run


def stakes(names: int, *, own: bool) -> Callable[[], float]:
    """Time stakes on open forecasts of a book with a capital, in which `names` customers have staked before.

    If `own`, each customer is named and pays her own price, else all pay the common one. The forecasts are
    voided afterwards.
    """
    f = mw.InsuredForecaster(max_stake=1.0, capital=1e9)
    for start in range(0, names, 10_000):
        q = f.forecast(mu=0.5)
        for k in range(start, min(start + 10_000, names)):
            f.stake(q, 1e-9, by=k)
        f.settle(q, 1)
    chosen = np.random.default_rng(0).integers(names, size=STAKES).tolist()

    def run() -> float:
        waiting = list(f.forecast_many(mu=[0.5] * STAKES))
        began = time.perf_counter()
        if own:
            for q, name in zip(waiting, chosen, strict=True):
                f.stake(q, 0.5, by=name)
        else:
            for q in waiting:
                f.stake(q, 0.5)
        took = time.perf_counter() - began
        for q in waiting:
            f.void(q)
        return took

    return run


def stake_rows() -> list[Row]:
    """Compare a stake at a customer's own price with one at the common price; and many customers with few."""
    runs = [stakes(1000, own=False), stakes(1000, own=True), stakes(1_000_000, own=True)]
    best = [float("inf")] * len(runs)
    for _ in range(7):  # in turns, so that noise affects all alike
        best = [min(before, run()) for before, run in zip(best, runs, strict=True)]
    common, own, crowd = (seconds * 1e6 / STAKES for seconds in best)
    return [
        Row("a first stake at a price of her own", own, "one at the common price", common, "µs/stake", 1.5),
        Row("the same with 10⁶ customers in the book", crowd, "with 10³", own, "µs/stake", 1.5),
    ]


def rounds(classes: int | None) -> Callable[[], None]:
    """Return forecast + stake + settle, one at a time: for a binary event, or for classes in exact mode."""
    draw, shape = np.random.default_rng(0), () if classes is None else (classes,)
    mus = draw.uniform(size=STAKES) if classes is None else draw.dirichlet([2.0] * classes, STAKES)
    stakes = draw.uniform(-0.5, 0.5, (STAKES, *shape)).tolist()
    given = list(zip(mus.tolist(), stakes, draw.integers(0, classes or 2, STAKES).tolist(), strict=True))

    def run() -> None:
        f = mw.InsuredForecaster(max_stake=1.0, classes=classes)
        for mu, stake, outcome in given:
            q = f.forecast(mu=mu)
            f.stake(q, stake)
            f.settle(q, outcome)

    return run


def class_rows() -> list[Row]:
    """Compare rounds with classes, per class, with binary rounds."""
    binary, three, ten = (s * 1e6 / STAKES for s in side_by_side(rounds(None), rounds(3), rounds(10)))
    what = "forecast + stake + settle, {} classes: a class"
    return [
        Row(what.format(3), three / 3, "the same, a binary event", binary, "µs/round", 1.2),
        Row(what.format(10), ten / 10, "the same, a binary event", binary, "µs/round", 0.5),
    ]


def rows() -> list[Row]:
    """Compare each with a river step, and the insured model with the model itself."""
    micro, peer = 1e6 / STEPS, "river LogisticRegression"
    step, at_once, asked = side_by_side(river_step(), batch(), statements())
    many, told = "forecast_many + settle_many, 10⁵ at once", "statement(), 10⁴ open forecasts, 10⁴ groups"
    own, insured = side_by_side(stream_step(insure=False), stream_step(insure=True))
    per_row = 1e6 / len(list(datasets.Phishing()))
    name = "insured river pipeline: forecast + settle a bet"
    return [
        Row(many, at_once * 1e6 / BATCH, peer, step * micro, "µs/step", 0.47),  # 2 µs
        Row(told, asked * 1e4, peer, step * micro, "µs/call", 11.6),  # 50 µs
        Row(name, insured * per_row, "the pipeline's own step", own * per_row, "µs/step", 2.5),
        *stake_rows(),
        *class_rows(),
    ]
