"""Whether c vanishes if μ is calibrated: small games, and the paper's benchmark on made-up events."""

import numpy as np
import pytest

from makewhole import studies
from makewhole.studies import calibrated
from makewhole.studies.decisions import DecisionSettings
from makewhole.studies.own import Own


@pytest.mark.slow
def test_what_is_forecast_as_less_likely_beats_the_learned_mu_and_not_the_calibrated_one() -> None:
    learned, mended = (
        calibrated.played_c(name, "knows μ, opposite", 2000, 0) for name in calibrated.FORECASTERS
    )
    assert learned == pytest.approx(0.5, abs=0.05)
    assert abs(mended) < 1.5 * 2000 ** (-1 / 3)


@pytest.mark.slow
def test_a_bettor_who_knows_the_digit_keeps_c_up_whoever_forecasts() -> None:
    assert (
        min(calibrated.played_c(name, "knows the digit", 2000, 0) for name in calibrated.FORECASTERS) > 0.05
    )


def test_recalibrated_forecasts_come_out_right_where_the_given_ones_do_not() -> None:
    draw = np.random.default_rng(0)
    mu = np.full(1000, 0.2)
    y = (draw.random(1000) < 0.6).astype(np.int64)
    said = calibrated.recalibrated(mu, y, 0)
    assert set(np.round(said, 6)) <= {round((k + 0.5) / 10, 6) for k in range(10)}
    assert abs(said[200:].mean() - 0.6) < 0.07


def test_in_the_benchmark_both_forecasters_face_the_same_events() -> None:
    draw = np.random.default_rng(1)
    X, y, z = draw.normal(size=(400, 3)), draw.integers(0, 2, 400), draw.integers(0, 10, 400)
    own = Own(data=studies.make_events(X, y, z=z))
    rows = calibrated.in_the_benchmark(DecisionSettings("adult", 400), 0, own)
    assert [row.forecaster for row in rows] == list(calibrated.FORECASTERS)
    assert all(0.2 < row.brier < 0.35 and row.c < 0.5 and row.loss < 0.1 for row in rows)
