"""Audits by cluster: their arithmetic against a slow oracle, how often they miss, and what they find."""

import math
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import brentq

import makewhole as mw

SHARES = [0.98 * 4 / 2**k for k in range(10)]


def money(wins: Any, weight: Any, loses: Any, c: float) -> float:
    """The logarithm of a bettor's money, with plain loops; `wins` and `loses` are those at c = 0."""
    unit = max(max(loses), 0.01 * max(weight))
    ends = []
    for share in SHARES:
        if share * max(lose + c * n for lose, n in zip(loses, weight, strict=True)) > 0.999 * unit:
            ends.append(0.0)
            continue
        steps = [math.log1p(share * (win - c * n) / unit) for win, n in zip(wins, weight, strict=True)]
        ends.append(math.exp(math.fsum(steps)))
    return math.log(sum(ends) / len(ends)) if any(ends) else -math.inf


def slow_cell(rows: pd.DataFrame, share: float, c: float, risk: float) -> tuple[float, float, float]:
    """The p-value of one cell and the bounds on its gap; `share` is its part of the risk."""
    w = rows["w"]
    by = [
        (w * value).groupby(rows["day"]).sum().tolist() for value in (rows["y"] - rows["mu"], rows["mu"], 1)
    ]
    error, said, weight = by
    sides = [(error, said), ([-e for e in error], [n - m for n, m in zip(weight, said, strict=True)])]
    enough = math.log(2 / (share * risk))
    ends, logs = [], []
    for wins, loses in sides:
        logs.append(money(wins, weight, loses, c))

        def excess(at: float, wins: Any = wins, loses: Any = loses) -> float:
            return max(money(wins, weight, loses, at), -1e3) - enough

        ends.append(-1.0 if excess(-1.0) < 0 else brentq(excess, -1.0, 1.0, xtol=1e-12))
    mean = float(np.average(rows["mu"], weights=w))
    p_value = min(1.0, math.exp(-max(logs)) * 2 / share)
    return p_value, max(ends[0], -mean), min(-ends[1], 1 - mean)


@pytest.mark.parametrize(
    ("shift", "c", "weighted", "rare"),
    [(0.0, 0.0, False, False), (0.2, 0.05, True, False), (-0.15, 0.0, True, False), (0.0, 0.0, True, True)],
)
def test_every_cell_is_what_a_slow_oracle_computes(
    shift: float, c: float, weighted: bool, rare: bool
) -> None:
    table = days(0, days=60, size=12, shift=shift).assign(w=1.0)
    if rare:  # forecasts so small that the stakes are set by the number of rows
        table = table.assign(mu=0.0005 * table["mu"], y=(table.index % 97 == 0).astype(int))
    if weighted:
        table["w"] = np.random.default_rng(1).exponential(size=len(table)) + 0.1
    bins = 3
    report = mw.audit(table, cluster="day", groups="kind", bins=bins, c=c, weight="w" if weighted else None)
    place = np.minimum((table["mu"] * bins).astype(int), bins - 1)
    cells = report.table
    wholes = int(np.sum(cells["total"]))
    evidence = []
    for k, value in enumerate(cells["value"]):
        inside = (table["kind"] == value) if value else np.ones(len(table), bool)
        if not cells["total"][k]:
            inside &= place == round(cells["bin_low"][k] * bins)
        share = 0.5 / (wholes if cells["total"][k] else len(cells["value"]) - wholes)
        p_value, low, high = slow_cell(table[inside], share, c, 0.05)
        assert cells["p_value"][k] == pytest.approx(p_value, rel=1e-6)
        assert cells["gap_low"][k] == pytest.approx(low, abs=1e-6)
        assert cells["gap_high"][k] == pytest.approx(high, abs=1e-6)
        evidence.append(p_value)
    assert report.p_value <= min(evidence) * (1 + 1e-9)
    assert report.clusters == 60


