"""A reserve over another correction, and what has no certificate."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import makewhole as mw
from makewhole.corrections import Proposal
from samples import replay, rounds_of, step


@settings(max_examples=60)
@given(st.lists(step, max_size=60), st.sampled_from([0.1, 0.5]), st.floats(-0.2, 0.3), st.floats(0, 0.5))
def test_over_another_correction_the_certificate_is_the_same(
    moves: list[Any], rate: float, low: float, width: float
) -> None:
    c_range = (low, low + width)
    composed = mw.Reserve(rate, over=mw.DeterministicSwap(7, low=-2.0, high=2.0))
    f = mw.InsuredForecaster(None, composed, mode="sound", max_stake=1, c_range=c_range)
    assert f.statement().certificate.bound == pytest.approx(0.5 / rate)
    rounds_of(f, moves, c_range, (-math.inf, 0.5 / rate))


@pytest.mark.parametrize(
    "make",
    [
        lambda: mw.SwapRegret(7, seed=1),
        lambda: mw.DeterministicSwap(9),
        mw.NaiveBestResponse,
        mw.StandardRegret,
    ],
)
def test_composed_backtests_are_the_forecasters_and_the_inner_learns_its_own_targets(make: Any) -> None:
    draw = np.random.default_rng(0)
    log = pd.DataFrame(
        {"mu": draw.uniform(size=1500), "y": draw.integers(0, 2, 1500), "stake": draw.uniform(-1, 1, 1500)}
    )
    result = replay(log, correction=mw.Reserve(0.05, over=make()), mode="sound", max_stake=1.0, trace=True)
    f = mw.InsuredForecaster(
        None, mw.Reserve(0.05, over=make()), mode="sound", max_stake=1.0, c_range=(0.0, 0.0)
    )
    alone = make()
    paid: list[float] = []
    for mu, y, b in log[["mu", "y", "stake"]].itertuples(index=False):
        q, p = f.forecast(mu=mu), alone.propose()
        paid += f.settle(q, int(y), stake=b)
        alone.observe(p, float(np.sign(b)) * (int(y) - q.mu), abs(b))  # z − ĉ, with ĉ = 0
    assert result.trace is not None
    assert result.trace["payment"].tolist() == paid
    assert result.correction == f.corrections[0]
    inner: Any = f.corrections[0].over
    assert inner.propose().lam == pytest.approx(alone.propose().lam, abs=1e-9)


def test_a_reserve_with_its_own_ways_is_not_replayed_as_if_it_were_over_nothing() -> None:
    class Own(mw.Reserve):
        def propose(self) -> Proposal:
            return super().propose()

    log = pd.DataFrame({"mu": [0.5], "y": [1], "stake": [1.0]})
    with pytest.raises(TypeError, match="must not override propose or observe in a backtest"):
        replay(log, correction=Own(0.1, over=mw.NaiveBestResponse()), mode="sound", max_stake=1.0)
    alone = replay(log, correction=Own(0.1), mode="sound", max_stake=1.0)
    assert alone.total_loss == replay(log, mw.Reserve(0.1), mode="sound", max_stake=1.0).total_loss


def test_a_composed_reserve_survives_a_restart_and_needs_sound_mode(tmp_path: Path) -> None:
    composed = mw.Reserve(0.1, over=mw.SwapRegret(5, seed=3))
    f = mw.InsuredForecaster(None, composed, mode="sound", max_stake=1)
    for t in range(50):
        f.settle(f.forecast(mu=0.4), t % 2, stake=1.0)
    f.stake(f.forecast(mu=0.4), 0.5)
    f.save(tmp_path / "book.json")
    again = mw.InsuredForecaster.load(tmp_path / "book.json")
    assert again.corrections == f.corrections
    assert again.settle(50, 1) == f.settle(50, 1)
    assert again.corrections == f.corrections
    assert composed == mw.Reserve(0.1, over=mw.SwapRegret(5, seed=3))  # it was copied
    assert repr(composed) == "Reserve(rate=0.1, over=SwapRegret(cells=5, low=-1.0, high=1.0))"
    with pytest.raises(ValueError, match="needs mode='sound'"):
        mw.InsuredForecaster(None, composed, max_stake=1)
    with pytest.raises(TypeError, match="over must be another of makewhole's corrections"):
        mw.Reserve(0.1, over=mw.Reserve(0.1))


# --- what has no certificate says why ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("correction", "reason"),
    [
        (mw.NoCorrection(), "no correction is used"),
        (mw.SwapRegret(5), "agents who cannot see its draw"),
        (mw.DeterministicSwap(5), "bounds the mean loss, not the total"),
        (mw.StandardRegret(), "grows like √T"),
        (mw.NaiveBestResponse(), "no bound is known for this correction"),
    ],
)
def test_without_a_bound_the_statement_says_why(correction: mw.Correction, reason: str) -> None:
    statement = mw.InsuredForecaster(None, correction, mode="sound", max_stake=1).statement()
    assert statement.certificate.bound is None
    assert statement.capital_used is None
    assert f"no bound: {statement.certificate.theorem}" in str(statement)
    assert reason in str(statement)


def test_a_stake_placed_with_its_settlement_counts_as_open_beside_the_others() -> None:
    f = mw.InsuredForecaster(None, mw.Reserve(0.1), mode="sound", max_stake=1)
    one, two = f.forecast(mu=0.5), f.forecast(mu=0.5)
    f.stake(one, 1.0)
    f.settle(two, 1, stake=1.0)
    assert f.statement().certificate.exposure == pytest.approx(1.0)
    assert f.statement().certificate.bound == pytest.approx(5.0 + 1.0)


def test_too_many_open_forecasts_void_the_bound_in_exact_mode() -> None:
    f = mw.InsuredForecaster(None, mw.Reserve(0.1), max_stake=1, c_range=(0.0, 0.0))
    for _ in range(5):
        f.forecast(mu=0.5)
    assert f.statement().certificate.bound == pytest.approx(10 + 5 * 2 / (1 - 0.1 * 5))
    for _ in range(6):
        f.forecast(mu=0.5)
    certificate = f.statement().certificate
    assert certificate.bound is None
    assert "too many forecasts were open at once: rate × 11 >= 1" in certificate.theorem
    capped = mw.InsuredForecaster(None, mw.Reserve(0.1), max_stake=1, c_range=(0.0, 0.0), max_exposure=2.0)
    for _ in range(20):
        capped.forecast(mu=0.5)
    assert capped.statement().certificate.bound == pytest.approx(12.0)


@pytest.mark.slow
def test_every_window_of_time_loses_no_more_than_theorem_b_says() -> None:
    """Agents who first lose for long, and then know everything: past gains are not all lost again."""
    rate, c_range = 0.01, (0.0, 0.2)
    f = mw.InsuredForecaster(None, mw.Reserve(rate), mode="sound", max_stake=1, c_range=c_range)
    totals = [0.0]
    for t in range(12_000):
        knows = t % 6000 >= 3000
        q = f.forecast(mu=0.5, c_hat=0.2 if t % 2 else 0.0)
        f.settle(q, t % 2, stake=(1.0 if t % 2 else -1.0) * (1 if knows else -1))
        totals.append(f.statement().total_loss)
    lowest_before = np.minimum.accumulate(totals)
    worst_window = float((np.array(totals) - lowest_before).max())
    assert worst_window <= (0.5 + c_range[1] - c_range[0]) / rate + 1e-9
    assert worst_window > 0.5 / rate  # more than from a fresh start: the windows' own bound is what holds


def test_classes_add_their_bounds() -> None:
    f = mw.InsuredForecaster(None, mw.Reserve(0.1), mode="sound", max_stake=1, classes=4)
    assert f.statement().certificate.bound == pytest.approx(4 * 5.0)
    draw = np.random.default_rng(0)
    for _ in range(2000):
        q = f.forecast(mu=draw.dirichlet(np.ones(4)))
        assert np.all(q.mu - q.c >= -1e-12)
        assert np.all(q.mu + q.c <= 1 + 1e-12)
        y = int(draw.integers(4))
        f.settle(q, y, stake=np.where(np.arange(4) == y, 1.0, -1.0))
        assert f.statement().total_loss <= 20 + 1e-9
