"""Repair: what a copy or receipts know is added back, and what is lost goes on in another book."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import makewhole as mw
from ledger.places import Place, new_book, whole
from ledger.test_forks import begun, cut, events
from ledger.test_history import with_body
from makewhole.cli import main
from makewhole.ledger import (
    CapitalRefused,
    Ledger,
    LogForked,
    NotALedger,
    Receipt,
    StoreUnavailable,
    UnknownBook,
    writing,
)
from makewhole.ledger.events import Event, chained, plain_text
from makewhole.ledger.receipts import Signer, sign_together


def backed_up(where: Place, to: Path) -> str:
    """A copy in a file, of a file or of a database."""
    if where.is_file:
        with where.open() as ledger:
            ledger.backup(to)
    else:
        with Ledger.open(to, key=where.key) as copy:
            for table in ("events", "keys", "snapshots"):
                rows = where.run(f"SELECT * FROM {table}")  # noqa: S608 - our own names
                marks = ", ".join("?" * len(rows[0])) if rows else ""
                copy.store._write(f"INSERT INTO {table} VALUES ({marks})", rows)  # noqa: S608 - our own names
    return str(to)


def test_a_whole_ledger_needs_no_repair(where: Place, tmp_path: Path) -> None:
    with where.open() as ledger:
        _, receipts = begun(ledger)
        (found,) = ledger.repair(receipts, copy=backed_up(where, tmp_path / "copy.db"))
        assert found.whole
        assert (found.seq, found.added, found.lost, found.promises) == (12, [], {}, [])
        assert "nothing is known to be missing" in str(found)


def test_events_that_a_copy_has_are_added_back_with_their_keys(where: Place, tmp_path: Path) -> None:
    with where.open() as ledger:
        book, receipts = begun(ledger)
        copy, before = backed_up(where, tmp_path / "copy.db"), events(where)
        cut(where, after=9)
        with pytest.raises(LogForked):
            book.stake("x", by="bob", stake=5)
        (found,) = ledger.repair(receipts)  # no copy, but all the receipts
        assert [event.seq for event in found.added] == [10, 11, 12]
        cut(where, after=9)
        (found,) = ledger.repair(copy=copy)
        assert "added back: events 10 to 12" in str(found)
        assert found.whole
        assert events(where) == before
        assert book.stake("x", by="ann", stake=10, key="ann 9").seq == 12  # the copy knew the key
        assert book.stake("x", by="bob", stake=5).seq == 13
    whole(where)


def test_a_gap_in_the_middle_is_filled(where: Place, tmp_path: Path) -> None:
    with where.open() as ledger:
        _, receipts = begun(ledger)
        copy, before = backed_up(where, tmp_path / "copy.db"), events(where)
        where.run("DELETE FROM events WHERE seq IN (6, 7)")
        (found,) = ledger.repair()
        assert not found.whole
        assert "event 6 is missing" in str(found.damage)
        assert [event.seq for event in found.promises] == [3, 4, 5, 8, 9, 10, 11, 12]
        assert [e.seq for e in ledger.repair(receipts[:4])[0].added] == [6]  # event 7 is still missing
        (found,) = ledger.repair(copy=copy)
        assert found.whole
        assert [event.seq for event in found.added] == [7]
        assert events(where) == before
        ledger.verify(receipts)


def test_events_that_do_not_follow_are_not_added(where: Place, tmp_path: Path) -> None:
    """Another host wrote on after the restore: both histories are signed, and only one is the log."""
    with where.open() as ledger:
        _, receipts = begun(ledger)
        copy = backed_up(where, tmp_path / "copy.db")
        cut(where, after=9)
        with where.open() as other:
            theirs = other.book("book").stake("x", by="eve", stake=7)
        before = events(where)
        (found,) = ledger.repair([*receipts, theirs], copy=copy)
        assert events(where) == before
        assert (found.seq, found.added, found.damage) == (10, [], None)
        assert sorted(event.seq for event in found.lost.values()) == [10, 11, 12]
        assert [event.seq for event in found.promises] == [10, 11, 12]


def test_a_row_that_was_changed_is_never_rewritten(where: Place, tmp_path: Path) -> None:
    with where.open() as ledger:
        begun(ledger)
        copy = backed_up(where, tmp_path / "copy.db")
        row = [list(one) for one in where.run("SELECT seq, at, kind, about, body, hash FROM events")][6]
        where.run("UPDATE events SET body = ? WHERE seq = ?", with_body(row, stake=1_000)[4], row[0])
        before = events(where)
        (found,) = ledger.repair(copy=copy)
        assert events(where) == before
        assert "event 7 was changed" in str(found.damage)
        assert not found.whole
        # The promise is known from the copy; all the others are open, too.
        assert [(event.seq, event.data()["stake"]) for event in found.promises] == [
            (seq, 10) for seq in range(3, 13)
        ]


def test_events_that_break_the_rules_are_not_added_even_if_they_are_signed(where: Place) -> None:
    """The owner's key can sign anything: a stake above the cap."""
    with where.open() as ledger:
        _, receipts = begun(ledger)
        last = receipts[-1]
        body = last.event.body.replace('"stake":10', '"stake":1000000')
        hash_ = chained(last.event.hash, "book", 13, last.event.at, "staked", "x", body)
        made = Receipt(last.event._replace(seq=13, body=body, hash=hash_), last.event.hash)
        sign_together([made], (13, hash_), Signer.of(where.key))
        (found,) = ledger.repair([made])
        assert found.added == []
        assert list(found.lost) == [hash_]
        assert ledger.verify().events == 12


