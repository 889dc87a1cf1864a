"""The refusals of a ledger, each for a reason that a caller can act on; nothing has changed then."""

from __future__ import annotations

from typing import Any

from makewhole.insured.refusals import Refusal


class UnknownSubject(Refusal):
    """No forecast was made for this id."""


class SubjectOpen(Refusal):
    """The id still awaits its outcome or stakes, so the request cannot be done yet."""


class StakingClosed(Refusal):
    """Staking on this id is closed: its time is over, or an outcome was reported."""


class SubjectFinal(Refusal):
    """The id was settled or voided, and that is final: use `compensate` for mistakes found later."""


class ReportsDisagree(Refusal):
    """Another reporter gave a different outcome; that reporter can replace it, or you can void the id."""


class KeyConflict(Refusal):
    """The key was used before, for a different request."""


class CapitalRefused(Refusal):
    """The withdrawal is more than the certificate leaves; `limit` is what it leaves."""

    def __init__(self, message: str, limit: int) -> None:
        super().__init__(message)
        self.limit = limit


class BookExists(Refusal):
    """The ledger has a book of this name."""


class UnknownBook(Refusal):
    """The ledger has no book of this name."""


class NotALedger(Refusal):
    """The file or database is not a ledger, or belongs to a later version than this one."""


class LedgerUnavailable(Refusal):
    """The database cannot be written or read now: it is locked, full, read-only, or does not answer.

    A write may have been stored: retry with the same `key`, and it is done once.
    """


class StoreUnavailable(LedgerUnavailable):
    """The database did not answer in time, refused the connection or lost it: retry later with the same key.

    The request was stored whole or not at all. The same `key` tells which: if it was stored, a retry returns
    its receipt; if not, a retry does it. The store connects again by itself.
    """


class LogForked(Refusal):
    """The log no longer has an event that this host has stored or read: it was restored or replaced.

    Nothing was written. The book stays closed for writing on this host until the log has that event again.
    `book` is its name, and `seq` the first event that is known to be missing or different.
    """

    def __init__(self, message: str, book: str, seq: int) -> None:
        super().__init__(message)
        self.book, self.seq = book, seq


class LogDamaged(RuntimeError):  # noqa: N818 - what is wrong, in a word
    """The log breaks the rules, or contradicts itself; `seq` is the first event that does."""

    def __init__(self, message: str, seq: int, found: Any = None) -> None:
        super().__init__(message)
        self.seq, self.found = seq, found
