"""What open bets are likely to lose at most: against the numbers of the formula, and against simulations."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import makewhole as mw
from makewhole.bounds import likely_sum
from samples import state

SIZES = st.just(0.0) | st.floats(1e-6, 5.0)


def flights(count: int = 1000, **settings: Any) -> mw.InsuredForecaster:
    """So many open flights at μ = 0.2 and c = 0.02, each staked in full."""
    f = mw.InsuredForecaster(None, mw.NoCorrection(), mode="sound", max_stake=1.0, **settings)
    for k in range(count):
        f.stake(f.forecast(mu=0.2, c_hat=0.02, id=k), 1.0)
    return f


def test_a_thousand_flights() -> None:
    f = flights()
    before = state(f)
    assert f.likely_worst(0.995) == pytest.approx(780.0)  # nothing is known to be independent
    assert round(f.likely_worst(0.995, cluster=lambda k: k % 20)) == 336
    assert round(f.likely_worst(0.995, cluster=lambda k: k % 50)) == 207
    assert round(f.likely_worst(0.995, cluster=lambda k: k)) == 44
    assert state(f) == before


def test_clusters_are_a_function_a_mapping_or_a_list() -> None:
    f = flights(60)
    days = {k: k // 20 for k in range(60)}
    by_function = f.likely_worst(0.9, cluster=days.get)
    assert f.likely_worst(0.9, cluster=days) == by_function
    assert f.likely_worst(0.9, cluster=list(days.values())) == by_function
    f.settle(0, 0)
    assert f.likely_worst(0.9, cluster=days) < by_function
    with pytest.raises(ValueError, match="cluster must have one label for each of 59 open forecasts; got 60"):
        f.likely_worst(0.9, cluster=list(days.values()))
    with pytest.raises(ValueError, match="cluster must have a label for the open forecast 59"):
        f.likely_worst(0.9, cluster=dict.fromkeys(range(59), 0))


@pytest.mark.parametrize("confidence", [0.0, 1.0, 99.5, float("nan"), True])
def test_a_confidence_that_is_none_is_named(confidence: Any) -> None:
    with pytest.raises(ValueError, match="confidence must"):
        flights(1).likely_worst(confidence)


def test_nothing_open_loses_nothing_and_unstaked_forecasts_do_not_count() -> None:
    f = flights(0)
    assert f.likely_worst(0.995) == 0.0
    f.forecast(mu=0.5)
    assert f.likely_worst(0.995, cluster=lambda k: k) == 0.0


def test_what_c_below_0_gives_away_counts_in_full() -> None:
    """No forecast can be right within a negative c: what such a bet can lose is added."""
    f = mw.InsuredForecaster(None, mw.NoCorrection(), max_stake=1.0, c_range=(-0.1, 0.5))
    f.stake(f.forecast(mu=0.5, c_hat=-0.1), 1.0)
    assert f.likely_worst(0.5, cluster=lambda k: k) == pytest.approx(0.6)


# --- it holds: dependence inside a cluster, any probability within c --------------------------------------


@pytest.mark.parametrize("runs", [4_000, pytest.param(100_000, marks=pytest.mark.long)])
@pytest.mark.parametrize("size", [1, 5, 25])
def test_it_is_exceeded_as_seldom_as_it_says_however_a_cluster_hangs_together(size: int, runs: int) -> None:
    """All flights of a day are late together; the true probability is as high as c allows."""
    count, risk = 200, 0.05
    f = flights(count)
    bound = f.likely_worst(1 - risk, cluster=lambda k: k // size)
    draw = np.random.default_rng(0)
    days = draw.random((runs, count // size)) < 0.22
    lost = size * np.where(days, 0.78, -0.22).sum(axis=1)
    exceeded = np.mean(lost > bound + 1e-9)
    assert exceeded <= risk + 3 * math.sqrt(risk / runs)
    assert bound < 0.78 * count
    assert np.quantile(lost, 1 - risk) > 0.25 * bound  # and it is of the right size


@given(
    st.lists(st.tuples(SIZES, SIZES), min_size=1, max_size=12),
    st.floats(0.001, 0.999),
)
def test_the_bound_is_the_least_over_t(clusters: list[tuple[float, float]], risk: float) -> None:
    """Against a fine grid of t; never more than all losses together."""
    worst, best = (np.array(column) for column in zip(*clusters, strict=True))
    bound = likely_sum(worst, best, risk)
    assert 0.0 <= bound <= worst.sum() * (1 + 1e-12)
    both = (worst > 0.0) & (best > 0.0)
    for t in np.logspace(-4, 4, 200):
        w, v = worst[both], best[both]
        top = t * w + np.log((v + w * np.exp(-t * (v + w))) / (v + w))
        assert bound <= (top.sum() + math.log(1 / risk)) / t + 1e-7


def test_stakes_of_every_kind_are_counted_at_what_they_can_lose_and_win() -> None:
    """Binary both ways, with a customer's own price, one-sided, and classes at one price and at several."""
    kinds: list[dict[str, Any]] = [
        {"capital": 50.0},
        {"capital": 50.0, "one_sided": True},
        {"classes": 3, "capital": 50.0},
        {"classes": 3},
    ]
    for settings in kinds:
        f = mw.InsuredForecaster(max_stake=1.0, **settings)
        mu: Any = 0.3 if f.classes is None else [0.3, 0.5, 0.2]
        q = f.forecast(mu=mu)
        bets = [0.1, 0.05] if f.classes is None else [[0.1, 0.0, 0.0], [0.0, 0.05, -0.05 * (not f.one_sided)]]
        for who, b in zip(("ann", "bob"), bets, strict=True):
            f.stake(q, b, by=who)
        losses = []
        for y in range(f.classes or 2):
            twin = mw.InsuredForecaster.from_state(f.to_state())
            losses.append(sum(twin.settle(q, y)))
        expected = likely_sum(np.array([max(0.0, *losses)]), np.array([max(0.0, -min(losses))]), 0.4)
        assert f.likely_worst(0.6, cluster=lambda k: k) == pytest.approx(expected)
        assert f.likely_worst(0.999999) == pytest.approx(max(losses))
