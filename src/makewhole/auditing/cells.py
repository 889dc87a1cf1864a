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

from makewhole import bounds
from makewhole.arguments import Floats
from makewhole.auditing.groupings import Group
from makewhole.auditing.report import Bounded, Cell, GroupFinding, Outlook, Scores, Verdict
from makewhole.auditing.sums import Columns

# Weights whose mean is this close to the largest are equal but for rounding.
_EQUAL = 1e-9

_ABOVE_0 = np.nextafter(0.0, 1.0)  # the smallest win there is


@dataclass
class ClassSums:
    """The sums of one class: a row for everyone and for each group, a column for each bin and one for all.

    `scores` are the sums over all rows that only the scores need. `missing` is how many rows were left out.
    """

    groups: list[Group]
    sums: dict[str, Floats]
    scores: dict[str, float]
    missing: int

    @property
    def rows(self) -> int:
        """How many rows were audited."""
        return int(self.sums["one"][0, -1])


class Means(NamedTuple):
    """The means of every cell, as arrays [class, group, bin]; the last bin is all bins together.

    `rows` is n, the number of rows; `full` says whether there are any. `weight` is Σw, the sum of the weights
    (n without weights). `mu`, `outcome` and `c` are weighted means, such as Σwμ / Σw. `share` is the mean
    weight divided by the largest, Σw / (n·max w): 1 where all weights are equal. `spread` is √Σw² / Σw, and
    None without weights.
    """

    rows: Floats
    full: Any
    weight: Floats
    mu: Floats
    outcome: Floats
    c: Floats
    share: Floats
    spread: Floats | None

    @property
    def gap(self) -> Floats:
        """How much more often it happened than was said: mean outcome − mean μ."""
        return self.outcome - self.mu

    @property
    def cells(self) -> int:
        """How many cells have rows: so many bets are tried."""
        return int(self.full.sum())

    @property
    def ways(self) -> Floats:
        """How many bounds are tried per cell and side: 2 where rows weigh differently, else 1."""
        ways: Floats = np.where(self.share < 1 - _EQUAL, 2, 1) * np.ones(self.rows.shape)
        return ways


def compute_means(by_class: Sequence[ClassSums], columns: Sequence[Columns]) -> Means:
    """Divide the sums of every cell by its weight."""
    rows = _stack(by_class, "one")
    full = rows > 0
    weight = _stack(by_class, "weight") if columns[0].weight else rows
    per = np.where(full, weight, 1.0)
    c = [  # a number stays as it is: times the weight and divided by it, it would be rounded
        sums.sums["c"] / w if isinstance(one.c, str) else np.where(sums.sums["one"] > 0, one.c, 0.0)
        for sums, one, w in zip(by_class, columns, per, strict=True)
    ]
    share, spread = np.ones(rows.shape), None
    if columns[0].weight:
        heaviest = np.where(full, rows * _stack(by_class, "heaviest"), 1.0)
        share = np.where(full, np.minimum(weight / heaviest, 1.0), 1.0)
        spread = np.sqrt(_stack(by_class, "weight_squared")) / per
    return Means(
        rows=rows,
        full=full,
        weight=weight,
        mu=_stack(by_class, "mu") / per,
        outcome=_stack(by_class, "outcome") / per,
        c=np.stack(c),
        share=share,
        spread=spread,
    )


class GapBounds(NamedTuple):
    """Where the gap between truth and forecast lies in every cell, for all cells at once."""

    low: Floats
    high: Floats


def bound_gaps(means: Means, confidence: float) -> GapBounds:
    """Bound every cell's gap p − μ, where p is the (weighted) mean of the outcomes' true probabilities.

    All bounds hold together with at least this confidence. The risk 1 − confidence is divided equally among
    the cells, the two sides of each, and the bounds tried for each side (Bonferroni):

        risk = (1 − confidence) / (2 · cells · ways).

    Where all rows weigh the same, the outcomes are counts, and p lies where `bounds.count_tail` is at least
    the risk. Where they weigh differently, two bounds are tried. The first is Chernoff's: divided by the
    largest weight, w·y lies in [0, 1]; its mean is m·share, where m is the mean outcome. So p lies where
    n·KL(m·share ‖ p·share) <= ln(1/risk). The second is Hoeffding's: |m − p| <= spread·√(ln(1/risk) / 2). The
    narrower of the two is taken on each side.

    Dividing the risk between two bounds is on the safe side: both are thresholds of the same mean m.
    """
    full, share, ways = means.full, means.share, means.ways
    risk = (1 - confidence) / (2 * means.cells * ways)
    low, high = np.zeros(full.shape), np.ones(full.shape)
    scaled = (means.outcome * share)[full]
    low[full], high[full] = bounds.interval(scaled, means.rows[full], risk[full], counts=ways[full] == 1)
    low, high = low / share, np.minimum(high / share, 1.0)
    if means.spread is not None:
        reach = bounds.weighted_reach(means.spread, risk)
        low = np.where(ways == 2, np.maximum(low, means.outcome - reach), low)
        high = np.where(ways == 2, np.minimum(high, means.outcome + reach), high)
    return GapBounds(low - means.mu, high - means.mu)


