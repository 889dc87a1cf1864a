"""Requests that are broken, odd or hostile: each is answered, and nothing of the inside shows."""

import contextlib
import itertools
import json
import re
import signal
import socket
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import quote

import apsw
import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st

from makewhole.ledger import Ledger, Receipt
from makewhole.ledger.events import Event, chained
from makewhole.ledger.receipts import Signer, sign_together
from makewhole.serve.desk import Desk
from makewhole.serve.limits import RequestLimits
from serve.served import BOOK, Served, api, new_book, run, served, wait_for
from serve.test_api import Clients, Publish, problem, stake

pytestmark = pytest.mark.slow

EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{7*7}}"


# --- bodies -------------------------------------------------------------------------------------------------

BODIES: list[tuple[bytes, int]] = [
    (b"", 400),
    (b"{", 400),
    (b"null", 422),
    (b"[]", 422),
    (b'"x"', 422),
    (b"\xff\xfe", 400),
    (b'{"id": "\xff", "stake": 1}', 400),
    (b'{"id": "\\ud800", "stake": 1}', 400),
    (b'{"id": "a"}', 422),
    (b'{"id": "a", "stake": "1"}', 422),
    (b'{"id": "a", "stake": true}', 422),
    (b'{"id": "a", "stake": 1.5}', 422),
    (b'{"id": "a", "stake": 1e400}', 422),
    (b'{"id": "a", "stake": NaN}', 400),
    (b'{"id": "a", "stake": ' + b"9" * 5_000 + b"}", 422),
    (b'{"id": "a", "stake": 1125899906842625}', 422),
    (b'{"id": "a", "stake": 0}', 422),
    (b'{"id": "", "stake": 1}', 422),
    (b'{"id": "' + b"x" * 501 + b'", "stake": 1}', 422),
    (b'{"id": "a\\u0000b", "stake": 1}', 422),
    (b'{"id": "a", "stake": 1, "more": 1}', 422),
    (b'{"id": "a", "stake": 1, "price": -1}', 422),
    (b'{"id": "a", "stake": 1, "stake": 1}', 422),
    (b'{"id": "b", "stake": 1, "\\u0069d": "a"}', 422),
    (b'{"id": ' + b"[" * 30_000 + b"]" * 30_000 + b', "stake": 1}', 422),
    (b"[" * 60_000, 422),
    (b'{"id": "' + b"x" * 70_000 + b'", "stake": 1}', 413),
]


@pytest.mark.parametrize(("body", "status"), BODIES, ids=lambda value: repr(value)[:40])
def test_a_body_that_is_not_a_stake(body: bytes, status: int, clients: Clients, publish: Publish) -> None:
    if status == 422 and b'"stake": 0}' in body:
        publish("a")
    told = problem(clients["customer"].post(api("stakes"), content=body), status)
    if status == 413:
        assert told["limit"] == 65_536


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
FIELDS = ("id", "mu", "c_hat", "closes", "groups", "stake", "price", "payout", "losses", "outcome", "reason")
ROUTES = {
    "forecasts": "publisher",
    "voids": "publisher",
    "stakes": "customer",
    "outcomes": "oracle",
    "quotes": None,
}


@settings(max_examples=150)
@given(
    route=st.sampled_from(sorted(ROUTES)),
    body=st.dictionaries(st.sampled_from(FIELDS), json_values, max_size=5),
    known=st.booleans(),
)
def test_whatever_a_body_says_it_is_answered(
    route: str, body: dict[str, Any], known: bool, clients: Clients, publish: Publish
) -> None:
    if known:
        body["id"] = "whatever"
        publish("another")
    text = json.dumps(body)
    answer = clients[ROUTES[route]].post(api(route), content=text)
    assert answer.status_code in (200, 400, 404, 409, 422), answer.text


TIMES = st.sampled_from(
    [
        "0001-01-01T00:00+23:59",
        "9999-12-31T23:59:59.999999-23:59",
        "9999-12-31T23:59:59Z",
        "2100-01-01",
        "2100-01-01T00:00",
        "now",
        "2100-W01-1T00:00Z",
        "2100-01-01T24:00Z",
    ]
)


