"""What a ledger is asked for wrongly: an error that names what is wrong and the limit, and no change."""

import functools
import math
import re
import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import makewhole as mw
from ledger.places import SECOND, Clock, Place, new_book
from makewhole.insured.refusals import Refusal
from makewhole.ledger import (
    Book,
    BookExists,
    KeyConflict,
    Ledger,
    LedgerUnavailable,
    ReportsDisagree,
    StakingClosed,
    SubjectFinal,
    SubjectOpen,
    UnknownBook,
    UnknownSubject,
)

TEXTS = {
    "empty": ("", "1 to 500"),
    "too long": ("x" * 501, "500"),
    "zero character": ("a\0b", "zero character"),
    "half a pair": ("a\ud800b", "valid text"),
    "number": (5, "text"),
    "bytes": (b"a", "text"),
    "list": ([["a"]], "text"),
}
# Where a request has a text: how it is called.
PLACES: dict[str, Callable[[Any, Any], Any]] = {
    "id": lambda book, text: book.forecast(text, mu=0.5),
    "id ": lambda book, text: book.stake(text, by="ann", stake=5),
    "id  ": lambda book, text: book.report(text, 1),
    "id   ": lambda book, text: book.settle(text),
    "id    ": lambda book, text: book.void(text, "fog"),
    "id     ": lambda book, text: book.quote(text, by="ann", stake=5),
    "id      ": lambda book, text: book.payments(text),
    "id       ": lambda book, text: book.compensate(text, by="ann", amount=5, reason="late"),
    "by": lambda book, text: book.stake("open", by=text, stake=5),
    "by ": lambda book, text: book.stake("open", by=("club", text), stake=5),
    "by  ": lambda book, text: book.report("open", 1, by=text),
    "by   ": lambda book, text: book.quote("open", by=text, stake=5),
    "by    ": lambda book, text: book.compensate("over", by=text, amount=5, reason="late"),
    "reason": lambda book, text: book.void("open", text),
    "reason ": lambda book, text: book.compensate("over", by="ann", amount=5, reason=text),
    "key": lambda book, text: book.stake("open", by="ann", stake=5, key=text),
    "key ": lambda book, text: book.settle(key=text),
    "groups": lambda book, text: book.forecast("open", mu=0.5, groups=[text]),
}
NAN, HUGE = math.nan, 10**400
WRONG = (ValueError, TypeError)
# What is called; the error; what it must say.
CALLS: list[tuple[Callable[[Any], Any], Any, str]] = [
    (lambda b: b.stake("never", by="ann", stake=5), UnknownSubject, "id='never'"),
    (lambda b: b.stake("over", by="ann", stake=5), SubjectFinal, "id='over' was settled"),
    (lambda b: b.stake("off", by="ann", stake=5), SubjectFinal, "id='off' was voided"),
    (lambda b: b.stake("closed", by="ann", stake=5), StakingClosed, "id='closed' closed at"),
    (lambda b: b.stake("told", by="ann", stake=5), StakingClosed, "id='told'"),
    (lambda b: b.stake("open", by="ann", stake=0), ValueError, "stake must not be 0"),
    (lambda b: b.stake("open", by="ann", stake=0.0), ValueError, "stake must not be 0"),
    (lambda b: b.stake("open", by="ann", stake=2.5), ValueError, "stake must be a whole number"),
    (lambda b: b.stake("open", by="ann", stake=Fraction(5, 2)), WRONG, "stake"),
    (lambda b: b.stake("open", by="ann", stake=NAN), ValueError, "stake must be a whole number"),
    (lambda b: b.stake("open", by="ann", stake=-math.inf), ValueError, "stake must be a whole number"),
    (lambda b: b.stake("open", by="ann", stake=True), WRONG, "stake must be"),
    (lambda b: b.stake("open", by="ann", stake="5"), WRONG, "stake must be"),
    (lambda b: b.stake("open", by="ann", stake=None), WRONG, "stake must be"),
    (lambda b: b.stake("open", by="ann", stake=[5]), WRONG, "stake must be"),
    (lambda b: b.stake("open", by="ann", stake=101), mw.StakeRefused, "cap of 100 .*: 90 is left"),
    (lambda b: b.stake("open", by="ann", stake=-91), mw.StakeRefused, "cap of 100 .*: 90 is left"),
    (lambda b: b.stake("open", by="ann", stake=HUGE), mw.StakeRefused, "cap of 100"),
    (lambda b: b.stake("open", by="ann", stake=1e300), (mw.StakeRefused, ValueError), "stake"),
    (lambda b: b.stake("open", by="ann", stake=10, price=1), mw.PriceRefused, "price=1"),
    (lambda b: b.stake("open", by="ann", stake=10, price=1.5), ValueError, "price must be a whole number"),
    (lambda b: b.stake("open", by="ann", stake=10, price=-1), ValueError, "price must be"),
    (lambda b: b.stake("open", by="ann", stake=10, price=True), WRONG, "price must be"),
    (lambda b: b.stake("open", by="ann", stake=10, price="9"), WRONG, "price must be"),
    (lambda b: b.stake("open", by=None, stake=10), TypeError, "by must name the customer to pay"),
    (lambda b: b.stake("open", by=[], stake=10), ValueError, "by must"),
    (lambda b: b.stake("open", by=["a", "a"], stake=10), ValueError, "by must"),
    (lambda b: b.stake("open", by=[str(i) for i in range(17)], stake=10), ValueError, "by must .* 16"),
    (lambda b: b.stake("open", by={"a": 1}, stake=10), TypeError, "by must"),
    (lambda b: b.quote("open", by=None, stake=10), TypeError, "by must name"),
    (lambda b: b.quote("open", by="ann"), TypeError, "one of stake, payout and losses"),
    (lambda b: b.quote("open", by="ann", stake=True), WRONG, "stake must be"),
    (lambda b: b.quote("open", by="ann", payout=0), ValueError, "payout must be"),
    (lambda b: b.quote("open", by="ann", payout=-5), ValueError, "payout must be"),
    (lambda b: b.quote("open", by="ann", losses={"go": (0.5, 3)}), ValueError, "losses must be"),
    (lambda b: b.quote("open", by="ann", losses={"go": (0, 500)}), mw.StakeRefused, "90"),
    (lambda b: b.quote("never", by="ann", stake=1), UnknownSubject, "id='never'"),
    (lambda b: b.quote("over", by="ann", stake=1), SubjectFinal, "id='over'"),
    (lambda b: b.forecast("over", mu=0.5), SubjectFinal, "id='over' was settled"),
    (lambda b: b.forecast("off", mu=0.5), SubjectFinal, "id='off' was voided"),
    (lambda b: b.forecast("closed", mu=0.5), StakingClosed, "id='closed'"),
    (lambda b: b.forecast("told", mu=0.5), StakingClosed, "id='told'"),
    (lambda b: b.forecast("new"), WRONG, "mu"),
    (lambda b: b.forecast("new", mu=-0.1), ValueError, r"mu must lie in \[0, 1\]"),
    (lambda b: b.forecast("new", mu=1.1), ValueError, r"mu must lie in \[0, 1\]"),
    (lambda b: b.forecast("new", mu=NAN), ValueError, "mu must be finite"),
    (lambda b: b.forecast("new", mu=HUGE), ValueError, "mu must be finite"),
    (lambda b: b.forecast("new", mu="0.5"), TypeError, "mu must be"),
    (lambda b: b.forecast("new", mu=[0.5]), WRONG, "mu"),
    (lambda b: b.forecast("new", mu=np.array([0.5])), WRONG, "mu"),
    (lambda b: b.forecast("new", mu=0.5, c_hat=2), ValueError, "c_hat"),
    (lambda b: b.forecast("new", mu=0.5, c_hat=NAN), ValueError, "c_hat"),
    (lambda b: b.forecast("new", mu=0.5, c_hat="0"), TypeError, "c_hat"),
    (lambda b: b.forecast("new", mu=0.5, c_hat=[0.0]), WRONG, "c_hat"),
    (lambda b: b.forecast("new", mu=0.5, groups="north"), WRONG, "groups"),
    (lambda b: b.forecast("new", mu=0.5, groups=5), TypeError, "groups"),
    (lambda b: b.forecast("new", x=[1.0]), WRONG, "base|mu"),
    (lambda b: b.forecast("new", mu=0.5, closes=5), ValueError, "closes must lie in the future; got 5"),
    (lambda b: b.forecast("new", mu=0.5, closes=-5), ValueError, "closes must"),
    (lambda b: b.forecast("new", mu=0.5, closes=0.5), ValueError, "closes must be a time"),
    (lambda b: b.forecast("new", mu=0.5, closes=True), ValueError, "closes must be a time"),
    (lambda b: b.forecast("new", mu=0.5, closes="soon"), ValueError, "closes must be a time"),
    (lambda b: b.forecast("new", mu=0.5, closes="2090-05-01T12:00"), ValueError, "closes must be a time"),
    (lambda b: b.forecast("new", mu=0.5, closes=datetime(2090, 5, 1)), ValueError, "with its zone"),
    (lambda b: b.report("never", 1), UnknownSubject, "id='never'"),
    (lambda b: b.report("over", 1), SubjectFinal, "id='over'"),
    (lambda b: b.report("off", 1), SubjectFinal, "id='off'"),
    (lambda b: b.report("told", 0, by="bob"), ReportsDisagree, "eve reported 1 .* bob reports 0"),
    (lambda b: b.report("told", 0), ReportsDisagree, "eve reported 1"),
    (lambda b: b.report("open", 2), ValueError, "outcome must be 0 or 1; got 2"),
    (lambda b: b.report("open", 0.5), ValueError, "outcome must be 0 or 1"),
    (lambda b: b.report("open", NAN), ValueError, "outcome must be finite"),
    (lambda b: b.report("open", HUGE), ValueError, "outcome must be finite"),
    (lambda b: b.report("open", "1"), TypeError, "outcome must be"),
    (lambda b: b.report("open", None), TypeError, "outcome must be"),
    (lambda b: b.report("open", [1]), ValueError, "outcome must be one number"),
    (lambda b: b.settle("never"), UnknownSubject, "id='never'"),
    (lambda b: b.settle("open"), SubjectOpen, "no outcome was reported"),
    (lambda b: b.settle("told"), SubjectOpen, "cannot be settled yet"),
    (lambda b: b.settle("over"), SubjectFinal, "id='over'"),
    (lambda b: b.void("over", "fog"), SubjectFinal, "id='over'"),
    (lambda b: b.void("never", "fog"), UnknownSubject, "id='never'"),
    (lambda b: b.deposit(0), ValueError, "amount must be .*1"),
    (lambda b: b.deposit(-5), ValueError, "amount must be"),
    (lambda b: b.deposit(0.5), ValueError, "amount must be a whole number"),
    (lambda b: b.deposit(HUGE), ValueError, "amount must be"),
    (lambda b: b.deposit(2**50), ValueError, "capital must be at most"),
    (lambda b: b.deposit(True), WRONG, "amount must be"),
    (lambda b: b.deposit("5"), WRONG, "amount must be"),
    (lambda b: b.withdraw(10_001), Refusal, "amount must be at most"),
    (lambda b: b.withdraw(-1), ValueError, "amount must be"),
    (lambda b: b.withdraw(None), WRONG, "amount must be"),
    (lambda b: b.compensate("open", by="ann", amount=5, reason="x"), SubjectOpen, "id='open' is not final"),
    (lambda b: b.compensate("never", by="ann", amount=5, reason="x"), UnknownSubject, "id='never'"),
    (lambda b: b.compensate("over", by="ann", amount=0, reason="x"), ValueError, "amount must be"),
    (lambda b: b.compensate("over", by=None, amount=5, reason="x"), TypeError, "by must be text"),
    (lambda b: b.stake("open", by="ann", stake=6, key="used"), KeyConflict, "key='used'"),
    (lambda b: b.report("open", 1, key="used"), KeyConflict, "key='used'"),
    (lambda b: b.payments("never"), UnknownSubject, "id='never'"),
]


