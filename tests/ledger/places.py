"""Where a ledger under test is kept, and a clock that goes as it is told."""

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import psycopg
import pytest

import makewhole as mw
from makewhole.ledger import Book, Ledger, StoreUnavailable

SECOND = 1_000_000


class Clock:
    """Microseconds since 1970, as set."""

    def __init__(self, now: int = 1_800_000_000 * SECOND) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now

    def pass_by(self, much: float) -> None:
        """Go on by so many seconds; backwards if below 0."""
        self.now += round(much * SECOND)


class Place(NamedTuple):
    """A file or a database, and the file of the key."""

    address: str
    key: Path

    @property
    def is_file(self) -> bool:
        """Whether it is SQLite."""
        return "://" not in self.address

    def open(self, **given: Any) -> Ledger:
        """Open the ledger; several may be open at the same time."""
        return Ledger.open(self.address, **({"key": self.key} | given))

    def run(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Run SQL behind the ledger's back, as its owner could."""
        if self.is_file:
            connection = apsw.Connection(self.address)
            try:
                return connection.execute(sql, values).fetchall()
            finally:
                connection.close()
        with psycopg.connect(self.address, autocommit=True) as other:
            done = other.execute(sql.replace("?", "%s"), values)
            return done.fetchall() if done.description else []


def new_book(ledger: Ledger, name: str = "book", **given: Any) -> Book:
    """A book with a capital of 10,000 and 100 per id, which one customer may hold, or as given."""
    settings: dict[str, Any] = {"capital": 10_000, "max_stake": 100, "unit": "cent"} | given
    capital = settings["capital"]
    each = 0.4 * capital if isinstance(capital, int) and capital > 0 else 4_000
    settings = {"lines": mw.Lines(each=each, share=1)} | settings
    return ledger.create(settings.pop("name", name), **settings)


def eventually(call: Callable[[], Any]) -> Any:
    """Call until the database answers, as a client does that retries with the same key."""
    for _ in range(100):
        with contextlib.suppress(StoreUnavailable):
            return call()
        time.sleep(0.1)
    pytest.fail("the database has not come back")


def whole(place: Place, book: str = "book") -> None:
    """Verify everything that must be so in any database, with SQL of our own: no gaps, every key's events."""
    # Keys before events: what a killed process had sent may still be stored between the two questions.
    keys = place.run("SELECT first, seq FROM keys WHERE book = ?", book)
    (count, last), *_ = place.run("SELECT count(*), coalesce(max(seq), 0) FROM events WHERE book = ?", book)
    assert count == last
    for first, seq in keys:
        assert 1 <= first <= seq + 1 <= last + 1
    with place.open() as ledger:
        ledger.verify(book=book)
