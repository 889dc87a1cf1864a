"""What an audit finds, and how it says so."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from makewhole import frames

_SHOWN = 10  # groups in the table


class Bounded(NamedTuple):
    """A number as measured, and where it lies."""

    value: float
    low: float
    high: float


class Scores(NamedTuple):
    """How good the forecasts are. `brier` = reliability − resolution + uncertainty + within.

    `mce` and `ece` are the largest and the mean gap between what was said and what happened, over bins;
    `within` is what the bins cannot see (Stephenson, Coelho & Jolliffe 2008). With classes the parts of the
    Brier score add up over them, `ece` is their mean and `mce` their largest.
    """

    mce: Bounded
    ece: float
    brier: float
    reliability: float
    resolution: float
    uncertainty: float
    within: float
    log_loss: float


class GroupFinding(NamedTuple):
    """A group: what was said, what happened, and what somebody who knows the group and the forecast wins.

    `wins` is per forecast, staking 1 wherever it pays, as measured; `wins_low` is what that is at least, by
    bins or on the whole group. With classes, `mu`, `outcome` and `gap` are those of `class_`, the worst.
    """

    rows: int
    mu: float
    outcome: float
    gap: Bounded
    c: float
    wins: float
    wins_low: float
    smallest_c: float
    p_value: float
    staked: float = 0.0
    won: float = 0.0
    class_: int | None = None

    def urgency(self) -> tuple[float, float, int]:
        """Sorts the worst first: who needs the widest c, the surest, the largest."""
        return -self.smallest_c, self.p_value, -self.rows


class Cell(NamedTuple):
    """One bet against the forecaster: whom it is on, which way, and what it wins per unit staked."""

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
        """In words."""
        part = None if (self.low, self.high) == (0.0, 1.0) else (self.low, self.high)
        return where(self.class_, self.group, self.value, part)


def where(class_: int | None, group: str, value: str, part: tuple[float, float] | None) -> str:
    """Which forecasts a cell is about."""
    parts = [] if class_ is None else [f"class {class_}"]
    parts += [group if value == "yes" else f"{group}={value}"] if group else []
    parts += [f"forecasts from {part[0]:.3g} to {part[1]:.3g}"] if part else []
    return ", ".join(parts) or "all forecasts"


@dataclass(frozen=True, eq=False)
class AuditReport:
    """What standing behind these forecasts would cost. `str()` of it is for reading, `to_dict()` for JSON.

    `sound` says that the data do not refute it, at this confidence: no bet that looks at the forecast, or
    at the forecast and a group, is shown to win. `p_value` is the chance, at most, of data that speak so
    strongly against it, were it sound. `smallest_c` is the narrowest constant c that is not refuted, and
    `groups[column][value].smallest_c` the same for one group. `cells` has every bet that was tried. All
    bounds hold at once.
    """

    rows: int
    missing: dict[str, int]
    incomplete: int
    bins: int
    confidence: float
    c: str
    sound: bool
    p_value: float
    smallest_c: float
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
    backend: str | None = field(repr=False, default=None)

    @property
    def cells(self) -> Any:
        """Every bin, every group and every bin of every group, as a frame."""
        return frames.make_frame(self.table, self.backend)

    def __getattr__(self, name: str) -> Any:
        if name in Scores._fields:
            return getattr(self.scores, name)
        raise AttributeError(f"an audit report has no {name!r}")

    def to_dict(self) -> dict[str, Any]:
        """Everything but the cells, as plain data; numbers that are not finite become None."""
        plain = {
            name: getattr(self, name) for name in ("rows", "missing", "incomplete", "bins", "confidence")
        }
        plain |= {name: getattr(self, name) for name in ("c", "sound", "p_value", "smallest_c")}
        plain |= {"best": self.best, "wins": self.wins, "wins_low": self.wins_low, "scores": self.scores}
        plain |= {"by_class": list(self.by_class), "groups": self.groups, "notes": list(self.notes)}
        plain |= {} if self.staked is None else {"staked": self.staked, "won": self.won}
        found: dict[str, Any] = _plain(plain)
        return found

    # --- in words -----------------------------------------------------------------------------------------

    def __str__(self) -> str:
        notes = [f"note: {note}" for note in self.all_notes()]
        parts = [self.verdict(), self._scores(), self._bins(), self._groups(), notes]
        return "\n\n".join("\n".join(part).strip("\n") for part in parts if part)

    def sure(self) -> str:
        """The confidence, as a percentage."""
        return f"{100 * self.confidence:.6g}%"

    def verdict(self) -> list[str]:
        """The answer first."""
        sure, best = self.sure(), self.best
        gone = f", {self.incomplete:,} left out, missing or undecided" if self.incomplete else ""
        lines = [f"{self.rows:,} forecast{'s' * (self.rows != 1)}{gone}; c = {self.c}"]
        if self.sound:
            whom = "the forecast" + (" and the group" if self.groups else "")
            lines.append(f"SOUND, as far as these data tell: no bet that looks at {whom} is shown to win.")
        else:
            side = "that it happens" if best.stake > 0 else "that it does not happen"
            lines += [
                f"NOT SOUND: whoever bets {side} on {best.where()}",
                f"wins {best.wins.value:.4f} per unit staked, and at least {max(0.0, best.wins.low):.4f} "
                f"with {sure} confidence",
                f"({best.rows:,} rows: said {best.mu:.4f}, was {best.outcome:.4f}; p-value "
                f"{best.p_value:.2g}).",
            ]
        lines.append(
            f"All bets together: p-value {self.p_value:.2g}; the smallest c that is not refuted: "
            f"{self.smallest_c:.4f}"
        )
        if self.staked is not None and self.won is not None:
            share = f" ({self.won / self.staked:.2%} of what they staked)" if self.staked else ""
            verb = "won" if self.won >= 0 else "lost"
            lines.append(f"Those who staked here {verb} {abs(self.won):,.6g} on {self.staked:,.6g}{share}.")
        return lines

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
            "what it wins: per unit staked, as measured here; luck may have done it unless marked",
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
        """Which rows of the table are a group's; with classes, those of one (else of the first)."""
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
        """Whether a row of the table is about all bins."""
        return bool(self.table["total"][row])

    def bet(self, row: int) -> str:
        """A row of the table, as a bet in words."""
        t = self.table
        return f"{'yes' if t['stake'][row] > 0 else 'no'} on " + where(
            int(t["class"][row]) if "class" in t else None,
            t["group"][row],
            t["value"][row],
            None if self.is_total(row) else (float(t["bin_low"][row]), float(t["bin_high"][row])),
        )

    def _groups(self) -> list[str]:
        lines: list[str] = []
        for column, found in self.groups.items():
            worst = sorted(found.items(), key=lambda item: item[1].urgency())
            head = f"{column[:24]:<25}{'rows':>11}{'said':>9}{'happened':>10}"
            lines += ["", f"{head}{'wins':>9}{'at least':>10}{'c needed':>10}"]
            for value, g in worst[:_SHOWN]:
                flag = " <- refuted" if g.p_value <= 1 - self.confidence else ""
                name = value[:24] if g.class_ is None else f"{value[:15]}, class {g.class_}"
                lines.append(
                    f"{name:<25}{g.rows:>11,}{g.mu:>9.4f}{g.outcome:>10.4f}{g.wins:>9.4f}"
                    f"{g.wins_low:>10.4f}{g.smallest_c:>10.4f}{flag}"
                )
            if len(worst) > _SHOWN:
                lines.append(f"and {len(worst) - _SHOWN:,} more, which need no wider c")
        if lines:
            lines += [
                f"wins: per forecast, by whoever knows the forecast and the group and stakes 1"
                f"{' on each class' if self.by_class else ''} where it paid; luck included",
                "at least: the part of it that is not luck; c needed: the smallest c that is not refuted",
            ]
        return lines

    def all_notes(self) -> list[str]:
        """What was missing, and what else somebody should know."""
        gaps = {name: count for name, count in self.missing.items() if count}
        notes = [f"{count:,} row{'s' * (count != 1)} without {name}" for name, count in gaps.items()]
        return [*notes, *self.notes]


def _plain(value: Any) -> Any:
    if hasattr(value, "_asdict"):
        return {name.rstrip("_"): _plain(v) for name, v in value._asdict().items()}
    if isinstance(value, dict):
        return {str(key): _plain(v) for key, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
