"""`makewhole audit`, from a file to an answer."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import makewhole as mw
from makewhole.cli import main
from makewhole.datasets import load_flights
from samples import classes_of, table_of


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "good.csv"
    table_of(3000, 0).assign(stake=1.0).to_csv(path, index=False)
    return path


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    path = tmp_path / "bad.parquet"
    table_of(6000, 0, lambda t: -0.2 * (t["g"] == "c")).to_parquet(path)
    return path


@pytest.mark.slow
def test_it_answers_in_words_and_in_pictures(bad: Path, tmp_path: Path, capsys: Any) -> None:
    page = tmp_path / "report.html"
    assert main(["audit", str(bad), "--by", "g", "--html", str(page)]) == 0
    said = capsys.readouterr().out
    assert "REFUTED: whoever bets that it does not happen on g=c" in said
    assert re.search(r"^c +1,\d{3} .* <- refuted$", said, re.MULTILINE)
    assert f"wrote {page}" in said
    html = page.read_text()
    assert "REFUTED" in html
    assert html.count("data:image/png;base64,") == 2
    assert not re.search(r"(src|href)=['\"](?!data:)", html)  # nothing is loaded from elsewhere
    assert all(len(line) <= 112 for line in said.splitlines() if str(tmp_path) not in line)


def test_json_is_what_the_library_says(bad: Path, capsys: Any) -> None:
    assert main(["audit", str(bad), "--by", "g", "--c", "0.05", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    report = mw.audit(pd.read_parquet(bad), groups=["g"], c=0.05)
    assert said["p_value"] == pytest.approx(report.p_value)
    assert said["groups"]["g"]["c"]["smallest_c"] == pytest.approx(report.groups["g"]["c"].smallest_c)
    assert said["sound"] is False


def test_a_pipeline_can_fail_on_it(bad: Path, good: Path, capsys: Any) -> None:
    assert main(["audit", str(bad), "--by", "g", "--fail-if-unsound"]) == 1
    assert main(["audit", str(good), "--by", "g", "--fail-if-unsound"]) == 0
    assert main(["audit", str(bad), "--by", "g", "--c", "0.3", "--fail-if-unsound"]) == 0
    capsys.readouterr()


@pytest.mark.slow
def test_stakes_weights_classes_and_a_column_of_c(tmp_path: Path, good: Path, capsys: Any) -> None:
    assert main(["audit", str(good), "--stake", "stake", "--c", "p", "--weight", "mu"]) == 0
    assert "Those who staked here lost" in capsys.readouterr().out
    path, page = tmp_path / "classes.csv", tmp_path / "classes.html"
    classes_of(2000, 0).to_csv(path, index=False)
    assert main(["audit", str(path), "--mu", "p0,p1,p2", "--by", "g", "--html", str(page)]) == 0
    assert "class: forecast" in capsys.readouterr().out
    assert page.read_text().count("data:image/png;base64,") == 4


def test_a_columns_name_is_no_pattern(tmp_path: Path, capsys: Any) -> None:
    path, table = tmp_path / "odd.csv", table_of(500, 0)
    odd = {"^k$": table["mu"], "k": 0.5, "*": table["y"], "^g$": table["g"], "g": "all"}
    pd.DataFrame(odd).to_csv(path, index=False)
    assert main(["audit", str(path), "--mu", "^k$", "--outcome", "*", "--by", "^g$", "--json"]) == 0
    said, right = json.loads(capsys.readouterr().out), mw.audit(table, groups="g")
    assert said["scores"]["brier"] == pytest.approx(right.brier)
    assert {name: found["rows"] for name, found in said["groups"]["^g$"].items()} == {
        name: found.rows for name, found in right.groups["g"].items()
    }


def test_a_tie_is_left_out_and_said(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "games.csv"
    table = table_of(300, 1).astype({"y": float})
    table.loc[0, "y"] = 0.5
    table.to_csv(path, index=False)
    assert main(["audit", str(path)]) == 0
    said = capsys.readouterr().out
    assert "299 forecasts, 1 left out" in said
    assert "note: 1 row without a decided y" in said


def test_many_groups_are_capped_and_it_says_so(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "many.csv"
    table_of(400, 2).assign(who=range(400)).to_csv(path, index=False)
    assert main(["audit", str(path), "--by", "who", "--max-groups", "50"]) == 0
    said = capsys.readouterr().out
    assert "note: who has 400 groups: the 50 largest are audited one by one, the other 350 as one" in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--mu", "nowhere"], "column 'nowhere' is not in"),
        (["--by", "nowhere"], "column 'nowhere' is not in"),
        (["--mu", "g"], "mu='g' must be a column of numbers; got String"),
        (["--outcome", "p"], "outcome='p' must be 0 or 1"),
        (["--bins", "0"], "bins must be a whole number of at least 1; got 0"),
        (["--confidence", "2"], "confidence must lie between 0 and 1; got 2.0"),
        (["--html", "report.pdf"], "--html must end in .html; got 'report.pdf'"),
        (["--html", "/no/such/folder/report.html"], "--html must lie in a folder that exists"),
    ],
)
def test_what_does_not_fit_exits_1(arguments: list[str], message: str, good: Path, capsys: Any) -> None:
    assert main(["audit", str(good), *arguments]) == 1
    said = capsys.readouterr()
    assert message in said.err
    assert said.out == ""


def test_a_file_without_rows_is_named(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "empty.csv"
    path.write_text("mu,y\n")
    assert main(["audit", str(path)]) == 1
    assert "has a header and no rows" in capsys.readouterr().err


def test_packed_and_tabbed_files_are_read_and_semicolons_are_suspected(tmp_path: Path, capsys: Any) -> None:
    table = table_of(200, 3)
    for name, options in {"a.csv.gz": {}, "a.tsv": {"sep": "\t"}, "a.tsv.gz": {"sep": "\t"}}.items():
        table.to_csv(tmp_path / name, index=False, **options)
        assert main(["audit", str(tmp_path / name), "--by", "g"]) == 0
    table.to_csv(tmp_path / "b.csv", index=False, sep=";")
    assert main(["audit", str(tmp_path / "b.csv")]) == 1
    assert "the separator looks like ';': save the file with commas" in capsys.readouterr().err


@pytest.mark.slow
def test_it_runs_as_a_program(good: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "makewhole", "audit", str(good), "--by", "g"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "OPEN: no bet on a bin of the forecast, a group, or a bin of a group is shown" in run.stdout
    assert run.stderr == ""


@pytest.mark.slow
def test_real_flights_one_rate_for_all_is_refuted_by_whoever_knows_the_hour(
    tmp_path: Path, capsys: Any
) -> None:
    events = load_flights()
    hour = np.zeros(len(events))
    hour[np.repeat(np.arange(len(events)), np.diff(events.indptr))[events.indices == 0]] = events.data[
        events.indices == 0
    ]
    when = np.array(["morning", "noon", "evening"])[np.searchsorted(np.quantile(hour, [1 / 3, 2 / 3]), hour)]
    path = tmp_path / "flights.parquet"
    pd.DataFrame({"mu": events.outcome.mean(), "y": events.outcome, "when": when}).to_parquet(path)
    assert main(["audit", str(path), "--by", "when", "--fail-if-unsound"]) == 1
    assert "REFUTED: whoever bets that it happens on when=evening" in capsys.readouterr().out
    assert main(["audit", str(path), "--fail-if-unsound"]) == 0  # but not by those who see the rate alone


def test_groups_are_read_as_they_are_written(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "codes.csv"
    path.write_text('mu,y,g,"a,b"\n' + "0.5,1,01,x\n0.5,0,1,y\n0.5,1,NA,x\n0.5,0,-,y\n0.5,1,,x\n" * 3)
    assert main(["audit", str(path), "--by", "g", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["groups"]["g"]
    assert {name: group["rows"] for name, group in found.items()} == {
        "01": 3,
        "1": 3,
        "NA": 3,
        "-": 3,
        "(missing)": 3,
    }
    assert main(["audit", str(path), "--by", "a,b", "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)["groups"]) == {"a,b"}
    assert (
        main(["backtest", str(path), "--stake", "mu", "--group", "g", "--correction", "none", "--json"]) == 0
    )
    assert "01" in json.loads(capsys.readouterr().out)["none"]["groups"]


def test_dollars_and_markup_in_names_are_shown_as_they_are(tmp_path: Path, capsys: Any) -> None:
    path, page = tmp_path / "m.csv", tmp_path / "m.html"
    names = ["$x_y_z$", "$\\frac{$", "<script>alert(1)</script>", "x" * 300]
    pd.DataFrame({"mu": 0.5, "y": np.arange(80) % 2, "g": names * 20}).to_csv(path, index=False)
    assert main(["audit", str(path), "--by", "g", "--html", str(page)]) == 0
    html = page.read_text(encoding="utf-8")
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    capsys.readouterr()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--c", ""], "--c must be a number, or name a column; got ''"),
        (["--mu", ""], "--mu must name a column, or several; got ''"),
        (["--stake", "stake,mu"], "--stake must name as many columns as --mu, 1; got 'stake,mu'"),
    ],
)
def test_names_that_do_not_fit_exit_1(arguments: list[str], message: str, good: Path, capsys: Any) -> None:
    assert main(["audit", str(good), *arguments]) == 1
    assert message in capsys.readouterr().err


def test_a_header_with_a_name_twice_is_refused(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "twice.csv"
    path.write_text("mu,y,y\n0.5,1,0\n0.4,0,1\n")
    assert main(["audit", str(path)]) == 1
    assert "must have columns of different names; 'y' occurs twice" in capsys.readouterr().err


def test_clusters_graded_outcomes_and_betting(tmp_path: Path, capsys: Any) -> None:
    draw = np.random.default_rng(0)
    mu = np.repeat(draw.uniform(0.3, 0.6, 60), 10)
    table = pd.DataFrame({"mu": mu, "y": (draw.uniform(size=600) < mu).astype(int)})
    table["day"] = [f"2026-{1 + k // 200:02}-{1 + k // 10 % 20:02}" for k in range(600)]
    table["delay"], table["n"] = draw.beta(2, 3, 600), range(600)
    path = tmp_path / "t.csv"
    table.to_csv(path, index=False)
    expected = {
        "--cluster day": mw.audit(table, cluster="day", bins=5),
        "--cluster day --largest-cluster 25": mw.audit(table, cluster="day", bins=5, largest_cluster=25),
        "--graded --outcome delay": mw.audit(table, outcome="delay", graded=True, bins=5),
        "--method betting --order n": mw.audit(table, method="betting", order="n", bins=5),
        "--method betting --order day": mw.audit(
            table.assign(day=pd.to_datetime(table["day"])), method="betting", order="day", bins=5
        ),
    }
    for options, report in expected.items():
        assert main(["audit", str(path), "--json", "--bins", "5", *options.split()]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["p_value"] == pytest.approx(report.p_value, rel=1e-9), options
        assert found["clusters"] == report.clusters
        assert found["assumed"] == report.to_dict()["assumed"]
    assert main(["audit", str(path), "--method", "betting"]) == 1
    assert "order must name the column of times" in capsys.readouterr().err
