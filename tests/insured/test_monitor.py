"""The confidence sequence: it covers at all times at once, and it tightens."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import zeta

import makewhole as mw
from makewhole.insured.journal import Journal
from makewhole.insured.monitor import Interval, mean_interval
from makewhole.insured.totals import Totals

RUNS, ROUNDS, ALPHA = 2000, 100_000, 0.1


class Runs(np.ndarray[Any, Any]):
    """One loss of each of many runs, which `Totals` takes for a number."""

    def __le__(self, other: Any) -> bool:  # type: ignore[override]  # one answer for all runs
        return bool(np.less_equal(self, other).all())

    def __ge__(self, other: Any) -> bool:  # type: ignore[override]  # one answer for all runs
        return bool(np.greater_equal(self, other).all())


def after(losses: Any, totals: Totals | None = None, range_: float = 1.0) -> Totals:
    """The totals after these losses, one by one."""
    totals = Totals() if totals is None else totals
    for loss in losses:
        totals.settle(Journal(), loss, 0.0, 1.0, 1, c=0.125, loss_range=range_)
    return totals


def interval(totals: Totals, range_: float = 1.0) -> Interval:
    """What the totals say of the mean loss."""
    found = totals.mean_loss_interval(range_)
    assert found is not None
    return found


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["rare large losses", pytest.param("fair coin", marks=pytest.mark.long)])
def test_false_alarms_over_2000_runs_of_100000_rounds_are_at_most_nominal(kind: str) -> None:
    """Losses of mean 0: an interval without 0, at any moment, is wrong. 3 standard errors are allowed."""
    draw = np.random.default_rng(0)
    together = Totals()  # its sums become arrays, one number for each run
    wrong = np.zeros(RUNS, dtype=bool)
    looks = {*range(50), *np.geomspace(50, ROUNDS - 1, 150).astype(int).tolist()}
    for t in range(ROUNDS):
        u = draw.random(RUNS, dtype=np.float32)
        losses: Any = np.where(u < 0.1, 0.9, -0.1) if kind == "rare large losses" else np.sign(u - 0.5)
        together = after([losses.view(Runs)], together)
        if t in looks:
            sums: Any = (together.total, together.surprises)
            for k, (total, surprises) in enumerate(zip(*map(np.ndarray.tolist, sums), strict=True)):
                low, high = mean_interval(together.rounds, total, surprises, 1.0, ALPHA)
                wrong[k] |= not low <= 0 <= high
    assert together.rounds == ROUNDS
    assert wrong.mean() <= ALPHA + 3 * math.sqrt(ALPHA * (1 - ALPHA) / RUNS)


@pytest.mark.parametrize(("range_", "alpha"), [(1.0, 0.05), (1.0, 0.4), (30.0, 0.05)])
def test_the_interval_is_howards_to_the_last_digits(range_: float, alpha: float) -> None:
    """A transcription of the paper's equation (10), with the sum of squares written out."""
    losses = np.random.default_rng(3).uniform(-0.7, 0.9, 500) * range_
    totals = Totals()
    for count, loss in enumerate(losses, 1):
        totals = after([float(loss)], totals, range_)
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
        known = (totals.rounds, totals.total, totals.surprises or 0.0)
        assert mean_interval(*known, range_, alpha) == pytest.approx(expected, rel=1e-9)
        if alpha == 0.05:
            assert interval(totals, range_) == pytest.approx(expected, rel=1e-9)


def test_its_interval_lies_above_0_when_the_forecaster_really_loses_and_not_when_it_wins() -> None:
    draw = np.random.default_rng(1)
    losses = np.clip(draw.normal(0, 0.3, 5000), -1, 1)
    losing, winning = after(np.minimum(1.0, losses + 0.1)), after(np.maximum(-1.0, losses - 0.1))
    assert 0 < interval(losing).low < 0.1 < interval(losing).high
    assert interval(winning).high < 0


def test_it_tightens_with_the_deviation() -> None:
    calm, wild = (after(size * (-1) ** t for t in range(10_000)) for size in (0.01, 1.0))
    widths = [interval(one).high - interval(one).low for one in (calm, wild)]
    assert widths[0] < widths[1] / 2
    assert interval(Totals()) == (-1.0, 1.0)


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
