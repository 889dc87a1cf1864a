"""Audits by betting: against a slow oracle, and on forecasts that were learned from the outcomes."""

import math
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pytest

import makewhole as mw
from makewhole.insured.monitor import boundary

SHARES = [0.98 / 2**k for k in range(10)]


def learned(seed: int, rows: int = 1500, shift: float = 0.0) -> pd.DataFrame:
    """Forecasts that are the frequency so far (less `shift`), of outcomes that follow that frequency.

    Their errors are right given the past. Given all forecasts they are not: each forecast tells the outcome
    before it, and so the sum of a bin's errors follows from which bins the forecasts have visited.
    """
    draw = np.random.default_rng(seed)
    happened, table = 1.0, []
    for t in range(rows):
        frequency = happened / (t + 2)
        y = int(draw.uniform() < frequency)
        table.append((t, min(max(frequency - shift, 0.0), 1.0), y))
        happened += y
    frame = pd.DataFrame(table, columns=["t", "mu", "y"])
    return frame.assign(g=draw.choice(["a", "b"], rows))


def teller(seed: int, rows: int = 1000) -> pd.DataFrame:
    """Right forecasts whose digits tell the outcome before, so that it can be read off the table."""
    draw = np.random.default_rng(seed)
    mu, y, table = 0.5, 0, []
    for t in range(rows):
        mu = 0.45 if y else 0.55  # which bin comes next depends on the outcome
        y = int(draw.uniform() < mu)
        table.append((t, mu, y))
    return pd.DataFrame(table, columns=["t", "mu", "y"]).assign(g=lambda x: x["t"] % 2)


def money_by_cell(
    table: pd.DataFrame, bins: int, c: float
) -> tuple[float, dict[Any, float], dict[Any, float]]:
    """The most money of all bettors, and of each, with plain loops: one unit for each time."""
    groups = ["", *sorted(table["g"].unique())]
    place = np.minimum((table["mu"] * bins).astype(int), bins - 1)
    cells = [(g, b) for g in groups for b in [*range(bins), "all"]]

    def rows_of(unit: Any, cell: Any) -> Any:
        inside = unit[(unit["g"] == cell[0])] if cell[0] else unit
        return inside if cell[1] == "all" else inside[place[inside.index] == cell[1]]

    full = [cell for cell in cells if len(rows_of(table, cell))]
    wholes = sum(cell[1] == "all" for cell in full)
    share = {cell: 0.5 / (wholes if cell[1] == "all" else len(full) - wholes) for cell in full}
    money = {cell: {(side, s): 0.05 for side in (1, -1) for s in SHARES} for cell in full}
    caps = {(cell, side): 0.0 for cell in full for side in (1, -1)}
    best, richest = dict.fromkeys(full, 1.0), 1.0
    for _, unit in table.groupby("t"):
        for cell in full:
            rows = rows_of(unit, cell)
            if not len(rows):
                continue
            for side in (1, -1):
                loses = rows["mu"].sum() if side > 0 else (1 - rows["mu"]).sum()
                price = c * len(rows)
                caps[cell, side] = max(caps[cell, side], loses + price, 0.01 * len(rows))
                won = (side * (rows["y"] - rows["mu"]).sum() - price) / caps[cell, side]
                for s in SHARES:
                    money[cell][side, s] *= 1 + s * won
            best[cell] = max(best[cell], sum(money[cell].values()))
        richest = max(richest, sum(share[cell] * sum(money[cell].values()) for cell in full))
    return richest, best, share