@settings(max_examples=40)
@given(TIMES | st.text(max_size=40), st.floats(0, 1), st.none() | st.floats(0, 1))
def test_whenever_it_closes_the_next_request_is_answered(
    clients: Clients, publish: Publish, closes: str, mu: float, c_hat: float | None
) -> None:
    body = {"id": f"closing {closes!r} {mu} {c_hat}", "mu": mu, "closes": closes, "c_hat": c_hat}
    assert clients["publisher"].post(api("forecasts"), json=body).status_code in (200, 409, 422)
    assert clients[None].get(api("statement")).status_code == 200


LINES = [
    (b'{"do": "stake", "id": "lines", "stake": 5}\r\n{"do": "stake", "id": "lines", "stake": 6}\r\n', 200),
    (b'{"do": "stake", "id": "lines", "stake": 5}\n\n{"do": "stake", "id": "lines", "stake": 6}', 200),
    (b"", 200),
    (b"{", 422),
    (b"[]", 422),
    (b'{"do": "forecast", "id": "lines", "mu": 0.5}', 403),
    (b'{"do": "settle"}', 403),
    (b'{"do": ["stake"]}', 403),
    (b'{"do": {}}', 403),
    (b'{"do": "stake", "id": "lines", "stake": 5, "by": "bob"}', 422),
    (b'{"do": "stake", "id": "lines", "stake": 5, "stake": 5}', 422),
    (b'{"do": "stake", "id": "lines", "stake": 5}\r{"do": "stake", "id": "lines", "stake": 6}', 422),
    (b'{"do": "stake", "id": "lines", "stake": 5}\x0b{"do": "stake", "id": "lines", "stake": 6}', 422),
    (b'{"do": "stake", "id": "lines", "stake": 5, "most": 5}', 422),
    (b'{"do": "stake", "id": "lines", "stake": 5, "key": ""}', 422),
    (b'{"do": "stake", "id": "lines", "stake": 5, "key": 7}', 422),
    (b'{"do": "stake", "id": "lines", "stake": ' + b"9" * 400 + b"}", 422),
    (b'{"do": "stake", "id": "lines", "stake": ' + b"[" * 980 + b"]" * 980 + b"}", 422),
    (b'{"do": "stake", "id": "lines", "stake": ' + b"[" * 90_000 + b"}", 422),
    (b" " * 1_048_577, 413),
]


@pytest.mark.parametrize(("body", "status"), LINES, ids=lambda value: repr(value)[:70])
def test_lines_are_checked_as_requests_are_that_come_alone(
    body: bytes, status: int, clients: Clients, publish: Publish
) -> None:
    publish("lines")
    before = len(clients["customer"].get(api("positions"), params={"limit": 1_000}).json())
    answer = clients["customer"].post(api("requests"), content=body)
    if status == 200:
        receipts = [Receipt.from_json(line) for line in answer.text.splitlines()]
        assert [receipt["by"] for receipt in receipts] == ["ann"] * body.count(b'stake",')
        return
    problem(answer, status)
    assert len(clients["customer"].get(api("positions"), params={"limit": 1_000}).json()) == before


def test_thousands_of_lines_are_answered_in_their_order(clients: Clients, publish: Publish) -> None:
    publish("many lines")
    sizes = [*range(1, 2_000)]
    asked = [{"do": "stake", "id": "many lines", "stake": size, "key": f"line {size}"} for size in sizes]
    body = "\n".join(map(json.dumps, asked))
    first, again = (clients["customer"].post(api("requests"), content=body).text for _ in range(2))
    assert [json.loads(json.loads(line)["body"])["stake"] for line in first.splitlines()] == sizes
    assert [json.loads(line)["seq"] for line in first.splitlines()] == [
        json.loads(line)["seq"] for line in again.splitlines()
    ]
    log = [json.loads(line) for line in clients["auditor"].get(api("log")).text.splitlines()]
    assert [one["seq"] for one in log] == list(range(1, len(log) + 1))


