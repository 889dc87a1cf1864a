"""The statistics of an audit: for every cell the means, the bounds, and the tests.

A cell is a bin of the forecast, a group, or a bin of a group. Each cell is a bet against the forecaster:
stake 1 on all its rows that the outcome is 1, or −1 that it is 0. Per row, it wins |mean outcome − mean μ| −
mean c.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from makewhole.arguments import Floats
from makewhole.auditing import betting, clusters, independent
from makewhole.auditing.evidence import Evidence, GapBounds
from makewhole.auditing.groupings import Group
from makewhole.auditing.means import ClassSums, Means, compute_means, stack_sums
from makewhole.auditing.report import Bounded, Cell, GroupFinding, Outlook, Scores, Verdict
from makewhole.auditing.sums import BettingRows, Columns

_TIE = 1e-12  # numbers that differ by less are equal up to rounding: the first is taken
_ABOVE_0 = np.nextafter(0.0, 1.0)  # the smallest possible win


class Wins(NamedTuple):
    """The win of each cell's bet per unit staked, after c: as measured, and its bounds."""

    measured: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True)
class Cells:
    """Every cell of every class: its means, what they show, and the money staked there.

    The arrays are [class, group, bin], the last bin being all of them. `groups` are the groups in their
    order, `classes` how many classes there are (None for a binary event). `risk` is 1 − confidence. `staked`
    and `won` are None without stakes.
    """

    groups: list[Group]
    classes: int | None
    means: Means
    evidence: Evidence
    risk: float
    staked: Floats | None
    won: Floats | None

    @classmethod
    def from_sums(
        cls,
        by_class: Sequence[ClassSums],
        columns: Sequence[Columns],
        confidence: float,
        rows: Sequence[BettingRows] = (),
    ) -> Self:
        """Compute all statistics from the sums; given `rows`, draw the conclusions from these, by betting."""
        means = compute_means(by_class, columns)
        by_cluster = [sums.clusters for sums in by_class if sums.clusters is not None]
        if rows:
            evidence = betting.conclude(means, rows, columns, by_class[0].groups, confidence)
        elif by_cluster:
            evidence = clusters.conclude(means, by_cluster, confidence)
        else:
            evidence = independent.conclude(means, by_class[0].families, confidence)
        return cls(
            groups=by_class[0].groups,
            classes=columns[0].classes,
            means=means,
            evidence=evidence,
            risk=1 - confidence,
            staked=stack_sums(by_class, "staked") if columns[0].stake else None,
            won=stack_sums(by_class, "won") if columns[0].stake else None,
        )

    @property
    def gaps(self) -> GapBounds:
        """Where the gap of each cell lies."""
        return self.evidence.gaps

    @property
    def p_value(self) -> Floats:
        """The p-value of the two bets on each cell; it holds for all cells together."""
        return self.evidence.p_value

    @property
    def refuted(self) -> Any:
        """Which cells have a p-value of at most the risk.

        The sure wins and the smallest c are derived from it, so that rounding cannot make them disagree.
        """
        return self.means.full & (self.p_value <= self.risk)

    @property
    def bins(self) -> int:
        """How many bins there are, not counting the one that is all of them."""
        return int(self.means.rows.shape[-1]) - 1

    @property
    def wins(self) -> Wins:
        """What each cell's bet wins: |gap| − c, as measured, at least and at most."""
        gap, (low, high), c = self.means.gap, self.gaps, self.means.c
        sure = np.maximum(low, -high) - c
        sure = np.where(self.refuted, np.maximum(sure, _ABOVE_0), np.minimum(sure, 0.0))
        return Wins(np.abs(gap) - c, sure, np.maximum(high, -low) - c)

    @property
    def smallest_c(self) -> Floats:
        """The smallest c that each cell does not refute: the distance of its bounds on the gap from 0.

        It is more than the cell's own c exactly where the cell is refuted.
        """
        needed, c = np.maximum(self.gaps.low, -self.gaps.high), self.means.c
        needed = np.where(self.means.full & (needed > 0), _little_more(needed), 0.0)
        smallest: Floats = np.where(self.refuted, np.maximum(needed, _little_more(c)), np.minimum(needed, c))
        return smallest

    @property
    def certified_c(self) -> Floats:
        """The smallest c at which neither bet on a cell wins: how far its gap may be from 0.

        It is at most the cell's own c exactly where both bets on the cell lose at it.
        """
        reach = np.where(self.means.full, np.maximum(self.gaps.high, -self.gaps.low), 0.0)
        at_least: Floats = np.maximum(self.smallest_c, reach)
        return at_least

    @property
    def overall_c(self) -> tuple[float, float]:
        """For all cells together, the smallest c that is not refuted, and the smallest that is certified."""
        smallest = max(float(self.smallest_c.max()), self.evidence.together_c)
        if self.verdict == "refuted":  # rounding must not contradict it
            smallest = max(smallest, float(_little_more(self.means.c[0, 0, -1])))
        return smallest, max(smallest, float(self.certified_c.max()))

    @property
    def verdict(self) -> Verdict:
        """Refuted if some bet wins, certified if none can, open if the data show neither."""
        if self.evidence.together <= self.risk:
            return "refuted"
        full = self.means.full
        return "certified" if (self.certified_c <= self.means.c)[full].all() else "open"


