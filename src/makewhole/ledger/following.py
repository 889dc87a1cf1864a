"""Follow a log: recovery, reading on and verifying are the same loop over the same rules."""

from __future__ import annotations

import json
from collections.abc import Iterator

from makewhole.insured.refusals import ConservationError, Refusal
from makewhole.ledger.events import Event, chained, plain_text
from makewhole.ledger.refusals import LogDamaged
from makewhole.ledger.rules import KINDS, State
from makewhole.ledger.store import Store

_read = json.JSONDecoder().raw_decode


# The event with which an id has ended, and how.
Ends = dict[str, tuple[int, str]]


def walk(store: Store, book: str, after: int = 0) -> Iterator[tuple[Event, Ends]]:
    """The events of a book after a number, each with the ends of all ids that it may be about."""
    for page in store.pages(book, after):
        ends = store.ends_among(book, {event.about for event in page if event.about is not None})
        for event in page:
            yield event, ends


def follow(state: State, event: Event, ends: Ends) -> None:
    """Take a state one event further, if the event follows from it; LogDamaged if it does not."""
    book, seq, at, kind, about, body, found = event
    if seq != state.seq + 1:
        raise LogDamaged(f"book {book!r}: event {state.seq + 1} is missing; event {seq} is next", seq)
    if chained(state.hash, book, seq, at, kind, about, body) != found:
        raise LogDamaged(f"book {book!r}: event {seq} was changed: its hash does not fit", seq)
    try:
        given, end = _read(body)
        again = KINDS[kind](state, seq, at, given, lambda id_: _ended_before(ends, id_, seq))
    except (Refusal, ConservationError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise LogDamaged(
            f"book {book!r}: event {seq}, {kind!r}, cannot have happened: {error}", seq
        ) from error
    if at < state.at or again != given or end != len(body) or about != again.get("id"):
        message = f"book {book!r}: event {seq}, {kind!r}, does not follow from those before it"
        raise LogDamaged(message, seq, again)
    state.seq, state.at, state.hash = seq, at, found


def _ended_before(ends: Ends, id_: str, seq: int) -> str | None:
    end, kind = ends.get(id_, (seq, None))
    return kind if end < seq else None


def snapshot_of(state: State) -> str:
    """The state as text: the same text for the same state, however it was reached."""
    plain = state.to_plain()
    items = plain["forecaster"]["items"]
    items.sort(key=lambda item: plain_text(item[0]))
    for key, value in items:
        if key[0] == "open":
            value["number"] = key[1]  # only their order matters, which is that of their events
    return plain_text(plain)


def recover(store: Store, book: str) -> State:
    """The state of a book: its latest snapshot, and the events since."""
    kept = store.snapshot(book)
    try:
        state = State(book) if kept is None else State.from_plain(book, json.loads(kept[1]))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        at = 0 if kept is None else kept[0]
        raise LogDamaged(f"book {book!r}: the snapshot after event {at} is damaged: {error}", at) from error
    return read_on(state, store)


def read_on(state: State, store: Store) -> State:
    """Follow what was written since."""
    for event, ends in walk(store, state.name, state.seq):
        follow(state, event, ends)
    return state
