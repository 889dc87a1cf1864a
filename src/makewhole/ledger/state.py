"""The state of a book, as the events of its log make it: ids with their stakes, money, and a forecaster."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from makewhole.corrections.names import Name
from makewhole.insured.book import BetBook
from makewhole.insured.forecaster import InsuredForecaster, plain_forecaster
from makewhole.insured.journal import Journal, Journaled
from makewhole.ledger.events import ORIGIN
from makewhole.ledger.listing import Listing
from makewhole.ledger.refusals import NotALedger

# The version of what the functions in `requests` do. A book of another version is not read.
VERSION = 3


@dataclass
class Subject(Journaled):
    """The subject of a promise, such as a flight: its forecasts, the sums of its stakes, and its outcome.

    `first` is the event of its first forecast, and `reported` that of the outcome. `versions` are the events
    of the forecasts that have stakes, and of the latest. `if_1` and `if_0` are what is to be paid after each
    outcome. `taken_over` is what each name holds here in promises of other books.
    """

    first: int
    versions: tuple[int, ...] = ()
    forecasts: int = 0
    staked_on: int = 0  # how many stakes the latest forecast has
    closes: int | None = None
    bets: int = 0
    gross: int = 0
    premiums: int = 0
    if_1: int = 0
    if_0: int = 0
    taken_over: dict[Name, int] = field(default_factory=dict)
    outcome: int | None = None
    reporter: str | None = None
    reported: int = 0
    due: int = 0  # when the outcome becomes final
    confirmed: bool = False  # whether another reporter has reported the same

    changing = (
        "versions",
        "forecasts",
        "staked_on",
        "closes",
        "bets",
        "gross",
        "premiums",
        "if_1",
        "if_0",
        "taken_over",
        "outcome",
        "reporter",
        "reported",
        "due",
        "confirmed",
    )


@dataclass
class Money(Journaled):
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

    changing = ("capital", "turnover", "premiums", "earned", "payouts", "refunds", "compensated")

    @property
    def lost(self) -> int:
        """The loss on everything that is settled; below 0 for a profit."""
        return self.payouts - self.earned

    @property
    def cash(self) -> int:
        """The cash that should be there now: the capital and the premiums, minus what was paid."""
        return self.capital + self.premiums - self.payouts - self.refunds


class State(Journaled):
    """The state of a book, up to the event `seq` of its log."""

    __slots__ = (
        "at",
        "f",
        "hash",
        "hold",
        "journal",
        "keys",
        "listing",
        "money",
        "name",
        "reported",
        "seq",
        "subjects",
        "unit",
    )
    changing = ("seq", "hash", "at", "f", "hold", "unit", "keys")

    def __init__(self, name: str) -> None:
        self.name, self.seq, self.hash, self.at = name, 0, ORIGIN, 0
        self.journal = Journal()
        self.f: Any = None  # the InsuredForecaster, once the book was created
        self.unit, self.hold = "", 0
        self.keys: tuple[str, ...] = ()  # the public keys that sign receipts, the present one last
        self.subjects: dict[str, Subject] = {}
        self.reported: dict[str, Subject] = {}  # those of them that have an outcome
        self.money = Money()
        self.listing = Listing()

    @property
    def begun(self) -> bool:
        """Whether the book was created."""
        return self.f is not None

    @property
    def book(self) -> BetBook:
        """The forecaster's book, whose steps the requests take."""
        made: BetBook = self.f.book
        return made

    @property
    def key(self) -> str:
        """The public key that signs receipts now."""
        return self.keys[-1] if self.keys else ""

    def begin(self, f: InsuredForecaster) -> None:
        """Use this forecaster: its changes go into the journal of the state."""
        f.book.share_journal(self.journal)
        self.f = f

    def due(self, at: int) -> list[str]:
        """The ids whose outcome is final by then, in the order in which they were reported."""
        found = [(subject.reported, id_) for id_, subject in self.reported.items() if subject.due <= at]
        return [id_ for _, id_ in sorted(found)]

    def in_order(self) -> list[tuple[str, Subject]]:
        """The ids that are not final, the oldest first."""
        return sorted(self.subjects.items(), key=lambda item: item[1].first)

    def to_plain(self) -> dict[str, Any]:
        """The state as plain data: the same for the same state, however it was reached."""
        return {
            "rules": VERSION,
            "seq": self.seq,
            "hash": self.hash.hex(),
            "at": self.at,
            "unit": self.unit,
            "hold": self.hold,
            "keys": list(self.keys),
            "money": asdict(self.money),
            "subjects": [[id_, asdict(subject)] for id_, subject in self.in_order()],
            "forecaster": plain_forecaster(self.f),
        }

    @classmethod
    def from_plain(cls, name: str, plain: dict[str, Any]) -> State:
        """The state for which `to_plain` returned this; NotALedger if that was of another version."""
        if plain.get("rules") != VERSION:
            raise NotALedger(f"the book has a snapshot of other rules than this makewhole, {VERSION}")
        made = cls(name)
        for part in ("seq", "at", "unit", "hold"):
            setattr(made, part, plain[part])
        made.hash, made.keys = bytes.fromhex(plain["hash"]), tuple(plain["keys"])
        made.money = Money(**plain["money"])
        for id_, subject in plain["subjects"]:
            read = Subject(**subject)
            read.versions = tuple(read.versions)
            made.subjects[id_] = read
            if read.outcome is not None:
                made.reported[id_] = read
        made.begin(InsuredForecaster.from_state(plain["forecaster"]))
        return made
