"""Audits against known truths, and against others who compute the same."""

import math
import warnings
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.calibration import calibration_curve
from sklearn.metrics import brier_score_loss, log_loss

import makewhole as mw
from samples import classes_of, table_of

# --- known truths -----------------------------------------------------------------------------------------


def test_planted_miscalibration_in_one_group_is_found_and_its_size_lies_inside_its_bounds() -> None:
    table = table_of(20_000, 0, lambda t: -0.12 * (t["g"] == "c"))
    report = mw.audit(table, groups=["g"])
    assert not report.sound
    assert report.p_value < 1e-6
    assert (report.best.group, report.best.value, report.best.stake) == ("g", "c", -1)
    inside = table["g"] == "c"
    planted = float((table["p"] - table["mu"])[inside].mean())
    gap = report.groups["g"]["c"].gap
    assert gap.low <= planted <= gap.high
    assert gap.high < 0
    assert [name for name, found in report.groups["g"].items() if found.p_value < 0.05] == ["c"]
    assert 0.05 < report.smallest_c < 0.12
    assert mw.audit(table, groups=["g"], c=0.125).sound
    assert not mw.audit(table, groups=["g"], c=0.03).sound
    least = mw.audit(table, groups=["g"], c=report.smallest_c)
    assert least.sound
    assert least.p_value == pytest.approx(0.05)


@pytest.mark.slow
@pytest.mark.parametrize("runs", [100, pytest.param(1000, marks=pytest.mark.long)])
def test_over_many_data_sets_all_bounds_hold_together_and_right_forecasts_are_rarely_refuted(
    runs: int,
) -> None:
    level = 0.8  # a low level, so that failing is possible
    options: dict[str, Any] = dict(groups=["g"], bins=5, confidence=level)
    covered = refuted = 0
    for seed in range(runs):
        mu, g, p, y = draws(400, seed, shift=0.1)
        cells = mw.audit(pl.DataFrame({"mu": mu, "g": g, "y": y}), **options).table
        truth = true_gaps(mu, g, p, cells, bins=5)
        covered += bool(np.all((cells["gap_low"] <= truth + 1e-12) & (truth <= cells["gap_high"] + 1e-12)))
        mu, g, _, y = draws(400, seed + runs, shift=0.0)
        refuted += not mw.audit(pl.DataFrame({"mu": mu, "g": g, "y": y}), **options).sound
    error = math.sqrt(level * (1 - level) / runs)
    assert covered / runs >= level - 3 * error
    assert refuted / runs <= 1 - level + 3 * error


@pytest.mark.slow
def test_the_same_rows_six_times_over_are_refuted_too_often() -> None:
    """So the count above can fail: these outcomes are not independent, and it shows."""
    refuted = 0
    for seed in range(100):
        mu, g, _, y = draws(60, seed, shift=0.0)
        table = pl.DataFrame({"mu": mu, "g": g, "y": y})
        refuted += not mw.audit(pl.concat([table] * 6), groups=["g"], bins=5, confidence=0.8).sound
    assert refuted / 100 > 0.2 + 3 * math.sqrt(0.2 * 0.8 / 100)


def draws(rows: int, seed: int, shift: float) -> tuple[Any, Any, Any, Any]:
    draw = np.random.default_rng(seed)
    mu, g = draw.uniform(0.02, 0.98, rows), draw.choice(list("abcd"), rows)
    p = np.clip(mu + shift * np.sin(9 * mu), 0, 1)
    return mu, g, p, (draw.uniform(size=rows) < p).astype(int)


def true_gaps(mu: Any, g: Any, p: Any, cells: dict[str, Any], bins: int) -> Any:
    place = np.minimum((mu * bins).astype(int), bins - 1)
    truth = []
    for value, low, high in zip(cells["value"], cells["bin_low"], cells["bin_high"], strict=True):
        inside = (g == value) if value else np.ones(len(mu), bool)
        if high - low < 1:
            inside &= place == round(low * bins)
        truth.append(float((p - mu)[inside].mean()))
    return np.array(truth)


