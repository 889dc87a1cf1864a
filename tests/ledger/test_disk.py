"""Power cuts at every single write, disks that are full, and files that are not what they should be."""

import contextlib
import os
import random
import shutil
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import apsw
import pytest

from ledger.disk import Disk
from ledger.places import SECOND, Clock, Place, new_book, whole
from makewhole.ledger import (
    BookExists,
    Ledger,
    LedgerUnavailable,
    LogDamaged,
    NotALedger,
    Receipt,
    writing,
)
from makewhole.ledger.store import SqliteStore

# What fails inside a call of SQLite is also told to whoever listens, here to pytest.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

# One by one and in groups; a group in brackets. What is asked twice is answered twice.
RUN: list[list[dict[str, Any]]] = [
    [{"do": "forecast", "id": "a", "mu": 0.25}],
    [{"do": "stake", "id": "a", "by": "ann", "stake": 40}],
    [{"do": "stake", "id": "a", "by": name, "stake": 10} for name in ("bob", "cid", "dan")],
    [{"do": "forecast", "id": "b", "mu": 0.5}, {"do": "stake", "id": "b", "by": "ann", "stake": -70}],
    [{"do": "report", "id": "a", "outcome": 1}],
    [{"do": "settle"}, {"do": "settle"}],
    [{"do": "void", "id": "b", "reason": "fog"}, {"do": "deposit", "amount": 5}],
    [{"do": "forecast", "id": f"c{n}", "mu": 0.1} for n in range(4)],
    [{"do": "stake", "id": f"c{n}", "by": "eve", "stake": 33} for n in range(4)],
    [{"do": "withdraw", "amount": 7}],
]


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[list[dict[str, Any]]]:
    """The run with a key for each request; snapshots are taken often in it."""
    monkeypatch.setattr(writing, "_SNAPSHOT_EVERY", 8)
    monkeypatch.setattr(writing, "_BYTES_PER_EVENT", 10**9)
    return [[one | {"key": f"{g} {i}"} for i, one in enumerate(group)] for g, group in enumerate(RUN)]


def opened(place: Place, disk: Disk | None, clock: Clock) -> Ledger:
    """The ledger on this disk, with a log file that is copied back often."""
    store = SqliteStore(place.address, vfs=disk.name if disk else None)
    store._connection.execute("PRAGMA wal_autocheckpoint = 12")
    if disk is None:
        store._connection.execute("PRAGMA synchronous = OFF")  # nothing more is cut, and syncing takes long
    return Ledger(store, place.key, clock)


def play(ledger: Ledger, steps: list[list[dict[str, Any]]], done: list[Receipt]) -> str:
    """Ask for all of it, note what was acknowledged, and return the head."""
    try:
        book = new_book(ledger)
    except BookExists:
        book = ledger.book("book")
    for group in steps:
        for one in book.do_many(group):
            done += one.answer()
    return book.statement().head


def abandon(ledger: Ledger) -> None:
    """Let go of it as a power cut does."""
    store: Any = ledger.store
    with contextlib.suppress(apsw.Error):
        store._connection.close(force=True)


def reference(folder: Path, steps: list[list[dict[str, Any]]], key: Path) -> tuple[str, int]:
    """The head after an undisturbed run, and how many times it touches the disk."""
    folder.mkdir()
    disk = Disk("undisturbed")
    ledger = opened(Place(str(folder / "books.db"), key), disk, Clock())
    head = play(ledger, steps, [])
    count = disk.count
    ledger.close()
    return head, count


