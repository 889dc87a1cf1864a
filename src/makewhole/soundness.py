"""Audit a table of forecasts: against whom would we lose, standing behind them, and how much.

Binned by the forecast, overall and within groups, every cell is a bet: stake 1 (or −1) on its rows. It wins
|Σ(y − μ)| − Σc. Bets that depend on μ are calibration, bets that depend on μ and a group multicalibration.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from makewhole import arguments, bounds, frames, tables
from makewhole.arguments import Floats
from makewhole.findings import AuditReport, Bounded, Cell, GroupFinding, Scores
from makewhole.tables import Columns, Pass

_SCORES = ("squared", "log_said", "impossible", "log_hit", "impossible_hit")


def audit(
    frame: Any,
    mu: str | Sequence[str] = "mu",
    outcome: str = "y",
    *,
    c: str | float | Sequence[str] | None = None,
    stake: str | Sequence[str] | None = None,
    weight: str | None = None,
    groups: Any = None,
    bins: int = 15,
    undecided: float | None = None,
    confidence: float = 0.95,
    max_groups: int = 1000,
) -> AuditReport:
    """Find in a table of forecasts and outcomes against whom we would lose, how much, and how wide c must be.

    The sums are made by the engine that holds the data; only cells come back. The bounds are those of
    Chernoff and Hoeffding (`makewhole.bounds`), for all cells at once (Bonferroni). They hold at any count
    if outcomes are independent given the forecasts, whatever their probabilities, and bound the mean of
    these probabilities. Binning can miss bets, never invent them.

    Parameters
    ----------
    frame
        pandas, polars (lazy, too), pyarrow, DuckDB, Dask, Spark: whatever narwhals knows.
    mu
        Column of probabilities; for K classes a list of K columns that add up to 1.
    outcome
        Column of 0 and 1; for K classes of class indices 0 … K−1.
    c
        The half-width the forecaster stands behind: a column, a number, for K classes also a list of
        columns; None is 0.
    stake
        Column of stakes (for K classes a list): what did these very customers win?
    weight
        Column of weights, none negative; they count in every mean. They are no counts: the evidence is that
        of the rows there are, less where weights differ. For a table of counts, repeat its rows.
    groups
        Columns, and named predicates: `["carrier", {"long haul": nw.col("distance") > 1000}]`.
    bins
        Equal-width bins of μ.
    undecided
        An outcome that means there was none, such as 0.5 for a tie: such rows are left out, and counted.
    confidence
        With which all bounds hold together.
    max_groups
        Of a column with more values the largest groups are kept, the others become one, with a warning.

    Examples
    --------
    >>> import makewhole as mw
    >>> import numpy as np
    >>> import pandas as pd
    >>> draw = np.random.default_rng(0)
    >>> table = pd.DataFrame({"mu": draw.uniform(size=20_000), "where": draw.choice(["JFK", "BOS"], 20_000)})
    >>> table["y"] = draw.uniform(size=20_000) < table["mu"] + 0.1 * (table["where"] == "JFK")
    >>> report = mw.audit(table, groups="where")
    >>> report.sound, {name: round(found.smallest_c, 2) for name, found in report.groups["where"].items()}
    (False, {'BOS': 0.0, 'JFK': 0.08})
    >>> mw.audit(table, groups="where", c=0.12).sound
    True
    """
    bins = arguments.whole("bins", bins, least=1)
    most = arguments.whole("max_groups", max_groups, least=1)
    level = float(arguments.numbers("confidence", confidence))
    if not 0 < level < 1:
        raise ValueError(f"confidence must lie between 0 and 1; got {confidence!r}")
    opened, rules = tables.open_frame(frame), tables.group_rules(groups)
    plan = _plan(mu, outcome, c, stake, weight)
    if undecided is not None:
        none = float(arguments.numbers("undecided", undecided))
        plan = [replace(columns, undecided=none) for columns in plan]
    for columns in plan:
        tables.check_columns(
            opened, columns.numeric(), [rule for rule in rules.values() if isinstance(rule, str)]
        )
    if len(plan) > 1:
        tables.check_sums(opened, [columns.mu for columns in plan])
    notes: list[str] = []
    found = [_add_up(opened, columns, rules, bins, most, notes) for columns in plan]
    if not found[0].rows:
        raise ValueError(
            "frame must have rows with all numbers; got "
            + (f"{found[0].missing:,} rows, each with a gap" if found[0].missing else "an empty one")
        )
    for note in notes:
        warnings.warn(note, stacklevel=2)
    if weight is not None:
        notes.append(
            f"{weight} weighs rows and does not count them: the evidence is that of {found[0].rows:,} rows"
        )
    gaps = tables.count_gaps(opened, plan[0]) if found[0].missing else {}
    said = "0" if c is None else f"{c:g}" if isinstance(c, (int, float)) else f"column {c}"
    facts: dict[str, Any] = {"missing": gaps, "bins": bins, "confidence": level, "c": said}
    facts["notes"] = tuple(notes)
    return _report(found, plan, facts, frames.backend_of(opened))


def _plan(mu: Any, outcome: str, c: Any, stake: Any, weight: str | None) -> list[Columns]:
    """Which columns each class needs; a binary event is one class."""
    if c is not None and not isinstance(c, (str, Sequence)):
        c = float(arguments.numbers("c", c))
        if not 0 <= c <= 1:
            hint = " (a percentage? divide by 100)" if c > 1 else ""
            raise ValueError(f"c must lie in [0, 1]; got {c:g}{hint}")
    if isinstance(mu, str):
        if not isinstance(stake, (str, type(None))) or (c is not None and not isinstance(c, (str, float))):
            raise TypeError(f"c and stake must be single columns where mu is one; got {c!r}, {stake!r}")
        return [Columns(mu, outcome, 0.0 if c is None else c, stake, weight)]
    names = list(mu)
    if len(names) < 2 or not all(isinstance(name, str) for name in names):
        raise ValueError(f"mu must be a column, or a list of at least two, one per class; got {mu!r}")
    widths = [0.0 if c is None else c] * len(names) if c is None or isinstance(c, (str, float)) else list(c)
    stakes = [None] * len(names) if stake is None else list(stake)
    if len(widths) != len(names) or len(stakes) != len(names) or isinstance(stake, str):
        raise ValueError(f"c and stake must be {len(names)} columns, one per class; got {c!r}, {stake!r}")
    return [
        Columns(name, outcome, widths[k], stakes[k], weight, len(names), k, (*names[:k], *names[k + 1 :]))
        for k, name in enumerate(names)
    ]


@dataclass
class _Sums:
    """One class's sums: a row for everyone and for each group, a column for each bin, and one for all."""

    names: list[tuple[str, str]]
    sums: dict[str, Floats]
    scores: dict[str, float]
    missing: int

    @property
    def rows(self) -> int:
        return int(self.sums["one"][0, -1])


