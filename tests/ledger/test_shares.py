"""A ledger's book is hard to block: a share of the cap for each name, a stop, and quotes that know both."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import makewhole as mw
from ledger.places import Place
from makewhole.ledger import Book, Ledger

CAP = 1_000


@pytest.fixture
def ledger(file: Place) -> Iterator[Ledger]:
    with file.open() as made:
        yield made


@pytest.fixture
def book(ledger: Ledger) -> Book:
    return ledger.create("book", capital=150 * CAP, max_stake=CAP, unit="cent")


def bet_and_win(book: Book, name: str, rounds: int = 200) -> list[BaseException | None]:
    """Let a customer who knows every outcome stake her share each time; returns what refused her."""
    asked: list[dict[str, Any]] = []
    for k in range(rounds):
        id_, stake = f"{name} {k}", CAP // 10 if k % 2 else -CAP // 10
        asked.append({"do": "forecast", "id": id_, "mu": 0.5})
        asked.append({"do": "stake", "id": id_, "by": name, "stake": stake})
        asked.append({"do": "settle", "id": id_, "outcome": k % 2})
    return [done.error for done in book.do_many(asked)[1::3]]


# --- the share --------------------------------------------------------------------------------------------


def test_a_share_counts_over_all_versions_of_an_id(book: Book, ledger: Ledger) -> None:
    book.forecast("UA-1", mu=0.5)
    book.stake("UA-1", by="ann", stake=60)
    book.forecast("UA-1", mu=0.4)
    book.stake("UA-1", by="ann", stake=-30)
    book.forecast("UA-1", mu=0.6)
    before = book.statement()
    with pytest.raises(mw.StakeRefused) as refused:
        book.stake("UA-1", by="ann", stake=11)
    assert str(refused.value) == "'ann' may hold 100 of the cap of 1000 per forecast; got 11: 10 is left"
    assert refused.value.limit == 10
    assert book.statement() == before
    book.stake("UA-1", by="ann", stake=10)
    with pytest.raises(mw.StakeRefused, match="'ann' may hold 100 .* got 1: 0 is left"):
        book.stake("UA-1", by="ann", stake=1)
    book.stake("UA-1", by="bob", stake=100)
    assert ledger.verify().events == book.statement().events


def test_a_group_has_the_share_that_it_is_given(ledger: Ledger) -> None:
    lines = mw.Lines(each=6_000, shares={"agency": 0.15})
    book = ledger.create("book", capital=150 * CAP, max_stake=CAP, unit="cent", lines=lines)
    book.forecast("UA-1", mu=0.5)
    book.stake("UA-1", by=["agency", "ann"], stake=100)
    book.forecast("UA-1", mu=0.5)
    with pytest.raises(mw.StakeRefused, match="'agency' may hold 150 .* got 51: 50 is left"):
        book.stake("UA-1", by=["agency", "bob"], stake=51)
    assert book.quote("UA-1", by=["agency", "bob"], stake=1).room == (-50, 50)
    assert book.quote("UA-1", by=["club", "bob"], stake=1).room == (-100, 100)


def test_a_book_can_let_one_customer_hold_the_whole_cap(ledger: Ledger) -> None:
    lines = mw.Lines(each=6_000, share=1)
    book = ledger.create("book", capital=150 * CAP, max_stake=CAP, unit="cent", lines=lines)
    book.forecast("UA-1", mu=0.5)
    assert book.stake("UA-1", by="ann", stake=CAP)["stake"] == CAP


# --- the stop ---------------------------------------------------------------------------------------------


def test_a_clairvoyant_cannot_fill_the_cap_for_nothing(book: Book, ledger: Ledger) -> None:
    """Whatever she has done before, there is room for another customer on every forecast."""
    bet_and_win(book, "clair", 130)
    for k in range(40):
        book.forecast(f"e{k}", mu=0.5)
        side = 1 if k % 2 else -1
        while room := book.quote(f"e{k}", by="clair", stake=side).room[k % 2]:
            book.stake(f"e{k}", by="clair", stake=room)
        ann = book.quote(f"e{k}", by="ann", stake=-side)
        assert ann.room == (-100, 100)
        assert ann.price == 1
        assert book.stake(f"e{k}", by="ann", stake=-side)["price"] == 1
        book.settle(f"e{k}", k % 2)
    assert book.account("clair").taken > 5_700, "she must have won most of her line for this to be a test"
    assert ledger.verify().heads["book"] == (book.statement().events, book.statement().head)


@pytest.mark.slow
def test_ten_clairvoyants_do_not_raise_the_price_of_the_others(book: Book) -> None:
    names = [f"clair {j}" for j in range(10)]
    for k in range(200):
        id_, side = f"e{k}", 1 if k % 2 else -1
        stakes: list[dict[str, Any]] = [
            {"do": "stake", "id": id_, "by": name, "stake": side * 99} for name in names
        ]
        for done in book.do_many([{"do": "forecast", "id": id_, "mu": 0.5}, *stakes]):
            assert done.error is None or isinstance(done.error, mw.StakeRefused)
        if k % 10 == 0:
            quote = book.quote(id_, by="ann", stake=10)
            assert (quote.c, quote.fits) == (0.02, True)
        book.do_many([{"do": "settle", "id": id_, "outcome": k % 2}])
    for name in names:
        assert 5_700 < book.account(name).taken <= 1.2 * 6_000


def test_a_customer_whose_line_is_used_up_is_refused_with_a_reason(book: Book, ledger: Ledger) -> None:
    assert isinstance(bet_and_win(book, "clair")[-1], mw.StakeRefused)
    book.forecast("UA-1", mu=0.5)
    before = book.statement()
    with pytest.raises(mw.StakeRefused) as refused:
        book.stake("UA-1", by="clair", stake=10)
    assert "at most, less than half of what is usual: selling has stopped" in str(refused.value)
    assert refused.value.limit == 0
    assert book.statement() == before
    assert book.stake("UA-1", by="ann", stake=100)["price"] == 52
    assert ledger.verify().events == book.statement().events


def test_without_a_stop_she_can_buy_at_any_price(ledger: Ledger) -> None:
    lines = mw.Lines(each=6_000, thaw=0)
    book = ledger.create("book", capital=150 * CAP, max_stake=CAP, unit="cent", lines=lines, stop=False)
    assert set(bet_and_win(book, "clair", 300)) == {None}
    book.forecast("UA-1", mu=0.5)
    assert book.stake("UA-1", by="clair", stake=100)["price"] > 95
    with pytest.raises(TypeError, match="stop must be True or False; got 'never'"):
        ledger.create("other", capital=1_000, max_stake=10, unit="cent", stop="never")
    assert ledger.books() == ["book"]


# --- quotes -----------------------------------------------------------------------------------------------


def test_a_quote_says_how_much_she_can_still_stake_and_never_raises_for_it(book: Book) -> None:
    book.forecast("UA-1", mu=0.2)
    assert book.quote("UA-1", by="ann", stake=900).room == (-100, 100)
    book.stake("UA-1", by="ann", stake=70)
    quote = book.quote("UA-1", by="ann", stake=31)
    assert (quote.room, quote.fits, quote.price) == ((-30, 30), False, 7)
    assert book.quote("UA-1", by="ann", stake=-30).fits
    for k in range(9):
        book.stake("UA-1", by=f"c{k}", stake=100)
    assert book.quote("UA-1", by="bob", stake=30).room == (-30, 30)  # the cap leaves no more
    bet_and_win(book, "clair")
    book.forecast("UA-2", mu=0.5)
    stopped = book.quote("UA-2", by="clair", stake=50)
    assert (stopped.room, stopped.fits) == ((0, 0), False)
    assert stopped.c > 0.25


def test_the_room_for_a_stake_that_makes_up_for_another_is_found(ledger: Ledger) -> None:
    """The limit of a refusal is in proportion, and can be too low for a stake against her first one."""
    how: dict[str, Any] = {"lines": mw.Lines(each=6_000, share=1), "max_exposure": 100}
    book = ledger.create("book", capital=150 * CAP, max_stake=CAP, unit="cent", **how)
    book.forecast("UA-1", mu=0.5)
    book.stake("UA-1", by="ann", stake=150)
    low, high = book.quote("UA-1", by="ann", stake=1).room
    for stake in (low - 1, high + 1):
        with pytest.raises(mw.StakeRefused):
            book.stake("UA-1", by="ann", stake=stake)
    assert 0 < high < 60 < 350 < -low < CAP - 150
    book.stake("UA-1", by="ann", stake=low)


def test_a_table_of_losses_is_insured_within_her_room_if_it_can_be(book: Book) -> None:
    book.forecast("UA-1", mu=0.2)
    table = {"fly": (0, 101), "train": (90, 90)}
    quote = book.quote("UA-1", by="ann", losses=table)
    assert (quote.action, quote.stake, quote.fits) == ("train", 0, True)  # flying would need a stake of 101
    only = book.quote("UA-1", by="ann", losses={"fly": (0, 101)})
    assert (only.action, only.fits, only.room) == ("fly", False, (-100, 100))
    assert book.quote("UA-1", by="ann", losses={"fly": (0, 100), "train": (90, 90)}).action == "fly"


def test_a_quote_changes_nothing(book: Book) -> None:
    book.forecast("UA-1", mu=0.2)
    book.stake("UA-1", by="ann", stake=50)
    book.forecast("UA-1", mu=0.3)
    before = book._writer.state().to_plain()
    for name in ("ann", "never seen", "ann"):
        book.quote("UA-1", by=name, stake=5)
        assert book._writer.state().to_plain() == before
