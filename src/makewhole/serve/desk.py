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
# For so many seconds at most the thread waits for more requests to store together.
_PATIENCE = 0.01


class _Task(NamedTuple):
    """Something to do: a request for a book, or a function of a book; and who waits for it."""

    book: str
    do: Any
    future: asyncio.Future[Any]


class Desk:
    """Takes requests from the event loop to the ledger's thread.

    What has come in while the last group was stored is stored together. Functions that only read are called
    between groups: nothing is written then. What one turn of the event loop asks for goes to the thread at
    once: waking it for each request would cost as much as a quote does.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger, self._books = ledger, dict[str, Book]()
        self._queue: SimpleQueue[list[_Task] | None] = SimpleQueue()
        self._coming: list[_Task] = []  # what this turn of the event loop has asked for
        self._asked = self._taken = 0  # how many tasks in all, by the event loop and by the thread
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._work, name="desk", daemon=True)
        self.groups = 0

    def start(self) -> None:
        """Begin to work, for the event loop that calls this."""
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    def stop(self) -> None:
        """Finish what is there, and end."""
        self._pass_on()
        self._queue.put(None)
        self._thread.join()

    def write(self, book: str, request: dict[str, Any]) -> asyncio.Future[list[Receipt]]:
        """Do a request, stored when this is awaited; raises what the ledger refuses."""
        return self._put(book, request)

    def read(self, book: str, function: Callable[[Book], Any]) -> asyncio.Future[Any]:
        """Return what a function of a book returns."""
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
        """Give the thread what has come, in parts that are no larger than a group."""
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
            # Before anybody is answered: whoever asks again at once must not count twice.
            wanted, until = len(tasks) + self._asked - self._taken, now + min(now - began, _PATIENCE)
            if self._loop is not None and not self._loop.is_closed():
                self._loop.call_soon_threadsafe(_deliver, done)

    def _gather(self, wanted: int, until: float) -> tuple[list[_Task], bool]:
        """Take what has come, and whether more is to come.

        Storing takes the same time for one and for many. Whoever was just answered will soon ask again, so it
        pays to wait until as many have come as were under way before: but not while somebody only reads, and
        for no longer than the last group took.
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
            except Exception as error:  # noqa: BLE001 - whatever it is, whoever waits must hear of it
                done.append((future, None, error))
        for name, several in waiting.items():
            try:
                self._book(name).ask([asked for _, asked in several])
            except Exception as error:  # noqa: BLE001 - whatever it is, whoever waits must hear of it
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
            except Exception as error:  # noqa: BLE001 - the database is away
                told = {id(future) for future, _, _ in done}
                done += [(task.future, None, error) for task in reads if id(task.future) not in told]
        return done

    def _look(self, task: _Task) -> tuple[asyncio.Future[Any], Any, Exception | None]:
        try:
            return task.future, task.do(self._book(task.book)), None
        except Exception as error:  # noqa: BLE001 - whatever it is, whoever waits must hear of it
            return task.future, None, error

    def _book(self, name: str) -> Book:
        if name not in self._books:
            store = self._ledger.store
            with store.lock:  # the ledger remembers each name that it is asked for: ask for those it has
                if "\0" in name or not store.head(name):
                    raise UnknownBook(f"there is no book {name!r}: create it first")
            self._books[name] = self._ledger.book(name)
        return self._books[name]


def _deliver(done: list[tuple[asyncio.Future[Any], Any, Exception | None]]) -> None:
    """Wake everybody who waits; somebody may have gone away by now."""
    for future, result, error in done:
        if future.cancelled():
            continue
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)