def days(
    seed: int, days: int = 120, size: int = 40, shift: float = 0.0, shock: float = 0.3, sizes: str = "equal"
) -> pd.DataFrame:
    """Forecasts that are right on average (but for `shift`), on days that have good or bad weather.

    `sizes`: all days are as large; or as large as chance will have it; or, with "storms", a bad day has half
    as many rows, each with twice the error: the sums are right on average, and the means of days are not.
    """
    draw = np.random.default_rng(seed)
    base, bad = draw.uniform(0.3, 0.6, days), draw.uniform(size=days) < 0.5
    rows = np.full(days, size)
    if sizes == "chance":
        rows = draw.integers(1, 2 * size, days)
    if sizes == "storms":
        rows = np.where(bad, size // 2, size)
    error = np.where(bad, shock, -shock * (0.5 if sizes == "storms" else 1.0))
    table = pd.DataFrame({"day": np.repeat(np.arange(days), rows), "mu": np.repeat(base, rows)})
    p = np.clip(table["mu"] + np.repeat(error, rows) + shift, 0, 1)
    table["y"] = (draw.uniform(size=len(table)) < p).astype(int)
    table["kind"] = draw.choice(["jet", "prop"], len(table))
    table["week"] = table["day"] % 7
    return table


def copula(seed: int, days: int = 60, size: int = 100) -> pd.DataFrame:
    """Right forecasts with a mild shared shock: Gaussian, with correlation 0.1 within a day."""
    from scipy.stats import norm

    draw = np.random.default_rng(seed)
    mu = draw.uniform(0.05, 0.6, (days, size))
    hidden = math.sqrt(0.1) * draw.normal(size=(days, 1)) + math.sqrt(0.9) * draw.normal(size=(days, size))
    frame = pd.DataFrame({"mu": mu.ravel(), "y": (hidden < norm.ppf(mu)).astype(int).ravel()})
    return frame.assign(day=np.repeat(np.arange(days), size), week=np.repeat(np.arange(days) % 7, size))


SHAPES: dict[str, Any] = {
    "two weathers": days,
    "unequal sizes": lambda seed: days(seed, sizes="chance"),
    "smaller storms": lambda seed: days(seed, sizes="storms"),
    "all or nothing": lambda seed: days(seed, size=10, shock=1.0).assign(mu=0.5),
    "mild": copula,
}


@pytest.mark.slow
@pytest.mark.parametrize(("runs", "most"), [(30, 5), pytest.param(60, 8, marks=pytest.mark.long)])
@pytest.mark.parametrize("shape", list(SHAPES))
def test_right_forecasts_are_refuted_no_more_often_than_is_said(shape: str, runs: int, most: int) -> None:
    """At most 5% of the runs: the chance of more than 5 of 30, or more than 8 of 60, is below 1 in 300."""
    reports = [mw.audit(SHAPES[shape](seed), cluster="day", groups="week", bins=5) for seed in range(runs)]
    assert sum(report.verdict == "refuted" for report in reports) <= most
    for report in reports[:20]:
        assert report.table["gap_low"].min() <= 0 <= report.table["gap_high"].max()
    missed = sum(np.any((r.table["gap_low"] > 0) | (r.table["gap_high"] < 0)) for r in reports)
    assert missed <= most


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["two weathers", "mild"])
def test_without_clusters_such_forecasts_are_refuted_nearly_always(shape: str) -> None:
    """So the counts above can fail."""
    refuted = [
        mw.audit(SHAPES[shape](seed), groups="week", bins=5).verdict == "refuted" for seed in range(10)
    ]
    assert sum(refuted) >= 5


@pytest.mark.slow
def test_means_of_clusters_would_refute_right_forecasts_whose_storms_are_small() -> None:
    """So the third shape can tell bets on sums from bets on means."""
    refuted = 0
    for seed in range(20):
        means = (
            days(seed, days=800, size=10, sizes="storms").groupby("day").mean(numeric_only=True).reset_index()
        )
        refuted += mw.audit(means, graded=True, bins=1).verdict == "refuted"
    assert refuted >= 15


