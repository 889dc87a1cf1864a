"""A database that hangs, and a log that went back, under a real server."""

import contextlib
import json
import re
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import apsw
import httpx
import pytest

from ledger.server import Server
from makewhole.ledger import Ledger
from serve.served import BOOK, ROLES, Served, api, new_book, wait_for
from serve.test_api import problem, stake

pytestmark = pytest.mark.slow

CUSTOMERS = [f"customer {number}" for number in range(6)]


@contextlib.contextmanager
def serving(folder: Path, where: str, key: Path | None = None) -> Iterator[Served]:
    """A server with an open forecast, a key for each role, and some customers."""
    new_book(where, key)
    made = Served(folder, where, "--rate", "0", key=key)
    try:
        made.keys({name: role for role, name in ROLES.items()} | dict.fromkeys(CUSTOMERS, "customer"))
        with made.client("the desk") as desk:
            assert desk.post(api("forecasts"), json={"id": "x", "mu": 0.5}).status_code == 200
        yield made
    finally:
        made.end(signal.SIGKILL)


def unavailable(made: Served, name: str) -> None:
    """Stake while the database hangs; no answer within five seconds would raise an error here."""
    with httpx.Client(base_url=made.url, timeout=5.0) as client:
        client.headers["authorization"] = f"Bearer {made.texts[name]}"
        refused = stake(client, "x", 7, key="order")
        assert "StoreUnavailable" in problem(refused, 503)["type"]
        assert int(refused.headers["retry-after"]) >= 1


def all_unavailable(made: Served, name: str) -> None:
    """Send many lines while the database hangs: each is answered, and they do not each wait."""
    asked = [{"do": "stake", "id": "x", "stake": 7, "key": f"line {k}"} for k in range(300)]
    with httpx.Client(base_url=made.url, timeout=5.0) as client:
        client.headers["authorization"] = f"Bearer {made.texts[name]}"
        told = client.post(api("requests"), content="\n".join(map(json.dumps, asked))).text.splitlines()
        assert [json.loads(line)["status"] for line in told] == [503] * 300


def staked(where: str, key: Path) -> list[str]:
    """Who has staked, from the log, which must verify."""
    with Ledger.open(where, key=key) as ledger:
        ledger.verify()
        return [event.data()["by"] for event in ledger.book(BOOK).events() if event.kind == "staked"]


@pytest.mark.parametrize("listens", [False, True])
def test_a_database_that_hangs_is_told_in_time_and_service_goes_on(
    listens: bool, postgres: Server, tmp_path: Path
) -> None:
    where, key = postgres.new_database(), tmp_path / "books.key"
    with serving(tmp_path, where, key) as made:
        with made.client(CUSTOMERS[0]) as client:
            first = stake(client, "x", 7, key="before").json()
        with postgres.stopped(listens=listens):
            with ThreadPoolExecutor(len(CUSTOMERS) + 1) as pool:
                told = [pool.submit(unavailable, made, name) for name in CUSTOMERS]
                told.append(pool.submit(all_unavailable, made, "ann"))
                # Nothing of this waits for the database. What it waits for otherwise raises an error.
                assert httpx.get(f"{made.url}/health", timeout=1.0).json() == {"healthy": True}
                if not listens:
                    not_ready = problem(httpx.get(f"{made.url}/ready", timeout=3.0), 503)
                    assert "database" in not_ready["detail"]
                for one in told:
                    one.result()
            page = httpx.get(f"{made.url}/books/{BOOK}", timeout=5.0)
            assert page.status_code in ((200, 503) if listens else (503,))
        wait_for(lambda: httpx.get(f"{made.url}/ready").status_code == 200, "the database")
        for name in CUSTOMERS:
            with made.client(name) as client:
                again = [stake(client, "x", 7, key="order").json()["hash"] for _ in range(2)]
                assert again[0] == again[1]
        with made.client(CUSTOMERS[0]) as client:
            assert stake(client, "x", 7, key="before").json()["hash"] == first["hash"]
        # Of the many lines, some had begun and may be stored, whole or not at all.
        assert sorted(name for name in staked(where, key) if name != "ann") == sorted(
            [*CUSTOMERS, CUSTOMERS[0]]
        )
        assert made.end() == 0


def test_a_server_ends_in_time_while_the_database_hangs(postgres: Server, tmp_path: Path) -> None:
    where, key = postgres.new_database(), tmp_path / "books.key"
    with serving(tmp_path, where, key) as made:
        with made.client(CUSTOMERS[0]) as client:
            assert stake(client, "x", 7).status_code == 200
        with postgres.stopped(), ThreadPoolExecutor(len(CUSTOMERS)) as pool:
            told = [pool.submit(unavailable, made, name) for name in CUSTOMERS]
            wait_for(lambda: "makewhole_queue 0\n" not in metrics(made), "the requests")
            wait_for(lambda: "makewhole_unavailable 1\n" in metrics(made), "the metric that tells it")
            made.end()  # whatever does not end within ten seconds fails there
            for one in told:
                with contextlib.suppress(httpx.TransportError):
                    one.result()
        assert "Traceback" not in made.says()
    assert CUSTOMERS[0] in staked(where, key)


def metrics(made: Served) -> str:
    """The metrics, which come at once even while the database hangs."""
    return httpx.get(f"{made.url}/metrics", timeout=1.0).text


def test_a_log_that_went_back_closes_the_book_and_is_told(tmp_path: Path) -> None:
    where = str(tmp_path / "books.db")
    with serving(tmp_path, where) as made, made.client(CUSTOMERS[0]) as client:
        receipts = [stake(client, "x", 7).json() for _ in range(5)]
        assert metric(client, "makewhole_book_forked") == 0
        restored = apsw.Connection(where)
        restored.execute("DELETE FROM events WHERE seq > ?", (receipts[1]["seq"],))
        restored.close()
        assert "LogForked" in problem(stake(client, "x", 7), 409)["type"]
        not_ready = wait_for(lambda: (a := client.get("/ready")).status_code == 503 and a, "a 503")
        assert repr(BOOK) in problem(not_ready, 503)["detail"]
        assert metric(client, "makewhole_book_forked") == 1
        assert client.get(api("statement")).status_code == 200  # it can still be read
        assert len([line for line in made.says().splitlines() if repr(BOOK) in line]) == 1  # said once
        assert made.end() == 0
    with Ledger.open(where) as ledger:
        assert ledger.verify().events == receipts[1]["seq"]


def metric(client: httpx.Client, name: str) -> int:
    """The value of a metric of the book."""
    read: Any = re.search(rf'^{name}{{book="{BOOK}"}} (\d+)$', client.get("/metrics").text, re.MULTILINE)
    return int(read[1])
