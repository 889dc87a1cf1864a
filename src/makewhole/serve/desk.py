"""The desk: one thread that works on the ledger for many waiting requests, in groups."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

from makewhole.ledger import Book, Ledger
from makewhole.ledger.book import read_request
from makewhole.ledger.receipts import Receipt
from makewhole.ledger.refusals import UnknownBook
from makewhole.ledger.writing import Waiting

_GROUP = 64
# The most seconds for which the thread waits for more requests to store together.
_PATIENCE = 0.01


class _Task(NamedTuple):
    """A request for a book or a function of a book, and the future that waits for it."""

    book: str
    do: Any
    future: asyncio.Future[Any]


class Desk:
    """Passes requests from the event loop to the ledger's thread.

    Requests that arrive while one group is stored are stored together as the next. Functions that only read
    are called between groups, when nothing is written. All requests of one turn of the event loop go to the
    thread together: waking it for each would cost as much as a quote.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger, self._books = ledger, dict[str, Book]()
        self._queue: SimpleQueue[list[_Task] | None] = SimpleQueue()
        self._coming: list[_Task] = []  # requests of this turn of the event loop
        self._asked = self._taken = 0  # total tasks, as counted by the event loop and by the thread
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._work, name="desk", daemon=True)
        self.groups = 0

    def start(self) -> None:
        """Start the thread, for the event loop that calls this."""
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    def stop(self) -> None:
        """Finish all pending tasks, and stop the thread."""
        self._pass_on()
        self._queue.put(None)
        self._thread.join()

    def write(self, book: str, request: dict[str, Any]) -> asyncio.Future[list[Receipt]]:
        """Do a request; awaiting it returns once it is stored, and raises the ledger's refusals."""
        return self._put(book, request)

    def read(self, book: str, function: Callable[[Book], Any]) -> asyncio.Future[Any]:
        """Call a function of a book, and return its result."""
        return self._put(book, function)

    def _put(self, book: str, do: Any) -> asyncio.Future[Any]:
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        if not self._coming:
            loop.call_soon(self._pass_on)
        self._coming.append(_Task(book, do, future))
        self._asked += 1
        return future

    def _pass_on(self) -> None:
        """Give the thread the requests of this turn, in parts no larger than a group."""
        coming, self._coming = self._coming, []
        for start in range(0, len(coming), _GROUP):
            self._queue.put(coming[start : start + _GROUP])

    # --- on the thread ------------------------------------------------------------------------------------

    def _work(self) -> None:
        wanted, until, more = 0, 0.0, True
        while more:
            tasks, more = self._gather(wanted, until)
            began = time.monotonic()
            done = self._do(tasks)
            now = time.monotonic()
            self._taken += len(tasks)
            self.groups += 1
            # Before answering: a caller who immediately asks again must not count twice.
            wanted, until = len(tasks) + self._asked - self._taken, now + min(now - began, _PATIENCE)
            if self._loop is not None and not self._loop.is_closed():
                self._loop.call_soon_threadsafe(_deliver, done)

    def _gather(self, wanted: int, until: float) -> tuple[list[_Task], bool]:
        """Return the waiting tasks, and whether more may come.

        Storing one request takes as long as storing many. Callers who were just answered will soon ask again,
        so it pays to wait for as many requests as were under way before: but not while a caller only reads,
        and for no longer than the last group took.
        """
        tasks: list[_Task] = []
        while len(tasks) < _GROUP:
            wait = until - time.monotonic() if tasks and len(tasks) < wanted else 0.0
            try:
                part = self._queue.get(not tasks or wait > 0, wait if wait > 0 else None)
            except Empty:
                break
            if part is None:
                return tasks, False
            tasks += part
            if any(callable(task.do) for task in part):
                until = 0.0
        return tasks, True

    def _do(self, tasks: list[_Task]) -> list[tuple[asyncio.Future[Any], Any, Exception | None]]:
        done: list[tuple[asyncio.Future[Any], Any, Exception | None]] = []
        waiting: dict[str, list[tuple[asyncio.Future[Any], Waiting]]] = {}
        for name, do, future in tasks:
            if callable(do):
                continue
            try:
                waiting.setdefault(name, []).append((future, Waiting(read_request(do))))
            except Exception as error:  # noqa: BLE001 - the caller must be told of any error
                done.append((future, None, error))
        for name, several in waiting.items():
            try:
                self._book(name).ask([asked for _, asked in several])
            except Exception as error:  # noqa: BLE001 - the caller must be told of any error
                done += [(future, None, error) for future, asked in several if not asked.done]
            for future, asked in several:
                if asked.done:
                    refused = asked.error if isinstance(asked.error, Exception) else None
                    done.append((future, asked.receipts, refused))
        reads = [task for task in tasks if callable(task.do)]
        if reads:
            try:
                with self._ledger.store.lock, self._ledger.store.reading():  # once for all of them
                    done += [self._look(task) for task in reads]
            except Exception as error:  # noqa: BLE001 - the database is unavailable
                answered = {id(future) for future, _, _ in done}
                done += [(task.future, None, error) for task in reads if id(task.future) not in answered]
        return done

    def _look(self, task: _Task) -> tuple[asyncio.Future[Any], Any, Exception | None]:
        try:
            return task.future, task.do(self._book(task.book)), None
        except Exception as error:  # noqa: BLE001 - the caller must be told of any error
            return task.future, None, error

    def _book(self, name: str) -> Book:
        if name not in self._books:
            store = self._ledger.store
            with store.lock:  # the ledger caches every name it is asked for: ask only for those that exist
                if "\0" in name or not store.head(name)[0]:
                    raise UnknownBook(f"there is no book {name!r}: create it first")
            self._books[name] = self._ledger.book(name)
        return self._books[name]


def _deliver(done: list[tuple[asyncio.Future[Any], Any, Exception | None]]) -> None:
    """Wake all waiting callers, except those who have gone away."""
    for future, result, error in done:
        if future.cancelled():
            continue
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)
