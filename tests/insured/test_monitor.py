"""The confidence sequence: it covers at all times at once, and it tightens."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

import makewhole as mw
from makewhole.insured.monitor import LossMonitor, boundary

RUNS, ROUNDS = 2000, 100_000


def test_zeta_is_zeta() -> None:
    from scipy.special import zeta

    from makewhole.insured import monitor

    assert pytest.approx(zeta(1.4)) == monitor._ZETA


@pytest.mark.parametrize("kind", ["rare large losses", "fair coin"])
def test_false_alarms_over_2000_runs_of_100000_rounds_are_at_most_nominal(kind: str) -> None:
    """Losses of mean 0; an alarm at any moment, on either side, is false. α = 0.1."""
    draw = np.random.default_rng(0)
    alpha = 0.1
    total, variance = np.zeros(RUNS), np.zeros(RUNS)
    wrong = np.zeros(RUNS, dtype=bool)
    for t in range(ROUNDS):
        u = draw.random(RUNS, dtype=np.float32)
        loss = np.where(u < 0.1, 0.9, -0.1) if kind == "rare large losses" else np.where(u < 0.5, 1.0, -1.0)
        variance += (loss - total / max(t, 1)) ** 2
        total += loss
        # Looking at growing distances only would miss little; the first thousand are looked at one by one.
        if t < 1000 or t % 20 == 0:
            v = np.maximum(variance, 4.0)
            level = 1.4 * np.log(np.log(2 * v / 4.0)) + math.log(
                3.105547277977581 / (alpha / 2 * math.log(2) ** 1.4)
            )
            k1, k2 = (2**0.25 + 2**-0.25) / math.sqrt(2), (math.sqrt(2) + 1) / 2
            limit = np.sqrt(k1**2 * v * level + (k2 * 2 * level) ** 2) + k2 * 2 * level
            wrong |= np.abs(total) > limit
    error = math.sqrt(alpha * (1 - alpha) / RUNS)
    assert wrong.mean() <= alpha + 3 * error
    assert boundary(float(variance[0]), 2.0, alpha / 2) == pytest.approx(float(limit[0]), rel=0.01)


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
    with pytest.raises(ValueError, match="alpha must lie between 0 and 1"):
        LossMonitor(alpha=0)
