"""The thin client, against a real server, and against one that does not answer."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from makewhole.ledger import Receipt
from makewhole.serve import client as module
from makewhole.serve.client import Client, Refused
from serve.served import BOOK, ROLES, Served

pytestmark = pytest.mark.slow


@pytest.fixture
def of(server: Served) -> Iterator[Callable[[str | None], Client]]:
    """A client for a role, or without a key."""
    with contextlib.ExitStack() as stack:

        def make(role: str | None) -> Client:
            key = None if role is None else server.texts[ROLES[role]]
            made = Client(server.url, BOOK, key)
            stack.callback(made.close)
            return made

        yield make


def test_a_promise_from_forecast_to_payment(of: Callable[[str | None], Client]) -> None:
    desk, ann, oracle, auditor, anybody = map(of, ("publisher", "customer", "oracle", "auditor", None))
    desk.forecast("client/é", mu=0.2)
    assert "client/é" in [one["id"] for one in anybody.open_forecasts()]
    quote = ann.quote("client/é", losses={"fly": (0, 900), "train": (500, 500)})
    assert (quote["action"], quote["price"], quote["loss"]) == ("fly", 198, 198)
    text = ann.stake("client/é", quote["stake"], price=quote["price"], key="an order")
    assert ann.stake("client/é", quote["stake"], price=quote["price"], key="an order")["hash"] == text["hash"]
    assert Receipt.from_json(json.dumps(text))["by"] == ROLES["customer"]
    oracle.report("client/é", 1)
    paid: list[int] = []
    while not paid:  # the server settles twice a second
        paid = [p["paid"] for p in ann.positions() if p["id"] == "client/é" and p["ended"] == "settled"]
    assert paid == [900]
    desk.forecast("client 2", mu=0.5)
    desk.void("client 2", "fog")
    assert {"forecast", "voided"} <= {event["kind"] for event in auditor.events()}
    assert anybody.statement()["book"] == BOOK


def test_a_refusal_says_the_rule_and_the_limit(of: Callable[[str | None], Client]) -> None:
    of("publisher").forecast("client 3", mu=0.5)
    with pytest.raises(Refused, match="over the cap") as refused:
        of("customer").stake("client 3", 10**9)
    assert (refused.value.status, refused.value.type) == (409, "urn:makewhole:StakeRefused")
    assert refused.value.limit > 0
    with pytest.raises(Refused, match="a key is needed") as stranger:
        of(None).stake("client 3", 1)
    assert stranger.value.status == 401
    with pytest.raises(ValueError, match="address must look like"):
        Client("127.0.0.1:8000", BOOK)


def test_it_asks_again_with_the_same_key_and_then_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that takes requests and hangs up: the key must be the same each time."""
    monkeypatch.setattr("makewhole.serve.client.time.sleep", lambda _: None)
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            for _ in range(module._TRIES):
                connection, _ = listening.accept()
                with connection:
                    heard.append(connection.recv(65_536))

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises((OSError, http.client.HTTPException)):
            Client(f"http://127.0.0.1:{listening.getsockname()[1]}", BOOK).stake("e", 1)
        thread.join()
    keys = {
        line for text in heard for line in text.split(b"\r\n") if line.lower().startswith(b"idempotency-key")
    }
    assert len(heard) == module._TRIES
    assert len(keys) == 1
