"""Reading a body, in one part or in many, at once or after a while; and headers."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request
from starlette.types import Message

from makewhole.serve import service
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
        return await service.read_body(request_of(sender(parts)), most)

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
        asyncio.run(service.read_body(request_of(cut)))
    assert stopped.value.problem.status == 400


@pytest.mark.parametrize("first", [[], [b"{"]], ids=["nothing comes", "a part comes"])
def test_whoever_waits_for_a_body_is_told_in_time(
    first: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "BODY_SECONDS", 0.01)
    left = list(first)

    async def receive() -> Message:
        if left:
            return {"type": "http.request", "body": left.pop(), "more_body": True}
        await asyncio.Event().wait()
        raise AssertionError

    with pytest.raises(Stop) as stopped:
        asyncio.run(service.read_body(request_of(receive)))
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
        task = asyncio.ensure_future(service.read_body(request_of(receive)))
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
