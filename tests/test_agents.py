"""Agents do what they say, for binary events and for classes."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import makewhole as mw
from makewhole import agents

TABLE = {"use": (0.2, -0.5), "skip": (0.0, 0.0)}
CLASS_TABLE = {"a": (0.1, 0.2, 0.3), "b": (0.3, 0.0, 0.2)}

BINARY: list[Callable[[], Any]] = [
    lambda: agents.Trustful(TABLE),
    lambda: agents.Naive(TABLE),
    lambda: agents.Cautious(TABLE),
    lambda: agents.Insured(TABLE),
    lambda: agents.Clairvoyant(lambda: 1),
    lambda: agents.Insider(lambda: 0.3),
    lambda: agents.PhaseDoubling(lambda: 0),
    lambda: agents.Pusher(lambda: 1),
    lambda: agents.DrawReader(mw.SwapRegret(5, seed=0), 100, lambda: 1),
    lambda: agents.DrawReader(mw.DeterministicSwap(5), 100, lambda: 1),
    lambda: agents.DrawReader(mw.NoCorrection(), 100, lambda: 1),
    lambda: agents.Random(seed=0),
]
CLASSES: list[Callable[[], Any]] = [
    lambda: agents.Trustful(CLASS_TABLE),
    lambda: agents.Naive(CLASS_TABLE),
    lambda: agents.Cautious(CLASS_TABLE),
    lambda: agents.Insured(CLASS_TABLE),
    lambda: agents.Clairvoyant(lambda: 2),
    lambda: agents.Insider(lambda: np.array([0.2, 0.3, 0.5])),
    lambda: agents.Random(seed=0),
]


@pytest.mark.parametrize("make", BINARY)
def test_every_agent_passes_its_checks(make: Callable[[], Any]) -> None:
    mw.checks.check_agent(make)


@pytest.mark.parametrize("make", CLASSES)
def test_every_agent_that_takes_classes_passes_its_checks(make: Callable[[], Any]) -> None:
    mw.checks.check_agent(make, classes=3)


@given(st.floats(0, 1), st.floats(0, 0.5), st.integers(0, 1))
def test_a_clairvoyant_never_loses_and_no_other_stake_wins_more(mu: float, c: float, outcome: int) -> None:
    stake = agents.Clairvoyant(lambda: outcome).act(mw.Forecast(mu, c)).stake
    won = mw.payment(stake, outcome, mu, c)
    assert won >= 0
    assert all(won >= mw.payment(b, outcome, mu, c) - 1e-12 for b in np.linspace(-1, 1, 21))


@given(st.floats(0, 1), st.floats(0, 0.5), st.floats(0, 1))
def test_an_insider_stakes_what_is_best_in_expectation(mu: float, c: float, truth: float) -> None:
    stake = agents.Insider(lambda: truth).act(mw.Forecast(mu, c)).stake

    def expected(b: float) -> float:
        won: float = truth * mw.payment(b, 1, mu, c) + (1 - truth) * mw.payment(b, 0, mu, c)
        return won

    assert all(expected(stake) >= expected(b) - 1e-12 for b in np.linspace(-1, 1, 21))


def test_adversaries_respect_a_one_sided_forecast() -> None:
    forecast = mw.Forecast(0.5, 0.0, one_sided=True)
    assert agents.Clairvoyant(lambda: 0).act(forecast).stake == 0
    assert agents.Insider(lambda: 0.1).act(forecast).stake == 0
    assert all(agents.Random(seed=s).act(forecast).stake >= 0 for s in range(50))


def test_a_fresh_table_every_round_is_asked_for_every_round() -> None:
    tables = iter([{"go": (0.0, 1.0)}, {"go": (0.0, 3.0)}])
    agent = agents.Insured(lambda: next(tables))
    assert [agent.act(mw.Forecast(0.5)).stake for _ in range(2)] == [1.0, 3.0]
