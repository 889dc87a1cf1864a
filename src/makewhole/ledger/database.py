"""The tables of a ledger and the statements on them, which are the same in SQLite and PostgreSQL.

A writer locks the book, catches up, decides, inserts events and then keys, and commits. The primary
key (book, seq) is the last line of defence: two events can never have the same place.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from makewhole.ledger.events import ORIGIN, Event
from makewhole.ledger.refusals import LogDamaged

# "mwhl": marks our SQLite files, and is the lock under which PostgreSQL's tables are made.
APPLICATION = 0x6D77686C

# The steps from one version of the tables to the next, forward only: version n has had the first n steps.
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE events (
            book TEXT NOT NULL, seq BIGINT NOT NULL, at BIGINT NOT NULL, kind TEXT NOT NULL,
            about TEXT, body TEXT NOT NULL, hash {bytes} NOT NULL, PRIMARY KEY (book, seq)){rowid}""",
        "CREATE INDEX events_about ON events (book, about, seq)",
        """CREATE TABLE keys (
            book TEXT NOT NULL, key TEXT NOT NULL, digest {bytes} NOT NULL, first BIGINT NOT NULL,
            seq BIGINT NOT NULL, PRIMARY KEY (book, key)){rowid}""",
        """CREATE TABLE snapshots (
            book TEXT NOT NULL, seq BIGINT NOT NULL, body TEXT NOT NULL, PRIMARY KEY (book, seq))""",
    ),
    (
        "CREATE INDEX events_by ON events (book, {by}, seq) WHERE kind = 'staked'",
        """CREATE TABLE access (
            id TEXT NOT NULL PRIMARY KEY, role TEXT NOT NULL, name TEXT NOT NULL, digest {bytes} NOT NULL,
            made BIGINT NOT NULL, revoked BIGINT)""",
    ),
    ("CREATE TABLE file (inode TEXT NOT NULL)",),  # SQLite: which file this is; a copy is another one
    # Whether an id has ended is one step along this index, however many stakes it has.
    ("CREATE INDEX events_end ON events (book, about) WHERE kind IN ('settled', 'voided')",),
)

_EVENT = "book, seq, at, kind, about, body, hash"
_INSERT = "INSERT INTO events (book, seq, at, kind, about, body, hash) VALUES (?, ?, ?, ?, ?, ?, ?)"
_INSERT_KEY = "INSERT INTO keys (book, key, digest, first, seq) VALUES (?, ?, ?, ?, ?)"
_PAGE = 5_000


class Key(NamedTuple):
    """A request that was done before: its digest, and the first and last of its events."""

    key: str
    digest: bytes
    first: int
    seq: int


