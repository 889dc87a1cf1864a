"""A log that went back, or was replaced: this host writes nothing more, and says so."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ledger.places import Place, new_book, whole
from makewhole.ledger import Book, Ledger, LedgerUnavailable, LogDamaged, LogForked, Receipt, writing

Rows = list[tuple[Any, ...]]


def begun(ledger: Ledger, stakes: int = 10) -> tuple[Book, list[Receipt]]:
    """A book of 2 events and these stakes, with the receipts of the stakes."""
    book = new_book(ledger, capital=10**6, max_stake=10**5)
    book.forecast("x", mu=0.5)
    return book, [book.stake("x", by="ann", stake=10, key=f"ann {n}") for n in range(stakes)]


def cut(place: Place, after: int) -> None:
    """Drop the events after a number, with their keys, as a restore does."""
    place.run("DELETE FROM events WHERE seq > ?", after)
    place.run("DELETE FROM keys WHERE seq > ?", after)


def events(place: Place) -> Rows:
    return place.run("SELECT * FROM events ORDER BY seq")


def refused(act: Callable[[], object]) -> LogForked:
    with pytest.raises(LogForked) as caught:
        act()
    return caught.value


def test_a_log_that_went_back_is_not_written(where: Place, caplog: pytest.LogCaptureFixture) -> None:
    with where.open() as ledger:
        book, _ = begun(ledger)
        cut(where, after=9)
        before = events(where)
        with caplog.at_level(logging.ERROR, "makewhole.ledger"):
            for _ in range(3):
                error = refused(lambda: book.stake("x", by="bob", stake=100))
        assert (error.book, error.seq) == ("book", 10)
        assert "has event 12" in str(error)
        assert "the log ends with event 9" in str(error)
        assert ledger.forked == {"book": str(error)}
        assert [record.message for record in caplog.records] == [str(error)]  # said once
        assert events(where) == before
        assert ledger.verify().events == 9
        new_book(ledger, "another")  # the other books go on
    whole(where)


def test_a_log_that_was_cut_and_written_by_another_host_is_not_written(where: Place) -> None:
    with where.open() as ledger, where.open() as other:
        book, _ = begun(ledger)
        cut(where, after=9)
        there = other.book("book")  # another host, which has not seen what was cut
        for _ in range(2):
            there.stake("x", by="eve", stake=7)
        for last in (11, 12, 13, 14):  # shorter than ours, as long, and longer
            error = refused(lambda: book.stake("x", by="bob", stake=100))
            assert error.seq == min(last + 1, 12)
            assert there.stake("x", by="eve", stake=7).seq == last + 1
        assert ledger.verify().heads["book"][0] == 15
        assert other.forked == {}


def test_a_book_that_is_no_longer_there_is_not_begun_again(where: Place) -> None:
    with where.open() as ledger:
        begun(ledger)
        cut(where, after=0)
        assert refused(lambda: new_book(ledger)).seq == 1
        assert events(where) == []


def test_events_of_another_host_are_followed(where: Place) -> None:
    with where.open() as ledger, where.open() as other:
        book, _ = begun(ledger)
        assert other.book("book").stake("x", by="eve", stake=7).seq == 13
        assert book.stake("x", by="bob", stake=100).seq == 14
        assert ledger.forked == {}


def test_a_host_that_could_not_reach_the_log_still_knows_what_it_has_seen(
    where: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: Any) -> Any:
        raise LedgerUnavailable("the database is away")

    with where.open() as ledger:
        book, _ = begun(ledger)
        for name in ("head", "pages", "snapshot"):
            with monkeypatch.context() as patch:
                patch.setattr(ledger.store, name, away)
                if name != "head":
                    book._writer._state = None
                with pytest.raises(LedgerUnavailable):
                    book.statement()
        cut(where, after=9)  # a failover to a replica that lags
        refused(lambda: book.stake("x", by="bob", stake=100))


def test_a_damaged_log_does_not_make_a_host_forget_what_it_has_seen(where: Place) -> None:
    with where.open() as ledger, where.open() as other:
        book, _ = begun(ledger)
        other.book("book").stake("x", by="eve", stake=7)
        where.run("UPDATE events SET body = '{}' WHERE seq = 13")
        with pytest.raises(LogDamaged, match="event 13 was changed"):
            book.stake("x", by="bob", stake=100)
        cut(where, after=9)
        refused(lambda: book.stake("x", by="bob", stake=100))


def test_a_forked_book_can_be_read_but_signs_nothing(where: Place) -> None:
    with where.open() as ledger:
        book, _ = begun(ledger)
        cut(where, after=9)
        assert book.statement().events == 12  # what this host has acknowledged
        assert list(ledger.forked) == ["book"]  # a reader notices, too
        assert refused(lambda: book.receipt(3)).seq == 10


def test_a_book_whose_events_are_back_goes_on_without_a_restart(where: Place) -> None:
    with where.open() as ledger:
        book, receipts = begun(ledger)
        kept, keys = events(where), where.run("SELECT * FROM keys")
        cut(where, after=9)
        refused(lambda: book.stake("x", by="bob", stake=100))
        for row in kept[9:]:
            where.run("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?)", *row)
        for row in keys[-3:]:
            where.run("INSERT INTO keys VALUES (?, ?, ?, ?, ?)", *row)
        assert book.stake("x", by="bob", stake=100).seq == 13
        assert ledger.forked == {}
        ledger.verify(receipts)


def test_a_snapshot_is_not_used_with_a_log_that_has_not_its_event(
    where: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "_SNAPSHOT_EVERY", 8)
    monkeypatch.setattr(writing, "_BYTES_PER_EVENT", 10**9)
    with where.open() as ledger:
        begun(ledger)
    assert where.run("SELECT seq FROM snapshots") == [(8,)]
    cut(where, after=6)
    with where.open() as ledger:
        error = refused(lambda: ledger.book("book"))
        assert error.seq == 7
        assert "a snapshot has event 8" in str(error)
        assert list(ledger.forked) == ["book"]
    assert len(events(where)) == 6


def test_the_number_of_the_last_event_is_not_enough(tmp_path: Path) -> None:
    """The log is cut behind the back of a host that runs, with keys left as they are."""
    with Ledger.open(tmp_path / "f.db") as ledger:
        book = ledger.create("b", capital=10**6, max_stake=10**5, unit="c")
        book.forecast("x", mu=0.5)
        for _ in range(10):
            book.stake("x", by="a", stake=10)
        Place(str(tmp_path / "f.db"), tmp_path / "f.db.key").run("DELETE FROM events WHERE seq > 9")
        refused(lambda: book.stake("x", by="b", stake=100))
        assert ledger.verify().events == 9
    with Ledger.open(tmp_path / "f.db") as again:  # after a restart it goes on, without a gap
        assert again.book("b").stake("x", by="b", stake=100).seq == 10
        again.verify()


def test_a_key_whose_event_is_gone_is_not_answered_with_another_event(where: Place) -> None:
    with where.open() as ledger:
        begun(ledger)
    where.run("DELETE FROM events WHERE seq > 9")
    with where.open() as ledger:
        book = ledger.book("book")
        assert "key='ann 9' was used for event 12" in str(refused(lambda: repeat(book, 9)))
        assert repeat(book, 6) == 9
        (found,) = ledger.repair(into="run-off")
        assert not found.whole
        assert "key 'ann 7' names event 10, which is missing" in str(found)
        assert found.promises == []  # the book keeps its own
        assert ledger.books() == ["book"]


def repeat(book: Book, n: int) -> int:
    return book.stake("x", by="ann", stake=10, key=f"ann {n}").seq