def raw(server: Served, text: bytes, finish: bool = True) -> bytes:
    """Send bytes, and read what comes back until the server closes."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as line:
        line.sendall(text)
        if not finish:
            return b""
        line.shutdown(socket.SHUT_WR)
        found = b""
        while more := line.recv(65_536):
            found += more
        return found


def post(server: Served, headers: str, body: bytes) -> bytes:
    """A request by hand."""
    start = f"POST {api('quotes')} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}\r\n\r\n"
    return start.encode() + body


def test_lengths_that_are_not_true(server: Served, clients: Clients) -> None:
    body = b'{"id": "a", "payout": 5}'
    raw(server, post(server, "Content-Length: 500", body), finish=False)  # and goes away
    assert not raw(server, post(server, "Content-Length: 500", body)).startswith(b"HTTP/1.1 2")
    assert raw(server, post(server, "Content-Length: 5", body)).startswith(b"HTTP/1.1 400")
    assert raw(server, post(server, "Content-Length: -5", body)).startswith(b"HTTP/1.1 400")
    assert b" 413 " in raw(server, post(server, "Content-Length: 99999999999", b"x" * 70_000))
    chunks = b"".join(b"2710\r\n" + b"x" * 10_000 + b"\r\n" for _ in range(8))
    assert b" 413 " in raw(server, post(server, "Transfer-Encoding: chunked", chunks + b"0\r\n\r\n"))
    assert raw(server, b"\x16\x03\x01nonsense\r\n\r\n").startswith(b"HTTP/1.1 400")
    assert clients[None].get("/health").json() == {"healthy": True}


# --- odd names ----------------------------------------------------------------------------------------------

ODD = [
    "a/b",
    "/a",
    "a//b",
    "a b",
    "a%2Fb",
    "a%b",
    "a?b#c",
    "a&b=c;d",
    "'\"`\\",
    "ünï–✈️",
    "مرحبا",
    "\u202eabc",
    "../../etc/passwd",
    "a\nb",
    "a\n",
    "..",
    ".",
    "x/about/y",
    " a ",
    "a\r\nSet-Cookie: x=y",
    "{{7*7}}",
    "null",
    "x" * 500,
    EVIL,
]


class Reader(HTMLParser):
    """Collects what a page has: tags, attributes, links, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.names: list[str] = []
        self.links: list[str] = []
        self.text, self.heading, self._ended = "", "", False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.names += [name for name, _ in attrs]
        self.links += [value or "" for name, value in attrs if name in ("href", "action")]

    def handle_data(self, data: str) -> None:
        self.text += data
        self.heading += data if self.tags and self.tags[-1] == "h1" and not self._ended else ""

    def handle_endtag(self, tag: str) -> None:
        self._ended |= tag == "h1"


@pytest.mark.parametrize("id_", ODD)
def test_an_odd_id_lives_as_any_other(id_: str, clients: Clients, publish: Publish) -> None:
    publish(id_)
    first = clients["publisher"].post(api("forecasts"), json={"id": id_, "mu": 0.3}).json()["seq"] - 2
    receipt = Receipt.from_json(stake(clients["customer"], id_).text)
    assert receipt.event.about == id_
    assert id_ in [one["id"] for one in clients[None].get(api("forecasts"), params={"since": first}).json()]
    page = clients[None].get(f"/books/{BOOK}/open", params={"search": id_})
    links = [link for link in Reader(page.text).links if "/about" in link]
    found = [clients[None].get(link) for link in links]
    assert all(one.status_code == 200 for one in found)
    assert id_.replace("\r\n", "\n") in [Reader(one.text).heading.replace("\r\n", "\n") for one in found]
    assert clients["publisher"].post(api("voids"), json={"id": id_, "reason": EVIL}).status_code == 200


@pytest.mark.parametrize("book", ["none", "a%00b", "%F0%9F%92%A9", "%ff", "x" * 3_000, "a'b"])
def test_a_book_that_is_not_there(book: str, clients: Clients) -> None:
    for path in (f"/api/books/{book}/statement", f"/books/{book}", f"/books/{book}/charts.json"):
        assert clients[None].get(path).status_code == 404


def test_books_that_are_not_there_are_forgotten(server: Served, tmp_path: Path) -> None:
    """Whoever asks for a thousand books that are not there leaves nothing behind."""
    where = str(tmp_path / "books.db")
    new_book(where)
    with Ledger.open(where) as ledger:
        desk = Desk(ledger)
        for number in range(10):
            with pytest.raises(Exception, match="no book"):
                desk._book(f"none {number}")
        desk._book(BOOK)
        assert list(ledger._writers) == [BOOK]


@pytest.mark.parametrize("seq", ["0", "-1", "1.5", "x", "²", "9" * 15, "9" * 40, "%00", "１"])
def test_a_receipt_with_an_odd_number(seq: str, clients: Clients) -> None:
    assert clients["auditor"].get(api(f"receipts/{seq}")).status_code in (404, 422)


