"""Every cell of an audit as a bet against the forecaster: what it wins, and within which bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from makewhole import bounds
from makewhole.arguments import Floats
from makewhole.auditing.report import Bounded, Cell, GroupFinding, Scores
from makewhole.auditing.sums import Columns


@dataclass
class Sums:
    """One class's sums: a row for everyone and for each group, a column for each bin, and one for all."""

    names: list[tuple[str, str]]
    sums: dict[str, Floats]
    scores: dict[str, float]
    missing: int

    @property
    def rows(self) -> int:
        """How many rows were audited."""
        return int(self.sums["one"][0, -1])


class Cells:
    """Every cell of every class, as arrays [class, group, bin], the last bin being all of them."""

    def __init__(self, found: list[Sums], columns: list[Columns], confidence: float) -> None:
        def stack(name: str) -> Floats:
            return np.stack([sums.sums[name] for sums in found])

        self.rows = stack("one")
        self.full = self.rows > 0
        self.weight = stack("weight") if columns[0].weight else self.rows
        per = np.where(self.full, self.weight, 1.0)
        self.mu, self.outcome = stack("mu") / per, stack("outcome") / per
        widths = [
            s.sums["c"] if isinstance(one.c, str) else one.c * w
            for s, one, w in zip(found, columns, self.weight, strict=True)
        ]
        self.c = np.stack(widths) / per
        self.gap = self.outcome - self.mu
        # A weighted outcome w·y is one in [0, 1] once divided by the largest weight.
        share: Any = 1.0
        if columns[0].weight:
            share = np.minimum(self.weight / np.where(self.full, self.rows * stack("heaviest"), 1.0), 1.0)
        self.tried = int(self.full.sum())
        low, high = np.zeros(self.rows.shape), np.ones(self.rows.shape)
        # Where rows weigh differently, a second bound may be narrower, and half the risk is for it.
        ways = np.where(np.asarray(share) < 1 - 1e-9, 2, 1) * np.ones(self.rows.shape)
        risk = (1 - confidence) / (2 * self.tried * ways)
        mean = (self.outcome * share)[self.full]
        low[self.full], high[self.full] = bounds.interval(mean, self.rows[self.full], risk[self.full])
        share = np.where(self.full, share, 1.0)
        low, high = low / share, np.minimum(high / share, 1.0)
        if columns[0].weight:
            spread = np.sqrt(stack("weight_squared")) / per
            reach = bounds.weighted_reach(spread, risk)
            low = np.where(ways == 2, np.maximum(low, self.outcome - reach), low)
            high = np.where(ways == 2, np.minimum(high, self.outcome + reach), high)
        self.low, self.high = low - self.mu, high - self.mu
        self.wins = np.abs(self.gap) - self.c
        self.wins_low = np.maximum(self.low, -self.high) - self.c
        self.wins_high = np.maximum(self.high, -self.low) - self.c
        edge = np.clip(self.mu + np.sign(self.gap) * self.c, 0.0, 1.0)
        chance = bounds.tail(self.outcome * share, edge * share, self.rows)
        if columns[0].weight:
            second = bounds.weighted_tail(self.outcome - edge, spread)
            chance = np.where(ways == 2, np.minimum(chance, second), chance)
        self.p_value = np.where(self.wins > 0, np.minimum(1.0, 2 * self.tried * ways * chance), 1.0)
        # The narrowest c that this cell does not refute.
        # (A hair more than the bound, so that rounding does not refute it after all.)
        needed = np.maximum(self.low, -self.high)
        self.needed = np.where(self.full & (needed > 0), needed * (1 + 1e-9) + 1e-12, 0.0)
        self.staked = stack("staked") if columns[0].stake else None
        self.won = stack("won") if columns[0].stake else None


def sums_of_wins(cells: Cells) -> tuple[Floats, Floats]:
    """What the best customer of each group wins per forecast over its bins, as measured and at least."""
    weight = np.where(cells.full, cells.weight, 0.0)[..., :-1]
    total = np.maximum(cells.weight[0, :, -1], 1e-300)
    measured, least = (
        (np.maximum(wins[..., :-1], 0.0) * weight).sum(axis=(0, 2)) / total
        for wins in (cells.wins, cells.wins_low)
    )
    whole = np.where(cells.full, np.maximum(cells.wins_low, 0.0), 0.0)[..., -1].max(axis=0)
    return measured, np.maximum(least, whole)