def prepared(place: Place, clock: Clock) -> tuple[Ledger, Book]:
    """A book with an id in every state: open, closed, told (held), over and off."""
    ledger = place.open(clock=clock)
    book = new_book(ledger, hold=timedelta(hours=1))
    book.forecast("over", mu=0.5)
    book.forecast("off", mu=0.5)
    book.forecast("closed", mu=0.5, closes=clock.now + SECOND)
    book.report("over", 1)
    book.void("off", "fog")
    clock.pass_by(3600)
    book.settle()
    book.forecast("told", mu=0.5)
    book.report("told", 1, by="eve")
    book.forecast("open", mu=0.5)
    book.stake("open", by="ann", stake=10, key="used")
    return ledger, book


def refused(book: Book, ledger: Ledger, call: Callable[[Any], Any], error: Any, words: str) -> None:
    """The call is refused with these words; another process would find everything as it was."""
    before, at_rest = book.statement(), list(book.events())
    with pytest.raises(error, match=words):
        call(book)
    assert book.statement() == before
    assert list(book.events()) == at_rest
    assert ledger.verify().heads == {"book": (before.events, before.head)}


def test_every_wrong_request_is_refused_by_name_and_changes_nothing(where: Place, clock: Clock) -> None:
    ledger, book = prepared(where, clock)
    for number, (call, error, words) in enumerate(CALLS):
        try:
            refused(book, ledger, call, error, words)
        except BaseException as wrong:
            wrong.add_note(f"CALLS[{number}]")
            raise
    book.stake("open", by="ann", stake=90)  # and what is right is done after all that
    ledger.verify()
    ledger.close()


