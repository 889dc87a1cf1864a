"""Requests that are stored together: the same log as one by one, in the format that is documented."""

import hashlib
import json
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import makewhole as mw
from ledger.places import Clock, Place, new_book
from makewhole.insured.refusals import Refusal
from makewhole.ledger import Book, Receipt
from makewhole.ledger.book import read_request
from makewhole.ledger.events import plain_text
from makewhole.ledger.writing import Request, Waiting

ids = st.sampled_from(['a "quoted" id', "vol 2 é 雨", "UA-1", "UA-1", 7])
names = st.sampled_from(["ann", "bob \U0001f600", ["club", "cid"], None])
keys = st.sampled_from([None, None, None, "key 1", "key 2", "clé"])
outcomes = st.sampled_from([0, 1, 1.0, True, None, 2])


def request(do: str, **parts: Any) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({"do": st.just(do), "key": keys, **parts})


requests = st.one_of(
    request("forecast", id=ids, mu=st.floats(0, 1), c_hat=st.none() | st.floats(0, 0.5)),
    request("forecast", id=ids, mu=st.sampled_from([0, 1, 0.3]), closes=st.none() | st.just(2**60)),
    request("stake", id=ids, by=names, stake=st.integers(-60, 60), price=st.none() | st.integers(0, 30)),
    request("report", id=ids, outcome=outcomes, by=st.sampled_from([None, "eve"])),
    request("settle", id=st.none() | ids, outcome=st.none() | outcomes, by=st.sampled_from([None, "eve"])),
    st.just({"do": "settle", "key": "all"}),
    request("void", id=ids, reason=st.just("fog \n \\ ß")),
    request("deposit", amount=st.integers(0, 300)),
    request("withdraw", amount=st.integers(1, 6_000)),
    request("compensate", id=ids, by=st.just("ann"), amount=st.integers(1, 9), reason=st.just("late")),
)


def answers(book: Book, group: list[dict[str, Any]]) -> list[list[Receipt] | str]:
    """What came of each request: receipts, or what was refused and why."""
    found: list[list[Receipt] | str] = []
    for one in book.do_many(group):
        try:
            found.append(one.answer())
        except (Refusal, ValueError, TypeError) as error:
            found.append(repr(error))
    return found


def stored(place: Place) -> list[tuple[Any, ...]]:
    """The log as it stands in the database."""
    return place.run("SELECT seq, at, kind, about, body, hash FROM events ORDER BY seq")


