"""Many clients at once, two servers on one database, servers that are killed: all is done, and done once."""

import contextlib
import json
import random
import signal
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from ledger.server import Server
from makewhole.ledger import Book, Ledger, Receipt
from makewhole.serve.history import History
from serve.served import BOOK, Served, api, new_book, served, wait_for
from serve.test_api import Clients, Publish, stake

pytestmark = pytest.mark.slow

MANY = 8


def all_at_once(server: Served, name: str, ask: Callable[[int, httpx.Client], Any]) -> list[Any]:
    """What many clients of the same key are answered who ask at the same moment, each on her own line."""
    ready = threading.Barrier(MANY)

    def one(number: int) -> Any:
        with server.client(name) as client:
            client.get("/health")
            ready.wait(30)
            return ask(number, client)

    with ThreadPoolExecutor(MANY) as pool:
        return list(pool.map(one, range(MANY)))


def log_of(client: httpx.Client) -> list[dict[str, Any]]:
    """All events."""
    return [json.loads(line) for line in client.get(api("log")).text.splitlines()]


def about(clients: Clients, id_: str, kind: str) -> list[dict[str, Any]]:
    """The events of a kind about an id."""
    return [one for one in log_of(clients["auditor"]) if one["about"] == id_ and one["kind"] == kind]


# --- one server ---------------------------------------------------------------------------------------------


def test_one_key_from_many_clients_at_once_is_one_stake(
    server: Served, clients: Clients, publish: Publish
) -> None:
    for turn in range(5):
        id_ = publish()
        answers = all_at_once(server, "ann", lambda _, client, id_=id_: stake(client, id_, 70, f"one {id_}"))  # type: ignore[misc]  # a loop's value
        assert {answer.status_code for answer in answers} == {200}, turn
        assert len({Receipt.from_json(answer.text).hash for answer in answers}) == 1
        assert len(about(clients, id_, "staked")) == 1


