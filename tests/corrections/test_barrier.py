"""Barrier: the price by what is left of a capital, against a slow oracle and against adversaries."""

import contextlib
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import makewhole as mw
from makewhole.corrections import Terms
from samples import sold

SHAPES = ["exponential", "linear", "guard"]


def price(left: float, capital: float, shape: str, cap: float) -> float:
    """The price as the docstring has it."""
    if left <= 0:
        return 0.5
    if shape == "exponential":
        return 0.5 * math.exp(-left / max(cap, capital / 30))
    return max(0.0, 0.5 * (1 - left / (capital if shape == "linear" else cap)))


@pytest.mark.parametrize("keep_gains", [True, False])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_price_is_that_of_what_is_left(shape: Any, keep_gains: bool) -> None:
    draw = np.random.default_rng(1)
    capital, cap = 20.0, 2.0
    rule = mw.Barrier(capital, shape, spread=0.01, keep_gains=keep_gains)
    f = mw.InsuredForecaster(None, rule, max_stake=cap, lines=None)
    lost = 0.0
    for _ in range(400):
        q = f.forecast(mu=float(draw.uniform(0.2, 0.8)))
        guard = max(0.0, 0.5 - (capital - f.statement().total_loss) / (2 * cap))
        assert q.c == pytest.approx(max(0.01, guard, price(capital - lost, capital, shape, cap)), abs=1e-9)
        loss = f.settle(q, int(draw.integers(2)), stake=float(draw.uniform(-cap, cap)))[0]
        lost = lost + loss if keep_gains else max(0.0, lost + loss)
    assert f.corrections[0].left == pytest.approx(capital - lost)


@settings(max_examples=150)
@given(
    st.lists(st.tuples(st.floats(0, 1), st.floats(-1, 1), st.booleans()), max_size=80),
    st.sampled_from(SHAPES),
    st.booleans(),
    st.sampled_from([1.0, 1.5, 4.0]),
    st.booleans(),
)
def test_the_capital_is_never_lost(
    moves: list[Any], shape: Any, keep_gains: bool, capital: float, one_sided: bool
) -> None:
    """With the guard of a forecaster and, on its own, without."""
    f = mw.InsuredForecaster(
        None,
        mw.Barrier(capital, shape, keep_gains=keep_gains),
        max_stake=1,
        one_sided=one_sided,
        stop=False,
    )
    terms = Terms(1.0, (0.0, 0.5), sound=True, one_sided=one_sided)
    alone = mw.Barrier(capital, shape, keep_gains=keep_gains).in_mode(terms)
    total = least = 0.0
    for mu, b, hit in moves:
        b, y = abs(b) if one_sided else b, int(hit)
        f.settle(f.forecast(mu=mu), y, stake=b)
        assert f.statement().total_loss <= capital
        proposal = alone.propose()
        if one_sided:
            ask = min(mu + proposal.lam, 1.0)
            loss = b * (y - ask)
        else:
            c = min(proposal.lam, 0.5)
            loss = b * (y - min(max(mu, c), 1 - c)) - abs(b) * c
        total += loss
        least = min(least, total)
        assert (total if keep_gains else total - least) <= capital + 1e-9
        if b:
            alone.observe(proposal, proposal.lam + loss / abs(b), abs(b))


@settings(max_examples=100)
@given(st.lists(st.tuples(st.floats(0.05, 0.95), st.floats(-1, 1), st.booleans()), min_size=1, max_size=120))
def test_no_policy_that_keeps_the_capital_charges_less_than_the_guard_but_for_a_cap(moves: list[Any]) -> None:
    """The premium above fair odds is at least (max S − D)₊, and with the guard at most one cap more."""
    capital = 2.0
    shapes: Any = (("guard", 1.0), ("exponential", math.log(len(moves)) + 2.0))
    for shape, more in shapes:
        f = mw.InsuredForecaster(None, mw.Barrier(capital, shape, scale=None), max_stake=1, stop=False)
        fair = highest = premium = 0.0
        for mu, b, hit in moves:
            paid = f.settle(f.forecast(mu=mu), int(hit), stake=b)[0]
            fair += b * (int(hit) - mu)
            premium += b * (int(hit) - mu) - paid
            highest = max(highest, fair)
        needed = max(0.0, highest - capital)
        assert needed - 1e-9 <= premium <= needed + more + 1e-9


def test_the_number_given_is_the_number_certified() -> None:
    rules = [mw.Reserve.for_capital(5_000, max_stake=100), mw.Barrier(5_000), None]
    for rule in rules:
        capital = None if rule else 5_000
        settings: list[dict[str, Any]] = [
            {},
            {"one_sided": True},
            {"classes": 3},
            {"max_stake": 1000},
            {"mode": "sound"},
        ]
        for one in settings:
            f = mw.InsuredForecaster(None, rule, capital=capital, **({"max_stake": 100} | one))
            assert f.mode == "sound"
            for _ in range(1000):
                f.forecast(mu=[0.2, 0.3, 0.5] if "classes" in one else 0.5)
            assert f.statement().certificate.bound == 5_000
        with pytest.raises(ValueError, match="sound mode only"):
            mw.InsuredForecaster(None, rule, capital=capital, mode="exact", max_stake=100)


