"""What a backtest returns: numbers, a curve, a table to print and a page."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any, NamedTuple

from makewhole import frames, pages
from makewhole.arguments import Floats
from makewhole.corrections import Certificate, Correction
from makewhole.corrections.names import Name

_GROUPS_SHOWN = 20


class Curve(NamedTuple):
    """A run at some 2000 points: after `round` settled forecasts, the total loss, the mean loss, and λ.

    λ is that of the forecast settled last; with classes, the mean of theirs. The peak, both ends of the worst
    drawdown and the end are among the points.
    """

    round: Floats
    total_loss: Floats
    mean_loss: Floats
    lam: Floats


class Served(NamedTuple):
    """What customers of one kind would have staked at c = 0, and what they staked."""

    wanted: float
    placed: float


class GroupResult(NamedTuple):
    """The number of forecasts, turnover, total loss and mean c of one group."""

    rounds: int
    turnover: float
    total_loss: float
    mean_c: float


@dataclass(frozen=True)
class BacktestResult:
    """The result of a backtest: what accepting the bets would have cost. Print it for a table.

    Money is in the unit of the stakes. `total_loss` is what the forecaster would have lost, `turnover` the
    sum of all |stake| it took, and `mean_loss` the loss per forecast. `premium` is what customers paid above
    the model's own odds, per unit staked; `premiums` is that in total.

    `peak_loss` is the largest total loss at any moment (0 if it never lost), after `peak_at` settled
    forecasts. `drawdown` is the largest rise of the total loss from an earlier low, between `drawdown_from`
    and `drawdown_to` settled forecasts. Both are exact: every settlement counts. With columns of times,
    `peak_time` and `drawdown_times` say when. `capital` is the capital that was given, and `capital_used` the
    share of it that was lost at the peak. `certificate` bounds the total loss for any bets.

    `rows` is the length of the log and `rounds` the number of forecasts; `missing` rows lacked a number and
    were left out. `refused` stakes, `refused_stake` in total, were not taken because of `capital` or
    `max_exposure`. With customers, `wanted_stake` is what they would have staked at c = 0, and `served` has
    that and what was placed for each kind of them. `most_open` forecasts were open at once.

    `mean_c` is the mean published c, `mean_size_of_c` that of |c|, and `negative_c` the number of forecasts
    with c < 0. `correction` has learned from the whole log; where each of K classes has its own,
    `corrections` has all of them. `curve` shows the run at some 2000 points. `trace`, if asked for, has a
    column each for the published `mu` and `c`, for `lam` and for the `payment` of every row, NaN in rows left
    out (with classes, `mu[0]`, `mu[1]`, … and so on; with customers also their `stake`). `groups`, if asked
    for, has a `GroupResult` for each group.
    """

    correction: Correction
    max_stake: float
    rows: int
    missing: int
    rounds: int
    turnover: float
    total_loss: float
    negative_c: int
    mean_c: float
    curve: Curve = field(repr=False)
    trace: dict[str, Floats] | None = field(repr=False, default=None)
    groups: dict[Name, GroupResult] = field(repr=False, default_factory=dict)
    certificate: Certificate | None = None
    backend: str | None = field(repr=False, default=None)
    mean_size_of_c: float = 0.0
    peak_loss: float = 0.0
    peak_at: int = 0
    peak_time: Any = None
    drawdown: float = 0.0
    drawdown_from: int = 0
    drawdown_to: int = 0
    drawdown_times: tuple[Any, Any] | None = None
    capital: float | None = None
    premiums: float = 0.0
    refused: int = 0
    refused_stake: float = 0.0
    wanted_stake: float | None = None
    served: dict[str, Served] = field(default_factory=dict)
    most_open: int = 1
    corrections: tuple[Any, ...] = field(repr=False, default=())

    @property
    def mean_loss(self) -> float:
        """Loss per forecast."""
        return self.total_loss / self.rounds if self.rounds else 0.0

    @property
    def premium(self) -> float:
        """What customers paid above the model's own odds, per unit staked."""
        return self.premiums / self.turnover if self.turnover else 0.0

    @property
    def capital_used(self) -> float | None:
        """The peak loss as a share of the capital; None if no capital was given."""
        return None if self.capital is None else self.peak_loss / self.capital

    def to_frame(self, backend: str | None = None) -> Any:
        """Return the trace, if there is one, else the curve, as a dataframe.

        `backend` is "polars", "pandas" or "pyarrow"; by default that of the log.
        """
        columns = self.curve._asdict() if self.trace is None else self.trace
        return frames.make_frame(columns, backend or self.backend)

    def _rows(self) -> list[tuple[str, str]]:
        """The contents, as pairs (label, value)."""
        rows = [
            ("correction", repr(self.correction)),
            ("rows", f"{self.rows:,} ({self.missing:,} left out for missing numbers)"),
            ("forecasts", f"{self.rounds:,}"),
            ("cap per forecast", f"{self.max_stake:,.6g}"),
            ("turnover", f"{self.turnover:,.6g}"),
            ("total loss", f"{self.total_loss:,.6g}"),
            ("peak loss", self._peak_shown()),
            ("worst drawdown", self._drawdown_shown()),
            ("bound on the loss", str(self.certificate)),
            (
                "capital",
                "" if self.capital is None else f"{self.capital:,.6g} ({self.capital_used:.1%} used)",
            ),
            ("mean loss", f"{self.mean_loss:,.6g}"),
            ("mean c", f"{self.mean_c:,.6g} ({self.negative_c:,} below 0)"),
            ("mean |c|", f"{self.mean_size_of_c:,.6g}"),
            ("premium", f"{self.premium:,.6g} per unit staked"),
            ("refused", f"{self.refused:,} stakes, {self.refused_stake:,.6g} in all" if self.refused else ""),
        ]
        if self.groups:
            name, worst = max(self.groups.items(), key=lambda item: item[1].total_loss)
            rows.append(
                ("groups", f"{len(self.groups):,}; the largest loss is {name}'s: {worst.total_loss:,.6g}")
            )
        return [(label, value) for label, value in rows if value]

    @staticmethod
    def _moment(settled: int, time: Any) -> str:
        if not settled:
            return "the start"
        return f"{settled:,} settled" + ("" if time is None else f" ({time})")

    def _peak_shown(self) -> str:
        when = self._moment(self.peak_at, self.peak_time)
        return f"{self.peak_loss:,.6g}, {'after' if self.peak_at else 'at'} {when}"

    def _drawdown_shown(self) -> str:
        first, last = self.drawdown_times or (None, None)
        began, ended = self._moment(self.drawdown_from, first), self._moment(self.drawdown_to, last)
        return f"{self.drawdown:,.6g}, between {began} and {ended}" if self.drawdown else "0"

    def __str__(self) -> str:
        return "\n".join(pages.shown(f"{label:<20}{value}") for label, value in self._rows())

    def _repr_html_(self) -> str:
        worst = sorted(self.groups.items(), key=lambda item: -item[1].total_loss)[:_GROUPS_SHOWN]
        rows = [
            (str(name), f"{g.rounds:,}", f"{g.turnover:,.6g}", f"{g.total_loss:,.6g}") for name, g in worst
        ]
        head = ("group", "forecasts", "turnover", "total loss")
        tables = [pages.Table("by group, those that lost most first", head, rows)] if rows else []
        return pages.fragment("What standing behind these forecasts cost", self._rows(), (), tables)

    def to_html(self, path: str | FilePath, *, title: str = "backtest") -> None:
        """Write the result to an HTML file that needs no other file.

        Raises a ValueError if the path does not end in .html (or .htm) or its folder does not exist. An
        existing file is replaced.
        """
        pages.check_path(path)
        pages.write(path, pages.page(title, self._repr_html_()))
