"""A book in plain numbers: what a ledger should do, written apart from its rules, for comparison."""

from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil
from typing import Any

import makewhole as mw
from makewhole.ledger import (
    CapitalRefused,
    KeyConflict,
    Receipt,
    ReportsDisagree,
    StakingClosed,
    SubjectFinal,
    SubjectOpen,
    UnknownSubject,
)


@dataclass
class Thing:
    """What is known of an id."""

    closes: int | None = None
    stakes: list[tuple[int, int]] = field(default_factory=list)  # what is paid, and its price
    held: Counter[str] = field(default_factory=Counter)  # the sum of the sizes, by customer
    told: tuple[int, str | None, int] | None = None  # outcome, reporter, when it is final
    agreed: bool = False  # whether somebody else reported the same
    published: tuple[float, float] = (0.0, 0.0)
    end: str | None = None

    def price(self) -> int:
        return sum(price for _, price in self.stakes)

    def pays(self, outcome: int) -> int:
        return sum(abs(b) for b, _ in self.stakes if (b > 0) == bool(outcome))

    def gross(self) -> int:
        return sum(abs(b) for b, _ in self.stakes)

    def worst(self) -> int:
        return max(self.pays(0), self.pays(1)) - self.price()


def customer(by: str | list[str]) -> str:
    """Whose stake it is: the last of her names."""
    return by if isinstance(by, str) else by[-1]


