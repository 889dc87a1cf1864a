"""One suite for both databases: `where` is a file for SQLite, and then a database of a real PostgreSQL."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ledger.places import Clock, Place
from ledger.server import Server


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """One server for the session."""
    made = Server()
    yield made
    made.remove()


@pytest.fixture
def file(tmp_path: Path) -> Place:
    """A place in SQLite."""
    return Place(str(tmp_path / "books.db"), tmp_path / "books.db.key")


@pytest.fixture
def database(server: Server, tmp_path: Path) -> Place:
    """A place in PostgreSQL."""
    return Place(server.new_database(), tmp_path / "books.key")


@pytest.fixture(params=["file", pytest.param("database", marks=pytest.mark.slow)])
def where(request: pytest.FixtureRequest) -> Place:
    """A place in SQLite, then one in PostgreSQL."""
    place: Place = request.getfixturevalue(request.param)
    return place


@pytest.fixture
def clock() -> Clock:
    """A clock that goes as it is told."""
    return Clock()
