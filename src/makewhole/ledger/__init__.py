"""A durable ledger: books of promises that survive crashes, with a receipt for each promise."""

from __future__ import annotations

from makewhole.ledger.book import Book, Offer, Payment
from makewhole.ledger.ledger import Ledger
from makewhole.ledger.receipts import Receipt
from makewhole.ledger.refusals import (
    BookExists,
    CapitalRefused,
    KeyConflict,
    LedgerUnavailable,
    LogDamaged,
    LogForked,
    NotALedger,
    ReportsDisagree,
    StakingClosed,
    StoreUnavailable,
    SubjectFinal,
    SubjectOpen,
    UnknownBook,
    UnknownSubject,
)
from makewhole.ledger.statement import BookStatement
from makewhole.ledger.verifying import Verified

__all__ = [
    "Book",
    "BookExists",
    "BookStatement",
    "CapitalRefused",
    "KeyConflict",
    "Ledger",
    "LedgerUnavailable",
    "LogDamaged",
    "LogForked",
    "NotALedger",
    "Offer",
    "Payment",
    "Receipt",
    "ReportsDisagree",
    "StakingClosed",
    "StoreUnavailable",
    "SubjectFinal",
    "SubjectOpen",
    "UnknownBook",
    "UnknownSubject",
    "Verified",
]
