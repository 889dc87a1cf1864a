"""Headers that are too large or too slow, against the protocol itself, with a tiny application."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import uvicorn
from hypothesis import given, settings
from hypothesis import strategies as st
from uvicorn.server import ServerState

from makewhole.serve import guard
from makewhole.serve.metrics import Metrics

Play = Callable[[int], Awaitable[Any]]


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Answers with the path, and how many bytes the body has."""
    size, more = 0, True
    while more:
        message = await receive()
        size, more = size + len(message.get("body", b"")), message.get("more_body", False)
    body = f"{scope['path']} {size} {len(scope['headers'])}".encode()
    await send(
        {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]}
    )
    await send({"type": "http.response.body", "body": body})


def with_server(play: Play) -> tuple[Any, Metrics]:
    """Run a client against a server on a port of its own; returns its result, and what was counted."""
    metrics = Metrics()

    async def run() -> Any:
        config = uvicorn.Config(app, log_config=None, lifespan="off")
        config.load()
        protocol, state = guard.guarded(metrics), ServerState()
        loop = asyncio.get_running_loop()
        made = await loop.create_server(
            lambda: protocol(config=config, server_state=state, app_state={}), "127.0.0.1", 0
        )
        async with made:
            result = await play(made.sockets[0].getsockname()[1])
            for one in list(state.connections):
                one.transport.close()
            return result

    return asyncio.run(run()), metrics


async def send(port: int, *parts: bytes, end: bool = True) -> bytes:
    """Send parts, each in a packet of its own; returns all that comes back until the server closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for part in parts:
            writer.write(part)
            await asyncio.sleep(0)
        if end:
            writer.write_eof()
        return await asyncio.wait_for(reader.read(), 20)
    except ConnectionError:
        return b""
    finally:
        writer.close()


def request(path: bytes = b"/a", headers: bytes = b"", body: bytes = b"", last: bool = True) -> bytes:
    close = b"Connection: close\r\n" if last else b""
    length = b"Content-Length: %d\r\n" % len(body)
    return b"POST " + path + b" HTTP/1.1\r\nHost: x\r\n" + close + length + headers + b"\r\n" + body


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1]) if answer else 0


LARGE = guard.MOST_HEADERS
HEADS = [
    (request(headers=b"X: " + b"y" * (LARGE - 200) + b"\r\n"), 200),
    (request(headers=b"X: " + b"y" * LARGE + b"\r\n"), 431),
    (request(headers=b"X: 1\r\n" * (LARGE // 10)), 200),
    (request(headers=b"X: 1\r\n" * (LARGE // 4)), 431),
    (request(path=b"/" + b"a" * LARGE), 431),
    (request(body=b"z" * 900_000), 200),
    (request(headers=b"X: " + b"y" * 20_000 + b"\r\n", body=b"z" * 900_000), 200),
    (b"GET /" + b"a" * 2**20, 431),  # it never ends
    (b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 2**20, 431),
    (b"GET / HTTP/1.1\r\nHost: x\r\n" + b"X: 1\r\n" * 2**18, 431),
]


@pytest.mark.parametrize(("head", "status"), HEADS, ids=range(len(HEADS)))
@pytest.mark.parametrize("size", [1_000, 4_096, 2**24])
def test_headers_above_the_limit_are_refused_however_they_come(head: bytes, status: int, size: int) -> None:
    parts = [head[begin : begin + size] for begin in range(0, len(head), size)]
    answer, metrics = with_server(lambda port: send(port, *parts))
    # Bytes that the server has not read may reset the connection, and take the answer with them.
    assert status_of(answer) in ({status} if status == 200 else {status, 0})
    if status == 431:
        assert metrics.answers == {("other", 431): 1}
    if answer and status == 431:
        head, _, body = answer.partition(b"\r\n\r\n")
        assert json.loads(body)["limit"] == LARGE
        assert b"connection: close" in head


@settings(max_examples=30)
@given(
    bodies=st.lists(st.integers(0, 90_000), min_size=1, max_size=4),
    headers=st.integers(0, 20_000),
    size=st.integers(500, 200_000),
)
def test_requests_in_a_row_are_counted_one_by_one(bodies: list[int], headers: int, size: int) -> None:
    """A body before, or in the same packet, is not a header."""
    more = b"X: " + b"y" * headers + b"\r\n"
    whole = b"".join(
        request(b"/%d" % n, more, b"z" * body, n == len(bodies) - 1) for n, body in enumerate(bodies)
    )
    parts = [whole[begin : begin + size] for begin in range(0, len(whole), size)]
    answer, _ = with_server(lambda port: send(port, *parts, end=False))
    assert answer.count(b"HTTP/1.1 200") == len(bodies)
    for number, body in enumerate(bodies):
        assert b"/%d %d " % (number, body) in answer


def test_a_request_that_was_refused_is_over(caplog: pytest.LogCaptureFixture) -> None:
    """What follows in the same packet is neither answered nor an error."""
    whole = request(headers=b"X: " + b"y" * LARGE + b"\r\n", body=b"z" * 500, last=False) + request()
    answer, metrics = with_server(lambda port: send(port, whole))
    assert answer.count(b"HTTP/1.1") == 1
    assert status_of(answer) == 431
    assert metrics.answers == {("other", 431): 1}
    assert caplog.messages == []


def test_headers_after_a_body_are_not_kept() -> None:
    head = b"POST /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    head += b"1\r\nz\r\n0\r\n"
    answer, _ = with_server(lambda port: send(port, head + b"X: 1\r\n" * 100 + b"\r\n"))
    assert answer.endswith(b"/a 1 3")


@pytest.mark.parametrize(
    "parts",
    [
        (),
        (b"G",),
        (b"GET / HTTP/1.1\r\n",),
        (b"GET / HTTP/1.1\r\nHost: x\r\nX: y",),
        (request(last=False), b"GET / HTTP/1.1\r\nHost:"),
    ],
    ids=["nothing", "a letter", "a line", "a part", "a second request"],
)
def test_headers_that_do_not_come_are_not_waited_for(
    parts: tuple[bytes, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "HEADER_SECONDS", 0.1)
    answer, metrics = with_server(lambda port: send(port, *parts, end=False))
    last = answer[answer.rindex(b"HTTP/1.1") :]
    assert last.startswith(b"HTTP/1.1 408")
    says = f"headers must come within {guard.HEADER_SECONDS:g} seconds"
    assert json.loads(last.partition(b"\r\n\r\n")[2])["detail"] == says
    assert metrics.answers == {("other", 408): 1}


def test_who_sends_a_letter_at_a_time_is_not_waited_for_either(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "HEADER_SECONDS", 0.1)

    async def drip(port: int) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        reading = asyncio.ensure_future(reader.read())
        for letter in b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 1_000:
            if reading.done():
                break
            writer.write(bytes([letter]))
            await asyncio.sleep(0.005)
        writer.close()
        try:
            return await reading
        except ConnectionError:  # the last letter came after the end
            return b"HTTP/1.1 408"

    answer, metrics = with_server(drip)
    assert answer.startswith(b"HTTP/1.1 408")
    assert metrics.answers == {("other", 408): 1}


def test_a_slow_answer_is_not_a_slow_header(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time counts until the headers are there, and not until the answer."""
    monkeypatch.setattr(guard, "HEADER_SECONDS", 0.05)

    async def wait(port: int) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request(body=b"12345")[:-5])
        await asyncio.sleep(0.2)
        writer.write(b"12345")
        answer = await reader.read()
        writer.close()
        return answer

    answer, _ = with_server(wait)
    assert answer.endswith(b"/a 5 3")
