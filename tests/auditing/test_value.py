"""The value of forecasts: costs against plain loops, bounds against known truths, curves and pictures."""

import math
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import makewhole as mw

TABLE = {"fly": (0, 90), "train": (25, 25), "stay": (40, 10)}


def log(seed: int, rows: int = 600) -> pd.DataFrame:
    draw = np.random.default_rng(seed)
    mu = draw.uniform(0, 1, rows)
    y = (draw.uniform(size=rows) < mu**1.3).astype(int)
    return pd.DataFrame(
        {"mu": mu, "y": y, "kind": draw.choice(["a", "b"], rows), "c": draw.uniform(0, 0.1, rows)}
    )


def test_every_number_is_what_plain_loops_give() -> None:
    table = log(0)
    report = mw.value(table, losses=TABLE, c="c", groups="kind")
    for point in report.points:
        inside = table if not point.group else table[table["kind"] == point.value]
        paid, insured = [], []
        for row in inside.itertuples():
            forecast = mw.Forecast(mu=row.mu, c=row.c)
            paid.append(TABLE[mw.decide(forecast, TABLE, rule="trustful").action][row.y])
            insured.append(mw.insure(forecast, TABLE).loss)
        fixed = {name: float(np.mean([pair[y] for y in inside["y"]])) for name, pair in TABLE.items()}
        knowing = float(np.mean([min(pair[y] for pair in TABLE.values()) for y in inside["y"]]))
        assert point.rows == len(inside)
        assert point.cost.value == pytest.approx(np.mean(paid))
        assert point.insured == pytest.approx(np.mean(insured))
        assert point.fixed == pytest.approx(min(fixed.values())) == pytest.approx(fixed[point.always])
        assert point.knowing == pytest.approx(knowing)
        assert point.saving.value == pytest.approx(point.fixed - point.cost.value)
        assert point.regret.value == pytest.approx(point.cost.value - knowing)
        assert point.score == pytest.approx(point.saving.value / (point.fixed - knowing))
        for bounded in (point.cost, point.saving, point.regret):
            assert bounded.low <= bounded.value <= bounded.high


def test_the_saving_against_never_acting_is_the_net_benefit() -> None:
    table = log(1)
    for point in mw.value(table).points:
        r = point.ratio
        assert r is not None
        act = table["mu"] > r
        net = (act & (table["y"] == 1)).mean() - (act & (table["y"] == 0)).mean() * r / (1 - r)
        assert (table["y"].mean() - point.cost.value) / (1 - r) == pytest.approx(net)
        assert point.fixed == pytest.approx(min(r, table["y"].mean()))
        assert point.knowing == pytest.approx(r * table["y"].mean())


@pytest.mark.slow
@pytest.mark.parametrize("runs", [60, pytest.param(400, marks=pytest.mark.long)])
def test_the_bounds_hold_for_all_ratios_and_groups_together(runs: int) -> None:
    """At 70 %: 30 % of the runs may miss; so many more have a chance below 1 in 1,000 (binomial)."""
    from scipy.stats import binom

    ratios = [0.1, 0.3, 0.5, 0.8]
    draw = np.random.default_rng(2)
    mu, kind = draw.uniform(0, 1, 150), draw.choice(["a", "b"], 150)
    truth, missed = mu**2, 0
    for _ in range(runs):
        frame = pl.DataFrame({"mu": mu, "y": (draw.uniform(size=150) < truth).astype(int), "kind": kind})
        for point in mw.value(frame, losses=ratios, groups=["kind"], confidence=0.7).points:
            inside = (kind == point.value) | (point.group == "")
            p, r = truth[inside], float(point.ratio or 0)
            cost = np.where(mu[inside] > r, r, p).mean()
            saving = min(r, p.mean()) - cost
            regret = cost - r * p.mean()
            ends = [(cost, point.cost), (saving, point.saving), (regret, point.regret)]
            if any(not bounded.low <= true <= bounded.high for true, bounded in ends):
                missed += 1
                break
    assert missed <= binom.isf(0.001, runs, 0.3)


def test_bounds_shrink_with_rows_and_a_clear_saving_is_shown() -> None:
    few, many = (mw.value(log(3, rows), losses=[0.3]).points[0].saving for rows in (300, 30_000))
    assert many.high - many.low < 0.2 * (few.high - few.low)
    assert many.low > 0


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow", "duckdb"])
def test_frames_of_any_library_give_the_same_and_gaps_are_counted(library: str) -> None:
    table = log(4)
    table.loc[:4, "mu"] = math.nan
    rows = pl.from_pandas(table, nan_to_null=True)
    frame: Any = {"pandas": lambda: table, "polars": rows.lazy, "pyarrow": rows.to_arrow}.get(
        library, lambda: 0
    )()
    if library == "duckdb":
        import duckdb

        frame = duckdb.sql("SELECT * FROM rows")
    report = mw.value(frame, losses=TABLE, groups=["kind"])
    assert (report.rows, report.missing) == (595, 5)
    assert (
        report.to_dict()["points"]
        == mw.value(table.iloc[5:], losses=TABLE, groups=["kind"]).to_dict()["points"]
    )
    assert len(report.table) == 3 or report.table.num_rows == 3
    assert "595 decisions, 5 left out" in str(report)


def test_the_report_prints_ratios_and_groups() -> None:
    curve, groups = str(mw.value(log(5), c=0.02)), str(mw.value(log(5), losses=TABLE, groups="kind"))
    assert "cost/loss 0.05" in curve
    assert "cost/loss 0.95" in curve
    assert "insured: the cost, known beforehand, at c = 0.02" in curve
    assert "kind a" in groups
    assert "rows that are independent given the forecasts" in groups


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"losses": [0.2, 1.0]}, ValueError, "losses must be ratios between 0 and 1; got 1.0 at index 1"),
        ({"losses": {"act": (1, 1)}}, ValueError, r"losses must have at least two actions; got \['act'\]"),
        (
            {"losses": {"a": (1, 1), "b": (1, 2, 3)}},
            ValueError,
            r"losses\['b'\] must have a last axis of length 2",
        ),
        ({"losses": []}, ValueError, "losses must be a table such as"),
        ({"losses": "x"}, TypeError, "losses must be a number or an array"),
        ({"confidence": 95}, ValueError, "confidence must lie between 0 and 1; got 95"),
        ({"mu": "nowhere"}, ValueError, "mu='nowhere' is not a column"),
        ({"mu": 3}, TypeError, "mu must be the name of a column; got 3"),
        ({"mu": "kind"}, TypeError, "mu must be a column of numbers; got .*, as in "),
        ({"outcome": "c"}, ValueError, "outcome must be 0 or 1"),
        ({"c": 2.0}, ValueError, r"c must lie in \[0, 1\]; got 2.0"),
        ({"groups": [1]}, TypeError, "groups must be the name of a column; got 1"),
    ],
)
def test_bad_input_is_named(options: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        mw.value(log(6), **options)
    with pytest.raises(ValueError, match="frame must have a row with all numbers; got 2 rows without"):
        mw.value(pd.DataFrame({"mu": [math.nan] * 2, "y": [1, 0]}))
