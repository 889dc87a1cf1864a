"""The statement of an insured forecaster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from makewhole import pages
from makewhole.corrections import Certificate
from makewhole.insured.monitor import Interval

# The risk of calling forecasts refuted that are right.
_RISK = 0.05
# The most groups shown.
_MOST = 20
_GROUP_HEAD = ("group", "settled", "total loss", "at most")


class GroupStatements(Mapping[str | int, "Statement"]):
    """The statements of all groups by name, made when they are first read.

    They describe the same moment as the statement they belong to: once the forecaster has changed, they can
    no longer be made, and reading them raises a RuntimeError.
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
    """What has happened in a book so far, and what can happen at worst. `print` shows it as a table.

    `total_loss` is what customers have received, net, and `mean_loss` that per settled forecast, both in the
    stakes' unit; `turnover` is the gross stake settled; `open_exposure` is the most that all open bets
    together can still lose. `certificate` is the bound on the total loss, or why there is none.
    `mean_loss_interval` covers the mean loss at all times simultaneously, with 95 % confidence.

    `p_value` tests the intervals [μ − c, μ + c] that were published, by betting against them
    (`makewhole.insured.evidence`). If they were right given what happened before, the chance that outcomes
    ever speak as strongly against them is at most `p_value`, however often you look. It assumes that
    outcomes awaited at the same time do not depend on each other. It is None with classes, and one-sided.

    `negative_c` counts forecasts with c below 0, and `mean_size_of_c` is the mean |c| of those settled: how
    wide the intervals were (None if none is settled). `conceded` is what a thaw has conceded. `groups` has a
    statement for every group, if the correction is grouped. They are made when first read: read them before
    the forecaster changes.
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
    p_value: float | None
    negative_c: int
    notes: tuple[str, ...]
    groups: Mapping[str | int, Statement]
    conceded: float = 0.0
    mean_size_of_c: float | None = None

    @property
    def mean_loss(self) -> float:
        """Loss per settled forecast."""
        return self.total_loss / self.rounds if self.rounds else 0.0

    @property
    def alarm(self) -> bool:
        """Whether it is losing rather than unlucky: the mean loss's interval lies above 0 (see `monitor`)."""
        return self.mean_loss_interval is not None and self.mean_loss_interval.low > 0

    @property
    def refuted(self) -> bool:
        """Whether the outcomes refute what was published: 95 % confidence, at all times simultaneously."""
        return self.p_value is not None and self.p_value <= _RISK

    @property
    def capital_used(self) -> float | None:
        """Total loss as a share of the certified bound; None without one."""
        bound = self.certificate.bound
        return None if not bound else self.total_loss / bound

    def _rows(self) -> list[tuple[str, str]]:
        """The contents, as pairs (label, value)."""
        used = "" if self.capital_used is None else f"{max(0.0, self.capital_used):.1%}"
        interval = ""
        if self.mean_loss_interval is not None:
            low, high = self.mean_loss_interval
            interval = f"[{low:,.6g}, {high:,.6g}] at all times"
            interval += "; ALARM: it is losing" if self.alarm else ""
        rows = [
            ("can lose at most", str(self.certificate)),
            ("of that lost", used),
            ("correction", self.correction),
            ("cap per forecast", f"{self.max_stake:,.6g}"),
            ("forecasts settled", f"{self.rounds:,}"),
            ("forecasts open", f"{self.open:,}"),
            ("forecasts voided", f"{self.voided:,}"),
            ("bets settled", f"{self.bets:,}"),
            ("turnover", f"{self.turnover:,.6g}"),
            ("total loss", f"{self.total_loss:,.6g}"),
            ("mean loss", f"{self.mean_loss:,.6g}"),
            ("with 95 % in", interval),
            ("mean |c|", "" if self.mean_size_of_c is None else f"{self.mean_size_of_c:,.4g}"),
            ("open exposure", f"{self.open_exposure:,.6g}"),
            ("conceded", f"{self.conceded:,.6g} in thaws" if self.conceded else ""),
            ("forecasts refuted", "" if self.p_value is None else f"{self._evidence()}"),
        ]
        return [(label, value) for label, value in rows if value]

    def _evidence(self) -> str:
        verdict = "yes: the truth is farther than c from what was said" if self.refuted else "no"
        return f"{verdict} (p-value {self.p_value:.2g} at all times)"

    def _group_rows(self) -> list[tuple[str, str, str, str]]:
        """A row for every group, those that lost most first: name, forecasts settled, total loss, bound."""
        worst = sorted(self.groups.items(), key=lambda item: -item[1].total_loss)
        rows = []
        for name, s in worst[:_MOST]:
            bound = "no bound" if s.certificate.bound is None else f"{s.certificate.bound:,.6g}"
            alarm = ("  ALARM" if s.alarm else "") + ("  REFUTED" if s.refuted else "")
            rows.append((str(name), f"{s.rounds:,}", f"{s.total_loss:,.6g}", f"{bound}{alarm}"))
        return rows

    def _more_groups(self) -> list[str]:
        return [f"and {len(self.groups) - _MOST:,} groups more"] if len(self.groups) > _MOST else []

    def __str__(self) -> str:
        lines = [f"{label:<20}{value}" for label, value in self._rows()]
        lines += [f"note: {note}" for note in self.notes]
        if self.groups:
            rows = [_GROUP_HEAD, *self._group_rows()]
            lines += [f"{name:<20}{settled:>10}{lost:>14}{bound:>14}" for name, settled, lost, bound in rows]
        return "\n".join(map(pages.shown, [*lines, *self._more_groups()]))

    def _repr_html_(self) -> str:
        rows = self._group_rows() if self.groups else []
        tables = [pages.Table("by group, those that lost most first", _GROUP_HEAD, rows)] if rows else []
        notes = [*self._more_groups(), *(f"note: {note}" for note in self.notes)]
        return pages.fragment("An insured forecaster's statement", self._rows(), notes, tables)

    def to_html(self, path: str | Path, *, title: str = "statement of an insured forecaster") -> None:
        """Write the statement to an HTML file that needs no other file.

        Raises a ValueError if the path does not end in .html (or .htm) or its folder does not exist. An
        existing file is replaced.
        """
        pages.check_path(path)
        pages.write(path, pages.page(title, self._repr_html_()))