class Model:
    """The book. `check` is told a request and its answer, says what should have come of it, and follows."""

    def __init__(self, capital: int, max_stake: int, hold: int, one_sided: bool, each: int) -> None:
        """`each` is the most that one customer may hold of an id."""
        self.capital, self.max_stake, self.hold, self.one_sided = capital, max_stake, hold, one_sided
        self.each = each
        self.things: dict[str, Thing] = {}
        self.premiums = self.payouts = self.refunds = self.compensated = self.lost = 0
        self.events, self.at = 1, 0
        self.keys: dict[str, tuple[dict[str, Any], list[int]]] = {}

    def open(self) -> dict[str, Thing]:
        return {id_: thing for id_, thing in self.things.items() if thing.end is None}

    # --- what should be refused -----------------------------------------------------------------------------

    def refusal(self, asked: dict[str, Any], now: int) -> type[Exception] | None:
        """The refusal that must come, if the model knows of one."""
        key = asked.get("key")
        if key in self.keys:
            return None if self.keys[key][0] == asked else KeyConflict
        verb, id_ = asked["do"], asked.get("id")
        if id_ is None or verb == "forecast":
            thing = self.things.get(id_ or "")
            return self._closed(thing, now) if thing is not None else None
        thing = self.things.get(id_)
        if thing is None:
            return UnknownSubject
        if verb == "compensate":
            return SubjectOpen if thing.end is None else None
        if thing.end is not None:
            return SubjectFinal
        return self._refused_while_open(asked, thing, now)

    def _closed(self, thing: Thing, now: int) -> type[Exception] | None:
        if thing.end is not None:
            return SubjectFinal
        if thing.told is not None or (thing.closes is not None and now >= thing.closes):
            return StakingClosed
        return None

    def _refused_while_open(self, asked: dict[str, Any], thing: Thing, now: int) -> type[Exception] | None:
        if asked["do"] == "stake":
            if self._closed(thing, now):
                return StakingClosed
            size = abs(asked["stake"])
            over = thing.gross() + size > self.max_stake
            over |= thing.held[customer(asked["by"])] + size > self.each
            return mw.StakeRefused if over or (self.one_sided and asked["stake"] < 0) else None
        if asked["do"] == "settle":
            return SubjectOpen if thing.told is None or now < thing.told[2] else None
        if asked["do"] == "report" and thing.told is not None and thing.told[0] != asked["outcome"]:
            if now >= thing.told[2]:
                return SubjectFinal
            return ReportsDisagree if thing.agreed or thing.told[1] != asked.get("by") else None
        if asked["do"] == "void" and thing.told is not None and now >= thing.told[2]:
            return SubjectFinal
        return None

    # --- what should come of it -----------------------------------------------------------------------------

    def check(self, asked: dict[str, Any], answer: list[Receipt] | Exception, now: int) -> None:
        """Compare the answer to a request with what it should be, and go on from there."""
        now = max(self.at, now)
        expected = self.refusal(asked, now)
        if expected is not None:
            assert isinstance(answer, expected), f"{asked}: {answer!r}, not {expected.__name__}"
            return
        if isinstance(answer, Exception):
            self._only_for_money(asked, answer)
            return
        key = asked.get("key")
        if key in self.keys:
            assert [receipt.seq for receipt in answer] == self.keys[key][1]
            return
        first = self.events + 1
        self.events += len(answer)
        seqs = list(range(first, self.events + 1))
        assert [receipt.seq for receipt in answer] == seqs
        assert all(receipt.event.at == now for receipt in answer)
        if key is not None:
            self.keys[key] = asked, seqs
        if answer:
            self.at = now
        getattr(self, "_" + asked["do"])(asked, answer, now)

    def _only_for_money(self, asked: dict[str, Any], error: Exception) -> None:
        """What a model without prices does not foresee: that the capital or a line does not leave it."""
        if asked["do"] == "withdraw":
            assert isinstance(error, CapitalRefused)
            assert error.limit < asked["amount"]
        else:
            assert asked["do"] == "stake", f"{asked}: {error!r}"
            assert isinstance(error, mw.StakeRefused), repr(error)
            if isinstance(error, mw.PriceRefused):
                assert error.limit > asked["price"]
            else:
                assert error.limit < abs(asked["stake"])

    def _forecast(self, asked: dict[str, Any], answer: list[Receipt], now: int) -> None:
        thing = self.things.setdefault(asked["id"], Thing())
        thing.closes = asked.get("closes", thing.closes)
        mu, c = thing.published = answer[0]["published"]
        assert mu - c >= 0
        assert mu + c <= 1 or self.one_sided

    def _stake(self, asked: dict[str, Any], answer: list[Receipt], now: int) -> None:
        thing, b = self.things[asked["id"]], asked["stake"]
        mu, c, price = (answer[0][name] for name in ("mu", "c", "price"))
        share = Fraction(mu) + Fraction(c) if b > 0 else 1 - Fraction(mu) + Fraction(c)
        exact = abs(b) * share
        assert price == max(0, ceil(exact - Fraction(abs(b), 2**50)))
        assert c >= thing.published[1] or self.one_sided
        assert price <= asked.get("price", price)
        thing.stakes.append((b, price))
        thing.held[customer(asked["by"])] += abs(b)
        self.premiums += price

    def _report(self, asked: dict[str, Any], answer: list[Receipt], now: int) -> None:
        thing = self.things[asked["id"]]
        if thing.told is None or thing.told[0] != asked["outcome"]:
            thing.told = asked["outcome"], asked.get("by"), now + self.hold
        elif asked.get("by") != thing.told[1]:
            thing.agreed = True
        assert answer[0]["due"] == thing.told[2]

    def _settle(self, asked: dict[str, Any], answer: list[Receipt], now: int) -> None:
        due = {id_ for id_, thing in self.open().items() if thing.told and thing.told[2] <= now}
        assert {receipt["id"] for receipt in answer} == ({asked["id"]} if "id" in asked else due)
        for receipt in answer:
            thing = self.things[receipt["id"]]
            assert thing.told is not None
            pays = thing.pays(thing.told[0])
            assert (receipt["outcome"], receipt["payouts"]) == (thing.told[0], pays)
            assert (receipt["premiums"], receipt["stakes"]) == (thing.price(), len(thing.stakes))
            self.payouts += pays
            self.lost += pays - thing.price()
            assert self.lost <= self.capital
            thing.end = "settled"

    def _void(self, asked: dict[str, Any], answer: list[Receipt], now: int) -> None:
        thing = self.things[asked["id"]]
        assert answer[0]["refunds"] == thing.price()
        self.refunds += thing.price()
        thing.end = "voided"

    def _deposit(self, asked: dict[str, Any], answer: list[Receipt], now: int) -> None:
        self.capital += asked["amount"]

    def _withdraw(self, asked: dict[str, Any], answer: list[Receipt], now: int) -> None:
        self.capital -= asked["amount"]

    def _compensate(self, asked: dict[str, Any], answer: list[Receipt], now: int) -> None:
        self.compensated += asked["amount"]

    def due(self, id_: str) -> list[int]:
        """What is due for an id, stake by stake."""
        thing = self.things[id_]
        if thing.end == "voided":
            return [price for _, price in thing.stakes]
        if thing.end is None or thing.told is None:
            return []
        return [abs(b) if (b > 0) == bool(thing.told[0]) else 0 for b, _ in thing.stakes]
