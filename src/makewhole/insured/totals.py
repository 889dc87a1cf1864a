"""What has been settled so far: counts, sums, and a watch on the mean loss."""

from __future__ import annotations

from typing import Any, Self

from makewhole import arguments
from makewhole.insured.monitor import Interval, LossMonitor

# After so many settled forecasts without a stake the statement speaks up.
_LONG = 100


class Tally:
    """Running totals of a book. `loss_range` is the most that one forecast can lose or win."""

    def __init__(self, loss_range: float) -> None:
        self.loss_range = loss_range
        self.rounds = self.voided = self.bets = self.negative = self.idle = 0
        self.turnover = self.total = 0.0
        self.monitor: LossMonitor | None = LossMonitor()

    def settled(self, loss: float, turnover: float, bets: int, negative: bool) -> None:
        """Add a settled forecast."""
        self.rounds += 1
        self.bets += bets
        self.negative += negative
        self.turnover += turnover
        self.total += loss
        self.idle = 0 if turnover else self.idle + 1
        if self.monitor is not None:
            if -self.loss_range <= loss <= self.loss_range:
                self.monitor.add(loss / self.loss_range)
            else:  # somebody else's correction may go anywhere, and then there is nothing to watch by
                self.monitor = None

    def mean_loss_interval(self) -> Interval | None:
        """Where the mean loss lies, at all times at once."""
        if self.monitor is None:
            return None
        low, high = self.monitor.interval()
        return Interval(self.loss_range * low, self.loss_range * high)

    def notes(self) -> list[str]:
        """What somebody should know."""
        found = []
        if self.negative:
            found.append(
                f"{self.negative:,} forecasts had c < 0: opposite stakes on them earned money for nothing"
            )
        if self.idle >= _LONG and self.bets:
            found.append(f"nobody has staked on the last {self.idle:,} forecasts: is c too wide to trade at?")
        return found

    def to_plain(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "range": self.loss_range,
            "counts": [self.rounds, self.voided, self.bets, self.negative, self.idle],
            "sums": [self.turnover, self.total],
            "monitor": None if self.monitor is None else self.monitor.state(),
        }

    @classmethod
    def from_plain(cls, saved: dict[str, Any]) -> Self:
        """What `to_plain` was taken of, every number checked."""
        made = cls(arguments.positive("range", saved["range"]))
        counts = [arguments.whole("counts", n, least=0) for n in saved["counts"]]
        made.rounds, made.voided, made.bets, made.negative, made.idle = counts
        made.turnover, made.total = arguments.numbers("sums", saved["sums"]).tolist()
        made.monitor = None if saved["monitor"] is None else LossMonitor.from_state(saved["monitor"])
        return made
