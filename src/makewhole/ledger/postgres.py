"""A ledger in PostgreSQL: many writers, to different books at the same time."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from typing import Any

from makewhole.extras import need
from makewhole.ledger.database import APPLICATION, MIGRATIONS, Store
from makewhole.ledger.refusals import LedgerUnavailable, NotALedger, StoreUnavailable

# Limits of libpq that the address may replace, as in "postgresql://…?connect_timeout=5": how many seconds a
# connection may take, after how many a silent peer counts as gone (5 + 2 · 2), and for how many milliseconds
# sent data may stay unconfirmed.
_CONNECTION = {
    "connect_timeout": "2",
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "2",
    "tcp_user_timeout": "3000",
}
# Limits that the server enforces, in milliseconds. The address may replace them, as in
# "?options=-c%20statement_timeout%3D5000", and so may PGOPTIONS. The second ends a transaction whose host has
# stopped half-way, and would otherwise keep the book locked.
_STATEMENT, _IDLE = 3_000, 10_000
# A server that has stopped enforces nothing. So this many seconds later, the connection is closed from here.
_GRACE = 0.5
# A lost database is not tried again for this many seconds, so that callers in a queue do not all wait for it.
_PAUSE = 1.0


class PostgresStore(Store):
    """A database. An advisory lock covers one book: different books can be written at the same time.

    Every call ends, even if the database has stopped: with its result, or with `StoreUnavailable`. The next
    call connects again.
    """

    # These are PostgreSQL's defaults, but its owner may have changed them. With another isolation, a writer
    # that has waited for a book sees its old state; without the last, a write that was confirmed can be lost.
    _SETTINGS = """SET default_transaction_isolation = 'read committed';
        SELECT set_config('synchronous_commit', 'on', false)
        WHERE current_setting('synchronous_commit') IN ('off', 'local')"""

    def __init__(self, address: str, *, wait: float = 3.0) -> None:
        super().__init__()
        psycopg = need("psycopg", "ledger")
        self._psycopg = psycopg
        try:
            given = psycopg.conninfo.conninfo_to_dict(address)
        except psycopg.Error as error:
            raise ValueError(f"where must be a valid address of PostgreSQL: {error}") from None
        self._address = psycopg.conninfo.make_conninfo(**(_CONNECTION | given))
        lock = int(wait * 1_000)
        limits = {
            "lock_timeout": lock,
            "statement_timeout": max(_STATEMENT, lock),  # a statement may at least wait for its lock
            "idle_in_transaction_session_timeout": _IDLE,
        }
        asked = str(given.get("options") or os.environ.get("PGOPTIONS", ""))
        self._limits = "".join(f"SET {name} = {ms};" for name, ms in limits.items() if name not in asked)
        self._connection: Any = None
        self._closed, self._ready, self._not_before = False, False, 0.0
        self._longest: float | None = None  # seconds for one statement
        try:
            with self._unavailable():
                self._prepare(self._connected())
        except BaseException:
            self.close()
            raise

    @contextlib.contextmanager
    def _unavailable(self) -> Iterator[None]:
        psycopg = self._psycopg
        try:
            yield
        except psycopg.IntegrityError:
            raise
        except psycopg.Error as error:
            self._drop()
            raise StoreUnavailable(f"the database cannot be used now: {error}") from error
        except BaseException as error:
            if not isinstance(error, Exception) and self._connection is not None:
                self._connection.close()  # an interrupt may have left it, and psycopg, half-way
            raise

    def _drop(self) -> None:
        """Close a connection that is inside a transaction or a statement: its state is unknown."""
        made, idle = self._connection, self._psycopg.pq.TransactionStatus.IDLE
        if made is not None and made.info.transaction_status != idle:
            made.close()

    def _connected(self) -> Any:
        """The connection; a new one if the last was lost."""
        if self._closed:
            raise LedgerUnavailable("the ledger was closed: open it again")
        if not self._ready or self._connection.closed:
            if time.monotonic() < self._not_before:
                raise StoreUnavailable("the database did not answer a moment ago: retry in a second")
            try:
                self._connect()
            except self._psycopg.Error:
                self._not_before = time.monotonic() + _PAUSE
                raise
        return self._connection

    def _connect(self) -> None:
        self._ready = False
        if self._connection is not None:
            self._connection.close()
        self._connection = made = self._psycopg.connect(self._address, autocommit=True)
        plain, self._longest = made.wait, _STATEMENT / 1_000 + _GRACE

        def wait(steps: Any, **given: Any) -> Any:
            began = time.monotonic()
            try:
                return plain(steps, **{"timeout": self._longest} | given)
            except self._psycopg.Error:
                if self._longest is not None and time.monotonic() >= began + self._longest:
                    self._not_before = time.monotonic() + _PAUSE
                    made.close()  # there was no answer, and there will be none to a rollback
                raise

        made.wait = wait
        made.execute(self._limits + self._SETTINGS)
        asked = "SELECT setting::float / 1000 FROM pg_settings WHERE name = 'statement_timeout'"
        limit = made.execute(asked).fetchone()[0]
        self._longest = limit + _GRACE if limit else None
        self._ready = True

    def _prepare(self, connection: Any) -> None:
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (APPLICATION,))
            found = connection.execute("SELECT to_regclass('makewhole_version')").fetchone()[0]
            if found is None:
                if connection.execute("SELECT to_regclass('events')").fetchone()[0] is not None:
                    raise NotALedger("the database has a table 'events' that is not of makewhole")
                connection.execute("CREATE TABLE makewhole_version (version BIGINT NOT NULL)")
                connection.execute("INSERT INTO makewhole_version VALUES (0)")
            version = connection.execute("SELECT version FROM makewhole_version").fetchone()[0]
            if version > len(MIGRATIONS):
                raise NotALedger(f"the ledger has version {version}; this makewhole knows {len(MIGRATIONS)}")
            if version == len(MIGRATIONS):
                return
            longest = self._longest
            connection.execute("SET LOCAL statement_timeout = 0")  # an index of a large table takes long
            self._longest = None
            for step in MIGRATIONS[version:]:
                for sql in step:
                    connection.execute(sql.format(bytes="BYTEA", rowid="", by=self._BY))
            connection.execute("UPDATE makewhole_version SET version = %s", (len(MIGRATIONS),))
            self._longest = longest

    def _rows(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self._unavailable():
            rows: list[tuple[Any, ...]] = self._connected().execute(sql.replace("?", "%s"), values).fetchall()
            return rows

    def mentioned(self) -> list[str]:
        """The names of all books in any row, which are text here: found by the indices, within the limits."""
        return sorted({name for table in ("events", "keys", "snapshots") for name in self._books_in(table)})

    def _write(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        with self._connection.cursor() as cursor:
            cursor.executemany(sql.replace("?", "%s"), rows)

    @contextlib.contextmanager
    def writing(self, book: str) -> Iterator[None]:
        """Lock a book."""
        with self._unavailable():
            self._drop()  # for an interrupt that was lost in another error
            connection = self._connected()
            with connection.transaction():
                connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (book,))
                yield

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """See one state of the database throughout; inside `writing`, that of the writer."""
        with self._unavailable():
            connection = self._connected()
            if connection.info.transaction_status != self._psycopg.pq.TransactionStatus.IDLE:
                yield
                return
            with connection.transaction():
                connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
                yield

    def close(self) -> None:
        """Close the connection."""
        self._closed = True
        if self._connection is not None:
            self._connection.close()
