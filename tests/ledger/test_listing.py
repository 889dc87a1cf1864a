"""The open ids in sorted order, page by page: against a sort of them all."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from makewhole.ledger import Book, Ledger, SubjectFinal, UnknownSubject
from makewhole.ledger.listing import Listing

IDS = ["UA-1", "ua-2", "Ua-3", "b", "B", "", "é", "É2", "zz"]


def opened(folder: Path, name: str = "books.db") -> Book:
    ledger = Ledger.open(folder / name)
    return ledger.create("delays", capital=10**6, max_stake=10**5, unit="cent")


def pages(book: Book, order: str, size: int, begins: str = "") -> list[str]:
    """All ids of a listing, read page by page."""
    found: list[str] = []
    after: Any = None
    while True:
        page, after = book.listed(order, after, size, begins)
        assert len(page) <= size
        found += [one.id for one in page]
        if after is None:
            return found


def whole(book: Book, order: str, begins: str = "") -> list[str]:
    """The same from the state, all at once."""
    state = book._writer.state()
    keys: dict[str, Any] = {
        "age": lambda id_: state.subjects[id_].first,
        "closes": lambda id_: (state.subjects[id_].closes or 2**63, id_),
        "chance": lambda id_: (-state.f.quote(state.subjects[id_].versions[-1]).mu, id_),
        "name": lambda id_: (id_.casefold(), id_),
    }
    ids = [id_ for id_ in state.subjects if id_.casefold().startswith(begins.casefold())]
    return sorted(ids, key=keys[order])


STEPS = st.tuples(
    st.sampled_from(["forecast", "close", "settle", "void", "refused", "read"]),
    st.sampled_from([id_ for id_ in IDS if id_]),
    st.integers(0, 10),
)


@settings(max_examples=25)
@given(steps=st.lists(STEPS, max_size=40), size=st.integers(1, 5))
def test_pages_are_the_sorted_ids_whatever_happens_between(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str, int]], size: int
) -> None:
    book = opened(tmp_path_factory.mktemp("listing"))
    for what, id_, number in steps:
        requests: dict[str, list[dict[str, Any]]] = {
            "forecast": [{"do": "forecast", "id": id_, "mu": number / 10}],
            "close": [{"do": "forecast", "id": id_, "mu": 0.5, "closes": 2**60 + number}],
            "settle": [{"do": "settle", "id": id_, "outcome": 1}],
            "void": [{"do": "void", "id": id_, "reason": "fog"}],
            # The first is undone with the second: a group is stored all or nothing.
            "refused": [{"do": "forecast", "id": id_, "mu": 2.0}],
            "read": [],
        }
        book.do_many(requests[what])
        if what == "read":
            for order in ("age", "closes", "chance", "name"):
                assert pages(book, order, size) == whole(book, order)
            for begins in ("u", "UA", "b", "É", "none"):
                assert pages(book, "name", size, begins) == whole(book, "name", begins)
    for order in ("age", "closes", "chance", "name"):
        assert pages(book, order, size) == whole(book, order)


def test_a_listing_that_nobody_reads_stays_small(tmp_path: Path) -> None:
    book = opened(tmp_path)
    book.forecast("first", mu=0.5)
    assert pages(book, "name", 5) == ["first"]
    listing: Listing = book._writer.state().listing
    for turn in range(4):
        asked = [{"do": "forecast", "id": f"{turn} {k}", "mu": 0.5} for k in range(400)]
        book.do_many([*asked, *({"do": "void", "id": one["id"], "reason": "fog"} for one in asked)])
    assert len(listing._touched) <= 1_001
    assert pages(book, "name", 5) == ["first"]


def test_pages_by_age_continue_after_an_event(tmp_path: Path) -> None:
    book = opened(tmp_path)
    for id_ in "abcd":
        book.forecast(id_, mu=0.5)
    first = book.open_forecasts(limit=2)
    assert [one.id for one in first] == ["a", "b"]
    book.void("b", "fog")  # the cursor is a number: the id that had it may be gone
    assert [one.id for one in book.open_forecasts(since=first[-1].first, limit=2)] == ["c", "d"]
    assert [one.id for one in book.open_forecasts()] == ["a", "c", "d"]
    assert book.open_forecasts(since=100) == []


def test_an_order_that_is_none_is_refused(tmp_path: Path) -> None:
    book = opened(tmp_path)
    for order, begins in (("size", ""), ("closes", "U")):
        with pytest.raises(ValueError, match="order must be one of age, closes, chance, name"):
            book.listed(order, begins=begins)


def test_the_most_used_come_first(tmp_path: Path) -> None:
    book = opened(tmp_path)
    for k, id_ in enumerate("abc"):
        book.forecast(id_, mu=0.5)
        book.stake(id_, by="ann", stake=100 * ((k + 1) % 3) + 1)
    assert [one.id for one in book.most_used(2)] == ["b", "a"]


def test_the_latest_events_about_an_id_come_page_by_page(tmp_path: Path) -> None:
    book = opened(tmp_path)
    book.forecast("a", mu=0.5)
    book.forecast("b", mu=0.5)
    for _ in range(5):
        book.stake("a", by="ann", stake=1)
    events = book.about("a")
    latest = book.latest_about("a", 4)
    assert latest == events[:-5:-1]
    assert book.latest_about("a", 4, latest[-1].seq) == events[:2][::-1]


@pytest.mark.parametrize("stakes", [3, pytest.param(20_000, marks=pytest.mark.slow)])
def test_whether_an_id_has_ended_takes_one_step_however_many_stakes_it_has(
    tmp_path: Path, stakes: int
) -> None:
    book = opened(tmp_path)
    book.forecast("a", mu=0.5)
    book.do_many([{"do": "stake", "id": "a", "by": "ann", "stake": 1}] * stakes)
    book.settle("a", 1)
    store: Any = book._writer._store
    steps = 0

    def count() -> bool:
        nonlocal steps
        steps += 1
        return False

    store._connection.set_progress_handler(count, 1)  # called for every instruction of SQLite's machine
    assert store.end("delays", "a").kind == "settled"
    assert store.ends_among("delays", ["a", "b"], 10**6) == {"a": "settled"}
    assert len(store.latest_about("delays", "a", 3, None)) == 3
    store._connection.set_progress_handler(None)
    assert steps < 300
    with pytest.raises(SubjectFinal):
        book.stake("a", by="ann", stake=1)
    with pytest.raises(UnknownSubject):
        book.open_forecast("b")
