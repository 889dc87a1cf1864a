"""What is printed: JSON for every program, short errors, and names that cannot pass for a report."""

import csv
import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from makewhole.cli import main
from makewhole.cli.printing import print_error, print_json

# Names that would colour a terminal, begin a line, overwrite one, or turn the direction of reading.
NAMES = [
    "\x1b[32mall is well\x1b[0m",
    "a\nSOUND, as far as these data tell",
    "b\rwell",
    "\u202etsniaga",
    "c\x85d",
]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    draw, path = np.random.default_rng(0), tmp_path / "names.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["mu", "y", "stake", "g"])
        writer.writerows([0.5, int(draw.random() < 0.9), 1.0, NAMES[k % 5]] for k in range(2000))
    return path


@pytest.mark.parametrize("command", ["audit", "backtest"])
def test_names_in_the_data_cannot_steer_a_terminal_or_forge_a_line(
    command: str, table: Path, capsys: Any
) -> None:
    assert main([command, str(table), "--group", "g"]) == 0
    said = capsys.readouterr().out
    assert all(line.isprintable() for line in said.split("\n"))
    assert not [line for line in said.split("\n") if line.startswith("SOUND")]
    if command == "audit":
        assert "\\x1b[32mall is well" in said
        assert "\\u202e" in said


def test_they_do_not_get_into_a_page_either(table: Path, tmp_path: Path, capsys: Any) -> None:
    assert main(["audit", str(table), "--group", "g", "--html", str(tmp_path / "page.html")]) == 0
    page = (tmp_path / "page.html").read_text()
    assert not [name for name in NAMES if name in page]
    assert "\\u202e" in page
    capsys.readouterr()


def test_json_has_null_where_a_number_is_not_finite(capsys: Any) -> None:
    print_json({"a": [1.5, float("inf")], "b": (float("nan"), {"c": -float("inf")})})
    assert json.loads(capsys.readouterr().out) == {"a": [1.5, None], "b": [None, {"c": None}]}


def test_errors_are_short_and_plain(capsys: Any) -> None:
    print_error(ValueError("column '\x1b[31mred' is not there\nit has others" + "x" * 99_999))
    said = capsys.readouterr().err
    assert said.startswith("makewhole: column '\\x1b[31mred' is not there\nit has others")
    assert said.endswith("x … (100,046 characters)\n")
    assert len(said) < 800


@pytest.mark.parametrize("line", ['0.5,1,"g1', '0.5,"1,g1', '"0.5,1,g1'])
@pytest.mark.parametrize("command", ["audit", "backtest"])
def test_a_quote_without_a_second_one_is_suspected_in_a_line(
    command: str, line: str, tmp_path: Path, capsys: Any
) -> None:
    path = tmp_path / "quote.csv"
    path.write_text("\n".join(["mu,y,g", *["0.5,1,a"] * 999, line, *["0.5,0,b"] * 999, ""]))
    extra = ["--group", "g", *(["--stake", "mu"] if command == "backtest" else [])]
    assert main([command, str(path), *extra]) == 1
    said = capsys.readouterr().err
    assert "quotation mark left open" in said
    assert len(said) < 500


def test_a_file_that_is_all_quote_is_suspected_too(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "quote.csv"
    path.write_text('mu,y\n"0.5,1\n0.5,0\n')
    assert main(["audit", str(path)]) == 1
    assert "quotation mark left open" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--correction", "swap", "--cells", "100000000000"], "cells must be at most 1,000,000; got 100,0"),
        (["--max-stake", "1e308"], "max_stake must lie in"),
    ],
)
def test_sizes_that_no_machine_has_are_refused(
    arguments: list[str], message: str, table: Path, capsys: Any
) -> None:
    assert main(["backtest", str(table), *arguments]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("command", ["audit", "backtest"])
def test_a_packed_file_that_unpacks_to_gigabytes_is_refused(
    command: str, tmp_path: Path, capsys: Any
) -> None:
    path = tmp_path / "bomb.csv.gz"
    path.write_bytes(gzip.compress(b"mu,y,stake\n" + b"0.5,1,1\n" * 4_000_000))
    assert main([command, str(path)]) == 1
    assert "must not unpack to more than" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--c-hat", "--id"])
def test_an_empty_column_name_is_an_error(option: str, table: Path, capsys: Any) -> None:
    assert main(["backtest", str(table), option, ""]) == 1
    assert f"{option} must name a column; got ''" in capsys.readouterr().err


def test_a_column_of_lists_is_an_error(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "lists.parquet"
    frame = pl.DataFrame({"mu": [0.5], "y": [1], "stake": [1.0], "w": [[1.0, 2.0]]})
    frame.write_parquet(path)
    assert main(["backtest", str(path), "--c-hat", "w"]) == 1
    assert capsys.readouterr().err.startswith("makewhole: ")