def rarely_large(seed: int, clusters: int = 400) -> pd.DataFrame:
    """Clusters of 1 row (p = 0.6) and, one in 1,000, of 2,000 rows that are all 0.

    The forecast is right: it is the mean number of events of a cluster divided by its mean size, about 0.2.
    """
    draw = np.random.default_rng(seed)
    rows = np.where(draw.uniform(size=clusters) < 0.001, 2000, 1)
    happens = (rows == 1) & (draw.uniform(size=clusters) < 0.6)
    table = pd.DataFrame({"day": np.repeat(np.arange(clusters), rows), "y": np.repeat(happens, rows)})
    return table.assign(mu=0.999 * 0.6 / (0.999 + 0.001 * 2000), kind="x")


@pytest.mark.slow
@pytest.mark.parametrize("method", ["bounds", "betting"])
def test_rare_large_clusters_break_nothing_if_their_size_is_given(method: str) -> None:
    """Of 40 tables about 27 have no large cluster; without its size, those refute right forecasts."""
    options: dict[str, Any] = {"cluster": "day", "bins": 5}
    options |= {"method": "betting", "order": "day"} if method == "betting" else {}
    tables = [rarely_large(seed) for seed in range(40)]
    given = [mw.audit(table, largest_cluster=2000, **options) for table in tables]
    assert not any(report.verdict == "refuted" for report in given)
    assert all(report.certified_c > 0.2 for report in given)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # every row has its own cluster
        unknown = [mw.audit(table, **options) for table in tables]
    assert sum(report.verdict == "refuted" for report in unknown) >= 20


def test_a_gap_is_found_if_the_largest_cluster_is_given() -> None:
    report = mw.audit(days(0, shift=0.2), cluster="day", bins=5, largest_cluster=60)
    assert report.verdict == "refuted"
    assert report.smallest_c < mw.audit(days(0, shift=0.2), cluster="day", bins=5).smallest_c