@pytest.mark.slow
def test_a_power_cut_at_any_write_loses_nothing_that_was_acknowledged(
    tmp_path: Path, steps: list[list[dict[str, Any]]], fuzzing: int
) -> None:
    key = tmp_path / "key"
    head, count = reference(tmp_path / "whole", steps, key)
    assert count > 60
    for stop_at in range(1, count + 1):
        folder = tmp_path / f"cut {stop_at}"
        folder.mkdir()
        disk = Disk(f"cut {stop_at}", stop_at=stop_at)
        done: list[Receipt] = []
        try:
            ledger = opened(Place(str(folder / "books.db"), key), disk, Clock())
        except LedgerUnavailable:
            ledger = None
        if ledger is not None:
            with pytest.raises(LedgerUnavailable):
                play(ledger, steps, done)
            abandon(ledger)
        for variant in range(3 * fuzzing):
            draw = random.Random(f"{stop_at} {variant}") if variant else None  # noqa: S311 - no secrets here
            after_power_cut(folder, key, disk, draw, steps, done, head)


def after_power_cut(
    folder: Path,
    key: Path,
    disk: Disk,
    draw: random.Random | None,
    steps: list[list[dict[str, Any]]],
    done: list[Receipt],
    head: str,
) -> None:
    """What is left has all that was acknowledged; asking again for everything gives the undisturbed log."""
    left = dict(disk.left(draw))
    for path in folder.iterdir():
        if path.name not in left:
            path.unlink()
    for name, content in left.items():
        (folder / name).write_bytes(content)  # the same file: a copy would be another one
    place = Place(str(folder / "books.db"), key)
    ledger = opened(place, None, Clock())
    ledger.verify(done)
    assert play(ledger, steps, []) == head
    ledger.close()


@pytest.mark.slow
@pytest.mark.parametrize(("failure", "length"), [(apsw.FullError, 1), (apsw.IOError, 5)])
def test_a_full_disk_is_refused_whole_and_then_all_goes_on(
    tmp_path: Path, steps: list[list[dict[str, Any]]], failure: Any, length: int
) -> None:
    key = tmp_path / "key"
    head, count = reference(tmp_path / "whole", steps, key)
    for first in range(1, count + 1, 3):
        folder = tmp_path / f"{first}"
        folder.mkdir()
        place = Place(str(folder / "books.db"), key)
        disk = Disk(f"full {first}", fail_at=range(first, first + length), failure=failure)
        ledger, refusals = None, 0
        done: list[Receipt] = []
        while True:
            try:
                ledger = ledger or opened(place, disk, Clock())
                again = play(ledger, steps, done)
                break
            except LedgerUnavailable:
                refusals += 1
                assert refusals <= length
                if ledger is not None:
                    ledger.verify(done)  # in the same process: nothing is half there
        assert again == head
        ledger.verify(done)
        disk.fail_at = range(0)
        ledger.close()
        whole(place)


# --- files that are not what they should be -----------------------------------------------------------------


class ReadOnly(apsw.VFS):
    """A file system on which nothing can be written; even the administrator cannot."""

    def __init__(self) -> None:
        super().__init__("read-only", "")

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:  # noqa: N802 - apsw's name
        """Open a file to read it."""
        if flags[0] & (apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE):
            raise apsw.CantOpenError("read-only file system")
        return super().xOpen(name, flags)


def test_a_read_only_file_can_be_read_or_is_refused_and_is_never_changed(file: Place) -> None:
    with file.open() as ledger:
        new_book(ledger).forecast("a", mu=0.5)
    before = Path(file.address).read_bytes()
    disk = ReadOnly()

    def stake() -> None:
        ledger = Ledger(SqliteStore(file.address, vfs="read-only"), file.key)
        ledger.book("book").stake("a", by="ann", stake=5)

    with pytest.raises(LedgerUnavailable, match="cannot be used now"):
        stake()
    del disk
    assert Path(file.address).read_bytes() == before
    whole(file)


def test_while_somebody_else_writes_it_can_be_read_and_writing_is_refused(file: Place) -> None:
    with file.open(wait=0.05) as ledger:
        book = new_book(ledger)
        book.forecast("a", mu=0.5)
        other = apsw.Connection(file.address)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerUnavailable, match="cannot be used now"):
            book.stake("a", by="ann", stake=5, key="k")
        assert book.quote("a", by="ann", stake=5).payout == 5
        assert book.statement().premiums == 0
        other.execute("ROLLBACK")
        other.close()
        book.stake("a", by="ann", stake=5, key="k")
        assert book.statement().premiums == 3
    whole(file)


