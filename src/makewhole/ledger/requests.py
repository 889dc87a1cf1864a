"""The requests of a book: one function for every kind of event, from the state before to the state after.

The same functions decide a request, recover a book after a crash, and verify a log. Each takes the request,
refuses it or changes the state, and returns the body of the event: the request and its result. When a log is
read again, the body must come out as it was written. All records change in place, and the
journal of the state keeps the old values: a request that raises is undone by the caller.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from makewhole import arguments
from makewhole.forecasters import ask
from makewhole.insured.book import BetBook
from makewhole.insured.forecaster import InsuredForecaster
from makewhole.insured.lines import Along, read_levels
from makewhole.insured.records import Open
from makewhole.insured.refusals import CapitalNeeded, ConservationError, PriceRefused, StakeRefused
from makewhole.ledger.events import plain_text
from makewhole.ledger.money import MOST_UNITS, read_signed, read_units, whole_price
from makewhole.ledger.refusals import (
    BookExists,
    CapitalRefused,
    NotALedger,
    ReportsDisagree,
    StakingClosed,
    SubjectFinal,
    SubjectOpen,
    UnknownSubject,
)
from makewhole.ledger.state import VERSION, State, Subject

# The most characters and bytes of a text (PostgreSQL's indices keep two texts of that size), and the most
# bytes of all the names in `by`.
_LONGEST, _BYTES, _LEVELS = 500, 1_000, 1_500
LATEST = 2**62  # a time beyond is a mistake, and no database keeps it
_DAY = 24 * 60 * 60 * 1_000_000  # microseconds

Body = dict[str, Any]
# Tells how an id that is not open ended: "settled", "voided", or None if it was never forecast.
Finished = Callable[[str], str | None]


# --- reading what was asked -------------------------------------------------------------------------------


def read_text(name: str, given: Any) -> str:
    """Return a text that every database stores unchanged; an error for others."""
    if not isinstance(given, str):
        raise TypeError(f"{name} must be text; got {given!r}")
    # An Enum that is text is printed differently than it is stored.
    value = given if type(given) is str else str.__str__(given)
    if not 0 < len(value) <= _LONGEST:
        raise ValueError(f"{name} must have 1 to {_LONGEST} characters; got {len(value)}")
    if "\0" in value or (not value.isascii() and value != value.encode(errors="replace").decode()):
        raise ValueError(f"{name} must be valid text without a zero character; got {value!r}")
    if not value.isascii() and len(value.encode()) > _BYTES:
        raise ValueError(f"{name} must have at most {_BYTES:,} bytes; got {len(value.encode()):,}")
    return value


def read_by(value: Any) -> str | list[str]:
    """Return the customer: a name, or the levels that she belongs to and her own name."""
    if value is None:
        raise TypeError("by must name the customer to pay, such as by='ann'; got None")
    if isinstance(value, (list, tuple)):
        levels = [read_text("by", one) for one in value]
        size = len(plain_text(levels).encode())
        if size > _LEVELS:
            raise ValueError(f"by must have at most {_LEVELS:,} bytes, all levels as JSON; got {size:,}")
        return levels
    return read_text("by", value)


def _subject(state: State, given: Body, finished: Finished) -> tuple[str, Subject]:
    id_: Any = given.get("id")
    if type(id_) is not str:
        id_ = read_text("id", id_)
    subject = state.subjects.get(id_)
    if subject is None:
        raise absent(read_text("id", id_), finished)
    return id_, subject


def absent(id_: str, finished: Finished) -> Exception:
    """The error for an id that is not open."""
    how = finished(id_)
    if how is None:
        return UnknownSubject(f"no forecast was made for id={id_!r}: make one first")
    return SubjectFinal(f"id={id_!r} was {how}, which is final; a mistake is made good with compensate")


def check_open(id_: str, subject: Subject, at: int) -> None:
    """Refuse an id on which staking is closed."""
    if subject.outcome is not None:
        raise StakingClosed(f"an outcome was reported for id={id_!r}: nobody can stake on it any more")
    if subject.closes is not None and at >= subject.closes:
        raise StakingClosed(f"id={id_!r} closed at {subject.closes}; it is {at} (microseconds since 1970)")


# --- one function for every kind of event -----------------------------------------------------------------


def created(state: State, seq: int, at: int, given: Body, finished: Finished) -> Body:
    """Begin a book: with a forecaster as plain data, a unit, a hold, and the key that signs receipts."""
    if state.begun:
        raise BookExists(f"there is a book {state.name!r}: choose another name")
    if given["rules"] != VERSION:
        raise NotALedger(f"the book was created with rules {given['rules']}; this makewhole has {VERSION}")
    unit, key = read_text("unit", given["unit"]), read_text("key", given["key"])
    hold = arguments.whole("hold", given["hold"], least=0, most=LATEST)
    f = InsuredForecaster.from_state(given["forecaster"])
    if f.statement().rounds or f.open_forecasts:
        raise ValueError("forecaster must be new: it has forecasts that the book knows nothing of")
    state.journal.keep(state)
    state.journal.keep(state.money)
    state.begin(f)
    state.money.capital = int(f.book.capital)  # type: ignore[arg-type]  # a book has a capital
    state.unit, state.hold, state.keys = unit, hold, (key,)
    return given


def forecast(state: State, seq: int, at: int, given: Body, finished: Finished) -> Body:
    """Publish a forecast for an id, the first or a new version; stakes on older ones keep their price."""
    id_ = read_text("id", given.get("id"))
    subject, journal, book = state.subjects.get(id_), state.journal, state.book
    if subject is None:
        if finished(id_) is not None:
            raise absent(id_, finished)
        subject = Subject(first=seq)
        journal.keep_item(state.subjects, id_)
        state.subjects[id_] = subject
    else:
        check_open(id_, subject, at)
    closes = given.get("closes", subject.closes)
    if closes is not None and arguments.whole("closes", closes, least=0, most=LATEST) <= at:
        raise ValueError(f"closes must lie in the future; got {closes}, it is {at} (microseconds since 1970)")
    mu: Any = given.get("mu")
    c_hat, groups = given.get("c_hat"), given.get("groups")
    if groups is not None:
        if not isinstance(groups, (str, list, tuple)):
            raise TypeError(f"groups must be a text or a list of texts; got {groups!r}")
        groups = [read_text("groups", one) for one in ([groups] if isinstance(groups, str) else groups)]
    said = ask(None, None, state.f.c_range, None, mu, c_hat)
    (leg,) = book.open(None, said, book.read_groups(groups), seq).legs
    journal.keep(subject)
    if subject.versions and not subject.staked_on:  # it can no longer get one
        book.void(book.find(subject.versions[-1]))
        subject.versions = subject.versions[:-1]
    subject.versions = (*subject.versions, seq)
    subject.forecasts += 1
    subject.staked_on, subject.closes = 0, closes
    state.listing.touch(id_)
    body = {"id": id_, "mu": float(mu), "version": subject.forecasts, "published": [leg.mu, leg.c]}
    if c_hat is not None:
        body["c_hat"] = float(c_hat)
    if closes is not None:
        body["closes"] = closes
    if groups is not None:
        body["groups"] = groups
    return body


def staked(state: State, seq: int, at: int, given: Body, finished: Finished) -> Body:
    """Take a stake on the latest forecast for an id, at the customer's price.

    With a `receipt`, it is a promise of another book, at its old price (`_taken_over`).
    """
    id_, subject = _subject(state, given, finished)
    check_open(id_, subject, at)
    if "receipt" in given:
        return _taken_over(state, id_, subject, given)
    by = read_by(given.get("by"))
    stake = read_stake(given.get("stake"))
    book, money = state.book, state.money
    cap = int(book.max_stake)
    if subject.gross + abs(stake) > cap:
        left = cap - subject.gross
        message = f"stake {stake} is over the cap of {cap} for id={id_!r}, all its versions: {left} is left"
        raise StakeRefused(message, left)
    on = subject.versions[-1]
    entry = book.find(on)
    ((mu, c),) = book.own_prices(entry, read_levels(by))
    price = whole_price(stake, mu, c, money.turnover)
    body = {"id": id_, "by": by, "stake": stake, "on": on, "mu": mu, "c": c, "price": price}
    most = given.get("most")
    if most is not None:
        body["most"] = read_units("price", most)
        if price > most:
            raise PriceRefused(f"the price is {price} now, above price={most}", price)
    _take(book, subject, float(stake), by)
    _count_stake(state, subject, stake, price)
    subject.staked_on += 1
    return body


def _count_stake(state: State, subject: Subject, stake: int, price: int) -> None:
    money = state.money
    state.journal.keep(subject)
    state.journal.keep(money)
    subject.bets += 1
    subject.gross += abs(stake)
    subject.premiums += price
    if stake > 0:
        subject.if_1 += stake
    else:
        subject.if_0 -= stake
    money.premiums += price
    money.turnover += abs(stake)


def _taken_over(state: State, id_: str, subject: Subject, given: Body) -> Body:
    """Take over a promise that another book has lost; `receipt` is its event there.

    All that it can lose, |stake| − price, leaves the capital that new bets may use. So the loss of the book
    stays within its capital, whatever the price was. The promise counts in the share of each of
    the customer's names.
    """
    stake, price = read_stake(given["stake"]), read_units("price", given["price"])
    cover = max(0, abs(stake) - price)
    try:
        state.book.change_capital((state.book.capital or 0.0) - cover)
    except CapitalNeeded as refused:
        left = max(0, int((state.book.capital or 0.0) - refused.limit))
        message = f"the promise needs {cover} of the capital, and {left} is free: deposit {cover - left} more"
        raise CapitalRefused(message, left) from None
    _count_stake(state, subject, stake, price)
    by, held = read_by(given["by"]), subject.taken_over
    more = {name: held.get(name, 0) + abs(stake) for name in read_levels(by)}
    subject.taken_over = {**held, **more}  # a new one: the journal has the old one
    known = {name: given[name] for name in ("mu", "c", "receipt")}
    body = {"id": id_, "by": by, "stake": stake, "price": price}
    return body | {"on": subject.versions[-1]} | known


def _take(book: BetBook, subject: Subject, stake: float, by: Any) -> None:
    """Take a stake on the latest forecast for an id; the versions share the cap."""
    latest, along = _latest(book, subject)
    book.take(latest, stake, by, along=along)


def _latest(book: BetBook, subject: Subject) -> tuple[Open, Along]:
    """The latest forecast for an id, and what shares its cap."""
    *others, latest = [book.find(on) for on in subject.versions]
    return latest, Along(others, subject.taken_over)


def find_room(state: State, subject: Subject, by: Any) -> tuple[int, int]:
    """The lowest and the highest stake that a customer could place on an id now, in whole units.

    The stakes are tried and undone. If one is taken, so is every smaller one on the same side: what can be
    lost is a convex function of the stake, and the stop depends on the price alone, or on whether the stake
    lowers what can be lost.
    """
    book, journal, mark = state.book, state.journal, len(state.journal)
    left = int(book.max_stake) - subject.gross
    if book.lines is not None:  # so that the first trial is rarely refused, which is slow
        share = book.lines.share_left(*_latest(book, subject), read_levels(by))
        left = min(left, int(share + 2.0**-50 * book.max_stake))

    def limit_of(size: int, sign: int) -> int:
        """The size itself if it is taken, otherwise a smaller one that is."""
        try:
            _take(book, subject, float(sign * size), by)
        except StakeRefused as refused:
            return int(refused.limit)
        finally:
            journal.undo(mark)
        return size

    def room(sign: int) -> int:
        low, above = limit_of(left, sign), left + 1
        if low < left and limit_of(low + 1, sign) <= low:
            return low
        while above - low > 1:  # a limit can be too low where a stake also makes up for another
            middle = (low + above) // 2
            low, above = (middle, above) if limit_of(middle, sign) == middle else (low, middle)
        return low

    return -room(-1), room(1)


def read_stake(value: Any) -> int:
    """Return a stake: a whole number of units, not 0."""
    stake = value if type(value) is int else read_signed("stake", value)
    if stake == 0:
        raise ValueError("stake must not be 0: it says what is paid, above 0 if it happens, below 0 if not")
    return stake


def reported(state: State, seq: int, at: int, given: Body, finished: Finished) -> Body:
    """Note an outcome. It is final when the hold is over; until then its reporter may replace it."""
    id_, subject = _subject(state, given, finished)
    by = _note_outcome(state, id_, subject, seq, at, given)
    body = {"id": id_, "outcome": subject.outcome, "due": subject.due}
    if by is not None:
        body["by"] = by
    return body


def _note_outcome(state: State, id_: str, subject: Subject, seq: int, at: int, given: Body) -> str | None:
    """Note the outcome that is given for an id; returns its reporter."""
    outcome = arguments.outcome(given.get("outcome"), None)
    by = given.get("by")
    if by is not None:
        by = read_text("by", by)
    if subject.outcome is None or subject.outcome != outcome:
        if subject.outcome is not None and at >= subject.due:
            raise SubjectFinal(
                f"{subject.outcome} was reported for id={id_!r}, and its hold is over: settle()"
            )
        if subject.outcome is not None and (by != subject.reporter or subject.confirmed):
            raise ReportsDisagree(
                f"{subject.reporter or 'somebody'}{' and another' if subject.confirmed else ''} reported"
                f" {subject.outcome} for id={id_!r}, and {by or 'somebody'} reports {outcome}:"
                f" {'' if subject.confirmed else 'let the first replace it, or '}void the id"
            )
        state.journal.keep(subject)
        if subject.outcome is None:
            subject.reported = seq
        subject.outcome, subject.reporter, subject.due = outcome, by, at + state.hold
        state.journal.keep_item(state.reported, id_)
        state.reported[id_] = subject
    elif by != subject.reporter:
        state.journal.keep(subject)
        subject.confirmed = True
    return by


def settled(state: State, seq: int, at: int, given: Body, finished: Finished) -> Body:
    """Settle an id whose outcome is final: the promised payments are due, and the forecaster learns.

    In a book without a hold, the outcome may be given here, and need not be reported before.
    """
    id_, subject = _subject(state, given, finished)
    outcome, by = given.get("outcome"), None
    if outcome is not None and subject.outcome is None:
        if state.hold:
            raise SubjectOpen(
                f"outcomes are held for {state.hold / 1e6:g} s: report that of id={id_!r} first"
            )
        by = _note_outcome(state, id_, subject, seq, at, given)
    elif outcome is not None and outcome != subject.outcome:
        raise SubjectFinal(f"{subject.outcome} was reported for id={id_!r}; got outcome={outcome!r}")
    if subject.outcome is None:
        raise SubjectOpen(f"no outcome was reported for id={id_!r}")
    if at < subject.due:
        until = np.datetime64(subject.due // 1_000_000, "s")  # of any year, unlike a datetime
        raise SubjectOpen(f"id={id_!r} cannot be settled yet: its outcome can be replaced until {until}Z")
    book, money = state.book, state.money
    if book.thaw is not None and book.thaw.per_day is not None:
        book.begin_day(at // _DAY)
    for on in subject.versions:
        book.close(book.find(on), subject.outcome)
    payouts = subject.if_1 if subject.outcome else subject.if_0
    state.journal.keep(money)
    money.payouts += payouts
    money.earned += subject.premiums
    if money.lost > money.capital:
        raise ConservationError(f"{money.lost} was lost, more than the capital of {money.capital}: a bug")
    _end(state, id_)
    body = {
        "id": id_,
        "outcome": subject.outcome,
        "stakes": subject.bets,
        "premiums": subject.premiums,
        "payouts": payouts,
    }
    if by is not None:
        body["by"] = by
    return body


def _end(state: State, id_: str) -> None:
    """Remove an id from those that are not final."""
    for subjects in (state.subjects, state.reported):
        state.journal.keep_item(subjects, id_)
        subjects.pop(id_, None)
    state.listing.touch(id_)


def voided(state: State, seq: int, at: int, given: Body, finished: Finished) -> Body:
    """Void an id: every premium is returned, and nothing is learned. A final outcome cannot be voided."""
    id_, subject = _subject(state, given, finished)
    if subject.outcome is not None and at >= subject.due:
        raise SubjectFinal(f"{subject.outcome} was reported for id={id_!r}, and its hold is over: settle()")
    reason = read_text("reason", given.get("reason"))
    for on in subject.versions:
        state.book.void(state.book.find(on))
    state.journal.keep(state.money)
    state.money.refunds += subject.premiums
    _end(state, id_)
    return {"id": id_, "reason": reason, "stakes": subject.bets, "refunds": subject.premiums}


def deposited(state: State, seq: int, at: int, given: Body, finished: Finished) -> Body:
    """Add to the capital."""
    amount = read_units("amount", given.get("amount"), least=1)
    if state.money.capital + amount > MOST_UNITS:
        raise ValueError(f"capital must be at most {MOST_UNITS:,} units; got {amount:,} more")
    return _change_capital(state, amount)


def withdrawn(state: State, seq: int, at: int, given: Body, finished: Finished) -> Body:
    """Withdraw capital that neither losses nor open bets need."""
    amount = read_units("amount", given.get("amount"), least=1)
    try:
        body = _change_capital(state, -amount)
    except CapitalNeeded as refused:
        left = max(0, int((state.book.capital or 0.0) - refused.limit))
        message = f"amount must be at most {left}, what the certificate leaves; got {amount}"
        raise CapitalRefused(message, left) from None
    return body | {"amount": amount}


def _change_capital(state: State, more: int) -> Body:
    book = state.book
    book.change_capital((book.capital or 0.0) + more)
    state.journal.keep(state.money)
    state.money.capital += more
    return {"amount": more, "capital": state.money.capital}


def compensated(state: State, seq: int, at: int, given: Body, finished: Finished) -> Body:
    """Compensate for a mistake found too late: outside the certificate, and shown."""
    amount = read_units("amount", given.get("amount"), least=1)
    by, reason = read_text("by", given.get("by")), read_text("reason", given.get("reason"))
    id_ = read_text("id", given.get("id"))
    if id_ in state.subjects:
        raise SubjectOpen(f"id={id_!r} is not final: replace its report, or void it")
    if finished(id_) is None:
        raise absent(id_, finished)
    state.journal.keep(state.money)
    state.money.compensated += amount
    return {"id": id_, "by": by, "amount": amount, "reason": reason}


def rekeyed(state: State, seq: int, at: int, given: Body, finished: Finished) -> Body:
    """Sign receipts with a new key from now on; `key` is its public part."""
    key = read_text("key", given.get("key"))
    state.journal.keep(state)
    state.keys = (*state.keys, key)
    return {"key": key}


# The kinds of event after which an id is final.
ENDS = ("settled", "voided")

KINDS: dict[str, Callable[[State, int, int, Body, Finished], Body]] = {
    request.__name__: request
    for request in (
        created,
        forecast,
        staked,
        reported,
        settled,
        voided,
        deposited,
        withdrawn,
        compensated,
        rekeyed,
    )
}
