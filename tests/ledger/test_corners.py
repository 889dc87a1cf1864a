"""Corners in which a book once did something that nobody would expect."""

import json
import threading
from collections.abc import Iterator
from enum import Enum
from typing import Any

import numpy as np
import pytest

import makewhole as mw
from ledger.places import Clock, Place, new_book
from ledger.test_history import finds, log, rewrite, with_body
from makewhole.insured.refusals import StakeRefused
from makewhole.ledger import (
    BookExists,
    CapitalRefused,
    Ledger,
    LogDamaged,
    NotALedger,
    ReportsDisagree,
    SubjectFinal,
)
from makewhole.ledger.tables import import_log


class Flight(str, Enum):  # noqa: UP042 - a StrEnum prints itself as it is
    ONE = "UA-1"


@pytest.fixture
def ledger(where: Place, clock: Clock) -> Iterator[Ledger]:
    with where.open(clock=clock) as made:
        yield made


def test_a_text_of_another_type_is_stored_as_it_is_hashed(where: Place, ledger: Ledger) -> None:
    book = new_book(ledger)
    for receipt in (
        book.forecast(Flight.ONE, mu=0.2),
        book.stake(Flight.ONE, by=Flight.ONE, stake=10),
        book.report(Flight.ONE, 1),
        *book.settle(Flight.ONE),
    ):
        receipt.check()
        assert receipt.event.about == "UA-1"
        assert type(receipt.event.about) is str
    assert type(ledger.create(Flight.ONE, capital=100, max_stake=10, unit=Flight.ONE).name) is str
    with where.open() as again:
        assert again.verify().events == 6
        assert again.book(Flight.ONE).statement().unit == "UA-1"


def test_a_book_begins_once(where: Place, ledger: Ledger) -> None:
    book = new_book(ledger)
    book.forecast("UA-1", mu=0.2)
    receipt = book.stake("UA-1", by="ann", stake=100)
    with pytest.raises(BookExists):
        new_book(ledger)
    rows = log(where)
    rewrite(where, [*rows, rows[0]], consistent=True)
    found = finds(where, receipt)
    assert found is not None
    assert found.seq == 4


@pytest.mark.parametrize(
    "change", [{"unit": 5}, {"key": 5}, {"hold": -1}, {"hold": 10**400}, {"hold": 0.5}], ids=str
)
def test_a_beginning_that_cannot_be_is_found(where: Place, ledger: Ledger, change: dict[str, Any]) -> None:
    new_book(ledger)
    rewrite(where, [with_body(log(where)[0], **change)], consistent=True)
    found = finds(where)
    assert found is not None
    assert found.seq == 1


def test_a_forecaster_that_has_a_past_begins_no_book(where: Place, ledger: Ledger) -> None:
    new_book(ledger)
    f = mw.InsuredForecaster(capital=10_000, max_stake=100)
    f.settle(f.forecast(mu=0.5), 1, stake=50.0)
    rewrite(where, [with_body(log(where)[0], forecaster=f.to_state())], consistent=True)
    assert "must be new" in str(finds(where))


def test_later_rules_are_no_damage(where: Place, ledger: Ledger) -> None:
    new_book(ledger)
    rewrite(where, [with_body(log(where)[0], rules=99)], consistent=True)
    with where.open() as again, pytest.raises(NotALedger, match="rules 99; this makewhole has 3"):
        again.verify()


def test_a_field_that_stands_twice_is_found(where: Place, ledger: Ledger) -> None:
    book = new_book(ledger)
    book.forecast("UA-1", mu=0.2)
    book.stake("UA-1", by="ann", stake=100)
    rows = log(where)
    rows[2][4] = rows[2][4].replace("{", '{"price":1,', 1)
    assert json.loads(rows[2][4]) == json.loads(log(where)[2][4])
    rewrite(where, rows, consistent=True)
    found = finds(where)
    assert found is not None
    assert found.seq == 3


def test_a_beginning_that_is_no_json_is_named(where: Place, ledger: Ledger) -> None:
    receipt = new_book(ledger).forecast("UA-1", mu=0.2)
    rows = log(where)
    rewrite(where, [[*rows[0][:4], "x", rows[0][5]], rows[1]], consistent=False)
    found = finds(where, receipt)
    assert found is not None
    assert found.seq == 1


def test_damaged_text_and_names_are_said_to_be(file: Place) -> None:
    with file.open() as ledger:
        new_book(ledger)
    file.run("INSERT INTO keys VALUES (x'00ff', 'k', x'00', 1, 1)")
    with file.open() as ledger, pytest.raises(LogDamaged, match="name of a book is not text"):
        ledger.verify()
    file.run("DELETE FROM keys")
    file.run("UPDATE events SET body = CAST(x'7bff7d' AS TEXT)")
    with file.open() as ledger, pytest.raises(NotALedger, match="not UTF-8"):
        ledger.verify()


def test_what_is_final_cannot_be_called_off(ledger: Ledger, clock: Clock) -> None:
    book = new_book(ledger, hold=60)
    for id_ in ("UA-1", "UA-2"):
        book.forecast(id_, mu=0.2)
        book.stake(id_, by="ann", stake=100)
        book.report(id_, 1)
    book.void("UA-1", "the report may be wrong")  # it is not final yet
    clock.pass_by(60)
    with pytest.raises(SubjectFinal, match="its hold is over"):
        book.void("UA-2", "too late")
    book.settle()
    assert [payment.amount for payment in book.payments("UA-2")] == [100]


