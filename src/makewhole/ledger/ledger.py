"""The ledger: durable books, with a receipt for every promise."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Self

from makewhole.forecasters import adapt
from makewhole.insured.forecaster import InsuredForecaster
from makewhole.ledger.book import Book
from makewhole.ledger.money import read_units
from makewhole.ledger.receipts import Receipt, Signer
from makewhole.ledger.refusals import LedgerUnavailable, UnknownBook
from makewhole.ledger.repairing import Repair, cover_of, repair_book, taking_over
from makewhole.ledger.requests import read_text
from makewhole.ledger.state import VERSION
from makewhole.ledger.store import SqliteStore, Store, open_store
from makewhole.ledger.verifying import Verified, verify_all
from makewhole.ledger.writing import Request, Waiting, Writer

_WHICH_KEY = "key must name the file of the key that signs receipts: Ledger.open(..., key=...)"


def _now() -> int:
    return time.time_ns() // 1_000


class Ledger:
    """Durable books in one SQLite file, or in one PostgreSQL database.

    Open it with `Ledger.open`; it may be used by many threads, and by many processes at the same time.

    Examples
    --------
    >>> import tempfile
    >>> from makewhole.ledger import Ledger
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = Ledger.open(f"{folder.name}/books.db")
    >>> book = ledger.create("ua-delays", capital=500_000, max_stake=20_000, unit="cent")
    >>> ledger.books()
    ['ua-delays']
    >>> ledger.verify().events
    1
    >>> ledger.close()
    >>> folder.cleanup()
    """

    def __init__(
        self,
        store: Store,
        key: str | os.PathLike[str] | None = None,
        clock: Callable[[], int] = _now,
    ) -> None:
        self.store, self._clock = store, clock
        self._key = None if key is None else Path(key)
        self._signers: dict[str, Signer] = {}
        self._writers: dict[str, Writer] = {}
        # Says whether other callers wait: then work that can wait, such as a snapshot, is put off.
        self.others_wait: Callable[[], bool] = lambda: False

    @classmethod
    def open(
        cls,
        where: str | os.PathLike[str],
        *,
        key: str | os.PathLike[str] | None = None,
        clock: Callable[[], int] = _now,
        wait: float = 3.0,
        partial: bool = False,
    ) -> Self:
        """Open a ledger: a file, which is made if there is none, or "postgresql://…".

        Parameters
        ----------
        where
            The file or the address.
        key
            The file of the key that signs receipts. By default it is next to the ledger's file, with the same
            name plus ".key"; for PostgreSQL it must be given before anything is written.
        clock
            Gives microseconds since 1970; the ledger's time never runs backwards.
        wait
            How many seconds to wait while another process writes. The other limits of PostgreSQL are in its
            address (docs/operate.md).
        partial
            Whether to accept a copy of a file in use that lacks the latest events; `repair` it first.
        """
        store = open_store(where, wait=wait, partial=partial)
        if key is None and isinstance(store, SqliteStore):
            key = f"{os.fspath(where)}.key"
        return cls(store, key, clock)

    def close(self) -> None:
        """Close the file or the database."""
        with self.store.lock:
            self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- books --------------------------------------------------------------------------------------------

    def create(
        self,
        name: str,
        *,
        capital: int,
        max_stake: int,
        unit: str,
        hold: float | timedelta = 0,
        base: Any = None,
        **settings: Any,
    ) -> Book:
        """Begin a book; raises `BookExists` if there is one of this name.

        Parameters
        ----------
        name
            Its name.
        capital
            The most that may ever be lost, in whole units.
        max_stake
            The most that all stakes on one id may pay, over all its versions.
        unit
            What the whole units are, such as "cent".
        hold
            How long an outcome can be replaced before it is final; in seconds, or a timedelta.
        base
            A model that gives μ for features, instead of `mu`; the ledger does not teach it.
        settings
            `correction`, `one_sided`, `max_exposure`, `c_range`, `lines`, `thaw` and `stop` of
            `InsuredForecaster`.
        """
        allowed = {"correction", "one_sided", "max_exposure", "c_range", "lines", "thaw", "stop"}
        if settings.keys() - allowed:
            raise TypeError(f"create takes {', '.join(sorted(allowed))}; got {', '.join(sorted(settings))}")
        made = InsuredForecaster(
            None,
            settings.pop("correction", None),
            capital=read_units("capital", capital, least=1),
            max_stake=read_units("max_stake", max_stake, least=1),
            **settings,
        )
        seconds = hold.total_seconds() if isinstance(hold, timedelta) else hold
        if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 <= seconds <= 1e10:
            raise ValueError(f"hold must be a timedelta or seconds, from 0 to 1e10; got {hold!r}")
        given = {
            "rules": VERSION,
            "unit": read_text("unit", unit),
            "hold": round(seconds * 1_000_000),
            "key": self._own_key().public,
            "forecaster": made.to_state(),
        }
        name = read_text("name", name)
        self._do(name, Request("created", given))
        return self.book(name, base=base)

    def book(self, name: str, *, base: Any = None) -> Book:
        """A book that was created before; with your model as `base`, forecasts may be made for an x."""
        name = read_text("name", name)
        writer = self._writer(name)
        with self.store.lock:
            writer.state()
        return Book(name, writer, None if base is None else adapt(base, None))

    def books(self) -> list[str]:
        """The names of all books."""
        with self.store.lock:
            return self.store.books()

    @property
    def forked(self) -> dict[str, str]:
        """The books that are closed for writing on this host, each with the reason (`LogForked`).

        It is what the latest request to each book has found. A book opens again once its log has the events
        that this host has seen.
        """
        return {name: str(made.forked) for name, made in list(self._writers.items()) if made.forked}

    def _do(self, name: str, request: Request) -> None:
        asked = Waiting(request)
        self._writer(name).ask([asked])
        asked.answer()

    def _writer(self, name: str) -> Writer:
        with self.store.lock:
            if name not in self._writers:
                made = self._writers[name] = Writer(name, self.store, self._signer, self._clock)
                made.others_wait = lambda: self.others_wait()
            return self._writers[name]

    # --- keys ---------------------------------------------------------------------------------------------

    def _own_key(self) -> Signer:
        """The key in the file; a new one if there is no file."""
        if self._key is None:
            raise ValueError(_WHICH_KEY)
        signer = Signer.at(self._key)
        self._signers[signer.public] = signer
        return signer

    def _signer(self, public: str) -> Signer:
        """The private part of a key: from the file, or from that of a new key not yet moved to its place."""
        if public in self._signers:
            return self._signers[public]
        if self._key is None:
            raise LedgerUnavailable(_WHICH_KEY)
        for path in (self._key, Path(f"{self._key}.new")):
            if path.exists():
                signer = Signer.of(path)
                self._signers[signer.public] = signer
        if public not in self._signers:
            raise LedgerUnavailable(
                f"the book's key, {public}, is not in {str(self._key)!r}: put it there, or rekey the ledger"
            )
        return self._signers[public]

    def rekey(self) -> str:
        """Sign with a new key from now on, and note it in every book; returns its public part."""
        if self._key is None:
            raise ValueError(_WHICH_KEY)
        following = Path(f"{self._key}.new")
        signer = Signer.at(following)
        self._signers[signer.public] = signer
        for name in self.books():
            with self.store.lock:
                known = self._writer(name).state().key == signer.public
            if not known:
                self._do(name, Request("rekeyed", {"key": signer.public}))
        following.replace(self._key)
        return signer.public

    # --- the whole ----------------------------------------------------------------------------------------

    def verify(self, receipts: Iterable[Receipt] = (), *, book: str | None = None) -> Verified:
        """Replay every event of every book; raises `LogDamaged` at the first that does not follow.

        With receipts, the log must have the event and the head that each of them names.
        """
        with self.store.lock, self.store.reading():
            books = self.store.mentioned()
            if book is not None:
                if read_text("book", book) not in books:
                    raise UnknownBook(f"there is no book {book!r}")
                books = [book]
            return verify_all(self.store, books, list(receipts))

    def repair(
        self,
        receipts: Iterable[Receipt] = (),
        *,
        copy: str | os.PathLike[str] | None = None,
        into: str | None = None,
        book: str | None = None,
    ) -> list[Repair]:
        """Find what books lack, and add back the events that follow; no event is ever changed.

        Parameters
        ----------
        receipts
            Receipts that customers hold. The log must have their events.
        copy
            Another file or database with the same books, such as a backup or the former primary.
        into
            The name of a book that takes over the open promises which remain lost. It is created if there is
            none, with the capital that they need.
        book
            The book to repair; by default all of them.
        """
        if into is not None and read_text("into", into) == book:
            raise ValueError(f"into must name another book than book={book!r}")
        known: dict[str, list[Receipt]] = {}
        for receipt in receipts:
            receipt.check()
            known.setdefault(receipt.event.book, []).append(receipt)
        other = None if copy is None else open_store(copy, partial=True)
        try:
            with self.store.lock:
                names = {*self.store.mentioned(), *known, *(other.books() if other else ())} - {into}
                if book is not None:
                    if read_text("book", book) not in names:
                        raise UnknownBook(f"there is no book {book!r}")
                    names = {book}
                found = [repair_book(self.store, name, known.get(name, []), other) for name in sorted(names)]
        finally:
            if other is not None:
                other.close()
        if into is not None:
            self._take_over(into, [one for one in found if one.promises])
        return found

    def _take_over(self, name: str, found: Sequence[Repair]) -> None:
        """Take over the promises that other books have lost, each once, however often this is asked."""
        if not found:
            return
        exists = name in self.books()
        units = {one.book: one.unit for one in found}
        if exists:
            units[name] = self.book(name).statement().unit
        if len(set(units.values())) > 1:
            each = ", ".join(f"{book!r} is in {unit!r}" for book, unit in units.items())
            raise ValueError(f"into must take over promises in its own unit; {each}: name another book")
        if not exists:
            capital = 1 + sum(cover_of(one.promises) for one in found)
            unit, hold = found[0].unit, found[0].hold / 1e6
            self.create(name, capital=capital, max_stake=1, unit=unit, hold=hold, thaw=None)
        book = self.book(name)
        for one in found:
            known = {forecast.id for forecast in book.open_forecasts()}
            for event in one.promises:
                asked = taking_over(one, event)
                if asked["id"] not in known:
                    known.add(asked["id"])
                    book.forecast(asked["id"], mu=asked["mu"], key=f"taken over {one.book} {asked['id']}")
                stake = Waiting(Request("staked", asked, f"taken over {event.hash.hex()}"))
                book.ask([stake])
                one.taken += stake.answer()

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Copy an SQLite ledger to a new file, while others read and write. The key is not copied."""
        if not isinstance(self.store, SqliteStore):
            raise ValueError("backup is for SQLite: use pg_dump for a PostgreSQL database")
        self.store.backup(path)
