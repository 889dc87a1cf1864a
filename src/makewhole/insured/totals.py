"""Running totals of a book: counts, sums, and what the confidence sequence of the mean loss needs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from makewhole import arguments
from makewhole.insured.evidence import START, Money
from makewhole.insured.journal import Journal, Journaled
from makewhole.insured.monitor import Interval, mean_interval
from makewhole.rules import add_exactly

# After this many settled forecasts without a stake, the statement has a note.
_LONG = 100
# The chance that the interval of the mean loss is ever wrong.
_ALPHA = 0.05


def exact_sum(numbers: Sequence[float]) -> tuple[float, float]:
    """Add up numbers; also returns what rounding has cut off from the sum."""
    if len(numbers) == 1:
        return numbers[0], 0.0
    total = math.fsum(numbers)
    return total, math.fsum((*numbers, -total))


class Totals(Journaled):
    """Running totals of settled forecasts: of all, or of one group's.

    `idle` counts the forecasts settled without a stake since the last with one; `negative` those with c < 0.
    `width` is the sum of |c|, with classes of the mean over them. The sum of all losses is `total` + `low`:
    `low` is what rounding has cut off. `surprises` is what the confidence sequence of the mean loss needs:
    the sum of the squared distances of each loss from the mean of those before it. It is None once a loss was
    beyond its range, as can happen with a user's own correction. `money` is the evidence against what was
    published (see `evidence`); None with classes, and one-sided.
    """

    __slots__ = changing = (
        "rounds",
        "voided",
        "bets",
        "negative",
        "idle",
        "turnover",
        "total",
        "low",
        "surprises",
        "money",
        "width",
    )

    def __init__(self) -> None:
        self.rounds = self.voided = self.bets = self.negative = self.idle = 0
        self.turnover = self.total = self.low = self.width = 0.0
        self.surprises: float | None = 0.0
        self.money: Money | None = START

    def settle(
        self,
        journal: Journal,
        loss: float,
        rest: float,
        turnover: float,
        bets: int,
        c: float,
        loss_range: float,
        money: Money | None = None,
    ) -> None:
        """Add a settled forecast; `rest` is what rounding has cut off from the loss.

        `loss_range` is the most that one forecast can lose or win. `money` is the evidence with this outcome.
        """
        counts = (self.rounds, self.voided, self.bets, self.negative, self.idle)
        sums = (self.turnover, self.total, self.low, self.surprises, self.money, self.width)
        journal.append((self, counts + sums))
        surprises, rounds = self.surprises, self.rounds
        if surprises is not None:
            surprise = loss - self.total / rounds if rounds else loss
            within = -loss_range <= loss <= loss_range
            self.surprises = surprises + surprise * surprise if within else None
        total, low = add_exactly(self.total, self.low, loss)
        self.total, self.low = add_exactly(total, low, rest) if rest else (total, low)
        if c < 0.0:
            self.negative += 1
        self.width += abs(c)
        self.idle = 0 if turnover else self.idle + 1
        self.rounds = rounds + 1
        self.bets += bets
        self.turnover += turnover
        self.money = money

    def settle_unstaked(self, cs: Sequence[float], money: Money | None) -> None:
        """Add settled forecasts without stakes; results identical to adding them one by one."""
        rounds, count = self.rounds, len(cs)
        for c in cs:  # not `sum`, which rounds differently
            self.width += abs(c)
        before = self.total
        if count:
            self.total, self.low = add_exactly(before, self.low, 0.0)
        if self.total and self.surprises is not None:
            for n in range(max(rounds, 1), rounds + count):
                self.surprises += (before / n) * (before / n)
                before = self.total
        self.rounds += count
        self.negative += sum([c < 0.0 for c in cs])
        self.idle += count
        self.money = money

    @property
    def p_value(self) -> float | None:
        """A bound on the chance that outcomes ever speak this strongly against what was published."""
        return None if self.money is None else min(1.0, 1.0 / self.money[0])

    @property
    def loss(self) -> float:
        """The sum of all losses."""
        return self.total + self.low

    def mean_loss_interval(self, loss_range: float) -> Interval | None:
        """Where the mean loss lies, at all times simultaneously."""
        if self.surprises is None:
            return None
        return mean_interval(self.rounds, self.loss, self.surprises, loss_range, _ALPHA)

    def notes(self) -> list[str]:
        """What a reader of the statement should know."""
        notes = []
        if self.negative:
            notes.append(
                f"{self.negative:,} forecasts had c < 0: whoever staked both ways on them earned money for "
                "nothing"
            )
        if self.idle >= _LONG and self.bets:
            notes.append(f"nobody has staked on the last {self.idle:,} forecasts: is c too wide to trade at?")
        return notes


_COUNTS = ("rounds", "voided", "bets", "negative", "idle")
# Above this a float cannot count; no book settles this many forecasts.
_MOST = 2**53
_WIDEST = 1e12  # no |c| is larger


def read_totals(saved: dict[str, Any], most_staked: float, loss_range: float) -> Totals:
    """Totals from plain data; a ValueError if no book can have them.

    `most_staked` is the most that can be staked on one forecast, and `loss_range` what one can lose or win.
    """
    made = Totals()
    for name in _COUNTS:
        setattr(made, name, arguments.whole(name, saved[name], least=0, most=_MOST))
    rounds = 1.0000001 * made.rounds  # sums are rounded
    made.turnover = arguments.within("turnover", saved["turnover"], 0.0, rounds * most_staked)
    made.width = arguments.within("width", saved["width"], 0.0, rounds * _WIDEST)
    most = 1e200
    made.surprises = saved["surprises"]
    if made.surprises is not None:  # so no loss was beyond its range
        made.surprises = arguments.within("surprises", made.surprises, 0.0, rounds * (2 * loss_range) ** 2)
        most = rounds * loss_range
    made.total = arguments.within("total", saved["total"], -most, most)
    made.low = arguments.within("low", saved["low"], -most, most)
    made.money = saved["money"]
    if made.money is not None:
        money = tuple(arguments.within("money", one, 0.0, 1e300) for one in made.money)
        if len(money) != len(START) or money[0] < 1.0:
            raise ValueError(f"money must be {len(START)} numbers, the first at least 1; got {money!r}")
        made.money = (money[0], money[1], money[2])
    return made
