"""A ledger in a file: SQLite, one writer at a time."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from makewhole.extras import need
from makewhole.ledger.database import APPLICATION, MIGRATIONS, Store
from makewhole.ledger.refusals import LedgerUnavailable, NotALedger, StoreUnavailable


class SqliteStore(Store):
    """A file. `BEGIN IMMEDIATE` locks the whole file: one writer at a time, however many books there are."""

    _BY_ID, _BY_NAME = (
        "INDEXED BY events_about",
        "INDEXED BY events_by",
    )  # otherwise SQLite would walk the primary key
    _AMONG = "IN (SELECT value FROM json_each(?))"
    _BY = "json_extract(body, '$.by')"

    @staticmethod
    def _list(texts: Iterable[str]) -> Any:
        """A list of texts as JSON."""
        return json.dumps(list(texts))

    def __init__(self, path: str | os.PathLike[str], *, wait: float = 3.0, vfs: str | None = None) -> None:
        super().__init__()
        apsw = need("apsw", "ledger")
        self._apsw, self.path = apsw, Path(path)
        with self._unavailable():
            self._connection = apsw.Connection(str(path), vfs=vfs)
            self._connection.set_busy_timeout(int(wait * 1000))
        try:
            with self._unavailable():
                self._prepare()
        except BaseException:
            with contextlib.suppress(apsw.Error):  # on a failing disk, closing also fails
                self._connection.close(force=True)
            raise

    @contextlib.contextmanager
    def _unavailable(self) -> Iterator[None]:
        apsw = self._apsw
        try:
            yield
        except (apsw.NotADBError, apsw.CorruptError) as error:
            raise NotALedger(f"{self.path} is not a ledger, or is damaged: {error}") from error
        except apsw.ConstraintError:
            raise
        except apsw.Error as error:
            kind = StoreUnavailable if isinstance(error, apsw.BusyError) else LedgerUnavailable
            raise kind(f"{self.path} cannot be used now: {error}") from error

    def _prepare(self) -> None:
        run = self._connection.execute
        run("PRAGMA synchronous = FULL")
        (tables,), (application,) = run("SELECT count(*) FROM sqlite_schema"), run("PRAGMA application_id")
        if tables[0] and application[0] != APPLICATION:
            raise NotALedger(f"{self.path} is an SQLite file, but not a ledger of makewhole")
        (version,) = run("PRAGMA user_version").fetchone()
        if version > len(MIGRATIONS):
            raise NotALedger(f"{self.path} has version {version}; this makewhole knows {len(MIGRATIONS)}")
        if version == len(MIGRATIONS):
            return
        run("PRAGMA journal_mode = WAL")
        run("BEGIN IMMEDIATE")
        (version,) = run("PRAGMA user_version").fetchone()  # another process may have been faster
        for step in MIGRATIONS[version:]:
            for sql in step:
                run(sql.format(bytes="BLOB", rowid=" WITHOUT ROWID", by=self._BY))
        run(f"PRAGMA application_id = {APPLICATION}")
        run(f"PRAGMA user_version = {len(MIGRATIONS)}")
        run("COMMIT")

    def _rows(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]]
        try:
            rows = self._connection.execute(sql, values).fetchall()
        except self._apsw.Error:
            with self._unavailable():
                raise
        except UnicodeDecodeError as error:
            raise NotALedger(f"{self.path} is damaged: a text in it is not UTF-8 ({error})") from error
        return rows

    def _write(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        self._connection.executemany(sql, rows)

    @contextlib.contextmanager
    def _transaction(self, begin: str) -> Iterator[None]:
        run = self._connection.execute
        with self._unavailable():
            try:
                run(begin)
                yield
                run("COMMIT")
            except BaseException:
                if not self._connection.get_autocommit():
                    run("ROLLBACK")
                raise

    def writing(self, book: str) -> contextlib.AbstractContextManager[None]:
        """Lock the file."""
        return self._transaction("BEGIN IMMEDIATE")

    def reading(self) -> contextlib.AbstractContextManager[None]:
        """See one state of the file throughout; inside `writing`, that of the writer."""
        if not self._connection.get_autocommit():
            return contextlib.nullcontext()
        return self._transaction("BEGIN")

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Copy everything to a new file, while others read and write; any thread may call this.

        It has a separate connection, which sees one state of the file throughout: otherwise SQLite would
        start over after every write by others.
        """
        target = Path(path)
        if target.exists():
            raise FileExistsError(f"path must be a new file; {str(path)!r} exists")
        with self._unavailable():
            copy, source = self._apsw.Connection(str(path)), self._apsw.Connection(str(self.path))
            try:
                source.execute("BEGIN")
                source.execute("SELECT count(*) FROM sqlite_schema").fetchall()  # the state to copy
                with copy.backup("main", source, "main") as backup:
                    while not backup.done:
                        backup.step(1_000)
            except BaseException:
                target.unlink(missing_ok=True)
                raise
            finally:
                source.close()
                copy.close()

    def close(self) -> None:
        """Close the file."""
        with self._unavailable():
            self._connection.close()
