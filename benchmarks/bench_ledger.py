"""The ledger against bare inserts of the same bytes, the same rounds in memory, and bare hashing."""

from __future__ import annotations

import hashlib
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw

import makewhole as mw
from makewhole.ledger import Book, Ledger
from timing import Row

GROUP, GROUPS = 64, 20
ALONE = 1_000
STAKES = 100_000
CUSTOMERS = 50
# 60 µs a round and 20 µs an event; a round in memory takes 21 µs, and reading an event 2.65.
ROUND, VERIFIED = 2.85, 7.5


def requests(start: int, count: int) -> list[dict[str, Any]]:
    """Return the requests of rounds: a forecast, a stake, and its settlement."""
    asked: list[dict[str, Any]] = []
    for k in range(start, start + count):
        id_ = f"flight {k}"
        asked.append({"do": "forecast", "id": id_, "mu": 0.3})
        asked.append({"do": "stake", "id": id_, "by": f"customer {k % CUSTOMERS}", "stake": 1_000})
        asked.append({"do": "settle", "id": id_, "outcome": int(k % 3 == 0)})
    return asked


def new_book(ledger: Ledger, name: str = "book") -> Book:
    """Create a book with enough capital for all rounds."""
    return ledger.create(name, capital=10_000_000, max_stake=100_000, unit="cent")


def bare(path: Path) -> Callable[[Any], None]:
    """Return a function that inserts a row in its own transaction: bare SQLite, same table, same settings."""
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(
        "CREATE TABLE events (book TEXT, seq BIGINT, at BIGINT, kind TEXT, about TEXT, body TEXT, hash BLOB,"
        " PRIMARY KEY (book, seq)) WITHOUT ROWID; CREATE INDEX by_id ON events (book, about, seq)"
    )

    def insert(row: Any) -> None:
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?)", [row])
        connection.execute("COMMIT")

    return insert


def alone(folder: Path) -> tuple[float, float]:
    """Return the milliseconds for a stake that is stored by itself, and for a bare insert of the same bytes.

    They take turns, stake by stake, so that other work on the disk affects both alike.
    """
    took = [0.0, 0.0]
    with Ledger.open(folder / "alone.db") as ledger:
        book, insert = new_book(ledger), bare(folder / "bare.db")
        book.do_many([{"do": "forecast", "id": f"flight {k}", "mu": 0.3} for k in range(ALONE)])
        for k in range(ALONE):
            began = time.perf_counter()
            receipt = book.stake(f"flight {k}", by=f"customer {k % CUSTOMERS}", stake=1_000)
            stored = time.perf_counter()
            insert(receipt.event)
            took[0] += stored - began
            took[1] += time.perf_counter() - stored
    return took[0] / ALONE * 1e3, took[1] / ALONE * 1e3


def head_checked(folder: Path) -> float:
    """Return the milliseconds in which a writer learns that the log still ends with the event it has seen."""
    with Ledger.open(folder / "head.db") as ledger:
        writer = new_book(ledger)._writer
        with ledger.store.lock, ledger.store.reading():
            began = time.perf_counter()
            for _ in range(ALONE):
                writer._caught_up()
            return (time.perf_counter() - began) / ALONE * 1e3


def in_memory(rounds: int) -> Callable[[], None]:
    """Return the same rounds in a forecaster that stores nothing."""
    f = mw.InsuredForecaster(max_stake=100_000, capital=10_000_000)

    def run() -> None:
        for k in range(rounds):
            f.forecast(mu=0.3, id=k)
            f.stake(k, 1000.0, by=f"customer {k % CUSTOMERS}")
            f.settle(k, int(k % 3 == 0))

    return run


def cpu(function: Callable[[], object]) -> float:
    """Return the seconds of CPU that a call takes."""
    began = time.process_time()
    function()
    return time.process_time() - began


def grouped(folder: Path) -> tuple[float, float, float, float, float]:
    """Return the CPU of a round in groups and in memory, of verifying and reading an event; and opening."""
    with Ledger.open(folder / "grouped.db") as ledger:
        book = new_book(ledger)
        ours, memory = float("inf"), float("inf")
        again = in_memory(GROUP * GROUPS)
        for turn in range(5):
            groups = [requests((turn * GROUPS + k) * GROUP, GROUP) for k in range(GROUPS)]
            ours = min(ours, cpu(lambda g=groups: [one.answer() for some in g for one in book.do_many(some)]))  # type: ignore[misc]  # a loop's value
            memory = min(memory, cpu(again))
        rounds = GROUP * GROUPS
        events = list(book.events())
        verified = min(cpu(ledger.verify) for _ in range(3))

        def read() -> None:
            for event in events:
                hashlib.sha256(event.body.encode()).digest()
                json.loads(event.body)

        floor = min(cpu(read) for _ in range(3))
    opened = float("inf")
    for _ in range(3):
        began = time.perf_counter()
        with Ledger.open(folder / "grouped.db") as ledger:
            ledger.book("book").statement()
        opened = min(opened, time.perf_counter() - began)
    each = 1e6 / len(events)
    return ours / rounds * 1e6, memory / rounds * 1e6, verified * each, floor * each, opened


def many_stakes(folder: Path) -> float:
    """Return the seconds to settle an id with a hundred thousand stakes."""
    with Ledger.open(folder / "many.db") as ledger:
        book = ledger.create("book", capital=10**9, max_stake=10**8, unit="cent")
        book.forecast("flight", mu=0.3)
        for start in range(0, STAKES, 1000):
            asked = [
                {"do": "stake", "id": "flight", "by": f"customer {k}", "stake": 100 if k % 2 else -100}
                for k in range(start, start + 1000)
            ]
            book.do_many(asked)
        book.report("flight", 1)
        began = time.perf_counter()
        book.settle()
        return time.perf_counter() - began


def rows() -> list[Row]:
    """Return all rows."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        single, insert = alone(folder)
        checked = head_checked(folder)
        ours, memory, verified, floor, opened = grouped(folder)
        settled = many_stakes(folder)
    return [
        Row("a durable stake by itself", single, "a bare insert of its bytes", insert, "ms", 2.0),
        Row("to check the head, number and hash", checked, "a durable stake by itself", single, "ms", 0.1),
        Row("a round of 3 events, in groups of 64 (CPU)", ours, "the round in memory", memory, "µs", ROUND),
        Row("to verify an event (CPU)", verified, "to hash and to read it", floor, "µs", VERIFIED),
        Row("to open a book of 19,000 events", opened, "a second", 1.0, "s", 1.0),
        Row("to settle an id with 100,000 stakes", settled, "five seconds", 5.0, "s", 1.0),
    ]


if __name__ == "__main__":
    from timing import print_rows

    print_rows(rows())