def _swapped(call: Callable[[Any, Any], Any], text: Any, book: Book) -> Any:
    return call(book, text)


def test_every_text_is_read_before_it_is_used(where: Place, clock: Clock) -> None:
    ledger, book = prepared(where, clock)
    for text, words in TEXTS.values():
        for place, call in PLACES.items():
            asked = functools.partial(_swapped, call, text)
            refused(book, ledger, asked, WRONG, f"(?s){place.strip()} must.*{words}")
    ledger.close()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"capital": 0.5}, "capital must be a whole number"),
        ({"capital": 0}, "capital must be"),
        ({"capital": -1}, "capital must be"),
        ({"capital": NAN}, "capital must be a whole number"),
        ({"capital": True}, "capital must be"),
        ({"capital": "9"}, "capital must be"),
        ({"capital": None}, "capital must be"),
        ({"capital": 2**60}, "capital must be"),
        ({"max_stake": 0}, "max_stake must be"),
        ({"max_stake": 2.5}, "max_stake must be a whole number"),
        ({"max_stake": None}, "max_stake must be"),
        ({"hold": -1}, "hold must be"),
        ({"hold": timedelta(seconds=-1)}, "hold must be"),
        ({"hold": NAN}, "hold must be"),
        ({"hold": math.inf}, "hold must be"),
        ({"hold": "1"}, "hold must be"),
        ({"hold": None}, "hold must be"),
        ({"hold": True}, "hold must be"),
        ({"name": ""}, "name must have 1 to 500"),
        ({"name": "x" * 501}, "name must have 1 to 500"),
        ({"name": "a\0"}, "name must be"),
        ({"name": "\udfff"}, "name must be"),
        ({"name": 5}, "name must be"),
        ({"name": ["a"]}, "name must be"),
        ({"unit": ""}, "unit must have"),
        ({"unit": None}, "unit must be"),
        ({"unit": "\0"}, "unit must be"),
        ({"classes": 3}, "create takes .*; got classes"),
        ({"mode": "exact"}, "create takes"),
        ({"correction": object()}, "correction"),
        ({"lines": 5}, "lines"),
        ({"lines": mw.Lines(each=500, scale=1)}, "scale of lines"),
        ({"max_exposure": -1}, "max_exposure"),
        ({"c_range": (0.9, 0.1)}, "c_range"),
        ({"thaw": -1}, "thaw"),
    ],
)
def test_a_book_with_wrong_settings_is_not_created(file: Place, wrong: dict[str, Any], words: str) -> None:
    with file.open() as ledger:
        with pytest.raises((ValueError, TypeError), match=words):
            new_book(ledger, **wrong)
        assert ledger.books() == []
        assert ledger.verify().events == 0
        new_book(ledger)  # the right one, under the same name
        ledger.verify()


