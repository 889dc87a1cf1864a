"""Verify a ledger: replay every event, compare the snapshot and the keys, and look for every receipt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from makewhole.ledger.database import Store
from makewhole.ledger.following import replay, snapshot_of
from makewhole.ledger.receipts import Receipt
from makewhole.ledger.refusals import LogDamaged
from makewhole.ledger.state import State


class Verified(NamedTuple):
    """The number of events verified in these books; `heads` are their last events and hashes."""

    events: int
    receipts: int
    heads: dict[str, tuple[int, str]]


def verify_all(store: Store, books: Sequence[str], receipts: Sequence[Receipt]) -> Verified:
    """Verify books and receipts; LogDamaged at the first difference."""
    wanted: dict[str, list[Receipt]] = {book: [] for book in books}
    for receipt in receipts:
        receipt.check()
        if receipt.event.book not in wanted:
            name = receipt.event.book
            raise LogDamaged(
                f"book {name!r} is not in the ledger; a receipt names its event {receipt.seq}", 1
            )
        wanted[receipt.event.book].append(receipt)
    heads, count = {}, 0
    for book in books:
        state = verify_book(store, book, wanted[book])
        heads[book] = (state.seq, state.hash.hex())
        count += state.seq
    return Verified(count, len(receipts), heads)


def verify_book(store: Store, book: str, receipts: Sequence[Receipt]) -> State:
    """Replay one book; returns its state."""
    state, kept = State(book), store.snapshot(book)
    _check_keys(store, book, receipts)
    named = _named(receipts)
    for event in replay(state, store):
        for hash_ in named.pop(event.seq, ()):
            if hash_ != event.hash:
                raise LogDamaged(
                    f"book {book!r}: event {event.seq} is not the one that a receipt names", event.seq
                )
        if kept is not None and kept[0] == event.seq and snapshot_of(state) != kept[1]:
            message = f"book {book!r}: the snapshot after event {event.seq} is not what the log says"
            raise LogDamaged(message, event.seq)
    if named:
        seq = min(named)
        raise LogDamaged(
            f"book {book!r} ends with event {state.seq}; a receipt names event {seq}", state.seq + 1
        )
    if kept is not None and not 1 <= kept[0] <= state.seq:
        raise LogDamaged(
            f"book {book!r} ends with event {state.seq}; a snapshot has {kept[0]}", state.seq + 1
        )
    key = store.key_beyond(book, state.seq)
    if key is not None:
        raise LogDamaged(f"book {book!r}: key {key.key!r} names event {key.seq}, which is missing", key.seq)
    return state


def _check_keys(store: Store, book: str, receipts: Sequence[Receipt]) -> None:
    """Raise for a receipt that none of the book's keys has signed: anyone can sign with another key."""
    try:
        public = set(store.public_keys(book)) if receipts else set()
    except (ValueError, LookupError, TypeError):
        return  # such an event was changed: the replay reports it
    for receipt in receipts:
        if receipt.signed[0] not in public:
            what = f"book {book!r}: the receipt for event {receipt.seq}"
            why = f"is signed with a key that the log does not name, {receipt.signed[0]}"
            raise LogDamaged(f"{what} {why}: it is forged, or the log's keys were changed", receipt.seq)


def _named(receipts: Sequence[Receipt]) -> dict[int, set[bytes]]:
    """The hashes that receipts name, by event."""
    named: dict[int, set[bytes]] = {}
    for receipt in receipts:
        for seq, hash_ in ((receipt.seq, receipt.event.hash), receipt.head):
            named.setdefault(seq, set()).add(hash_)
    return named
