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
    """A file. `BEGIN IMMEDIATE` locks the whole file: one writer at a time, however many books there are.

    While the ledger is open, its latest events are in a second file, FILE-wal (SQLite's write-ahead log). The
    last process that closes it moves them into FILE and leaves this mode. So a file in this mode without a
    second file is a copy that lacks the latest events, or its second file was emptied by another program. The
    number of the file (its inode) is noted in it, and tells the two apart.
    """

    # Otherwise SQLite would walk the primary key.
    _BY_ID, _BY_NAME, _BY_END = (
        "INDEXED BY events_about",
        "INDEXED BY events_by",
        "INDEXED BY events_end",
    )
    _AMONG = "IN (SELECT value FROM json_each(?))"
    _BY = "json_extract(body, '$.by')"

    @staticmethod
    def _list(texts: Iterable[str]) -> Any:
        """A list of texts as JSON."""
        return json.dumps(list(texts))

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        wait: float = 3.0,
        vfs: str | None = None,
        partial: bool = False,
    ) -> None:
        super().__init__()
        apsw = need("apsw", "ledger")
        self._apsw, self.path, self._partial = apsw, Path(path), partial
        _make_private(self.path)
        alone = not Path(f"{path}-wal").exists()  # SQLite makes one when it reads
        with self._unavailable():
            self._connection = apsw.Connection(str(path), vfs=vfs)
            self._connection.set_busy_timeout(int(wait * 1000))
        try:
            with self._unavailable():
                self._prepare()
                self._begin(alone)
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
        run("BEGIN IMMEDIATE")
        (version,) = run("PRAGMA user_version").fetchone()  # another process may have been faster
        for step in MIGRATIONS[version:]:
            for sql in step:
                run(sql.format(bytes="BLOB", rowid=" WITHOUT ROWID", by=self._BY))
        run(f"PRAGMA application_id = {APPLICATION}")
        run(f"PRAGMA user_version = {len(MIGRATIONS)}")
        run("COMMIT")

    def _begin(self, alone: bool) -> None:
        """Note which file this is, and begin to write to FILE-wal; NotALedger for a copy without it."""
        run, here = self._connection.execute, str(self.path.stat().st_ino)
        noted = [inode for (inode,) in run("SELECT inode FROM file")]
        in_use = run("PRAGMA journal_mode").fetchone() == ("wal",)
        if in_use and alone and noted != [here] and not self._partial:
            raise NotALedger(self._what_is_missing())
        if noted != [here]:
            with self._transaction("BEGIN IMMEDIATE"):
                run("DELETE FROM file")
                run("INSERT INTO file VALUES (?)", (here,))
        run("PRAGMA journal_mode = WAL")
        run("SELECT inode FROM file").fetchall()  # makes FILE-wal now

    def _what_is_missing(self) -> str:
        ends = [f"book {book!r} ends with event {self.head(book)[0]}" for book in self.books()]
        return (
            f"{self.path} is a copy of a ledger in use, made without {self.path.name}-wal, which has the"
            f" latest events: {'; '.join(ends) or 'there is no book'} here, and later events may be missing."
            " Copy it with `makewhole ledger backup`; `makewhole ledger repair` accepts it as it is"
        )

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
        _make_private(target)
        with self._unavailable():
            copy, source = self._apsw.Connection(str(path)), self._apsw.Connection(str(self.path))
            try:
                source.execute("BEGIN")
                source.execute("SELECT count(*) FROM sqlite_schema").fetchall()  # the state to copy
                with copy.backup("main", source, "main") as backup:
                    while not backup.done:
                        backup.step(1_000)
                copy.execute("PRAGMA journal_mode = DELETE")  # it has everything, and needs no second file
            except BaseException:
                target.unlink(missing_ok=True)
                raise
            finally:
                source.close()
                copy.close()

    def close(self) -> None:
        """Close the file; the last process that does so leaves everything in it."""
        with self._unavailable():
            with contextlib.suppress(self._apsw.Error):  # others have it open, or nothing can be written
                self._connection.set_busy_timeout(0)
                self._connection.execute("PRAGMA journal_mode = DELETE")
            self._connection.close()


def _make_private(path: Path) -> None:
    """Create a file that only its owner can read, unless there is one; FILE-wal gets the same mode."""
    with contextlib.suppress(OSError):  # it exists, or SQLite will say why it cannot be made
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