def read_independently(rows: list[tuple[Any, ...]]) -> None:
    """The documented format, written down a second time."""
    before = bytes(32)
    for number, (seq, at, kind, about, body, found) in enumerate(rows, 1):
        assert seq == number
        read = json.loads(body)
        assert body == json.dumps(read, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        assert about == read.get("id")
        of = b"-" if about is None else b"%d %s" % (len(about), about.encode())
        said = b"%d %d %s 4 book %s %s" % (seq, at, kind.encode(), of, body.encode())
        before = hashlib.sha256(before + said).digest()
        assert found == before


texts, units = st.text(min_size=1, max_size=9), st.integers(-(2**50), 2**50)
numbers = st.floats(allow_nan=False, allow_infinity=False)
bodies = st.one_of(
    st.tuples(
        st.just("forecast"),
        st.fixed_dictionaries(
            {
                "id": texts,
                "mu": numbers,
                "version": units,
                "published": st.lists(numbers, min_size=2, max_size=2),
            },
            optional={"c_hat": numbers, "closes": units, "groups": st.lists(texts)},
        ),
    ),
    st.tuples(
        st.just("staked"),
        st.fixed_dictionaries(
            {"id": texts, "by": texts | st.lists(texts), "stake": units, "on": units}
            | {"mu": numbers, "c": numbers, "price": units},
            optional={"most": units},
        ),
    ),
    st.tuples(
        st.just("settled"),
        st.fixed_dictionaries(
            {"id": texts, "outcome": units, "stakes": units, "premiums": units, "payouts": units},
            optional={"by": texts},
        ),
    ),
    st.tuples(st.sampled_from(["voided", "deposited"]), st.dictionaries(texts, units | texts)),
)


@given(bodies)
def test_a_body_is_written_as_json_with_its_keys_in_order(event: tuple[str, dict[str, Any]]) -> None:
    assert plain_text(event[1]) == json.dumps(
        event[1], sort_keys=True, ensure_ascii=False, separators=(",", ":")
    )


def check_receipts(receipts: list[Receipt], rows: list[tuple[Any, ...]], head: tuple[Any, ...]) -> None:
    """Each has the event that is stored, the hash before it, and the head of its own group."""
    hashes = [bytes(32), *(row[5] for row in rows)]
    for receipt in receipts:
        assert tuple(receipt.event)[1:] == rows[receipt.seq - 1]
        assert receipt.previous == hashes[receipt.seq - 1]
        assert receipt.head == head
        receipt.check()


@pytest.mark.slow
@settings(max_examples=80)
@given(
    groups=st.lists(st.lists(requests, min_size=4, max_size=16), min_size=1, max_size=4),
    hold=st.sampled_from([0, 5]),
)
def test_a_group_is_stored_and_answered_as_its_requests_would_be_one_by_one(
    groups: list[list[dict[str, Any]]], hold: int
) -> None:
    done: dict[str, Any] = {}  # by key: the request, and its answer
    with TemporaryDirectory() as folder:
        key, clock = Path(folder) / "key", Clock()
        together, apart = (Place(str(Path(folder) / name), key) for name in ("together.db", "apart.db"))
        with together.open(clock=clock) as one, apart.open(clock=clock) as other:
            books = [new_book(ledger, hold=hold) for ledger in (one, other)]
            for group in groups:
                clock.pass_by(3)
                found = answers(books[0], group)
                plain = [_plain(answer) for answer in found]
                assert plain == [_plain(answers(books[1], [request])[0]) for request in group]
                for request, answer in zip(group, plain, strict=True):
                    if request["key"] is not None and not isinstance(answer, str):
                        assert done.setdefault(request["key"], (request, answer)) == (request, answer)
                rows = stored(together)
                receipts = [receipt for answer in found if not isinstance(answer, str) for receipt in answer]
                check_receipts(receipts, rows, (len(rows), rows[-1][5]))
            assert books[0].statement() == books[1].statement()
            one.verify()
        assert stored(together) == stored(apart)
        read_independently(stored(together))
        kept = "SELECT key, digest, first, seq FROM keys ORDER BY key"
        assert together.run(kept) == apart.run(kept)


def _plain(answer: list[Receipt] | str) -> Any:
    return answer if isinstance(answer, str) else [receipt.event for receipt in answer]


def test_receipts_of_a_group_are_chained(where: Place, clock: Clock) -> None:
    with where.open(clock=clock) as ledger:
        book = new_book(ledger)
        asked = [{"do": "forecast", "id": f"id {n}", "mu": 0.3} for n in range(5)]
        receipts = [receipt for one in book.do_many(asked) for receipt in one.answer()]
    for first, second in pairwise(receipts):
        assert second.previous == first.event.hash
    assert {receipt.head for receipt in receipts} == {(6, receipts[-1].event.hash)}


@pytest.mark.parametrize(
    "correction",
    [
        None,
        mw.DeterministicSwap(50),
        mw.SwapRegret(10, seed=3),
        mw.Grouped(mw.Reserve(0.01)),
        mw.Reserve(0.01, over=mw.DeterministicSwap(10)),
    ],
    ids=lambda one: type(one).__name__,
)
def test_a_book_says_how_it_began_also_if_it_is_used_before_that_is_stored(
    file: Place, clock: Clock, correction: Any
) -> None:
    with file.open(clock=clock) as ledger:
        new_book(ledger, correction=correction)
        began = next(ledger.store.events("book"))
        asked: list[dict[str, Any]] = []
        for n in range(20):
            asked.append({"do": "forecast", "id": f"id {n}", "mu": 0.4, "groups": ["g"] if n % 2 else None})
            asked.append({"do": "stake", "id": f"id {n}", "by": f"c{n % 3}", "stake": -30 if n % 2 else 50})
            asked.append({"do": "settle", "id": f"id {n}", "outcome": int(n % 3 == 0)})
        waiting = [Waiting(Request("created", began.data())), *(Waiting(read_request(one)) for one in asked)]
        ledger._writer("other").ask(waiting)
        assert next(ledger.store.events("other")).body == began.body
        assert sum(one.error is None for one in waiting) > 20
        ledger.verify()
