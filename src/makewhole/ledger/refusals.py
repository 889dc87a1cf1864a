"""What a ledger refuses, each for a reason that a caller can act on; nothing has changed then."""

from __future__ import annotations

from typing import Any

from makewhole.insured.refusals import Refusal


class UnknownSubject(Refusal):
    """No forecast was made for this id."""


class SubjectOpen(Refusal):
    """Outcomes and stakes are still awaited for this id, so that it cannot be done yet."""


class StakingClosed(Refusal):
    """Nobody can stake on this id any more: the time has come, or an outcome was reported."""


class SubjectFinal(Refusal):
    """The id was settled or voided, and that is final: a later mistake is made good with `compensate`."""


class ReportsDisagree(Refusal):
    """Somebody else has reported another outcome; she may replace it herself, or the id may be voided."""


class KeyConflict(Refusal):
    """The key was used before, with another request."""


class CapitalRefused(Refusal):
    """More than the certificate leaves was to be withdrawn; `limit` is what it leaves."""

    def __init__(self, message: str, limit: int) -> None:
        super().__init__(message)
        self.limit = limit


class BookExists(Refusal):
    """The ledger has a book of this name."""


class UnknownBook(Refusal):
    """The ledger has no book of this name."""


class NotALedger(Refusal):
    """The file or database is none of ours, or of a later version than this one."""


class LedgerUnavailable(Refusal):
    """The database cannot be written or read now: it is locked, full, read-only, or does not answer.

    If it was a write, it may have been stored: ask again with the same `key`, and it is done once.
    """


class LogDamaged(RuntimeError):  # noqa: N818 - what is wrong, in a word
    """The log does not follow from the rules, or from itself; `seq` is the first event that does not."""

    def __init__(self, message: str, seq: int, found: Any = None) -> None:
        super().__init__(message)
        self.seq, self.found = seq, found
