"""A server over a fresh ledger, in SQLite or in PostgreSQL, and clients for it."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from ledger.server import Server
from serve.served import ROLES, Served, api, served


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server on an SQLite ledger, without a limit of requests, for all tests that use ids of their own."""
    folder = tmp_path_factory.mktemp("served")
    with served(folder, str(folder / "books.db"), "--rate", "0") as made:
        yield made


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """A real PostgreSQL; `new_database()` is the address of an empty ledger."""
    made = Server()
    yield made
    made.remove()


@pytest.fixture(scope="session")
def clients(server: Served) -> Iterator[dict[str | None, httpx.Client]]:
    """A client for each role, and under None one without a key."""
    made: dict[str | None, httpx.Client] = {role: server.client(name) for role, name in ROLES.items()}
    made[None] = server.client()
    yield made
    for client in made.values():
        client.close()


@pytest.fixture(scope="session")
def numbers() -> Iterator[int]:
    """Numbers for ids that nobody else uses."""
    return itertools.count()


@pytest.fixture(scope="session")
def publish(clients: dict[str | None, httpx.Client], numbers: Iterator[int]) -> Callable[..., str]:
    """Publish a forecast, by default for an id of its own; returns the id."""

    def make(id_: str | None = None, mu: float = 0.2, **more: Any) -> str:
        named = f"flight {next(numbers)}" if id_ is None else id_
        answer = clients["publisher"].post(api("forecasts"), json={"id": named, "mu": mu, **more})
        assert answer.status_code == 200, answer.text
        return named

    return make
