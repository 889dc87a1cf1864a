"""`makewhole watch`: files, lines on standard input, state that goes on, and exit codes."""

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import makewhole as mw
from makewhole.cli import main


def write_days(path: Path, gap: float, days: int = 90) -> pl.DataFrame:
    """Write 30 forecasts a day; from day 30 on, those of UA are off by `gap`."""
    draw = np.random.default_rng(0)
    day = np.repeat(np.arange(days), 30)
    carrier = np.where(draw.uniform(size=len(day)) < 0.5, "AA", "UA")
    mu = draw.uniform(0.2, 0.5, len(day))
    truth = mu + gap * ((carrier == "UA") & (day >= 30))
    date = np.datetime64("2026-01-01") + day
    y = (draw.uniform(size=len(day)) < truth).astype(int)
    table = pl.DataFrame({"date": date.astype(str), "carrier": carrier, "p": mu, "late": y})
    table.write_csv(path)
    return table


OPTIONS = ["--mu", "p", "--outcome", "late", "--time", "date", "--cluster", "day", "--by", "carrier"]


def test_a_file_is_watched_and_an_alarm_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_days(tmp_path / "bad.csv", 0.3)
    write_days(tmp_path / "good.csv", 0.0)
    page, figure = tmp_path / "watch.html", tmp_path / "watch.png"
    written = ["--html", str(page), "--figure", str(figure)]
    assert main(["watch", str(tmp_path / "bad.csv"), *OPTIONS, "--fail-on-alarm", *written]) == 1
    printed = capsys.readouterr().out
    assert "ALARM" in printed
    assert "carrier UA: happened more often than forecast" in printed
    assert "data:image/png" in page.read_text()
    assert figure.read_bytes().startswith(b"\x89PNG")
    assert main(["watch", str(tmp_path / "bad.csv"), *OPTIONS]) == 0
    assert main(["watch", str(tmp_path / "good.csv"), *OPTIONS, "--fail-on-alarm"]) == 0
    assert "No alarm" in capsys.readouterr().out


def test_json_is_the_watch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = write_days(tmp_path / "bad.csv", 0.3)
    assert main(["watch", str(tmp_path / "bad.csv"), *OPTIONS, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    watch = mw.Watch(groups=["carrier"], cluster="day")
    watch.see_many(table.with_columns(pl.col("date").str.to_datetime()), "p", "late", at="date")
    watch.end_cluster()
    assert found == watch.to_dict()


def test_lines_on_standard_input_raise_alarms_as_they_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table = write_days(tmp_path / "bad.csv", 0.3)
    monkeypatch.setattr(sys, "stdin", io.StringIO((tmp_path / "bad.csv").read_text() + "2026-04-01,UA,,1\n"))
    assert main(["watch", "-", *OPTIONS, "--fail-on-alarm"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("ALARM ")
    assert "note: 1 rows without a number were left out" in "\n".join(lines)
    watch = mw.Watch(groups=["carrier"], cluster="day")
    watch.see_many(table.with_columns(pl.col("date").str.to_datetime()), "p", "late", at="date")
    watch.end_cluster()
    assert [line.removeprefix("ALARM ") for line in lines if line.startswith("ALARM ")]
    assert len([line for line in lines if line.startswith("ALARM ")]) == len(watch.alarms())


def test_state_goes_on_where_it_ended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = write_days(tmp_path / "whole.csv", 0.3)
    state = ["--state", str(tmp_path / "watch.json")]
    for name, part in (("first.csv", table[:1500]), ("second.csv", table[1500:])):
        part.write_csv(tmp_path / name)
        assert main(["watch", str(tmp_path / name), *OPTIONS, *state]) == 0
    together = capsys.readouterr().out
    whole = [*OPTIONS, "--state", str(tmp_path / "other.json")]
    assert main(["watch", str(tmp_path / "whole.csv"), *whole]) == 0
    assert together.endswith(capsys.readouterr().out)
    assert main(["watch", str(tmp_path / "second.csv"), *OPTIONS, *state, "--c", "0.1"]) == 1
    assert "--c must be that of the watch in" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("date,carrier,p\n", "column 'late' is not in the header; it has: date, carrier, p"),
        ("date,carrier,p,late\n2026-01-01,UA,30,1\n", r"line 2: mu must lie in [0, 1]; got 30.0"),
        ("date,carrier,p,late\n1/2/2026,UA,0.3,1\n", "line 2: --time must be a number, or a date such as"),
        (
            "date,carrier,p,late\n2026-01-02,UA,0.3,1\n2026-01-01,UA,0.3,1\n",
            "line 3: at must not lie in a day",
        ),
    ],
)
def test_bad_lines_are_named(
    text: str, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    assert main(["watch", "-", *OPTIONS]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.slow
def test_an_alarm_comes_through_a_pipe_before_the_input_ends(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "makewhole", "watch", "-", "--bins", "1"]
    options: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    process: Any
    with subprocess.Popen(command, **options) as process:
        process.stdin.write("mu,y\n" + "0.1,1\n" * 200)
        process.stdin.flush()
        assert process.stdout.readline().startswith("ALARM all forecasts: happened more often")
        process.stdin.close()
        process.stdout.read()
    assert process.returncode == 0