class Store:
    """What SQLite and PostgreSQL have in common; it belongs to one thread at a time (`lock`)."""

    _BY_ID = _BY_NAME = _BY_END = ""  # names the index to use, if a database would choose another
    _AMONG = "= ANY(?)"  # one of a list of texts
    _BY = "(body::json->>'by')"  # the customer of a stake

    @staticmethod
    def _list(texts: Iterable[str]) -> Any:
        """A list of texts, in the form that the database accepts."""
        return list(texts)

    def __init__(self) -> None:
        self.lock = threading.RLock()

    def _rows(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        raise NotImplementedError

    def _write(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        raise NotImplementedError

    def writing(self, book: str) -> contextlib.AbstractContextManager[None]:
        """Lock a book: no other writer can change it until the end; then all is stored, or nothing."""
        raise NotImplementedError

    def reading(self) -> contextlib.AbstractContextManager[None]:
        """See one state of the log throughout."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the database."""
        raise NotImplementedError

    # --- the log ------------------------------------------------------------------------------------------

    def books(self) -> list[str]:
        """The names of all books: one step along the index for each, however many events there are."""
        return self._books_in("events")

    def _books_in(self, table: str) -> list[str]:
        sql = f"SELECT book FROM {table} WHERE book > ? ORDER BY book LIMIT 1"  # noqa: S608 - our own names
        found: list[str] = []
        while True:
            rows = self._rows(sql, (found[-1] if found else "",))
            if not rows:
                return found
            found.append(rows[0][0])

    def mentioned(self) -> list[str]:
        """The names of all books in any row, even if a book's first event is missing."""
        tables = " UNION ".join(f"SELECT book FROM {table}" for table in ("events", "keys", "snapshots"))  # noqa: S608 - our own names
        names = [name for (name,) in self._rows(tables)]
        odd = [name for name in names if not isinstance(name, str)]
        if odd:
            raise LogDamaged(f"the name of a book is not text: {odd[0]!r}", 0)
        return sorted(names)

    def head(self, book: str) -> tuple[int, bytes]:
        """The number and the hash of a book's last event; (0, `ORIGIN`) if there is none."""
        rows = self._rows("SELECT seq, hash FROM events WHERE book = ? ORDER BY seq DESC LIMIT 1", (book,))
        return (rows[0][0], rows[0][1]) if rows else (0, ORIGIN)

    def hash_at(self, book: str, seq: int) -> bytes | None:
        """The hash of an event; None if the log does not have it."""
        rows = self._rows("SELECT hash FROM events WHERE book = ? AND seq = ?", (book, seq))
        return rows[0][0] if rows else None

    def events(self, book: str, after: int = 0) -> Iterator[Event]:
        """The events of a book after a number."""
        for page in self.pages(book, after):
            yield from page

    def pages(self, book: str, after: int = 0) -> Iterator[list[Event]]:
        """The same, a few thousand at a time."""
        sql = f"SELECT {_EVENT} FROM events WHERE book = ? AND seq > ? ORDER BY seq LIMIT {_PAGE}"  # noqa: S608 - our own names
        while True:
            with self.lock:
                page = list(map(Event._make, self._rows(sql, (book, after))))
            yield page
            if len(page) < _PAGE:
                return
            after = page[-1].seq

    def between(self, book: str, first: int, last: int) -> list[Event]:
        """The events of a book from one number to another, both included."""
        sql = f"SELECT {_EVENT} FROM events WHERE book = ? AND seq BETWEEN ? AND ? ORDER BY seq"  # noqa: S608 - our own names
        return [Event._make(row) for row in self._rows(sql, (book, first, last))]

    def public_keys(self, book: str) -> list[str]:
        """The keys that sign a book's receipts, oldest first, as its log names them."""
        sql = "SELECT body FROM events WHERE book = ? AND kind IN ('created', 'rekeyed') ORDER BY seq"
        return [str(json.loads(body)["key"]) for (body,) in self._rows(sql, (book,))]

    def key_events(self, book: str, until: int) -> list[Event]:
        """The events up to a number that name a key which signs a book's receipts, oldest first."""
        sql = f"""SELECT {_EVENT} FROM events WHERE book = ? AND kind IN ('created', 'rekeyed') AND seq <= ?
                  ORDER BY seq"""  # noqa: S608 - our own names
        return [Event._make(row) for row in self._rows(sql, (book, until))]

    def about(self, book: str, id_: str) -> list[Event]:
        """The events about an id, oldest first."""
        sql = f"SELECT {_EVENT} FROM events {self._BY_ID} WHERE book = ? AND about = ? ORDER BY seq"  # noqa: S608 - our own names
        return [Event._make(row) for row in self._rows(sql, (book, id_))]

    def latest_about(self, book: str, id_: str, limit: int, before: int | None) -> list[Event]:
        """The latest events about an id, newest first; with `before`, the latest before that event."""
        until = 2**62 if before is None else before
        sql = f"""SELECT {_EVENT} FROM events {self._BY_ID} WHERE book = ? AND about = ? AND seq < ?
                  ORDER BY seq DESC LIMIT ?"""  # noqa: S608 - our own names
        return [Event._make(row) for row in self._rows(sql, (book, id_, until, limit))]

    def staked_by(self, book: str, name: str, limit: int) -> list[Event]:
        """A customer's latest stakes, newest first."""
        sql = f"""SELECT {_EVENT} FROM events {self._BY_NAME}
                  WHERE book = ? AND kind = 'staked' AND {self._BY} = ?
                  ORDER BY seq DESC LIMIT ?"""  # noqa: S608 - our own names
        return [Event._make(row) for row in self._rows(sql, (book, name, limit))]

    def end(self, book: str, id_: str) -> Event | None:
        """The event that ended an id; None if it has not ended."""
        sql = f"""SELECT {_EVENT} FROM events {self._BY_END} WHERE book = ? AND about = ?
                  AND kind IN ('settled', 'voided') LIMIT 1"""  # noqa: S608 - our own names
        rows = self._rows(sql, (book, id_))
        return Event._make(rows[0]) if rows else None

    def ends_among(self, book: str, ids: Iterable[str], until: int) -> dict[str, str]:
        """How each of these ids had ended after the event `until`; those that had not are left out."""
        sql = f"""SELECT about, kind FROM events {self._BY_END} WHERE book = ? AND about {self._AMONG}
                  AND seq <= ? AND kind IN ('settled', 'voided')"""  # noqa: S608 - our own names
        return dict(self._rows(sql, (book, self._list(ids), until))) if ids else {}

    def keys_among(self, book: str, keys: Iterable[str]) -> dict[str, Key]:
        """The requests done under these keys; unused keys are left out."""
        sql = f"SELECT key, digest, first, seq FROM keys WHERE book = ? AND key {self._AMONG}"  # noqa: S608 - our own names
        found = self._rows(sql, (book, self._list(keys))) if keys else []
        return {row[0]: Key._make(row) for row in found}

    def key_beyond(self, book: str, seq: int) -> Key | None:
        """A key that names events which a log that ends with `seq` cannot have; None if there is none."""
        sql = """SELECT key, digest, first, seq FROM keys
                 WHERE book = ? AND (first < 1 OR first > seq + 1 OR seq > ?) ORDER BY seq LIMIT 1"""
        rows = self._rows(sql, (book, seq))
        return Key._make(rows[0]) if rows else None

    def keys_after(self, book: str, seq: int) -> list[Key]:
        """The requests whose last event is after this one, with their keys."""
        sql = "SELECT key, digest, first, seq FROM keys WHERE book = ? AND seq > ? ORDER BY seq"
        return [Key._make(row) for row in self._rows(sql, (book, seq))]

    def snapshot(self, book: str) -> tuple[int, str] | None:
        """The latest snapshot of a book: the event it was taken after, and the state as text."""
        sql = "SELECT seq, body FROM snapshots WHERE book = ? ORDER BY seq DESC LIMIT 1"
        rows = self._rows(sql, (book,))
        return (rows[0][0], rows[0][1]) if rows else None

    def append(self, events: Sequence[Event], keys: Sequence[tuple[str, Key]]) -> None:
        """Insert events and then keys, inside `writing`."""
        self._write(_INSERT, events)
        if keys:
            self._write(_INSERT_KEY, [(book, *key) for book, key in keys])

    def accesses(self) -> list[tuple[Any, ...]]:
        """The access rows: (id, role, name, digest, made, revoked)."""
        return self._rows("SELECT id, role, name, digest, made, revoked FROM access ORDER BY made, id")

    def add_access(self, row: tuple[Any, ...]) -> None:
        """Add an access row, inside `writing`."""
        self._write("INSERT INTO access (id, role, name, digest, made) VALUES (?, ?, ?, ?, ?)", [row])

    def revoke_access(self, id_: str, at: int) -> None:
        """Revoke an access, inside `writing`."""
        self._write("UPDATE access SET revoked = ? WHERE id = ? AND revoked IS NULL", [(at, id_)])

    def keep_snapshot(self, book: str, seq: int, body: str) -> None:
        """Replace the snapshot of a book, inside `writing`."""
        self._write("DELETE FROM snapshots WHERE book = ?", [(book,)])
        self._write("INSERT INTO snapshots (book, seq, body) VALUES (?, ?, ?)", [(book, seq, body)])
