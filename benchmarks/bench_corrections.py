"""Propose + observe, and forecast + stake + settle, one at a time from Python, against a river step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from river import datasets, linear_model

import makewhole as mw
from timing import Row, side_by_side

STEPS = 20_000


def river_step() -> Callable[[], None]:
    """Predict + learn of a logistic regression on the nine features of a real stream."""
    model = linear_model.LogisticRegression()
    x, y = next(iter(datasets.Phishing()))

    def run() -> None:
        for _ in range(STEPS):
            model.predict_proba_one(x)
            model.learn_one(x, y)

    return run


def floor() -> Callable[[], None]:
    """Two Python method calls that do nothing: a lower bound for any pair of calls."""

    class Nothing:
        def propose(self) -> int:
            return 0

        def observe(self, proposal: int, target: float, weight: float) -> None:
            pass

    def run() -> None:
        nothing = Nothing()
        for target in targets:
            nothing.observe(nothing.propose(), target, 1.0)

    targets = [0.5] * STEPS
    return run


def correction_step(correction: Any) -> Callable[[], None]:
    targets = np.random.default_rng(0).choice([-0.5, 0.5], STEPS).tolist()

    def run() -> None:
        for target in targets:
            correction.observe(correction.propose(), target, 1.0)

    return run


def attacked_step(correction: Any) -> Callable[[], None]:
    """The same against an agent that pushes away from λ, so that the cells' best responses keep moving."""

    def run() -> None:
        for _ in range(STEPS):
            proposal = correction.propose()
            correction.observe(proposal, -0.5 if proposal.lam > 0 else 0.5, 1.0)

    return run


def insured_step(corrections: list[Any]) -> Callable[[], None]:
    """All steps, shared among these corrections: how often swap regret draws a cell depends on its seed."""
    outcomes = np.random.default_rng(0).integers(0, 2, STEPS // len(corrections)).tolist()

    def run() -> None:
        for correction in corrections:
            f = mw.InsuredForecaster(None, correction, max_stake=1.0)
            for outcome in outcomes:
                q = f.forecast(mu=0.5)
                f.stake(q, 1.0)
                f.settle(q, outcome)

    return run


def named_step() -> Callable[[], None]:
    """A book with a capital, and fifty named customers, each with her own line and price."""
    outcomes = np.random.default_rng(0).integers(0, 10, STEPS).tolist()
    names = [f"customer {k}" for k in range(50)]

    def run() -> None:
        f = mw.InsuredForecaster(max_stake=100.0, capital=1_000_000.0)
        for k, outcome in enumerate(outcomes):
            q = f.forecast(mu=0.3)
            f.stake(q, 10.0, by=names[k % 50])
            f.settle(q, int(outcome < 3))

    return run


def rows() -> list[Row]:
    """Compare every pair of calls with the same river step."""
    cases: list[tuple[str, Callable[[], None], float | None]] = [
        ("floor: two empty method calls", floor(), None)
    ]
    for cells, target in ((10, 0.6), (1000, 1.0)):
        for kind in (mw.SwapRegret, mw.DeterministicSwap):
            name = f"{kind.__name__}({cells}) propose + observe"
            cases.append((name, correction_step(kind(cells)), target))
            cases.append((f"{name}, attacked", attacked_step(kind(cells)), target))
    cases.append(("Reserve propose + observe", correction_step(mw.Reserve()), 0.6))
    for corrections in ([mw.SwapRegret(10, seed=k) for k in range(5)], [mw.DeterministicSwap(100)]):
        name = f"InsuredForecaster, {type(corrections[0]).__name__}: forecast + stake + settle"
        cases.append((name, insured_step(corrections), 2.75))
    cases.append(("the same with a capital and a named customer", named_step(), 3.4))
    peer, *ours = side_by_side(river_step(), *(run for _, run, _ in cases))
    micro = 1e6 / STEPS
    return [
        Row(name, seconds * micro, "river LogisticRegression", peer * micro, "µs/step", target)
        for (name, _, target), seconds in zip(cases, ours, strict=True)
    ]