@pytest.mark.slow
@settings(max_examples=60)
@given(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 400)), min_size=1, max_size=6), st.floats(0, 1))
def test_sound_if_and_only_if_the_largest_gap_is_at_most_c(cells: list[Any], c: float) -> None:
    """The proposition, where the truth is known: of 400 rows with the same forecast, so many happened."""
    bins, rows = 12, 400
    levels = {min(int(mu * bins), bins - 1): (mu, happened) for mu, happened in cells}
    mce = max(abs(happened / rows - mu) for mu, happened in levels.values())
    # any bet that depends on μ, by brute force
    won = max(b * (happened / rows - mu) - c for mu, happened in levels.values() for b in (-1, 1))
    assert (won <= 0) == (mce <= c)
    table = pd.DataFrame(
        {
            "mu": np.repeat([mu for mu, _ in levels.values()], rows),
            "y": np.concatenate([np.arange(rows) < happened for _, happened in levels.values()]),
        }
    )
    assert mw.audit(table, bins=bins).mce.value == pytest.approx(mce, abs=1e-12)
    audited = mw.audit(table, bins=bins, c=c)
    if mce <= c:
        assert audited.sound
    if mce > c + 0.2:  # more than chance
        assert not audited.sound
    assert audited.best.wins.low <= max(0.0, won)


def test_what_the_best_customer_wins_is_what_no_other_beats() -> None:
    table = table_of(3000, 1, lambda t: 0.2 * (t["mu"] < 0.4) * (t["g"] == "a"))
    report = mw.audit(table, groups=["g"], c=0.02, bins=8)
    place = np.minimum((table["mu"] * 8).astype(int), 7)
    error = table["y"] - table["mu"]
    best = 0.0
    for value in [None, *"abcd"]:
        inside = table["g"].notna() if value is None else table["g"] == value
        won = sum(
            max(0.0, abs(error[inside & (place == k)].sum()) - 0.02 * int((inside & (place == k)).sum()))
            for k in range(8)
        )
        best = max(best, won / int(inside.sum()))
        if value is not None:
            assert report.groups["g"][value].wins == pytest.approx(won / int(inside.sum()))
    assert report.wins == pytest.approx(best)
    assert 0 < report.wins_low <= report.wins


# --- other implementations --------------------------------------------------------------------------------


def test_curve_and_scores_are_scikit_learns() -> None:
    table = table_of(5000, 2, 0.05)
    report = mw.audit(table, bins=15)
    happened, said = calibration_curve(table["y"], table["mu"], n_bins=15)
    part = np.array(
        [high - low < 1 for low, high in zip(report.table["bin_low"], report.table["bin_high"], strict=True)]
    )
    np.testing.assert_allclose(report.table["outcome"][part], happened)
    np.testing.assert_allclose(report.table["mu"][part], said)
    assert report.brier == pytest.approx(brier_score_loss(table["y"], table["mu"]))
    assert report.log_loss == pytest.approx(log_loss(table["y"], table["mu"]))
    s = report.scores
    assert s.brier == pytest.approx(s.reliability - s.resolution + s.uncertainty + s.within)
    binned = table.assign(mu=(np.floor(table["mu"] * 15) + 0.5) / 15)  # then the bins see all
    assert mw.audit(binned, bins=15).within == pytest.approx(0, abs=1e-12)


def test_weights_count_as_rows_do() -> None:
    table = table_of(600, 3, 0.1).assign(w=np.random.default_rng(0).integers(1, 4, 600))
    repeated = table.loc[np.repeat(table.index, table["w"])]
    weighted, plain = mw.audit(table, weight="w", groups="g"), mw.audit(repeated, groups="g")
    for name in ("ece", "brier", "reliability", "resolution", "uncertainty", "within", "log_loss", "wins"):
        assert getattr(weighted, name) == pytest.approx(getattr(plain, name))
    np.testing.assert_allclose(weighted.table["gap"], plain.table["gap"])
    # but they are no more evidence than the rows there are
    assert np.all(
        weighted.table["gap_high"] - weighted.table["gap_low"]
        >= plain.table["gap_high"] - plain.table["gap_low"]
    )
    assert "w weighs rows and does not count them: the evidence is that of 600 rows" in str(weighted)
    same, none = mw.audit(table.assign(w=2.5), weight="w", groups="g"), mw.audit(table, groups="g")
    np.testing.assert_allclose(same.table["gap"], none.table["gap"])
    np.testing.assert_allclose(same.table["gap_high"], none.table["gap_high"])
    assert same.p_value == pytest.approx(none.p_value)


