"""Follow a log: recovering, catching up and verifying are the same loop over the same requests."""

from __future__ import annotations

import json
from collections.abc import Iterator

from makewhole.insured.refusals import ConservationError, Refusal
from makewhole.ledger.database import Store
from makewhole.ledger.events import Event, chained, plain_text
from makewhole.ledger.refusals import LogDamaged, LogForked, NotALedger
from makewhole.ledger.requests import ENDS, KINDS, Body
from makewhole.ledger.state import State

_read = json.JSONDecoder().raw_decode
# The errors of a request whose event cannot have happened.
_CANNOT_BE = (
    Refusal,
    ConservationError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
)


def replay(state: State, store: Store) -> Iterator[Event]:
    """Bring a state up to date with the log; yields each event once the state includes it.

    Raises LogDamaged at the first event that does not follow from those before it.
    """
    for page in store.pages(state.name, state.seq):
        ids = {event.about for event in page if event.about is not None}
        ended = store.ends_among(state.name, ids, state.seq)
        bodies, damage = _read_page(state, page)
        for event, body in zip(page, bodies, strict=False):  # damage leaves fewer bodies
            follow(state, event, body, ended)
            yield event
        if damage is not None:
            raise damage


def _read_page(state: State, page: list[Event]) -> tuple[list[Body], LogDamaged | None]:
    """The bodies of events up to the first that is out of place, changed or not JSON, and what is wrong.

    A whole page is read before any of it is followed: two short loops run faster than a long one.
    """
    bodies: list[Body] = []
    hash_ = state.hash
    for number, (book, seq, at, kind, about, text, found) in enumerate(page, state.seq + 1):
        if seq != number:
            return bodies, LogDamaged(f"book {book!r}: event {number} is missing; event {seq} is next", seq)
        hash_ = chained(hash_, book, seq, at, kind, about, text)
        if hash_ != found:
            return bodies, LogDamaged(f"book {book!r}: event {seq} was changed: its hash does not fit", seq)
        try:
            body, end = _read(text)
        except ValueError as error:
            return bodies, _impossible(page[number - state.seq - 1], error)
        if end != len(text):
            return bodies, LogDamaged(f"book {book!r}: event {seq} has more than its body", seq)
        bodies.append(body)
    return bodies, None


def _impossible(event: Event, error: Exception) -> LogDamaged:
    message = f"book {event.book!r}: event {event.seq}, {event.kind!r}, cannot have happened: {error}"
    return LogDamaged(message, event.seq)


def follow(state: State, event: Event, given: Body, ended: dict[str, str]) -> None:
    """Advance a state, and how ids have ended, by one event; LogDamaged if the event does not follow."""
    book, seq, at, kind, about, text, found = event
    try:
        again = KINDS[kind](state, seq, at, given, ended.get)
    except NotALedger:
        raise
    except _CANNOT_BE as error:
        raise _impossible(event, error) from error
    if at < state.at or plain_text(again) != text or about != again.get("id"):
        message = f"book {book!r}: event {seq}, {kind!r}, does not follow from those before it"
        raise LogDamaged(message, seq, again)
    if kind in ENDS:
        ended[again["id"]] = kind
    state.seq, state.at, state.hash = seq, at, found
    state.journal.clear()


def snapshot_of(state: State) -> str:
    """The state as text."""
    return plain_text(state.to_plain())


def check_head(store: Store, book: str, seq: int, hash_: bytes, whose: str) -> None:
    """Raise LogForked unless the log has the event `seq` with this hash."""
    found = store.hash_at(book, seq)
    if found == hash_:
        return
    last, _ = store.head(book)
    how = f"the log has another event {seq}" if found else f"the log ends with event {last}"
    raise LogForked(
        f"book {book!r}: {whose} has event {seq}, hash {hash_.hex()[:16]}…, but {how}: it was restored or"
        " replaced. The book is closed for writing here; `makewhole ledger repair` says what is missing",
        book,
        seq if found else last + 1,
    )


def recover(store: Store, book: str) -> State:
    """The state of a book: its latest snapshot, and the events since.

    Raises LogForked if the log does not have the event after which the snapshot was taken.
    """
    kept = store.snapshot(book)
    try:
        state = State(book) if kept is None else State.from_plain(book, json.loads(kept[1]))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        at = 0 if kept is None else kept[0]
        raise LogDamaged(f"book {book!r}: the snapshot after event {at} is damaged: {error}", at) from error
    if state.begun:
        check_head(store, book, state.seq, state.hash, "a snapshot")
    return read_on(state, store)


def read_on(state: State, store: Store) -> State:
    """Catch up with the log."""
    for _ in replay(state, store):
        pass
    return state