def test_receipts_that_no_key_of_the_book_has_signed_are_named(where: Place, tmp_path: Path) -> None:
    with where.open() as ledger:
        _, receipts = begun(ledger)
        cut(where, after=9)
        sign_together(receipts[-1:], (12, receipts[-1].event.hash), Signer.at(tmp_path / "another key"))
        (found,) = ledger.repair(receipts[-1:])
        assert found.forged == receipts[-1:]
        assert found.lost == {}
        assert not found.whole


def made(after: Receipt, signer: Signer, kind: str = "staked", **change: Any) -> Receipt:
    """A receipt for an event that follows another, signed with any key."""
    event = after.event
    body = {"key": change["key"]} if kind == "rekeyed" else {**event.data(), **change}
    about, text = body.get("id"), plain_text(body)
    hash_ = chained(event.hash, event.book, event.seq + 1, event.at, kind, about, text)
    receipt = Receipt(Event(event.book, event.seq + 1, event.at, kind, about, text, hash_), event.hash)
    sign_together([receipt], (receipt.seq, hash_), signer)
    return receipt


def test_a_key_that_was_replaced_adds_nothing(where: Place) -> None:
    """A thief has the old key. The book has a new one since event 13."""
    with where.open() as ledger:
        book, receipts = begun(ledger)
        stolen = Signer.of(where.key)
        ledger.rekey()
        last, before = book.stake("x", by="ann", stake=10), events(where)
        forged = [made(last, stolen), made(last, stolen, "rekeyed", key=stolen.public)]
        forged.append(made(forged[-1], stolen, by="thief", stake=90))
        (found,) = ledger.repair([*receipts, last, *forged], into="run-off")
        assert found.forged == forged
        assert (found.added, found.lost, found.promises) == ([], {}, [])
        assert events(where) == before
        assert "not signed with the book's key of that time" in str(found)
        cut(where, after=13)
        (found,) = ledger.repair([*receipts, last, *forged])
        assert (found.forged, [event.seq for event in found.added]) == (forged, [14])


def test_a_new_key_counts_once_the_old_one_has_signed_it(where: Place, tmp_path: Path) -> None:
    new = Signer.at(tmp_path / "another key")
    with where.open() as ledger:
        _, receipts = begun(ledger)
        change = made(receipts[-1], Signer.of(where.key), "rekeyed", key=new.public)
        later = made(change, new, "rekeyed", key="11")
        (found,) = ledger.repair([later])
        assert (found.forged, found.added) == ([later], [])
        (found,) = ledger.repair([later, change, made(change, Signer.of(where.key), "rekeyed", key="22")])
        assert [event.seq for event in found.added] == [13, 14]
        assert [one["key"] for one in found.forged] == ["22"]


