"""Clients that are slow, and those who ask for much at once."""

import contextlib
import json
import socket
from pathlib import Path

import pytest

from makewhole.serve import bodies, limits
from serve.served import BOOK, Served, api, served
from serve.test_api import Clients, problem

pytestmark = pytest.mark.slow


def begun(server: Served, path: str, headers: str, body: bytes = b"{") -> socket.socket:
    """A request whose body does not end."""
    line = socket.create_connection(("127.0.0.1", server.port), timeout=60)
    line.sendall(f"POST {path} HTTP/1.1\r\nHost: x\r\n{headers}\r\n\r\n".encode() + body)
    return line


def unfinished(server: Served, text: bytes) -> socket.socket:
    """A connection on which the headers do not end."""
    line = socket.create_connection(("127.0.0.1", server.port), timeout=60)
    line.sendall(text)
    return line


def whole(line: socket.socket) -> bytes:
    """All that comes until the server closes."""
    found = b""
    while more := line.recv(65_536):
        found += more
    return found


def test_a_body_that_does_not_come_is_not_waited_for(server: Served, clients: Clients) -> None:
    ann = f"Authorization: Bearer {server.texts['ann']}\r\n"
    with contextlib.ExitStack() as stack:
        lines = [
            begun(server, api("quotes"), "Content-Length: 500"),
            begun(server, api("quotes"), "Transfer-Encoding: chunked", b"2\r\n{"),
            begun(server, api("stakes"), ann + "Content-Length: 500"),
            begun(server, api("requests"), ann + "Content-Length: 5000", b""),
            begun(server, "/check", "Origin: http://x\r\nContent-Length: 9"),
            begun(server, "/check", "Origin: http://y\r\nContent-Length: 9"),
            unfinished(server, b""),
            unfinished(server, b"GET / HTTP/1.1\r\nHost: x\r\nX: "),
        ]
        for line in lines:
            stack.enter_context(line)
        # Nobody else waits for them.
        assert clients[None].get(api("statement")).status_code == 200
        answers = [whole(line) for line in lines]
    says = f"the body must come within {bodies.BODY_SECONDS:g} seconds"
    for answer in answers[:4]:
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 408")
        assert b"connection: close" in head.lower()
        assert json.loads(body)["detail"] == says
    assert answers[4].startswith(b"HTTP/1.1 408")
    assert b"too slow" in answers[4]
    assert answers[5].startswith(b"HTTP/1.1 403")  # what a page of another site asks for is not even read
    for answer in answers[6:]:
        assert answer.startswith(b"HTTP/1.1 408")
        assert b"headers must come within" in answer


def test_lines_are_counted_one_by_one(tmp_path: Path) -> None:
    with (
        served(tmp_path, str(tmp_path / "books.db"), "--rate", "1") as made,
        made.client("the desk") as desk,
        made.client("ann") as ann,
    ):
        asked = [{"do": "forecast", "id": f"flight {k}", "mu": 0.5} for k in range(1_000)]
        body = "\n".join(map(json.dumps, asked))
        answer = desk.post(api("requests"), content=body)
        assert len(answer.text.splitlines()) == 1_000
        refused = desk.get(api("statement"))
        problem(refused, 429)
        assert 100 <= int(refused.headers["retry-after"]) <= 1_000
        page = desk.get(f"/books/{BOOK}")
        assert page.status_code == 429
        assert int(page.headers["retry-after"]) >= 100
        assert ann.get(api("statement")).status_code == 200  # nobody else waits


def test_whoever_sends_many_lines_gets_the_same_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("makewhole.serve.limits.time.monotonic", lambda: now)
    allowance = limits.RequestLimits(10.0)
    allowed = 0
    while now < 1_000:
        wait = allowance.wait("ann")
        if wait == 0.0:
            allowance.count("ann", 99)
            allowed += 100
        else:
            now += wait + 1e-6
    assert 9_990 <= allowed <= 10_000 + 10 + 100
    unlimited = limits.RequestLimits(0.0)
    unlimited.count("ann", 1_000)
    assert unlimited.wait("ann") == 0.0