# --- pages --------------------------------------------------------------------------------------------------


def cookie(server: Served, name: str, origin: str | None = "same") -> httpx.Client:
    """A client that has signed in, as a browser that comes from a page of some origin."""
    headers = {} if origin is None else {"origin": server.url if origin == "same" else origin}
    return httpx.Client(base_url=server.url, cookies={"makewhole_key": server.texts[name]}, headers=headers)


def test_evil_names_are_text_everywhere(server: Served, clients: Clients, publish: Publish) -> None:
    server.keys({EVIL: "customer"})
    publish(EVIL + "!")
    path = quote(EVIL + "!", safe="")
    with cookie(server, EVIL) as evil, cookie(server, "the desk") as desk:
        receipt = evil.post(
            f"/books/{BOOK}/buy?id={path}", data={"stake": "500", "price": "500", "token": EVIL}
        )
        asked = {"payout": "", "actions": f"{EVIL}: 0, 900"}
        pages = [
            receipt,
            evil.get(f"/books/{BOOK}"),
            evil.get(f"/books/{BOOK}/mine"),
            evil.get(f"/books/{BOOK}/open", params={"search": EVIL, "sort": EVIL}),
            evil.get(f"/books/{BOOK}/about?id={path}"),
            evil.post(f"/books/{BOOK}/about?id={path}", data=asked),
            evil.post(f"/books/{BOOK}/about?id={path}", data={"payout": EVIL}),
            evil.post("/check", data={"receipt": EVIL}),
            evil.post("/check", data={"receipt": receipt.text}),
            evil.post("/sign-in", data={"key": EVIL}),
            evil.get(f"/books/{path}"),
            evil.get(f"/books/{BOOK}/about?id={path}none"),
        ]
        clients["oracle"].post(api("outcomes"), json={"id": EVIL + "!", "outcome": 1})
        wait_for(lambda: EVIL in Reader(desk.get(f"/books/{BOOK}/desk").text).text, "her gain")
        pages += [desk.get(f"/books/{BOOK}/desk"), desk.get(f"/books/{BOOK}")]
    assert receipt.status_code == 200
    for page in pages:
        assert page.status_code in (200, 401, 404, 422)
        if page.headers["content-type"] == "application/problem+json":  # not a page
            continue
        read = Reader(page.text)
        assert read.tags.count("script") == 2
        assert not {"img", "iframe"} & set(read.tags)
        assert not [name for name in read.names if name.startswith("on")]


@pytest.mark.parametrize("origin", [None, "http://evil.example", "null", "http://127.0.0.1:1", "http://["])
def test_a_page_of_another_site_can_do_nothing_with_the_cookie(
    origin: str | None, server: Served, publish: Publish
) -> None:
    id_ = publish()
    with cookie(server, "ann", origin) as other:
        tried = [
            other.post(api("stakes"), json={"id": id_, "stake": 5}),
            other.post(f"/books/{BOOK}/buy?id={id_}", data={"stake": "5", "price": "5"}),
            other.post("/sign-out"),
            other.post("/sign-in", data={"key": server.texts["ann"]}),
        ]
        assert [one.status_code for one in tried] == [422 if origin == "http://[" else 403] * 4
        assert "set-cookie" not in tried[2].headers
        assert id_ not in [one["id"] for one in other.get(api("positions")).json()]
    with cookie(server, "ann") as same:
        assert same.post(api("stakes"), json={"id": id_, "stake": 5}).status_code == 200


def test_the_cookie_is_out_of_reach_of_scripts_and_of_other_sites(server: Served) -> None:
    with server.client() as client:
        headers = {"origin": server.url}
        answer = client.post("/sign-in", data={"key": server.texts["ann"]}, headers=headers)
    assert answer.status_code == 303
    attributes = answer.headers["set-cookie"].lower().split("; ")
    assert {"httponly", "samesite=strict", "path=/"} <= set(attributes)


def test_every_answer_has_the_headers(server: Served, clients: Clients) -> None:
    answers = [
        clients[None].get("/health"),
        clients[None].get("/nothing"),
        clients[None].put("/health"),
        clients[None].get(api("positions")),
        clients[None].post(api("quotes"), content=b"{"),
        clients[None].get(f"/books/{BOOK}"),
        clients[None].get("/books/none"),
        clients[None].get("/"),
        clients[None].get("/static/page.js"),
        clients[None].get("/static/none"),
        clients[None].get(api("statement") + "/"),
        clients[None].head(api("statement")),
    ]
    for answer in answers:
        assert "default-src 'self'" in answer.headers["content-security-policy"]
        assert "'unsafe" not in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "same-origin"
    assert clients[None].get(f"/books/{BOOK}").headers["cache-control"] == "no-store"
    assert "no-store" in clients["customer"].get(api("positions")).headers["cache-control"]