def test_a_book_is_created_once(where: Place) -> None:
    with where.open() as ledger:
        new_book(ledger, capital=500)
        with pytest.raises(BookExists, match="'book'"):
            new_book(ledger, capital=600)
        with where.open() as other, pytest.raises(BookExists, match="'book'"):
            new_book(other)
        assert ledger.book("book").statement().capital == 500
        assert ledger.verify().events == 1


@pytest.mark.parametrize("name", ["no", "x" * 501, "", "a\0", "\ud800", 5, None, ["a"]])
def test_a_book_that_is_not_there_is_refused_by_name(where: Place, name: Any) -> None:
    with where.open() as ledger:
        new_book(ledger)
        error = UnknownBook if name == "no" else (ValueError, TypeError)
        for call in (ledger.book, lambda given: ledger.verify(book=given)):
            if name is None and call is not ledger.book:
                continue  # all books
            with pytest.raises(error, match=f"(name|book) must|{name}"):
                call(name)
        ledger.verify()


BAD = [
    {"do": "stake", "id": "open", "by": "ann", "stake": 1, "wrong": 2},
    {"do": "dance", "id": "open"},
    {"id": "open"},
    {"do": ["stake"]},
    {"do": "stake", "id": "open", "by": "ann", "stake": NAN},
    {"do": "stake", "id": "open", "by": "ann", "stake": 1000},
    {"do": "stake", "id": "a\ud800", "by": "ann", "stake": 1},
    {"do": "stake", "id": "open", "by": print, "stake": 1},
    {"do": "stake", "id": "never", "by": "ann", "stake": 1},
    {"do": "stake", "id": "open", "by": {1: 2, "a": 3}, "stake": 1},
    {"do": "forecast", "id": "new", "mu": NAN},
    {"do": "forecast", "id": "new", "mu": 0.5, "closes": "soon"},
    {"do": "report", "id": "open", "outcome": math.inf},
    "stake",
    None,
]


