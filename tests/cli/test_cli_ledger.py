"""`makewhole ledger` as a user or a batch job meets it."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from makewhole.cli import main
from makewhole.ledger import Ledger


@pytest.fixture
def ledger(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    path = str(tmp_path / "delays.db")
    assert (
        main(["ledger", "create", path, "--capital", "10000000", "--max-stake", "100000", "--unit", "cent"])
        == 0
    )
    assert "at most 10,000,000 can ever be lost" in capsys.readouterr().out
    return path


def answers(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def feed(monkeypatch: pytest.MonkeyPatch, *requests: Any) -> None:
    lines = [request if isinstance(request, str) else json.dumps(request) for request in requests]
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(lines) + "\n"))


def test_the_life_of_a_promise(ledger: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ledger", "forecast", ledger, "--id", "UA-1", "--mu", "0.2"]) == 0
    capsys.readouterr()
    quote = ["ledger", "quote", ledger, "--id", "UA-1", "--by", "ann"]
    assert main([*quote, "--loss", "fly=0,9000", "--loss", "train=2500,2500"]) == 0
    (quoted,) = answers(capsys)
    assert (quoted["action"], quoted["stake"], quoted["price"], quoted["loss"]) == ("fly", 9000, 1980, 1980)
    stake = [
        "ledger",
        "stake",
        ledger,
        "--id",
        "UA-1",
        "--by",
        "ann",
        "--stake",
        "9000",
        "--request-key",
        "a",
    ]
    assert main(stake) == 0
    first = capsys.readouterr().out
    assert main(stake) == 0
    assert (
        json.loads(capsys.readouterr().out)["receipts"][0]["hash"] == json.loads(first)["receipts"][0]["hash"]
    )
    (tmp_path / "receipts").mkdir()
    (tmp_path / "receipts" / "ann.json").write_text(first)
    assert main(["ledger", "report", ledger, "--id", "UA-1", "--outcome", "1"]) == 0
    capsys.readouterr()
    assert main(["ledger", "settle", ledger]) == 0
    (settled,) = answers(capsys)
    assert settled["payments"]["UA-1"] == [
        {"by": "ann", "amount": 9000, "seq": 3, "stake": 9000, "price": 1980}
    ]
    assert main(["ledger", "verify", ledger, "--receipts", str(tmp_path / "receipts")]) == 0
    assert "5 events and 1 receipts" in capsys.readouterr().out
    page = tmp_path / "statement.html"
    assert main(["ledger", "statement", ledger, "--json", "--html", str(page)]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["premiums"], told["payouts"], told["lost"], told["cash"]) == (1980, 9000, 7020, 9_992_980)
    html = page.read_text()
    assert told["head"] in html
    assert told["key"] in html
    assert "UA-1" in html
    assert "7,020" in html


def test_a_batch_job_needs_no_code(
    ledger: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    feed(
        monkeypatch,
        {"do": "forecast", "id": "UA-1", "mu": 0.2},
        {"do": "stake", "id": "UA-1", "by": ["agency", "ann"], "stake": 9000, "key": "a"},
        {"do": "stake", "id": "UA-1", "by": "bob", "stake": 95_000},
        {"do": "stake", "id": "UA-1", "by": "bob", "stake": 19_000},
        {"do": "stake", "id": "UA-1", "by": "bob", "stake": 1.5},
        {"do": "dance"},
        {"do": "report", "id": "UA-1", "outcome": 0},
        {"do": "settle"},
    )
    assert main(["ledger", "do", ledger]) == 1
    got = answers(capsys)
    assert [line.get("error") for line in got] == [
        None,
        None,
        "StakeRefused",
        "StakeRefused",
        "ValueError",
        "ValueError",
        None,
        None,
    ]
    assert got[2]["limit"] == 91_000
    assert got[3]["limit"] == 10_000  # her share
    assert got[7]["payments"]["UA-1"][0]["amount"] == 0
    feed(monkeypatch, {"id": "UA-2", "mu": 0.5}, "", {"id": "UA-3", "mu": 0.5})
    assert main(["ledger", "forecast", ledger]) == 0
    assert len(answers(capsys)) == 2
    feed(monkeypatch, {"do": "forecast", "id": "UA-4", "mu": 0.5}, "{not json", "[]")
    assert main(["ledger", "do", ledger]) == 1
    done, *bad = answers(capsys)  # what is no request does not keep others from being answered
    assert done["receipts"][0]["about"] == "UA-4"
    assert ["of stdin must be a JSON object" in line["message"] for line in bad] == [True, True]


def test_what_verify_reads(ledger: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The answers of a batch job, refusals and odd characters included; a folder without any is a mistake."""
    folder = tmp_path / "receipts"
    folder.mkdir()
    assert main(["ledger", "verify", ledger, "--receipts", str(folder)]) == 1
    assert "has none" in capsys.readouterr().err
    assert main(["ledger", "forecast", ledger, "--id", "UA\u2028-1", "--mu", "0.5"]) == 0
    assert main(["ledger", "forecast", ledger, "--id", "UA-2", "--mu", "5"]) == 1
    (folder / "answers.ndjson").write_text(capsys.readouterr().out, encoding="utf-8")
    assert main(["ledger", "verify", ledger, "--receipts", str(folder)]) == 0
    assert "and 1 receipts" in capsys.readouterr().out


