"""The result of an audit: its numbers, and the report in words."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from makewhole import frames, pages
from makewhole.auditing.page import render_audit, render_fragment

_SHOWN = 10  # groups of a column that are printed
_WIDE = 0.3  # a certified c this wide is of no use

# The data show that a bet wins, or that none can, or neither.
Verdict = Literal["refuted", "certified", "open"]

# The assumptions behind the p-values and bounds, printed with every verdict.
_NOT_LEARNED = "and a model that has not learned from these outcomes (an online learner has)."
_ROWS = f"Assumed: independent rows, {_NOT_LEARNED}"
_TIMED = (
    "Assumed: nothing was known of an outcome when its forecast was made; the groups were known beforehand"
)
_CLUSTERS = "Assumed: rows of different clusters are independent of each other"


class Bounded(NamedTuple):
    """A number as measured, and the bounds between which its true value lies."""

    value: float
    low: float
    high: float


class Scores(NamedTuple):
    """How good the forecasts are; for all of these, smaller is better, except for `resolution`.

    A gap is the difference between how often it happened and the forecast. `mce` is the largest gap of a bin
    (the maximum calibration error), `ece` the mean gap over all rows (the expected calibration error).

    `brier` is the Brier score, the mean of (y − μ)². It is reliability − resolution + uncertainty + within.
    `reliability` is the mean squared gap of the bins. `resolution` is how much the bins' frequencies differ
    from the overall frequency. `uncertainty` is the Brier score of always forecasting the overall frequency.
    `within` is the variation inside bins (Stephenson, Coelho & Jolliffe 2008).

    `log_loss` is the mean of −ln of the probability given to what happened; infinite if that was once 0.

    With classes the parts of the Brier score are added up over them, `ece` is their mean and `mce` the
    largest.
    """

    mce: Bounded
    ece: float
    brier: float
    reliability: float
    resolution: float
    uncertainty: float
    within: float
    log_loss: float


class Outlook(NamedTuple):
    """What the rows could have shown, and how many rows would show more.

    `shown` is about the smallest gap, beyond c, that they would have shown if it were there in all rows
    together. `rows` is about how many rows in total, with the gaps and in the proportions measured, would
    certify this c; None if no number of them would, because a measured gap is as large as c.
    """

    shown: float
    rows: int | None


class GroupFinding(NamedTuple):
    """What an audit finds about one group.

    `mu` is the mean forecast, `outcome` how often it happened, `gap` the second minus the first, `c` the mean
    c. `wins` is the win per forecast of a bettor who knows the forecast and the group, and stakes 1 on every
    bin where that has paid; it includes luck. `wins_low` is the part that is not luck. A c below `smallest_c`
    is refuted by this group; at `certified_c` and above no bet on it wins on average, with the report's
    confidence. `p_value` bounds the chance of data that speak as strongly against the forecaster, if the
    truth were always within c of the forecast.
    `staked` and `won` are sums of money. With classes, `mu`, `outcome` and `gap` are those of `class_`, the
    class with the largest gap.
    """

    rows: int
    mu: float
    outcome: float
    gap: Bounded
    c: float
    wins: float
    wins_low: float
    smallest_c: float
    certified_c: float
    p_value: float
    staked: float = 0.0
    won: float = 0.0
    class_: int | None = None

    def urgency(self) -> tuple[float, float, int]:
        """A sort key that puts the worst group first: by the c it needs, its p-value, its size."""
        return -self.smallest_c, self.p_value, -self.rows


class Cell(NamedTuple):
    """One bet against the forecaster: on which rows, on which side, and what it wins per unit staked.

    The rows are those of `class_` (None for a binary event) whose column `group` has this `value` ("" for all
    rows), with forecasts from `low` to `high`. `stake` is 1 for a bet that it happens, −1 that it does not.
    """

    class_: int | None
    group: str
    value: str
    low: float
    high: float
    rows: int
    mu: float
    outcome: float
    c: float
    stake: int
    wins: Bounded
    p_value: float

    def where(self) -> str:
        """Say in words which forecasts the bet is on."""
        part = None if (self.low, self.high) == (0.0, 1.0) else (self.low, self.high)
        return where(self.class_, self.group, self.value, part)


def where(class_: int | None, group: str, value: str, part: tuple[float, float] | None) -> str:
    """Say in words which forecasts a cell is about; `part` is the bin, None for all bins."""
    parts = [] if class_ is None else [f"class {class_}"]
    parts += [group if value == "yes" else f"{group}={value}"] if group else []
    parts += [f"forecasts from {part[0]:.3g} to {part[1]:.3g}"] if part else []
    return ", ".join(parts) or "all forecasts"


@dataclass(frozen=True, eq=False)
class AuditReport:
    """What an audit has found. Print it to read it; `to_dict()` is for JSON, `to_html(path)` for a web page.

    The forecaster stands behind the interval [μ − c, μ + c] for every forecast μ. All bounds and p-values
    hold for all bets together.

    Attributes
    ----------
    verdict
        "refuted": some bet on a bin of the forecast, a group, or a bin of a group wins on average; `best` is
        the likeliest. "certified": no such bet wins on average at the given c. "open": the data show neither.
        Each holds with the confidence asked for, under the assumptions in `assumed`.
    p_value
        An upper bound on the chance of data that speak as strongly against the forecaster, if the truth
        always lay within c of the forecast.
    smallest_c, certified_c
        A constant c below the first is refuted; at the second and above, it is certified. For one group they
        are `groups[column][value].smallest_c` and `.certified_c`; for every cell, columns of `cells`.
    outlook
        What these rows could have shown, and about how many rows would certify the given c.
    best
        The bet that wins most surely.
    wins, wins_low
        The win per forecast of the best bettor: as measured (luck included), and at least.
    scores, by_class
        The scores of the forecasts, and of each class. `report.brier` is short for `report.scores.brier`; the
        same goes for the other scores.
    groups
        By column and value, what was found about each group.
    cells
        Every bet that was tried, as a frame.
    rows, incomplete, missing
        How many rows were audited, how many were left out, and how many of these lacked which number.
    staked, won
        With stakes: how much was staked, and what these bets have won.
    bets, method, clusters, largest_cluster, timed
        How many bets were tried, which bounds were used, how many clusters there are (None without), the
        size that no cluster can exceed (None if not given), and whether the bets were replayed in order of
        time.
    made
        When the report was made, and by which command.
    """

    rows: int
    missing: dict[str, int]
    incomplete: int
    bins: int
    confidence: float
    c: str
    verdict: Verdict
    p_value: float
    smallest_c: float
    certified_c: float
    outlook: Outlook
    bets: int
    method: str
    clusters: int | None
    timed: bool
    best: Cell
    wins: float
    wins_low: float
    scores: Scores
    groups: dict[str, dict[str, GroupFinding]] = field(repr=False)
    by_class: tuple[Scores, ...] = field(repr=False)
    table: dict[str, Any] = field(repr=False)
    notes: tuple[str, ...] = ()
    staked: float | None = None
    won: float | None = None
    largest_cluster: float | None = None
    backend: str | None = field(repr=False, default=None)
    made: str = ""

    @property
    def sound(self) -> bool:
        """Whether the forecasts are not refuted. This does not show that they are sound: see `verdict`."""
        return self.verdict != "refuted"

    @property
    def cells(self) -> Any:
        """Every bin, every group and every bin of every group, as a frame.

        It is made with the library of the audited frame: pandas in, pandas out; likewise polars and pyarrow.
        For Dask it is a pandas frame, for DuckDB and Spark the first installed of polars, pandas and pyarrow.
        """
        return frames.make_frame(self.table, self.backend)

    @property
    def mce(self) -> Bounded:
        """The largest gap of a bin, with bounds."""
        return self.scores.mce

    @property
    def ece(self) -> float:
        """The mean gap over all rows."""
        return self.scores.ece

    @property
    def brier(self) -> float:
        """The Brier score, the mean of (y − μ)²."""
        return self.scores.brier

    @property
    def reliability(self) -> float:
        """The part of the Brier score that is due to gaps."""
        return self.scores.reliability

    @property
    def resolution(self) -> float:
        """The part of the Brier score gained by telling rows apart."""
        return self.scores.resolution

    @property
    def uncertainty(self) -> float:
        """The Brier score of always forecasting the overall frequency."""
        return self.scores.uncertainty

    @property
    def within(self) -> float:
        """The part of the Brier score that the bins do not show."""
        return self.scores.within

    @property
    def log_loss(self) -> float:
        """The mean of −ln of the probability given to what happened."""
        return self.scores.log_loss

    def to_dict(self) -> dict[str, Any]:
        """Return everything except the cells, as plain data; numbers that are not finite become None."""
        plain = {
            name: getattr(self, name) for name in ("rows", "missing", "incomplete", "bins", "confidence")
        }
        named = ("c", "verdict", "sound", "p_value", "smallest_c", "certified_c", "outlook", "bets", "method")
        plain |= {name: getattr(self, name) for name in (*named, "clusters", "largest_cluster", "timed")}
        plain |= {"best": self.best, "wins": self.wins, "wins_low": self.wins_low, "scores": self.scores}
        plain |= {"by_class": list(self.by_class), "groups": self.groups, "notes": list(self.notes)}
        plain |= {} if self.staked is None else {"staked": self.staked, "won": self.won}
        plain |= {"assumed": self.assumed, "made": self.made}
        data: dict[str, Any] = _to_plain(plain)
        return data

    def to_html(
        self, path: str | Path, *, title: str = "audit of forecasts", pictures: Sequence[pages.Picture] = ()
    ) -> None:
        """Write the report to an HTML file that needs no other file.

        `pictures` are shown after the verdict. Raises a ValueError if the path does not end in .html (or
        .htm) or its folder does not exist. An existing file is replaced.
        """
        pages.check_path(path)
        pages.write(path, render_audit(title, self, pictures))

    def _repr_html_(self) -> str:
        return render_fragment(self)

    # --- in words -----------------------------------------------------------------------------------------

    def __str__(self) -> str:
        notes = [f"note: {note}" for note in self.all_notes()]
        parts = [self.sentences(), self._scores(), self._bins(), self._groups(), _wrap(*self.legend()), notes]
        parts.append(_wrap(*self.origin()))
        return "\n\n".join("\n".join(map(pages.shown, part)).strip("\n") for part in parts if part)

    def sure(self) -> str:
        """The confidence, as a percentage."""
        return f"{100 * self.confidence:.6g}%"

    def sentences(self) -> list[str]:
        """The verdict in a few lines."""
        gone = f", {self.incomplete:,} left out, missing or undecided" if self.incomplete else ""
        inside = "" if self.clusters is None else f" in {self.clusters:,} clusters"
        lines = [f"{self.rows:,} forecast{'s' * (self.rows != 1)}{inside}{gone}; c = {self.c}"]
        lines += {"refuted": self._refuted, "certified": self._certified, "open": self._open}[self.verdict]()
        below = f"a c below {self.smallest_c:.4f} is refuted" if self.smallest_c else "no c is refuted"
        lines.append(
            f"All bets together: p-value {self.p_value:.2g}; {below}, one of {self.certified_c:.4f} is "
            "certified."
        )
        if self.certified_c > _WIDE:
            few = "Cells with few rows make the certified c wide"
            lines.append(f"{few}: with fewer bins or groups it is narrower.")
        if self.staked is not None and self.won is not None:
            share = f" ({self.won / self.staked:.2%} of what they staked)" if self.staked else ""
            verb = "won" if self.won >= 0 else "lost"
            lines.append(f"Those who staked here {verb} {abs(self.won):,.6g} on {self.staked:,.6g}{share}.")
        return [*lines, self.assumed]

    @property
    def assumed(self) -> str:
        """The assumptions behind all p-values and bounds, in words."""
        if self.timed:
            return f"{_TIMED}; {self._sizes('time (or cluster)')}."
        return _ROWS if self.clusters is None else f"{_CLUSTERS}, {self._sizes('cluster')}, {_NOT_LEARNED}"

    def _sizes(self, unit: str) -> str:
        if self.largest_cluster is None:
            return f"no {unit} can be larger than the largest one seen"
        return f"no {unit} can be larger than {self.largest_cluster:g}, as given"

    def _refuted(self) -> list[str]:
        best, side = self.best, "that it happens" if self.best.stake > 0 else "that it does not happen"
        if best.p_value > 1 - self.confidence:
            return [
                f"REFUTED: with {self.sure()} confidence some bets win, but the data do not show which.",
                f"The likeliest is {side}, on {best.where()}",
                f"({best.rows:,} rows: said {best.mu:.4f}, was {best.outcome:.4f}).",
            ]
        return [
            f"REFUTED: whoever bets {side} on {best.where()}",
            f"wins {best.wins.value:.4f} per unit staked, and at least {max(0.0, best.wins.low):.4f} "
            f"with {self.sure()} confidence",
            f"({best.rows:,} rows: said {best.mu:.4f}, was {best.outcome:.4f}; p-value {best.p_value:.2g}).",
        ]

    def _certified(self) -> list[str]:
        return [
            f"CERTIFIED: with {self.sure()} confidence no bet on {self._whom()} wins on average.",
            "For such bets the forecasts are sound at this c.",
        ]

    def _open(self) -> list[str]:
        """Say that the data neither refute nor certify, and how many rows would."""
        lines = [
            f"OPEN: no bet on {self._whom()} is shown to win, but some may.",
            f"These rows would have shown a gap of about {self.outlook.shown:.2g} beyond c in all forecasts "
            "together; in a small",
            "cell only a larger one.",
        ]
        if self.outlook.rows is None:
            lines.append("No number of rows like these certifies this c: ask about a larger one.")
        else:
            lines.append(f"About {self.outlook.rows:,} rows like these would certify this c.")
        return lines

    def _whom(self) -> str:
        return "a bin of the forecast" + (", a group, or a bin of a group" if self.groups else "")

    def _scores(self) -> list[str]:
        s = self.scores
        return [
            f"largest gap (MCE)   {s.mce.value:.4f}, between {s.mce.low:.4f} and {s.mce.high:.4f}",
            f"mean gap (ECE)      {s.ece:.4f}",
            f"Brier score         {s.brier:.4f} = reliability {s.reliability:.4f} - resolution "
            f"{s.resolution:.4f} + uncertainty {s.uncertainty:.4f} {'+' if s.within >= 0 else '-'} "
            f"within bins {abs(s.within):.4f}",
            f"log loss            {s.log_loss:.4f}",
        ]

    def _bins(self) -> list[str]:
        t, sure, width = self.table, self.sure(), 23 if self.by_class else 15
        first = "class: forecast" if self.by_class else "forecast"
        head = f"{first:<{width}}{'rows':>11}{'said':>9}{'happened':>10}{'gap':>9}"
        lines = [f"{head}  {f'{sure} for all at once':<20}best bet, and what it wins"]
        for class_ in range(max(1, len(self.by_class))):
            for k in self.rows_of(class_=class_):
                name = "all" if self.is_total(k) else f"{t['bin_low'][k]:.3g} - {t['bin_high'][k]:.3g}"
                name = f"{class_}: {name}" if self.by_class else name
                lines.append(f"{name:<{width}}{self._line(k)}")
        return [
            *lines,
            *_wrap(
                "best bet: yes bets that it happens, no that it does not. Its win is per unit staked, as "
                "measured; it may be luck unless it is marked."
            ),
        ]

    def _line(self, k: int) -> str:
        t = self.table
        between = f"[{t['gap_low'][k]:+.3f}, {t['gap_high'][k]:+.3f}]"
        flag = " <- not luck" if t["wins_low"][k] > 0 else ""
        wins = (
            f"{'yes' if t['stake'][k] > 0 else 'no':<4}{t['wins'][k]:.4f}{flag}" if t["wins"][k] > 0 else "-"
        )
        return (
            f"{int(t['rows'][k]):>11,}{t['mu'][k]:>9.4f}{t['outcome'][k]:>10.4f}{t['gap'][k]:>+9.4f}"
            f"  {between:<20}{wins}"
        )

    def rows_of(self, group: str = "", value: str | None = None, class_: int | None = None) -> list[int]:
        """The indices of a group's rows in the table; with classes, of one class (by default the first)."""
        t = self.table
        known: list[str] = t["group"]
        return [
            k
            for k, name in enumerate(known)
            if name == group
            and (value is None or t["value"][k] == value)
            and ("class" not in t or t["class"][k] == (class_ or 0))
        ]

    def is_total(self, row: int) -> bool:
        """Whether a row of the table is about all bins together."""
        return bool(self.table["total"][row])

    def bet(self, row: int) -> str:
        """Say in words which bet a row of the table is."""
        t = self.table
        return f"{'yes' if t['stake'][row] > 0 else 'no'} on " + where(
            int(t["class"][row]) if "class" in t else None,
            t["group"][row],
            t["value"][row],
            None if self.is_total(row) else (float(t["bin_low"][row]), float(t["bin_high"][row])),
        )

    def _groups(self) -> list[str]:
        lines: list[str] = []
        for column, findings in self.groups.items():
            worst = sorted(findings.items(), key=lambda item: item[1].urgency())
            head = f"{column[:24]:<25}{'rows':>11}{'said':>9}{'happened':>10}"
            lines += ["", f"{head}{'wins':>9}{'at least':>10}{'c needed':>10}{'certified':>11}"]
            for value, g in worst[:_SHOWN]:
                flag = " <- refuted" if g.p_value <= 1 - self.confidence else ""
                text = pages.shown(value)
                name = text[:24] if g.class_ is None else f"{text[:15]}, class {g.class_}"
                lines.append(
                    f"{name:<25}{g.rows:>11,}{g.mu:>9.4f}{g.outcome:>10.4f}{g.wins:>9.4f}"
                    f"{g.wins_low:>10.4f}{g.smallest_c:>10.4f}{g.certified_c:>11.4f}{flag}"
                )
            if len(worst) > _SHOWN:
                lines.append(f"and {len(worst) - _SHOWN:,} more, which need no wider c")
        if lines:
            lines += [
                *_wrap(
                    "wins: what somebody wins per forecast who knows the forecast and the group, and stakes 1"
                    f"{' on each class' if self.by_class else ''} wherever it has paid; this includes luck. "
                    "at least: the part of it that is not luck. c needed: a smaller c is refuted. certified: "
                    "at this c and above no bet on the group wins."
                ),
            ]
        return lines

    def legend(self) -> list[str]:
        """Explain the words of the report, in whole sentences."""
        return [
            "c: the forecaster stands behind the interval from forecast - c to forecast + c.",
            "gap: how often it happened, minus what was said.",
            "p-value: at most the chance of data that speak as strongly against the forecaster, if the truth "
            "always lay within c of the forecast.",
        ]

    def origin(self) -> list[str]:
        """Say by which method and command, and when, the report was made."""
        alone = self.clusters is None and not self.timed
        shared = "The outcomes' probabilities may all differ." if alone else ""
        method = f"Method: {self.method}, for all {self.bets:,} bets at once. {shared}".strip()
        return [method, *([f"Made {self.made}"] if self.made else [])]

    def all_notes(self) -> list[str]:
        """Say which numbers were missing, and anything else the reader should know."""
        gaps = {name: count for name, count in self.missing.items() if count}
        notes = [f"{count:,} row{'s' * (count != 1)} without {name}" for name, count in gaps.items()]
        return [*notes, *self.notes]


def _wrap(*sentences: str) -> list[str]:
    return [line for sentence in sentences for line in textwrap.wrap(sentence, 110)]


def _to_plain(value: Any) -> Any:
    if hasattr(value, "_asdict"):
        return {name.rstrip("_"): _to_plain(v) for name, v in value._asdict().items()}
    if isinstance(value, dict):
        return {str(key): _to_plain(v) for key, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_to_plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
