"""Write to a book: requests in, events and receipts out, in groups that are stored all or nothing."""

from __future__ import annotations

import contextlib
import hashlib
import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from makewhole.insured.refusals import Refusal
from makewhole.ledger.database import Key, Store
from makewhole.ledger.events import ORIGIN, Event, chained, plain_text
from makewhole.ledger.following import check_head, read_on, recover, snapshot_of
from makewhole.ledger.receipts import Receipt, Signer, sign_together
from makewhole.ledger.refusals import (
    KeyConflict,
    LedgerUnavailable,
    LogDamaged,
    LogForked,
    StoreUnavailable,
    UnknownBook,
)
from makewhole.ledger.requests import ENDS, KINDS, Body, read_text
from makewhole.ledger.state import State

# The most requests that are stored together: the last of them must not wait too long.
_LARGEST_GROUP = 1_000
# A snapshot is taken after this many events, or more if it is large: it must cost no more than the events.
_SNAPSHOT_EVERY = 5_000
_BYTES_PER_EVENT = 200
# While others wait, a snapshot waits, too, until it is this many times overdue.
_OVERDUE = 30

_new = tuple.__new__
_log = logging.getLogger("makewhole.ledger")


class Request(NamedTuple):
    """A request: the kind of event that it becomes, its arguments, and its key.

    The kind "settled" without an id settles everything that is due.
    """

    kind: str
    given: Body
    key: str | None = None

    def digest(self) -> bytes:
        """A short digest of the request: the same for the same request."""
        asked = [self.kind, self.given]
        try:
            text = plain_text(asked)
        except (TypeError, ValueError, RecursionError):
            text = repr(asked)  # not plain data: the request will raise an error that names the argument
        return hashlib.sha256(text.encode(errors="surrogatepass")).digest()


class Waiting:
    """A request in the queue, and later its answer: receipts, or the error if nothing was done."""

    __slots__ = ("digest", "error", "made", "receipts", "request")

    def __init__(self, request: Request | None, error: Exception | None = None) -> None:
        self.request: Any = request  # a Request; None only if there is an error from the start
        self.digest = b""
        self.receipts: list[Receipt] | None = None
        self.error: BaseException | None = error
        self.made: list[Receipt] = []  # its receipts, until they are stored

    @property
    def done(self) -> bool:
        """Whether there is an answer."""
        return self.receipts is not None or self.error is not None

    def answer(self) -> list[Receipt]:
        """The receipts; raises the error if there are none."""
        if self.error is not None:
            raise self.error
        return self.receipts or []


