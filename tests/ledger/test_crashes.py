"""Processes that are killed, servers that restart, many writers, interrupts: each stake is there once."""

import linecache
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import makewhole.ledger
from ledger import child
from ledger.places import Place, new_book, whole
from ledger.server import Server
from makewhole.ledger import Book, BookExists, LedgerUnavailable

KILLS = int(os.environ.get("MAKEWHOLE_KILLS", "5"))


def start(place: Place, book: str, name: str, stakes: int, notes: Path) -> subprocess.Popen[bytes]:
    """Start a child that stakes."""
    given = [place.address, str(place.key), book, name, str(stakes), str(notes)]
    return subprocess.Popen([sys.executable, child.__file__, *given])


def acknowledged(notes: Path) -> dict[str, tuple[int, str]]:
    """What a child was answered: by key, the event and its hash."""
    lines = notes.read_text().splitlines() if notes.exists() else []
    return {key: (int(seq), hash_) for key, seq, hash_ in (line.split("\t") for line in lines)}


def prepared(place: Place, book: str = "book") -> None:
    """A book in which a great many small stakes can be placed on one id."""
    with place.open() as ledger:
        new_book(ledger, book, capital=10**9, max_stake=10**6).forecast("open", mu=0.5)


def each_once(place: Place, book: str, told: dict[str, tuple[int, str]]) -> dict[str, int]:
    """All that was acknowledged is there, once and as it was; returns the event of every key."""
    whole(place, book)
    rows = place.run("SELECT seq, hash FROM events WHERE book = ?", book)
    events = {seq: bytes(hash_).hex() for seq, hash_ in rows}
    keys = dict(place.run("SELECT key, seq FROM keys WHERE book = ?", book))
    for key, (seq, hash_) in told.items():
        assert events[seq] == hash_
        assert keys[key] == seq
    assert max(Counter(keys.values()).values(), default=0) <= 1
    return keys


def ask_again(place: Place, book_name: str, told: dict[str, tuple[int, str]], name: str) -> None:
    """A client that asks again for all that it has asked for, and then some, has each of it once."""
    with place.open() as ledger:
        book = ledger.book(book_name)
        for thread in range(3):
            mine = f"{name} {thread}"
            count = sum(key.startswith(f"{mine} ") for key in told) + child.GROUP + 1
            for n, one in enumerate(book.do_many([child.request(mine, n) for n in range(count)])):
                (receipt,) = one.answer()
                if f"{mine} {n}" in told:
                    assert told[f"{mine} {n}"] == (receipt.seq, receipt.hash)
        stakes = [event for event in book.events() if event.kind == "staked"]
        assert len(stakes) == len(place.run("SELECT key FROM keys WHERE book = ?", book_name))


@pytest.mark.slow
def test_a_process_that_is_killed_leaves_each_stake_whole_and_once(where: Place, tmp_path: Path) -> None:
    for kill in range(KILLS):
        book, name, notes = f"book {kill // 10}", f"round {kill}", tmp_path / f"notes {kill}"
        if kill % 10 == 0:
            prepared(where, book)
        process = start(where, book, name, 10**6, notes)
        while len(acknowledged_bytes(notes)) < 2_000 + 1_300 * (kill % 7):
            assert process.poll() is None
        process.kill()
        process.wait()
        told = acknowledged(notes)
        assert told
        each_once(where, book, told)
        ask_again(where, book, told, name)
        whole(where, book)


def acknowledged_bytes(notes: Path) -> bytes:
    """What was noted so far; waits a moment, to leave the processor to whoever writes."""
    time.sleep(0.005)
    return notes.read_bytes() if notes.exists() else b""


@pytest.mark.slow
def test_two_processes_write_to_one_book(where: Place, tmp_path: Path) -> None:
    prepared(where)
    for attempt in range(5):
        notes = [tmp_path / f"{name} {attempt}" for name in ("one", "two")]
        processes = [start(where, "book", path.name, 100, path) for path in notes]
        assert [process.wait() for process in processes] == [0, 0]
        told = acknowledged(notes[0]) | acknowledged(notes[1])
        assert len(told) == 600
        keys = each_once(where, "book", told)
        assert sorted(keys.values()) == list(range(3, 603 + 600 * attempt))
        order = "".join(key[0] for key in sorted(told, key=keys.__getitem__))
        if "ot" in order and "to" in order:
            return
    pytest.fail("they have never written at the same time")