def test_what_those_very_customers_won() -> None:
    table = table_of(500, 4).assign(stake=np.random.default_rng(0).normal(size=500), c=0.01)
    report = mw.audit(table, stake="stake", c="c", groups="g")
    won = mw.payment(table["stake"].to_numpy(), table["y"].to_numpy(), table["mu"].to_numpy(), 0.01)
    assert report.won == pytest.approx(won.sum())
    assert report.staked == pytest.approx(table["stake"].abs().sum())
    for value, found in report.groups["g"].items():
        assert found.won == pytest.approx(won[table["g"] == value].sum())
    assert "Those who staked here" in str(report)


# --- classes ----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_classes_are_audited_one_by_one_and_jointly() -> None:
    names = ["p0", "p1", "p2"]
    table = classes_of(6000, 0)
    report = mw.audit(table, mu=names, groups="g")
    assert report.sound
    proba, y = table[names].to_numpy(), table["y"].to_numpy()
    assert report.log_loss == pytest.approx(log_loss(y, proba))
    assert report.brier == pytest.approx(((np.eye(3)[y] - proba) ** 2).sum(axis=1).mean())
    for k in range(3):
        alone = mw.audit(table.assign(z=(y == k)), mu=names[k], outcome="z")
        assert report.by_class[k].brier == pytest.approx(alone.brier)
        assert report.by_class[k].log_loss == pytest.approx(alone.log_loss)
        assert report.by_class[k].ece == pytest.approx(alone.ece)
    twisted = mw.audit(classes_of(6000, 1, twist=0.6), mu=names)
    assert not twisted.sound
    assert twisted.best.class_ in (0, 1)
    assert "class" in str(twisted)
    gone = table.copy()
    gone.loc[4, "p1"] = math.nan
    assert mw.audit(gone, mu=names).rows == 5999
    impossible = pd.concat(
        [table, pd.DataFrame({"p0": [0.0], "p1": [0.5], "p2": [0.5], "y": [0], "g": ["a"]})]
    )
    assert mw.audit(impossible, mu=names).log_loss == math.inf
    never = pd.concat([table, pd.DataFrame({"p0": [0.0], "p1": [0.5], "p2": [0.5], "y": [1], "g": ["a"]})])
    assert mw.audit(never, mu=names).log_loss < math.inf


# --- bad input --------------------------------------------------------------------------------------------


def test_missing_numbers_are_counted_and_said() -> None:
    table = table_of(100, 5)
    table.loc[[3, 4], "mu"] = math.nan
    table["y"] = table["y"].astype("Int64")
    table.loc[[4, 5, 6], "y"] = pd.NA
    report = mw.audit(table)
    assert (report.rows, report.incomplete, report.missing) == (96, 4, {"mu": 2, "y": 3})
    assert "note: 2 rows without mu" in str(report)
    assert "4 left out, missing or undecided" in str(report)


def test_constant_forecasts_single_rows_and_edges_work() -> None:
    one = pd.DataFrame({"mu": [1.0], "y": [1]})
    assert mw.audit(one).sound
    assert "1 forecast;" in str(mw.audit(one))
    constant = pd.DataFrame({"mu": [0.5] * 50, "y": [0, 1] * 25, "g": ["x"] + ["y"] * 49})
    report = mw.audit(constant, groups="g")
    assert report.sound
    assert report.groups["g"]["x"].rows == 1
    assert 0.45 < report.groups["g"]["x"].gap.high <= 0.5
    assert mw.audit(constant, bins=1).mce.value == 0.0
    wrong = pd.DataFrame({"mu": [0.0] * 5, "y": [1] * 5})
    assert mw.audit(wrong).p_value == 0.0
    # Two cells, two ends, nine tenths of the risk.
    assert mw.audit(wrong).smallest_c == pytest.approx((0.9 * 0.05 / 4) ** (1 / 5))


