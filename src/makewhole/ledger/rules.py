"""The rules of a book: one function for every kind of event, from the state before to the state after.

The same functions decide a request, recover a book after a crash, and verify a log. Each takes what was asked
for, refuses it or changes the state, and returns the body of the event: what was asked, and what came of it.
When a log is read again, the body must come out as it was written.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from makewhole import arguments
from makewhole.insured.capital import CapitalNeeded, with_capital
from makewhole.insured.forecaster import InsuredForecaster
from makewhole.insured.refusals import ConservationError, PriceRefused, StakeRefused
from makewhole.ledger.events import ORIGIN, plain_text
from makewhole.ledger.in_place import InPlace, in_place
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

# The rules as they are here. There is one set so far: whoever changes what a rule does keeps the old, too.
RULES = 1

# A text may have so many characters, and so many bytes: PostgreSQL keeps no more of two in an index. And so
# many bytes for all the levels that somebody belongs to.
_LONGEST, _BYTES, _LEVELS = 500, 1_000, 1_500
LATEST = 2**62  # a time beyond is a mistake, and no database keeps it
_DAY = 24 * 60 * 60 * 1_000_000  # microseconds

Body = dict[str, Any]
# Says of an id that is not open how it ended: "settled", "voided", or None if it was never forecast.
Finished = Callable[[str], str | None]


@dataclass(slots=True)
class Subject:
    """What a promise is about, such as a flight: its forecasts, the sums of its stakes, and its outcome.

    `versions` are the events of the forecasts that have stakes, and of the latest. `if_1` and `if_0` are what
    is to be paid after each outcome.
    """

    versions: list[int] = field(default_factory=list)
    forecasts: int = 0
    staked_on: int = 0  # how many stakes the latest forecast has
    closes: int | None = None
    bets: int = 0
    gross: int = 0
    premiums: int = 0
    if_1: int = 0
    if_0: int = 0
    outcome: int | None = None
    reporter: str | None = None
    due: int = 0  # when the outcome becomes final
    confirmed: bool = False  # whether somebody else has reported the same

    def to_plain(self) -> dict[str, Any]:
        """All of it as plain data; what earlier versions did not know only if it says something."""
        plain = asdict(self)
        if not self.confirmed:
            del plain["confirmed"]
        return plain


@dataclass(slots=True)
class Money:
    """The sums of a book in whole units.

    `turnover` is the sum of the sizes of all stakes, and `earned` the premiums of what is settled.
    """

    capital: int = 0
    turnover: int = 0
    premiums: int = 0
    earned: int = 0
    payouts: int = 0
    refunds: int = 0
    compensated: int = 0

    @property
    def lost(self) -> int:
        """What was lost on everything that is settled; below 0 if it was won."""
        return self.payouts - self.earned

    @property
    def cash(self) -> int:
        """What should be there now: the capital and the premiums, less what was paid."""
        return self.capital + self.premiums - self.payouts - self.refunds


class State:
    """All that a log says of a book, up to the event `seq`."""

    __slots__ = (
        "_f",
        "_steps",
        "at",
        "cap",
        "counts_days",
        "hash",
        "hold",
        "keys",
        "money",
        "name",
        "reported",
        "seq",
        "subjects",
        "unit",
    )

    def __init__(self, name: str) -> None:
        self.name, self.seq, self.hash, self.at = name, 0, ORIGIN, 0
        self._f: Any = None
        self._steps: InPlace | None = None
        self.cap = 0  # the most that all stakes on one id may pay
        self.counts_days = False  # whether its thaw is limited by the day
        self.unit, self.hold = "", 0
        self.keys: list[str] = []  # the public keys that sign receipts, the present one last
        self.subjects: dict[str, Subject] = {}
        self.reported: dict[str, Subject] = {}  # those of them that have an outcome
        self.money = Money()

    @property
    def f(self) -> Any:
        """The InsuredForecaster, once there is one; it has all that was done in place."""
        if self._steps is not None:
            self._steps.put_back()
            self._steps = None
        return self._f

    @f.setter
    def f(self, f: Any) -> None:
        self._f, self._steps, self.cap = f, None, int(f.max_stake)
        self.counts_days = f.thaw is not None and f.thaw.per_day is not None

    @property
    def begun(self) -> bool:
        """Whether the book was created."""
        return self._f is not None

    @property
    def steps(self) -> InPlace | None:
        """The forecaster's steps in place; None if its book is not one that has them."""
        if self._steps is None:
            self._steps = in_place(self._f)
        return self._steps

    @property
    def key(self) -> str:
        """The public key that signs receipts now."""
        return self.keys[-1] if self.keys else ""

    def due(self, at: int) -> list[str]:
        """The ids whose outcome is final by then."""
        return [id_ for id_, subject in self.reported.items() if subject.due <= at]

    def to_plain(self) -> dict[str, Any]:
        """The state as plain data."""
        return {
            "seq": self.seq,
            "hash": self.hash.hex(),
            "at": self.at,
            "unit": self.unit,
            "hold": self.hold,
            "keys": self.keys,
            "money": asdict(self.money),
            "subjects": [[id_, subject.to_plain()] for id_, subject in self.subjects.items()],
            "reported": list(self.reported),
            "forecaster": self.f.to_state(),
        }

    @classmethod
    def from_plain(cls, name: str, plain: dict[str, Any]) -> State:
        """The state for which `to_plain` returned this."""
        made = cls(name)
        for part in ("seq", "at", "unit", "hold", "keys"):
            setattr(made, part, plain[part])
        made.hash = bytes.fromhex(plain["hash"])
        made.money = Money(**plain["money"])
        made.subjects = {id_: Subject(**subject) for id_, subject in plain["subjects"]}
        made.reported = {id_: made.subjects[id_] for id_ in plain["reported"]}
        made.f = InsuredForecaster.from_state(plain["forecaster"])
        return made


