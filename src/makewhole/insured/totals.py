"""Running totals of a book: counts, sums, and what the confidence sequence of the mean loss needs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from makewhole import arguments
from makewhole.corrections._kernels import add_exactly
from makewhole.insured.evidence import START, Money
from makewhole.insured.monitor import Interval, mean_interval

# After so many settled forecasts without a stake the statement speaks up.
_LONG = 100
# The chance that the interval of the mean loss is ever wrong.
_ALPHA = 0.05

_new = tuple.__new__


def exact_sum(numbers: Sequence[float]) -> tuple[float, float]:
    """Add up numbers; also returns what rounding has cut off from the sum."""
    if len(numbers) == 1:
        return numbers[0], 0.0
    total = math.fsum(numbers)
    return total, math.fsum((*numbers, -total))


class Standing(NamedTuple):
    """How many forecasts await their outcome, and what they can lose as staked.

    Everyone's also has the `next` number for a forecast without an id of its own, and the `revision`: no two
    states of a forecaster that differ have the same.
    """

    open: int = 0
    at_risk: float = 0.0
    next: int = 0
    revision: int = 0

    def left(self, at_risk: float) -> Standing:
        """With one open forecast less, on which so much was at risk."""
        count, all_risk, following, revision = self
        count -= 1
        risk = max(0.0, all_risk - at_risk) if count else 0.0  # no rounding may be left over
        return tuple.__new__(Standing, (count, risk, following, revision))


class Totals(NamedTuple):
    """Running totals of a book, or of a group's. Every method returns new ones.

    `idle` counts the forecasts settled without a stake since the last with one; `negative` those with c < 0.
    `width` is the sum of |c|, with classes of the mean over them; None in a book that an earlier version has
    saved, which did not keep it.
    The sum of all losses is `total` + `low`: `low` is what rounding has cut off. `surprises` is what the
    confidence sequence of the mean loss needs: the sum of the squared distances of each loss from the mean of
    those before it. It is None once a loss was beyond its range, as with somebody else's correction. `money`
    is the evidence against what was published (see `evidence`); None with classes, and one-sided.
    """

    rounds: int = 0
    voided: int = 0
    bets: int = 0
    negative: int = 0
    idle: int = 0
    turnover: float = 0.0
    total: float = 0.0
    low: float = 0.0
    surprises: float | None = 0.0
    money: Money | None = START
    width: float | None = 0.0

    def settled(
        self,
        loss: float,
        rest: float,
        turnover: float,
        bets: int,
        c: float,
        loss_range: float,
        money: Money | None = None,
    ) -> Totals:
        """With one more settled forecast; `rest` is what rounding has cut off from the loss.

        `loss_range` is the most that one forecast can lose or win. `money` is the evidence with this outcome.
        """
        rounds, voided, all_bets, negative, idle, turned, total, low, surprises, _, width = self
        if surprises is not None:
            surprise = loss - total / rounds if rounds else loss
            surprises = surprises + surprise * surprise if -loss_range <= loss <= loss_range else None
        total, low = add_exactly(total, low, loss)
        if rest:
            total, low = add_exactly(total, low, rest)
        if c < 0.0:
            negative += 1
        if width is not None:
            width += abs(c)
        idle, bets, turned = 0 if turnover else idle + 1, all_bets + bets, turned + turnover
        fields = (rounds + 1, voided, bets, negative, idle, turned, total, low, surprises, money, width)
        return _new(Totals, fields)

    def settled_unstaked(self, cs: Sequence[float], money: Money | None) -> Totals:
        """With settled forecasts that nobody had staked on, with the same bits as one by one."""
        rounds, surprises, width, count = self.rounds, self.surprises, self.width, len(cs)
        if width is not None:
            for c in cs:  # not `sum`, which rounds in its own way
                width += abs(c)
        before = self.total
        total, low = add_exactly(before, self.low, 0.0) if count else (before, self.low)
        if total and surprises is not None:
            for n in range(max(rounds, 1), rounds + count):
                surprises += (before / n) * (before / n)
                before = total
        return self._replace(
            rounds=rounds + count,
            total=total,
            low=low,
            negative=self.negative + sum([c < 0.0 for c in cs]),
            idle=self.idle + count,
            surprises=surprises,
            money=money,
            width=width,
        )

    @property
    def p_value(self) -> float | None:
        """The chance, at most, of outcomes that ever speak as strongly against what was published."""
        return None if self.money is None else min(1.0, 1.0 / self.money[0])

    @property
    def loss(self) -> float:
        """The sum of all losses."""
        return self.total + self.low

    def with_void(self) -> Totals:
        """With one more voided forecast."""
        return self._replace(voided=self.voided + 1)

    def mean_loss_interval(self, loss_range: float) -> Interval | None:
        """Where the mean loss lies, at all times at once."""
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
# Above this a float cannot count; nobody will settle as many forecasts.
_MOST = 2**53
_WIDEST = 1e12  # no |c| is larger


def read_totals(saved: dict[str, Any], most_staked: float, loss_range: float) -> Totals:
    """Totals from plain data; a ValueError if no book can have them.

    `most_staked` is the most that can be staked on one forecast, and `loss_range` what one can lose or win.
    """
    numbers: dict[str, Any] = {
        name: arguments.whole(name, saved[name], least=0, most=_MOST) for name in _COUNTS
    }
    rounds = 1.0000001 * numbers["rounds"]  # sums are rounded
    numbers["turnover"] = arguments.within("turnover", saved["turnover"], 0.0, rounds * most_staked)
    numbers |= {name: arguments.within(name, saved[name], -1e200, 1e200) for name in ("total", "low")}
    surprises = saved["surprises"]
    if surprises is not None:  # so no loss was beyond its range
        surprises = arguments.within("surprises", surprises, 0.0, rounds * (2 * loss_range) ** 2)
        for name in ("total", "low"):
            arguments.within(name, numbers[name], -rounds * loss_range, rounds * loss_range)
    money = saved.get("money", START)  # files of version 4 may lack it
    if money is not None:
        money = tuple(arguments.within("money", one, 0.0, 1e300) for one in money)
        if len(money) != len(START) or money[0] < 1.0:
            raise ValueError(f"money must be {len(START)} numbers, the first at least 1; got {money!r}")
    width = saved.get("width")  # files that an earlier version has written lack it
    if width is not None:
        width = arguments.within("width", width, 0.0, rounds * _WIDEST)
    return Totals(**numbers, surprises=surprises, money=money, width=width)