@pytest.mark.slow
def test_a_hundred_thousand_groups_are_capped_with_a_warning_that_says_what_was_left_out() -> None:
    rows = 120_000
    table = pd.DataFrame({"mu": 0.5, "y": np.arange(rows) % 2, "who": np.arange(rows) % 100_000})
    with pytest.warns(
        UserWarning, match="who has 100,000 groups: the 1,000 largest .* the other 99,000 as one"
    ):
        report = mw.audit(table, groups="who")
    assert len(report.groups["who"]) == 1001
    assert report.groups["who"]["(99,000 others)"].rows == rows - 2000
    assert "who has 100,000 groups" in str(report)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        few = table.assign(who=table["who"] % 5000)
        assert len(mw.audit(few, groups="who", max_groups=5000).groups["who"]) == 5000


@pytest.mark.parametrize(
    ("change", "options", "error", "message"),
    [
        (lambda t: t[:0], {}, ValueError, "frame must have a row with all numbers; got no rows"),
        (lambda t: t.assign(mu=math.nan), {}, ValueError, "got 50 rows, each with a missing number"),
        (lambda t: t.assign(y=2), {}, ValueError, "outcome='y' must be 0 or 1; got 2"),
        (lambda t: t.assign(y=0.5), {}, ValueError, r"a tie\? undecided=0.5"),
        (lambda t: t.assign(mu=45.0), {}, ValueError, r"must lie in \[0, 1\]; got 45 \(a percentage"),
        (lambda t: t.assign(mu="0.5"), {}, TypeError, "mu='mu' must be a column of numbers; got .*'0.5'"),
        (lambda t: t.assign(mu="45 %"), {}, TypeError, r"as in '45 %' \(a percentage\? make it a number"),
        (lambda t: t.assign(y="yes"), {}, TypeError, r"as in 'yes' \(map it to 0 and 1 first\)"),
        (lambda t: t.assign(mu=math.inf), {}, ValueError, r"mu='mu' must lie in \[0, 1\]; got inf"),
        (lambda t: t.assign(mu=-0.1), {}, ValueError, r"must lie in \[0, 1\]; got -0.1"),
        (
            lambda t: t.assign(c=-0.1),
            dict(c="c"),
            ValueError,
            r"c='c' must lie in \[0, 1\]; got -0.1",
        ),
        (lambda t: t.assign(b=math.inf), dict(stake="b"), ValueError, "stake='b' must be finite; got inf"),
        (lambda t: t, dict(c=-1), ValueError, r"c must lie in \[0, 1\]; got -1"),
        (lambda t: t, dict(bins=0), ValueError, "bins must be a whole number of at least 1; got 0"),
        (lambda t: t, dict(confidence=1.0), ValueError, "confidence must lie between 0 and 1; got 1.0"),
        (lambda t: t, dict(groups=["nowhere"]), ValueError, "groups='nowhere' is not a column"),
        (lambda t: t, dict(groups=[3]), TypeError, "groups must be names of columns, or a mapping .* got 3"),
        (lambda t: t, dict(groups={"": "g"}), ValueError, "every entry of groups must have a name; got ''"),
        (lambda t: t, dict(groups={"far": 3}), TypeError, r"groups\['far'\] must be a column or a narwhals"),
        (
            lambda t: t,
            dict(mu=["mu"]),
            TypeError,
            "mu must be the name of a column, or a list of at least two names",
        ),
        (lambda t: t, dict(mu=0), TypeError, "mu must be the name of a column, or a list .* got 0"),
        (lambda t: t, dict(outcome=["y"]), TypeError, "outcome must be the name of a column"),
        (lambda t: t, dict(weight=3.0), TypeError, "weight must be the name of a column; got 3.0"),
        (lambda t: t, dict(confidence=[0.9]), ValueError, "confidence must be one number"),
        (lambda t: t, dict(c=5), ValueError, r"c must lie in \[0, 1\]; got 5 \(a percentage"),
        (
            lambda t: t,
            dict(groups=["g", "g"]),
            ValueError,
            "every entry of groups must have a different name; got 'g' twice",
        ),
        (lambda t: t.assign(w=0.0), dict(weight="w"), ValueError, "got 50 rows, each with a missing number"),
        (lambda t: t, dict(mu=["mu", "mu"]), ValueError, r"the sum of mu=\['mu', 'mu'\] must be 1"),
        (lambda t: t, dict(mu=["mu", "q"], stake="y"), ValueError, "must be one per class, 2 of them"),
        (
            lambda t: t.assign(y=7),
            dict(mu=["mu", "q"]),
            ValueError,
            "must be a class index, one of 0 … 1; got 7",
        ),
        (lambda t: t, dict(c=["mu", "y"]), ValueError, "must be one per class, 1 of them"),
        (lambda t: t, dict(mu=["mu", "q"], c=[-0.5, 0.1]), ValueError, "c must lie in .* got -0.5"),
    ],
)
def test_bad_input_is_named(change: Any, options: Any, error: Any, message: str) -> None:
    table = table_of(50, 6).assign(q=lambda t: 1 - t["mu"])
    with pytest.raises(error, match=message):
        mw.audit(change(table), **options)