class Writer:
    """The state of one book in memory, and the one way to change it.

    Many threads may ask at the same time. The one that has the lock does the requests of all of them, in one
    transaction, and stores them together. If storing fails, the changes in memory are undone.
    """

    def __init__(
        self, book: str, store: Store, signer: Callable[[str], Signer], clock: Callable[[], int]
    ) -> None:
        self.book, self._store, self._signer, self._clock = book, store, signer, clock
        self._queue: deque[Waiting] = deque()
        self._state: State | None = None
        # The last event that this host has stored or read. A state can be dropped; this is kept, because only
        # it can tell that the log went back.
        self._seen = (0, ORIGIN)
        self.forked: LogForked | None = None  # why the book is closed for writing on this host
        self._snapshot_at, self._snapshot_size = 0, 0
        self.others_wait: Callable[[], bool] = lambda: False

    def state(self) -> State:
        """The state after the last stored event; do not keep or change it.

        Where the log was forked, it is the last state that this host has acknowledged.
        """
        with self._store.reading():
            try:
                state = self._caught_up()
            except LogForked:
                if self._state is None:
                    raise
                state = self._state
        if not state.begun:
            raise UnknownBook(f"there is no book {self.book!r}: create it first")
        return state

    def _caught_up(self) -> State:
        """Read what other writers have added; LogForked if the log lacks what this host has seen."""
        try:
            state = self._followed()
        except LogForked as error:
            if self.forked is None:
                _log.error(str(error))
            self.forked = error
            raise
        self.forked = None
        return state

    def _followed(self) -> State:
        store, state = self._store, self._state
        if state is not None and state.journal:  # an undo that was interrupted
            state.journal.undo()
        head = store.head(self.book)
        if self._seen[0] and head != self._seen:
            check_head(store, self.book, *self._seen, "this host")
        if state is None or head != self._seen:
            self._state = None  # if the log is damaged, begin again next time
            state = self._recovered() if state is None else read_on(state, store)
            self._state, self._seen = state, (state.seq, state.hash)
        return state

    def _recovered(self) -> State:
        state, kept = recover(self._store, self.book), self._store.snapshot(self.book)
        self._snapshot_at, self._snapshot_size = (kept[0], len(kept[1])) if kept else (0, 0)
        return state

    def now(self, state: State) -> int:
        """The ledger's time: never before the last event, even if the clock jumps back."""
        return max(state.at, self._clock())

    def ask(self, asked: Sequence[Waiting]) -> None:
        """Do requests in this order; a refused request changes nothing, and the others are done."""
        waiting = [one for one in asked if not one.done]
        try:
            self._queue.extend(waiting)
            with self._store.lock:
                while not all(one.done for one in waiting):
                    group = [self._queue.popleft() for _ in range(min(len(self._queue), _LARGEST_GROUP))]
                    if not group:
                        _give_up(waiting)
                        break
                    self._write(group)
        except BaseException:  # no other thread must do them later
            for one in waiting:
                if not one.done:
                    with contextlib.suppress(ValueError):
                        self._queue.remove(one)
            raise

    def _write(self, group: list[Waiting]) -> None:
        draft = _Draft(self, group)
        try:
            with self._store.writing(self.book):
                state = self._caught_up()
                draft.decide(state)
                # If everything was refused, there may be no book, and so no key.
                signer = self._signer(state.key) if any(one.made for one in group) else None
                if draft.events or draft.keys:  # a key can belong to a `settle` with nothing due
                    self._store.append(draft.events, draft.keys)
                    self._keep_snapshot(state)
            state.journal.clear()
            self._seen = (state.seq, state.hash)
        except BaseException as error:  # even an interrupt must leave no caller waiting
            if self._state is not None:
                self._state.journal.undo()
            answer: BaseException = error
            if not isinstance(error, (Refusal, LogDamaged)):
                answer = LedgerUnavailable(f"the group could not be stored: {error!r}")
                answer.__cause__ = error
            if isinstance(error, StoreUnavailable):  # the rest of the queue must not wait as long again
                while self._queue:
                    group.append(self._queue.popleft())
            for one in group:
                one.error = answer
            if not isinstance(error, Exception):
                raise
            return
        granted = [one for one in group if one.error is None]
        if signer is not None:
            sign_together([made for one in granted for made in one.made], (state.seq, state.hash), signer)
        for one in granted:
            one.receipts = one.made

    def _keep_snapshot(self, state: State) -> None:
        """Store the state from time to time, so that a book opens quickly."""
        due = max(_SNAPSHOT_EVERY, self._snapshot_size // _BYTES_PER_EVENT)
        new = state.seq - self._snapshot_at
        if new < due or (new < _OVERDUE * due and self.others_wait()):
            return
        text = snapshot_of(state)
        self._store.keep_snapshot(self.book, state.seq, text)
        self._snapshot_at, self._snapshot_size = state.seq, len(text)

    @property
    def lock(self) -> contextlib.AbstractContextManager[Any]:
        """The lock to hold while reading the state."""
        return self._store.lock

    def events(self, since: int, limit: int | None) -> Iterator[Event]:
        """The events after number `since`, at most `limit` of them."""
        if limit is None:
            return self._store.events(self.book, since)
        with self._store.lock:
            return iter(self._store.between(self.book, since + 1, since + limit))

    def about(self, id_: str) -> list[Event]:
        """The events about an id."""
        return self._store.about(self.book, id_)

    def latest_about(self, id_: str, limit: int, before: int | None) -> list[Event]:
        """The latest events about an id, newest first."""
        return self._store.latest_about(self.book, id_, limit, before)

    def staked_by(self, name: str, limit: int) -> list[Event]:
        """A customer's latest stakes."""
        return self._store.staked_by(self.book, name, limit)

    def end_of(self, id_: str) -> Event | None:
        """The event that ended an id; None if it has not ended."""
        return self._store.end(self.book, id_)

    def ended(self, id_: str) -> str | None:
        """How an id ended."""
        found = self.end_of(id_)
        return None if found is None else found.kind

    def receipt(self, seq: int) -> Receipt:
        """The receipt for a stored event; a LookupError if there is none."""
        with self._store.lock:
            state, found = self.state(), self.unsigned(seq, seq)
            if self.forked is not None:  # a receipt names the head, which the log does not have
                raise self.forked
            if not found:
                raise LookupError(f"book {self.book!r} has no event {seq}; it has {state.seq}")
            sign_together(found, (state.seq, state.hash), self._signer(state.key))
            return found[0]

    def unsigned(self, first: int, last: int) -> list[Receipt]:
        """Receipts for stored events, to be signed."""
        events = self._store.between(self.book, first - 1, last)
        hashes = {event.seq: event.hash for event in events} | {0: ORIGIN}
        return [Receipt(event, hashes[event.seq - 1]) for event in events if event.seq >= first]


class _Draft:
    """The events of one group, until they are stored."""

    def __init__(self, writer: Writer, group: list[Waiting]) -> None:
        self._writer, self._group, self._book = writer, group, writer.book
        self._store = writer._store  # noqa: SLF001 - the same file
        self.events: list[Event] = []
        self.keys: list[tuple[str, Key]] = []
        self._decided: list[tuple[Waiting, str, Body]] = []  # future events: whose request, kind and body
        self._done: dict[str, Waiting] = {}  # by key
        self._known: dict[str, Key] = {}
        self._ended: dict[str, str] = {}  # by id
        self._at = 0  # the time of the group

    def decide(self, state: State) -> None:
        """Answer every request: with events, with the earlier answer, or with a refusal."""
        self._look_up(state)
        self._at = self._writer.now(state)
        state.journal.keep(state)
        for one in self._group:
            if one.error is not None:
                continue
            mark, decided, before = len(state.journal), len(self._decided), (state.seq, state.at)
            try:
                self._decide(state, one)
            except (Refusal, ValueError, TypeError) as error:
                if isinstance(error, LedgerUnavailable):
                    raise
                state.journal.undo(mark)
                state.seq, state.at = before
                self._take_back(decided)
                one.error = error
        self._chain(state)

    def _take_back(self, decided: int) -> None:
        """Drop what a request had decided before it was refused."""
        for _, kind, body in self._decided[decided:]:
            if kind in ENDS:
                del self._ended[body["id"]]
        del self._decided[decided:]

    def _look_up(self, state: State) -> None:
        """Ask the store once for all keys, and for all ids that are not open."""
        keys, ids, open_ = set(), set(), state.subjects
        for one in self._group:
            _, given, key = one.request
            try:
                if key is not None:
                    keys.add(read_text("key", key))
                    one.digest = one.request.digest()
                id_ = given.get("id")
                if id_ is not None and (type(id_) is not str or (id_ not in open_ and id_ not in ids)):
                    ids.add(read_text("id", id_))
            except (ValueError, TypeError) as error:
                one.error = error
        self._known = self._store.keys_among(self._book, keys)
        self._ended = self._store.ends_among(self._book, ids, state.seq)

    def _decide(self, state: State, one: Waiting) -> None:
        kind, given, key = one.request
        if kind != "created" and not state.begun:
            raise UnknownBook(f"there is no book {self._book!r}: create it first")
        if key is None:
            self._do(state, one, kind, given)
        elif not self._repeats(state, one, key):
            first = state.seq + 1
            self._do(state, one, kind, given)
            self._done[key] = one
            self.keys.append((self._book, Key(key, one.digest, first, state.seq)))

    def _repeats(self, state: State, one: Waiting, key: str) -> bool:
        """Whether the key was used before; then the answer is the earlier one."""
        other = self._done.get(key)
        if other is not None:
            digest, made = other.digest, other.made
        else:
            known = self._known.get(key)
            if known is None:
                return False
            if known.seq > state.seq:
                what = f"key={key!r} was used for event {known.seq}, but the log ends with event {state.seq}"
                raise LogForked(f"book {self._book!r}: {what}: repair the ledger", self._book, state.seq + 1)
            digest, made = known.digest, self._writer.unsigned(known.first, known.seq)
        if digest != one.digest:
            raise KeyConflict(f"key={key!r} was used before, with another request: choose a new key")
        one.made = made
        return True

    def _do(self, state: State, one: Waiting, kind: str, given: Body) -> None:
        if kind == "settled" and "id" not in given:
            if given:
                raise ValueError(f"id must be given with {', '.join(given)}: without, settle() takes nothing")
            for id_ in state.due(self._at):
                self._do(state, one, kind, {"id": id_})
            return
        seq, at = state.seq + 1, self._at
        body = KINDS[kind](state, seq, at, given, self._ended.get)
        state.seq, state.at = seq, at
        self._decided.append((one, kind, body))
        if kind in ENDS:
            self._ended[body["id"]] = kind

    def _chain(self, state: State) -> None:
        """Make events of what was decided, each chained to the one before.

        This is a second loop at the end: two short loops run faster than a long one.
        """
        book, at, hash_ = self._book, self._at, state.hash
        for seq, (one, kind, body) in enumerate(self._decided, state.seq - len(self._decided) + 1):
            previous, about, text = hash_, body.get("id"), plain_text(body)
            hash_ = chained(previous, book, seq, at, kind, about, text)
            event = _new(Event, (book, seq, at, kind, about, text, hash_))
            one.made.append(Receipt(event, previous))
            self.events.append(event)
        state.hash = hash_


def _give_up(waiting: list[Waiting]) -> None:
    """Answer requests that another thread took from the queue, but did not finish: it was interrupted."""
    for one in waiting:
        if not one.done:
            one.error = LedgerUnavailable(
                "the write was interrupted and may be stored: retry with the same key; it is done once"
            )