@pytest.mark.slow
def test_a_database_that_restarts_under_load_has_each_stake_once(server: Server, database: Place) -> None:
    prepared(database)
    refusals = Counter[str]()

    def stake(name: str) -> list[int]:
        with database.open() as ledger:
            book = ledger.book("book")
            return [persist(book, child.request(name, n)) for n in range(200)]

    def persist(book: Book, asked: dict[str, Any]) -> int:
        while True:
            try:
                return book.do_many([asked])[0].answer()[0].seq
            except LedgerUnavailable:
                refusals[asked["by"]] += 1
                time.sleep(0.01)

    with ThreadPoolExecutor(3) as pool:
        clients = [pool.submit(stake, name) for name in ("ann", "bob", "cid")]
        for share in (60, 250):
            while database.run("SELECT count(*) FROM keys")[0][0] < share:
                assert not any(client.done() for client in clients)
                time.sleep(0.02)
            server.stop()
            server.start()
        found = [seq for client in clients for seq in client.result()]
    assert sorted(found) == list(range(3, 603))
    assert refusals, "nobody has noticed that the server was away"
    whole(database)


@pytest.mark.parametrize("attempt", range(3))
def test_many_open_a_new_ledger_at_the_same_time(where: Place, attempt: int) -> None:
    together = threading.Barrier(6)

    def begin(n: int) -> str:
        together.wait()
        with where.open() as ledger:
            try:
                new_book(ledger, "one" if n % 2 else f"own {n}")
            except BookExists:
                return "exists"
            return "created"

    with ThreadPoolExecutor(6) as pool:
        done = Counter(pool.map(begin, range(6)))
    assert done == {"created": 4, "exists": 2}
    with where.open() as ledger:
        assert ledger.books() == ["one", "own 0", "own 2", "own 4"]
        ledger.verify()
    assert not list(where.key.parent.glob("*.draft"))


def test_threads_of_one_process_stake_each_once(where: Place) -> None:
    with where.open() as ledger:
        book = new_book(ledger, capital=10**9, max_stake=10**6)
        book.forecast("open", mu=0.5)
        with ThreadPoolExecutor(8) as pool:
            keys = [str(n % 60) for n in range(120)]  # every request is asked twice, at about the same time
            found = list(pool.map(lambda key: book.stake("open", by="ann", stake=1, key=key).seq, keys))
        assert Counter(Counter(found).values()) == {2: 60}
        assert book.statement().premiums == 60
    whole(where)


# --- interrupts ---------------------------------------------------------------------------------------------

FOLDER = str(Path(makewhole.ledger.__file__).parent)


class Interrupt:
    """Raises a KeyboardInterrupt before the n-th line of the ledger's code that runs; then, no more."""

    def __init__(self, at: int) -> None:
        self.left = at

    def __call__(self, frame: FrameType, event: str, _: Any) -> "Interrupt | None":
        if not frame.f_code.co_filename.startswith(FOLDER):
            return None
        if event == "line" and not leaves_block(frame):
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
        return self


def leaves_block(frame: FrameType) -> bool:
    """Whether this is the end of a `with` block, where Python does not look for interrupts.

    It looks after calls, at the beginning of functions, and when it jumps back.
    """
    line = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
    first = min(begin for begin, _, number in frame.f_code.co_lines() if number == frame.f_lineno)
    return line.startswith("with ") and frame.f_lasti > first


def interrupted(at: int, call: Callable[[], Any]) -> bool:
    """Make a call that is interrupted before the n-th line; returns whether it was."""
    before = sys.gettrace()
    sys.settrace(Interrupt(at))
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


@pytest.mark.slow
def test_an_interrupt_at_any_line_leaves_nobody_waiting_and_nothing_half_done(where: Place) -> None:
    """The main thread writes for another, too, and is interrupted; the other must have an answer."""
    ledger, at, tries, going_on = where.open(), 0, 0, True
    while going_on:
        if tries % 20 == 0:  # each interrupt makes it read the book again, so it should be short
            book = new_book(ledger, f"book {at}", capital=10**9, max_stake=10**6)
            book.forecast("open", mu=0.5)
        at += 1 if where.is_file else 3
        tries += 1
        other = threading.Thread(target=answered, args=(book, f"other {at}"), daemon=True)
        with ledger.store.lock:
            other.start()
            while not book._writer._queue:
                time.sleep(0)
            going_on = interrupted(at, lambda: answered(book, f"main {at}"))  # noqa: B023 - called at once
        other.join(20)
        assert not other.is_alive(), f"interrupted before line {at}, another waits for ever"
        assert None not in {answered(book, f"{who} {at}") for who in ("main", "other")}
        assert book.statement().events == 2 + 2 * ((tries - 1) % 20 + 1), f"interrupted before line {at}"
    assert at > 50
    ledger.verify()
    ledger.close()


def answered(book: Book, key: str) -> int | None:
    """Stake; None if the ledger says that it does not know whether it was stored."""
    try:
        return book.stake("open", by="ann", stake=1, key=key).seq
    except LedgerUnavailable:
        return None