def _little_more(c: Floats) -> Floats:
    """Return slightly more than a bound, so that an audit with this c is not refuted by rounding."""
    return c * (1 + 1e-9) + 1e-12


class GroupWins(NamedTuple):
    """The win per forecast of each group's best bettor: as measured, and at least."""

    measured: Floats
    at_least: Floats


def add_up_wins(cells: Cells) -> GroupWins:
    """Add up, for each group, the wins of the bets on its bins; a bettor leaves out the bins that lose."""
    means, wins = cells.means, cells.wins
    weight = np.where(means.full, means.weight, 0.0)[..., :-1]
    total = np.maximum(means.weight[0, :, -1], 1e-300)
    measured, at_least = (
        (np.maximum(won[..., :-1], 0.0) * weight).sum(axis=(0, 2)) / total
        for won in (wins.measured, wins.low)
    )
    # A single bet on the whole group may be surer than the bets on its bins.
    whole = np.where(means.full, np.maximum(wins.low, 0.0), 0.0)[..., -1].max(axis=0)
    return GroupWins(measured, np.maximum(at_least, whole))


def find_by_group(cells: Cells, wins: GroupWins) -> dict[str, dict[str, GroupFinding]]:
    """Return every group's numbers; with classes, the numbers of the class with the largest gap in it."""
    means, groups = cells.means, cells.groups
    gaps = np.where(means.full[..., -1], np.abs(means.gap[..., -1]), -1.0)
    worst = np.argmax(gaps >= gaps.max(axis=0) - _TIE, axis=0)
    at = (worst, np.arange(len(groups)), -1)
    nothing = np.zeros(len(groups))
    columns: dict[str, list[Any]] = {
        name: numbers.tolist()
        for name, numbers in {
            "rows": means.rows[at].astype(np.int64),
            "mu": means.mu[at],
            "outcome": means.outcome[at],
            "c": means.c[at],
            "wins": wins.measured,
            "wins_low": wins.at_least,
            "smallest_c": cells.smallest_c.max(axis=(0, 2)),
            "certified_c": cells.certified_c.max(axis=(0, 2)),
            "p_value": np.where(means.full, cells.p_value, 1.0).min(axis=(0, 2)),
            "staked": nothing if cells.staked is None else cells.staked[..., -1].sum(axis=0),
            "won": nothing if cells.won is None else cells.won[..., -1].sum(axis=0),
        }.items()
    }
    columns["gap"] = [
        Bounded(*gap) for gap in zip(*(part[at].tolist() for part in (means.gap, *cells.gaps)), strict=True)
    ]
    columns["class_"] = [None] * len(groups) if cells.classes is None else worst.tolist()
    by_group: dict[str, dict[str, GroupFinding]] = {}
    for k, group in enumerate(groups):
        if group.grouping and columns["rows"][k]:
            finding = GroupFinding(**{name: column[k] for name, column in columns.items()})
            by_group.setdefault(group.grouping, {})[group.value] = finding
    return by_group


def compute_scores(cells: Cells, k: int, sums: dict[str, float]) -> Scores:
    """Score the forecasts of class k; `sums` are its sums over all rows."""
    full = cells.means.full[k, 0, :-1]
    weight = np.where(full, cells.means.weight[k, 0, :-1], 0.0)
    total = float(weight.sum())
    weight = weight / total
    happened, base = cells.means.outcome[k, 0, :-1], float(cells.means.outcome[k, 0, -1])
    gap, gap_low, gap_high = (part[k, 0, :-1] for part in (cells.means.gap, *cells.gaps))
    low = np.maximum(0.0, np.maximum(gap_low, -gap_high))[full]
    high = np.minimum(1.0, np.maximum(gap_high, -gap_low))[full]
    brier = sums["squared"] / total
    reliability = float((weight * np.where(full, gap, 0.0) ** 2).sum())
    resolution = float((weight * np.where(full, happened - base, 0.0) ** 2).sum())
    uncertainty = base * (1 - base)
    return Scores(
        mce=Bounded(float(np.abs(gap[full]).max()), float(low.max()), float(high.max())),
        ece=float((weight * np.where(full, np.abs(gap), 0.0)).sum()),
        brier=brier,
        reliability=reliability,
        resolution=resolution,
        uncertainty=uncertainty,
        within=brier - (reliability - resolution + uncertainty),
        log_loss=np.inf if sums["impossible"] else -sums["log_chance"] / total,
    )