FORMS = [
    {},
    {"payout": "²"},
    {"payout": "9" * 5_000},
    {"payout": "-5"},
    {"payout": "1e5"},
    {"actions": "fly"},
    {"actions": "fly: 1, 2, 3"},
    {"actions": "fly: " + "9" * 5_000 + ", 0"},
    {"actions": "fly: 0, 99999999999999999999"},
    {"actions": ":::"},
    {"actions": "\n".join(f"{k}: 0, {k}" for k in range(3_000))},
]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: repr(form)[:30])
def test_a_slip_that_is_filled_in_wrongly_is_refused_kindly(
    form: dict[str, str], server: Served, publish: Publish
) -> None:
    with cookie(server, "ann") as ann:
        answer = ann.post(f"/books/{BOOK}/about?id={publish()}", data=form)
    assert answer.status_code == 200
    assert "invalid literal" not in answer.text
    assert "set_int_max" not in answer.text


@pytest.mark.parametrize(
    "form",
    [
        {},
        {"stake": "x", "price": "1"},
        {"stake": "9" * 5_000, "price": "1"},
        {"stake": "9" * 50, "price": "1"},
        {"stake": "5", "price": "-1"},
        {"stake": "0", "price": "1"},
        {"stake": "5", "price": "0"},
    ],
)
def test_a_purchase_that_is_filled_in_wrongly(form: dict[str, str], server: Served, publish: Publish) -> None:
    with cookie(server, "ann") as ann:
        answer = ann.post(f"/books/{BOOK}/buy?id={publish()}", data=form)
    assert answer.status_code in (409, 422)
    assert "Traceback" not in answer.text


# --- receipts that others have made -------------------------------------------------------------------------


def forged(book: str, seq: int, head: int) -> str:
    """A receipt that fits in itself, and is signed: with a key that we have just made."""
    private = Ed25519PrivateKey.generate()
    hash_ = chained(bytes(32), book, seq, 1, "staked", "x", "{}")
    event = Event(book, seq, 1, "staked", "x", "{}", hash_)
    made = Receipt(event, bytes(32))
    sign_together([made], (head, bytes(32)), Signer(private))
    return made.to_json()


@pytest.mark.parametrize(
    ("book", "seq", "head"),
    [
        (BOOK, 1, 1),
        (BOOK, 10**9, 10**9),
        (BOOK, 10**40, 1),
        (BOOK, 1, 10**40),
        (BOOK, -5, 1),
        ("none", 1, 1),
        ("a\0b", 1, 1),
    ],
)
def test_a_receipt_with_a_key_that_is_not_the_books_is_not_genuine(
    book: str, seq: int, head: int, clients: Clients, server: Served
) -> None:
    """Else anybody could show our own page, which says that we have changed the log."""
    text = forged(book, seq, head)
    answer = clients[None].post("/api/receipts/check", content=text)
    if answer.status_code == 200:
        assert answer.json() | {"says": ""} == {"genuine": False, "in_the_log": False, "says": ""}
    else:
        problem(answer, 422)
    page = clients[None].post("/check", data={"receipt": text}, headers={"origin": server.url})
    assert page.status_code == 200
    assert "It is genuine" not in page.text


def test_a_receipt_stays_genuine_under_a_new_signing_key(
    server: Served, clients: Clients, tmp_path: Path
) -> None:
    where = str(tmp_path / "books.db")
    folder = tmp_path / "out"
    folder.mkdir()
    with served(folder, where, "--rate", "0") as made:
        with made.client("the desk") as desk:
            old = desk.post(api("forecasts"), json={"id": "x", "mu": 0.5}).text
        run("ledger", "rekey", where)
        with made.client("the desk") as desk:
            new = desk.post(api("forecasts"), json={"id": "y", "mu": 0.5}).text
            assert json.loads(old)["key"] != json.loads(new)["key"]
            for text in (old, new):
                assert desk.post("/api/receipts/check", content=text).json()["in_the_log"]


