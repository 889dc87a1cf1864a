"""Levels: the best division by brute force, and what equal weights and classes make of it."""

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from scipy.special import rel_entr

from makewhole.mending import levels
from makewhole.mending.levels import Levels, Sizes, equal_mass_edges

ALONE = Sizes(1000.0, np.ones(1), 1, 0.95)


@pytest.mark.parametrize("seed", range(30))
def test_no_other_division_costs_less(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(levels, "_GRID", 8)
    rng = np.random.default_rng(seed)
    p = rng.beta(rng.uniform(0.3, 3), rng.uniform(0.3, 3), size=60).round(int(rng.integers(1, 4)))
    weight = rng.uniform(0.5, 2, 60) if seed % 2 else np.ones(60)
    sizes = Sizes(float(rng.choice([20, 200, 2000])), np.array([0.5, 0.3, 0.2]), 3, 0.95)
    most = int(rng.integers(1, 7))
    parts = equal_mass_edges(p, weight, 8)

    def cost(edges: Any) -> float:
        """Half of the log loss that rounding costs, and a tenth of the mean c² to be expected."""
        place, total = np.searchsorted(edges, p, side="right"), 0.0
        for k in range(len(edges) + 1):
            mine = weight[place == k] / weight.sum()
            mu = float(np.average(p[place == k], weights=mine))
            share = mine.sum()
            total += float(mine @ (rel_entr(p[place == k], mu) + rel_entr(1 - p[place == k], 1 - mu)) / 2)
            for group in sizes.shares:
                reach = 2 * np.log((len(edges) + 1) * 3 / 0.05) * mu * (1 - mu) / (sizes.rows * share * group)
                total += 0.1 * share * group * min(reach, max(mu, 1 - mu) ** 2)
        return total

    monkeypatch.setattr(levels, "_MAY_LOSE", 1.0)
    found = Levels.learn(p[:, None], weight, most, sizes)
    choices = [cut for few in range(most) for cut in combinations(parts, few)]
    assert len(found.edges[0]) < most
    assert cost(found.edges[0]) == pytest.approx(min(map(cost, choices)), abs=1e-12)


@pytest.mark.parametrize("groups", [1, 10, 1000])
@pytest.mark.parametrize("spread", [0.02, 0.3])
def test_levels_keep_nearly_all_that_forecasts_know(groups: int, spread: float) -> None:
    p = np.clip(np.random.default_rng(3).normal(0.5, spread, 4000), 0.01, 0.99)[:, None]
    found = Levels.learn(p, np.ones(4000), 15, Sizes(500.0, np.full(groups, 1 / groups), groups, 0.95))

    def lost(mu: Any) -> float:
        return float((rel_entr(p, mu) + rel_entr(1 - p, 1 - mu)).mean())

    assert lost(found.values[found.place(p)]) <= 0.081 * lost(p.mean())  # 0.08, but for rounding


@pytest.mark.parametrize("seed", range(10))
def test_levels_are_as_few_as_lose_no_more_than_may_be_lost(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(levels, "_FINE_GRID", 9)
    rng = np.random.default_rng(seed)
    p, weight = rng.beta(0.7, 0.9, 80), rng.uniform(0.5, 2, 80)
    parts, spare = equal_mass_edges(p, weight, 9), float(rng.uniform(0.002, 0.02))

    def lost(edges: Any) -> float:
        place = np.searchsorted(edges, p, side="right")
        mu = (np.bincount(place, weight * p) / np.bincount(place, weight))[place]
        return float(np.average(rel_entr(p, mu) + rel_entr(1 - p, 1 - mu), weights=weight))

    found = Levels.learn(p[:, None], weight, 1, ALONE, spare, 9).edges[0]
    fits = [len(cut) for few in range(9) for cut in combinations(parts, few) if lost(cut) <= spare]
    assert len(found) == (min(fits) if fits else len(parts))
    assert lost(found) <= spare or not fits


def test_classes_that_vary_in_two_ways_are_divided_both_ways_where_more_levels_are_allowed() -> None:
    p = np.random.default_rng(5).dirichlet([8, 4, 2], 6000)

    def lost(found: Levels) -> float:
        return float(rel_entr(p, found.values[found.place(p)]).sum(axis=1).mean())

    few = Levels.learn(p, np.ones(6000), 10, ALONE)
    many = Levels.learn(p, np.ones(6000), 10, ALONE, 1e-4, 60)
    assert max(map(len, few.by_second)) == 0
    assert max(map(len, many.by_second)) > 0
    assert len(few.values) <= 16
    assert len(many.values) <= 70  # 60, and a level at least for every stratum and part
    assert lost(many) < lost(few) / 3
    place = many.place(p)
    for k in np.unique(place):
        np.testing.assert_allclose(many.values[k], p[place == k].mean(axis=0))


def test_more_rows_to_certify_with_make_more_levels_and_never_more_than_asked() -> None:
    p = np.random.default_rng(0).random((5000, 1))
    counts = [
        len(Levels.learn(p, np.ones(5000), 15, ALONE._replace(rows=rows)).values)
        for rows in (100.0, 1e3, 1e4, 1e5, 1e9)
    ]
    assert counts == sorted(counts)
    assert counts[0] < counts[1] < counts[2]
    assert counts[-1] == 15


def test_the_value_of_a_level_is_its_weighted_mean() -> None:
    rng = np.random.default_rng(1)
    p, weight = rng.dirichlet([1, 2, 3], 3000), rng.uniform(0, 2, 3000)
    found = Levels.learn(p, weight, 12, ALONE)
    place = found.place(p)
    for k in np.unique(place):
        np.testing.assert_allclose(
            found.values[k], np.average(p[place == k], axis=0, weights=weight[place == k])
        )
    np.testing.assert_allclose(found.values.sum(axis=1), 1)
    assert len({int(np.argmax(row)) for row in p[place == place[0]]}) == 1  # one most probable class


def test_forecasts_that_are_all_equal_are_one_level() -> None:
    found = Levels.learn(np.full((50, 1), 0.25), np.ones(50), 15, ALONE)
    assert found.values.tolist() == [[0.25]]
    assert set(found.place(np.array([[0.0], [0.25], [1.0]]))) == {0}


def test_parts_have_equal_weights_and_none_is_empty() -> None:
    rng = np.random.default_rng(2)
    values, weight = rng.random(10_000), rng.uniform(0, 2, 10_000)
    place = np.searchsorted(equal_mass_edges(values, weight, 7), values, side="right")
    np.testing.assert_allclose(np.bincount(place, weight) / weight.sum(), 1 / 7, atol=1e-3)
    tied = rng.choice([0.1, 0.5, 0.5, 0.5, 0.9], 300)
    edges = equal_mass_edges(tied, np.ones(300), 10)
    assert np.bincount(np.searchsorted(edges, tied, side="right")).min() > 0
