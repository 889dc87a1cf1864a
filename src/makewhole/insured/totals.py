"""Running totals of a book: counts, sums, and what the confidence sequence of the mean loss needs."""

from __future__ import annotations

from typing import Any, NamedTuple

from makewhole import arguments
from makewhole.insured.monitor import Interval, Watched, plain_watched, read_watched

# After so many settled forecasts without a stake the statement speaks up.
_LONG = 100
# The chance that the interval of the mean loss is ever wrong.
_ALPHA = 0.05


class Standing(NamedTuple):
    """How many forecasts await their outcome, and what they can lose as staked."""

    open: int = 0
    at_risk: float = 0.0

    def left(self, at_risk: float) -> Standing:
        """With one open forecast less, on which so much was at risk."""
        count = self[0] - 1
        risk = max(0.0, self[1] - at_risk) if count else 0.0  # no rounding may be left over
        return tuple.__new__(Standing, (count, risk))


class Totals(NamedTuple):
    """Running totals of a book, or of a group's. Every method returns new ones.

    `idle` counts the forecasts settled without a stake since the last with one; `negative` those with c < 0.
    `watched` is what the confidence sequence of the mean loss remembers, in units of the loss range; None
    once a loss was beyond that range, as with somebody else's correction.
    """

    rounds: int = 0
    voided: int = 0
    bets: int = 0
    negative: int = 0
    idle: int = 0
    turnover: float = 0.0
    total: float = 0.0
    watched: Watched | None = Watched()

    def settled(self, loss: float, turnover: float, bets: int, negative: bool, loss_range: float) -> Totals:
        """With one more settled forecast; `loss_range` is the most that one can lose or win."""
        rounds, voided, all_bets, negatives, idle, turned, total, watched = self
        if watched is not None:
            within = -loss_range <= loss <= loss_range
            watched = watched.add(loss / loss_range) if within else None
        idle = 0 if turnover else idle + 1
        counts = (rounds + 1, voided, all_bets + bets, negatives + negative, idle)
        return tuple.__new__(Totals, (*counts, turned + turnover, total + loss, watched))

    def with_void(self) -> Totals:
        """With one more voided forecast."""
        return self._replace(voided=self.voided + 1)

    def mean_loss_interval(self, loss_range: float) -> Interval | None:
        """Where the mean loss lies, at all times at once."""
        if self.watched is None:
            return None
        low, high = self.watched.interval(1.0, _ALPHA)
        return Interval(loss_range * low, loss_range * high)

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

    def to_plain(self) -> dict[str, Any]:
        """As plain data."""
        watched = None if self.watched is None else plain_watched(self.watched)
        return self._asdict() | {"watched": watched}


def read_totals(saved: dict[str, Any]) -> Totals:
    """Totals from plain data, every number checked."""
    counts = [
        arguments.whole(name, saved[name], least=0)
        for name in ("rounds", "voided", "bets", "negative", "idle")
    ]
    turnover, total = arguments.numbers("totals", [saved["turnover"], saved["total"]]).tolist()
    watched = None if saved["watched"] is None else read_watched(saved["watched"])
    rounds, voided, bets, negative, idle = counts
    return Totals(rounds, voided, bets, negative, idle, turnover, total, watched)
