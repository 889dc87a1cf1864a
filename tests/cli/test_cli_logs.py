"""`makewhole backtest` with times, customers, classes and capital; and `makewhole capital`."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import makewhole as mw
from makewhole.cli import main

pytestmark = pytest.mark.slow  # its loops take seconds to compile


@pytest.fixture
def log(tmp_path: Path) -> Path:
    draw = np.random.default_rng(0)
    p = draw.uniform(0.05, 0.95, 600).round(3)
    q = np.clip(p + draw.normal(0, 0.1, 600), 0, 1).round(3)
    made = np.datetime64("2013-01-01", "us") + np.arange(600) * np.timedelta64(1, "h")
    known = made + draw.integers(1, 30, 600) * np.timedelta64(1, "h")
    columns = {"p": p, "y": (draw.random(600) < q).astype(int), "q": q, "b": draw.normal(size=600)}
    path = tmp_path / "log.csv"
    pl.DataFrame(columns | {"made": made, "known": known}).write_csv(path)
    return path


def said(capsys: pytest.CaptureFixture[str], *arguments: Any) -> Any:
    code = main([*map(str, arguments), "--json"])
    out = capsys.readouterr()
    assert code == 0, out.err
    return json.loads(out.out)


TIMES = ("--time", "made", "--known", "known")


def test_times_in_a_file_are_read_as_dates(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--mu", "p", "--stake", "b", *TIMES, "--correction", "standard")
    found = said(capsys, "backtest", log, *options)["standard"]
    frame = pl.read_csv(log, try_parse_dates=True)
    standard = mw.StandardRegret(0.1)
    result = mw.backtest(frame, mu="p", stake="b", time="made", known="known", correction=standard)
    for name in ("total_loss", "peak_loss", "peak_at", "drawdown", "drawdown_from", "drawdown_to", "premium"):
        assert found[name] == getattr(result, name), name
    assert found["peak_time"] == str(result.peak_time)
    assert found["drawdown_times"] == [str(time) for time in result.drawdown_times or ()]
    assert found["bound"] is None
    assert found["certificate"] == f"no bound: {result.certificate.theorem}"  # type: ignore[union-attr]  # it has one


def test_capital_and_exposure_are_the_librarys(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    limits = ("--mode", "sound", "--capital", 3, "--max-exposure", 4, "--c-range", "0,0.5")
    options = ("--mu", "p", "--stake", "b", *TIMES, *limits, "--correction", "none")
    found = said(capsys, "backtest", log, *options)["none"]
    frame = pl.read_csv(log, try_parse_dates=True)
    settings: Any = dict(mode="sound", capital=3.0, max_exposure=4.0, c_range=(0.0, 0.5))
    f = mw.InsuredForecaster(None, mw.NoCorrection(), max_stake=found["max_stake"], **settings)
    result = mw.backtest(frame, f, mu="p", stake="b", time="made", known="known")
    assert result.refused > 0
    for name in ("capital", "capital_used", "refused", "refused_stake", "total_loss"):
        assert found[name] == getattr(result, name), name
    assert found["bound"] == 3.0
    assert main(["backtest", str(log), *map(str, options)]) == 0
    out = capsys.readouterr().out
    assert "used: the peak loss as a share of the capital, 3" in out
    assert f"none: {result.refused} stakes were refused" in out


def test_customers_are_the_librarys(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    people = ("--customers", "hedgers=0.7,informed=0.2,clairvoyant=0.1", "--view", "q")
    sizes = ("--size", 5, "--losses", 4, "--max-stake", 10, "--seed", 3)
    found = said(capsys, "backtest", log, "--mu", "p", *people, *sizes, "--correction", "standard")[
        "standard"
    ]
    customers = mw.agents.Customers(0.7, 0.2, 0.1, view="q", size=5, losses=4, seed=3)
    standard = mw.StandardRegret(0.1)
    result = mw.backtest(pl.read_csv(log), mu="p", customers=customers, max_stake=10, correction=standard)
    assert found["total_loss"] == result.total_loss
    assert found["wanted_stake"] == result.wanted_stake
    assert main(["backtest", str(log), "--mu", "p", *people, "--correction", "standard"]) == 0
    assert "cap 1 (money is in caps; set --max-stake" in " ".join(capsys.readouterr().out.split())


def test_classes_are_lists_of_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    draw = np.random.default_rng(0)
    p, b = draw.dirichlet([1, 1, 1], 50), draw.normal(size=(50, 3))
    columns = {f"p{k}": p[:, k] for k in range(3)} | {f"b{k}": b[:, k] for k in range(3)}
    frame = pl.DataFrame(columns | {"y": draw.integers(0, 3, 50)})
    frame.write_csv(tmp_path / "log.csv")
    options = ("--mu", "p0,p1,p2", "--stake", "b0,b1,b2", "--correction", "reserve")
    found = said(capsys, "backtest", tmp_path / "log.csv", *options)["reserve"]
    result = mw.backtest(frame, mu=["p0", "p1", "p2"], stake=["b0", "b1", "b2"], correction=mw.Reserve())
    assert found["total_loss"] == result.total_loss
    odd = frame.rename({"p0": "p,0", "b0": "b,0"}).filter(pl.col("y") < 2)
    odd.write_csv(tmp_path / "odd.csv")
    options = ("--mu", "p,0", "--stake", "b,0", "--correction", "none")
    assert said(capsys, "backtest", tmp_path / "odd.csv", *options)["none"]["rounds"] == len(odd)


def test_the_table_says_why_there_is_no_bound(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--mu", "p", "--stake", "b", "--correction", "standard", "--correction", "reserve"]
    assert main(["backtest", str(log), *options]) == 0
    out = capsys.readouterr().out
    assert "standard: no bound: its steps get smaller" in out
    assert "peak loss" in out
    assert "reserve: no bound" not in out


def test_capital_prints_what_the_library_found(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--mu", "p", "--customers", "clairvoyant=0.02", "--premium", 0.03, "--seed", 1)
    found = said(capsys, "capital", log, *options)
    customers = mw.agents.Customers(clairvoyant=0.02, seed=1)
    report = mw.find_capital(pl.read_csv(log), mu="p", customers=customers, premium=0.03)
    assert found["smallest"] == report.smallest
    assert [point["premium"] for point in found["points"]] == [point.premium for point in report.points]
    assert [point["sufficed"] for point in found["points"]] == list(map(report.suffices, report.points))
    figure = log.with_name("capital.png")
    assert main(["capital", str(log), *map(str, options), "--figure", str(figure)]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert report.verdict() in out
    assert "It promises nothing about others." in out
    assert figure.read_bytes().startswith(b"\x89PNG")
    hedgers = said(capsys, "capital", log, "--mu", "p", "--capitals", "2,4")
    assert [point["capital"] for point in hedgers["points"]] == [2.0, 4.0]
    limited = said(capsys, "capital", log, "--mu", "p", "--capitals", "2", "--max-exposure", "1.5")
    assert limited["max_exposure"] == 1.5
    assert hedgers["max_exposure"] is None
    assert main(["capital", str(log), "--mu", "p", "--capitals", "2", "--max-exposure", "1.5"]) == 0
    assert "open bets may lose 1.5" in " ".join(capsys.readouterr().out.split())
    stakes = said(capsys, "capital", log, "--mu", "p", "--stake", "b", *TIMES)
    placed = [point["placed"] for point in stakes["points"]]
    columns: Any = dict(zip([word.removeprefix("--") for word in TIMES[::2]], TIMES[1::2], strict=True))
    report = mw.find_capital(pl.read_csv(log, try_parse_dates=True), mu="p", stake="b", **columns)
    assert placed == [point.placed for point in report.points]
    assert placed[-1] == 1.0  # with less capital, selling stops now and then


@pytest.mark.parametrize(
    ("command", "arguments", "message"),
    [
        ("backtest", ["--known", "known"], "known='known' needs time="),
        ("backtest", ["--time", "made", "--known", ""], "--known must name a column; got ''"),
        ("backtest", ["--time", "known", "--known", "made"], "known='made' must not be before time='known'"),
        ("backtest", ["--time", "w"], "--time must be a column of numbers, or of dates such as 2013-01-31"),
        ("backtest", ["--mode", "exact", "--capital", "5"], "capital can be guarded in sound mode only"),
        ("backtest", ["--c-range", "0"], "--c-range must be two numbers, such as 0,0.5; got '0'"),
        ("backtest", ["--customers", "hedgers"], "--customers must look like hedgers=0.9,clairvoyant=0.1"),
        ("backtest", ["--customers", "gamblers=1"], "must be among hedgers, informed, clairvoyant; got 'gam"),
        ("backtest", ["--customers", "informed=1"], "view must name the column that informed customers"),
        ("backtest", ["--view", "q"], "--view needs --customers; got 'q'"),
        ("backtest", ["--customers", "hedgers=1", "--stake", "b"], "stake must not be given with customers"),
        (
            "capital",
            ["--capitals", "1e-9"],
            "capital must be at least 1e-06, a millionth of max_stake",
        ),
        ("capital", ["--capitals", "many"], "--capitals must be numbers, such as 100,1000; got 'many'"),
        ("capital", ["--figure", "capital.doc"], "--figure must end in .png, .svg or .pdf"),
        ("capital", ["--premium", "-1"], "premium must be one number above 0"),
    ],
)
def test_what_does_not_fit_exits_1_with_a_message(
    command: str, arguments: list[str], message: str, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = pl.read_csv(log).with_columns(w=pl.lit("soon"), stake=pl.col("b"))
    frame.write_csv(log)
    assert main([command, str(log), "--mu", "p", *arguments]) == 1
    out = capsys.readouterr()
    assert message in out.err
    assert out.out == ""


def test_dates_that_can_be_read_two_ways_are_refused(tmp_path: Path, capsys: Any) -> None:
    log = tmp_path / "log.csv"
    log.write_text("mu,y,stake,t\n0.5,1,1,02/01/2013\n0.5,0,1,01/02/2013\n", encoding="utf-8")
    assert main(["backtest", str(log), "--time", "t"]) == 1
    assert "dates such as 2013-01-31" in (said := capsys.readouterr().err)
    assert "02/01/2013" in said
    log.write_text("mu,y,stake,t\n0.5,1,1,2013-01-02\n0.5,0,1,soon\n", encoding="utf-8")
    assert main(["backtest", str(log), "--time", "t"]) == 1
    assert "has 'soon'" in capsys.readouterr().err


def test_stakes_with_the_same_id_are_on_one_forecast(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = 30
    frame = pl.DataFrame({"mu": [0.5] * rows, "y": [1, 1, 0] * 10, "stake": [1.0] * rows})
    frame = frame.with_columns(game=pl.Series([k // 3 for k in range(rows)]), y=pl.lit(1))
    path = tmp_path / "log.csv"
    frame.write_csv(path)
    found = said(capsys, "backtest", path, "--id", "game", "--capital", 20, "--correction", "barrier")[
        "barrier"
    ]
    result = mw.backtest(frame, mw.InsuredForecaster(capital=20.0, max_stake=3.0), id="game")
    assert (found["rounds"], found["max_stake"]) == (10, 3.0)
    assert found["total_loss"] == result.total_loss


def test_a_model_may_say_less_than_0_where_the_correction_allows_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "log.csv"
    frame = pl.DataFrame({"mu": [0.5] * 9, "y": [1] * 9, "stake": [1.0] * 9, "w": [-0.1] * 9})
    frame.write_csv(path)
    found = said(capsys, "backtest", path, "--c-hat", "w", "--capital", 5, "--correction", "none")["none"]
    settings: Any = dict(capital=5.0, max_stake=1.0, c_range=(-0.1, 0.5))
    result = mw.backtest(frame, mw.InsuredForecaster(None, mw.NoCorrection(), **settings), c_hat="w")
    assert found["total_loss"] == result.total_loss