@pytest.mark.slow
def test_while_somebody_else_writes_to_the_book_in_postgresql_it_can_be_read(database: Place) -> None:
    with database.open(wait=0.05) as ledger, database.open() as other:
        book = new_book(ledger)
        book.forecast("a", mu=0.5)
        second = new_book(ledger, "second")
        with other.store.writing("book"):
            with pytest.raises(LedgerUnavailable, match="lock timeout"):
                book.stake("a", by="ann", stake=5, key="k")
            assert book.statement().premiums == 0
            second.forecast("a", mu=0.5)  # another book is free
        book.stake("a", by="ann", stake=5, key="k")
    whole(database)


def other_file(path: Path) -> None:
    path.write_bytes(b"not a database at all, but long enough to be looked at" * 100)


def other_database(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE events (a)")
    connection.commit()
    connection.close()


def newer(path: Path) -> None:
    Ledger.open(path).close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.commit()
    connection.close()


@pytest.mark.parametrize(
    ("make", "words"), [(other_file, "not a ledger"), (other_database, "not a ledger"), (newer, "version 99")]
)
def test_a_file_that_is_not_ours_is_refused_and_left_as_it_was(file: Place, make: Any, words: str) -> None:
    path = Path(file.address)
    make(path)
    before = path.read_bytes()
    with pytest.raises(NotALedger, match=words):
        file.open()
    assert path.read_bytes() == before
    assert not Path(f"{path}-journal").exists()


@pytest.mark.slow
def test_a_database_that_is_not_ours_is_refused(database: Place) -> None:
    database.run("CREATE TABLE events (a int)")
    with pytest.raises(NotALedger, match="not of makewhole"):
        database.open()
    database.run("DROP TABLE events")
    database.open().close()
    database.run("UPDATE makewhole_version SET version = 99")
    with pytest.raises(NotALedger, match="version 99"):
        database.open()


@pytest.mark.slow
def test_a_database_whose_owner_prefers_speed_stores_before_it_answers(database: Place) -> None:
    name = database.run("SELECT current_database()")[0][0]
    for setting in ("synchronous_commit = off", "default_transaction_isolation = 'serializable'"):
        database.run(f"ALTER DATABASE {name} SET {setting}")
    with database.open() as ledger, database.open() as other:
        assert ledger.store._rows("SHOW synchronous_commit") == [("on",)]
        new_book(ledger).forecast("a", mu=0.5)
        books = [one.book("book") for one in (ledger, other)]
        with ThreadPoolExecutor(2) as pool:
            done = [pool.submit(books[n % 2].stake, "a", by="ann", stake=1) for n in range(40)]
        assert len({one.result().seq for one in done}) == 40
    whole(database)


def test_a_folder_and_a_place_that_is_not_there_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "no" / "books.db"):
        with pytest.raises(LedgerUnavailable, match="cannot be used now"):
            Ledger.open(path)


@pytest.mark.parametrize("part", [0.1, 0.3, 0.5, 0.7, 0.9])
def test_a_truncated_file_is_refused_or_found(file: Place, part: float) -> None:
    with file.open() as ledger:
        book = new_book(ledger)
        for n in range(60):
            book.forecast(f"{n}" * 50, mu=0.5)
        receipt = book.stake("7" * 50, by="ann", stake=5)
    path = Path(file.address)
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * part)])
    with pytest.raises((NotALedger, LogDamaged)):
        file.open().verify([receipt])


def test_a_ledger_that_was_closed_says_so(where: Place) -> None:
    ledger = where.open()
    book = new_book(ledger)
    ledger.close()
    ledger.close()
    with pytest.raises(LedgerUnavailable, match="closed"):
        book.forecast("a", mu=0.5)
    with pytest.raises(LedgerUnavailable, match="closed"):
        ledger.books()