def test_old_receipts_count_after_a_change_of_the_key(where: Place) -> None:
    """Event 12 was signed with the old key, and again with the new one when its receipt was asked for."""
    with where.open() as ledger:
        book, receipts = begun(ledger)
        ledger.rekey()
        again = book.receipt(12)
        (found,) = ledger.repair([*receipts, again])
        assert found.whole
        where.run("DELETE FROM events WHERE seq = 12")
        for known in (again, receipts[-1]):
            (found,) = ledger.repair([known])
            assert (found.forged, [event.seq for event in found.added]) == ([], [12])
            where.run("DELETE FROM events WHERE seq = 12")


def test_of_two_events_that_fit_none_is_added(where: Place) -> None:
    with where.open() as ledger:
        _, receipts = begun(ledger)
        cut(where, after=11)
        another = made(receipts[-2], Signer.of(where.key), stake=20, price=11)
        (found,) = ledger.repair([receipts[-1], another])
        assert (found.seq, found.added) == (11, [])
        assert {event.hash for event in found.lost.values()} == {receipts[-1].event.hash, another.event.hash}


def lost(where: Place) -> tuple[list[Receipt], int]:
    """A book whose last four events are lost: two stakes, a forecast and a stake; another host wrote on."""
    with where.open() as ledger:
        book, _ = begun(ledger, stakes=5)
        receipts = [
            book.stake("x", by="ann", stake=100),
            book.stake("x", by=["agency", "bob"], stake=-50),
            book.forecast("y", mu=0.25),
            book.stake("y", by="cid", stake=40),
        ]
        cut(where, after=7)
        with where.open() as other:
            other.book("book").stake("x", by="eve", stake=7)
    return receipts, 100 + 50 + 40 - sum(one["price"] for one in receipts if one.event.kind == "staked")


def test_lost_promises_go_on_in_another_book_at_their_price(where: Place) -> None:
    receipts, cover = lost(where)
    before = events(where)
    with where.open() as ledger:
        for _ in range(2):  # the second time, nothing more is done
            (found,) = ledger.repair(receipts, into="run-off")
            assert [one.seq for one in found.taken] == [3, 4, 6]
        book = ledger.book("run-off")
        old = [one for one in receipts if one.event.kind == "staked"]
        for new, was in zip(found.taken, old, strict=True):
            assert {name: new[name] for name in ("by", "stake", "price")} == {
                name: was[name] for name in ("by", "stake", "price")
            }
            link = new["receipt"]
            assert (link["book"], link["seq"], link["hash"]) == ("book", was.seq, was.hash)
            assert link["head"] == [found.seq, found.head.hex()]
        assert ledger.book("book").head() == (8, found.head.hex())
        assert where.run("SELECT * FROM events WHERE book = 'book' ORDER BY seq") == before
        statement = book.statement()
        assert (statement.capital, statement.at_risk, statement.events) == (cover + 1, cover, 6)
        assert book.settle("x", 1)[0]["payouts"] == 100
        assert book.settle("y", 1)[0]["payouts"] == 40
        assert [(one.by, one.amount) for one in book.payments("x")] == [("ann", 100), (["agency", "bob"], 0)]
        assert [(one.id, one.paid) for one in book.positions("ann")] == [("x", 100)]
        assert book.statement().lost <= cover
        ledger.verify(found.taken)
    whole(where)


def test_the_worst_outcome_of_promises_is_within_the_capital(where: Place) -> None:
    receipts, cover = lost(where)
    with where.open() as ledger:
        ledger.repair(receipts, into="run-off")
        book = ledger.book("run-off")
        book.void("y", "fog")
        for outcome in (0, 1):
            with where.open() as again:
                assert again.book("run-off").statement().left == 1
            if outcome:
                book.settle("x", outcome)
        assert book.statement().cash >= 0
        assert book.statement().lost <= book.statement().capital == cover + 1


