"""The command line as a user meets it: tables, JSON, figures, messages and exit codes."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import makewhole as mw
from makewhole import cli
from makewhole.backtesting.result import BacktestResult
from makewhole.cli import main


@pytest.fixture
def log(tmp_path: Path) -> Path:
    draw = np.random.default_rng(0)
    path = tmp_path / "log.csv"
    mu = draw.uniform(size=2000).round(3)
    frame = pl.DataFrame(
        {"p": mu, "y": (draw.random(2000) < mu).astype(int), "amount": draw.normal(size=2000)}
    )
    frame.write_csv(path)
    frame.write_parquet(path.with_suffix(".parquet"))
    return path


COLUMNS = ["--mu", "p", "--stake", "amount"]


def run(*arguments: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "makewhole", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def test_help_says_what_it_is_for_and_shows_examples() -> None:
    done = run("--help")
    assert done.returncode == 0
    for words in (
        "accept fair bets on its probabilities",
        "makewhole backtest log.csv",
        "exit codes",
        "insure",
    ):
        assert words in done.stdout


def test_version() -> None:
    assert run("--version").stdout == f"makewhole {mw.__version__}\n"


def test_insure_is_the_example_of_every_doc(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["insure", "--mu", "0.5", "use=2,-10", "skip=0,0"]) == 0
    out = capsys.readouterr().out
    assert "action  use" in out
    assert "stake   -12  (pay 6 now, receive 12 if y=0)" in out
    assert "loss    -4 for certain" in out
    assert main(["insure", "--mu", "0.5", "use=2,-10", "skip=0,0", "--json", "--max-stake", "10"]) == 0
    assert json.loads(capsys.readouterr().out)["spread"] == 2.0


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_backtest_prints_a_table_and_writes_a_figure(suffix: str, log: Path) -> None:
    figure = log.with_name("loss.png")
    done = run("backtest", log.with_suffix(suffix), *COLUMNS, "--figure", figure)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    for name in ("none", "naive", "standard", "swap", "deterministic", "reserve"):
        assert f"\n {name}" in done.stdout or f"\n  {name}" in done.stdout
    assert "2,000 rows, 0 left out" in done.stdout
    assert figure.read_bytes().startswith(b"\x89PNG")


def test_backtest_json_is_what_the_library_says(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["backtest", str(log), *COLUMNS, "--correction", "deterministic", "--cells", "9", "--json"]) == 0
    )
    said = json.loads(capsys.readouterr().out)
    result = mw.backtest(pl.read_csv(log), mu="p", stake="amount", correction=mw.DeterministicSwap(9))
    assert list(said) == ["deterministic"]
    assert said["deterministic"]["total_loss"] == result.total_loss
    assert said["deterministic"]["rounds"] == 2000


def test_sound_mode_publishes_no_negative_c(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["backtest", str(log), *COLUMNS, "--mode", "sound", "--rate", "0.05", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert all(result["negative_c"] == 0 for result in said.values())
    table = pl.read_csv(log)
    f = mw.InsuredForecaster(
        None, mw.Reserve(0.05), mode="sound", max_stake=float(table["amount"].abs().to_numpy().max())
    )
    expected = mw.backtest(table, f, mu="p", stake="amount")
    assert said["reserve"]["total_loss"] == expected.total_loss


def test_a_csv_is_read_as_people_write_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "log.csv"
    late_decimals = ["1,1,2"] * 500 + ["0.5,0,2.5", "NA,1,1", "0.5,,1", "0.25,1,null"]
    path.write_text("mu,y,stake\n" + "\n".join(late_decimals) + "\n")
    assert main(["backtest", str(path), "--correction", "none", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)["none"]
    assert (said["rows"], said["missing"], said["max_stake"]) == (504, 3, 2.5)


@pytest.mark.slow
def test_the_same_seed_prints_the_same_bytes(log: Path) -> None:
    one, two = (run("backtest", log, *COLUMNS, "--json", "--seed", 3).stdout for _ in range(2))
    assert one == two


@pytest.mark.parametrize(
    ("name", "content", "arguments", "message"),
    [
        ("empty.csv", "", [], "is empty"),
        ("only_a_header.csv", "mu,y,stake\n", [], "has a header and no rows"),
        ("no_column.csv", "p,y,stake\n0.5,1,1\n", [], "column 'mu' is not in"),
        ("percent.csv", "mu,y,stake\n50,1,1\n", [], "a percentage? divide by 100"),
        ("outcome.csv", "mu,y,stake\n0.5,1,1\n0.5,3,1\n", [], "outcome='y' must be 0 or 1; got 3.0 at row 1"),
        ("text.csv", "mu,y,stake\nhigh,1,1\n", [], "mu='mu' must be a column of numbers"),
        ("not.parquet", "mu,y,stake\n0.5,1,1\n", [], "cannot be read as parquet"),
        ("log.xlsx", "x", [], "must end in .csv, .tsv"),
        ("cap.csv", "mu,y,stake\n0.5,1,9\n", ["--max-stake", "1"], "max_stake must cover"),
        ("figure.csv", "mu,y,stake\n0.5,1,9\n", ["--figure", "loss.doc"], "must end in .png, .svg or .pdf"),
        (
            "nowhere.csv",
            "mu,y,stake\n0.5,1,9\n",
            ["--figure", "no/such/folder/loss.png"],
            "must lie in a folder that exists",
        ),
    ],
)
def test_bad_files_and_values_exit_1_with_a_message(
    name: str,
    content: str,
    arguments: list[str],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / name
    path.write_text(content)
    assert main(["backtest", str(path), *arguments]) == 1
    said = capsys.readouterr()
    assert message in said.err
    assert said.err.startswith("makewhole: ")
    assert said.out == ""


def test_binary_rubbish_named_csv_is_an_error_too(tmp_path: Path) -> None:
    path = tmp_path / "rubbish.csv"
    path.write_bytes(np.random.default_rng(0).bytes(5000))
    done = run("backtest", path)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["insure", "--mu", "1.5", "a=0,1"], "mu must lie in [0, 1]; got 1.5"),
        (["insure", "--mu", "0.5", "a=0"], "ACTION must look like use=2,-10"),
        (["insure", "--mu", "0.5", "a=0,1", "a=1,2"], "every ACTION must have a different name"),
        (["backtest", "/no/such/file.csv"], "is not a file"),
    ],
)
def test_bad_values_exit_1(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 1
    assert message in capsys.readouterr().err


def test_brackets_in_a_name_are_part_of_the_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "log1.csv").write_text("mu,y,stake\n" + "0.5,1,1\n" * 3)
    (tmp_path / "log[1].csv").write_text("mu,y,stake\n" + "0.5,1,1\n" * 2)
    figure = tmp_path / "[bold]x.png"
    assert (
        main(["backtest", str(tmp_path / "log[1].csv"), "--correction", "none", "--figure", str(figure)]) == 0
    )
    out = capsys.readouterr().out
    assert "2 rows" in out
    assert "[bold]x.png" in out
    assert figure.exists()


def interrupt(command: list[str], sign: Path, **environment: str) -> tuple[int, str]:
    """Start a program, wait for its sign of life, press Ctrl-C twice; its exit code and what it said.

    Its coverage is not measured: the second Ctrl-C may come while coverage writes its file.
    """
    alone = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
    with subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=alone | environment,
    ) as process:
        try:
            while not sign.exists() and process.poll() is None:
                time.sleep(0.01)
            process.send_signal(signal.SIGINT)
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=120)
        finally:
            process.kill()
    return process.returncode, said


# The real reading, or the real backtest, again and again: it is surely at work when Ctrl-C comes.
_FOR_EVER = """
import sys
from pathlib import Path
import makewhole as mw
from makewhole.cli import files, main

