"""Books: quotes, versions, payments, statements, snapshots, keys; on a file."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from fractions import Fraction
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import makewhole as mw
from makewhole.ledger import (
    Book,
    CapitalRefused,
    KeyConflict,
    Ledger,
    LedgerUnavailable,
    LogDamaged,
    Receipt,
    StakingClosed,
    SubjectFinal,
    SubjectOpen,
    writing,
)
from makewhole.ledger.events import chained
from makewhole.ledger.money import due_for, whole_price
from makewhole.ledger.state import State


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ledger(tmp_path: Path, clock: Clock) -> Iterator[Ledger]:
    with Ledger.open(tmp_path / "books.db", clock=clock) as made:
        yield made


@pytest.fixture
def book(ledger: Ledger) -> Book:
    lines = mw.Lines(each=200_000, share=1)  # one customer may hold the whole cap
    return ledger.create("delays", capital=500_000, max_stake=20_000, unit="cent", hold=10, lines=lines)


# --- money ------------------------------------------------------------------------------------------------

probability = st.floats(0, 1)


@given(st.integers(-(2**50), 2**50).filter(bool), probability, st.floats(0, 0.5), st.booleans())
def test_a_price_is_the_exact_one_rounded_up_or_less_than_noise_below(
    stake: int, mu: float, c: float, strict: bool
) -> None:
    price = whole_price(stake, mu, c, 2**49 if strict else 0)
    exact = abs(stake) * ((Fraction(mu) if stake > 0 else 1 - Fraction(mu)) + Fraction(c))
    if strict or abs(stake) >= 2**49:
        assert price == ceil(exact)
    else:
        assert price - 1 < exact <= price + Fraction(abs(stake), 2**50)


def test_prices_are_what_people_expect() -> None:
    assert whole_price(10_000, 0.2, 0.02) == 2_200  # 0.2 + 0.02 is above 0.22
    assert whole_price(1_000_000, 0.1 + 0.2, 0.0) == 300_000
    assert whole_price(-10_000, 0.8, 0.02) == 2_200
    assert whole_price(1, 0.001, 0.0) == 1
    assert whole_price(5, 0.0, 0.0) == 0


def test_what_is_due_for_a_stake() -> None:
    assert [due_for(100, 30, outcome) for outcome in (1, 0, None)] == [100, 0, 30]
    assert [due_for(-100, 30, outcome) for outcome in (1, 0, None)] == [0, 100, 30]


# --- quotes -----------------------------------------------------------------------------------------------


def test_a_quote_is_what_the_stake_then_costs_and_the_loss_is_certain(book: Book) -> None:
    book.forecast("UA-1", mu=0.3)
    table = {"fly": (-2_000, 7_001), "stay": (1_500, 1_500), "drive": (900, 300)}
    quote = book.quote("UA-1", by="ann", losses=table)
    receipt = book.stake("UA-1", by="ann", stake=quote.stake, price=quote.price)
    assert receipt["price"] == quote.price
    assert (receipt["by"], quote.by) == ("ann", "ann")
    assert quote.action is not None
    if_0, if_1 = table[quote.action]
    paid_on_1 = quote.stake if quote.stake > 0 else 0
    paid_on_0 = -quote.stake if quote.stake < 0 else 0
    assert if_0 + quote.price - paid_on_0 == if_1 + quote.price - paid_on_1 == quote.loss
    others = [book.quote("UA-1", by="ann", losses={name: table[name]}).loss for name in table]
    assert quote.loss == min(loss for loss in others if loss is not None)
    assert book.quote("UA-1", by="ann", payout=100) == book.quote("UA-1", by="ann", stake=100)
    with pytest.raises(TypeError, match="one of stake, payout and losses"):
        book.quote("UA-1", by="ann")


@pytest.mark.slow
def test_a_quote_names_the_customers_own_price(ledger: Ledger) -> None:
    lines = mw.Lines(each=40_000, share=1, thaw=0)
    book = ledger.create("own", capital=100_000, max_stake=1_000, unit="cent", lines=lines)
    for k in range(300):  # she knows every outcome
        book.forecast(f"e{k}", mu=0.5)
        with pytest.MonkeyPatch.context():
            try:
                book.stake(f"e{k}", by="clairvoyant", stake=1_000)
            except mw.StakeRefused:
                break
        book.report(f"e{k}", 1)
        book.settle()
    assert book.account("clairvoyant").taken <= 40_000
    book.forecast("last", mu=0.5)
    hers, others = (book.quote("last", by=name, stake=1_000) for name in ("clairvoyant", "somebody"))
    assert hers.price > others.price
    assert others.price == 520


# --- one id, many forecasts -------------------------------------------------------------------------------


def test_stakes_keep_the_price_of_their_version_and_the_cap_is_for_all(book: Book) -> None:
    assert book.forecast("UA-1", mu=0.2)["version"] == 1
    first = book.stake("UA-1", by="ann", stake=12_000)
    assert book.forecast("UA-1", mu=0.6)["version"] == 2
    second = book.stake("UA-1", by="bob", stake=-5_000)
    assert (first["price"], second["price"]) == (2_640, 2_100)
    with pytest.raises(mw.StakeRefused, match="all its versions: 3000 is left") as refused:
        book.stake("UA-1", by="cid", stake=3_001)
    assert refused.value.limit == 3_000
    book.stake("UA-1", by="cid", stake=3_000)
    book.report("UA-1", 1)


def test_a_customer_sees_her_own_positions_and_what_came_of_them(book: Book, clock: Clock) -> None:
    for k in range(4):
        book.forecast(f"e{k}", mu=0.2)
        book.stake(f"e{k}", by="ann", stake=100 if k % 2 else -100)
        book.stake(f"e{k}", by="bob", stake=7)
    book.void("e0", "fog")
    for k in (1, 2):
        book.report(f"e{k}", 1)
    clock.now += 10_000_000
    book.settle()
    found = [(p.id, p.stake, p.ended, p.outcome, p.paid) for p in book.positions("ann")]
    assert found == [
        ("e3", 100, None, None, 0),
        ("e2", -100, "settled", 1, 0),
        ("e1", 100, "settled", 1, 100),
        ("e0", -100, "voided", None, 82),
    ]
    assert [p.id for p in book.positions("ann", limit=2)] == ["e3", "e2"]
    assert book.positions("nobody") == []


def test_a_version_nobody_staked_on_is_forgotten(book: Book) -> None:
    for k in range(50):
        book.forecast("UA-1", mu=k / 100)
    state = book._writer.state()
    assert len(state.f.open_forecasts) == 1
    assert state.subjects["UA-1"].forecasts == 50


# --- outcomes ---------------------------------------------------------------------------------------------


def test_an_outcome_is_held_replaced_and_then_final(book: Book, clock: Clock) -> None:
    book.forecast("UA-1", mu=0.2)
    book.stake("UA-1", by="ann", stake=1_000)
    book.report("UA-1", 0, by="airport")
    with pytest.raises(StakingClosed, match="an outcome was reported"):
        book.stake("UA-1", by="bob", stake=1)
    with pytest.raises(SubjectOpen, match="can be replaced until 1970-01-01T00:00:11Z"):
        book.settle("UA-1")
    clock.now += 9_000_000
    book.report("UA-1", 1, by="airport")  # the hold begins again
    clock.now += 9_000_000
    assert book.settle() == []
    clock.now += 1_000_000
    with pytest.raises(SubjectFinal, match="its hold is over"):
        book.report("UA-1", 0, by="airport")
    (settled,) = book.settle()
    assert (settled["outcome"], settled["payouts"]) == (1, 1_000)
    with pytest.raises(SubjectFinal, match="was settled, which is final"):
        book.report("UA-1", 0)
    with pytest.raises(SubjectFinal, match="was settled, which is final"):
        book.forecast("UA-1", mu=0.5)
    before = book.statement()
    book.compensate("UA-1", by="bob", amount=77, reason="his bag")
    after = book.statement()
    assert (after.compensated, after.cash, after.lost) == (77, before.cash, before.lost)
    assert "compensated, outside the certificate: 77" in str(after)


def test_where_nothing_is_held_an_outcome_is_settled_in_one_step(ledger: Ledger, book: Book) -> None:
    prompt = ledger.create("prompt", capital=500_000, max_stake=20_000, unit="cent")
    for one in (prompt, book):
        one.forecast("UA-1", mu=0.2)
        one.stake("UA-1", by="ann", stake=1_000)
    (settled,) = prompt.settle("UA-1", 1, by="airport")
    assert settled.body == {
        "id": "UA-1",
        "outcome": 1,
        "by": "airport",
        "stakes": 1,
        "premiums": 220,
        "payouts": 1_000,
    }
    with pytest.raises(SubjectOpen, match="outcomes are held for 10 s: report that of id='UA-1' first"):
        book.settle("UA-1", 1)
    prompt.forecast("UA-2", mu=0.2)
    prompt.report("UA-2", 0)
    with pytest.raises(SubjectFinal, match="0 was reported for id='UA-2'; got outcome=1"):
        prompt.settle("UA-2", 1)
    with pytest.raises(ValueError, match="outcome must be 0 or 1; got 2"):
        prompt.forecast("UA-3", mu=0.2) and prompt.settle("UA-3", 2)
    assert [one["id"] for one in prompt.settle()] == ["UA-2"]
    assert [one.id for one in prompt.open_forecasts()] == ["UA-3"]
    ledger.verify()


def test_a_void_returns_every_price(book: Book) -> None:
    book.forecast("UA-1", mu=0.2)
    book.stake("UA-1", by="ann", stake=1_000)
    book.forecast("UA-1", mu=0.4)
    book.stake("UA-1", by="bob", stake=-2_000)
    book.void("UA-1", "cancelled")
    assert [(p.by, p.amount) for p in book.payments("UA-1")] == [("ann", 220), ("bob", 1_240)]
    told = book.statement()
    assert (told.refunds, told.cash, told.lost, told.open) == (1_460, 500_000, 0, 0)


def test_nobody_stakes_after_the_time_is_up(book: Book, clock: Clock) -> None:
    book.forecast("UA-1", mu=0.2, closes="1970-01-01T00:00:05Z")
    clock.now = 4_999_999
    book.stake("UA-1", by="ann", stake=1)
    clock.now = 5_000_000
    with pytest.raises(StakingClosed, match="closed at 5000000"):
        book.stake("UA-1", by="ann", stake=1)
    with pytest.raises(StakingClosed, match="closed at 5000000"):
        book.quote("UA-1", by="ann", stake=1)
    with pytest.raises(StakingClosed, match="closed at 5000000"):
        book.forecast("UA-1", mu=0.3)
    book.forecast("UA-2", mu=0.3)
    clock.now = 0  # a clock that jumps back does not open it again
    with pytest.raises(StakingClosed, match="closed at 5000000"):
        book.stake("UA-1", by="ann", stake=1)


# --- capital ----------------------------------------------------------------------------------------------


def test_capital_comes_and_goes_as_far_as_the_certificate_leaves_it(book: Book) -> None:
    book.deposit(100_000)
    assert book.statement().capital == 600_000
    book.forecast("UA-1", mu=0.2)
    book.stake("UA-1", by="ann", stake=20_000)
    with pytest.raises(CapitalRefused, match="what the certificate leaves") as refused:
        book.withdraw(600_000)
    with pytest.raises(CapitalRefused):
        book.withdraw(refused.value.limit + 1)
    book.withdraw(refused.value.limit)
    told = book.statement()
    assert told.left >= 0
    with pytest.raises(CapitalRefused) as again:
        book.withdraw(1)
    assert again.value.limit == 0


def test_another_capital_changes_the_price_as_if_it_had_been_so_from_the_start() -> None:
    def play(f: mw.InsuredForecaster) -> mw.InsuredForecaster:
        for k in range(40):
            f.settle(f.forecast(mu=0.5), 1, stake=1.0 if k % 4 else -1.0)
        return f

    thaw = mw.Thaw(budget=50)
    grown = play(mw.InsuredForecaster(max_stake=1, capital=100, thaw=thaw, lines=None))
    grown.change_capital(120.0)
    whole = play(mw.InsuredForecaster(max_stake=1, capital=120, thaw=thaw, lines=None))
    assert grown.certificate().bound == whole.certificate().bound == 120
    assert grown.forecast(mu=0.5).c == pytest.approx(whole.forecast(mu=0.5).c, rel=1e-9)
    with pytest.raises(ValueError, match="capital can be changed with a Barrier"):
        mw.InsuredForecaster(None, mw.Reserve.for_capital(100, 1), max_stake=1).change_capital(120.0)


# --- keys, receipts ---------------------------------------------------------------------------------------


def test_the_same_key_is_done_once(book: Book) -> None:
    book.forecast("UA-1", mu=0.2, key="f")
    one = book.stake("UA-1", by="ann", stake=1_000, key="k")
    thousand: Any = np.int64(1_000)
    again = book.stake("UA-1", by="ann", stake=thousand, key="k")
    assert (one.seq, one.hash) == (again.seq, again.hash)
    with pytest.raises(KeyConflict, match="with another request"):
        book.stake("UA-1", by="ann", stake=1_001, key="k")
    request = {"do": "stake", "id": "UA-1", "by": "bob", "stake": 5, "key": "twice"}
    first, second, third = book.do_many([request, request, request | {"stake": 6}])
    assert first.answer()[0].seq == second.answer()[0].seq
    with pytest.raises(KeyConflict):
        third.answer()
    assert book.statement().premiums == 220 + 2
    book.report("UA-1", 1)


def test_what_was_refused_may_be_asked_again_with_its_key(book: Book) -> None:
    book.forecast("UA-1", mu=0.2)
    with pytest.raises(mw.StakeRefused):
        book.stake("UA-1", by="ann", stake=20_001, key="k")
    assert book.stake("UA-1", by="ann", stake=1, key="k")["price"] == 1


def test_settling_under_a_key_gives_the_same_settlements(book: Book, clock: Clock) -> None:
    for k in range(3):
        book.forecast(f"e{k}", mu=0.2)
        book.report(f"e{k}", 1)
    clock.now += 10_000_000
    first = book.settle(key="today")
    assert [one["id"] for one in first] == ["e0", "e1", "e2"]
    assert [one.hash for one in book.settle(key="today")] == [one.hash for one in first]
    assert book.settle(key="tomorrow") == []
    assert book.settle(key="tomorrow") == []


def test_a_receipt_travels_as_text(book: Book, ledger: Ledger) -> None:
    book.forecast("UA-1", mu=0.2)
    receipt = Receipt.from_json(book.stake("UA-1", by="Zoë", stake=1_000).to_json())
    receipt.check()
    assert receipt["by"] == "Zoë"
    assert ledger.verify([receipt]).receipts == 1


def test_a_receipt_that_somebody_has_signed_himself_accuses_nobody(tmp_path: Path, book: Book) -> None:
    book.forecast("UA-1", mu=0.2)
    receipt = book.stake("UA-1", by="ann", stake=1_000)
    with Ledger.open(tmp_path / "forger.db") as forger:
        own = forger.create("delays", capital=500_000, max_stake=20_000, unit="cent")
        own.forecast("UA-1", mu=0.2)
        forged = own.stake("UA-1", by="mallory", stake=2_000)
    assert forged.signed[0] not in book.public_keys() == [receipt.signed[0]] == [book.statement().key]
    with Ledger.open(tmp_path / "books.db") as ledger:
        with pytest.raises(
            LogDamaged, match="signed with a key that the log does not name.*it is forged, or"
        ):
            ledger.verify([receipt, forged])
        assert ledger.verify([receipt]).receipts == 1


def test_a_new_key_is_an_event_and_old_receipts_stay_good(tmp_path: Path, book: Book, ledger: Ledger) -> None:
    book.forecast("UA-1", mu=0.2)
    old = book.stake("UA-1", by="ann", stake=1_000)
    public = ledger.rekey()
    new = book.stake("UA-1", by="ann", stake=1_000)
    assert old.signed[0] != new.signed[0] == public
    assert book.public_keys() == [old.signed[0], public]
    snapshot = State.from_plain("delays", book._writer.state().to_plain())
    assert list(snapshot.keys) == book.public_keys() == ledger.store.public_keys("delays")
    assert ledger.verify([old, new]).receipts == 2
    assert (tmp_path / "books.db.key").stat().st_mode & 0o777 == 0o600
    (tmp_path / "books.db.key").unlink()
    with Ledger.open(tmp_path / "books.db") as another:
        with pytest.raises(LedgerUnavailable, match="rekey"):
            another.book("delays").stake("UA-1", by="ann", stake=1)
        another.rekey()
        assert another.book("delays").stake("UA-1", by="ann", stake=1)["price"] == 1
        another.verify([old, new])
    (tmp_path / "books.db.key").chmod(0o644)
    with (
        Ledger.open(tmp_path / "books.db") as third,
        pytest.raises(LedgerUnavailable, match="others can read"),
    ):
        third.book("delays").stake("UA-1", by="ann", stake=1)


# --- many at once, snapshots ------------------------------------------------------------------------------


def test_threads_are_stored_together_and_each_gets_its_own_answer(book: Book) -> None:
    book.forecast("UA-1", mu=0.2)
    found: dict[tuple[int, int], Any] = {}

    def work(k: int) -> None:
        for j in range(20):
            found[k, j] = book.stake("UA-1", by=f"customer {k}", stake=k + 1, key=f"{k} {j}")

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({receipt.seq for receipt in found.values()}) == 160
    assert all(receipt["stake"] == place[0] + 1 for place, receipt in found.items())


@pytest.mark.slow
def test_a_book_opens_from_its_snapshot_and_goes_on_as_if_it_had_not(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "_SNAPSHOT_EVERY", 50)

    def play(path: Path, reopen: bool) -> tuple[str, Any]:
        clock.now = 1_000_000
        made = Ledger.open(path, clock=clock, key=tmp_path / "key")
        lines = mw.Lines(each=20_000, share=1)
        book = made.create("b", capital=50_000, max_stake=1_000, unit="cent", lines=lines)
        draw = np.random.default_rng(1)
        for k in range(150):
            clock.now += 1
            book.forecast(f"e{k}", mu=0.3)
            book.stake(f"e{k}", by=f"c{k % 7}", stake=int(draw.integers(1, 500)))
            if k >= 5:
                book.report(f"e{k - 5}", int(draw.random() < 0.4))
                book.settle()
            if reopen and k % 10 == 9:
                made.close()
                made = Ledger.open(path, clock=clock, key=tmp_path / "key")
                book = made.book("b")
        count, told = made.verify().events, book.statement()
        assert made.store.snapshot("b")[0] > count - 200  # type: ignore[index]  # there is one
        made.close()
        return told.head, told

    assert play(tmp_path / "one.db", reopen=False) == play(tmp_path / "two.db", reopen=True)


def test_a_snapshot_waits_while_others_wait_but_not_for_ever(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "_SNAPSHOT_EVERY", 5)
    monkeypatch.setattr(writing, "_BYTES_PER_EVENT", 10**9)
    made = ledger.create("b", capital=50_000, max_stake=1_000, unit="cent")
    taken: list[int] = []
    ledger.others_wait = lambda: True

    def forecast_until_snapshot() -> None:
        before = ledger.store.snapshot("b")
        while ledger.store.snapshot("b") == before:
            made.forecast("e", mu=0.3)
        taken.append((ledger.store.snapshot("b") or (0, ""))[0])

    forecast_until_snapshot()
    forecast_until_snapshot()
    ledger.others_wait = lambda: False
    forecast_until_snapshot()
    assert taken == [5 * 30, 2 * 5 * 30, 2 * 5 * 30 + 5]


@pytest.mark.slow
def test_memory_does_not_grow_with_what_is_settled(book: Book, clock: Clock) -> None:
    def sizes() -> tuple[int, int]:
        state = book._writer.state()
        return len(json.dumps(state.to_plain())), len(state.book.opens)

    def rounds(start: int, count: int) -> None:
        for k in range(start, start + count):
            asked = [
                {"do": "forecast", "id": f"e{k}", "mu": 0.3},
                {"do": "stake", "id": f"e{k}", "by": f"c{k % 5}", "stake": 1},
                {"do": "report", "id": f"e{k}", "outcome": k % 2},
            ]
            for one in book.do_many(asked):
                one.answer()
            clock.now += 10_000_000
            book.settle()

    rounds(0, 100)
    text, keys = sizes()
    rounds(100, 400)
    after, keys_after = sizes()
    assert after < text + 200
    assert keys_after < keys + 200


def test_the_chain_tells_fields_apart() -> None:
    one = chained(bytes(32), "a", 1, 2, "k", "bc", "{}")
    assert one != chained(bytes(32), "a", 1, 2, "k", "b", "c{}")
    assert one != chained(bytes(32), "ab", 1, 2, "k", "c", "{}")
    assert chained(bytes(32), "a", 1, 2, "k", None, "{}") != chained(bytes(32), "a", 1, 2, "k", "-", "{}")


def test_a_model_of_the_callers_makes_forecasts_that_need_no_model_to_be_read(ledger: Ledger) -> None:
    ledger.create("model", capital=1_000, max_stake=10, unit="cent")
    book = ledger.book("model", base=lambda x: 0.25 * x)
    assert book.forecast("e", x=2)["published"] == [0.5, 0.02]
    assert [one.id for one in ledger.book("model").open_forecasts()] == ["e"]
    with pytest.raises(TypeError, match="there is a base"):
        book.forecast("e", mu=0.5)
    ledger.verify()


def test_several_books_are_apart(ledger: Ledger, book: Book) -> None:
    other = ledger.create("other", capital=1_000, max_stake=10, unit="krona", one_sided=True)
    book.forecast("UA-1", mu=0.2, key="k")
    other.forecast("UA-1", mu=0.3, key="k")
    assert ledger.books() == ["delays", "other"]
    assert ledger.verify().heads.keys() == {"delays", "other"}
    with pytest.raises(mw.StakeRefused, match="negative"):
        other.stake("UA-1", by="ann", stake=-1)
    assert other.stake("UA-1", by="ann", stake=1)["c"] == 0


@pytest.mark.parametrize(
    "correction",
    [
        mw.Grouped(mw.Reserve(0.01)),
        mw.OverlappingReserve(0.01),
        mw.DeterministicSwap(50),
        mw.SwapRegret(10, seed=3),
        mw.StandardRegret(0.1),
        mw.Reserve.for_capital(50_000, max_stake=1_000),
        mw.Reserve(0.01, over=mw.DeterministicSwap(10)),
    ],
    ids=lambda one: type(one).__name__,
)
def test_a_book_with_any_of_our_corrections_is_read_again_to_the_bit(
    ledger: Ledger, correction: Any, tmp_path: Path
) -> None:
    how = {"correction": correction, "lines": mw.Lines(each=20_000, share=1, spread=0.02), "stop": False}
    book = ledger.create("b", capital=50_000, max_stake=1_000, unit="cent", **how)
    groups = ["JFK", "AA"] if isinstance(correction, mw.OverlappingReserve) else "JFK"
    more: Any = {"groups": groups} if isinstance(correction, (mw.Grouped, mw.OverlappingReserve)) else {}
    for k in range(40):
        book.forecast(f"e{k}", mu=0.4, c_hat=0.01, **more)
        book.stake(f"e{k}", by=f"c{k % 3}", stake=500 if k % 2 else -300)
        book.settle(f"e{k}", k % 2)
    told = book.statement()
    assert 0 <= told.lost <= told.capital
    with Ledger.open(tmp_path / "books.db") as again:  # without a snapshot: all is read again
        assert again.book("b").statement() == told
        assert again.verify().events == 1 + 3 * 40