def test_a_clock_that_jumps_back_does_not_turn_time_back(where: Place, clock: Clock) -> None:
    with where.open(clock=clock) as ledger:
        book = new_book(ledger, hold=10)
        start = clock.now
        book.forecast("a", mu=0.5, closes=start + 100 * SECOND)
        clock.pass_by(50)
        book.report("a", 1, by="eve")
        clock.pass_by(-1_000_000)
        assert book.settle() == []  # it is not due, and time stands still
        book.report("a", 0, by="eve")  # and so it can be replaced: the hold begins again at the old time
        with where.open(clock=clock) as other:
            other.book("book").forecast("b", mu=0.5)
        clock.pass_by(1_000_000 + 10)
        (settled,) = book.settle()
        assert settled["outcome"] == 0
        at = [event.at for event in book.events()]
        assert at == sorted(at)
        assert at[-1] == start + 60 * SECOND
    whole(where)


# --- copies -------------------------------------------------------------------------------------------------


def begun(file: Place) -> Ledger:
    """An open ledger, of which some events were moved from the -wal file and the others were not."""
    ledger = file.open()
    book = new_book(ledger)
    book.forecast("x", mu=0.5)
    store: Any = ledger.store
    store._connection.execute("PRAGMA wal_checkpoint")
    book.do_many([{"do": "stake", "id": "x", "by": "ann", "stake": 1} for _ in range(50)])
    return ledger


def copied(file: Place, name: str, *more: str) -> Place:
    """Copy the file as `cp` does, and those beside it whose names end so."""
    to = Path(file.address).with_name(name)
    for ending in ("", *more):
        shutil.copy(file.address + ending, f"{to}{ending}")
    return Place(str(to), file.key)


def test_a_copy_of_a_file_in_use_says_what_is_missing(file: Place) -> None:
    with begun(file) as ledger:
        half, both = copied(file, "half.db"), copied(file, "both.db", "-wal")
        ledger.backup(Path(file.address).with_name("backup.db"))
    words = r"half.db is a copy of a ledger in use.*half.db-wal.*book 'book' ends with event 2 here.*backup"
    for _ in range(2):  # it is not accepted the second time, either
        with pytest.raises(NotALedger, match=words):
            half.open()
    after = copied(file, "after.db")
    for place in (both, after, Place(str(Path(file.address).with_name("backup.db")), file.key), file):
        with place.open() as ledger:
            assert ledger.verify().events == 52
            ledger.book("book").stake("x", by="ann", stake=1)


def test_a_copy_of_a_new_file_in_use_is_refused(file: Place) -> None:
    with file.open() as ledger:
        new_book(ledger)
        place = copied(file, "half.db")
    with pytest.raises(NotALedger, match="there is no book here"):
        place.open()


def test_a_file_whose_process_was_killed_is_no_copy(file: Place) -> None:
    abandon(begun(file))
    assert file.run("SELECT count(*) FROM events") == [(52,)]  # another program empties the -wal
    assert not Path(f"{file.address}-wal").exists()
    with file.open() as ledger:
        assert ledger.verify().events == 52


def test_two_that_have_a_file_open_close_it_one_after_the_other(file: Place) -> None:
    first = begun(file)
    with file.open() as second:
        first.close()
        assert second.book("book").stake("x", by="ann", stake=1).seq == 53
        assert Path(f"{file.address}-wal").exists()
    assert not Path(f"{file.address}-wal").exists()
    with copied(file, "after.db").open() as ledger:
        assert ledger.verify().events == 53


@pytest.mark.skipif(os.name != "posix", reason="other systems have no modes")
def test_only_the_owner_can_read_a_new_ledger(file: Place) -> None:
    before = os.umask(0o022)
    try:
        with begun(file) as ledger:
            ledger.backup(Path(file.address).with_name("backup.db"))
            found = {path.name: path.stat().st_mode & 0o777 for path in Path(file.address).parent.iterdir()}
    finally:
        os.umask(before)
    names = {"books.db", "books.db-wal", "books.db-shm", "books.db.key", "backup.db"}
    assert found == dict.fromkeys(names, 0o600)
