"""The records of a book: open forecasts, the stakes on them, customers' accounts, and sums over forecasts.

They change in place; `changing` names the fields that do, which the `Journal` keeps before they change.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from makewhole import arguments, rules
from makewhole.corrections import Proposal
from makewhole.corrections.names import Name
from makewhole.decisions import Forecast, binary_forecast, class_forecast
from makewhole.insured.journal import Journal, Journaled
from makewhole.insured.totals import Totals

# Names a forecast or a bettor: any text or whole number.
Id = str | int


class Stake(NamedTuple):
    """A bet: one amount per leg, and the customer's name, if she gave one.

    On classes at one price, which are one leg, that amount is a tuple with a number for each class. `levels`
    are the names whose lines the stake counts in. `surcharges` is what it costs in addition to the published
    price, on each leg; empty if nothing.
    """

    amounts: tuple[Any, ...]
    by: Id | None = None
    levels: tuple[Name, ...] = ()
    surcharges: tuple[float, ...] = ()


class Leg(Journaled):
    """One binary bet within a forecast: the event itself, or one of its classes.

    `mu` and `c` are what was published and `mu_hat` and `c_hat` what the base said. The correction's target
    is measured from `origin`; `proposal` says which λ to credit. Under a reserve that is over another
    correction, `inner` is that correction's proposal. `room` is what the leg could lose if it were staked in
    full. `net`, `gross` and `surcharge` sum up the stakes.
    """

    __slots__ = (
        "c",
        "c_hat",
        "gross",
        "inner",
        "mu",
        "mu_hat",
        "net",
        "origin",
        "proposal",
        "room",
        "surcharge",
    )
    changing = ("net", "gross", "surcharge")

    def __init__(
        self,
        mu: float,
        c: float,
        origin: float,
        proposal: Proposal,
        mu_hat: float,
        c_hat: float,
        inner: Proposal | None,
        room: float,
    ) -> None:
        self.mu = mu
        self.c = c
        self.origin = origin
        self.proposal = proposal
        self.mu_hat = mu_hat
        self.c_hat = c_hat
        self.inner = inner
        self.room = room
        self.net = self.gross = self.surcharge = 0.0

    def unstaked(self) -> Leg:
        """The same leg without stakes, to sum up those of one customer."""
        made = (self.mu, self.c, self.origin, self.proposal)
        return Leg(*made, self.mu_hat, self.c_hat, self.inner, self.room)

    def add(self, journal: Journal, b: float, surcharge: float) -> None:
        """Add a stake."""
        journal.append((self, (self.net, self.gross, self.surcharge)))
        self.net += b
        self.gross += abs(b)
        self.surcharge += surcharge

    def gross_stakes(self) -> tuple[float, ...]:
        """The sums that the cap limits."""
        return (self.gross,)

    def pay(self, b: float, y: float) -> float:
        """What a stake receives, before its surcharge."""
        paid: float = rules.payment(b, y, self.mu, self.c)
        return paid

    def worst_loss(self) -> float:
        """The most that the stakes can lose."""
        return rules.worst_loss(self.net, self.gross, self.mu, self.c, self.surcharge)

    def balance(self, y: float, cap: float) -> tuple[float, float, float]:
        """The loss at the published price, the target and the weight."""
        return rules.balance(self.mu, self.c, self.origin, y, self.net, self.gross, cap)


class SharedLeg(Journaled):
    """All classes of a forecast at one price, which are one bet (docs/theory.md, Theorem G).

    The same stake on every class neither wins nor loses: one class happens, and the μ add up to 1. So a
    stake is paid without its median, and costs c times its size, the sum of the distances from the median.
    The correction sees one bet with an outcome between −1 and 1. `nets` and `grosses` sum up the
    stakes on each class, `median` their medians, `gross` their sizes. The rest is as in `Leg`.
    """

    __slots__ = (
        "c",
        "c_hat",
        "gross",
        "grosses",
        "inner",
        "median",
        "mus",
        "nets",
        "origin",
        "proposal",
        "room",
    )
    changing = ("nets", "grosses", "median", "gross")
    surcharge = 0.0  # there are no customers' lines at one price

    def __init__(
        self,
        mus: tuple[float, ...],
        c: float,
        origin: float,
        proposal: Proposal,
        c_hat: float,
        inner: Proposal | None,
        room: float,
    ) -> None:
        self.mus, self.c, self.origin, self.proposal = mus, c, origin, proposal
        self.c_hat, self.inner, self.room = c_hat, inner, room
        self.nets = self.grosses = (0.0,) * len(mus)
        self.median = self.gross = 0.0

    def add(self, journal: Journal, amounts: tuple[float, ...], surcharge: float) -> None:
        """Add a stake on all classes."""
        journal.append((self, (self.nets, self.grosses, self.median, self.gross)))
        median, size = rules.median_and_size(amounts)
        self.nets = tuple([net + b for net, b in zip(self.nets, amounts, strict=True)])
        self.grosses = tuple([gross + abs(b) for gross, b in zip(self.grosses, amounts, strict=True)])
        self.median += median
        self.gross += size

    def gross_stakes(self) -> tuple[float, ...]:
        """The sums that the cap limits, one for each class."""
        return self.grosses

    def pay(self, amounts: tuple[float, ...], y: int) -> float:
        """What a stake receives."""
        median, size = rules.median_and_size(amounts)
        return rules.fair_gain(amounts, median, self.mus, amounts[y]) - size * self.c

    def worst_loss(self) -> float:
        """The most that the stakes can lose: the class with the largest net stake happens."""
        worst = rules.fair_gain(self.nets, self.median, self.mus, max(self.nets)) - self.gross * self.c
        return worst if worst > 0.0 else 0.0

    def balance(self, y: int, cap: float) -> tuple[float, float, float]:
        """The loss, the target and the weight: the stakes won B = z·A, of the size A."""
        won = rules.fair_gain(self.nets, self.median, self.mus, self.nets[y])
        return rules.balance(0.0, self.c, self.origin, 1.0, won, self.gross, cap)


AnyLeg = Leg | SharedLeg


def worst_loss(legs: Sequence[Any]) -> float:
    """The most that the stakes on these legs can lose together; of several classes, one happens."""
    if len(legs) == 1:
        alone: float = legs[0].worst_loss()
        return alone
    surcharge = 0.0
    for leg in legs:
        surcharge += leg.surcharge
    return rules.worst_loss_of_classes([(leg.net, leg.gross, leg.mu, leg.c) for leg in legs], surcharge)


class Holding(Journaled):
    """The stakes of one name on one open forecast: a copy of its legs with only these, and their risk."""

    __slots__ = ("at_risk", "legs", "stakes")
    changing = ("at_risk", "stakes")

    def __init__(self, legs: list[Leg]) -> None:
        self.legs, self.at_risk, self.stakes = legs, 0.0, 0


class Open(Journaled):
    """A forecast that awaits its outcome.

    `number` is its serial number. `at_risk` is what it can lose as staked, hedges
    between classes included, and `exposed` what it can lose on each leg by itself; None unless exposure is
    capped.
    `positions` are those of named customers; the only stake on a forecast is the position of all its levels,
    so there are none before the second stake. `made` is the published forecast, once a caller has seen it.
    """

    __slots__ = (
        "at_risk",
        "exposed",
        "groups",
        "id",
        "legs",
        "made",
        "number",
        "one_sided",
        "positions",
        "stakes",
        "x",
    )
    changing = ("at_risk", "exposed", "positions")

    def __init__(
        self, id_: Id, number: int, x: Any, legs: list[Any], groups: tuple[Name, ...], one_sided: bool
    ) -> None:
        self.id = id_
        self.number = number
        self.x = x
        self.legs = legs
        self.groups = groups
        self.one_sided = one_sided
        self.made: Forecast | None = None
        self.exposed: tuple[float, ...] | None = None
        self.at_risk = 0.0
        self.stakes: list[Stake] = []
        self.positions: dict[Name, Holding] | None = None

    @property
    def forecast(self) -> Forecast:
        """What was published."""
        if self.made is None:
            self.made = published(self.legs, self.id, self.one_sided)
        return self.made

    @property
    def least_price(self) -> float:
        """The published price, the lowest of several classes: c, or one-sided μ."""
        if len(self.legs) == 1:
            first = self.legs[0]
            alone: float = first.mu if self.one_sided else first.c
            return alone
        lowest: float = min([leg.mu if self.one_sided else leg.c for leg in self.legs])
        return lowest

    @property
    def gross(self) -> float:
        """The sum of the sizes of all stakes."""
        if len(self.legs) == 1:
            alone: float = self.legs[0].gross
            return alone
        return math.fsum(leg.gross for leg in self.legs)


def published(legs: Sequence[Any], id_: Id | None, one_sided: bool) -> Forecast:
    """The forecast that these legs make up."""
    first = legs[0]
    if type(first) is SharedLeg:
        return class_forecast(first.mus, first.c, id_)
    if len(legs) == 1:
        return binary_forecast(first.mu, first.c, id_, one_sided)
    mu, c = np.array([leg.mu for leg in legs]), np.array([leg.c for leg in legs])
    sums_to_one = abs(float(mu.sum()) - 1.0) <= arguments.SUM_TOLERANCE  # after clipping it may not
    return Forecast(mu, c, id_, len(legs), one_sided, simplex=sums_to_one)


class Account(Journaled):
    """What a name has taken, net, on settled forecasts, and what her open bets can take at most.

    `low` is what rounding has cut off from `total`; `open` counts the forecasts that she has bets on.
    `thawed` is what her line had thawed after `since` settled forecasts of the book.
    """

    __slots__ = ("at_risk", "low", "open", "since", "thawed", "total")
    changing = ("total", "low", "at_risk", "open", "thawed", "since")

    def __init__(self, total: float = 0.0, low: float = 0.0, at_risk: float = 0.0) -> None:
        self.total, self.low, self.at_risk, self.open = total, low, at_risk, 0
        self.thawed, self.since = 0.0, 0

    @property
    def taken(self) -> float:
        """What she has taken; below 0 if she has lost."""
        return self.total + self.low


class LegSums(Journaled):
    """Where exposure is capped: what each leg's open bets can lose by themselves, and what each leg has lost.

    `low` is what rounding has cut off from `lost`. Each has a number per correction.
    """

    __slots__ = changing = ("staked", "lost", "low")

    def __init__(self, count: int) -> None:
        self.staked = self.lost = self.low = (0.0,) * count


class Scope(Journaled):
    """Sums over all forecasts, or over those of one group: what is open, and what was settled.

    `at_risk` is what the open forecasts can lose as staked. `potential` is what they could lose if every
    stake there is room for were placed: a stake may come long after its forecast, when the price has moved.
    `late_potential` and `late_open` are its maximum, and that of `open`, while several were open: the bounds
    need no more, because a forecast that is settled before the next one adds nothing. A withdrawal counts,
    too, with what was open and with what the corrections had lost beyond their new capital. Both potentials
    have a number per correction.
    """

    __slots__ = ("at_risk", "late_open", "late_potential", "legs", "open", "potential", "totals")
    changing = ("open", "at_risk", "potential", "late_potential", "late_open")

    def __init__(self, corrections: int, totals: Totals | None = None) -> None:
        self.open, self.at_risk, self.late_open = 0, 0.0, 0
        self.potential = self.late_potential = (0.0,) * corrections
        self.legs, self.totals = LegSums(corrections), Totals() if totals is None else totals

    def enter(self, journal: Journal, legs: Sequence[Any], counts_room: bool) -> None:
        """Add a forecast."""
        late = (self.potential, self.late_potential, self.late_open)
        journal.append((self, (self.open, self.at_risk, *late)))
        self.open = count = self.open + 1
        if counts_room:
            if len(legs) == 1:
                potential: tuple[float, ...] = (self.potential[0] + legs[0].room,)
            else:
                potential = add(self.potential, [leg.room for leg in legs])
            self.potential = potential
            if count > 1:
                self.late_potential = tuple(map(max, self.late_potential, potential))
                if count > self.late_open:
                    self.late_open = count

    def risk(self, journal: Journal, more: float) -> None:
        """Raise what the open forecasts can lose by `more`."""
        late = (self.potential, self.late_potential, self.late_open)
        journal.append((self, (self.open, self.at_risk, *late)))
        self.at_risk += more

    def count_open_as_late(self, journal: Journal, more: Sequence[float]) -> None:
        """Add what is open now, and `more` on each leg, to the bound: a withdrawal has lowered its base."""
        journal.keep(self)
        self.late_potential = tuple(map(max, self.late_potential, add(self.potential, more)))

    def leave(self, journal: Journal, legs: Sequence[Any], at_risk: float, counts_room: bool) -> None:
        """Remove a forecast, which could lose `at_risk`."""
        late = (self.potential, self.late_potential, self.late_open)
        journal.append((self, (self.open, self.at_risk, *late)))
        self.open = count = self.open - 1
        self.at_risk = rules.released(self.at_risk, at_risk, count)
        if counts_room:
            if not count:  # leave no rounding error behind
                self.potential = (0.0,) * len(legs)
            else:
                self.potential = subtract(self.potential, [leg.room for leg in legs])


def add(one: Sequence[float], other: Sequence[float]) -> tuple[float, ...]:
    """Add element by element."""
    return tuple([a + b for a, b in zip(one, other, strict=True)])


def subtract(one: Sequence[float], other: Sequence[float]) -> tuple[float, ...]:
    """Subtract element by element."""
    return tuple([a - b for a, b in zip(one, other, strict=True)])