def _add_up(frame: Any, columns: Columns, rules: Any, bins: int, most: int, notes: list[str]) -> _Sums:
    passes = tables.add_up(frame, columns, rules, bins)
    first = passes[0].sums
    scores = {n: float(m.sum()) for n, m in first.items() if n in _SCORES}
    kept = [n for n in first if n not in scores and n != "bad"]
    names, blocks = [("", "")], [{n: _fold(n, first[n]) for n in kept}]
    for found in passes:
        merged, others = tables.merge_small(found, most) if len(found.keys) == 1 else (found, 0)
        if others and found.keys[0] not in "".join(notes):
            notes.append(
                f"{found.keys[0]} has {len(found.labels):,} groups: the {most:,} largest are audited one by "
                f"one, the other {others:,} as one (max_groups={most})"
            )
        for name, block in _groups(merged, rules, kept):
            names.append(name)
            blocks.append(block)
    sums = {}
    for n in kept:
        matrix = np.vstack([block[n] for block in blocks])
        total = matrix.max(axis=1) if n == "heaviest" else matrix.sum(axis=1)
        sums[n] = np.column_stack([matrix, total])
    return _Sums(names, sums, scores, passes[0].missing)


def _fold(name: str, matrix: Floats) -> Floats:
    """One row of several."""
    if not len(matrix):
        return np.zeros(matrix.shape[1])
    folded: Floats = matrix.max(axis=0) if name == "heaviest" else matrix.sum(axis=0)
    return folded


def _groups(found: Pass, rules: Any, kept: list[str]) -> Iterator[tuple[tuple[str, str], dict[str, Floats]]]:
    """A pass's groups: a column's values, or those for whom a predicate is true."""
    for k, key in enumerate(found.keys):
        if isinstance(rules[key], str):
            for row, label in enumerate(found.labels):
                yield (key, label[0]), {n: found.sums[n][row] for n in kept}
        else:
            members = [row for row, label in enumerate(found.labels) if label[k] == "1"]
            yield (key, "yes"), {n: _fold(n, found.sums[n][members]) for n in kept}


