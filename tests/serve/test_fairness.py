"""Greedy callers: they have their turns, and nobody waits for more than that; public answers are pages."""

import asyncio
import contextlib
import json
import re
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from makewhole.ledger import Ledger
from makewhole.serve import make_app, service
from makewhole.serve.access import Keys
from makewhole.serve.limits import RequestLimits, caller_at
from serve.served import BOOK, ROLES, Served, api, served, wait_for
from serve.test_api import Clients, Publish, problem, stake

MANY = 8_000


@pytest.mark.slow
def test_a_single_stake_does_not_wait_for_the_end_of_a_large_body(
    server: Served, clients: Clients, publish: Publish
) -> None:
    """Her event comes before most of those that were asked for earlier."""
    server.keys({"greedy": "customer", "patient": "customer"})
    id_ = publish()
    body = "\n".join([json.dumps({"do": "stake", "id": id_, "stake": 1})] * MANY)
    with server.client("greedy") as greedy, server.client("patient") as patient:
        with greedy.stream("POST", api("requests"), content=body) as answer:
            lines = answer.iter_lines()
            first = json.loads(next(lines))["seq"]  # it has begun
            single = stake(patient, id_).json()["seq"]
            rest = [json.loads(line) for line in lines]
        last = rest[-1]["seq"]
    assert len(rest) == MANY - 1
    assert last - first >= MANY - 1
    assert single < first + MANY // 2


def test_every_request_is_in_the_turn_of_its_key_or_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Ledger.open(tmp_path / "books.db") as ledger:
        ledger.create("b", capital=10**6, max_stake=10**5, unit="cent").forecast("x", mu=0.5)
        keys = Keys(ledger.store)
        texts = {role: keys.add(role, role) for role in ROLES}
        made = service.Service(ledger, rate=0.0)
        asked: list[str] = []
        put = made.desk._put

        def note(who: str, book: str, do: Any) -> Any:
            asked.append(who)
            return put(who, book, do)

        monkeypatch.setattr(made.desk, "_put", note)
        line = json.dumps({"do": "stake", "id": "x", "stake": 1})
        public = ["/api/books/b/statement", "/api/books/b/forecasts", "/books/b", "/books/b/open"]
        calls: list[tuple[str, str, str, str | None]]
        calls = [("", "GET", path, None) for path in (*public, "/books/b/about?id=x", "/books/b/charts.json")]
        calls += [("", "POST", "/api/books/b/quotes", json.dumps({"id": "x", "stake": 1}))]
        calls += [("customer", "POST", "/api/books/b/requests", line)]
        calls += [("customer", "POST", "/api/books/b/stakes", json.dumps({"id": "x", "stake": 1}))]
        calls += [("customer", "GET", path, None) for path in ("/api/books/b/positions", "/books/b/mine")]
        calls += [("publisher", "GET", "/books/b/desk", None), ("auditor", "GET", "/api/books/b/log", None)]
        calls += [("oracle", "POST", "/api/books/b/outcomes", json.dumps({"id": "x", "outcome": 1}))]

        async def play() -> None:
            transport = httpx.ASGITransport(make_app(made), client=("192.0.2.7", 1))
            async with made.running(), httpx.AsyncClient(transport=transport, base_url="http://x") as client:
                for role, method, path, body in calls:
                    asked.clear()
                    headers = {"authorization": f"Bearer {texts[role]}"} if role else {}
                    answer = await client.request(method, path, content=body, headers=headers)
                    assert answer.status_code == 200, answer.text
                    who = texts[role].split("_")[1] if role else "@192.0.2.7"
                    assert set(asked) - {""} == {who}, path  # "" is the server itself

        asyncio.run(play())