# --- reading what was asked -------------------------------------------------------------------------------


def read_text(name: str, given: Any) -> str:
    """Return a text that every database keeps as it is; an error for others."""
    if not isinstance(given, str):
        raise TypeError(f"{name} must be text; got {given!r}")
    # An Enum that is text prints itself in another way than it is stored.
    value = given if type(given) is str else str.__str__(given)
    if not 0 < len(value) <= _LONGEST:
        raise ValueError(f"{name} must have 1 to {_LONGEST} characters; got {len(value)}")
    if "\0" in value or (not value.isascii() and value != value.encode(errors="replace").decode()):
        raise ValueError(f"{name} must be valid text without a zero character; got {value!r}")
    if not value.isascii() and len(value.encode()) > _BYTES:
        raise ValueError(f"{name} must have at most {_BYTES:,} bytes; got {len(value.encode()):,}")
    return value


def read_by(value: Any) -> str | list[str]:
    """Return who bets: a name, or the levels that she belongs to and herself."""
    if value is None:
        raise TypeError("by must name who stakes: somebody has to be paid")
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
    """Refuse an id on which nobody can stake any more."""
    if subject.outcome is not None:
        raise StakingClosed(f"an outcome was reported for id={id_!r}: nobody can stake on it any more")
    if subject.closes is not None and at >= subject.closes:
        raise StakingClosed(f"id={id_!r} closed at {subject.closes}; it is {at} (microseconds since 1970)")


# --- one function for every kind of event -----------------------------------------------------------------


def created(state: State, seq: int, at: int, given: Body, finished: Finished) -> Body:
    """Begin a book: with a forecaster as plain data, a unit, a hold, and the key that signs receipts."""
    if state.begun:
        raise BookExists(f"there is a book {state.name!r}: choose another name")
    if given["rules"] != RULES:
        raise NotALedger(f"the book was created with rules {given['rules']}; this makewhole has {RULES}")
    unit, key = read_text("unit", given["unit"]), read_text("key", given["key"])
    hold = arguments.whole("hold", given["hold"], least=0, most=LATEST)
    f = InsuredForecaster.from_state(given["forecaster"])
    if f.statement().rounds or f.open_forecasts:
        raise ValueError("forecaster must be new: it has forecasts that the book knows nothing of")
    state.f, state.money = f, Money(capital=int(f.capital))  # type: ignore[arg-type]  # a book has a capital
    state.unit, state.hold, state.keys = unit, hold, [key]
    return given