@pytest.mark.slow
@pytest.mark.parametrize(("shift", "c", "ties"), [(0.0, 0.0, 1), (0.2, 0.05, 1), (-0.2, 0.0, 4)])
def test_every_bettor_has_the_money_that_a_slow_oracle_computes(shift: float, c: float, ties: int) -> None:
    table = learned(0, rows=40, shift=shift).assign(t=lambda x: x["t"] // ties)
    report = mw.audit(
        table.sample(frac=1, random_state=0), method="betting", order="t", groups="g", bins=3, c=c
    )
    richest, best, share = money_by_cell(table, 3, c)
    assert report.p_value == pytest.approx(min(1.0, 1 / richest, *(1 / (best[k] * share[k]) for k in best)))
    for k, value in enumerate(report.table["value"]):
        low = report.table["bin_low"][k]
        cell = (value, "all" if report.table["total"][k] else round(low * 3))
        expected = min(1.0, 1 / (best[cell] * share[cell]))
        assert report.table["p_value"][k] == pytest.approx(expected, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(("runs", "most"), [(40, 6), pytest.param(100, 11, marks=pytest.mark.long)])
@pytest.mark.parametrize("make", [learned, teller])
def test_forecasts_learned_from_the_outcomes_are_refuted_no_more_often_than_is_said(
    make: Any, runs: int, most: int
) -> None:
    """At most 5% of the runs: the chance of more than 6 of 40, or more than 11 of 100, is below 1 in 200."""
    reports = [mw.audit(make(seed), method="betting", order="t", groups="g", bins=5) for seed in range(runs)]
    assert sum(report.verdict == "refuted" for report in reports) <= most
    missed = sum(np.any((r.table["gap_low"] > 0) | (r.table["gap_high"] < 0)) for r in reports)
    assert missed <= most


@pytest.mark.slow
@pytest.mark.parametrize("shift", [0.1, -0.1])
def test_wrong_forecasts_are_found(shift: float) -> None:
    found = 0
    for seed in range(10):
        report = mw.audit(learned(seed, 800, shift), method="betting", order="t", groups="g", bins=5)
        found += report.verdict == "refuted"
    assert found >= 9


def test_evidence_is_never_taken_back() -> None:
    """Once refuted, a table stays refuted, whatever comes after: the largest gain counts."""
    wrong, right = learned(0, 600, 0.2), learned(1, 3000).assign(t=lambda x: x["t"] + 600)
    both = pd.concat([wrong, right], ignore_index=True)
    first = mw.audit(wrong, method="betting", order="t", bins=1)
    assert first.verdict == mw.audit(both, method="betting", order="t", bins=1).verdict == "refuted"


def test_the_smallest_c_is_not_refuted() -> None:
    table = learned(0, 2000, 0.2)
    report = mw.audit(table, method="betting", order="t", bins=5)
    assert 0.05 < report.smallest_c < 0.2 < report.certified_c
    again = mw.audit(table, method="betting", order="t", bins=5, c=report.smallest_c)
    assert again.verdict != "refuted"
    sure = mw.audit(table, method="betting", order="t", bins=5, c=min(1.0, report.certified_c + 1e-9))
    assert sure.verdict == "certified"


def test_clusters_classes_predicates_and_small_groups_merged_into_one() -> None:
    draw = np.random.default_rng(0)
    table = learned(0, 400).assign(day=lambda x: x["t"] // 20, rest=lambda x: 1 - x["mu"])
    table["who"] = draw.choice(list("abcdefgh"), 400)
    options: Any = {"method": "betting", "order": "t", "bins": 3}
    clustered = mw.audit(table, cluster="day", **options)
    days = mw.audit(table.assign(t=table["day"]), **options)
    assert clustered.p_value == pytest.approx(days.p_value)
    assert clustered.clusters == 20
    with pytest.warns(UserWarning, match="8 groups"):
        merged = mw.audit(table, groups=["who", {"a": nw.col("who") == "a"}], max_groups=3, **options)
    assert (
        merged.groups["who"]["(5 others)"].rows
        + sum(merged.groups["who"][v].rows for v in merged.groups["who"] if "others" not in v)
        == 400
    )
    both = mw.audit(table, mu=["rest", "mu"], **options)
    assert both.bets > mw.audit(table, **options).bets


def test_every_engine_replays_the_same(tmp_path: Any) -> None:
    import duckdb
    import pyarrow as pa

    table = learned(0, 300, 0.1).assign(
        t=lambda x: pd.Timestamp("2026-01-01") + pd.to_timedelta(x["t"] // 2, "D")
    )
    frames = [
        pl.from_pandas(table),
        pl.from_pandas(table).lazy(),
        pa.Table.from_pandas(table),
        duckdb.from_df(table),
    ]
    expected = mw.audit(table, method="betting", order="t", groups="g", bins=5)
    for frame in frames:
        found = mw.audit(frame, method="betting", order="t", groups="g", bins=5)
        assert found.p_value == pytest.approx(expected.p_value, rel=1e-9)
        np.testing.assert_allclose(found.table["gap_low"], expected.table["gap_low"], atol=1e-9)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"method": "guess"}, ValueError, "method must be 'bounds' or 'betting'; got 'guess'"),
        ({"method": "betting"}, ValueError, "order must name the column of times when method='betting'"),
        ({"order": "t"}, ValueError, "order is for method='betting' only; got 't'"),
        ({"method": "betting", "order": "when"}, ValueError, "order='when' is not a column"),
        ({"method": "betting", "order": 3}, TypeError, "order must be the name of a column; got 3"),
        ({"method": "betting", "order": "t", "weight": "mu"}, ValueError, "weight must be None"),
        (
            {"method": "betting", "order": "t", "cluster": "g"},
            ValueError,
            "clusters that do not overlap in time",
        ),
    ],
)
def test_bad_settings_are_named(options: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        mw.audit(learned(0, 50), **options)


def test_rows_without_a_time_are_left_out_and_the_report_says_what_is_assumed() -> None:
    table = learned(0, 100)
    table["t"] = table["t"].astype(float)
    table.loc[:4, "t"] = math.nan
    report = mw.audit(table, method="betting", order="t", bins=3)
    assert (report.rows, report.missing["t"]) == (95, 5)
    assert "nothing was known of an outcome when its forecast was made" in str(report)
    assert "betting in order of time" in str(report)


def test_times_are_times_and_not_text() -> None:
    table = learned(0, 60)
    for text in (table["t"].astype(str), table["t"].astype(str).astype("category")):
        with pytest.raises(TypeError, match="order='t' must be a column of numbers, dates or datetimes; got"):
            mw.audit(table.assign(t=text), method="betting", order="t")


def test_the_hour_that_autumn_repeats_is_two_hours() -> None:
    import datetime as dt

    day = dt.datetime(2020, 10, 24, 22), dt.datetime(2020, 10, 25, 3)
    hours = pl.datetime_range(*day, "1h", time_zone="UTC", eager=True)
    frame = pl.DataFrame({"t": hours, "mu": [0.5] * 6, "y": [1] * 6})
    berlin = frame.with_columns(pl.col("t").dt.convert_time_zone("Europe/Berlin"))
    options: Any = {"method": "betting", "order": "t", "bins": 1}
    assert mw.audit(berlin, **options).p_value == mw.audit(frame, **options).p_value
    assert mw.audit(berlin.to_pandas(), **options).p_value == pytest.approx(
        mw.audit(frame, **options).p_value
    )


@pytest.mark.parametrize("rows", [1, 12, 200])
def test_with_one_bin_the_bin_and_the_whole_are_one_bettor(rows: int) -> None:
    """All money is 1 at the start, also where two cells are the same: else p-values would be too small."""
    table = learned(0, rows)
    money, most = {(side, s): 0.05 for side in (1, -1) for s in SHARES}, 1.0
    caps = {1: 0.0, -1: 0.0}
    for mu, y in table[["mu", "y"]].itertuples(index=False):
        for side, loses in ((1, mu), (-1, 1 - mu)):
            caps[side] = max(caps[side], loses, 0.01)
            for s in SHARES:
                money[side, s] *= 1 + s * side * (y - mu) / caps[side]
        most = max(most, sum(money.values()))
    assert mw.audit(table, method="betting", order="t", bins=1).p_value == pytest.approx(1 / most)


def test_one_class_that_is_wrong_refutes_a_c_for_all() -> None:
    draw = np.random.default_rng(0)
    table = pd.DataFrame({"a": 0.2, "b": 0.3, "c": 0.5, "t": range(1500)})
    table["y"] = draw.choice(3, p=[0.35, 0.15, 0.5], size=1500)  # the third is right
    asked: dict[str, Any] = {"mu": ["a", "b", "c"], "method": "betting", "order": "t", "bins": 1}
    least = mw.audit(table, **asked).smallest_c
    assert 0.05 < least < 0.15
    assert mw.audit(table, c=least - 1e-3, **asked).verdict == "refuted"
    assert mw.audit(table, c=least, **asked).verdict != "refuted"


def test_the_bounds_go_by_how_much_gaps_vary_and_not_by_how_large_they_are() -> None:
    """Each unit's surprise is what its gap differs from the mean of those before: here it is the first's."""
    table = pd.DataFrame({"mu": 0.25, "y": 1, "t": range(200)})
    report = mw.audit(table, method="betting", order="t", bins=1)
    half = boundary(0.75**2, 2.0, 0.05 / 2) / 200
    assert report.table["gap_low"][-1] == pytest.approx(0.75 - half, rel=1e-9)
    steady = [1, 0] * 100
    varied = mw.audit(table.assign(mu=0.5, y=steady), method="betting", order="t", bins=1)
    errors, spread = [y - 0.5 for y in steady], 0.0
    for k, error in enumerate(errors):
        spread += (error - (sum(errors[:k]) / k if k else 0.0)) ** 2
    half = boundary(spread, 2.0, 0.05 / 2) / 200
    assert varied.table["gap_low"][-1] == pytest.approx(-half, rel=1e-9)
    assert varied.table["gap_high"][-1] == pytest.approx(half, rel=1e-9)
