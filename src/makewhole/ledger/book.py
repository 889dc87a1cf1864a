"""A book of the ledger: the forecaster's verbs, each stored before it returns."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from makewhole.forecasters import BaseForecaster, ask
from makewhole.insured.lines import read_levels
from makewhole.insured.refusals import StakeRefused
from makewhole.insured.statement import Statement
from makewhole.ledger.events import Event
from makewhole.ledger.listing import ORDERS, Place
from makewhole.ledger.money import due_for, read_signed, read_units, whole_price
from makewhole.ledger.receipts import Receipt
from makewhole.ledger.requests import (
    ENDS,
    LATEST,
    absent,
    check_open,
    find_room,
    read_by,
    read_stake,
    read_text,
)
from makewhole.ledger.state import State, Subject
from makewhole.ledger.statement import BookStatement, state_book
from makewhole.ledger.writing import Request, Waiting, Writer

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# For each verb, the kind of event that its request becomes, and the arguments it may have.
VERBS: dict[str, tuple[str, tuple[str, ...]]] = {
    "forecast": ("forecast", ("id", "mu", "c_hat", "closes", "groups")),
    "stake": ("staked", ("id", "by", "stake", "price")),
    "report": ("reported", ("id", "outcome", "by")),
    "settle": ("settled", ("id", "outcome", "by")),
    "void": ("voided", ("id", "reason")),
    "deposit": ("deposited", ("amount",)),
    "withdraw": ("withdrawn", ("amount",)),
    "compensate": ("compensated", ("id", "by", "amount", "reason")),
}
_KNOWN = {verb: frozenset(names) for verb, (_, names) in VERBS.items()}
_new = tuple.__new__


@dataclass(frozen=True, slots=True)
class Offer:
    """The price of a bet for the customer `by`, in whole units: `price` now, `payout` later if y = `pays_on`.

    `room` is the lowest and the highest stake that she could place now: the cap, her share of it, her line,
    the capital and the stop all leave that much. A stake beyond it has a price, but would be refused. With a
    table of losses, `action` is the best one and `loss` her total loss, whatever happens.
    """

    id: str
    mu: float
    c: float
    stake: int
    price: int
    payout: int
    pays_on: int
    by: str | list[str]
    room: tuple[int, int]
    action: str | None = None
    loss: int | None = None

    @property
    def fits(self) -> bool:
        """Whether the stake is within the room."""
        return self.room[0] <= self.stake <= self.room[1]


class Payment(NamedTuple):
    """The amount due to a customer for the stake of event `seq`: the payout, or after a void the price."""

    by: str | list[str]
    amount: int
    seq: int
    stake: int
    price: int


@dataclass(frozen=True, slots=True)
class Position:
    """A stake as its owner sees it: `ended` is None while it is open, and then "settled" or "voided"."""

    id: str
    seq: int
    at: int
    stake: int
    price: int
    mu: float
    c: float
    ended: str | None
    outcome: int | None
    paid: int


@dataclass(frozen=True, slots=True)
class OpenForecast:
    """An id that is not final: its latest forecast, and how much more may be staked on it (`left`).

    `first` is the event of its first forecast.
    """

    id: str
    first: int
    mu: float
    c: float
    version: int
    closes: int | None
    left: int
    outcome: int | None


class Book:
    """A book: forecasts, stakes, outcomes and payments, in whole units of money, in an append-only log.

    Every verb returns when it is stored, with a `Receipt`. Each takes a `key`: retry with the same key, and
    the request is done once and gets the same answer. A refused request raises, and changes nothing. Any
    number of threads, processes and hosts may use one book at the same time.

    A stake b sets the payout: b if it happens, or with b < 0 |b| if it does not. The price is due
    immediately, rounded up to a whole unit; the payout when the outcome is final. The ledger moves no money:
    it says how much is due to whom.

    Examples
    --------
    >>> import tempfile
    >>> from makewhole.ledger import Ledger
    >>> folder = tempfile.TemporaryDirectory()
    >>> with Ledger.open(f"{folder.name}/delays.db") as ledger:
    ...     book = ledger.create("ua-delays", capital=10_000_000, max_stake=100_000, unit="cent")
    ...     forecast = book.forecast("UA-123", mu=0.2)
    ...     receipt = book.stake("UA-123", by="ann", stake=10_000)
    ...     reported = book.report("UA-123", outcome=1)
    ...     settled = book.settle()
    ...     payments = book.payments("UA-123")
    >>> receipt["price"], [(payment.by, payment.amount) for payment in payments]
    (2200, [('ann', 10000)])
    >>> folder.cleanup()
    """

    def __init__(self, name: str, writer: Writer, base: BaseForecaster | None) -> None:
        self.name, self._writer, self._base = name, writer, base

    def __repr__(self) -> str:
        return f"Book({self.name!r})"

    # --- write --------------------------------------------------------------------------------------------

    def forecast(
        self,
        id: str,  # noqa: A002 - what callers call it
        *,
        mu: float | None = None,
        x: Any = None,
        c_hat: float | None = None,
        closes: Any = None,
        groups: Any = None,
        key: str | None = None,
    ) -> Receipt:
        """Publish a probability for an id; if it has one, this is a new version.

        With a model (`ledger.book(name, base=model)`) give `x` instead of `mu`. If the model's answer for `x`
        has changed, a retry with the same key is a different request. Staking ends at `closes`: a datetime
        with a time zone, its ISO text, or microseconds since 1970. The receipt's `["published"]` is μ and c.
        """
        if self._base is not None or x is not None:
            said = ask(self._base, None, (0.0, 1.0), x, mu, c_hat)
            (mu,), (c_hat,) = said
        asked = {"id": id, "mu": mu, "c_hat": c_hat, "closes": closes, "groups": groups}
        return self._one("forecast", asked, key)

    def stake(
        self,
        id: str,  # noqa: A002 - what callers call it
        *,
        by: Any,
        stake: int,
        price: int | None = None,
        key: str | None = None,
    ) -> Receipt:
        """Take a stake on the latest forecast for an id; `price` is the most that the customer would pay."""
        return self._one("stake", {"id": id, "by": by, "stake": stake, "price": price}, key)

    def report(
        self,
        id: str,  # noqa: A002 - what callers call it
        outcome: int,
        *,
        by: str | None = None,
        key: str | None = None,
    ) -> Receipt:
        """Report an outcome; it becomes final after the book's hold, and can be replaced until then."""
        return self._one("report", {"id": id, "outcome": outcome, "by": by}, key)

    def settle(
        self,
        id: str | None = None,  # noqa: A002 - what callers call it
        outcome: int | None = None,
        *,
        by: str | None = None,
        key: str | None = None,
    ) -> list[Receipt]:
        """Settle an id, or everything whose outcome is final; `payments` lists the amounts due.

        In a book without a hold, `outcome` (and its reporter, `by`) may be given here.
        """
        asked = {"do": "settle", "id": id, "outcome": outcome, "by": by, "key": key}
        return self.do_many([asked])[0].answer()

    def void(self, id: str, reason: str, *, key: str | None = None) -> Receipt:  # noqa: A002 - what callers call it
        """Void an id: every price is due back."""
        return self._one("void", {"id": id, "reason": reason}, key)

    def deposit(self, amount: int, *, key: str | None = None) -> Receipt:
        """Add to the capital."""
        return self._one("deposit", {"amount": amount}, key)

    def withdraw(self, amount: int, *, key: str | None = None) -> Receipt:
        """Withdraw part of the capital, at most what the certificate leaves."""
        return self._one("withdraw", {"amount": amount}, key)

    def compensate(
        self,
        id: str,  # noqa: A002 - what callers call it
        *,
        by: str,
        amount: int,
        reason: str,
        key: str | None = None,
    ) -> Receipt:
        """Compensate for a mistake found after the id was final: outside the certificate, and shown."""
        return self._one("compensate", {"id": id, "by": by, "amount": amount, "reason": reason}, key)

    def do_many(self, requests: Sequence[Mapping[str, Any]]) -> list[Waiting]:
        """Do many requests in this order and store them together, which is much faster.

        A request is the arguments of a verb as a dictionary, with the verb under "do". Each has its own
        answer: `answer()` returns its receipts or raises its refusal.
        """
        asked = []
        for request in requests:
            try:
                asked.append(Waiting(read_request(request)))
            except (ValueError, TypeError) as error:
                asked.append(Waiting(None, error))
        self.ask(asked)
        return asked

    def ask(self, asked: Sequence[Waiting]) -> None:
        """Do requests that were already read (`do_many`); each has its answer afterwards."""
        self._writer.ask(asked)

    def _one(self, verb: str, asked: dict[str, Any], key: str | None) -> Receipt:
        (receipt,) = self.do_many([{"do": verb, "key": key} | asked])[0].answer()
        return receipt

    # --- read ---------------------------------------------------------------------------------------------

    def quote(
        self,
        id: str,  # noqa: A002 - what callers call it
        *,
        by: Any,
        stake: int | None = None,
        payout: int | None = None,
        losses: Mapping[str, tuple[int, int]] | None = None,
    ) -> Offer:
        """Return the price of a bet for a customer; give `stake`, `payout` (if it happens) or `losses`.

        `losses` is a table {action: (loss if y = 0, loss if y = 1)} in whole units. The action is chosen
        whose loss, made certain by a bet, is smallest, among those whose bet would be taken now if there are
        any; `stake` is 0 if that needs no bet.

        A stake over the cap raises `StakeRefused`. Her own limits do not: the quote's `room` says what she
        can stake now.
        """
        if sum(given is not None for given in (stake, payout, losses)) != 1:
            raise TypeError("give one of stake, payout and losses")
        id, who = read_text("id", id), read_by(by)  # noqa: A001 - what callers call it
        with self._writer.lock:
            state = self._writer.state()
            subject = self._find(state, id)
            check_open(id, subject, self._writer.now(state))
            ((mu, c),) = state.book.own_prices(state.book.find(subject.versions[-1]), read_levels(who))
            turnover = state.money.turnover
            left, one_sided = int(state.f.max_stake) - subject.gross, state.f.one_sided
            room = find_room(state, subject, who)
        if losses is None:
            b = read_units("payout", payout, least=1) if stake is None else read_stake(stake)
            if abs(b) > left:
                raise StakeRefused(f"stake {b} is over what the cap leaves for id={id!r}: {left}", left)
            if one_sided and b < 0:
                raise StakeRefused(f"stakes must not be negative in a one-sided book; got {b}", 0.0)
            return _offer(id, who, mu, c, b, turnover, room)
        quotes = []
        for action, (if_0, if_1) in losses.items():
            low, high = read_signed("losses", if_0), read_signed("losses", if_1)
            b = high - low
            if abs(b) <= left and not (one_sided and b < 0):
                made = _offer(id, who, mu, c, b, turnover, room)
                quotes.append(replace(made, action=action, loss=made.price + (low if b >= 0 else high)))
        if not quotes:
            only = ", above 0 only: the book is one-sided" if one_sided else ""
            raise StakeRefused(f"no action can be insured: id={id!r} leaves stakes of {left}{only}", left)
        return min(quotes, key=lambda quote: (not quote.fits, quote.loss or 0))

    def payments(self, id: str) -> list[Payment]:  # noqa: A002 - what callers call it
        """The amounts due to customers for an id that was settled or voided, in order of staking."""
        with self._writer.lock:
            events = self._writer.about(read_text("id", id))
        last = next((e for e in reversed(events) if e.kind in ENDS), None)
        if last is None:
            if not events:
                raise absent(id, lambda _: None)
            return []
        end = last.data()
        due = []
        for event in events:
            if event.kind == "staked":
                body = event.data()
                stake, price = body["stake"], body["price"]
                amount = due_for(stake, price, end.get("outcome"))
                due.append(Payment(body["by"], amount, event.seq, stake, price))
        return due

    def positions(self, by: str, limit: int = 100) -> list[Position]:
        """A customer's latest stakes, newest first, and the result of each."""
        with self._writer.lock:
            stakes = self._writer.staked_by(read_text("by", by), limit)
            ends = {id_: self._writer.end_of(id_) for id_ in {str(event.about) for event in stakes}}
        positions = []
        for event in stakes:
            body, end = event.data(), ends[str(event.about)]
            stake, price = body["stake"], body["price"]
            kind, outcome = (None, None) if end is None else (end.kind, end.data().get("outcome"))
            paid = 0 if end is None else due_for(stake, price, outcome)
            known = (stake, price, body["mu"], body["c"], kind, outcome, paid)
            positions.append(Position(str(event.about), event.seq, event.at, *known))
        return positions

    def open_forecasts(self, since: int = 0, limit: int | None = None) -> list[OpenForecast]:
        """The ids that are not final, oldest first, each with its latest forecast.

        `since` and `limit` page through them: at most `limit`, whose first forecast is after event `since`.
        """
        return self.listed("age", (since + 1, ""), limit)[0]

    def listed(
        self, order: str = "closes", after: Place | None = None, limit: int | None = None, begins: str = ""
    ) -> tuple[list[OpenForecast], Place | None]:
        """A page of the ids that are not final, and the place after which the next page begins, or None.

        Parameters
        ----------
        order
            "age", "closes" (the next to close first), "chance" (the most likely first) or "name".
        after
            The place that the page before has returned.
        limit
            The most ids of a page.
        begins
            Only ids that begin with this text, in any case; the order must be "name".
        """
        if order not in ORDERS or (begins and order != "name"):
            raise ValueError(f"order must be one of {', '.join(ORDERS)}; with begins, name; got {order!r}")
        with self._writer.lock:
            state = self._writer.state()
            places = state.listing.page(state, order, after, begins)
            taken = list(islice(places, limit))
            more = taken[-1] if limit and next(places, None) is not None else None
            return [_opened(state, id_, state.subjects[id_]) for _, id_ in taken], more

    def most_used(self, limit: int) -> list[OpenForecast]:
        """The ids that are not final and have the largest sums of stakes."""
        with self._writer.lock:
            state = self._writer.state()
            found = heapq.nlargest(limit, state.subjects.items(), key=lambda item: item[1].gross)
            return [_opened(state, id_, subject) for id_, subject in found]

    def open_forecast(self, id: str) -> OpenForecast | None:  # noqa: A002 - what callers call it
        """The latest forecast for an id; None if it is final, and an `UnknownSubject` if there is none."""
        with self._writer.lock:
            state = self._writer.state()
            subject = state.subjects.get(read_text("id", id))
            if subject is not None:
                return _opened(state, id, subject)
            if self._writer.ended(id) is None:
                raise absent(id, self._writer.ended)
        return None

    def about(self, id: str) -> list[Event]:  # noqa: A002 - what callers call it
        """The events about an id, oldest first."""
        with self._writer.lock:
            return self._writer.about(read_text("id", id))

    def latest_about(self, id: str, limit: int, before: int | None = None) -> list[Event]:  # noqa: A002 - what callers call it
        """The latest events about an id, newest first; with `before`, the latest before that event."""
        with self._writer.lock:
            return self._writer.latest_about(read_text("id", id), limit, before)

    def public_keys(self) -> list[str]:
        """The keys that sign receipts, oldest first, to compare with those in receipts."""
        with self._writer.lock:
            return list(self._writer.state().keys)

    def inner_statement(self) -> Statement:
        """The statement of the underlying forecaster, whose loss is not rounded."""
        with self._writer.lock:
            told: Statement = self._writer.state().f.statement()
            return told

    def receipt(self, seq: int) -> Receipt:
        """The receipt for an event, made anew; a LookupError if there is no such event."""
        return self._writer.receipt(seq)

    @property
    def hold(self) -> int:
        """For how many microseconds an outcome can be replaced."""
        with self._writer.lock:
            return self._writer.state().hold

    def head(self) -> tuple[int, str]:
        """The number of the last event, and its hash."""
        with self._writer.lock:
            state = self._writer.state()
            return state.seq, state.hash.hex()

    def due_ids(self) -> list[str]:
        """The ids that `settle` would settle now."""
        with self._writer.lock:
            state = self._writer.state()
            return state.due(self._writer.now(state))

    def account(self, name: str) -> Any:
        """What a customer has won, and what is left of her line (`InsuredForecaster.account`)."""
        with self._writer.lock:
            return self._writer.state().f.account(name)

    def statement(self) -> BookStatement:
        """The sums of the book, its certificate, and the head of its chain."""
        with self._writer.lock:
            return state_book(self._writer.state())

    def events(self, since: int = 0, limit: int | None = None) -> Iterator[Event]:
        """The events after number `since`, oldest first, at most `limit` of them."""
        return self._writer.events(since, limit)

    def _find(self, state: State, id_: str) -> Subject:
        subject = state.subjects.get(read_text("id", id_))
        if subject is None:
            raise absent(id_, self._writer.ended)
        return subject


