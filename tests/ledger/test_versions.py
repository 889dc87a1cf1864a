"""Ledgers of earlier versions open, verify and go on; those of later ones are refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import apsw
import pytest

from makewhole.ledger import Ledger, NotALedger
from makewhole.ledger.database import APPLICATION, MIGRATIONS

SAMPLES = sorted((Path(__file__).parents[1] / "data" / "ledgers").glob("v*.db"))
COLUMNS = "book, seq, at, kind, about, body, hash"


def go_on(path: Path) -> None:
    """Verify a ledger, sell and settle something more, and verify it again."""
    with Ledger.open(path) as ledger:
        assert ledger.verify().events == 53
        ledger.rekey()  # its key is not here
        book = ledger.book("delays")
        told = book.statement()
        assert (told.premiums, told.payouts, told.refunds, told.compensated) == (24_434, 6_600, 5_700, 7)
        assert book.stake("UA-10", by="ann", stake=10)["price"] == 7
        assert [p.id for p in book.positions("customer 1", limit=2)] == ["UA-10", "UA-7"]
        book.forecast("new", mu=0.5)
        book.stake("new", by="ann", stake=1_000, key="new")
        book.report("new", 1)
        assert [receipt["id"] for receipt in book.settle()] == ["new"]
        ledger.verify()


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
def test_a_ledger_of_every_version_goes_on(sample: Path, tmp_path: Path) -> None:
    go_on(Path(shutil.copy(sample, tmp_path / "copy.db")))


def test_there_is_a_sample_of_the_latest_version() -> None:
    assert SAMPLES[-1].stem == f"v{len(MIGRATIONS)}"


def test_the_first_version_is_brought_up_to_date(tmp_path: Path) -> None:
    old = apsw.Connection(str(tmp_path / "old.db"))
    for sql in MIGRATIONS[0]:
        old.execute(sql.format(bytes="BLOB", rowid=" WITHOUT ROWID"))
    old.execute(f"PRAGMA application_id = {APPLICATION}; PRAGMA user_version = 1")
    sample = apsw.Connection(str(SAMPLES[-1]), flags=apsw.SQLITE_OPEN_READONLY)
    for row in sample.execute(f"SELECT {COLUMNS} FROM events"):  # noqa: S608 - our own names
        old.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?)", row)
    sample.close()
    old.close()
    go_on(tmp_path / "old.db")


def test_a_later_version_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = Path(shutil.copy(SAMPLES[-1], tmp_path / "later.db"))
    later = apsw.Connection(str(path))
    later.execute("PRAGMA user_version = 99")
    later.close()
    before = path.read_bytes()
    with pytest.raises(NotALedger, match="has version 99; this makewhole knows 2"):
        Ledger.open(path)
    assert path.read_bytes() == before