def forecast(state: State, seq: int, at: int, given: Body, finished: Finished) -> Body:
    """Publish a forecast for an id, the first or a new version; stakes on older ones keep their price."""
    id_ = read_text("id", given.get("id"))
    subject = state.subjects.get(id_)
    if subject is None:
        if finished(id_) is not None:
            raise absent(id_, finished)
        subject = Subject()
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
    steps = state.steps if c_hat is None and groups is None else None
    if steps is not None and type(mu) is float and 0.0 <= mu <= 1.0:
        published = list(steps.open(seq, mu))
    else:
        made = state.f.forecast(mu=mu, c_hat=c_hat, groups=groups, id=seq)
        published = [made.mu, made.c]
    if subject.versions and not subject.staked_on:
        state.f.void(subject.versions.pop())  # nobody can stake on it any more
    subject.versions.append(seq)
    subject.forecasts += 1
    subject.staked_on, subject.closes = 0, closes
    state.subjects[id_] = subject
    body = {"id": id_, "mu": float(mu), "version": subject.forecasts, "published": published}
    if c_hat is not None:
        body["c_hat"] = float(c_hat)
    if closes is not None:
        body["closes"] = closes
    if groups is not None:
        body["groups"] = groups
    return body


def staked(state: State, seq: int, at: int, given: Body, finished: Finished) -> Body:
    """Take a stake on the latest forecast for an id, at the price of whoever stakes."""
    id_, subject = _subject(state, given, finished)
    check_open(id_, subject, at)
    by = read_by(given.get("by"))
    stake = read_stake(given.get("stake"))
    cap = state.cap
    if subject.gross + abs(stake) > cap:
        left = cap - subject.gross
        message = f"stake {stake} is over the cap of {cap} for id={id_!r}, all its versions: {left} is left"
        raise StakeRefused(message, left)
    on = subject.versions[-1]
    steps = state.steps if isinstance(by, str) else None
    quoted = None if steps is None else steps.price(on, by)
    if quoted is None:
        steps, quote = None, state.f.quote(on, by=by)
        quoted = quote.mu, quote.c, 0.0
    mu, c, own = quoted
    price = whole_price(stake, mu, c, state.money.turnover)
    body = {"id": id_, "by": by, "stake": stake, "on": on, "mu": mu, "c": c, "price": price}
    most = given.get("most")
    if most is not None:
        body["most"] = read_units("price", most)
        if price > most:
            raise PriceRefused(f"the price is {price} now, above price={most}", price)
    if steps is None or not steps.stake(on, float(stake), by, own):
        state.f.stake(on, float(stake), by=by)
    subject.bets += 1
    subject.staked_on += 1
    subject.gross += abs(stake)
    subject.premiums += price
    if stake > 0:
        subject.if_1 += stake
    else:
        subject.if_0 -= stake
    state.money.premiums += price
    state.money.turnover += abs(stake)
    return body


def read_stake(value: Any) -> int:
    """Return a stake: a whole number of units, not 0."""
    stake = value if type(value) is int else read_signed("stake", value)
    if stake == 0:
        raise ValueError("stake must not be 0: it says what is paid, above 0 if it happens, below 0 if not")
    return stake


def reported(state: State, seq: int, at: int, given: Body, finished: Finished) -> Body:
    """Note an outcome. It is final when the hold is over; until then whoever reported it may replace it."""
    id_, subject = _subject(state, given, finished)
    by = _note_outcome(state, id_, subject, at, given)
    body = {"id": id_, "outcome": subject.outcome, "due": subject.due}
    if by is not None:
        body["by"] = by
    return body


def _note_outcome(state: State, id_: str, subject: Subject, at: int, given: Body) -> str | None:
    """Note the outcome that is given for an id; returns who reports it."""
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
        subject.outcome, subject.reporter, subject.due = outcome, by, at + state.hold
        state.reported[id_] = subject
    elif by != subject.reporter:
        subject.confirmed = True
    return by