def deep_receipt(receipt: dict[str, Any]) -> bytes:
    text = json.dumps(receipt)[:-1] + ', "more": ' + "[" * 9_000 + "]" * 1_000 + "}"
    return text.encode()


def test_endless_brackets_are_not_a_receipt(clients: Clients, publish: Publish, server: Served) -> None:
    receipt = stake(clients["customer"], publish()).json()
    problem(clients[None].post("/api/receipts/check", content=deep_receipt(receipt)), 422)
    headers = {"origin": server.url}
    page = clients[None].post("/check", data={"receipt": deep_receipt(receipt).decode()}, headers=headers)
    assert page.status_code == 200


@settings(max_examples=60)
@given(st.data())
def test_a_receipt_that_was_changed_anywhere_is_found(
    clients: Clients, publish: Publish, data: st.DataObject
) -> None:
    receipt = Receipt.from_json(stake(clients["customer"], publish()).text).to_json()
    place = data.draw(st.integers(0, 9_999)) % len(receipt)  # receipts differ in length
    changed = receipt[:place] + data.draw(st.sampled_from('0a9"}')) + receipt[place + 1 :]
    answer = clients[None].post("/api/receipts/check", content=changed.encode())
    assert answer.status_code in (200, 400, 422)
    if answer.status_code == 200 and json.loads(changed) != json.loads(receipt):
        assert not answer.json()["in_the_log"]


# --- limits -------------------------------------------------------------------------------------------------


def test_whoever_asks_too_often_waits(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        made = stack.enter_context(served(tmp_path, str(tmp_path / "books.db"), "--rate", "5"))
        with made.client("ann") as ann, made.client("the desk") as desk, cookie(made, "ann") as page:
            answers = [ann.get(api("positions")) for _ in range(40)]
            refused = [one for one in answers if one.status_code != 200]
            assert len(refused) > 20
            problem(refused[0], 429)
            assert refused[0].headers["retry-after"] == "1"
            # Also on the page, with the same key; but nobody else is held up.
            assert any(page.get(f"/books/{BOOK}/mine").status_code == 429 for _ in range(20))
            assert desk.get(api("statement")).status_code == 200


def test_the_limit_is_a_rate_also_for_those_who_do_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asks too often gets what the rate allows, and not nothing: many may share an address."""
    clock = itertools.count()
    monkeypatch.setattr("makewhole.serve.limits.time.monotonic", lambda: next(clock) / 1_000)
    for rate in (0.5, 1.0, 10.0, 200.0):
        limits = RequestLimits(rate)
        allowed = sum(limits.allow("ann") for _ in range(20_000))
        assert 20 * rate - 1 <= allowed <= 20 * rate + max(rate, 1.0) + 1
    assert all(RequestLimits(0.0).allow("ann") for _ in range(100))


def test_a_book_that_is_damaged_is_said_and_does_not_hold_up_the_others(tmp_path: Path) -> None:
    where = str(tmp_path / "books.db")
    new_book(where)
    made = Served(tmp_path, where)
    try:
        with Ledger.open(where) as ledger:
            ledger.create("another", capital=1_000_000, max_stake=10_000, unit="cent")
            other = ledger.create("zebra", capital=1_000_000, max_stake=10_000, unit="cent")
            damaged = apsw.Connection(where)
            damaged.execute("UPDATE events SET body = replace(body, 'cent', 'Cent') WHERE book = 'another'")
            damaged.close()
            other.forecast("e", mu=0.5)
            other.report("e", 1)
            wait_for(lambda: not other.open_forecasts(), "the settlement of another book")
        with made.client() as client:
            text = client.get("/metrics").text
            not_ready = wait_for(lambda: (a := client.get("/ready")).status_code == 503 and a, "a 503")
            assert "'another'" in problem(not_ready, 503)["detail"]
            assert "LogDamaged" in problem(client.get(api("statement", "another")), 503)["type"]
            assert client.get(api("statement", "zebra")).status_code == 200
        failures = re.search(r"^makewhole_failures_total (\d+)$", text, re.MULTILINE)
        assert failures is not None
        assert int(failures[1]) > 0
        assert "book 'another': event 1 was changed" in made.says()
        assert made.says().count("was changed") == 1  # said once
        assert made.end() == 0
    finally:
        made.end(signal.SIGKILL)
