"""The confidence sequence: it covers at all times at once, and it tightens."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import zeta

import makewhole as mw
from makewhole.insured.monitor import LossMonitor, Watched

RUNS, ROUNDS, ALPHA = 2000, 100_000, 0.1


def each(together: Any) -> Iterator[Watched]:
    """What every run remembers, from what all remember, whose sums are arrays."""
    for total, variance in zip(together.sum.tolist(), together.variance.tolist(), strict=True):
        yield Watched(together.losses, total, variance)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["rare large losses", "fair coin"])
def test_false_alarms_over_2000_runs_of_100000_rounds_are_at_most_nominal(kind: str) -> None:
    """Losses of mean 0: an interval without 0, at any moment, is wrong. 3 standard errors are allowed."""
    draw = np.random.default_rng(0)
    together: Any = Watched()  # its sums become arrays, one number for each run
    wrong = np.zeros(RUNS, dtype=bool)
    looks = {*range(50), *np.geomspace(50, ROUNDS - 1, 150).astype(int).tolist()}
    for t in range(ROUNDS):
        u = draw.random(RUNS, dtype=np.float32)
        losses = np.where(u < 0.1, 0.9, -0.1) if kind == "rare large losses" else np.sign(u - 0.5)
        together = together.add(losses)
        if t in looks:
            intervals = [one.interval(1.0, ALPHA) for one in each(together)]
            wrong |= [not low <= 0 <= high for low, high in intervals]
    assert together.losses == ROUNDS
    assert wrong.mean() <= ALPHA + 3 * math.sqrt(ALPHA * (1 - ALPHA) / RUNS)


@pytest.mark.parametrize(("range_", "alpha"), [(1.0, 0.05), (1.0, 0.4), (30.0, 0.05)])
def test_the_interval_is_howards_to_the_last_digits(range_: float, alpha: float) -> None:
    """A transcription of the paper's equation (10), with the sum of squares written out."""
    losses = np.random.default_rng(3).uniform(-0.7, 0.9, 500) * range_
    monitor = LossMonitor(range_, alpha)
    for count, loss in enumerate(losses, 1):
        monitor.update(float(loss))
        if count not in (1, 2, 3, 10, 100, 500):
            continue
        predicted = [0.0, *(losses[:t].mean() for t in range(1, count))]
        squares = math.fsum((losses[:count] - predicted) ** 2)
        scale, eta, s = 2 * range_, 2, 1.4
        v = max(1.0, squares / scale**2)  # in units of the scale, from one unit on
        ell = s * math.log(math.log(eta * v)) + math.log(zeta(s) / (alpha / 2 * math.log(eta) ** s))
        k1, k2 = (eta**0.25 + eta**-0.25) / math.sqrt(2), (math.sqrt(eta) + 1) / 2
        far = scale * (math.sqrt(k1**2 * v * ell + k2**2 * ell**2) + k2 * ell)
        mean = losses[:count].mean()
        expected = (max(mean - far / count, -range_), min(mean + far / count, range_))
        assert monitor.interval() == pytest.approx(expected, rel=1e-9)
        assert monitor.count == count


def test_it_raises_an_alarm_when_the_forecaster_really_loses_and_none_when_it_wins() -> None:
    draw = np.random.default_rng(1)
    losing, winning = LossMonitor(), LossMonitor()
    for _ in range(5000):
        loss = float(np.clip(draw.normal(0, 0.3), -1, 1))
        losing.update(min(1.0, loss + 0.1))
        winning.update(max(-1.0, loss - 0.1))
    assert losing.alarm
    assert not winning.alarm
    assert losing.interval().low < 0.1 < losing.interval().high


def test_it_tightens_with_the_deviation_and_survives_a_restart() -> None:
    calm, wild = LossMonitor(), LossMonitor()
    for t in range(10_000):
        calm.update(0.01 * (-1) ** t)
        wild.update(1.0 * (-1) ** t)
    widths = [m.interval().high - m.interval().low for m in (calm, wild)]
    assert widths[0] < widths[1] / 2
    again = LossMonitor.from_state(json.loads(json.dumps(wild.state())))
    again.update(0.5)
    wild.update(0.5)
    assert again.interval() == wild.interval()
    assert LossMonitor().interval() == (-1.0, 1.0)


def test_a_live_forecaster_raises_the_alarm_and_keeps_it_through_a_restart(tmp_path: Path) -> None:
    losing = mw.InsuredForecaster(None, mw.NoCorrection(), max_stake=10, c_range=(0.0, 0.0))
    fair = mw.InsuredForecaster(None, mw.NoCorrection(), max_stake=10, c_range=(0.0, 0.0))
    draw = np.random.default_rng(0)
    for _ in range(1000):
        y = int(draw.random() < 0.5)
        losing.settle(losing.forecast(mu=0.5), y, stake=10.0 if y else -10.0)
        fair.settle(fair.forecast(mu=0.5), y, stake=10.0)
    assert losing.statement().alarm
    assert "ALARM" in str(losing.statement())
    low, high = losing.statement().mean_loss_interval or (0.0, 0.0)
    assert low < 5.0 < high
    assert not fair.statement().alarm
    losing.save(tmp_path / "book.json")
    assert mw.InsuredForecaster.load(tmp_path / "book.json").statement() == losing.statement()


def test_bad_values_are_named() -> None:
    with pytest.raises(ValueError, match=r"loss must lie in \[-1, 1\]; got 1.5"):
        LossMonitor().update(1.5)
    with pytest.raises(ValueError, match="loss must lie in"):
        LossMonitor().update(float("nan"))
    for alpha in (0, 1):
        with pytest.raises(ValueError, match="alpha must lie between 0 and 1"):
            LossMonitor(alpha=alpha)