ARRAY: Any = np.linspace(0, 1, 50)
PAIR: Any = [0.5, 0.5]


@pytest.mark.parametrize(
    ("call", "named", "given"),
    [
        (lambda t: mw.audit(ARRAY, ARRAY), "frame must be a dataframe", r"a ndarray of shape \(50,\)"),
        (lambda t: mw.audit([1, 2], PAIR), "frame must be a dataframe", r"\[1, 2\]"),
        (lambda t: mw.audit(ARRAY.tolist()), "frame must be a dataframe", "a list of 50"),
        (lambda t: mw.audit({"mu": ARRAY, "y": ARRAY}), "frame must be a dataframe", "a dict of 2"),
        (lambda t: mw.audit(t["mu"]), "frame must be a dataframe", r"a Series of shape \(50,\)"),
        (lambda t: mw.audit("log.csv"), "frame must be a dataframe", "'log.csv'"),
        (lambda t: mw.audit(t, ARRAY), "mu must be the name of a column", r"a ndarray of shape \(50,\)"),
        (lambda t: mw.audit(t, "mu", t["y"]), "outcome must be the name of a column", "a Series of shape"),
        (lambda t: mw.audit(t, c=ARRAY), "c must be a number or the name of a column", "a ndarray of shape"),
        (lambda t: mw.audit(t, stake=ARRAY), "stake must be the name of a column", "a ndarray of shape"),
        (lambda t: mw.audit(t, weight=ARRAY), "weight must be the name of a column", "a ndarray of shape"),
        (lambda t: mw.audit(t, groups=t["g"]), "groups must be names of columns", "a Series of shape"),
    ],
)
def test_arrays_instead_of_a_frame_and_its_columns_are_told_what_to_do(
    call: Any, named: str, given: str
) -> None:
    with pytest.raises(TypeError, match=f"{named}.*; got {given}") as raised:
        call(table_of(50, 6))
    if named.startswith("frame"):
        assert 'mw.audit(pandas.DataFrame({"p": p, "y": y}), mu="p", outcome="y")' in str(raised.value)
    assert len(str(raised.value)) < 300


def test_the_scores_are_properties_of_the_report_and_nothing_else_is() -> None:
    report = mw.audit(table_of(300, 8))
    for name in report.scores._fields:
        assert getattr(report, name) == getattr(report.scores, name)
    assert not hasattr(report, "nonsense")


def test_ties_are_left_out_where_asked_for_and_predicates_overlap() -> None:
    table = table_of(200, 7).astype({"y": float})
    table.loc[5, "y"] = 0.5
    rules = {"low": nw.col("mu") < 0.5, "a or b": nw.col("g").is_in(["a", "b"]), "letter": "g"}
    report = mw.audit(table, undecided=0.5, groups=rules)
    assert report.rows == 199
    assert "1 row without a decided y" in str(report)
    assert report.groups["low"]["yes"].rows == int((table["mu"] < 0.5).sum()) - int(table.loc[5, "mu"] < 0.5)
    assert sum(found.rows for found in report.groups["letter"].values()) == 199
    assert report.groups["a or b"]["yes"].rows == sum(report.groups["letter"][v].rows for v in "ab")
