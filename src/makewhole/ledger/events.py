"""The log: events, each chained to the one before by a hash over everything it says."""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256 as _sha256
from json.encoder import encode_basestring as _text
from typing import Any, NamedTuple

# The hash before the first event of a book.
ORIGIN = bytes(32)


def _plain(value: Any) -> Any:
    """NumPy's numbers as Python's."""
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
    `about` to which id; `body` is JSON text, and `hash` covers all of it and the hash before.
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


def body_text(kind: str, body: dict[str, Any]) -> str:
    """Return the body of an event as `plain_text` would.

    Most events are of three kinds, whose bodies are written out here: that takes a third of the time.
    """
    write = _WRITTEN.get((kind, len(body)))
    return plain_text(body) if write is None else write(body)


def _forecast(body: dict[str, Any]) -> str:
    mu, c = body["published"]
    published = f"[{_number(mu)},{_number(c)}]"
    return (
        f'{{"id":{_text(body["id"])},"mu":{_number(body["mu"])},"published":{published}'
        f',"version":{body["version"]}}}'
    )


def _staked(body: dict[str, Any]) -> str:
    if type(body["by"]) is not str:
        return plain_text(body)
    return (
        f'{{"by":{_text(body["by"])},"c":{_number(body["c"])},"id":{_text(body["id"])}'
        f',"mu":{_number(body["mu"])},"on":{body["on"]},"price":{body["price"]},"stake":{body["stake"]}}}'
    )


def _settled(body: dict[str, Any]) -> str:
    return (
        f'{{"id":{_text(body["id"])},"outcome":{body["outcome"]},"payouts":{body["payouts"]}'
        f',"premiums":{body["premiums"]},"stakes":{body["stakes"]}}}'
    )


_number = float.__repr__
# By the kind of event and how many fields it has: all of them may have others, which are rare.
_WRITTEN: dict[tuple[str, int], Callable[[dict[str, Any]], str]] = {
    ("forecast", 4): _forecast,
    ("staked", 7): _staked,
    ("settled", 5): _settled,
}


def chained(previous: bytes, book: str, seq: int, at: int, kind: str, about: str | None, body: str) -> bytes:
    """Return the hash of an event that follows one with the hash `previous`."""
    # The lengths keep apart what would otherwise read the same; the body comes last and needs none.
    of = "-" if about is None else f"{len(about)} {about}"
    return _sha256(previous + f"{seq} {at} {kind} {len(book)} {book} {of} {body}".encode()).digest()
