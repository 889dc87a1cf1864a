"""A ledger does what a plain model says, whatever it is asked, by two writers in turn."""

import functools
import itertools
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

import makewhole as mw
from ledger.model import Model
from ledger.places import SECOND, Clock, Place
from makewhole.insured.refusals import Refusal

ids = st.integers(0, 11)  # which one: see `_named`
names = st.sampled_from(["ann", "bob", ["club", "cid"]])
stakes = st.integers(-60, 60).filter(bool) | st.sampled_from([100, -100, 1, 101])
keys = st.integers(0, 40).map(lambda n: str(n) if n < 12 else None)
mus = st.sampled_from([0.0, 0.1, 0.2, 0.5, 0.9, 1.0]) | st.floats(0, 1)
reporters = st.sampled_from([None, "eve", "fay"])


def request(do: str, **parts: Any) -> st.SearchStrategy[dict[str, Any]]:
    """Requests of one kind; parts that are None are left out."""
    made = st.fixed_dictionaries({"do": st.just(do), "key": keys, **parts})
    return made.map(lambda given: {name: part for name, part in given.items() if part is not None})


requests = st.one_of(
    request("forecast", id=ids, mu=mus, closes=st.none() | st.integers(1, 200)),
    request("stake", id=ids, by=names, stake=stakes, price=st.none() | st.integers(0, 60)),
    request("stake", id=ids, by=names, stake=stakes),
    request("stake", id=ids, by=names, stake=stakes),
    request("report", id=ids, outcome=st.integers(0, 1), by=reporters),
    request("settle", id=st.none() | ids),
    request("settle"),
    request("void", id=ids, reason=st.just("fog")),
    request("deposit", amount=st.integers(1, 300)),
    request("withdraw", amount=st.integers(1, 600)),
    request("compensate", id=ids, by=st.just("ann"), amount=st.integers(1, 9), reason=st.just("late")),
)
numbers = itertools.count()


