"""Three verdicts, refuted, certified and open: how often they are wrong, and that they fit the numbers."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import makewhole as mw
from makewhole.cli import main
from samples import table_of


def planted(rows: int, seed: int, gap: float) -> pd.DataFrame:
    """The truth is `gap` off in group a, the other way in group b, and as forecast in c; p is the truth."""
    draw = np.random.default_rng(seed)
    table = pd.DataFrame({"mu": draw.uniform(0.1, 0.9, rows), "g": draw.choice(list("abc"), rows)})
    table["p"] = np.clip(table["mu"] + gap * table["g"].map({"a": 1.0, "b": -1.0, "c": 0.0}), 0, 1)
    table["y"] = (draw.uniform(size=rows) < table["p"]).astype(int)
    return table


def true_gaps(table: pd.DataFrame, report: Any) -> Any:
    """The gap of every cell of the report, from the true probabilities."""
    bins = np.minimum((table["mu"] * report.bins).astype(int), report.bins - 1)
    gaps = []
    for value, low, total in zip(*(report.table[k] for k in ("value", "bin_low", "total")), strict=True):
        rows = (table["g"] == value) if value else pd.Series(True, index=table.index)
        if not total:
            rows &= bins == round(low * report.bins)
        gaps.append(abs((table["p"] - table["mu"])[rows].mean()))
    return np.array(gaps)


@pytest.mark.slow
@pytest.mark.parametrize("runs", [40, pytest.param(150, marks=pytest.mark.long)])
@pytest.mark.parametrize(("rows", "gap"), [(100, 0.0), (1000, 0.05), (10_000, 0.1)])
def test_a_certified_c_is_at_least_as_wide_as_needed_in_all_but_one_run_in_twenty(
    rows: int, gap: float, runs: int
) -> None:
    """In all tables, for all cells together. Three standard errors are allowed."""
    wrong = 0
    for seed in range(runs):
        table = planted(rows, seed, gap)
        report = mw.audit(table, groups="g", bins=5)
        gaps, certified = true_gaps(table, report), np.array(report.table["certified_c"])
        assert report.certified_c == certified.max()
        wrong += bool((certified < gaps).any())
        refuted = np.array(report.table["smallest_c"]) > gaps + 1e-9
        wrong += bool(refuted.any())  # a c that would do is called too small
    assert wrong / runs <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / runs)


@pytest.mark.slow
@pytest.mark.parametrize("runs", [60, pytest.param(200, marks=pytest.mark.long)])
def test_calibrated_forecasts_are_refuted_in_at_most_one_run_in_twenty_and_bad_ones_are_found(
    runs: int,
) -> None:
    calm = sum(mw.audit(planted(2000, s, 0.0), groups="g", bins=5).verdict == "refuted" for s in range(runs))
    bad = [mw.audit(planted(2000, s, 0.2), groups="g", bins=5).verdict for s in range(runs // 4)]
    assert calm / runs <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / runs)
    assert bad == ["refuted"] * (runs // 4)


widths = st.floats(0, 1)


@pytest.mark.slow
@given(st.integers(1, 400), st.integers(0, 10**6), widths, st.floats(0, 0.4), st.booleans(), st.booleans())
def test_verdicts_and_numbers_never_contradict_each_other(
    rows: int, seed: int, c: float, gap: float, weighted: bool, grouped: bool
) -> None:
    table = planted(rows, seed, gap)
    table["w"] = np.random.default_rng(seed).exponential(size=rows) + 1e-6
    options: dict[str, Any] = {"groups": "g"} if grouped else {}
    options |= {"weight": "w"} if weighted else {}
    report = mw.audit(table, c=c, bins=4, **options)
    assert report.smallest_c <= report.certified_c
    assert (report.verdict == "refuted") == (report.smallest_c > c) == (not report.sound)
    assert (report.verdict == "certified") == (report.certified_c <= c)
    for name in ("smallest_c", "certified_c"):
        assert getattr(report, name) == max(report.table[name])
        for found in report.groups.values():
            for value, one in found.items():
                cells = [
                    x for x, v in zip(report.table[name], report.table["value"], strict=True) if v == value
                ]
                assert getattr(one, name) == max(cells)
    assert ("sound" in " ".join(report.sentences())) == (report.verdict == "certified")
    wider = mw.audit(table, c=min(1.0, report.certified_c * (1 + 1e-9) + 1e-9), bins=4, **options)
    assert wider.verdict == "certified"


def test_the_number_of_rows_that_would_certify_is_about_right() -> None:
    table = planted(4000, 1, 0.0)
    report = mw.audit(table, groups="g", bins=2, c=0.05)
    assert report.verdict == "open"
    assert report.outlook.rows is not None
    assert f"About {report.outlook.rows:,} rows like these" in str(report)
    copies = report.outlook.rows / len(table)
    again = pd.concat([table] * int(np.ceil(1.05 * copies)), ignore_index=True)
    assert mw.audit(again, groups="g", bins=2, c=0.05).verdict == "certified"
    fewer = pd.concat([table] * int(0.8 * copies), ignore_index=True)
    assert mw.audit(fewer, groups="g", bins=2, c=0.05).verdict == "open"


@pytest.mark.slow
def test_these_rows_would_have_shown_a_gap_as_large_as_is_said() -> None:
    shown = mw.audit(table_of(5000, 0), bins=2).outlook.shown
    found = [
        mw.audit(table_of(5000, seed, shift), bins=2).verdict == "refuted"
        for shift in (0.5 * shown, 2.0 * shown)
        for seed in range(20)
    ]
    assert sum(found[:20]) < 10
    assert sum(found[20:]) == 20


@pytest.mark.parametrize("rows", [1, 3])
def test_one_row_certifies_nothing(rows: int) -> None:
    report = mw.audit(pd.DataFrame({"mu": [0.5] * rows, "y": [1] * rows}), c=0.2)
    assert report.verdict == "open"
    assert report.certified_c == pytest.approx(0.5)
    assert "sound" not in str(report)
    assert mw.audit(pd.DataFrame({"mu": [0.5], "y": [1]}), c=0.5).verdict == "certified"  # no bet can win


def test_classes_have_verdicts_too() -> None:
    draw = np.random.default_rng(0)
    p = draw.dirichlet([2, 2, 2], 20_000)
    y = (draw.uniform(size=20_000)[:, None] > np.cumsum(p, axis=1)).sum(axis=1)
    table = pd.DataFrame(p, columns=["a", "b", "c"]).assign(y=y)
    options: dict[str, Any] = {"mu": ["a", "b", "c"], "bins": 2}
    assert mw.audit(table, **options).verdict == "open"
    certified = mw.audit(table, **options).certified_c
    assert mw.audit(table, c=certified, **options).verdict == "certified"
    assert mw.audit(table.assign(y=0), **options).verdict == "refuted"


def test_a_report_says_what_it_assumes_how_and_when_it_was_made_and_by_what(
    tmp_path: Path, capsys: Any
) -> None:
    path = tmp_path / "table.csv"
    table_of(300, 0).to_csv(path, index=False)
    report = mw.audit(table_of(300, 0), groups="g", c=0.1, bins=5)
    assert "by audit(frame, c=0.1, groups='g', bins=5)" in report.made
    assert report.to_dict()["made"] == report.made
    assert main(["audit", str(path), "--by", "g", "--bins", "5", "--html", str(tmp_path / "a.html")]) == 0
    printed, page = capsys.readouterr().out, (tmp_path / "a.html").read_text()
    for said in (printed.replace("\n", " "), page, report._repr_html_()):
        assert "Assumed: independent rows" in said
        assert "Method: the bounds on counts of Hoeffding" in said
        assert f"Made {report.made[:10]} by " in said
    assert f"makewhole audit {path} --by g --bins 5 --html {tmp_path / 'a.html'}" in page


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--fail-if-refuted"], 0),
        (["--fail-if-unsound"], 0),
        (["--fail-unless-certified", "0.001"], 1),
        (["--fail-unless-certified", "0.9"], 0),
        (["--c", "0.9", "--fail-unless-certified", "0.001"], 1),
        (["--fail-unless-certified", "1.5"], 1),
    ],
)
def test_a_pipeline_can_ask_for_a_certificate(
    arguments: list[str], code: int, tmp_path: Path, capsys: Any
) -> None:
    path = tmp_path / "table.csv"
    table_of(3000, 0).to_csv(path, index=False)
    assert main(["audit", str(path), "--bins", "3", *arguments]) == code
    said = capsys.readouterr()
    assert said.err == ("" if "1.5" not in arguments else said.err)
    assert ("--fail-unless-certified must be a c in [0, 1]; got 1.5" in said.err) == ("1.5" in arguments)