def test_a_book_that_takes_promises_over_needs_the_capital(where: Place) -> None:
    receipts, _ = lost(where)
    with where.open() as ledger:
        small = new_book(ledger, "small", capital=60, max_stake=10, thaw=None)
        with pytest.raises(CapitalRefused, match="the promise needs .* of the capital"):
            ledger.repair(receipts, into="small")
        with pytest.raises(ValueError, match="into must name another book"):
            ledger.repair(receipts, into="book", book="book")
        with pytest.raises(UnknownBook, match="no book 'none'"):
            ledger.repair(receipts, book="none")
        small.deposit(200)
        (found,) = ledger.repair(receipts, into="small", book="book")
        assert len(found.taken) == 3
        ledger.verify()


def test_a_promise_that_was_taken_over_counts_in_the_share(
    where: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ann holds 100 of a lost book, and the agency 50; a share is 120 and 150."""
    receipts, _ = lost(where)
    monkeypatch.setattr(writing, "_SNAPSHOT_EVERY", 1)
    monkeypatch.setattr(writing, "_BYTES_PER_EVENT", 10**9)
    with where.open() as ledger:
        lines = mw.Lines(each=6_000, share=0.12, shares={"agency": 0.15})
        new_book(ledger, "other", capital=150_000, max_stake=1_000, lines=lines)
        ledger.repair(receipts, into="other", book="book")
    for _ in range(2):  # the second time, from a snapshot
        with where.open() as ledger:
            book = ledger.book("other")
            assert book.quote("x", by="ann", stake=1).room == (-20, 20)
            assert book.quote("x", by=["agency", "cid"], stake=1).room == (-100, 100)
            with pytest.raises(mw.StakeRefused, match="'ann' may hold 120 .* got 21: 20 is left"):
                book.stake("x", by="ann", stake=21)
            ledger.verify()
    with where.open() as ledger:
        book = ledger.book("other")
        book.stake("x", by="ann", stake=-20)
        book.forecast("x", mu=0.4)
        with pytest.raises(mw.StakeRefused, match="0 is left"):
            book.stake("x", by="ann", stake=1)
        book.stake("x", by="dan", stake=120)
        ledger.verify()


def test_promises_in_different_units_do_not_go_into_one_book(where: Place) -> None:
    receipts, _ = lost(where)
    with where.open() as ledger:
        new_book(ledger, "points", capital=10**6, unit="point")
        before = events(where)
        with pytest.raises(ValueError, match="'book' is in 'cent', 'points' is in 'point'"):
            ledger.repair(receipts, into="points", book="book")
        assert events(where) == before
        ledger.book("points").forecast("x", mu=0.5)
        theirs = ledger.book("points").stake("x", by="ann", stake=10)
        where.run("DELETE FROM events WHERE book = 'points' AND seq > 2")
        where.run("INSERT INTO events VALUES ('points', 3, 0, 'forecast', 'x', '{}', ?)", b"0" * 32)
        with pytest.raises(ValueError, match="'book' is in 'cent', 'points' is in 'point'"):
            ledger.repair([*receipts, theirs], into="run-off")
        assert ledger.books() == ["book", "points"]


def test_promises_whose_id_has_ended_in_a_lost_event_are_told_and_not_taken_over(where: Place) -> None:
    with where.open() as ledger:
        book, receipts = begun(ledger, stakes=2)
        receipts += book.settle("x", 1)
        cut(where, after=3)
        (found,) = ledger.repair(receipts[1:2] + receipts[2:], into="run-off")
        assert [event.seq for event in found.added] == [4, 5]
        cut(where, after=3)
        (found,) = ledger.repair(receipts[2:], into="run-off")  # the stake is lost, the end is known
        assert found.ended == []
        assert ledger.books() == ["book"]
        where.run("DELETE FROM events WHERE seq = 3")
        (found,) = ledger.repair([receipts[1], receipts[2]], into="run-off")
        assert [(event.seq, due) for event, due in found.ended] == [(4, 10)]
        assert "10 was due" in str(found)


def test_the_command_explains_adds_back_and_takes_over(
    file: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def repair(*given: Any) -> tuple[int, str]:
        code = main(["ledger", "repair", file.address, *map(str, given)])
        return code, capsys.readouterr().out

    with file.open() as ledger:
        _, receipts = begun(ledger)
    assert repair()[0] == 0
    copy = backed_up(file, tmp_path / "copy.db")
    folder = tmp_path / "receipts"
    folder.mkdir()
    (folder / "ann.ndjson").write_text("\n".join(one.to_json() for one in (receipts[7], receipts[9])))
    cut(file, after=9)
    code, told = repair("--receipts", folder)
    assert code == 1
    assert "the log ends with event 9" in told
    assert "follows the rules up to event 10" in told
    assert "added back: event 10" in told
    assert "not in the log: event 12 (staked)" in told
    assert "--into NAME" in told
    code, told = repair("--from", copy)
    assert (code, "added back: events 11 to 12" in told) == (0, True)
    cut(file, after=9)
    code, told = repair("--receipts", folder, "--into", "run-off")
    assert "event 3, 'ann' staked 10 on 'x' for 6 of 'run-off': taken over from event 12 of 'book'" in told
    assert main(["ledger", "repair", file.address, "--from", "no such file"]) == 1
    assert "--from must be a file" in capsys.readouterr().err


def test_a_copy_without_its_latest_events_is_accepted_by_repair(file: Place, tmp_path: Path) -> None:
    with file.open() as ledger:
        begun(ledger)
        shutil.copy(file.address, tmp_path / "half.db")
    half = Place(str(tmp_path / "half.db"), file.key)
    with pytest.raises(NotALedger, match="copy of a ledger in use"):
        half.open()
    with half.open(partial=True) as ledger:
        (found,) = ledger.repair(copy=file.address)
        assert [event.seq for event in found.added] == list(range(1, 13))
    with half.open() as ledger:
        assert ledger.verify().events == 12


@pytest.mark.slow
def test_a_database_that_cannot_be_written_is_read(database: Place) -> None:
    """Such as a standby."""
    with database.open() as ledger:
        book, receipts = begun(ledger)
        name = database.run("SELECT current_database()")[0][0]
        database.run(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
        with database.open() as standby:
            assert standby.verify(receipts).events == 12
            assert standby.book("book").statement() == book.statement()
            with pytest.raises(StoreUnavailable, match="read-only transaction"):
                standby.book("book").stake("x", by="ann", stake=10)
        with Ledger.open(database.key.parent / "new.db", key=database.key) as restored:
            (found,) = restored.repair(copy=database.address)
            assert (found.whole, len(found.added)) == (True, 12)


def test_a_copy_that_is_damaged_is_used_up_to_the_damage(where: Place, tmp_path: Path) -> None:
    with where.open() as ledger:
        begun(ledger)
        new_book(ledger, "other").forecast("x", mu=0.5)
        before = events(where)
        copy = Place(backed_up(where, tmp_path / "copy.db"), where.key)
        copy.run("UPDATE events SET body = '{}' WHERE book = 'book' AND seq = 11")
        where.run("DELETE FROM events WHERE book = 'book' AND seq > 8")
        where.run("DELETE FROM keys WHERE book = 'book' AND seq > 8")
        where.run("DELETE FROM events WHERE book = 'other' AND seq > 1")
        book, other = ledger.repair(copy=copy.address)
        assert [event.seq for event in book.added] == [9, 10]
        assert (book.damage, book.whole) == (None, False)
        assert "only up to its damage: book 'book': event 11 was changed" in str(book)
        assert "nothing is known to be missing" not in str(book)
        assert ([event.seq for event in other.added], other.copy_damage, other.whole) == ([2], None, True)
        assert set(events(where)) == {row for row in before if row[0] == "other" or row[1] <= 10}
        ledger.verify()