class Machine(RuleBasedStateMachine):
    """Asks at random; two ledgers have the same book open, and are asked in turn."""

    def __init__(self, place: Place) -> None:
        super().__init__()
        self.clock, self.name = Clock(), f"book {next(numbers)}"
        self.ledgers = [place.open(clock=self.clock), place.open(clock=self.clock)]
        self.changed = True

    @initialize(
        capital=st.sampled_from([100, 500, 2_000]),
        hold=st.sampled_from([0, 30]),
        one_sided=st.booleans(),
        share=st.sampled_from([None, 0.6, 1.0, 1.0]),
        stop=st.booleans(),
    )
    def create(self, capital: int, hold: int, one_sided: bool, share: float | None, stop: bool) -> None:
        settings: dict[str, Any] = {"one_sided": one_sided, "stop": stop}
        if share is not None:
            settings["lines"] = mw.Lines(each=150, scale=100, share=share)
        self.ledgers[0].create(self.name, capital=capital, max_stake=100, unit="cent", hold=hold, **settings)
        self.books = [ledger.book(self.name) for ledger in self.ledgers]
        self.model = Model(capital, 100, hold * SECOND, one_sided, each=round(100 * (share or 0.1)))
        self.model.at = self.clock.now

    def _named(self, n: int, *, new: bool = False) -> str:
        """Mostly an id that is open, or for a forecast a new one; at times any, or one that is over."""
        known = list(self.model.things)
        if new and n < 6:
            return f"id {len(known)}"
        open_ = list(self.model.open()) if n < 10 else known
        return open_[-1 - n % len(open_)] if open_ else "never"

    @rule(asked=st.lists(requests, min_size=1, max_size=5), who=st.integers(0, 1))
    def ask(self, asked: list[dict[str, Any]], who: int) -> None:
        book, other = self.books[who], self.books[1 - who]
        for one in asked:
            if "id" in one:
                one["id"] = self._named(one["id"], new=one["do"] == "forecast")
            if "closes" in one:
                one["closes"] = max(self.model.at, self.clock.now) + one["closes"] * SECOND
        before, events = other.statement(), self.model.events
        for one, done in zip(asked, book.do_many(asked), strict=True):
            try:
                answer: Any = done.answer()
            except (Refusal, ValueError, TypeError) as error:
                answer = error
            self.model.check(one, answer, self.clock.now)
        if self.model.events == events:
            assert book.statement() == other.statement() == before, "something changed that was refused"
        self.changed = True

    @rule(id_=st.integers(6, 9), mu=mus, stake=st.sampled_from([60, -60, 90]), who=st.integers(0, 1))
    def staked_version_by_version(self, id_: int, mu: float, stake: int, who: int) -> None:
        """A new forecast for an id must not make room for more stakes on it."""
        one = {"do": "stake", "id": id_, "by": "ann", "stake": stake}
        self.ask([dict(one), {"do": "forecast", "id": id_, "mu": mu}, dict(one)], who)

    @rule(id_=ids, by=names, stake=stakes, who=st.integers(0, 1))
    def quoted_and_staked(self, id_: int, by: Any, stake: int, who: int) -> None:
        """The price that was quoted is the price that is asked, if nothing comes in between.

        A stake is taken if and only if it is within the quoted room.
        """
        name = self._named(id_)
        asked = {"do": "stake", "id": name, "by": by, "stake": stake}
        try:
            quote = self.books[1 - who].quote(name, by=by, stake=stake)
        except Refusal:
            quote = None
        (done,) = self.books[who].do_many([asked])
        self.model.check(asked, done.error or done.answer(), self.clock.now)  # type: ignore[arg-type]  # no interrupts
        if done.error is None:
            assert quote is not None
            assert done.answer()[0]["price"] == quote.price
        if quote is not None:
            assert quote.fits == (done.error is None)
        self.changed = True

    @rule(seconds=st.sampled_from([-1_000, -5, 1, 10, 30, 100]))
    def time_passes(self, seconds: int) -> None:
        self.clock.pass_by(seconds)

    @rule(who=st.integers(0, 1))
    def withdraw_all(self, who: int) -> None:
        """What a refusal says is left can be withdrawn, and one more cannot."""
        book = self.books[who]
        (done,) = book.do_many([{"do": "withdraw", "amount": 10**6}])
        assert isinstance(done.error, Refusal)
        left = getattr(done.error, "limit", 0)
        if left:
            asked = {"do": "withdraw", "amount": left}
            self.model.check(asked, book.do_many([asked])[0].answer(), self.clock.now)
        (done,) = book.do_many([{"do": "withdraw", "amount": 1}])
        assert isinstance(done.error, Refusal)
        asked = {"do": "deposit", "amount": left + 300}
        self.model.check(asked, book.do_many([asked])[0].answer(), self.clock.now)
        self.changed = True

    @invariant()
    def sums_are_those_of_the_model(self) -> None:
        if not self.changed:
            return
        self.changed = False
        model = self.model
        told = [book.statement() for book in self.books]
        assert told[0] == told[1]
        now = told[0]
        assert (now.premiums, now.payouts, now.refunds) == (model.premiums, model.payouts, model.refunds)
        assert (now.capital, now.compensated, now.lost) == (model.capital, model.compensated, model.lost)
        assert now.cash == model.capital + model.premiums - model.payouts - model.refunds
        assert now.cash >= 0
        assert now.lost <= now.capital
        assert model.lost + sum(thing.worst() for thing in model.open().values()) <= model.capital
        assert now.events == model.events
        assert {one.id for one in self.books[0].open_forecasts()} == set(model.open())
        assert self.ledgers[0].verify(book=self.name).heads == {self.name: (now.events, now.head)}
        for id_, thing in model.things.items():
            assert thing.gross() <= model.max_stake
            assert [payment.amount for payment in self.books[1].payments(id_)] == model.due(id_)

    def teardown(self) -> None:
        """Let go."""
        for ledger in self.ledgers:
            ledger.close()


def play(place: Place, examples: int) -> None:
    machine: Any = functools.partial(Machine, place)
    run_state_machine_as_test(machine, settings=settings(max_examples=examples, stateful_step_count=30))


@pytest.mark.slow
@pytest.mark.fuzz
def test_a_ledger_does_what_the_model_says(file: Place, fuzzing: int) -> None:
    play(file, 60 * fuzzing)


@pytest.mark.slow
@pytest.mark.fuzz
def test_a_ledger_in_postgresql_does_what_the_model_says(database: Place, fuzzing: int) -> None:
    play(database, 8 * fuzzing)