def join_scores(scores: Sequence[Scores], by_class: Sequence[ClassSums], total: float) -> Scores:
    """Score all classes together; `total` is the weight of all rows.

    The parts of the Brier score are added up over the classes. The log loss looks at the probability of the
    class that happened. The MCE is the largest of the classes', the ECE their mean.
    """
    parts = ("brier", "reliability", "resolution", "uncertainty", "within")
    added = {part: sum(getattr(one, part) for one in scores) for part in parts}
    hit_impossible = any(sums.scores["impossible_hit"] for sums in by_class)
    log_loss = np.inf if hit_impossible else -sum(sums.scores["log_hit"] for sums in by_class) / total
    mce = Bounded(*(max(ends) for ends in zip(*(score.mce for score in scores), strict=True)))
    ece = sum(score.ece for score in scores) / len(scores)
    return Scores(mce=mce, ece=ece, log_loss=log_loss, **added)


def look_ahead(cells: Cells) -> Outlook:
    """Say what these rows could have shown, and how many such rows would certify the c asked about."""
    full, rows = cells.means.full, cells.means.rows
    half = ((cells.gaps.high - cells.gaps.low) / 2)[full]
    shown = float(half[np.argmax(rows[full])])
    gap = np.abs(cells.means.gap)[full]
    slack, reach = cells.means.c[full] - gap, cells.certified_c[full] - gap
    if (slack <= 0).any():
        return Outlook(shown, None)
    # A bound's reach beyond the gap shrinks with the square root of the rows, until it is the slack.
    factor = float(np.max((reach / slack) ** 2))
    return Outlook(shown, int(np.ceil(min(factor * float(rows[0, 0, -1]), 1e15))))


def find_best(cells: Cells) -> Cell:
    """Return the bet with the largest sure win; if none wins for sure, the one with the smallest p-value."""
    full = cells.means.full
    sure = np.where(full, cells.wins.low, -np.inf)
    best = np.unravel_index(int(np.argmax(sure >= sure.max() - _TIE)), sure.shape)
    if not cells.refuted.any():
        best = np.unravel_index(int(np.argmin(np.where(full, cells.p_value, np.inf))), sure.shape)
    return _cell_at(cells, *(int(i) for i in best))


def _cell_at(cells: Cells, k: int, g: int, b: int) -> Cell:
    """Return one cell, by class, group and bin."""
    at, means, bins = (k, g, b), cells.means, cells.bins
    low, high = (0.0, 1.0) if b == bins else (b / bins, (b + 1) / bins)
    return Cell(
        class_=None if cells.classes is None else k,
        group=cells.groups[g].grouping,
        value=cells.groups[g].value,
        low=low,
        high=high,
        rows=int(means.rows[at]),
        mu=float(means.mu[at]),
        outcome=float(means.outcome[at]),
        c=float(means.c[at]),
        stake=int(np.sign(means.gap[at])),
        wins=Bounded(*(float(part[at]) for part in cells.wins)),
        p_value=float(cells.p_value[at]),
    )


def tabulate_cells(cells: Cells) -> dict[str, Any]:
    """Return every cell that has rows, as columns."""
    means, gaps, wins, bins = cells.means, cells.gaps, cells.wins, cells.bins
    k, g, b = at = np.nonzero(means.full)
    whole = b == bins
    table: dict[str, Any] = {} if cells.classes is None else {"class": k}
    table |= {
        "group": [cells.groups[i].grouping for i in g],
        "value": [cells.groups[i].value for i in g],
        "bin_low": np.where(whole, 0.0, b / bins),
        "bin_high": np.where(whole, 1.0, (b + 1) / bins),
        "total": whole,
        "rows": means.rows[at].astype(np.int64),
        "weight": means.weight[at],
        "mu": means.mu[at],
        "outcome": means.outcome[at],
        "c": means.c[at],
        "gap": means.gap[at],
        "gap_low": gaps.low[at],
        "gap_high": gaps.high[at],
        "stake": np.sign(means.gap[at]).astype(np.int64),
        "wins": wins.measured[at],
        "wins_low": wins.low[at],
        "wins_high": wins.high[at],
        "p_value": cells.p_value[at],
        "smallest_c": cells.smallest_c[at],
        "certified_c": cells.certified_c[at],
    }
    if cells.staked is not None and cells.won is not None:
        table |= {"staked": cells.staked[at], "won": cells.won[at]}
    return table
