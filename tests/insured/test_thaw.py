"""Thaw: λ comes down while nobody stakes, and never more is conceded than its budget."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import makewhole as mw
from samples import state

MAKERS: dict[str, Any] = {
    "reserve": lambda: mw.Reserve(0.1),
    "barrier": lambda: mw.Barrier(5.0),
    "standard": lambda: mw.StandardRegret(0.5),
    "naive": mw.NaiveBestResponse,
    "swap": lambda: mw.SwapRegret(8, seed=1),
    "deterministic swap": lambda: mw.DeterministicSwap(8),
}


def attacked(f: mw.InsuredForecaster, rounds: int) -> None:
    """Somebody who knows every outcome."""
    for _ in range(rounds):
        q = f.forecast(mu=0.5)
        f.settle(q, 1, stake=1.0)


def idle(f: mw.InsuredForecaster, rounds: int) -> None:
    for _ in range(rounds):
        f.settle(f.forecast(mu=0.5), 1)


@pytest.mark.parametrize("name", MAKERS)
def test_every_correction_comes_down_again(name: str) -> None:
    thaw = mw.Thaw(budget=100.0)
    f = mw.InsuredForecaster(None, MAKERS[name](), mode="sound", max_stake=1, thaw=thaw, stop=False)
    attacked(f, 100)
    assert f.peek(mu=0.5).c > 0.4
    loss = f.statement().total_loss
    idle(f, 5000)
    assert f.peek(mu=0.5).c <= 0.1
    assert 0 < f.statement().conceded <= 100.0
    assert f.statement().total_loss == loss  # nothing was paid


@pytest.mark.parametrize("name", MAKERS)
def test_no_more_than_the_budget_is_conceded(name: str) -> None:
    thaw = mw.Thaw(budget=0.75)
    f = mw.InsuredForecaster(None, MAKERS[name](), mode="sound", max_stake=1, thaw=thaw, stop=False)
    attacked(f, 100)
    idle(f, 500)
    assert f.statement().conceded == pytest.approx(0.75)
    assert f.peek(mu=0.5).c > 0.05


@settings(max_examples=100)
@given(
    st.sampled_from(["reserve", "barrier"]),
    st.lists(st.tuples(st.floats(0, 1), st.sampled_from([0.0, 0.0, 0.0, -1.0, 1.0, 0.5])), max_size=150),
    st.sampled_from([0.5, 2.0]),
)
def test_the_certificate_with_its_budget_holds(name: str, moves: list[Any], budget: float) -> None:
    """She knows the outcome, waits as long as she likes, and comes back."""
    f = mw.InsuredForecaster(
        None, MAKERS[name](), capital=1000.0, max_stake=1, thaw=mw.Thaw(budget=budget), stop=False
    )
    assert f.statement().certificate.bound == 5.0 + budget
    for mu, b in moves:
        f.settle(f.forecast(mu=mu), int(b > 0), stake=b or None)
        assert f.statement().total_loss <= 5.0 + budget + 1e-12
        assert f.statement().conceded <= budget + 1e-12


def test_a_clairvoyant_who_waits_gets_the_budget_and_no_more() -> None:
    f = mw.InsuredForecaster(None, mw.Reserve(0.1), mode="sound", max_stake=1, thaw=mw.Thaw(budget=10.0))
    for _ in range(40):
        idle(f, 50)
        attacked(f, 50)
    assert 14.5 < f.statement().total_loss <= 15.0


def test_budgets_that_grow() -> None:
    thaw = mw.Thaw(budget=1.0, per_forecast=0.01, root=0.1)
    assert thaw.allowed(100) == pytest.approx(1.0 + 1.0 + 1.0)
    assert not thaw.constant
    f = mw.InsuredForecaster(None, mw.Reserve(0.1), mode="sound", max_stake=1, thaw=thaw)
    attacked(f, 100)
    for _ in range(300):
        idle(f, 1)
        rounds = f.statement().rounds
        assert f.statement().conceded <= thaw.allowed(rounds) + 1e-12
        assert f.statement().certificate.bound == pytest.approx(5.0 + thaw.allowed(rounds))
    assert "so far" in str(f.statement().certificate)


def test_the_mean_loss_of_the_default_still_vanishes_against_who_waits() -> None:
    f = mw.InsuredForecaster(max_stake=1)
    for _ in range(60):
        idle(f, 300)
        attacked(f, 30)
    rounds = f.statement().rounds
    assert f.statement().total_loss <= 27 * math.sqrt(rounds)  # 25 for gradient descent, 2 for the thaw
    assert f.statement().mean_loss < 0.05


def test_what_is_open_at_once_is_thawed_once_each_and_not_below_zero() -> None:
    f = mw.InsuredForecaster(None, mw.StandardRegret(1.0), max_stake=1, thaw=mw.Thaw(budget=1000.0))
    attacked(f, 50)
    many = [f.forecast(mu=0.5) for _ in range(500)]
    for q in many:
        f.settle(q, 1)
        assert f.peek(mu=0.5).c >= 0


@given(
    c_range=st.sampled_from([(-0.9, -0.9), (0.0, 0.0), (-0.9, 0.5)]),
    rate=st.sampled_from([0.03, 0.1, 1.0]),
    budget=st.floats(0.1, 30.0),
    script=st.lists(
        st.tuples(st.sampled_from([0.0, 1e-9, 0.3, 1.0]), st.booleans(), st.integers(1, 60)), max_size=12
    ),
)
def test_a_thaw_adds_its_budget_to_the_bound_of_shrinking_steps(
    c_range: tuple[float, float], rate: float, budget: float, script: list[tuple[float, bool, int]]
) -> None:
    """With rate p/√t and the range R of targets, T forecasts lose at most R·M·√T/p and what was conceded."""
    rule, thaw = mw.StandardRegret(rate), mw.Thaw(budget=budget, above=0.0)
    f = mw.InsuredForecaster(None, rule, max_stake=1.0, c_range=c_range, thaw=thaw)
    for size, knows, rounds in script:
        for t in range(rounds):
            c_hat = c_range[t % 2]
            f.settle(f.forecast(mu=0.5, c_hat=c_hat), t % 2, stake=size if (t % 2 == 1) == knows else -size)
        said = f.statement()
        reach = 2.0 + c_range[1] - c_range[0]
        assert said.total_loss <= reach * math.sqrt(said.rounds) / rate + said.conceded + 1e-9
        assert said.conceded <= budget * (1 + 1e-12)


def test_a_trifle_does_not_keep_the_thaw_away() -> None:
    f = mw.InsuredForecaster(max_stake=1, capital=150, stop=False)
    attacked(f, 400)
    for t in range(3000):
        f.settle(f.forecast(mu=0.5), t % 2, stake=0.01 if t % 2 else -0.01)  # she knows that, too
    assert f.peek(mu=0.5).c <= 0.05


def test_the_correction_below_a_reserve_thaws_too() -> None:
    over = mw.Reserve(0.01, over=mw.DeterministicSwap(50))
    f = mw.InsuredForecaster(None, over, mode="sound", max_stake=1, thaw=mw.Thaw(budget=50))
    attacked(f, 3)
    assert f.peek(mu=0.5).c > 0.4
    idle(f, 3000)
    assert f.peek(mu=0.5).c < 0.1
    assert f.statement().certificate.bound == 100


def test_at_its_spread_nothing_is_conceded() -> None:
    f = mw.InsuredForecaster(None, mw.Barrier(100, spread=0.05), max_stake=1, thaw=mw.Thaw(budget=50))
    idle(f, 100)
    assert f.statement().conceded == 0


def test_a_cap_on_exposure_leaves_what_a_thaw_has_conceded() -> None:
    f = mw.InsuredForecaster(max_stake=1, capital=100, max_exposure=1.0, stop=False)
    for _ in range(10):
        attacked(f, 100)
        idle(f, 100)
    assert f.statement().total_loss > 85  # not stuck at the barrier's own 80


def test_many_at_once_are_as_one_by_one() -> None:
    one, many = (mw.InsuredForecaster(max_stake=1) for _ in range(2))
    for f in (one, many):
        attacked(f, 100)
    ids = list(range(200, 400))
    for f in (one, many):
        f.forecast_many(mu=[0.5] * 200, ids=ids)
    for id_ in ids:
        one.settle(id_, 1)
    many.settle_many(dict.fromkeys(ids, 1))
    assert state(one) == state(many)
    assert one.statement().conceded > 0


def test_a_file_keeps_what_was_conceded(tmp_path: Any) -> None:
    f = mw.InsuredForecaster(max_stake=1, capital=10, stop=False)
    attacked(f, 100)
    idle(f, 20)
    f.save(tmp_path / "book")
    g = mw.InsuredForecaster.load(tmp_path / "book")
    assert g.statement() == f.statement()
    assert g.thaw == f.thaw == mw.Thaw(budget=2.0)
    assert state(g) == state(f)


def test_by_default_only_the_default_correction_thaws() -> None:
    assert mw.InsuredForecaster(max_stake=2).thaw == mw.Thaw(root=4.0)
    assert mw.InsuredForecaster(max_stake=2, capital=10).thaw == mw.Thaw(budget=2.0)
    assert mw.InsuredForecaster(None, mw.Reserve(0.1), max_stake=2).thaw is None
    assert mw.InsuredForecaster(max_stake=2, thaw=None).thaw is None


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: mw.Thaw(), ValueError, "must be above 0; for no thaw, say thaw=None"),
        (lambda: mw.Thaw(budget=-1), ValueError, "budget must"),
        (lambda: mw.Thaw(root=np.nan), ValueError, "root must"),
        (lambda: mw.Thaw(budget=1, above=2), ValueError, "above must"),
        (
            lambda: mw.InsuredForecaster(max_stake=1, capital=5, thaw=mw.Thaw(root=1)),
            ValueError,
            "a budget that does not grow",
        ),
        (lambda: mw.InsuredForecaster(max_stake=1, thaw=5), TypeError, "makewhole.Thaw"),  # type: ignore[arg-type]  # that is the point
    ],
)
def test_what_cannot_be_is_refused(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_what_hardly_is_a_stake_is_the_same_in_the_shorter_bookkeeping() -> None:
    caps = [cap for cap in map(float, range(1, 2000)) if (0.01 * cap) / cap < 0.01]  # by rounding
    assert caps
    for cap in caps[:3]:
        plain = mw.InsuredForecaster(max_stake=cap)
        general = mw.InsuredForecaster(max_stake=cap, max_exposure=1e9)
        for f in (plain, general):
            for _ in range(20):
                f.settle(f.forecast(mu=0.5), 1, stake=cap)
            f.settle(f.forecast(mu=0.5), 1, stake=0.01 * cap)
        assert plain.forecast(mu=0.5).c == general.forecast(mu=0.5).c
