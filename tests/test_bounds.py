"""Bounds that hold at every count."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from makewhole import bounds


@given(st.integers(1, 60), st.floats(0.001, 0.999), st.sampled_from([0.2, 0.05, 0.001]))
def test_each_end_is_wrong_no_more_often_than_it_says_by_exact_enumeration(
    rows: int, p: float, risk: float
) -> None:
    counts = np.arange(rows + 1)
    low, high = bounds.interval(counts / rows, np.full(rows + 1, float(rows)), risk)
    chance = stats.binom.pmf(counts, rows, p)
    assert chance[low > p].sum() <= risk * (1 + 1e-9)
    assert chance[high < p].sum() <= risk * (1 + 1e-9)


@given(st.lists(st.floats(0.01, 0.99), min_size=1, max_size=12), st.sampled_from([0.1, 0.01]))
def test_probabilities_may_differ_from_row_to_row(ps: list[float], risk: float) -> None:
    chance = np.ones(1)
    for p in ps:  # the Poisson binomial distribution, exactly
        chance = np.convolve(chance, [1 - p, p])
    counts, mean = np.arange(len(ps) + 1), float(np.mean(ps))
    low, high = bounds.interval(counts / len(ps), np.full(len(counts), float(len(ps))), risk)
    assert chance[low > mean].sum() <= risk * (1 + 1e-9)
    assert chance[high < mean].sum() <= risk * (1 + 1e-9)


@given(st.floats(0, 1), st.floats(1, 1e6), st.floats(1e-6, 0.5))
def test_the_ends_are_where_the_tail_is_the_risk(mean: float, rows: float, risk: float) -> None:
    (low,), (high,) = bounds.interval(np.array([mean]), np.array([rows]), risk)
    assert 0 <= low <= mean <= high <= 1
    for end in (low, high):
        if 1e-6 < end < 1 - 1e-6 and abs(end - mean) > 1e-6:
            assert bounds.tail(mean, end, rows) == pytest.approx(risk, rel=1e-3)


@pytest.mark.parametrize("mean", [1e-2, 1e-3, 1e-30])
def test_a_low_end_is_found_however_far_below_the_mean_it_lies(mean: float) -> None:
    """A light row of twenty happened: the end is near m·e^(−ln(1/risk)/(n·m) − 1), or 0 if no float is."""
    (low,), _ = bounds.interval(np.array([mean]), np.array([20.0]), 1e-3)
    expected = mean * math.exp(-math.log(1000) / (20 * mean) - 1)  # KL is m·ln(m/p) − m + p, but for O(m²)
    assert low == pytest.approx(expected, rel=0.05, abs=0)


def test_the_smallest_probability_is_not_taken_for_none() -> None:
    assert bounds.divergence(0.5, 5e-324) == pytest.approx(0.5 * math.log(0.5) * 2 + 0.5 * 744.44, abs=0.01)


def test_an_impossible_mean_is_infinitely_far() -> None:
    assert bounds.divergence(0.5, 0.0) == math.inf
    assert bounds.tail(0.5, 1.0, 10) == 0.0
    assert bounds.divergence(0.0, 0.0) == 0.0
    assert bounds.divergence(1.0, 1.0) == 0.0


@given(
    st.lists(st.floats(0.01, 5), min_size=1, max_size=9), st.floats(0.02, 0.98), st.sampled_from([0.2, 0.02])
)
def test_weighted_averages_stay_within_reach_by_exact_enumeration(
    weights: list[float], p: float, risk: float
) -> None:
    w = np.array(weights)
    outcomes = (np.arange(2 ** len(w))[:, None] >> np.arange(len(w))) & 1
    chance = np.prod(np.where(outcomes == 1, p, 1 - p), axis=1)
    average = outcomes @ w / w.sum()
    spread = math.sqrt(float((w**2).sum())) / float(w.sum())
    reach = float(bounds.weighted_reach(spread, risk))
    assert chance[average > p + reach].sum() <= risk * (1 + 1e-9)
    assert chance[average < p - reach].sum() <= risk * (1 + 1e-9)
    assert float(bounds.weighted_tail(reach, spread)) == pytest.approx(risk)
