"""What an insured forecaster says of itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from makewhole.corrections import Certificate
from makewhole.insured.monitor import Interval

# So many groups are shown.
_MOST = 20


class GroupStatements(Mapping[str | int, "Statement"]):
    """The statements of all groups by name, made when they are first looked at.

    They must be of the same moment as the statement they belong to: once the forecaster has gone on, they
    can no longer be made, and looking raises a RuntimeError.
    """

    def __init__(self, make: Callable[[], dict[str | int, Statement]], revision: Callable[[], int]) -> None:
        self._make, self._revision, self._taken = make, revision, revision()
        self._made: dict[str | int, Statement] | None = None

    def _statements(self) -> dict[str | int, Statement]:
        if self._made is None:
            if self._revision() != self._taken:
                raise RuntimeError("the forecaster has gone on since: look at groups right after statement()")
            self._made = self._make()
        return self._made

    def __getitem__(self, name: str | int) -> Statement:
        return self._statements()[name]

    def __iter__(self) -> Iterator[str | int]:
        return iter(self._statements())

    def __len__(self) -> int:
        return len(self._statements())

    def __repr__(self) -> str:
        return repr(self._statements())


@dataclass(frozen=True, slots=True)
class Statement:
    """Where a forecaster stands. `str()` of it is a table.

    `total_loss` is what the agents have received on balance, `mean_loss` that per settled forecast, both in
    the stakes' unit; `turnover` is the gross stake settled; `open_exposure` is the most that all open bets
    together can still lose. `groups` has a statement for every group, where the correction is grouped; look
    at it before the forecaster goes on, for they are made when first looked at.
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
    groups: Mapping[str | int, Statement]

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
            bound = "no bound" if s.certificate.bound is None else f"{s.certificate.bound:,.6g}"
            alarm = "  ALARM" if s.alarm else ""
            lines.append(f"{name!s:<20}{s.rounds:>10,}{s.total_loss:>14,.6g}{bound:>14}{alarm}")
        if len(worst) > _MOST:
            lines.append(f"and {len(worst) - _MOST:,} groups more")
        return lines
