"""What an insured forecaster says of itself, and what it refuses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from makewhole.insured.certificates import Certificate
from makewhole.insured.monitor import Interval

# So many groups are shown.
_MOST = 20


class Refusal(Exception):  # noqa: N818 - a refusal is expected, not an error
    """Something that is not done, for a reason the caller may well have expected; nothing has changed."""


class StakeRefused(Refusal):
    """A stake over a cap, or of the wrong sign; `limit` is how much of its kind that cap leaves.

    Another cap may leave less: the next refusal says so.
    """

    def __init__(self, message: str, limit: Any) -> None:
        super().__init__(message)
        self.limit = limit


class ForecastClosed(Refusal):
    """The forecast has been settled or voided before."""


class UnknownForecast(Refusal):
    """No forecast of this number has been made here."""


class ConservationError(RuntimeError):
    """The payments do not add up to the forecaster's loss: a bug, raised before anything is booked."""


@dataclass(frozen=True, slots=True)
class Statement:
    """Where a forecaster stands. `str()` of it is a table.

    `total_loss` is what the agents have received on balance, `mean_loss` that per settled forecast, both in
    the stakes' unit; `turnover` is the gross stake settled; `open_exposure` is the most that all open bets
    together can still lose. `groups` has a statement for every group, where the correction is grouped.
    """

    correction: str
    max_stake: float
    rounds: int
    open: int
    voided: int
    bets: int
    turnover: float
    total_loss: float
    open_exposure: float
    certificate: Certificate
    mean_loss_interval: Interval | None
    negative_c: int
    notes: tuple[str, ...]
    groups: dict[str | int, Statement]

    @property
    def mean_loss(self) -> float:
        """Loss per settled forecast."""
        return self.total_loss / self.rounds if self.rounds else 0.0

    @property
    def alarm(self) -> bool:
        """Whether it is losing rather than unlucky: the mean loss's interval lies above 0 (see `monitor`)."""
        return self.mean_loss_interval is not None and self.mean_loss_interval.low > 0

    @property
    def capital_used(self) -> float | None:
        """Total loss as a share of the certified bound; None without one."""
        bound = self.certificate.bound
        return None if not bound else self.total_loss / bound

    def _interval(self) -> str:
        if self.mean_loss_interval is None:
            return ""
        low, high = self.mean_loss_interval
        return f"[{low:,.6g}, {high:,.6g}] at all times" + ("; ALARM: it is losing" if self.alarm else "")

    def __str__(self) -> str:
        rows = [
            ("can lose at most", str(self.certificate)),
            ("of that lost", "" if self.capital_used is None else f"{max(0.0, self.capital_used):.1%}"),
            ("correction", self.correction),
            ("cap per forecast", f"{self.max_stake:,.6g}"),
            ("forecasts settled", f"{self.rounds:,}"),
            ("forecasts open", f"{self.open:,}"),
            ("forecasts voided", f"{self.voided:,}"),
            ("bets settled", f"{self.bets:,}"),
            ("turnover", f"{self.turnover:,.6g}"),
            ("total loss", f"{self.total_loss:,.6g}"),
            ("mean loss", f"{self.mean_loss:,.6g}"),
            ("with 95 % in", self._interval()),
            ("open exposure", f"{self.open_exposure:,.6g}"),
        ]
        lines = [f"{name:<20}{value}" for name, value in rows if value]
        return "\n".join([*lines, *(f"note: {n}" for n in self.notes), *self._by_group()])

    def _by_group(self) -> list[str]:
        """A line for every group, those that lost most first."""
        if not self.groups:
            return []
        worst = sorted(self.groups.items(), key=lambda item: -item[1].total_loss)
        lines = [f"{'group':<20}{'settled':>10}{'total loss':>14}{'at most':>14}"]
        for name, s in worst[:_MOST]:
            bound = "none" if s.certificate.bound is None else f"{s.certificate.bound:,.6g}"
            alarm = "  ALARM" if s.alarm else ""
            lines.append(f"{name!s:<20}{s.rounds:>10,}{s.total_loss:>14,.6g}{bound:>14}{alarm}")
        if len(worst) > _MOST:
            lines.append(f"and {len(worst) - _MOST:,} groups more")
        return lines
