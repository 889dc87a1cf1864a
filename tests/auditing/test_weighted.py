"""Weighted audits: their arithmetic against a slow oracle, and how often their bounds miss.

Where rows weigh differently, two bounds are tried on each side of each cell, and the risk is divided between
them. A simulation cannot show that this is done. Both bounds are thresholds of the same weighted mean, so
whatever breaks the narrower one was allowed for by its own risk, and the division is more than is needed. So
the oracle below computes every number cell by cell, from the formulas of Hoeffding (1963).
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import rel_entr

import makewhole as mw


class SlowCell(NamedTuple):
    """What an audit should say of one cell."""

    gap: float
    gap_low: float
    gap_high: float
    p_value: float
    smallest_c: float


def cells_of(table: pd.DataFrame, bins: int) -> Iterator[tuple[tuple[str, float, float], Any]]:
    """By group value and ends of the bin, the rows of every cell that has any."""
    place = np.minimum((table["mu"] * bins).astype(int), bins - 1)
    for value in ["", *sorted(table["g"].unique())]:
        mine = table if value == "" else table[table["g"] == value]
        yield (value, 0.0, 1.0), mine
        for k in sorted(place[mine.index].unique()):
            yield (value, k / bins, (k + 1) / bins), mine[place[mine.index] == k]


def slow_cell(rows: Any, cells: int, confidence: float, c: float) -> SlowCell:
    """One cell, from the formulas: Theorem 1 for the outcomes w·y / max w, and Theorem 2 for Σ(w/Σw)·y."""
    w, y, n = rows["w"].to_numpy(), rows["y"].to_numpy(), len(rows)
    mu, mean, squares = (
        np.average(rows["mu"], weights=w),
        np.average(y, weights=w),
        ((w / w.sum()) ** 2).sum(),
    )
    scale = w.mean() / w.max()
    kinds = 1 if np.all(w == w[0]) else 2
    sides = 2
    share = 0.9  # of the risk; a tenth is for the test of all cells together
    risk = share * (1 - confidence) / cells / sides / kinds

    def chernoff(p: float) -> float:
        x, q = mean * scale, p * scale
        return math.exp(-n * float(rel_entr(x, q) + rel_entr(1 - x, 1 - q)))

    def hoeffding(p: float) -> float:
        return math.exp(-2 * (mean - p) ** 2 / squares)

    def on_counts(p: float) -> float:
        """Zubkov and Serov's bound at one outcome nearer to p, where p is farther; and Pollak's on Φ(−x)."""
        nearer = (round(mean * n) + (1 if p > mean else -1)) / n
        if p == mean or (p - nearer) * (p - mean) < 0:
            return chernoff(p)
        x = math.sqrt(2 * n * float(rel_entr(nearer, p) + rel_entr(1 - nearer, 1 - p)))
        if math.isinf(x):
            return 0.0
        mills = 2 / (x + math.sqrt(x**2 + 8 / math.pi))
        return min(chernoff(p), math.exp(-(x**2) / 2) / math.sqrt(2 * math.pi) * mills)

    bounds: Any = (on_counts,) if kinds == 1 else (chernoff, hoeffding)
    ends = []
    for outermost, innermost in ((0.0, max), (1.0, min)):
        roots = [
            brentq(lambda p, bound=bound: bound(p) - risk, outermost, mean, xtol=1e-15)
            for bound in bounds
            if bound(outermost) < risk
        ]
        ends.append(innermost([outermost, *roots]))
    low, high = ends[0] - mu, ends[1] - mu
    edge = min(mu + c, 1.0) if mean > mu else max(mu - c, 0.0)
    p_value = min(1.0, cells * sides * kinds * min(bound(edge) for bound in bounds) / share)
    inside = abs(mean - mu) <= c
    return SlowCell(mean - mu, low, high, 1.0 if inside else p_value, max(0.0, low, -high))


def weighted_table(rows: int, seed: int, shift: float) -> pd.DataFrame:
    draw = np.random.default_rng(seed)
    table = pd.DataFrame({"mu": draw.uniform(0.02, 0.98, rows), "g": draw.choice(list("abcd"), rows)})
    table["y"] = (draw.uniform(size=rows) < np.clip(table["mu"] + shift, 0, 1)).astype(int)
    table["w"] = draw.exponential(size=rows) ** 2 + 0.01
    table.loc[table["g"] == "d", "w"] = 0.75  # in these cells all weights are equal: one bound, all the risk
    return table


@pytest.mark.parametrize(("rows", "shift", "c"), [(60, 0.0, 0.0), (400, 0.25, 0.0), (3000, -0.2, 0.03)])
@pytest.mark.parametrize("seed", [0, 1])
def test_every_cell_is_what_a_slow_oracle_computes(rows: int, shift: float, c: float, seed: int) -> None:
    table, bins, confidence = weighted_table(rows, seed, shift), 6, 0.9
    report = mw.audit(table, weight="w", groups="g", bins=bins, confidence=confidence, c=c)
    cells = dict(cells_of(table, bins))
    expected = {key: slow_cell(mine, len(cells), confidence, c) for key, mine in cells.items()}
    keys = list(zip(report.table["value"], report.table["bin_low"], report.table["bin_high"], strict=True))
    assert {(value, round(low, 9), round(high, 9)) for value, low, high in keys} == {
        (value, round(low, 9), round(high, 9)) for value, low, high in expected
    }
    for name in SlowCell._fields:
        numbers = [getattr(expected[key], name) for key in keys]
        np.testing.assert_allclose(report.table[name], numbers, rtol=1e-6, atol=1e-9, err_msg=name)
    smallest = min(cell.p_value for cell in expected.values())
    assert report.p_value <= smallest * (1 + 1e-6)  # it is smaller where all cells together show more
    assert report.sound == (report.p_value > 1 - confidence)
    assert report.smallest_c >= max(cell.smallest_c for cell in expected.values()) - 1e-6


def test_either_bound_can_be_the_narrower() -> None:
    """Else the comparison would say nothing about one of them."""
    table = weighted_table(400, 0, 0.25)
    one_heavy = table.assign(w=np.where(np.arange(400) == 0, 20.0, 1.0))
    one_light = table.assign(
        w=np.where(np.arange(400) == 0, 0.9, 1.0), y=(np.arange(400) % 20 > 0).astype(int)
    )
    narrower = {}
    for name, changed in {"heavy": one_heavy, "light": one_light}.items():
        report, w = mw.audit(changed, weight="w", bins=1), changed["w"].to_numpy()
        reach = math.sqrt(math.log(1 / (0.9 * 0.05 / 4)) / 2 * float((w**2).sum())) / float(w.sum())
        narrower[name] = report.table["gap_low"][0] > report.table["gap"][0] - reach + 1e-9
        assert report.table["gap_low"][0] == pytest.approx(slow_cell(changed, 1, 0.95, 0.0).gap_low, abs=1e-9)
    assert narrower == {"heavy": False, "light": True}  # whether it is more than Hoeffding's


@pytest.mark.parametrize("weight", [1e-100, 1e100])
def test_weights_may_be_as_small_or_as_large_as_is_said_and_no_smaller_or_larger(weight: float) -> None:
    table = weighted_table(60, 0, 0.0)
    same, plain = mw.audit(table.assign(w=weight), weight="w"), mw.audit(table)
    np.testing.assert_allclose(same.table["gap_low"], plain.table["gap_low"])
    beyond = weight * (10.0 if weight > 1 else 0.1)
    with pytest.raises(ValueError, match=r"weight='w' must be 0, or lie in \[1e-100, 1e\+100\]"):
        mw.audit(table.assign(w=beyond), weight="w")


# --- the verdict, the p-values and the smallest c agree ---------------------------------------------------

# μ, y, weight and group of one row; the exponent of the weight goes to the ends of what is accepted.
extreme_rows = st.lists(
    st.tuples(
        st.one_of(st.sampled_from([0.0, 1.0, 1e-300, 1e-150, 1e-20, 1e-3, 1 - 1e-12]), st.floats(0, 1)),
        st.integers(0, 1),
        st.one_of(st.sampled_from([1e-100, 1e-20, 1.0, 1e100]), st.floats(-100, 100).map(lambda e: 10.0**e)),
        st.sampled_from("ab"),
    ),
    min_size=1,
    max_size=30,
)


@pytest.mark.slow
@settings(max_examples=40)
@given(
    extreme_rows,
    st.integers(1, 4),
    st.sampled_from([0.0, 0.05, 0.4]),
    st.sampled_from([0.5, 0.95, 0.999, 1 - 1e-12]),
)
@example([(0.0, 0, 1e10, "a"), (0.0, 1, 1.0, "a")], 1, 0.0, 0.95)  # said impossible, and a light row happened
@example([(0.0, 0, 1e100, "a"), (0.0, 1, 1e-100, "b")], 1, 0.0, 0.95)
@example([(0.0, 0, 1.0, "a")] * 20 + [(0.0, 1, 1.0, "a")], 1, 0.0, 1 - 1e-14)
@example([(1e-300, 0, 1e100, "a"), (1e-300, 1, 1e92, "a")], 1, 0.0, 0.95)
@example([(0.0, 0, 1e-100, "a")] * 2 + [(0.9375, 0, 1e-100, "a")] + [(0.25, 1, 1e-100, "a")] * 2, 4, 0.0, 0.5)
def test_verdict_p_value_and_smallest_c_agree_whatever_the_weights(
    rows: list[Any], bins: int, c: float, confidence: float
) -> None:
    frame = pl.DataFrame(rows, schema=["mu", "y", "w", "g"], orient="row")
    options: dict[str, Any] = dict(weight="w", groups="g", bins=bins, confidence=confidence)
    report = mw.audit(frame, c=c, **options)
    cells, level = report.table, 1 - confidence
    refuted = cells["p_value"] <= level
    np.testing.assert_array_equal(cells["smallest_c"] > c, refuted)
    np.testing.assert_array_equal(cells["wins_low"] > 0, refuted)
    assert (cells["c"] == c).all()
    for value, found in report.groups["g"].items():
        mine = [k for k, name in enumerate(cells["value"]) if name == value]
        assert (found.smallest_c > c) == (found.p_value <= level) == refuted[mine].any()
    assert (report.smallest_c > c) == (report.p_value <= level) == (not report.sound)
    # A cell that is refuted refutes the whole. The test of all cells together can do so without one.
    assert not (report.sound and refuted.any())
    assert mw.audit(frame, c=min(1.0, max(c, report.smallest_c)), **options).sound


# --- how often bounds miss --------------------------------------------------------------------------------

LEVEL = 0.5  # low, so that missing is possible


def weighted_draws(seed: int, shift: float) -> tuple[pl.DataFrame, Any]:
    """Sixty rows in which a few weigh most, and the true probabilities."""
    draw, rows = np.random.default_rng(seed), 60
    mu, weight = draw.choice([0.3, 0.7], rows), draw.integers(1, 7, rows).astype(float) ** 2
    p = np.clip(mu + shift * draw.uniform(-1, 1, rows), 0, 1)
    y = (draw.uniform(size=rows) < p).astype(int)
    return pl.DataFrame({"mu": mu, "y": y, "w": weight}), p


def true_gap(table: pl.DataFrame, p: Any, low: float, high: float) -> float:
    mu, w = table["mu"].to_numpy(), table["w"].to_numpy()
    inside = (mu >= low) & (mu <= high)
    return float(np.average((p - mu)[inside], weights=w[inside]))


def misses(table: pl.DataFrame, p: Any) -> bool:
    cells = mw.audit(table, weight="w", bins=2, confidence=LEVEL).table
    truth = [true_gap(table, p, *ends) for ends in zip(cells["bin_low"], cells["bin_high"], strict=True)]
    return bool(np.any((cells["gap_low"] > truth) | (cells["gap_high"] < truth)))


@pytest.mark.slow
@pytest.mark.parametrize("runs", [100, pytest.param(400, marks=pytest.mark.long)])
def test_over_many_data_sets_all_weighted_bounds_hold_together_and_right_forecasts_are_rarely_refuted(
    runs: int,
) -> None:
    missed = sum(misses(*weighted_draws(seed, shift=0.2)) for seed in range(runs))
    refuted = sum(
        not mw.audit(weighted_draws(seed, shift=0.0)[0], weight="w", bins=2, confidence=LEVEL).sound
        for seed in range(runs, 2 * runs)
    )
    error = math.sqrt(LEVEL * (1 - LEVEL) / runs)
    assert missed / runs <= 1 - LEVEL + 3 * error
    assert refuted / runs <= 1 - LEVEL + 3 * error


@pytest.mark.slow
def test_weights_taken_for_counts_would_refute_the_right_too_often() -> None:
    """So the count above can fail: a row of weight 36 is not 36 rows."""
    refuted = 0
    for seed in range(100):
        table, _ = weighted_draws(seed, shift=0.0)
        counted = table[np.repeat(np.arange(len(table)), table["w"].to_numpy().astype(int))]
        refuted += not mw.audit(counted, bins=2, confidence=LEVEL).sound
    assert refuted / 100 > 1 - LEVEL + 3 * math.sqrt(LEVEL * (1 - LEVEL) / 100)