class _Cells:
    """Every cell of every class, as arrays [class, group, bin], the last bin being all of them."""

    def __init__(self, found: list[_Sums], columns: list[Columns], confidence: float) -> None:
        def stack(name: str) -> Floats:
            return np.stack([sums.sums[name] for sums in found])

        self.rows = stack("one")
        self.full = self.rows > 0
        self.weight = stack("weight") if columns[0].weight else self.rows
        self.full &= self.weight > 0
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
            share = self.weight / np.where(self.full, self.rows * stack("heaviest"), 1.0)
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
        self.needed = np.where(self.full, np.maximum(0.0, np.maximum(self.low, -self.high)), 0.0)
        self.staked = stack("staked") if columns[0].stake else None
        self.won = stack("won") if columns[0].stake else None


def _report(
    found: list[_Sums], columns: list[Columns], facts: dict[str, Any], backend: str | None
) -> AuditReport:
    cells = _Cells(found, columns, facts["confidence"])
    names, classes = found[0].names, columns[0].classes
    p_value = float(cells.p_value[cells.full].min())
    wins, wins_low = _sums_of_wins(cells)
    by_class = tuple(_scores(cells, k, sums.scores) for k, sums in enumerate(found))
    scores = by_class[0] if classes is None else _joint(by_class, found, float(cells.weight[0, 0, -1]))
    order = np.where(cells.full, cells.wins_low, -np.inf)
    best = np.unravel_index(int(np.argmax(order)), order.shape)
    if order[best] <= 0:  # nothing is shown to win: then what speaks loudest
        best = np.unravel_index(int(np.argmin(np.where(cells.full, cells.p_value, np.inf))), order.shape)
    return AuditReport(
        rows=found[0].rows,
        incomplete=found[0].missing,
        sound=p_value > 1 - facts["confidence"],
        p_value=p_value,
        smallest_c=float(cells.needed.max()),
        best=_cell(cells, names, classes, tuple(int(i) for i in best), facts["bins"]),
        wins=float(wins.max()),
        wins_low=float(wins_low.max()),
        scores=scores,
        groups=_findings(cells, names),
        by_class=() if classes is None else by_class,
        table=_table(cells, names, classes, facts["bins"]),
        staked=None if cells.staked is None else float(cells.staked[:, 0, -1].sum()),
        won=None if cells.won is None else float(cells.won[:, 0, -1].sum()),
        backend=backend,
        **facts,
    )


def _sums_of_wins(cells: _Cells) -> tuple[Floats, Floats]:
    """What the best customer of each group wins per forecast over its bins, as measured and at least."""
    weight = np.where(cells.full, cells.weight, 0.0)[..., :-1]
    total = np.maximum(cells.weight[0, :, -1], 1e-300)
    measured, least = (
        (np.maximum(wins[..., :-1], 0.0) * weight).sum(axis=(0, 2)) / total
        for wins in (cells.wins, cells.wins_low)
    )
    whole = np.where(cells.full, np.maximum(cells.wins_low, 0.0), 0.0)[..., -1].max(axis=0)
    return measured, np.maximum(least, whole)


def _findings(cells: _Cells, names: list[tuple[str, str]]) -> dict[str, dict[str, GroupFinding]]:
    """Every group; with classes, in numbers of the class that is worst for it."""
    worst = np.argmax(np.where(cells.full[..., -1], np.abs(cells.gap[..., -1]), -1.0), axis=0)
    at = (worst, np.arange(len(names)), -1)
    nothing = np.zeros(len(names))
    columns = (
        *(
            part[at]
            for part in (cells.rows, cells.mu, cells.outcome, cells.gap, cells.low, cells.high, cells.c)
        ),
        *_sums_of_wins(cells),
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


def _scores(cells: _Cells, k: int, sums: dict[str, float]) -> Scores:
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


def _joint(by_class: tuple[Scores, ...], found: list[_Sums], total: float) -> Scores:
    """All classes together: what happened had a probability, and the parts of the Brier score add up."""
    added = {part: sum(getattr(s, part) for s in by_class) for part in Scores._fields[2:-1]}
    hit_impossible = any(sums.scores["impossible_hit"] for sums in found)
    log_loss = np.inf if hit_impossible else -sum(sums.scores["log_hit"] for sums in found) / total
    worst = max(by_class, key=lambda s: s.mce.value).mce
    low, high = max(s.mce.low for s in by_class), max(s.mce.high for s in by_class)
    mce = Bounded(worst.value, low, high)
    return Scores(mce=mce, ece=sum(s.ece for s in by_class) / len(by_class), log_loss=log_loss, **added)


def _cell(
    cells: _Cells, names: list[tuple[str, str]], classes: int | None, at: tuple[int, ...], bins: int
) -> Cell:
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


def _table(cells: _Cells, names: list[tuple[str, str]], classes: int | None, bins: int) -> dict[str, Any]:
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
