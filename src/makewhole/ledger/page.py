"""The statement of a book as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from makewhole import pages
from makewhole.ledger.events import Event
from makewhole.ledger.statement import BookStatement
from makewhole.ledger.tables import settlements_table

# The last second that a datetime can hold, in microseconds since 1970; a forecast may close later.
_LAST = 253_402_300_799_000_000


def statement_page(statement: BookStatement, events: Sequence[Event] = ()) -> str:
    """The page: the sums, the last settlements among these events, and the head of the chain."""
    told, unit = statement, pages.escape(statement.unit)
    sums = [
        ("capital: the most that can ever be lost", told.capital),
        ("premiums received", told.premiums),
        ("payouts", told.payouts),
        ("refunds of what was voided", told.refunds),
        ("compensations, outside the certificate", told.compensated),
        ("lost on all that is settled (below 0: won)", told.lost),
        ("cash that should be there", told.cash),
        ("what open bets can lose at most", round(told.at_risk)),
        ("free: neither lost nor at risk", int(told.left)),
    ]
    rows = [((pages.escape(name), f"{value:,}"), False) for name, value in sums]
    parts = [
        f"<p>{told.settled:,} forecasts settled, {told.stakes:,} stakes, {told.open:,} ids open."
        f" All amounts are whole units ({unit}).</p>",
        pages.numbers(("", unit), rows),
    ]
    columns = settlements_table(events)
    if columns["seq"]:
        shown = list(zip(*columns.values(), strict=True))[-100:][::-1]
        cells = [
            (
                (
                    pages.escape(pages.shown(id_)),
                    shown_time(at),
                    "voided" if outcome is None else f"outcome {outcome}",
                    f"{stakes:,}",
                    f"{premiums:,}",
                    f"{payouts + refunds:,}",
                ),
                False,
            )
            for _, at, id_, _, outcome, stakes, premiums, payouts, refunds in shown
        ]
        parts.append("<h2>The latest settlements</h2>")
        parts.append(pages.numbers(("id", "settled", "", "stakes", "premiums", "paid"), cells))
    parts.append(
        f"<h2>The chain</h2><p>{told.events:,} events. The head is <code>{told.head}</code>."
        f" Receipts are signed with the key <code>{pages.escape(told.key)}</code>. Whoever has a"
        " receipt can check that this log still has the event that it names:"
        " <code>makewhole ledger verify FILE --receipts FOLDER</code>.</p>"
    )
    return pages.page(f"Book {told.book}", *parts)


def shown_time(at: float) -> str:
    """A time in microseconds since 1970, as text for a reader."""
    if at > _LAST:
        return "after the year 9999"
    return f"{datetime.fromtimestamp(at / 1_000_000, UTC):%Y-%m-%d %H:%M:%S} UTC"