def test_who_reports_is_one(ledger: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ledger", "forecast", ledger, "--id", "UA-1", "--mu", "0.5"]) == 0
    both = ["--by", "ann", "--by", "bob"]
    assert main(["ledger", "report", ledger, "--id", "UA-1", "--outcome", "1", *both]) == 1
    assert "--by must be given only once with report" in capsys.readouterr().err
    assert main(["ledger", "quote", ledger, "--id", "UA-1", "--by", "ann", "--payout", "100"]) == 0
    assert json.loads(capsys.readouterr().out)["payout"] == 100


def test_tables_and_copies(ledger: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log.csv"
    frame = pl.DataFrame(
        {
            "p": [0.2, 0.2, 0.3, 0.5],
            "y": [1, 1, 1, 0],
            "amount": [5000, -2000, 100_000, 300],
            "flight": ["a", "a", "a", "b"],
            "who": ["ann", "bob", "ann", "cid"],
        }
    )
    frame.write_csv(log)
    columns = ["--mu", "p", "--outcome", "y", "--stake", "amount", "--id", "flight", "--by", "who"]
    for _ in range(2):  # an import that is repeated adds nothing
        assert main(["ledger", "import", ledger, str(log), *columns]) == 0
        assert "3 stakes placed, 1 refused" in capsys.readouterr().out
    out = tmp_path / "positions.parquet"
    assert main(["ledger", "export", ledger, "--table", "positions", "--out", str(out)]) == 0
    positions = pl.read_parquet(out)
    assert positions.select("id", "by", "stake", "due").rows() == [
        ("a", "ann", 5000, 5000),
        ("a", "bob", -2000, 0),
        ("b", "cid", 300, 0),
    ]
    assert positions["price"].to_list() == [1100, 1640, 156]
    for table, count in (("events", 11), ("settlements", 2)):
        csv = tmp_path / f"{table}.csv"
        assert main(["ledger", "export", ledger, "--table", table, "--out", str(csv)]) == 0
        assert len(pl.read_csv(csv)) == count
    assert main(["ledger", "export", ledger, "--out", str(csv)]) == 1
    assert "must be a new file" in capsys.readouterr().err
    copy = tmp_path / "copy.db"
    assert main(["ledger", "backup", ledger, str(copy)]) == 0
    assert main(["ledger", "verify", str(copy)]) == 0
    assert main(["ledger", "rekey", ledger]) == 0
    assert main(["ledger", "deposit", ledger, "--amount", "1000"]) == 0
    assert main(["ledger", "verify", ledger]) == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["verify", "nothing.db"], "is not a file: create one with makewhole ledger create"),
        (
            ["create", "LEDGER", "--capital", "1", "--max-stake", "1", "--unit", "cent"],
            "there is a book 'delays'",
        ),
        (["statement", "LEDGER", "--book", "nope"], "there is no book 'nope'"),
        (["export", "LEDGER", "--out", "table.xlsx"], "--out must end in .csv or .parquet"),
        (["verify", "LEDGER", "--receipts", "nowhere"], "--receipts must be a folder"),
        (["quote", "LEDGER", "--id", "x", "--by", "ann", "--stake", "1"], "no forecast was made for id='x'"),
        (["quote", "LEDGER", "--id", "x", "--by", "ann", "--loss", "a=1,2.5"], "whole number of units"),
        (["import", "LEDGER", "LEDGER", "--mu", "p", "--outcome", "y", "--stake", "s"], "FILE must end in"),
    ],
)
def test_errors_say_what_is_wrong(
    ledger: str, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ledger", *(ledger if word == "LEDGER" else word for word in arguments)]) == 1
    assert words in capsys.readouterr().err


def test_a_book_with_its_own_share_line_and_without_a_stop(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "own.db")
    create = ["ledger", "create", path, "--capital", "100000", "--max-stake", "1000", "--unit", "cent"]
    assert main([*create, "--share", "1.5"]) == 1
    assert "share must lie in [1e-06, 1]; got 1.5" in capsys.readouterr().err
    assert main([*create, "--line", "0"]) == 1
    assert "--line must be one number above 0; got 0.0" in capsys.readouterr().err
    assert main([*create, "--share", "0.5", "--no-stop"]) == 0
    assert main([*create, "--book", "short", "--line", "700"]) == 0
    with Ledger.open(path) as ledger:
        made = [ledger.book(name)._writer.state().f for name in ("own", "short")]
    assert [(f.lines.each, f.lines.share, f.stop) for f in made] == [(4000, 0.5, False), (700, 0.1, True)]
