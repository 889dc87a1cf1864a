"""The desk: one thread that works on the ledger for many waiting requests, in groups and in turn."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

from makewhole.ledger import Book, Ledger, StoreUnavailable
from makewhole.ledger.book import read_request
from makewhole.ledger.receipts import Receipt
from makewhole.ledger.refusals import UnknownBook
from makewhole.ledger.writing import Waiting

# The most requests of a group, which are stored together: a few milliseconds of work.
_GROUP = 64
# The most seconds for which the thread reads for others before it looks who else is waiting.
_SLICE = 0.005
# The most seconds for which the thread waits for more requests to store together.
_PATIENCE = 0.01
# After this many seconds the database does not answer: callers are told so, and the thread goes on waiting.
HUNG_SECONDS = 4.0
# The most answers of a book that are kept until it changes.
_MOST_CACHED = 200
# The most seconds that `stop` waits for the thread.
_STOP_SECONDS = 2.0

Done = tuple[asyncio.Future[Any], Any, Exception | None]


class _Task(NamedTuple):
    """Who asks for what: a request for a book, or a function of it; and the future that waits for it."""

    who: str
    book: str
    do: Any
    future: asyncio.Future[Any]


class Turns:
    """Waiting tasks, taken in turn: one of each caller, then a second one of each, and so on.

    A caller with thousands of tasks delays another caller by one task at a time.
    """

    def __init__(self) -> None:
        self._tasks: dict[str, deque[_Task]] = {}
        self._next: deque[str] = deque()  # the callers that have tasks, in the order of their turns
        self._count = self._reads = 0

    def __len__(self) -> int:
        return self._count

    @property
    def reads(self) -> int:
        """How many of them only read."""
        return self._reads

    def add(self, tasks: Iterable[_Task]) -> None:
        """Add tasks behind those that their callers already have."""
        for task in tasks:
            own = self._tasks.get(task.who)
            if own is None:
                self._tasks[task.who] = deque((task,))
                self._next.append(task.who)
            else:
                own.append(task)
            self._count += 1
            self._reads += callable(task.do)

    def take(self) -> _Task:
        """Remove the task whose turn it is."""
        who = self._next.popleft()
        own = self._tasks[who]
        task = own.popleft()
        if own:
            self._next.append(who)
        else:
            del self._tasks[who]
        self._count -= 1
        self._reads -= callable(task.do)
        return task

    def put_back(self, tasks: list[_Task]) -> None:
        """Return tasks that were taken, in this order: they are the next."""
        for task in reversed(tasks):
            if task.who in self._tasks:
                self._tasks[task.who].appendleft(task)
                self._next.remove(task.who)
            else:
                self._tasks[task.who] = deque((task,))
            self._next.appendleft(task.who)
            self._count += 1
            self._reads += callable(task.do)


class Desk:
    """Passes requests from the event loop to the ledger's thread.

    Callers take turns (`Turns`). Requests that arrive while one group is stored are stored together as the
    next. Functions that only read are called between groups, when nothing is written, for a few milliseconds
    at a time. All requests of one turn of the event loop go to the thread together: waking it for each would
    cost as much as a quote.

    If the database hangs, so does the thread; `look_after` tells all who wait, and `/health` still answers.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger, self._books = ledger, dict[str, Book]()
        self._cache: dict[str, tuple[tuple[int, str], dict[Hashable, Any]]] = {}  # by book, for one head
        self._queue: SimpleQueue[list[_Task] | None] = SimpleQueue()
        self._coming: list[_Task] = []  # requests of this turn of the event loop
        self._waiting, self._ending = Turns(), False  # the thread's own
        self._open: set[asyncio.Future[Any]] = set()  # all that were asked and not yet answered
        self._busy = 0.0  # when the thread began what it does now; 0 if it waits
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._work, name="desk", daemon=True)
        self.groups = 0
        ledger.others_wait = lambda: bool(self._waiting) or not self._queue.empty()
        # Bodies of many lines are read and answered one slice at a time, whoever sent them.
        self.slices = asyncio.Lock()

    def start(self) -> None:
        """Start the thread, for the event loop that calls this."""
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    def stop(self) -> bool:
        """Finish all pending tasks, and stop the thread; returns whether it has stopped in time."""
        self._pass_on()
        self._queue.put(None)
        self._thread.join(_STOP_SECONDS)
        return not self._thread.is_alive()

    def __len__(self) -> int:
        return len(self._open)

    def write(self, book: str, request: dict[str, Any], who: str = "") -> asyncio.Future[list[Receipt]]:
        """Do a request; awaiting it returns once it is stored, and raises the ledger's refusals."""
        return self._put(who, book, request)

    def read(self, book: str, function: Callable[[Book], Any], who: str = "") -> asyncio.Future[Any]:
        """Call a function of a book, and return its result."""
        return self._put(who, book, function)

    def call(self, function: Callable[[], Any]) -> asyncio.Future[Any]:
        """Call a function that uses the ledger, for the server itself."""
        return self._put("", "", lambda _: function())

    def cached(self, book: Book, what: Hashable, make: Callable[[Book], Any]) -> Any:
        """Return what a function makes of a book, from memory until the book changes; on the thread only."""
        head = book.head()
        known = self._cache.get(book.name)
        if known is None or known[0] != head or len(known[1]) > _MOST_CACHED:
            known = self._cache[book.name] = (head, {})
        if what not in known[1]:
            known[1][what] = make(book)
        return known[1][what]

    def _put(self, who: str, book: str, do: Any) -> asyncio.Future[Any]:
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        if not self._coming:
            loop.call_soon(self._pass_on)
        self._coming.append(_Task(who, book, do, future))
        self._open.add(future)
        return future

    def _pass_on(self) -> None:
        """Give the thread the requests of this turn."""
        if self._coming:
            coming, self._coming = self._coming, []
            self._queue.put(coming)

    @property
    def hangs(self) -> bool:
        """Whether the thread has waited for the database for too long."""
        busy = self._busy
        return bool(busy) and time.monotonic() - busy > HUNG_SECONDS

    def look_after(self) -> None:
        """If the database hangs, tell all who wait. What has begun may be stored; the rest will not be."""
        if self.hangs:
            why = f"the ledger has not answered for {HUNG_SECONDS:g} seconds"
            error = StoreUnavailable(f"{why}: retry with the same key; it is done once")
            self._deliver([(future, None, error) for future in self._open])

    # --- on the thread ------------------------------------------------------------------------------------

    def _work(self) -> None:
        wanted, until = 0, 0.0
        while not self._ending or self._waiting:
            tasks = self._gather(wanted, until)
            began = self._busy = time.monotonic()
            done = self._do(tasks)
            self._busy = 0.0
            now = time.monotonic()
            self.groups += 1
            # Before answering: a caller who immediately asks again must not count twice.
            wanted, until = len(self._open), now + min(now - began, _PATIENCE)
            if self._loop is not None and not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self._deliver, done)

    def _look(self, wait: float | None = 0.0) -> bool:
        """Fetch what has been asked meanwhile; returns whether there was anything."""
        found = False
        while not self._ending:
            try:
                part = self._queue.get(wait != 0.0 and not found, wait)
            except Empty:
                break
            found = True
            if part is None:
                self._ending = True
            else:
                self._waiting.add(part)
        return found

    def _gather(self, wanted: int, until: float) -> list[_Task]:
        """Return the tasks of the next group; wait until there is one.

        Storing one request takes as long as storing many. Callers who were just answered will soon ask again,
        so it pays to wait for as many requests as were under way before: but not while a caller only reads,
        and for no longer than the last group took.
        """
        waiting = self._waiting
        self._look(0.0 if waiting else None)
        while waiting and len(waiting) < min(wanted, _GROUP) and not waiting.reads:
            wait = until - time.monotonic()
            if wait <= 0 or not self._look(wait):
                break
        return [waiting.take() for _ in range(min(len(waiting), _GROUP))]

    def _do(self, tasks: list[_Task]) -> list[Done]:
        """Do a group. If the database fails, all who wait are told: they need not each wait as long again."""
        done: list[Done] = [(task.future, None, None) for task in tasks if task.future.done()]
        tasks = [task for task in tasks if not task.future.done()]
        done += self._write([task for task in tasks if not callable(task.do)])
        done += self._read([task for task in tasks if callable(task.do)])
        failed = next((error for _, _, error in done if isinstance(error, StoreUnavailable)), None)
        if failed is not None:
            self._look()
            done += [(self._waiting.take().future, None, failed) for _ in range(len(self._waiting))]
        return done

    def _write(self, tasks: list[_Task]) -> list[Done]:
        done: list[Done] = []
        waiting: dict[str, list[tuple[asyncio.Future[Any], Waiting]]] = {}
        for _, name, do, future in tasks:
            try:
                waiting.setdefault(name, []).append((future, Waiting(read_request(do))))
            except Exception as error:  # noqa: BLE001 - the caller must be told of any error
                done.append((future, None, error))
        failed: StoreUnavailable | None = None
        for name, several in waiting.items():
            try:
                if failed is not None:
                    raise failed
                self._book(name).ask([asked for _, asked in several])
            except Exception as error:  # noqa: BLE001 - the caller must be told of any error
                done += [(future, None, error) for future, asked in several if not asked.done]
                failed = error if isinstance(error, StoreUnavailable) else failed
            for future, asked in several:
                if asked.done:
                    refused = asked.error if isinstance(asked.error, Exception) else None
                    done.append((future, asked.receipts, refused))
                    failed = refused if isinstance(refused, StoreUnavailable) else failed
        return done

    def _read(self, tasks: list[_Task]) -> list[Done]:
        """Read for some milliseconds; the tasks that are left then come first in the next group."""
        done: list[Done] = []
        if not tasks:
            return done
        until = time.monotonic() + _SLICE
        try:
            with self._ledger.store.lock, self._ledger.store.reading():  # once for all of them
                for task in tasks:
                    if done and time.monotonic() > until:
                        break
                    done.append(self._read_one(task))
                    if isinstance(done[-1][2], StoreUnavailable):
                        raise done[-1][2]  # the others would wait as long
        except Exception as error:  # noqa: BLE001 - the database is unavailable
            return done + [(task.future, None, error) for task in tasks[len(done) :]]
        self._waiting.put_back(tasks[len(done) :])
        return done

    def _read_one(self, task: _Task) -> Done:
        try:
            return task.future, task.do(self._book(task.book) if task.book else None), None
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

    # --- on the event loop --------------------------------------------------------------------------------

    def _deliver(self, done: list[Done]) -> None:
        """Wake all waiting callers, except those who have gone away or were told something else."""
        for future, result, error in done:
            if future.done():
                continue
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(result)
        self._open.difference_update([future for future, _, _ in done])


def forget(future: asyncio.Future[Any]) -> None:
    """Wait no longer: what has not begun is not done, and an error is nobody's."""
    if not future.cancel() and not future.cancelled():
        future.exception()
