"""The conformance checks pass what fits and name what does not."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import makewhole as mw
from makewhole.agents import Decision
from makewhole.corrections import REGISTRY, Proposal

CORRECTIONS: list[Callable[[], Any]] = [
    *REGISTRY,
    *(
        functools.partial(kind.fitted, 1000, (0.0, 0.2), 3, **settings)
        for kind in REGISTRY
        for settings in kind.variants.values()
    ),
    mw.OverlappingReserve,
    mw.Balance,
]


@pytest.mark.parametrize("make", CORRECTIONS)
def test_all_our_corrections_fit(make: Callable[[], Any]) -> None:
    mw.checks.check_correction(make)


class Forgets(mw.NaiveBestResponse):
    def state(self) -> dict[str, Any]:
        return {"sum": 0.0, "weight": 0.0}


class LearnsFromNothing(mw.NaiveBestResponse):
    def observe(self, proposal: Proposal, target: float, weight: float) -> None:
        super().observe(proposal, target, max(weight, 0.1))


class TakesAnything(mw.NaiveBestResponse):
    def observe(self, proposal: Proposal, target: float, weight: float) -> None:
        if np.isfinite(target) and 0 <= weight <= 1:
            super().observe(proposal, target, weight)


class Aliases(mw.NaiveBestResponse):
    def state(self) -> dict[str, Any]:
        return super().state() | {"shared": self._values}


class SaysNan(mw.NoCorrection):
    def propose(self) -> Proposal:
        return Proposal(float("nan"))


class SaysNumber(mw.NoCorrection):
    def propose(self) -> Any:
        return 0.5


class Throws(mw.NoCorrection):
    def propose(self) -> Proposal:
        return Proposal(float(np.random.default_rng().normal()))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (Forgets, "must propose the same λ as the original"),
        (LearnsFromNothing, "an outcome of weight 0 must not change the state"),
        (TakesAnything, "observe must raise a ValueError"),
        (Aliases, r"state\(\) must return a copy"),
        (SaysNan, "must be a finite float; got nan"),
        (Throws, "must propose the same λ"),
        (lambda: SaysNumber(), "propose must return a Proposal; got 0.5"),
        (mw.NaiveBestResponse(), "make must be a function that returns a new object"),
        (object, "a correction must have propose, observe, state and from_state"),
    ],
)
def test_corrections_that_do_not_fit_are_told_why(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        mw.checks.check_correction(make)


class Fickle:
    def __init__(self) -> None:
        self.n = 0

    def predict(self, x: Any) -> tuple[float, float]:
        self.n += 1
        return 1 / (1 + self.n), 0.0

    def learn(self, x: Any, outcome: Any, **_: Any) -> None:
        pass


class SaysInfinity(Fickle):
    def predict(self, x: Any) -> tuple[float, float]:
        return 0.5, float("inf")


class Underpays:
    def __init__(self) -> None:
        self.f = mw.InsuredForecaster(lambda x: 0.5, max_stake=1)

    def forecast(self, x: Any) -> mw.Forecast:
        return self.f.forecast(x)

    def settle(self, q: mw.Forecast, outcome: int, stake: Any) -> list[float]:
        return [p / 2 for p in self.f.settle(q, outcome, stake=stake)]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (Fickle, "called again, it must return the same"),
        (lambda: lambda x: 1.5, r"μ̂ must lie in \[0, 1\]"),
        (SaysInfinity, "ĉ must be finite"),
        (Underpays, "settle must pay"),
    ],
)
def test_forecasters_that_do_not_fit_are_told_why(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        mw.checks.check_forecaster(make)


def test_class_probabilities_must_sum_to_one() -> None:
    with pytest.raises(AssertionError, match="must sum to 1"):
        mw.checks.check_forecaster(lambda: lambda x: [0.5, 0.6], classes=2)


class PaysTheWrongSide(Underpays):
    def settle(self, q: mw.Forecast, outcome: int, stake: Any) -> list[float]:
        return [stake * (outcome - q.mu) - stake * q.c - 0.01 * (stake < 0)]


def test_both_signs_of_stakes_are_tried() -> None:
    with pytest.raises(AssertionError, match="settle must pay"):
        mw.checks.check_forecaster(PaysTheWrongSide)
    with pytest.raises(AssertionError, match="at least six rows"):
        mw.checks.check_forecaster(lambda: lambda x: 0.5, xs=[])


class Acts:
    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def act(self, forecast: mw.Forecast) -> Any:
        return self.answer


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (1.0, "act must return a Decision"),
        (Decision(None, 2.0), "a stake must be at most max_stake, 1.0"),
        (Decision(None, float("nan")), "must be finite"),
        (Decision(None, [1.0, 2.0]), r"must have shape \(\)"),
        (Decision(None, 0.0, (1.0, 2.0, 3.0)), "losses must have one number per outcome; got 3"),
    ],
)
def test_agents_that_do_not_fit_are_told_why(answer: Any, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        mw.checks.check_agent(lambda: Acts(answer))