def compute_p_values(means: Means) -> Floats:
    """Test in every cell whether the truth can lie within c of the forecast.

    The edge is the end of [μ − c, μ + c] that is nearer to the mean outcome m. `chance` is an upper bound on
    the chance of a mean as far out as m if the truth were the edge: `bounds.count_tail`, or, where rows weigh
    differently, the smaller of exp(−n·KL(m·share ‖ edge·share)) and exp(−2·((m − edge) / spread)²).
    Multiplied by the number of tests (Bonferroni), it is a p-value for all cells at once:

        p-value = min(1, 2 · cells · ways · chance), and 1 where m lies within c of μ.
    """
    outcome, share, ways = means.outcome, means.share, means.ways
    edge = np.clip(means.mu + np.sign(means.gap) * means.c, 0.0, 1.0)
    chance = np.where(
        ways == 1,
        bounds.count_tail(outcome, edge, means.rows),
        bounds.tail(outcome * share, edge * share, means.rows),
    )
    if means.spread is not None:
        second = bounds.weighted_tail(outcome - edge, means.spread)
        chance = np.where(ways == 2, np.minimum(chance, second), chance)
    outside = np.abs(means.gap) - means.c > 0
    return np.where(outside, np.minimum(1.0, 2 * means.cells * ways * chance), 1.0)


class Wins(NamedTuple):
    """What each cell's bet wins per unit staked, after c: as measured, and its bounds."""

    measured: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True)
class Cells:
    """Every cell of every class: its means, the bounds on its gap, its p-value, and the money staked there.

    The arrays are [class, group, bin], the last bin being all of them. `groups` are the groups in their
    order, `classes` how many classes there are (None for a binary event). `refuted` says which cells have a
    p-value of at most 1 − confidence; the sure wins and the smallest c follow it, so that rounding cannot set
    them at odds. `staked` and `won` are None without stakes.
    """

    groups: list[Group]
    classes: int | None
    means: Means
    gaps: GapBounds
    p_value: Floats
    refuted: Any
    staked: Floats | None
    won: Floats | None

    @classmethod
    def from_sums(cls, by_class: Sequence[ClassSums], columns: Sequence[Columns], confidence: float) -> Self:
        """Compute all statistics from the sums."""
        means = compute_means(by_class, columns)
        p_value = compute_p_values(means)
        return cls(
            groups=by_class[0].groups,
            classes=columns[0].classes,
            means=means,
            gaps=bound_gaps(means, confidence),
            p_value=p_value,
            refuted=means.full & (p_value <= 1 - confidence),
            staked=_stack(by_class, "staked") if columns[0].stake else None,
            won=_stack(by_class, "won") if columns[0].stake else None,
        )

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
        """The smallest c that each cell does not refute: how far its bounds on the gap keep away from 0.

        It is more than the cell's own c exactly where the cell is refuted.
        """
        needed, c = np.maximum(self.gaps.low, -self.gaps.high), self.means.c
        needed = np.where(self.means.full & (needed > 0), _little_more(needed), 0.0)
        smallest: Floats = np.where(self.refuted, np.maximum(needed, _little_more(c)), np.minimum(needed, c))
        return smallest

    @property
    def certified_c(self) -> Floats:
        """The smallest c at which neither bet on a cell can win: how far its gap may be from 0.

        It is at most the cell's own c exactly where both bets on the cell lose at it.
        """
        reach = np.where(self.means.full, np.maximum(self.gaps.high, -self.gaps.low), 0.0)
        at_least: Floats = np.maximum(self.smallest_c, reach)
        return at_least

    @property
    def verdict(self) -> Verdict:
        """Refuted if some bet wins; certified if none can; open if neither is shown."""
        if self.refuted.any():
            return "refuted"
        full = self.means.full
        return "certified" if (self.certified_c <= self.means.c)[full].all() else "open"


def _little_more(c: Floats) -> Floats:
    """Return slightly more than a bound, so that an audit with this c is not refuted by rounding."""
    return c * (1 + 1e-9) + 1e-12


class GroupWins(NamedTuple):
    """What the best bettor of each group wins per forecast: as measured, and at least."""

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
    worst = np.argmax(np.where(means.full[..., -1], np.abs(means.gap[..., -1]), -1.0), axis=0)
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
        log_loss=np.inf if sums["impossible"] else -sums["log_said"] / total,
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
    mce = Bounded(*(max(ends) for ends in zip(*(one.mce for one in scores), strict=True)))
    ece = sum(one.ece for one in scores) / len(scores)
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
    best = np.unravel_index(int(np.argmax(sure)), sure.shape)
    if sure[best] <= 0:
        best = np.unravel_index(int(np.argmin(np.where(full, cells.p_value, np.inf))), sure.shape)
    return _cell_at(cells, *(int(i) for i in best))


def _cell_at(cells: Cells, k: int, g: int, b: int) -> Cell:
    """One cell, by class, group and bin."""
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


def _stack(by_class: Sequence[ClassSums], name: str) -> Floats:
    """One sum of all classes, as an array [class, group, bin]."""
    return np.stack([sums.sums[name] for sums in by_class])