def test_a_key_with_two_requests_at_once_is_one_of_them(
    server: Served, clients: Clients, publish: Publish
) -> None:
    id_ = publish()
    answers = all_at_once(server, "ann", lambda k, client: stake(client, id_, 70 + k % 2, f"two {id_}"))
    assert Counter(answer.status_code for answer in answers) == {200: MANY // 2, 409: MANY // 2}
    assert len(about(clients, id_, "staked")) == 1


def test_stakes_against_the_close_are_before_it_or_refused(
    server: Served, clients: Clients, publish: Publish
) -> None:
    closes = datetime.now(UTC) + timedelta(seconds=1)
    id_ = publish(closes=closes.isoformat())

    def ask(_: int, client: httpx.Client) -> list[httpx.Response]:
        answers = [stake(client, id_, 1)]
        while answers[-1].status_code == 200 and len(answers) < 5_000:
            answers.append(stake(client, id_, 1))
        return answers

    answers = [one for several in all_at_once(server, "ann", ask) for one in several]
    assert {one.json()["type"] for one in answers if one.status_code != 200} == {
        "urn:makewhole:StakingClosed"
    }
    taken = [one.json() for one in answers if one.status_code == 200]
    assert all(one["at"] < closes.timestamp() * 1e6 for one in taken)
    assert sorted(one["seq"] for one in taken) == [one["seq"] for one in about(clients, id_, "staked")]


def test_a_stake_against_a_report_is_before_it_or_refused(
    server: Served, clients: Clients, publish: Publish
) -> None:
    for _ in range(5):
        id_ = publish()

        def ask(number: int, client: httpx.Client, id_: str = id_) -> httpx.Response:
            if number == MANY // 2:
                return clients["oracle"].post(api("outcomes"), json={"id": id_, "outcome": 1})
            answer: httpx.Response = stake(client, id_, 100)
            return answer

        answers = all_at_once(server, "ann", ask)
        reported = answers.pop(MANY // 2).json()["seq"]
        taken = [one.json()["seq"] for one in answers if one.status_code == 200]
        assert all(seq < reported for seq in taken)
        assert all(one.status_code in (200, 409) for one in answers)
        (end,) = wait_for(lambda id_=id_: about(clients, id_, "settled"), "the settlement")
        assert json.loads(end["body"])["payouts"] == 100 * len(taken)


def test_a_settlement_is_shown_while_pages_are_read(
    server: Served, clients: Clients, publish: Publish
) -> None:
    """The page is rendered while another thread follows the log."""
    done = threading.Event()

    def look() -> set[int]:
        with server.client() as client:
            seen = set()
            while not done.is_set():
                seen.add(client.get(f"/books/{BOOK}").status_code)
                seen.add(client.get(f"/books/{BOOK}/charts.json").status_code)
            return seen

    with ThreadPoolExecutor(2) as pool:
        looking = [pool.submit(look) for _ in range(2)]
        try:
            for _ in range(4):
                ids = [publish() for _ in range(40)]
                asked = "\n".join(json.dumps({"do": "report", "id": id_, "outcome": 0}) for id_ in ids)
                assert clients["oracle"].post(api("requests"), content=asked).status_code == 200
                wait_for(lambda last=ids[-1]: about(clients, last, "settled"), "the settlements")
        finally:
            done.set()
        assert [one.result() for one in looking] == [{200}, {200}]


def test_a_page_may_read_the_settlements_while_the_log_is_followed(tmp_path: Path) -> None:
    where = str(tmp_path / "books.db")
    new_book(where)
    past = History(BOOK)
    with Ledger.open(where) as ledger:
        book = ledger.book(BOOK)
        for id_ in "ab":
            book.forecast(id_, mu=0.5)
            book.report(id_, 1)
            book.settle()
        past.follow(ledger.store)
        reading = iter(past.settlements)
        assert next(reading)["id"] == "b"
        book.forecast("c", mu=0.5)
        book.void("c", "fog")
        past.follow(ledger.store)
        assert [one["id"] for one in reading] == ["a"]
        assert [one["id"] for one in past.settlements] == ["c", "b", "a"]


# --- killed, stopped, and two of them -----------------------------------------------------------------------


class Load:
    """Clients that stake until they are told to stop, and ask again with the same key until they hear."""

    def __init__(self, urls: list[str], texts: dict[str, str], ids: list[str]) -> None:
        self._urls, self._texts, self._ids = urls, texts, ids
        self.stop = threading.Event()
        self.heard: dict[str, list[str]] = {}  # what each key was answered: the hash of its event

    def __call__(self, number: int) -> None:
        """Be one of them."""
        chance = random.Random(number)  # noqa: S311 - which id to stake on, not a secret
        headers = {"authorization": f"Bearer {self._texts['ann']}"}
        with httpx.Client(headers=headers, timeout=5.0) as client:
            count = 0
            while not self.stop.is_set():
                key, id_ = f"load {number} {count}", chance.choice(self._ids)
                for _ in range(1 + chance.randrange(2)):
                    self._ask(client, chance, key, {"id": id_, "stake": 1 + count})
                count += 1

    def _ask(self, client: httpx.Client, chance: random.Random, key: str, body: Any) -> None:
        for _ in range(600):
            with contextlib.suppress(httpx.TransportError):
                url = chance.choice(self._urls) + api("stakes")
                answer = client.post(url, json=body, headers={"idempotency-key": key})
                if answer.status_code == 200:
                    self.heard.setdefault(key, []).append(Receipt.from_json(answer.text).hash)
                    return
                assert answer.status_code == 503, answer.text
            self.stop.wait(0.05)
        raise AssertionError("the server never came back")


def stored_once(book: Book, load: Load) -> None:
    """Every stake that was acknowledged is in the log, once, and was answered alike each time."""
    stakes = Counter(event.hash.hex() for event in book.events() if event.kind == "staked")
    assert load.heard
    hashes = [set(heard) for heard in load.heard.values()]
    assert all(len(one) == 1 for one in hashes)
    acknowledged = Counter(hash_ for one in hashes for hash_ in one)
    assert max(acknowledged.values()) == max(stakes.values()) == 1
    assert set(acknowledged) <= set(stakes)
    # What nobody has heard of can only be the last request of each client.
    assert len(stakes) - len(acknowledged) <= MANY


def test_killed_under_load_and_restarted_it_has_every_stake_once(tmp_path: Path) -> None:
    where = str(tmp_path / "books.db")
    new_book(where)
    server = Served(tmp_path, where, "--rate", "0")
    try:
        server.keys({"ann": "customer", "the desk": "publisher"})
        with server.client("the desk") as desk:
            for id_ in "abc":
                desk.post(api("forecasts"), json={"id": id_, "mu": 0.3})
        load, texts = Load([server.url], server.texts, [*"abc"]), server.texts
        with ThreadPoolExecutor(MANY) as pool:
            clients = [pool.submit(load, number) for number in range(MANY)]
            try:
                for _ in range(3):
                    before = len(load.heard)
                    wait_for(lambda before=before: len(load.heard) > before + 100, "stakes")
                    server.end(signal.SIGKILL)
                    server = Served(tmp_path, where, "--rate", "0", port=server.port)
                    server.texts = texts
            finally:
                load.stop.set()
            for client in clients:
                client.result()
        assert server.end() == 0
        with Ledger.open(where) as ledger:
            stored_once(ledger.book(BOOK), load)
            ledger.verify()
    finally:
        server.end(signal.SIGKILL)


def test_two_servers_on_one_database_are_one_book(postgres: Server, tmp_path: Path) -> None:
    where, key = postgres.new_database(), tmp_path / "books.key"
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    with served(first, where, "--rate", "0", key=key) as one:
        other = Served(second, where, "--rate", "0", key=key)
        try:
            other.heard_of(one.texts["the auditor"])
            with one.client("the desk") as desk:
                for id_ in "abc":
                    assert desk.post(api("forecasts"), json={"id": id_, "mu": 0.3}).status_code == 200
            load = Load([one.url, other.url], one.texts, [*"abc"])
            with ThreadPoolExecutor(MANY) as pool:
                clients = [pool.submit(load, number) for number in range(MANY)]
                wait_for(lambda: len(load.heard) > 300, "stakes")
                load.stop.set()
                for client in clients:
                    client.result()
            with one.client("the airport") as oracle:
                assert oracle.post(api("outcomes"), json={"id": "a", "outcome": 1}).status_code == 200
            with httpx.Client(base_url=other.url) as seen, one.client() as also:
                wait_for(lambda: seen.get(api("statement")).json()["settled"] == 1, "the other to see it")
                assert seen.get(api("statement")).json() == also.get(api("statement")).json()
            assert other.end() == 0
            assert other.says() == ""
        finally:
            other.end(signal.SIGKILL)
        with Ledger.open(where, key=key) as ledger:
            stored_once(ledger.book(BOOK), load)
            ledger.verify()


def test_the_database_may_restart_under_the_server(postgres: Server, tmp_path: Path) -> None:
    where, key = postgres.new_database(), tmp_path / "books.key"
    with served(tmp_path, where, "--rate", "0", key=key) as made, made.client("the desk") as desk:
        first = desk.post(api("forecasts"), json={"id": "a", "mu": 0.3}, headers={"idempotency-key": "a"})
        assert first.status_code == 200
        postgres.stop()
        try:
            assert desk.get("/health").status_code == 200
            assert desk.get("/ready").status_code == 503
            assert desk.get(api("statement")).status_code == 503
            assert desk.post(api("forecasts"), json={"id": "b", "mu": 0.3}).status_code == 503
            checked = desk.post("/check", data={"receipt": first.text}, headers={"origin": made.url})
            assert "changed" not in checked.text
        finally:
            postgres.start()
        again: Any = {"json": {"id": "a", "mu": 0.3}, "headers": {"idempotency-key": "a"}}

        def ask() -> Any:
            answer = desk.post(api("forecasts"), **again)
            return answer if answer.status_code == 200 else None

        assert wait_for(ask, "the database").json()["hash"] == first.json()["hash"]


def test_open_streams_do_not_hold_up_the_end(tmp_path: Path) -> None:
    with served(tmp_path, str(tmp_path / "books.db")) as made, contextlib.ExitStack() as stack:
        streams = []
        for _ in range(30):
            client = stack.enter_context(made.client())
            lines = stack.enter_context(client.stream("GET", "/live")).iter_lines()
            assert next(lines) == "retry: 2000"
            streams.append(lines)
        with made.client() as client:
            wait_for(lambda: "makewhole_listeners 30" in client.get("/metrics").text, "the listeners")
        made.process.send_signal(signal.SIGTERM)
        assert made.process.wait(5) == 0
        for lines in streams:
            assert '"book":"delays"' in "".join(lines)


def test_listeners_that_go_away_are_forgotten(server: Served, clients: Clients, publish: Publish) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(20):
            client = stack.enter_context(server.client())
            next(stack.enter_context(client.stream("GET", "/live")).iter_lines())
    wait_for(lambda: "makewhole_listeners 0\n" in clients[None].get("/metrics").text, "nobody to listen")


def test_a_listener_hears_of_a_change(server: Served, clients: Clients, publish: Publish) -> None:
    with server.client() as client, client.stream("GET", "/live") as stream:
        lines = (json.loads(line[6:]) for line in stream.iter_lines() if line.startswith("data: "))
        first = next(one for one in lines if one["book"] == BOOK)
        publish()
        assert next(one for one in lines if one["book"] == BOOK)["head"] > first["head"]
