"""Bounds that hold at every count."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.stats import binom

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


@pytest.mark.slow
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


# --- counts: sharper bounds for outcomes that are 0 or 1 --------------------------------------------------


def counted(probabilities: Any) -> Any:
    """The exact distribution of the number of successes, by convolution."""
    chances = np.array([1.0])
    for p in probabilities:
        chances = np.convolve(chances, [1 - p, p])
    return chances


def check_tails(probabilities: Any) -> None:
    chances, n, p = counted(probabilities), len(probabilities), float(np.mean(probabilities))
    below, above = np.cumsum(chances), np.cumsum(chances[::-1])[::-1]
    k = np.arange(n + 1)
    bound = bounds.count_tail(k / n, p, float(n))
    exact = np.where(k <= n * p, below, above)
    assert (exact <= bound * (1 + 1e-9) + 1e-15).all()


@given(st.lists(st.floats(0.001, 0.999), min_size=1, max_size=60))
def test_no_count_is_as_far_out_as_often_as_the_bound_allows(probabilities: list[float]) -> None:
    """Whatever the probabilities are: exact enumeration."""
    check_tails(probabilities)


def test_nor_with_probabilities_that_differ_as_much_as_they_can() -> None:
    draw = np.random.default_rng(0)
    for _ in range(400):
        n = int(draw.integers(1, 80))
        a, b = draw.choice([0.05, 0.3, 1.0, 5.0], 2)
        check_tails(draw.beta(a, b, n))
    for n in (1, 2, 3, 10, 50):
        for ones in range(n + 1):  # some certain, the others equal
            for p in (0.001, 0.1, 0.5, 0.9, 0.999):
                check_tails([1.0] * ones + [p] * (n - ones))


@pytest.mark.parametrize("n", [5, 30, 200, 5000])
@pytest.mark.parametrize("p", [0.02, 0.3, 0.5])
def test_the_bound_on_counts_is_close_to_the_binomial_and_below_chernoffs(n: int, p: float) -> None:
    k = np.arange(n + 1)
    bound, chernoff = bounds.count_tail(k / n, p, float(n)), bounds.tail(k / n, p, float(n))
    exact = np.where(k <= n * p, binom.cdf(k, n, p), binom.sf(k - 1, n, p))
    assert (bound <= chernoff).all()
    known = (exact > 1e-9) & (exact < 1e-3)  # what an audit's risk may be
    assert (exact <= bound * (1 + 1e-9))[known].all()
    if n >= 200 and known.any():
        assert (bound[known] / exact[known]).max() < 4
        assert np.median(chernoff[known] / bound[known]) > 2


@pytest.mark.slow
def test_intervals_of_counts_cover_and_are_narrower() -> None:
    """Every count, with a risk of 1 % on each side, at probabilities that differ."""
    draw = np.random.default_rng(3)
    for _ in range(60):
        n = int(draw.integers(2, 60))
        probabilities = draw.beta(0.5, 0.8, n)
        p, k = float(probabilities.mean()), np.arange(n + 1.0)
        rows = np.full(n + 1, float(n))
        low, high = bounds.interval(k / n, rows, 0.01, counts=True)
        chances = counted(probabilities)
        assert chances[low > p].sum() <= 0.01 + 1e-12
        assert chances[high < p].sum() <= 0.01 + 1e-12
        wide = bounds.interval(k / n, rows, 0.01)
        assert (wide[0] <= low).all()
        assert (high <= wide[1]).all()
    means, rows = np.array([0.3, 0.3]), np.array([1000.0, 100_000.0])
    narrow, wide = (bounds.interval(means, rows, 8e-5, counts=c) for c in (True, False))
    ratio = (narrow[1] - narrow[0]) / (wide[1] - wide[0])
    assert ((ratio > 0.8) & (ratio < 0.95)).all()


def test_mixed_cells_are_each_bounded_by_their_own_kind() -> None:
    means, rows = np.array([0.3, 0.3]), np.array([50.0, 50.0])
    low, high = bounds.interval(means, rows, 0.01, counts=np.array([True, False]))
    alone = [bounds.interval(means[:1], rows[:1], 0.01, counts=c) for c in (True, False)]
    assert (low[0], high[0]) == (alone[0][0][0], alone[0][1][0])
    assert (low[1], high[1]) == (alone[1][0][0], alone[1][1][0])