owner, name = {"read": (files.TableFile, "read"), "backtest": (mw, "backtest")}[sys.argv[1]]
real = getattr(owner, name)

def for_ever(*given, **options):
    while True:
        real(*given, **options)
        Path(sys.argv[2]).touch()

setattr(owner, name, for_ever)
sys.exit(main(["backtest", sys.argv[3], "--mu", "p", "--stake", "amount"]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("work", ["read", "backtest"])
def test_control_c_at_work_exits_130(work: str, log: Path) -> None:
    pl.concat([pl.read_csv(log)] * 50).write_csv(log)
    for turn in range(3):
        sign = log.with_name(f"{turn}")
        code, said = interrupt([sys.executable, "-c", _FOR_EVER, work, str(sign), str(log)], sign)
        assert (code, said) == (130, "interrupted\n")


def test_control_c_while_it_starts_exits_130(tmp_path: Path) -> None:
    """A numpy that says that it is being imported, and never is."""
    sign = tmp_path / "importing"
    (tmp_path / "numpy.py").write_text(f"import time; open({str(sign)!r}, 'w')\nwhile True: time.sleep(0.01)")
    command = [sys.executable, "-m", "makewhole", "insure", "--mu", "0.5", "use=2,-10"]
    assert interrupt(command, sign, PYTHONPATH=str(tmp_path)) == (130, "interrupted\n")


def test_a_job_in_the_background_does_not_hear_a_control_c(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell makes it ignore SIGINT: Ctrl-C is meant for what runs in the foreground."""

    def press(*_: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        return real()

    real = cli._parser
    monkeypatch.setattr(cli, "_parser", press)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert main(["insure", "--mu", "0.5", "use=2,-10"]) == 0
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments", [[], ["insure"], ["backtest"], ["capital"], ["audit"], ["watch"], ["study"]]
)
def test_help_is_shown_on_a_terminal_that_knows_ascii_only(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    done = run(*arguments, "--help")
    assert done.returncode == 0, done.stderr
    assert done.stdout.isascii()
    assert "usage: makewhole" in done.stdout


@pytest.mark.slow
def test_a_reader_that_goes_away_is_no_error_message(log: Path) -> None:
    command = f"{sys.executable} -m makewhole backtest {log} {' '.join(COLUMNS)} | head -n 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)  # noqa: S607 - bash is there
    assert "2,000 rows" in done.stdout
    assert done.stderr == ""


@pytest.mark.slow
def test_a_wrong_command_line_exits_2() -> None:
    for arguments in ([], ["sell"], ["backtest"], ["insure", "--mu", "x", "a=0,1"]):
        done = run(*arguments)
        assert done.returncode == 2
        assert "usage: makewhole" in done.stderr


def test_interrupted_it_exits_130(monkeypatch: pytest.MonkeyPatch, log: Path) -> None:
    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(mw, "backtest", interrupt)
    assert main(["backtest", str(log), *COLUMNS]) == 130


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("seconds", "shown"), [(0.5, False), (1.5, True)])
def test_a_run_of_over_a_second_shows_a_bar_on_a_terminal(
    seconds: float, shown: bool, monkeypatch: pytest.MonkeyPatch, log: Path
) -> None:
    def slow(*_: Any, progress: Callable[[int, int], None], **options: Any) -> BacktestResult:
        clock[0] += seconds
        progress(1000, 2000)
        return real(*_, **options)

    clock, real, terminal = [0.0], mw.backtest, Terminal()
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(mw, "backtest", slow)
    monkeypatch.setenv("TERM", "xterm")
    assert main(["backtest", str(log), *COLUMNS, "--correction", "naive"]) == 0
    assert ("naive" in terminal.getvalue()) == shown


def test_cells_reach_over_the_bases_own_width(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame = pl.read_csv(log).with_columns(width=pl.lit(0.3))
    frame.write_csv(log)
    assert (
        main(["backtest", str(log), *COLUMNS, "--c-hat", "width", "--correction", "deterministic", "--json"])
        == 0
    )
    expected = mw.DeterministicSwap.for_horizon(2000, c_range=(0.3, 0.3))
    result = mw.backtest(frame, mu="p", stake="amount", c_hat="width", correction=expected)
    assert json.loads(capsys.readouterr().out)["deterministic"]["total_loss"] == result.total_loss


def test_names_and_a_capital(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "log.csv"
    frame = pl.DataFrame({"mu": [0.5] * 210, "y": [1] * 210, "stake": [0.1] * 210, "who": ["ann"] * 210})
    frame.write_csv(path)
    asked = ["--capital", "100", "--max-stake", "1", "--correction", "barrier", "--json"]
    assert main(["backtest", str(path), "--by", "who", *asked]) == 0
    (said,) = json.loads(capsys.readouterr().out).values()
    f = mw.InsuredForecaster(capital=100.0, max_stake=1.0)
    expected = mw.backtest(frame, f, by="who")
    assert said["total_loss"] == expected.total_loss
    assert expected.total_loss == pytest.approx(4.0, abs=0.1)  # her line
    frame = frame.with_columns(agency=pl.lit("x"), who=pl.Series(["ann", "bob", "eve"] * 70))
    frame.write_csv(path)
    assert main(["backtest", str(path), "--by", "agency,who", *asked]) == 0
    (said,) = json.loads(capsys.readouterr().out).values()
    expected = mw.backtest(frame, f, by=["agency", "who"])
    assert said["total_loss"] == expected.total_loss
    # Only the last of a customer's names has a line by default.
    assert expected.total_loss == mw.backtest(frame, f, by="who").total_loss
    assert expected.total_loss != mw.backtest(frame, f, by=["who", "agency"]).total_loss
    assert main(["backtest", str(path), "--correction", "barrier"]) != 0
    assert "needs --capital" in capsys.readouterr().err
