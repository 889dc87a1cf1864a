"""The rule of one standard error: a map that has not gained more than that is not kept."""

from typing import Any

import numpy as np
import pytest
from scipy.special import expit, logit

import makewhole as mw
from makewhole.mending import choosing, maps
from makewhole.mending.choosing import Choice, _mean_and_error
from simulated import GRID, forecasts, frozen

METHODS: Any = ("histogram", "isotonic", "multicalibration", "boosting")
# `make test` fits a map without groups and one with groups.
MOSTLY_LONG: Any = (
    pytest.param("histogram", marks=pytest.mark.long),
    "isotonic",
    "multicalibration",
    pytest.param("boosting", marks=pytest.mark.long),
)


def excess(fitted: mw.SoundClassifier, bias: float) -> float:
    """How much more log loss is expected of what is published than of what the model says; exactly."""
    X = np.column_stack([expit(bias * logit(GRID)), np.zeros(len(GRID))])
    mu = fitted.predict_proba(X)[:, 1]
    lost = -(GRID * np.log(mu / X[:, 0]) + (1 - GRID) * np.log((1 - mu) / (1 - X[:, 0])))
    return float(lost.mean())


@pytest.mark.slow
@pytest.mark.parametrize("method", MOSTLY_LONG)
def test_forecasts_that_are_right_are_kept(method: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(maps._TREES, "max_iter", 20)
    kept, harm = [], []
    for seed in range(20):
        model = mw.SoundClassifier(frozen(), groups=[1], method=method, random_state=seed)
        kept.append(model.fit(*forecasts(2000, seed, 1.0)).kept_)
        harm.append(excess(model, 1.0))
    assert kept.count("unchanged") >= 16  # a lucky gain of one standard error is rarer than one in six
    assert np.mean(harm) < 0.02  # most of this is rounding; the map alone costs more, and every time


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_forecasts_that_are_wrong_are_mended(method: Any) -> None:
    fitted = mw.SoundClassifier(frozen(), groups=[1], method=method, random_state=0)
    fitted.fit(*forecasts(3000, 0, 2.5))
    assert fitted.kept_ == method
    assert fitted.gain_ > 5 * fitted.gain_error_
    assert len(fitted.maps_) == 1
    assert excess(fitted, 2.5) < -0.1


def test_what_is_kept_is_the_model_rounded() -> None:
    X, y = forecasts(3000, 1, 1.0)
    fitted = mw.SoundClassifier(frozen(), groups=[1], random_state=0).fit(X, y)
    assert (fitted.kept_, fitted.maps_) == ("unchanged", ())
    order = np.argsort(X[:, 0])
    said = fitted.predict_proba(X)[order, 1]
    assert np.all(np.diff(said) >= 0)
    assert said.mean() == pytest.approx(X[:, 0].mean(), abs=0.03)


@pytest.mark.slow
@pytest.mark.parametrize("groups", [None, [1]])
def test_rounding_forecasts_that_are_right_costs_less_than_the_rows_could_show(groups: Any) -> None:
    """The loss is exact. With 15 levels, as many as there were once, it is many times as large."""
    for seed in range(3):
        model = mw.SoundClassifier(frozen(), groups=groups, random_state=seed)
        assert model.fit(*forecasts(6000, seed, 1.0)).kept_ == "unchanged"
        assert excess(model, 1.0) < 1.5 / 6000  # 1 / n, and what levels lose that come from some of the rows
        few = mw.SoundClassifier(frozen(), groups=groups, bins=15, random_state=seed)
        few.fit(*forecasts(6000, seed, 1.0))
        assert excess(few, 1.0) > 6 / 6000
        assert len(few.levels_) <= 15 < len(model.levels_) <= 60


@pytest.mark.slow
def test_with_many_rows_there_are_more_levels_so_that_the_loss_stays_below_what_they_show() -> None:
    rows = 80_000
    model = mw.SoundClassifier(frozen(), random_state=0).fit(*forecasts(rows, 0, 1.0))
    assert model.kept_ == "unchanged"
    assert 60 < len(model.levels_) <= rows / 500
    assert excess(model, 1.0) < 4.5e-5  # a trifle, 0.00003, and what levels lose that come from some rows


def test_a_map_spends_no_more_than_it_gained() -> None:
    assert Choice("isotonic", 0.005, 0.002).spare(10_000) == pytest.approx(0.003)
    assert Choice("isotonic", 0.0021, 0.002).spare(5_000) == pytest.approx(1 / 5000)
    assert Choice("unchanged", -0.01, 0.002).spare(10**9) == pytest.approx(3e-5)


def test_the_error_of_a_gain_counts_clusters_not_rows() -> None:
    rng = np.random.default_rng(0)
    shared = np.repeat(rng.normal(size=200), 10)
    cluster = np.repeat(np.arange(200), 10)
    apart = _mean_and_error(shared, np.ones(2000), None)[1]
    together = _mean_and_error(shared, np.ones(2000), cluster)[1]
    assert apart == pytest.approx(shared.std() / np.sqrt(2000))
    assert together == pytest.approx(shared.std() / np.sqrt(200), rel=0.01)


def asked(fitted: Any, X: Any, y: Any, monkeypatch: pytest.MonkeyPatch) -> int:
    """Fit, and count the maps that were learned."""
    learned = []
    true = choosing.learn

    def counting(*given: Any) -> Any:
        learned.append(1)
        return true(*given)

    monkeypatch.setattr(choosing, "learn", counting)
    fitted.fit(X, y)
    monkeypatch.undo()
    return len(learned)


def test_a_clear_answer_needs_two_folds_and_an_unclear_one_all(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong, right = (mw.SoundClassifier(frozen(), random_state=0) for _ in "ab")
    assert asked(wrong, *forecasts(4000, 0, 2.5), monkeypatch) == 2
    assert wrong.kept_ == "multicalibration"
    assert wrong.gain_ > 5 * wrong.gain_error_
    assert asked(right, *forecasts(4000, 0, 0.0), monkeypatch) == 5
    assert right.kept_ == "unchanged"


@pytest.mark.slow
@pytest.mark.parametrize("bias", [0.0, 0.1, 0.3, 1.0])
def test_two_folds_that_are_clear_say_what_all_of_them_say(
    bias: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kept() -> list[str]:
        made = [mw.SoundClassifier(frozen(), random_state=k).fit(*forecasts(2000, k, bias)) for k in range(8)]
        return [one.kept_ for one in made]

    early = kept()
    monkeypatch.setattr(choosing, "_CLEAR", float("inf"))
    assert early == kept()