def test_a_thousand_open_forecasts_do_not_price_everybody_out() -> None:
    """They count as they are staked, not as they could be."""
    f = mw.InsuredForecaster(max_stake=1, capital=20)
    many = [f.forecast(mu=0.5) for _ in range(1000)]
    assert many[-1].c == pytest.approx(0.02)
    taken = 0
    for q in many:
        with contextlib.suppress(mw.StakeRefused):
            f.stake(q, 1.0)
            taken += 1
    with pytest.raises(mw.StakeRefused, match="the capital leaves"):
        f.stake(many[-1], 1.0)
    assert taken == 41  # of 0.48 each
    assert f.forecast(mu=0.5).c > 0.3
    for q in many:
        f.settle(q, 1)
    assert 19 < f.statement().total_loss <= 20


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_a_compiled_backtest_is_the_forecaster_to_the_bit(shape: Any) -> None:
    draw = np.random.default_rng(2)
    log = pd.DataFrame({"mu": draw.uniform(size=3000), "stake": draw.uniform(-1, 1, 3000)})
    log["y"] = (draw.uniform(size=3000) < log.mu).astype(int)
    rule = mw.Barrier(5.0, shape, keep_gains=False)
    result = mw.backtest(log, correction=rule, max_stake=1, trace=True)
    f = mw.InsuredForecaster(None, rule, max_stake=1, c_range=(0.0, 0.5))
    payments = [
        sold(f, f.forecast(mu=mu), y, b)[0]
        for mu, b, y in zip(log.mu.tolist(), log.stake.tolist(), log.y.tolist(), strict=True)
    ]
    assert result.trace is not None
    assert result.trace["payment"].tolist() == payments
    assert result.certificate is not None
    assert result.certificate.bound == 5.0
    assert result.total_loss == f.statement().total_loss


@pytest.mark.slow
def test_a_new_book_starts_with_the_whole_capital() -> None:
    """What it has won elsewhere must not be lost on top of the capital, nor what it has lost be missed."""
    won = mw.InsuredForecaster(None, mw.Barrier(20), max_stake=1, lines=None)
    for _ in range(500):
        won.settle(won.forecast(mu=0.5), 0, stake=1.0)
    (rule,) = won.corrections
    assert rule.left > 200
    log = pd.DataFrame({"mu": [0.5] * 500, "y": [1] * 500, "stake": [1.0] * 500})
    result = mw.backtest(log, correction=rule)
    assert 19 < result.total_loss <= 20
    for f in (
        mw.InsuredForecaster(None, rule, max_stake=1, capital=5000, lines=None, stop=False),
        mw.InsuredForecaster(None, mw.Grouped(rule), max_stake=1),
    ):
        for _ in range(500):
            f.settle(f.forecast(mu=0.5, groups="a" if f.corrections[0].grouped else None), 1, stake=1.0)
        assert f.mode == "sound"
        assert 19 < f.statement().total_loss <= 20 == f.statement().certificate.bound


def test_a_straight_price_needs_a_cap_of_capital_for_every_class(tmp_path: Any) -> None:
    with pytest.raises(ValueError, match="at least max_stake for every class, 3, with shape='linear'; got 2"):
        mw.InsuredForecaster(None, mw.Barrier(2, "linear"), max_stake=1, classes=3)
    f = mw.InsuredForecaster(None, mw.Barrier(3, "linear"), max_stake=1, classes=3)
    f.save(tmp_path / "book")
    assert mw.InsuredForecaster.load(tmp_path / "book").certificate() == f.certificate()


def test_groups_that_come_and_go_have_the_capital_as_their_bound() -> None:
    f = mw.InsuredForecaster(None, mw.Grouped(mw.Reserve(0.01)), capital=200, max_stake=1)
    assert f.certificate().bound == 200


def test_with_classes_the_lines_share_the_capital_and_a_file_keeps_it(tmp_path: Any) -> None:
    f = mw.InsuredForecaster(None, mw.Barrier(9.0, scale=4.0), max_stake=1, classes=3)
    assert [rule.left for rule in f.corrections] == [3.0, 3.0, 3.0]
    assert f.statement().certificate.bound == 9.0
    f.settle(f.forecast(mu=[0.2, 0.3, 0.5]), 0, stake=[1.0, 0.0, -1.0])
    f.save(tmp_path / "book")
    g = mw.InsuredForecaster.load(tmp_path / "book")
    assert g.corrections == f.corrections
    assert g.capital == 9.0
    assert g.forecast(mu=[0.2, 0.3, 0.5]) == f.forecast(mu=[0.2, 0.3, 0.5])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: mw.Barrier(0), "capital must"),
        (
            lambda: mw.Barrier(5, "round"),  # type: ignore[arg-type]  # that is the point
            "shape must be one of 'exponential', 'linear', 'guard'; got 'round'",
        ),
        (lambda: mw.Barrier(5, "guard", scale=2.0), "scale must be None with shape='guard'; got 2.0"),
        (lambda: mw.Barrier(5, spread=0.7), "spread must"),
        (lambda: mw.Barrier(5).in_mode(Terms(1.0)), "must be in sound mode"),
        (
            lambda: mw.Barrier(5).in_mode(Terms(1.0, (-0.1, 0.0), sound=True)),
            "c_range must not begin below 0",
        ),
        (
            lambda: mw.Barrier(5, scale=2).in_mode(Terms(3.0, sound=True)),
            "scale must be at least max_stake, 3",
        ),
        (
            lambda: mw.Barrier(2, "linear").in_mode(Terms(3.0, sound=True)),
            "capital must be at least max_stake",
        ),
    ],
)
def test_what_cannot_be_is_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
    with pytest.raises(TypeError, match="keep_gains must be True or False; got 1"):
        mw.Barrier(5, keep_gains=1)  # type: ignore[arg-type]  # that is the point
