"""Graded outcomes: any number in [0, 1], such as a delay as a share of three hours."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import linear_model, preprocessing
from sklearn.linear_model import LinearRegression, LogisticRegression, SGDRegressor

import makewhole as mw
from makewhole.forecasters import RegressorForecaster

shares = st.floats(0, 1)


@given(st.floats(-100, 100), st.floats(-100, 100), shares, shares, st.floats(0, 0.5))
def test_a_hedge_of_an_affine_loss_makes_it_certain(
    l0: float, l1: float, mu: float, y: float, c: float
) -> None:
    """She loses l0 + (l1 − l0)·y, and stakes l1 − l0: her total loss is what the forecast said, plus c."""
    f = mw.InsuredForecaster(None, mw.NoCorrection(), max_stake=1000, graded=True)
    f.forecast(mu=mu, c_hat=c, id="x")
    payments = f.settle("x", y, stake=l1 - l0)
    lost = l0 + (l1 - l0) * y - payments[0]
    assert lost == pytest.approx(l0 + (l1 - l0) * mu + abs(l1 - l0) * c, abs=1e-9)


@given(
    st.lists(st.tuples(shares, shares, st.floats(-1, 1)), min_size=1, max_size=60),
    st.sampled_from([0.05, 0.3]),
)
def test_the_certificate_holds_for_graded_outcomes(rounds: list[Any], rate: float) -> None:
    f = mw.InsuredForecaster(None, mw.Reserve(rate), mode="sound", max_stake=1.0, graded=True)
    bound = f.certificate().bound
    assert bound is not None
    for mu, y, b in rounds:
        q = f.forecast(mu=mu)
        f.stake(q, b)
        assert f.statement().open_exposure + 1e-12 >= b * (y - q.mu) - abs(b) * q.c
        f.settle(q, y)
        assert f.statement().total_loss <= bound


def test_no_series_of_graded_outcomes_against_it_passes_the_certificate() -> None:
    """The outcome that hurts most, mixed with ones in between, for thousands of rounds."""
    draw = np.random.default_rng(0)
    f = mw.InsuredForecaster(None, mw.Reserve(0.02), mode="sound", max_stake=1.0, graded=True)
    for _ in range(3000):
        q = f.forecast(mu=float(draw.uniform(0.2, 0.8)))
        b = float(draw.choice([-1.0, 1.0]))
        f.settle(q, float(draw.choice([b > 0, draw.uniform()])), stake=b)
    statement = f.statement()
    assert statement.certificate.bound is not None
    assert 0.5 * statement.certificate.bound < statement.total_loss <= statement.certificate.bound


@pytest.mark.parametrize(
    "correction", [mw.StandardRegret(0.1), mw.DeterministicSwap(cells=50), mw.Reserve(0.1)]
)
def test_zeros_and_ones_are_graded_outcomes_with_the_same_bits(correction: Any) -> None:
    draw = np.random.default_rng(0)
    books = [
        mw.InsuredForecaster(None, correction, mode="sound", max_stake=1.0, graded=g) for g in (False, True)
    ]
    for _ in range(200):
        mu, y, b = float(draw.uniform()), int(draw.integers(0, 2)), float(draw.uniform(-1, 1))
        paid = [
            f.settle(f.forecast(mu=mu), outcome, stake=b)
            for f, outcome in zip(books, (y, float(y)), strict=True)
        ]
        assert paid[0] == paid[1]
    assert books[0].statement().total_loss == books[1].statement().total_loss


def test_it_is_saved_and_many_are_settled_at_once(tmp_path: Path) -> None:
    f = mw.InsuredForecaster(max_stake=1.0, graded=True)
    f.forecast_many(mu=[0.2, 0.5, 0.9], ids=["a", "b", "c"])
    f.stake("b", 1.0)
    f.save(tmp_path / "book.json")
    again = mw.InsuredForecaster.load(tmp_path / "book.json")
    assert again.graded
    for book in (f, again):
        assert book.settle_many({"a": 0.3, "b": 0.75, "c": 1})["b"] == [0.25]
    only = mw.InsuredForecaster(max_stake=1.0, graded=True)
    only.forecast_many(mu=[0.2, 0.5], ids=["a", "b"])
    with pytest.raises(ValueError, match=r"outcome must lie in \[0, 1\]; got 1.5"):
        only.settle_many({"a": 0.3, "b": 1.5})
    assert len(only.open_forecasts) == 2


@pytest.mark.parametrize("outcome", [-0.01, 1.01, float("nan"), "late"])
def test_outcomes_outside_are_refused_and_change_nothing(outcome: Any) -> None:
    f = mw.InsuredForecaster(max_stake=1.0, graded=True)
    f.forecast(mu=0.5, id="x")
    with pytest.raises((ValueError, TypeError), match="outcome"):
        f.settle("x", outcome)
    assert f.settle("x", 0.5) == []
    plain = mw.InsuredForecaster(max_stake=1.0)
    plain.forecast(mu=0.5, id="x")
    with pytest.raises(ValueError, match="outcome must be 0 or 1"):
        plain.settle("x", 0.5)


def test_river_and_scikit_learn_regressors_are_bases() -> None:
    draw = np.random.default_rng(0)
    xs = draw.uniform(size=(400, 2))
    delays = 180 * np.clip(0.2 + 0.5 * xs[:, 0] + draw.normal(0, 0.05, 400), 0, 1)
    river_base = RegressorForecaster(preprocessing.StandardScaler() | linear_model.LinearRegression(), 0, 180)
    online = RegressorForecaster(SGDRegressor(random_state=0), low=0, high=180)
    assert online.predict(xs[0]) == (0.5, 0.0)  # it has learned nothing yet
    fitted = RegressorForecaster(LinearRegression().fit(xs, delays), low=0, high=180)
    for base in (river_base, online, fitted):
        f = mw.InsuredForecaster(base, max_stake=1.0, graded=True)
        errors = []
        for x, delay in zip(xs, delays.tolist(), strict=True):
            features = {"a": x[0], "b": x[1]} if base is river_base else x
            q = f.forecast(features)
            errors.append(abs(q.mu - base.share(delay)))
            f.settle(q, base.share(delay), stake=0.1)
        assert np.mean(errors[200:]) < 0.15
    assert fitted.share(-10) == 0.0
    assert fitted.share(500) == 1.0
    plain = mw.InsuredForecaster(LinearRegression().fit(xs, delays / 180), max_stake=1.0, graded=True)
    assert 0.2 < plain.forecast(xs[0]).mu < 0.8


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: RegressorForecaster(LinearRegression()), ValueError, "fitted first, or have partial_fit"),
        (
            lambda: RegressorForecaster(SGDRegressor(), low=1, high=1),
            ValueError,
            "low must be less than high",
        ),
        (lambda: RegressorForecaster(object()), TypeError, "must be a river or scikit-learn regressor"),
        (
            lambda: mw.InsuredForecaster(LogisticRegression(), max_stake=1, graded=True),
            TypeError,
            "base must be a regressor where outcomes are graded",
        ),
        (
            lambda: mw.InsuredForecaster(linear_model.LinearRegression(), max_stake=1),
            TypeError,
            r"a regressor\? graded=True takes RegressorForecaster",
        ),
        (
            lambda: mw.InsuredForecaster(max_stake=1, graded=True, classes=3),
            ValueError,
            "graded outcomes must have classes=None",
        ),
    ],
)
def test_what_does_not_fit_is_named(call: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        call()