def _opened(state: State, id_: str, subject: Subject) -> OpenForecast:
    said = state.book.find(subject.versions[-1]).forecast
    left = 0 if subject.outcome is not None else int(state.f.max_stake) - subject.gross
    known = (said.mu, said.c, subject.forecasts, subject.closes, left, subject.outcome)
    return OpenForecast(id_, subject.first, *known)


def _offer(id_: str, by: Any, mu: float, c: float, stake: int, turnover: int, room: tuple[int, int]) -> Offer:
    price = whole_price(stake, mu, c, turnover)
    return Offer(id_, mu, c, stake, price, abs(stake), int(stake >= 0), by, room)


def read_request(given: Mapping[str, Any]) -> Request:
    """A request from plain data; an error that names what is wrong."""
    if type(given) is not dict and not isinstance(given, Mapping):  # the first check alone is much faster
        raise TypeError(f"a request must be a dictionary; got {given!r}")
    verb = given.get("do")
    if not isinstance(verb, str) or verb not in VERBS:
        raise ValueError(f"do must be one of {', '.join(VERBS)}; got {verb!r}")
    kind, names = VERBS[verb]
    known, asked = _KNOWN[verb], {}
    for name, value in given.items():
        if name in known:
            if value is not None:
                # NumPy's numbers become Python's: -5 is then below 0, and equal numbers make equal requests.
                asked[name] = value.item() if _is_number(value) else value
        elif name not in ("do", "key"):
            unknown = sorted(map(str, given.keys() - {"do", "key", *names}))
            raise TypeError(f"{verb} takes {', '.join(names)} and key; got {', '.join(unknown)}")
    if "closes" in asked:
        asked["closes"] = read_time("closes", asked["closes"])
    if "price" in asked:
        asked["most"] = asked.pop("price")
    return _new(Request, (kind, asked, given.get("key")))


def _is_number(value: Any) -> bool:
    return isinstance(value, np.generic) and not isinstance(value, (np.datetime64, np.timedelta64))


def read_time(name: str, value: Any) -> int:
    """A time as microseconds since 1970, from such a number, a datetime with a time zone, or its ISO text."""
    if isinstance(value, int) and not isinstance(value, bool):
        if not 0 <= value <= LATEST:
            raise ValueError(f"{name} must be microseconds since 1970, from 0 to {LATEST:,}")
        return value
    try:
        given = datetime.fromisoformat(value) if isinstance(value, str) else value
        if not isinstance(given, datetime) or given.tzinfo is None:
            raise ValueError
    except ValueError:
        raise ValueError(
            f"{name} must be a time with its zone, such as 2026-05-01T12:00Z; got {value!r}"
        ) from None
    return (given - _EPOCH) // timedelta(microseconds=1)
