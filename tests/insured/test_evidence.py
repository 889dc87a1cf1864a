"""The statement's evidence against what was published: its arithmetic, and how often it is wrong."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import makewhole as mw
from makewhole.insured.evidence import START, bet, bet_many

SHARES = (Fraction("0.15"),)


@given(
    st.lists(st.tuples(st.floats(0, 1), st.floats(-0.5, 1.5), st.sampled_from([0, 1, 0.25])), max_size=30),
)
def test_the_money_is_what_exact_arithmetic_says(rounds: list[Any]) -> None:
    parts = {(share, side): Fraction(1, 2) for share in SHARES for side in (1, -1)}
    most = Fraction(1)
    for mu, c, y in rounds:
        price = min(max(Fraction(c), Fraction(0)), Fraction(1))
        for share, side in parts:
            parts[share, side] *= 1 + share * (side * (Fraction(y) - Fraction(mu)) - price)
        assert all(part >= 0 for part in parts.values())
        most = max(most, sum(parts.values(), Fraction(0)))
    money = START
    for mu, c, y in rounds:
        money = bet(money, mu, c, y)
    assert money[0] == pytest.approx(float(most), rel=1e-12)
    assert bet_many(START, *([list(column) for column in zip(*rounds, strict=True)] or [[], [], []])) == money


@pytest.mark.parametrize("mu", [0.0, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("c", [0.0, 0.05])
def test_no_outcome_within_c_makes_her_richer_on_average(mu: float, c: float) -> None:
    for p in (max(0.0, mu - c), mu, min(1.0, mu + c)):
        now = sum(q * sum(bet(START, mu, c, y)[1:]) for y, q in ((1, p), (0, 1 - p)))
        assert now <= 1 + 1e-12


def play(seed: int, gap: float, rounds: int = 1000) -> Any:
    """Forecasts learned from the outcomes, a book with two groups; in "b" the truth is `gap` higher."""
    draw, happened = np.random.default_rng(seed), 1.0
    f = mw.InsuredForecaster(None, mw.Grouped(mw.Reserve(0.01)), mode="sound", max_stake=1.0)
    for t in range(rounds):
        mu, group = 0.2 + 0.5 * happened / (t + 2), "ab"[t % 2]
        q = f.forecast(mu=mu, groups=group)
        y = int(draw.uniform() < mu + gap * (group == "b"))
        f.settle(q, y)
        happened += y
    return f.statement()


@pytest.mark.slow
def test_right_forecasts_are_called_refuted_no_more_often_than_is_said() -> None:
    """At most 5% of 100, at any of a thousand times: more than 11 would happen less than once in 200."""
    refuted = [play(seed, 0.0).refuted for seed in range(100)]
    assert sum(refuted) <= 11


def test_a_group_that_is_wrong_is_refuted_and_the_other_is_not() -> None:
    statement = play(0, 0.2)
    groups = statement.groups
    assert groups["b"].refuted
    assert not groups["a"].refuted
    assert "REFUTED" in str(statement)
    assert "forecasts refuted   yes" in str(statement)


def test_a_wide_c_is_no_wrong_forecast() -> None:
    f = mw.InsuredForecaster(None, mw.NoCorrection(), max_stake=1.0)
    for t in range(400):
        f.settle(f.forecast(mu=0.4, c_hat=0.2), t % 2)
    assert not f.statement().refuted
    g = mw.InsuredForecaster(None, mw.NoCorrection(), max_stake=1.0)
    for t in range(400):
        g.settle(g.forecast(mu=0.4, c_hat=0.0), t % 2)
    assert g.statement().refuted


def test_it_is_saved_and_many_at_once_give_the_same_bits(tmp_path: Path) -> None:
    mus = np.random.default_rng(0).uniform(size=50)
    outcomes = {k: int(k % 3 == 0) for k in range(50)}
    one, many = (mw.InsuredForecaster(max_stake=1.0) for _ in range(2))
    for k, mu in enumerate(mus.tolist()):
        one.settle(one.forecast(mu=mu), outcomes[k])
    many.forecast_many(mu=mus)
    many.settle_many(outcomes)
    assert one.statement().p_value == many.statement().p_value != 1.0
    one.save(tmp_path / "book.json")
    assert mw.InsuredForecaster.load(tmp_path / "book.json").statement().p_value == one.statement().p_value


def test_classes_and_one_sided_books_have_none() -> None:
    f = mw.InsuredForecaster(max_stake=1.0, classes=3)
    f.settle(f.forecast(mu=[0.2, 0.3, 0.5]), 1)
    assert f.statement().p_value is None
    assert not f.statement().refuted
    g = mw.InsuredForecaster(max_stake=1.0, one_sided=True)
    g.settle(g.forecast(mu=0.3), 1)
    assert g.statement().p_value is None


def test_overwhelming_evidence_does_not_overflow() -> None:
    money = START
    for _ in range(5000):
        money = bet(money, 0.0, 0.0, 1)
    assert 1e200 < money[0] < 1e201
    assert bet_many(START, [0.0] * 5000, [0.0] * 5000, [1] * 5000) == money
