"""Read the bodies of requests: in time, up to a limit, as JSON without duplicate names, or as lines."""

from __future__ import annotations

import asyncio
import json
import types
from collections.abc import Coroutine, Generator
from typing import Any

import msgspec
from starlette.requests import Request

from makewhole.serve.problems import Stop

# The most bytes of a body, and of a body of many lines.
MOST_BYTES, MOST_LINES = 65_536, 1_048_576
# A body must arrive within this many seconds of its headers: else a client could hold many requests open.
BODY_SECONDS = 10.0


async def read_body(request: Request, most: int = MOST_BYTES) -> bytes:
    """Return the body, up to a limit.

    Nearly always it has already arrived. It is then read without a timer, which would cost more than reading.
    """
    reading = _read_body(request, most)
    try:
        awaited = reading.send(None)
    except StopIteration as ended:
        whole: bytes = ended.value
        return whole
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return await _rest(reading, awaited)
    except TimeoutError:
        raise Stop(408, f"the body must come within {BODY_SECONDS:g} seconds") from None


@types.coroutine
def _rest(begun: Coroutine[Any, Any, bytes], awaited: Any) -> Generator[Any, Any, bytes]:
    """Finish a coroutine that has started and waits for `awaited`; return its result."""
    try:
        yield awaited
    except BaseException as error:  # noqa: BLE001 - a cancellation must reach the coroutine
        yield begun.throw(error)
    whole: bytes = yield from begun
    return whole


async def _read_body(request: Request, most: int) -> bytes:
    parts, size, more = list[bytes](), 0, True
    while more:
        message = await request.receive()
        if message["type"] == "http.disconnect":  # the client is gone, but nothing failed
            raise Stop(400, "the body ended before its end")
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        more = message.get("more_body", False)
        if size > most:
            raise Stop(413, f"the body must have at most {most:,} bytes", limit=most)
    return b"".join(parts)


def split_lines(body: bytes) -> list[tuple[int, bytes]]:
    """Return the requests in a body of lines, each with the number of its line.

    A line ends with a line feed and nothing else. To JSON a carriage return is a space: two requests with
    only that between them are not JSON.
    """
    return [(number, line) for number, line in enumerate(body.split(b"\n"), 1) if line.strip()]


def check_names(text: bytes, members: int) -> None:
    """Refuse JSON with duplicate names: readers differ in which of the two they take.

    `members` is how many different names were read. Every member has a colon, so if there are no more colons
    than names, no name comes twice. Else, with a colon in a text or a null, the JSON is read again, slowly.
    """
    if text.count(b":") != members:
        json.loads(text, object_pairs_hook=_without_duplicates)


def count_members(read: msgspec.Struct) -> int:
    """Return how many names an object must have had, at least, to be read as this."""
    values = msgspec.structs.astuple(read)
    return sum(value is not None for value in values)


def _without_duplicates(pairs: list[tuple[str, Any]]) -> None:
    names: set[str] = set()
    for name, _ in pairs:
        if name in names:
            raise ValueError(f"the name {name[:100]!r} must come once in an object; it comes twice")
        names.add(name)
