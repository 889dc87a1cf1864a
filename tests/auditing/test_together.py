"""The test of all cells together: how often it is wrong, and what it finds that no single cell shows."""

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

import makewhole as mw
from makewhole.auditing import independent
from makewhole.auditing.means import Means


def waves(seed: int, gap: float, rows: int = 24_000, bins: int = 30) -> pd.DataFrame:
    """Forecasts that are too low in every other bin and too high in the rest."""
    draw = np.random.default_rng(seed)
    mu = draw.uniform(0.1, 0.9, rows)
    p = mu + gap * np.where((mu * bins).astype(int) % 2, 1, -1)
    return pd.DataFrame({"mu": mu, "y": (draw.uniform(size=rows) < p).astype(int)})


@pytest.mark.slow
def test_many_small_gaps_are_found_that_no_single_cell_shows() -> None:
    reports = [mw.audit(waves(seed, 0.02), bins=30) for seed in range(20)]
    assert sum(report.verdict == "refuted" for report in reports) >= 15
    alone = [report for report in reports if report.verdict == "refuted" and report.best.p_value > 0.05]
    assert len(alone) >= 2
    report = alone[0]
    assert "the data do not show which" in " ".join(report.sentences())
    assert 0 < report.smallest_c < 0.02
    assert report.p_value <= 0.05 < min(report.table["p_value"])
    first = waves(0, 0.02)
    assert mw.audit(first, bins=30, c=mw.audit(first, bins=30).smallest_c).verdict != "refuted"


def test_the_smallest_c_is_where_all_cells_together_stop_refuting() -> None:
    """Gaps of 1.7 standard deviations in every bin, half of them up and half down, and no draw."""
    parts = []
    for k in range(3, 27):
        mu, rows = (k + 0.5) / 30, 800
        ones = round(rows * mu + (-1) ** k * 1.7 * np.sqrt(rows * mu * (1 - mu)))
        parts.append(pd.DataFrame({"mu": mu, "y": [1] * ones + [0] * (rows - ones)}))
    table = pd.concat(parts)
    report = mw.audit(table, bins=30)
    assert report.p_value <= 0.05 < min(report.table["p_value"])
    assert report.verdict == "refuted"
    assert 0.001 < report.smallest_c < 0.03
    assert mw.audit(table, bins=30, c=report.smallest_c - 1e-4).verdict == "refuted"
    assert mw.audit(table, bins=30, c=report.smallest_c).verdict == "open"


@pytest.mark.parametrize("c", [0.0, 0.3, 0.45, 0.5])
def test_two_rows_inside_a_wide_interval_are_audited_without_a_warning(c: float) -> None:
    """Whoever bets on 0 or 1 alone has lost everything: her evidence overflowed."""
    report = mw.audit(pd.DataFrame({"mu": [0.5, 0.5], "y": [0, 1]}), c=c, bins=1)
    assert (report.p_value, report.smallest_c) == (1.0, 0.0)


@pytest.mark.slow
@pytest.mark.parametrize(("runs", "most"), [(60, 3), pytest.param(150, 4, marks=pytest.mark.long)])
def test_right_forecasts_are_refuted_by_it_no_more_often_than_is_said(runs: int, most: int) -> None:
    """A tenth of 5% of the runs: the chance of over 3 of 60, or over 4 of 150, is below 1 in 500."""
    together = 0
    for seed in range(runs):
        report = mw.audit(waves(seed, 0.0, rows=1500, bins=15))
        together += report.p_value <= 0.05 < min(report.table["p_value"])
    assert together <= most


def evidence(counts: Any, rows: Any, mu: Any, c: float = 0.0) -> float:
    """The evidence of everyone's bins, and of one bin for all, from made-up counts."""
    rows, counts, mu = (np.append(a, np.sum(a))[None, None, :] for a in (rows, counts, np.multiply(mu, rows)))
    shape = rows.shape
    means = Means(
        rows=rows.astype(float),
        full=rows > 0,
        weight=rows.astype(float),
        mu=mu / rows,
        outcome=counts / rows,
        c=np.full(shape, c),
        share=np.ones(shape),
        spread=None,
    )
    return float(np.exp(independent._log_evidence(means, [np.zeros(1, int)])))


@pytest.mark.parametrize("c", [0.0, 0.1])
@pytest.mark.parametrize("mu", [(0.5, 0.2), (0.0, 0.03), (0.9, 1.0)])
def test_its_mean_is_at_most_one_by_exact_enumeration(mu: tuple[float, float], c: float) -> None:
    """Whatever the probabilities within c of μ, the expectation of the evidence is at most 1."""
    rows = (6, 9)
    for shift in (-c, 0.0, c):
        p = [min(1.0, max(0.0, m + shift)) for m in mu]
        mean = 0.0
        for counts in itertools.product(range(rows[0] + 1), range(rows[1] + 1)):
            chance = float(np.prod([binom.pmf(k, n, q) for k, n, q in zip(counts, rows, p, strict=True)]))
            if chance:
                mean += chance * evidence(counts, rows, mu, c)
        assert mean <= 1 + 1e-9


def test_unequal_probabilities_give_less() -> None:
    """Of six rows with a mean probability of ½, two are certain: the expectation is smaller still."""
    certain, equal = 0.0, 0.0
    for k in range(7):
        equal += binom.pmf(k, 6, 0.5) * evidence([k], [6], [0.5])
        certain += binom.pmf(k - 1, 4, 0.5) * evidence([k], [6], [0.5])
    assert certain < equal <= 1 + 1e-9


def test_its_mean_is_at_most_one_with_weights_too() -> None:
    """Six rows, by exact enumeration: of different weights and probabilities, and of the same."""
    for w in (np.array([1.0, 0.2, 0.7, 0.4, 0.9, 0.1]), np.ones(6)):
        p = np.array([0.1, 0.5, 0.3, 0.6, 0.2, 0.4]) if w[1] < 1 else np.full(6, 0.35)
        mu, share, mean = float(w @ p / w.sum()), float(w.mean() / w.max()), 0.0
        for outcome in itertools.product((0, 1), repeat=6):
            y = np.array(outcome)
            ones = np.ones((1, 1, 2))
            means = Means(
                rows=6.0 * ones,
                full=ones > 0,
                weight=w.sum() * ones,
                mu=mu * ones,
                outcome=float(w @ y / w.sum()) * ones,
                c=0.0 * ones,
                share=share * ones,
                spread=None,
            )
            found = float(np.exp(independent._log_evidence(means, [np.zeros(1, int)])))
            mean += float(np.prod(np.where(y == 1, p, 1 - p))) * found
        assert mean <= 1 + 1e-9
        assert w[1] < 1 or mean > 0.99