@pytest.mark.parametrize("key", [None, "bad"])
@pytest.mark.parametrize("bad", BAD, ids=lambda bad: repr(bad)[:60])
def test_one_bad_request_among_many_is_refused_alone(
    file: Place, clock: Clock, bad: Any, key: str | None
) -> None:
    ledger, book = prepared(file, clock)
    good = [{"do": "stake", "id": "open", "by": "ann", "stake": n, "key": f"good {n}"} for n in (1, 2)]
    asked = dict(bad, key=key) if isinstance(bad, dict) and key else bad
    first, wrong, last = book.do_many([good[0], asked, good[1]])
    with pytest.raises((Refusal, ValueError, TypeError)) as error:
        wrong.answer()
    assert not re.search("JSON|codec|NoneType|iterable|hashable", str(error.value)), (
        "says nothing to a caller"
    )
    assert [first.answer()[0]["stake"], last.answer()[0]["stake"]] == [1, 2]
    assert last.answer()[0].seq == first.answer()[0].seq + 1
    assert ledger.verify().heads["book"][0] == last.answer()[0].seq
    ledger.close()


def test_numbers_of_numpy_are_numbers(file: Place, clock: Clock) -> None:
    """Also under a key, where the request is compared with the one before."""
    ledger, book = prepared(file, clock)
    stake: Any
    for stake in (np.int64(3), np.int64(-3), np.float64(4.0)):
        made = book.stake("open", by="ann", stake=stake, key=f"numpy {stake}")
        assert made["stake"] == int(stake)
        assert book.stake("open", by="ann", stake=stake, key=f"numpy {stake}").seq == made.seq
    mu: Any = np.float32(0.2)
    book.forecast("new", mu=mu, c_hat=np.float64(0.0), key="mu")
    outcome: Any = np.int64(1)
    book.report("new", outcome, key="report")
    ledger.verify()
    ledger.close()


def test_reading_a_page_does_not_see_what_is_not_yet_stored(file: Place, clock: Clock) -> None:
    """`events` is read by one thread while another has written, but not stored."""
    ledger, book = prepared(file, clock)
    seen: list[int] = []
    append = ledger.store.append
    reader = threading.Thread(target=lambda: seen.append(len(list(book.events()))))

    def append_and_look(*given: Any) -> None:
        append(*given)
        reader.start()
        reader.join(0.2)
        raise OSError("disk")

    before = book.statement().events
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ledger.store, "append", append_and_look)
        with pytest.raises(LedgerUnavailable, match="disk"):
            book.stake("open", by="ann", stake=1)
    assert book.statement().events == before
    reader.join()
    assert seen == [before]
    ledger.close()