@pytest.mark.slow
def test_lines_of_a_client_who_goes_away_are_not_all_done(
    server: Served, clients: Clients, publish: Publish
) -> None:
    server.keys({"gone": "customer"})
    id_ = publish()
    # Every second one is refused: also what nobody waits for any more is no error of the server.
    asked = [{"do": "stake", "id": id_, "stake": 1}, {"do": "stake", "id": id_, "stake": 1, "price": 0}]
    body = "\n".join(map(json.dumps, asked * (MANY // 2)))
    with server.client("gone") as gone:
        with gone.stream("POST", api("requests"), content=body) as answer:
            next(answer.iter_lines())
        before = len(gone.get(api("positions"), params={"limit": 1_000}).json())
        assert before > 0

    def ended() -> bool:
        return "makewhole_queue 0\n" in clients[None].get("/metrics").text

    wait_for(ended, "the end of her requests")
    told = [json.loads(line) for line in clients["auditor"].get(api("log")).text.splitlines()]
    assert len([one for one in told if one["about"] == id_ and one["kind"] == "staked"]) < MANY


@pytest.mark.slow
def test_what_is_open_comes_page_by_page(server: Served, clients: Clients, publish: Publish) -> None:
    ids = [publish(f"page {number:03}") for number in range(120)]
    found: list[dict[str, Any]] = []
    while (
        page := clients[None]
        .get(api("forecasts"), params={"limit": 50, "since": found[-1]["first"] if found else 0})
        .json()
    ):
        assert len(page) <= 50
        found += page
    assert [one["id"] for one in found if one["id"] in ids] == ids
    assert len(clients[None].get(api("forecasts")).json()) <= 100
    for params in ({"limit": 0}, {"limit": 1_001}, {"since": -1}, {"since": "x"}):
        problem(clients[None].get(api("forecasts"), params=params), 422)
    # The page for people: fifty at a time, each with a link to the next.
    path, seen = f"/books/{BOOK}/open?search=PAGE&sort=name", list[str]()
    while path:
        text = clients[None].get(path).text
        seen += re.findall(r"<a href=[^>]*>(page \d{3})</a>", text)
        assert len(re.findall(r"<tr>", text)) <= 51
        more = re.search(r'<a href="([^"]*)" rel="next"', text)
        path = f"/books/{BOOK}/open" + more[1].replace("&amp;", "&") if more else ""
    assert seen == ids
    for after in ("x", "[]", '["a"]', '["a","b"]', "[null,1]", "[1,2,3]"):
        wrong = clients[None].get(f"/books/{BOOK}/open", params={"after": after, "sort": "closes"})
        assert wrong.status_code == 422


@pytest.mark.slow
def test_what_happened_to_an_id_comes_page_by_page(clients: Clients, publish: Publish) -> None:
    id_ = publish()
    body = "\n".join(json.dumps({"do": "stake", "id": id_, "stake": 1 + k}) for k in range(120))
    assert clients["customer"].post(api("requests"), content=body).status_code == 200
    path, seen = f"/books/{BOOK}/about?id={id_}", list[int]()
    while path:
        text = clients[None].get(path).text
        seen += [int(size) for size in re.findall(r"for (\d+) if it happens", text)]
        more = re.search(r'<a href="([^"]*)">Earlier', text)
        path = f"/books/{BOOK}/about" + more[1].replace("&amp;", "&") if more else ""
    assert seen == list(range(120, 0, -1))
    assert clients[None].get(f"/books/{BOOK}/about?id={id_}&before=x").status_code == 422


# --- limits -------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_without_a_key_everything_is_limited_by_address(tmp_path: Path) -> None:
    with served(tmp_path, str(tmp_path / "books.db"), "--rate", "5") as made, made.client("ann") as ann:

        def asked(host: int, path: str, **headers: str) -> set[int]:
            other = httpx.HTTPTransport(local_address=f"127.0.0.{host}")
            with httpx.Client(base_url=made.url, transport=other, headers=headers) as client:
                return {client.get(path).status_code for _ in range(12)}

        assert asked(10, api("statement"), authorization="Bearer mw_0_wrong") == {401, 429}
        public = ("/metrics", "/openapi.json", "/static/page.css", api("statement"), f"/books/{BOOK}")
        for host, path in enumerate(public, 11):
            assert asked(host, path) == {200, 429}, path
        assert asked(10, "/health") | asked(10, "/ready") == {200}
        assert ann.get(api("positions")).status_code == 200  # a key has its own limit


@pytest.mark.slow
def test_an_address_has_so_many_listeners_and_no_more(server: Served, clients: Clients) -> None:
    def listen(address: str) -> socket.socket:
        line = socket.create_connection(("127.0.0.1", server.port), 20, (address, 0))
        line.sendall(b"GET /live HTTP/1.1\r\nHost: x\r\n\r\n")
        return line

    lines = [listen("127.0.0.5") for _ in range(service._MOST_OF_ONE)]
    for line in lines:
        assert line.recv(100).startswith(b"HTTP/1.1 200")
    refused, other = listen("127.0.0.5"), listen("127.0.0.6")
    assert refused.recv(1_000).startswith(b"HTTP/1.1 429")
    assert other.recv(100).startswith(b"HTTP/1.1 200")
    for line in (*lines, refused, other):
        line.close()
    wait_for(lambda: "makewhole_listeners 0\n" in clients[None].get("/metrics").text, "nobody to listen")


def test_callers_who_owe_nothing_are_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("makewhole.serve.limits.time.monotonic", lambda: now)
    monkeypatch.setattr("makewhole.serve.limits._MOST_CALLERS", 100)
    limits = RequestLimits(10.0)
    assert limits.allow("greedy")
    limits.count("greedy", 30_000)
    for number in range(1_000):
        limits.allow(f"@{number}")
        now += 0.01
    assert len(limits._left) <= 101
    assert limits.wait("greedy") > 2_000


def test_bodies_that_come_together_are_not_all_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """All were admitted before the lines of the first were counted."""
    monkeypatch.setattr("makewhole.serve.limits.time.monotonic", lambda: 0.0)
    limits = RequestLimits(50.0)
    assert [limits.wait("ann") for _ in range(3)] == [0.0] * 3
    assert limits.count("ann", 25_000) == 0.0
    assert limits.count("ann", 25_000) == pytest.approx((25_000 - 47 + 1) / 50)
    assert limits.count("ann", 0) == 0.0
    assert limits.wait("ann") == pytest.approx((25_000 - 47 + 1) / 50)  # the second was not charged


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="Linux tells how much memory a process has")
def test_headers_that_never_end_take_no_memory(server: Served, clients: Clients) -> None:
    def pages() -> int:
        return int(Path(f"/proc/{server.process.pid}/statm").read_text().split()[1])

    def flood(_: int) -> None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", server.port), 20) as line:
            line.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n")
            for _ in range(16):
                line.sendall(b"X: " + b"y" * 65_536 + b"\r\n")

    before = pages()
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(flood, range(64)))  # 64 MiB in total

    def refused() -> int:
        text = clients[None].get("/metrics").text
        return sum(map(int, re.findall(r'makewhole_answers_total{path="other",status="431"} (\d+)', text)))

    wait_for(lambda: refused() >= 64, "all of them to be refused")
    assert (pages() - before) * 4_096 < 20_000_000


@pytest.mark.parametrize(
    ("address", "who"),
    [
        ("192.0.2.1", "@192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "@2001:db8:1:2::/64"),
        ("2001:db8:1:2::9", "@2001:db8:1:2::/64"),
        ("::ffff:192.0.2.1", "@::ffff:192.0.2.1"),
        ("", "@"),
        ("testclient", "@testclient"),
    ],
)
def test_an_address_counts_as_itself_or_as_its_network(address: str, who: str) -> None:
    assert caller_at(address) == who


# --- redirects ----------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("path", [api("statement") + "/", "/check/", "/static", "/docs/", "/", "/live/"])
def test_no_answer_sends_anybody_to_the_host_that_a_request_names(path: str, clients: Clients) -> None:
    answer = clients[None].get(path, headers={"host": "evil.example"})
    assert answer.status_code in (200, 303, 404)
    assert "evil" not in str(answer.headers) + answer.text