def test_two_who_agree_must_both_be_heard(ledger: Ledger) -> None:
    book = new_book(ledger, hold=60)
    book.forecast("UA-1", mu=0.2)
    book.report("UA-1", 1, by="ann")
    book.report("UA-1", 1, by="bob")
    for who in ("ann", "bob"):
        with pytest.raises(ReportsDisagree, match="ann and another reported 1"):
            book.report("UA-1", 0, by=who)
    book.void("UA-1", "they disagree")


def test_an_outcome_is_for_an_id(ledger: Ledger) -> None:
    book = new_book(ledger)
    book.forecast("UA-1", mu=0.2)
    book.report("UA-1", 1)
    with pytest.raises(ValueError, match="id must be given with outcome"):
        book.settle(outcome=0)
    assert [receipt["outcome"] for receipt in book.settle()] == [1]


@pytest.mark.parametrize(
    "closes",
    [10**5000, -(10**5000), 2**63, np.datetime64("2099-05-01T12:00", "ns"), np.timedelta64(5, "ns")],
    ids=["huge", "minus huge", "2**63", "datetime64", "timedelta64"],
)
def test_a_time_that_cannot_be_is_refused_alone(ledger: Ledger, closes: Any) -> None:
    book = new_book(ledger)
    bad = {"do": "forecast", "id": "UA-1", "mu": 0.2, "closes": closes}
    refused, done = book.do_many([bad, {"do": "forecast", "id": "UA-2", "mu": 0.2}])
    with pytest.raises(ValueError, match="closes must be"):
        refused.answer()
    assert done.answer()


@pytest.mark.parametrize("by", ["\U0001f600" * 251, ["\U0001f600" * 200] * 5, ["\x01" * 400]], ids=len)
def test_no_text_is_too_long_for_a_database(ledger: Ledger, by: Any) -> None:
    book = new_book(ledger)
    book.forecast("UA-1", mu=0.2)
    stake = {"do": "stake", "id": "UA-1", "stake": 1}
    refused, done = book.do_many([stake | {"by": by}, stake | {"by": "ann"}])
    with pytest.raises(ValueError, match="by must have at most"):
        refused.answer()
    assert done.answer()


def test_the_longest_texts_fit_every_database(ledger: Ledger) -> None:
    """What compresses badly, as long as it may be: a name, an id, a key, and levels."""
    draw = np.random.default_rng(0)
    long = ["".join(map(chr, draw.integers(0x10000, 0x2FFFF, 250))) for _ in range(3)]
    book = ledger.create(long[0], capital=100, max_stake=10, unit="cent")
    book.forecast(long[1], mu=0.5, key=long[2])
    levels = ["".join(map(chr, draw.integers(0x10000, 0x2FFFF, 73))) for _ in range(5)]
    book.stake(long[1], by=levels, stake=1)
    assert ledger.verify().events == 3


def test_a_refusal_of_a_new_book_says_why(ledger: Ledger) -> None:
    class Own(mw.NoCorrection):
        """One that a log cannot name."""

    with pytest.raises((TypeError, ValueError)) as raised:
        new_book(ledger, correction=Own())
    assert "Own" in str(raised.value)
    assert ledger.books() == []


def test_the_limit_of_a_withdrawal_is_taken(ledger: Ledger) -> None:
    book = new_book(ledger, capital=100, correction=mw.Reserve(0.05), thaw=None)
    with pytest.raises(CapitalRefused) as refused:
        book.withdraw(1_000)
    assert refused.value.limit == 99
    with pytest.raises(CapitalRefused):
        book.withdraw(100)
    book.withdraw(99)


def test_a_quote_is_for_what_would_be_taken(ledger: Ledger) -> None:
    book = new_book(ledger, one_sided=True)
    book.forecast("UA-1", mu=0.2)
    for stake, limit in ((101, 100), (-5, 0)):
        with pytest.raises(StakeRefused) as refused:
            book.quote("UA-1", by="ann", stake=stake)
        assert refused.value.limit == limit
    with pytest.raises(StakeRefused, match="one-sided"):
        book.quote("UA-1", by="ann", losses={"go": (10, 0)})
    with pytest.raises(ValueError, match="losses"):
        book.quote("UA-1", by="ann", losses={"go": (True, 5)})


def test_a_log_is_read_before_it_is_played(ledger: Ledger) -> None:
    columns: dict[str, list[Any]] = {"mu": [0.5] * 1_500, "outcome": [1] * 1_500, "stake": [1] * 1_500}
    columns["mu"][-1] = 1.5
    book = new_book(ledger)
    with pytest.raises(ValueError, match="mu at row 1500 must"):
        import_log(book, columns)
    assert book.head()[0] == 1
    held = ledger.create("held", capital=100, max_stake=10, unit="cent", hold=60)
    with pytest.raises(ValueError, match="without a hold only"):
        import_log(held, {"mu": [0.5], "outcome": [1], "stake": [1]})
    assert held.head()[0] == 1


def test_a_copy_is_of_one_moment_while_others_write(file: Place) -> None:
    """Whoever copies neither waits for those who write nor keeps them waiting."""
    with file.open() as ledger, file.open() as other:
        book, enough = new_book(ledger), threading.Event()
        book.do_many([{"do": "forecast", "id": f"UA-{k}", "mu": 0.5} for k in range(1_000)])

        def write() -> None:
            theirs = other.book("book")
            for k in range(1_000, 10_000):
                if enough.is_set():
                    return
                theirs.forecast(f"UA-{k}", mu=0.5)

        thread = threading.Thread(target=write)
        thread.start()
        copy = Place(f"{file.address}.copy", file.key)
        try:
            ledger.backup(copy.address)
        finally:
            enough.set()
            thread.join()
        ends = book.head()[0]
    with copy.open() as ledger:
        assert 1_001 <= ledger.verify().events <= ends
