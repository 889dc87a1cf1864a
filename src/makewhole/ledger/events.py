"""The log: events, each chained to the one before by a hash over everything it says."""

from __future__ import annotations

import json
from hashlib import sha256 as _sha256
from typing import Any, NamedTuple

# The hash before the first event of a book.
ORIGIN = bytes(32)


def _plain(value: Any) -> Any:
    """Return NumPy's numbers as Python's."""
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"this is not plain data: {value!r}")


_encode = json.JSONEncoder(
    ensure_ascii=False,
    allow_nan=False,
    separators=(",", ":"),
    sort_keys=True,
    check_circular=False,
    default=_plain,
).encode


class Event(NamedTuple):
    """One line of a book's log.

    `seq` counts from 1; `at` is in microseconds since 1970 (UTC) and never falls; `kind` says what happened,
    `about` to which id; `body` is JSON text, and `hash` covers all of this and the previous hash.
    """

    book: str
    seq: int
    at: int
    kind: str
    about: str | None
    body: str
    hash: bytes

    def data(self) -> dict[str, Any]:
        """The body as plain data."""
        read: dict[str, Any] = json.loads(self.body)
        return read


def plain_text(data: Any) -> str:
    """Return plain data as JSON text, always the same text for the same data."""
    return _encode(data)


def chained(previous: bytes, book: str, seq: int, at: int, kind: str, about: str | None, body: str) -> bytes:
    """Return the hash of an event that follows one with the hash `previous`."""
    # The lengths distinguish texts that would otherwise run together; the body comes last and needs none.
    of = "-" if about is None else f"{len(about)} {about}"
    return _sha256(previous + f"{seq} {at} {kind} {len(book)} {book} {of} {body}".encode()).digest()