def findings_by_group(cells: Cells, names: list[tuple[str, str]]) -> dict[str, dict[str, GroupFinding]]:
    """Every group; with classes, in numbers of the class that is worst for it."""
    worst = np.argmax(np.where(cells.full[..., -1], np.abs(cells.gap[..., -1]), -1.0), axis=0)
    at = (worst, np.arange(len(names)), -1)
    nothing = np.zeros(len(names))
    columns = (
        *(
            part[at]
            for part in (cells.rows, cells.mu, cells.outcome, cells.gap, cells.low, cells.high, cells.c)
        ),
        *sums_of_wins(cells),
        cells.needed.max(axis=(0, 2)),
        np.where(cells.full, cells.p_value, 1.0).min(axis=(0, 2)),
        *(nothing if money is None else money[..., -1].sum(axis=0) for money in (cells.staked, cells.won)),
    )
    found: dict[str, dict[str, GroupFinding]] = {}
    for k, ((column, value), numbers) in enumerate(
        zip(names, zip(*(c.tolist() for c in columns), strict=True), strict=True)
    ):
        rows, mu, outcome, gap, low, high, *rest = numbers
        if column and rows:
            group = GroupFinding(int(rows), mu, outcome, Bounded(gap, low, high), *rest)
            named = group if len(cells.full) == 1 else group._replace(class_=int(worst[k]))
            found.setdefault(column, {})[value] = named
    return found


def scores_of(cells: Cells, k: int, sums: dict[str, float]) -> Scores:
    """How good one class's forecasts are."""
    full = cells.full[k, 0, :-1]
    weight = np.where(full, cells.weight[k, 0, :-1], 0.0)
    total = float(weight.sum())
    weight = weight / total
    gap, happened, base = cells.gap[k, 0, :-1], cells.outcome[k, 0, :-1], float(cells.outcome[k, 0, -1])
    low = np.maximum(0.0, np.maximum(cells.low, -cells.high))[k, 0, :-1][full]
    high = np.minimum(1.0, np.maximum(cells.high, -cells.low))[k, 0, :-1][full]
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


def joint_scores(by_class: tuple[Scores, ...], found: list[Sums], total: float) -> Scores:
    """All classes together: what happened had a probability, and the parts of the Brier score add up."""
    added = {part: sum(getattr(s, part) for s in by_class) for part in Scores._fields[2:-1]}
    hit_impossible = any(sums.scores["impossible_hit"] for sums in found)
    log_loss = np.inf if hit_impossible else -sum(sums.scores["log_hit"] for sums in found) / total
    worst = max(by_class, key=lambda s: s.mce.value).mce
    low, high = max(s.mce.low for s in by_class), max(s.mce.high for s in by_class)
    mce = Bounded(worst.value, low, high)
    return Scores(mce=mce, ece=sum(s.ece for s in by_class) / len(by_class), log_loss=log_loss, **added)


def cell_at(
    cells: Cells, names: list[tuple[str, str]], classes: int | None, at: tuple[int, ...], bins: int
) -> Cell:
    """One cell, as a bet in numbers."""
    k, g, b = at
    low, high = (0.0, 1.0) if b == bins else (b / bins, (b + 1) / bins)
    return Cell(
        class_=None if classes is None else k,
        group=names[g][0],
        value=names[g][1],
        low=low,
        high=high,
        rows=int(cells.rows[at]),
        mu=float(cells.mu[at]),
        outcome=float(cells.outcome[at]),
        c=float(cells.c[at]),
        stake=int(np.sign(cells.gap[at])),
        wins=Bounded(float(cells.wins[at]), float(cells.wins_low[at]), float(cells.wins_high[at])),
        p_value=float(cells.p_value[at]),
    )


def table_of(cells: Cells, names: list[tuple[str, str]], classes: int | None, bins: int) -> dict[str, Any]:
    """Every cell that has rows, as columns."""
    k, g, b = np.nonzero(cells.full)
    at = (k, g, b)
    whole = b == bins  # a bin of its own: all of them
    table: dict[str, Any] = {} if classes is None else {"class": k}
    table |= {"group": [names[i][0] for i in g], "value": [names[i][1] for i in g]}
    table |= {"bin_low": np.where(whole, 0.0, b / bins), "bin_high": np.where(whole, 1.0, (b + 1) / bins)}
    table |= {"total": whole, "rows": cells.rows[at].astype(np.int64), "weight": cells.weight[at]}
    table |= {"mu": cells.mu[at], "outcome": cells.outcome[at], "c": cells.c[at]}
    table |= {"gap": cells.gap[at], "gap_low": cells.low[at], "gap_high": cells.high[at]}
    table |= {"stake": np.sign(cells.gap[at]).astype(np.int64), "wins": cells.wins[at]}
    table |= {"wins_low": cells.wins_low[at], "wins_high": cells.wins_high[at]}
    table |= {"p_value": cells.p_value[at], "smallest_c": cells.needed[at]}
    if cells.staked is not None and cells.won is not None:
        table |= {"staked": cells.staked[at], "won": cells.won[at]}
    return table
