"""Reading a body, in one part or in many, at once or after a while; and headers."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request
from starlette.types import Message

from makewhole.serve import bodies, service
from makewhole.serve.api import QuoteIn, StakeIn
from makewhole.serve.problems import Stop

Parts = list[tuple[bytes, int]]


def request_of(receive: Callable[[], Awaitable[Message]], headers: Any = ()) -> Request:
    return Request({"type": "http", "method": "POST", "path": "/", "headers": list(headers)}, receive)


def sender(parts: Parts) -> Callable[[], Awaitable[Message]]:
    """Sends parts of a body, each after so many turns of the event loop, and then goes away."""
    left = list(enumerate(parts))

    async def receive() -> Message:
        if not left:
            return {"type": "http.disconnect"}
        number, (part, turns) = left.pop(0)
        for _ in range(turns):
            await asyncio.sleep(0)
        return {"type": "http.request", "body": part, "more_body": number < len(parts) - 1}

    return receive


@given(st.lists(st.tuples(st.binary(max_size=6), st.integers(0, 2)), min_size=1, max_size=5))
def test_a_body_is_all_its_parts_however_they_come(parts: Parts) -> None:
    whole = b"".join(part for part, _ in parts)

    async def read(most: int) -> bytes:
        return await bodies.read_body(request_of(sender(parts)), most)

    assert asyncio.run(read(len(whole))) == whole
    if whole:
        with pytest.raises(Stop) as stopped:
            asyncio.run(read(len(whole) - 1))
        assert stopped.value.problem.status == 413


@pytest.mark.parametrize("turns", [0, 1])
def test_a_body_that_ends_too_early_is_no_body(turns: int) -> None:
    receive = sender([(b"{", turns), (b"}", turns)])

    async def cut() -> Message:
        said = await receive()
        return {"type": "http.disconnect"} if said["body"] == b"}" else said

    with pytest.raises(Stop) as stopped:
        asyncio.run(bodies.read_body(request_of(cut)))
    assert stopped.value.problem.status == 400


@pytest.mark.parametrize("first", [[], [b"{"]], ids=["nothing comes", "a part comes"])
def test_whoever_waits_for_a_body_is_told_in_time(
    first: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "BODY_SECONDS", 0.01)
    left = list(first)

    async def receive() -> Message:
        if left:
            return {"type": "http.request", "body": left.pop(), "more_body": True}
        await asyncio.Event().wait()
        raise AssertionError

    with pytest.raises(Stop) as stopped:
        asyncio.run(bodies.read_body(request_of(receive)))
    assert stopped.value.problem.status == 408


def test_a_reader_can_be_cancelled() -> None:
    heard = []

    async def receive() -> Message:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            heard.append("cancelled")
            await asyncio.sleep(0)  # it may have something to finish
            raise
        raise AssertionError

    async def play() -> None:
        task = asyncio.ensure_future(bodies.read_body(request_of(receive)))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(play())
    assert heard == ["cancelled"]


@given(st.lists(st.tuples(st.sampled_from([b"a", b"b", b"a-b"]), st.binary(max_size=3)), max_size=5))
def test_a_header_is_the_one_that_starlette_finds(headers: list[tuple[bytes, bytes]]) -> None:
    request = request_of(sender([]), headers)
    for name in ("a", "b", "a-b"):
        assert service.header(request, name.encode()) == request.headers.get(name)


# --- lines and names ----------------------------------------------------------------------------------------


@given(st.lists(st.sampled_from([b"{}", b" ", b"", b"\r", b"[1]", b"\n", b"\r\n", b"\x0b", b"\x85"])))
def test_a_line_ends_with_a_line_feed_and_nothing_else(parts: list[bytes]) -> None:
    body = b"".join(parts)
    lines = bodies.split_lines(body)
    assert b"".join(line for _, line in lines).count(b"{}") == body.count(b"{}")
    for number, line in lines:
        assert line == body.split(b"\n")[number - 1]
        assert line.strip()


class Pairs(list[tuple[str, Any]]):
    """An object whose names may come twice."""


names = st.sampled_from(["id", "stake", "price", "a:b", "é", '"', "\\", ""])
values = st.recursive(
    st.none() | st.integers(-9, 9) | st.sampled_from(["x", "1:2", ":", '"a":']),
    lambda inner: st.lists(inner, max_size=2) | st.lists(st.tuples(names, inner), max_size=3).map(Pairs),
    max_leaves=5,
)


def text_of(value: Any, space: str) -> str:
    """Write JSON by hand."""
    if isinstance(value, Pairs):
        inner = (f"{json.dumps(name)}{space}:{space}{text_of(one, space)}" for name, one in value)
        return "{" + ",".join(inner) + "}"
    if isinstance(value, list):
        return "[" + ",".join(text_of(one, space) for one in value) + "]"
    return json.dumps(value)


def has_twice(value: Any) -> bool:
    """Whether a name comes twice in an object, anywhere."""
    if isinstance(value, Pairs):
        found = [name for name, _ in value]
        return len(set(found)) < len(found) or any(has_twice(one) for _, one in value)
    return isinstance(value, list) and any(map(has_twice, value))


@given(st.lists(st.tuples(names, values), max_size=4).map(Pairs), st.sampled_from(["", " ", "\t\n"]))
def test_a_name_that_comes_twice_is_found_and_nothing_else_is(pairs: Pairs, space: str) -> None:
    text = text_of(pairs, space).encode()
    read = msgspec.json.decode(text, type=dict[str, Any])
    if has_twice(pairs):
        with pytest.raises(ValueError, match="must come once"):
            bodies.check_names(text, len(read))
    else:
        bodies.check_names(text, len(read))


@pytest.mark.parametrize(
    ("kind", "text", "twice"),
    [
        (StakeIn, b'{"id":"a","stake":1}', False),
        (StakeIn, b'{"id":"a","stake":1,"price":null}', False),
        (StakeIn, b'{"id":"a:b","stake":1,"price":2}', False),
        (StakeIn, b'{"id":"a","stake":1,"stake":2}', True),
        (StakeIn, b'{"id":"a","stake" :1, "st\\u0061ke": 2}', True),
        (StakeIn, b'{"id":"a","stake":1,"price":3,"price":null}', True),
        (QuoteIn, b'{"id":"a","losses":{"fly":[0,1],"train":[1,1]}}', False),
        (QuoteIn, b'{"id":"a","losses":{"fly":[0,1],"fly":[1,1]}}', True),
    ],
)
def test_a_body_with_a_name_twice_is_not_valid(kind: Any, text: bytes, twice: bool) -> None:
    read = msgspec.json.decode(text, type=kind)
    if twice:
        with pytest.raises(ValueError, match="must come once in an object; it comes twice"):
            bodies.check_names(text, bodies.count_members(read))
    else:
        bodies.check_names(text, bodies.count_members(read))
