"""Repair a book whose log went back: find what it lacks, and add back what follows.

Receipts, a copy of the ledger, and rows of the log that no longer connect to the others may all know events
that the log lacks. Each event has the hash of everything before it, so an event that fits the head of the log
is the one that was there. It is checked by the rules as well, and then added. No event is ever changed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from makewhole.ledger.database import Key, Store
from makewhole.ledger.events import Event, chained
from makewhole.ledger.following import follow, replay
from makewhole.ledger.money import due_for
from makewhole.ledger.receipts import Receipt
from makewhole.ledger.refusals import LedgerUnavailable, LogDamaged, NotALedger
from makewhole.ledger.requests import ENDS, LATEST
from makewhole.ledger.state import State


@dataclass
class Repair:
    """What was found in one book, and done.

    The log ended with event `last`. It follows the rules up to event `seq`, with what was `added` back;
    `damage` says why it cannot be followed further, or used. `copy_damage` says why the copy was used only up
    to an event. `key_beyond` is a key whose events are missing.
    `lost` are the events that are known but do not follow, by hash. `promises` are the stakes that the book
    can no longer keep. `ended` are those whose id has ended in a lost event, with the amount that was due.
    `forged` are receipts that the book's key of their time has not signed. `taken` are the receipts
    of the book that has taken the promises over.
    """

    book: str
    unit: str = "unit"
    hold: int = 0
    last: int = 0
    seq: int = 0
    head: bytes = b""
    damage: str | None = None
    copy_damage: str | None = None
    key_beyond: Key | None = None
    added: list[Event] = field(default_factory=list)
    lost: dict[bytes, Event] = field(default_factory=dict)
    promises: list[Event] = field(default_factory=list)
    ended: list[tuple[Event, int]] = field(default_factory=list)
    forged: list[Receipt] = field(default_factory=list)
    taken: list[Receipt] = field(default_factory=list)

    @property
    def whole(self) -> bool:
        """Whether nothing is known to be missing, and the copy could be read to its end."""
        unharmed = self.damage is None and self.copy_damage is None and self.key_beyond is None
        return unharmed and not self.lost and not self.forged

    def __str__(self) -> str:
        lines = [f"book {self.book!r}: the log ends with event {self.last}"]
        if self.added:
            lines.append(f"added back: {_numbers(self.added)}; hosts that had closed the book go on")
        lines.append(f"it follows the rules up to event {self.seq}, {self.head.hex()}")
        if self.damage is not None:
            lines.append(f"the book cannot be used: {self.damage}")
        if self.copy_damage is not None:
            lines.append(f"the copy was used only up to its damage: {self.copy_damage}")
        if self.key_beyond is not None:
            lines.append(f"key {self.key_beyond.key!r} names event {self.key_beyond.seq}, which is missing")
        if self.lost:
            kinds = sorted({event.kind for event in self.lost.values()})
            lines.append(f"not in the log: {_numbers(self.lost.values())} ({', '.join(kinds)})")
        forged = "not signed with the book's key of that time, but with {}: the receipt for event {}"
        lines += [forged.format(one.signed[0], one.seq) for one in self.forged]
        ended = "{}: its id has ended in a lost event, and {} was due"
        lines += [ended.format(_promise(event), due) for event, due in self.ended]
        lines += self._about_promises()
        if self.whole:
            lines.append("nothing is known to be missing")
        return "\n  ".join(lines)

    def _about_promises(self) -> list[str]:
        if self.taken:
            return [
                f"{_promise(one.event)} of {one.event.book!r}: taken over from"
                f" event {one['receipt']['seq']} of {self.book!r}"
                for one in self.taken
            ]
        open_ = [f"{_promise(event)}: open" for event in self.promises]
        what = "--from COPY adds lost events back; --into NAME takes open promises over into another book"
        return [*open_, what] if open_ else []


def _numbers(events: Iterable[Event]) -> str:
    """Such as "events 10 to 12, 15"."""
    found: list[list[int]] = []
    for seq in sorted({event.seq for event in events}):
        if found and seq == found[-1][1] + 1:
            found[-1][1] = seq
        else:
            found.append([seq, seq])
    runs = [f"{first}" if first == last else f"{first} to {last}" for first, last in found]
    return f"event{'s' if len(found) > 1 or found[0][0] < found[0][1] else ''} {', '.join(runs)}"


def _promise(event: Event) -> str:
    body = event.data()
    return f"event {event.seq}, {body['by']!r} staked {body['stake']} on {event.about!r} for {body['price']}"


def repair_book(store: Store, book: str, receipts: Sequence[Receipt], copy: Store | None) -> Repair:
    """Find what a book lacks, and add back what follows; LedgerUnavailable if it is written meanwhile."""
    found, state = Repair(book), State(book)
    with store.reading():
        before = store.head(book)
        try:
            for _ in replay(state, store):
                pass
        except LogDamaged as error:
            state.journal.undo()
            found.damage = str(error)
        known = _known_events(store, state, receipts, copy, found)
        _follow_known(store, state, known, found)
    if found.added:
        _add_back(store, before, found, copy)
    found.last, found.seq, found.head = before[0], state.seq, state.hash
    found.unit, found.hold = state.unit or found.unit, state.hold
    with store.reading():  # a host that had closed the book may be writing again
        last = store.head(book)[0]
        found.lost = {event.hash: event for event in known if not _included(store, state, event)}
        found.damage = _damage(store, state, last, found)
        found.key_beyond = store.key_beyond(book, last)
        _find_promises(store, state, found)
    return found


def _known_events(
    store: Store, state: State, receipts: Sequence[Receipt], copy: Store | None, found: Repair
) -> list[Event]:
    """The events that are known, but not among those that the state was made from.

    A receipt counts if it is signed with the book's key of its time, or with a later one: a key that was
    stolen and replaced adds nothing.
    """
    known = {event.hash: event for event in _unconnected(store, state)}
    if copy is not None:
        with copy.reading():
            try:
                for event in replay(State(state.name), copy):
                    if not _included(store, state, event):
                        known[event.hash] = event
            except (LogDamaged, NotALedger) as error:
                found.copy_damage = str(error)
    keys = sorted(_key_changes([*store.key_events(state.name, state.seq), *known.values()]))
    for receipt in sorted(receipts, key=lambda one: one.seq):
        event, key = receipt.event, receipt.signed[0]
        included = _included(store, state, event)
        if included or event.hash in known:
            trusted = any(key == one for _, one in keys)
        else:
            trusted = _counts(keys, key, event.seq)
        if not trusted:
            found.forged.append(receipt)
        elif not included and event.hash not in known:
            known[event.hash] = event
            keys = sorted({*keys, *_key_changes([event])})
    return list(known.values())


def _key_changes(events: Iterable[Event]) -> Iterator[tuple[int, str]]:
    """From which event on a book signs with which key."""
    for event in events:
        if event.kind in ("created", "rekeyed"):
            with contextlib.suppress(ValueError, LookupError, TypeError):  # a row that was changed
                yield event.seq, str(event.data()["key"])


def _counts(keys: Sequence[tuple[int, str]], key: str, seq: int) -> bool:
    """Whether a key counts for an event: another has not replaced it by then.

    A later key does count: a receipt that is asked for again is signed with the present key.
    """
    ends = [first for first, _ in keys[1:]] + [LATEST]
    return any(key == one and seq < end for (_, one), end in zip(keys, ends, strict=True))


def _unconnected(store: Store, state: State) -> Iterator[Event]:
    """The rows of the log after the last event that follows, except those that were changed."""
    before: Event | None = None
    for event in store.events(state.name, state.seq):
        previous = before.hash if before is not None and before.seq == event.seq - 1 else None
        if event.seq == state.seq + 1:
            previous = state.hash
        # Without the row before it, nobody can tell whether a row was changed.
        if previous is None or chained(previous, *event[:6]) == event.hash:
            yield event
        before = event


def _included(store: Store, state: State, event: Event) -> bool:
    """Whether an event is one of those that the state was made from."""
    return event.seq <= state.seq and store.hash_at(state.name, event.seq) == event.hash


def _follow_known(store: Store, state: State, known: Sequence[Event], found: Repair) -> None:
    """Advance the state by the known events that follow from it; those that the log lacks are `added`."""
    ended = store.ends_among(state.name, {event.about for event in known if event.about}, state.seq)
    by_place: dict[int, list[Event]] = {}
    for event in known:
        by_place.setdefault(event.seq, []).append(event)
    while True:
        seq = state.seq + 1
        fitting = [one for one in by_place.get(seq, ()) if chained(state.hash, *one[:6]) == one.hash]
        rows = store.between(state.name, seq, seq)
        # Of two that fit, nobody can tell which was first. A row that was changed stays where it is.
        if len(fitting) != 1 or rows not in ([], fitting):
            return
        try:
            follow(state, fitting[0], fitting[0].data(), ended)
        except (LogDamaged, ValueError):
            state.journal.undo()
            return
        if not rows:
            found.added += fitting


def _add_back(store: Store, before: tuple[int, bytes], found: Repair, copy: Store | None) -> None:
    """Store the events that follow, and the keys of their requests, which only a copy has."""
    first, last = found.added[0].seq, found.added[-1].seq
    theirs = [] if copy is None else copy.keys_after(found.book, first - 1)
    with store.writing(found.book):
        if store.head(found.book) != before:
            raise LedgerUnavailable(f"book {found.book!r} was written meanwhile: repair it again")
        here = store.keys_among(found.book, [key.key for key in theirs])
        keys = [(found.book, key) for key in theirs if key.key not in here and key.seq <= last]
        store.append(found.added, keys)


def _damage(store: Store, state: State, last: int, found: Repair) -> str | None:
    """Why the book, which ends with event `last`, cannot be used as it is now; None if it can."""
    if last > state.seq:
        return found.damage
    kept = store.snapshot(state.name)
    if kept is not None and kept[0] > last:
        return f"it has a snapshot of event {kept[0]}, which is missing"
    return None


def _find_promises(store: Store, state: State, found: Repair) -> None:
    """Find the stakes that the book cannot keep: the lost ones, and all open ones if it cannot be used."""
    stakes = [event for event in found.lost.values() if event.kind == "staked"]
    if found.damage is not None:
        stakes += [
            event
            for id_ in state.subjects
            for event in store.about(found.book, id_)
            if event.kind == "staked" and event.seq <= state.seq
        ]
    ends = {event.about: event.data() for event in found.lost.values() if event.kind in ENDS}
    for event in sorted(stakes, key=lambda one: one.seq):
        body = event.data()
        if event.about in ends:
            due = due_for(body["stake"], body["price"], ends[event.about].get("outcome"))
            found.ended.append((event, due))
        else:
            found.promises.append(event)


def cover_of(promises: Iterable[Event]) -> int:
    """The capital that a book needs to take these promises over."""
    return sum(max(0, abs(body["stake"]) - body["price"]) for body in map(Event.data, promises))


def taking_over(found: Repair, event: Event) -> dict[str, Any]:
    """The stake with which another book takes a promise over.

    It names the event of the old book, and the head of the old book's log.
    """
    link = {"book": event.book, "seq": event.seq, "hash": event.hash.hex()}
    link["head"] = [found.seq, found.head.hex()]
    body = event.data()
    return {name: body[name] for name in ("id", "by", "stake", "price", "mu", "c")} | {"receipt": link}
