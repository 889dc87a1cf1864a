"""A ledger in PostgreSQL: many writers, to different books at the same time."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from makewhole.extras import need
from makewhole.ledger.database import APPLICATION, MIGRATIONS, Store
from makewhole.ledger.refusals import LedgerUnavailable, NotALedger


class PostgresStore(Store):
    """A database. An advisory lock covers one book: different books can be written at the same time."""

    # The last two are PostgreSQL's defaults, but its owner may have changed them. With another isolation, a
    # writer that has waited for a book sees its old state; without the last, a write that was confirmed can
    # be lost.
    _SETTINGS = """SET lock_timeout = '{wait}ms'; SET idle_in_transaction_session_timeout = '60s';
        SET default_transaction_isolation = 'read committed';
        SELECT set_config('synchronous_commit', 'on', false)
        WHERE current_setting('synchronous_commit') IN ('off', 'local')"""

    def __init__(self, address: str, *, wait: float = 5.0) -> None:
        super().__init__()
        psycopg = need("psycopg", "ledger")
        self._psycopg, self._address, self._wait = psycopg, address, int(wait * 1000)
        self._connection: Any = None
        self._closed = False
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
            raise LedgerUnavailable(f"the database cannot be used now: {error}") from error

    def _connected(self) -> Any:
        """The connection; a new one if the last was lost."""
        if self._closed:
            raise LedgerUnavailable("the ledger was closed: open it again")
        if self._connection is None or self._connection.closed:
            self._connection = self._psycopg.connect(self._address, autocommit=True)
            self._connection.execute(self._SETTINGS.format(wait=self._wait))
        return self._connection

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
            for step in MIGRATIONS[version:]:
                for sql in step:
                    connection.execute(sql.format(bytes="BYTEA", rowid="", by=self._BY))
            connection.execute("UPDATE makewhole_version SET version = %s", (len(MIGRATIONS),))

    def _rows(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self._unavailable():
            rows: list[tuple[Any, ...]] = self._connected().execute(sql.replace("?", "%s"), values).fetchall()
            return rows

    def _write(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        with self._connection.cursor() as cursor:
            cursor.executemany(sql.replace("?", "%s"), rows)

    @contextlib.contextmanager
    def writing(self, book: str) -> Iterator[None]:
        """Lock a book."""
        with self._unavailable():
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
