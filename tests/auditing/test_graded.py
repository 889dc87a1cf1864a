"""Outcomes that are any numbers in [0, 1]: a delay as a share of three hours, rain up to a cap."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import brentq
from scipy.special import rel_entr

import makewhole as mw


def delays(seed: int, rows: int = 2000, shift: float = 0.0) -> pd.DataFrame:
    draw = np.random.default_rng(seed)
    mu = draw.uniform(0.1, 0.6, rows)
    table = pd.DataFrame({"mu": mu, "y": draw.beta(2 * (mu + shift), 2 * (1 - mu - shift))})
    return table.assign(g=draw.choice(["a", "b"], rows))


def test_bounds_are_chernoffs_for_numbers_in_the_unit_interval() -> None:
    table = delays(0)
    report = mw.audit(table, graded=True, bins=1, confidence=0.9)
    mean, mu, n = table["y"].mean(), table["mu"].mean(), len(table)
    risk = 0.9 * 0.1 / 2

    def excess(p: float) -> float:
        return float(np.exp(-n * (rel_entr(mean, p) + rel_entr(1 - mean, 1 - p))) - risk)

    assert report.table["gap_low"][-1] == pytest.approx(brentq(excess, 1e-9, mean) - mu, abs=1e-9)
    assert report.table["gap_high"][-1] == pytest.approx(brentq(excess, mean, 1 - 1e-9) - mu, abs=1e-9)
    assert "numbers in [0, 1]" in report.method


def test_scores_are_those_of_graded_outcomes() -> None:
    table = delays(0)
    report = mw.audit(table, graded=True)
    mu, y = table["mu"], table["y"]
    assert report.brier == pytest.approx(((y - mu) ** 2).mean())
    assert report.log_loss == pytest.approx(-(y * np.log(mu) + (1 - y) * np.log(1 - mu)).mean())
    impossible = pd.DataFrame({"mu": [0.0, 0.5], "y": [0.25, 0.5]})
    assert mw.audit(impossible, graded=True).log_loss == np.inf
    assert mw.audit(pd.DataFrame({"mu": [0.0, 1.0], "y": [0.0, 1.0]}), graded=True).log_loss == 0.0


def test_zeros_and_ones_are_graded_outcomes_with_wider_bounds() -> None:
    draw = np.random.default_rng(0)
    mu = draw.uniform(size=500)
    table = pd.DataFrame({"mu": mu, "y": (draw.uniform(size=500) < mu).astype(int)})
    events, graded = mw.audit(table, bins=5), mw.audit(table, bins=5, graded=True)
    assert graded.log_loss == pytest.approx(events.log_loss)
    assert np.all(graded.table["gap_low"] <= events.table["gap_low"] + 1e-12)
    assert np.all(graded.table["gap_high"] >= events.table["gap_high"] - 1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("cluster", [None, "day"])
def test_right_means_are_refuted_no_more_often_than_is_said_and_wrong_ones_are_found(cluster: Any) -> None:
    refuted = {0.0: 0, 0.1: 0}
    for shift in refuted:
        for seed in range(40):
            table = delays(seed, shift=shift).assign(day=np.arange(2000) // 10)
            report = mw.audit(table, graded=True, groups="g", bins=5, cluster=cluster)
            refuted[shift] += report.verdict == "refuted"
    assert refuted[0.0] <= 6
    assert refuted[0.1] >= 38


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        ({"y": 1.2}, {"graded": True}, r"outcome='y' must lie in \[0, 1\]; got 1.2"),
        ({"y": -0.1}, {"graded": True}, r"outcome='y' must lie in \[0, 1\]; got -0.1"),
        ({"y": 0.3}, {}, r"must be 0 or 1; got 0.3 \(a quantity\? graded=True audits numbers in \[0, 1\]\)"),
        ({}, {"graded": True, "mu": ["mu", "g"]}, "graded outcomes must have one column of mu"),
    ],
)
def test_bad_quantities_are_named(changes: Any, options: Any, message: str) -> None:
    table = pd.DataFrame({"mu": [0.5, 0.5], "y": [1.0, 0.0], "g": [0.5, 0.5]}).assign(**changes)
    with pytest.raises(ValueError, match=message):
        mw.audit(table, **options)