@pytest.mark.parametrize("c", [0.0, 0.05])
def test_the_given_size_sets_the_stakes(c: float) -> None:
    """The money of one cell, with plain loops: the most that a bet can lose is 25 rows of the bin's edge."""
    table = days(0, days=60, size=12, shift=0.2)
    report = mw.audit(table, cluster="day", bins=2, c=c, largest_cluster=25)
    here = table[table["mu"] < 0.5]
    cell = report.cells[(report.cells["bin_low"] == 0.0) & ~report.cells["total"]].iloc[0]
    logs = []
    for sign, edge in ((1, 0.5), (-1, 1.0)):
        wins = sign * (here["y"] - here["mu"]).groupby(here["day"]).sum() - c * here.groupby("day").size()
        unit = 25 * edge
        safe = [share if share * 25 * (edge + c) <= 0.999 * unit else None for share in SHARES]
        ends = [0.0 if share is None else float(np.prod(1 + share * wins / unit)) for share in safe]
        logs.append(math.log(np.mean(ends)))
    share = 0.5 / 2  # two bins share half of the risk
    assert cell["p_value"] == pytest.approx(min(1.0, math.exp(-max(logs)) * 2 / share), rel=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"largest_cluster": 60}, "largest_cluster needs cluster=, the column of clusters; got 60 without"),
        ({"largest_cluster": 3, "cluster": "day"}, r"no cluster exceeds; got 3, and a cluster of \d+ \(give"),
        ({"largest_cluster": 0, "cluster": "day"}, "largest_cluster must be one number above 0; got 0"),
        (
            {"largest_cluster": 3, "method": "betting", "order": "day"},
            r"no cluster \(or time\) exceeds; got 3, and one of \d+ rows",
        ),
    ],
)
def test_a_largest_cluster_that_cannot_be_is_named(options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mw.audit(days(0), bins=5, **options)


@pytest.mark.slow
@pytest.mark.parametrize(("shift", "shock", "least"), [(0.1, 0.1, 18), (-0.1, 0.1, 18), (0.2, 0.3, 18)])
def test_a_gap_in_all_rows_is_found(shift: float, shock: float, least: int) -> None:
    found = [days(seed, shift=shift, shock=shock) for seed in range(20)]
    assert sum(mw.audit(one, cluster="day", bins=5).verdict == "refuted" for one in found) >= least


def test_the_smallest_c_is_not_refuted_and_a_little_less_is() -> None:
    table = days(0, shift=0.2, shock=0.1)
    report = mw.audit(table, cluster="day", groups="kind", bins=5)
    assert 0.05 < report.smallest_c < 0.2 < report.certified_c
    assert mw.audit(table, cluster="day", groups="kind", bins=5, c=report.smallest_c).verdict != "refuted"
    less = mw.audit(table, cluster="day", groups="kind", bins=5, c=report.smallest_c - 1e-4)
    assert less.verdict == "refuted"
    sure = mw.audit(table, cluster="day", groups="kind", bins=5, c=min(1.0, report.certified_c + 1e-6))
    assert sure.verdict == "certified"


def test_classes_predicates_and_a_column_of_c_have_clusters_too() -> None:
    import narwhals as nw

    table = days(0).assign(c=0.02, rest=lambda t: 1 - t["mu"])
    both = mw.audit(table, mu=["rest", "mu"], cluster="day", groups={"jets": nw.col("kind") == "jet"}, bins=5)
    alone = mw.audit(table, cluster="day", groups={"jets": nw.col("kind") == "jet"}, bins=5)
    assert both.clusters == alone.clusters == 120
    assert both.bets == 2 * alone.bets
    assert both.certified_c >= alone.certified_c - 1e-9
    column, number = (mw.audit(table, cluster="day", bins=5, c=c) for c in ("c", 0.02))
    assert column.p_value == pytest.approx(number.p_value, rel=1e-9)


def test_as_many_clusters_as_rows_are_none_and_one_is_refused() -> None:
    table = days(0).assign(row=range(len(days(0))), same="x")
    with pytest.warns(UserWarning, match="every row has its own row: the same as no clusters"):
        alone = mw.audit(table, cluster="row")
    none = mw.audit(table)
    assert alone.p_value == pytest.approx(none.p_value)
    assert alone.clusters is None
    assert any("the same as no clusters" in note for note in alone.notes)
    with pytest.raises(ValueError, match=r"cluster='same' must have at least two clusters; got"):
        mw.audit(table, cluster="same")
    with pytest.raises(ValueError, match="cluster='nowhere' is not a column"):
        mw.audit(table, cluster="nowhere")
    wrong: Any = ["day"]
    with pytest.raises(TypeError, match="cluster must be the name of a column"):
        mw.audit(table, cluster=wrong)


@pytest.mark.parametrize("missing", [None, math.nan])
def test_rows_without_a_cluster_are_left_out_and_counted(missing: Any) -> None:
    table = days(0)
    table["day"] = table["day"].astype(object if missing is None else float)
    table.loc[:9, "day"] = missing
    report = mw.audit(table, cluster="day", bins=5)
    assert report.rows == len(table) - 10
    assert report.missing["day"] == 10
    rest = mw.audit(days(0).loc[10:], cluster="day", bins=5)
    assert report.p_value == pytest.approx(rest.p_value)


def test_the_report_says_what_is_assumed() -> None:
    report = mw.audit(days(0), cluster="day", bins=5)
    for text in (str(report), report._repr_html_(), report.to_dict()["assumed"]):
        assert "rows of different clusters are independent" in text
    assert "in 120 clusters" in str(report)
    assert "bets on whole clusters" in str(report)
    assert "no cluster can be larger than the largest one seen" in str(report)
    given = mw.audit(days(0), cluster="day", bins=5, largest_cluster=500)
    assert "no cluster can be larger than 500, as given" in str(given)
    assert given.to_dict()["largest_cluster"] == 500


def test_a_predicates_group_has_the_bounds_of_the_rows_for_which_it_is_true() -> None:
    """Those of a column's group with the same rows, but for the risk: each has one group and all rows."""
    import narwhals as nw

    table = days(0)
    true = mw.audit(table, cluster="day", groups={"jets": nw.col("kind") == "jet"}, bins=1)
    kind = mw.audit(table[table["kind"] == "jet"], cluster="day", bins=1)
    gap, own = true.groups["jets"]["yes"].gap, kind.cells.iloc[-1]
    assert gap.value == pytest.approx(own["gap"])
    assert gap.low < own["gap_low"] < gap.value < own["gap_high"] < gap.high
    assert gap.high - gap.low < 1.2 * (own["gap_high"] - own["gap_low"])
