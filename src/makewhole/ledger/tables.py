"""A book as tables: its events, its positions, its settlements; and a log of bets as a book."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from makewhole import arguments
from makewhole.insured.refusals import StakeRefused
from makewhole.ledger.book import Book
from makewhole.ledger.events import Event
from makewhole.ledger.money import due_for, read_units
from makewhole.ledger.refusals import SubjectFinal
from makewhole.ledger.requests import ENDS, read_text


def events_table(events: Iterable[Event]) -> dict[str, list[Any]]:
    """One row for every event, as it is in the log."""
    columns: dict[str, list[Any]] = {name: [] for name in ("seq", "at", "kind", "id", "body", "hash")}
    for event in events:
        row = (event.seq, event.at, event.kind, event.about, event.body, event.hash.hex())
        for column, value in zip(columns.values(), row, strict=True):
            column.append(value)
    return columns


def positions_table(events: Iterable[Event]) -> dict[str, list[Any]]:
    """One row for every stake: what was paid for it, how it ended, and what was due for it then."""
    names = ("seq", "at", "id", "by", "stake", "price", "mu", "c", "ended", "outcome", "due")
    columns: dict[str, list[Any]] = {name: [] for name in names}
    waiting: dict[Any, list[int]] = {}
    for event in events:
        if event.kind == "staked":
            body = event.data()
            waiting.setdefault(event.about, []).append(len(columns["seq"]))
            by = body["by"] if isinstance(body["by"], str) else " / ".join(body["by"])
            known = (body["stake"], body["price"], body["mu"], body["c"])
            row = (event.seq, event.at, event.about, by, *known, None, None, None)
            for column, value in zip(columns.values(), row, strict=True):
                column.append(value)
        elif event.kind in ENDS:
            outcome = event.data().get("outcome")
            for k in waiting.pop(event.about, ()):
                due = due_for(columns["stake"][k], columns["price"][k], outcome)
                columns["ended"][k], columns["outcome"][k], columns["due"][k] = event.kind, outcome, due
    return columns


def settlements_table(events: Iterable[Event]) -> dict[str, list[Any]]:
    """One row for every id that has ended."""
    names = ("seq", "at", "id", "ended", "outcome", "stakes", "premiums", "payouts", "refunds")
    columns: dict[str, list[Any]] = {name: [] for name in names}
    for event in events:
        if event.kind in ENDS:
            body = event.data()
            refunds = body.get("refunds", 0)
            sums = (body["stakes"], body.get("premiums", refunds), body.get("payouts", 0), refunds)
            row = (event.seq, event.at, event.about, event.kind, body.get("outcome"), *sums)
            for column, value in zip(columns.values(), row, strict=True):
                column.append(value)
    return columns


TABLES: dict[str, Callable[[Iterable[Event]], dict[str, list[Any]]]] = {
    "events": events_table,
    "positions": positions_table,
    "settlements": settlements_table,
}


# --- a log of bets as a book ------------------------------------------------------------------------------


def requests_of(columns: Mapping[str, Sequence[Any]], prefix: str) -> Iterator[dict[str, Any]]:
    """The requests that reproduce a log of bets, in its order.

    `columns` are mu, outcome and stake, and optionally id and by. A row is a stake on a forecast; rows
    with the same id are about the same thing, which is settled after the last of them.
    """
    count = len(columns["mu"])
    for name, values in columns.items():
        if None in values:
            raise ValueError(
                f"{name} must be given in every row; row {list(values).index(None) + 1} has none"
            )
    ids = columns.get("id") or [f"{prefix}{k + 1}" for k in range(count)]
    names = columns.get("by") or ["customer"] * count
    last = {str(id_): k for k, id_ in enumerate(ids)}
    said: dict[str, float] = {}
    outcomes: dict[str, int] = {}
    for k in range(count):
        id_, by = read_text(f"id at row {k + 1}", str(ids[k])), read_text(f"by at row {k + 1}", str(names[k]))
        mu = arguments.within(f"mu at row {k + 1}", columns["mu"][k], 0.0, 1.0)
        outcome = arguments.outcome(columns["outcome"][k], None)
        if outcomes.setdefault(id_, outcome) != outcome:
            raise ValueError(f"outcome must be the same for all rows of id {id_!r}; got both")
        if said.get(id_) != mu:
            said[id_] = mu
            yield {"do": "forecast", "id": id_, "mu": mu, "key": f"{prefix}forecast {k + 1}"}
        given = columns["stake"][k]
        size = read_units(f"stake at row {k + 1}", abs(given))
        if size:
            stake = size if given > 0 else -size
            key = f"{prefix}stake {k + 1}"
            yield {"do": "stake", "id": id_, "by": by, "stake": stake, "key": key}
        if last[id_] == k:
            del said[id_], outcomes[id_]
            yield {"do": "report", "id": id_, "outcome": outcome, "key": f"{prefix}report {k + 1}"}
            yield {"do": "settle", "id": id_, "key": f"{prefix}settle {k + 1}"}


def import_log(
    book: Book, columns: Mapping[str, Sequence[Any]], *, prefix: str = "log ", group: int = 1_000
) -> tuple[int, int]:
    """Play a log into a book; returns how many stakes were placed, and how many were refused.

    Every request has a key that begins with the prefix: an interrupted import continues where it stopped.
    All rows are read before the first is stored: if one is wrong, nothing has changed.
    """
    if book.hold:
        raise ValueError("a log can be played into a book without a hold only: its outcomes would be held")
    for _ in requests_of(columns, prefix):
        pass
    placed = refused = 0
    waiting: list[dict[str, Any]] = []

    def flush() -> None:
        nonlocal placed, refused
        for request, answer in zip(waiting, book.do_many(waiting), strict=True):
            # A stake that an earlier import of this log refused is now on an id that is final.
            if request["do"] == "stake" and isinstance(answer.error, (StakeRefused, SubjectFinal)):
                refused += 1
                continue
            answer.answer()
            placed += request["do"] == "stake"
        waiting.clear()

    for request in requests_of(columns, prefix):
        waiting.append(request)
        if len(waiting) >= group:
            flush()
    flush()
    return placed, refused
