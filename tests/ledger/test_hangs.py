"""A database that hangs: every call ends, the same key tells what was done, and service goes on."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial

import psycopg
import pytest

from ledger.places import Place, eventually, new_book, whole
from ledger.server import Server
from makewhole.ledger import Book, Ledger, StoreUnavailable

pytestmark = pytest.mark.slow


@pytest.fixture
def place(database: Place) -> Place:
    """A database with short limits, which save time: the defaults are 3 s."""
    limits = "options=-c%20statement_timeout%3D600%20-c%20lock_timeout%3D300"
    return database._replace(address=f"{database.address}&{limits}")


def stake(book: Book, key: str) -> int:
    return book.stake("x", by="ann", stake=1, key=key).seq


def is_refused(book: Book, key: str) -> bool:
    """Whether a stake is refused while the database hangs; `make test-faults` measures how soon."""
    try:
        stake(book, key)
    except StoreUnavailable:
        return True
    return False


@pytest.mark.parametrize("listens", [False, True])
def test_a_database_that_hangs_is_given_up_and_used_again(
    server: Server, place: Place, listens: bool
) -> None:
    """All of it is stopped, or only what serves the ledger's connection: then a new one is tried."""
    with place.open() as ledger:
        book = new_book(ledger, capital=10**6, max_stake=10**5)
        book.forecast("x", mu=0.5)
        stake(book, "before")
        # Leaving `stopped` first: if a call never ends, the test fails, and does not hang itself.
        with ThreadPoolExecutor(4) as pool, server.stopped(listens=listens):
            asked = pool.map(lambda n: is_refused(book, f"during {n}"), range(4), timeout=60)
            assert any(asked) if listens else all(asked)
        eventually(lambda: stake(book, "during 0"))
        again = [eventually(partial(stake, book, f"during {n}")) for n in range(4)]
        assert sorted(again) == [4, 5, 6, 7]
        assert [stake(book, f"during {n}") for n in range(4)] == again
        assert stake(book, "after") == 8
    whole(place)


def test_a_write_that_was_stored_without_an_answer_is_told_by_its_key(
    server: Server, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database stops while it commits: the caller is refused, but the stake is stored."""
    with place.open() as ledger:
        book = new_book(ledger, capital=10**6, max_stake=10**5)
        book.forecast("x", mu=0.5)
        append = ledger.store.append

        def delayed(*given: object) -> None:
            append(*given)  # type: ignore[arg-type]  # as it was called
            stopper.enter_context(server.stopped(listens=True))  # it has the COMMIT when it goes on

        with ThreadPoolExecutor(1) as pool, ExitStack() as stopper, monkeypatch.context() as patch:
            patch.setattr(ledger.store, "append", delayed)
            assert pool.submit(is_refused, book, "unknown").result(60)
        assert eventually(lambda: stake(book, "unknown")) == 3
        assert place.run("SELECT count(*) FROM events WHERE kind = 'staked'") == [(1,)]
        assert stake(book, "another") == 4
    whole(place)


def test_a_host_that_stops_inside_a_transaction_keeps_the_book_only_for_a_while(
    database: Place,
) -> None:
    """Its transaction ends after the idle limit, which the address sets here; until then, others wait."""
    limits = "options=-c%20idle_in_transaction_session_timeout%3D1500%20-c%20lock_timeout%3D500"
    short = database._replace(address=f"{database.address}&{limits}")
    with short.open() as ledger, short.open() as hung:
        book = new_book(ledger, capital=10**6, max_stake=10**5)
        book.forecast("x", mu=0.5)
        with ExitStack() as later:
            later.enter_context(pytest.raises(StoreUnavailable, match="idle-in-transaction"))
            later.enter_context(hung.store.writing("book"))
            with pytest.raises(StoreUnavailable, match="lock timeout"):
                stake(book, "a")
            assert eventually(lambda: stake(book, "a")) == 3


def test_the_limits_of_the_address_count(database: Place) -> None:
    given = "connect_timeout=7&tcp_user_timeout=1234&options=-c%20statement_timeout%3D250"
    with database._replace(address=f"{database.address}&{given}").open(wait=2) as ledger:
        connection = ledger.store._connection  # type: ignore[attr-defined]  # of PostgreSQL
        used = psycopg.conninfo.conninfo_to_dict(connection.info.dsn)
        assert (used["connect_timeout"], used["tcp_user_timeout"]) == ("7", "1234")
        settings = dict(ledger.store._rows("SELECT name, setting FROM pg_settings WHERE name ~ 'timeout$'"))
        assert (settings["statement_timeout"], settings["lock_timeout"]) == ("250", "2000")
        assert settings["idle_in_transaction_session_timeout"] == "10000"
        with pytest.raises(StoreUnavailable, match="statement timeout"):
            ledger.store._rows("SELECT pg_sleep(1)")
        assert ledger.books() == []


def test_the_limits_of_the_environment_count(database: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGOPTIONS", "-c statement_timeout=250")
    with database.open() as ledger, pytest.raises(StoreUnavailable, match="statement timeout"):
        ledger.store._rows("SELECT pg_sleep(1)")


def test_an_address_that_is_not_valid_is_refused() -> None:
    with pytest.raises(ValueError, match="where must be a valid address of PostgreSQL"):
        Ledger.open("postgresql://host/books?no_such_option=3")