def settled(state: State, seq: int, at: int, given: Body, finished: Finished) -> Body:
    """Settle an id whose outcome is final: what was promised is due, and the forecaster learns.

    Where nothing is held, the outcome may be given here, and need not be reported before.
    """
    id_, subject = _subject(state, given, finished)
    outcome, by = given.get("outcome"), None
    if outcome is not None and subject.outcome is None:
        if state.hold:
            raise SubjectOpen(
                f"outcomes are held for {state.hold / 1e6:g} s: report that of id={id_!r} first"
            )
        by = _note_outcome(state, id_, subject, at, given)
    elif outcome is not None and outcome != subject.outcome:
        raise SubjectFinal(f"{subject.outcome} was reported for id={id_!r}; got outcome={outcome!r}")
    if subject.outcome is None:
        raise SubjectOpen(f"no outcome was reported for id={id_!r}")
    if at < subject.due:
        raise SubjectOpen(f"the outcome of id={id_!r} is held until {subject.due}; it is {at}")
    if state.counts_days:
        state.f.begin_day(at // _DAY)
    for on in subject.versions:
        steps = state.steps
        if steps is None or not steps.settle(on, subject.outcome):
            state.f.settle(on, subject.outcome)
    payouts = subject.if_1 if subject.outcome else subject.if_0
    money = state.money
    money.payouts += payouts
    money.earned += subject.premiums
    if money.lost > money.capital:
        raise ConservationError(f"{money.lost} was lost, more than the capital of {money.capital}: a bug")
    del state.subjects[id_], state.reported[id_]
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


def voided(state: State, seq: int, at: int, given: Body, finished: Finished) -> Body:
    """Call an id off: every premium is returned, and nothing is learned. What is final stays so."""
    id_, subject = _subject(state, given, finished)
    if subject.outcome is not None and at >= subject.due:
        raise SubjectFinal(f"{subject.outcome} was reported for id={id_!r}, and its hold is over: settle()")
    reason = read_text("reason", given.get("reason"))
    for on in subject.versions:
        state.f.void(on)
    state.money.refunds += subject.premiums
    del state.subjects[id_]
    state.reported.pop(id_, None)
    return {"id": id_, "reason": reason, "stakes": subject.bets, "refunds": subject.premiums}


def deposited(state: State, seq: int, at: int, given: Body, finished: Finished) -> Body:
    """Add to the capital."""
    amount = read_units("amount", given.get("amount"), least=1)
    if state.money.capital + amount > MOST_UNITS:
        raise ValueError(f"capital must be at most {MOST_UNITS:,} units; got {amount:,} more")
    state.f = with_capital(state.f, state.f.capital + amount)
    state.money.capital += amount
    return {"amount": amount, "capital": state.money.capital}


def withdrawn(state: State, seq: int, at: int, given: Body, finished: Finished) -> Body:
    """Take out of the capital what neither losses nor open bets need."""
    amount = read_units("amount", given.get("amount"), least=1)
    try:
        state.f = with_capital(state.f, state.f.capital - amount)
    except CapitalNeeded as refused:
        left = max(0, int(state.f.capital - refused.limit))
        message = f"amount must be at most {left}, what the certificate leaves; got {amount}"
        raise CapitalRefused(message, left) from None
    state.money.capital -= amount
    return {"amount": amount, "capital": state.money.capital}


def compensated(state: State, seq: int, at: int, given: Body, finished: Finished) -> Body:
    """Make good a mistake that was found too late: outside the certificate, and shown."""
    amount = read_units("amount", given.get("amount"), least=1)
    by, reason = read_text("by", given.get("by")), read_text("reason", given.get("reason"))
    id_ = read_text("id", given.get("id"))
    if id_ in state.subjects:
        raise SubjectOpen(f"id={id_!r} is not final: replace its report, or void it")
    if finished(id_) is None:
        raise absent(id_, finished)
    state.money.compensated += amount
    return {"id": id_, "by": by, "amount": amount, "reason": reason}


def rekeyed(state: State, seq: int, at: int, given: Body, finished: Finished) -> Body:
    """Sign receipts with another key from here on; `key` is its public part."""
    key = read_text("key", given.get("key"))
    state.keys.append(key)
    return {"key": key}


# The kinds of event after which an id is final.
ENDS = ("settled", "voided")

KINDS: dict[str, Callable[[State, int, int, Body, Finished], Body]] = {
    rule.__name__: rule
    for rule in (
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
