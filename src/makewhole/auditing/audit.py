"""Audit a table of forecasts: against whom would we lose, standing behind them, and how much.

Binned by the forecast, overall and within groups, every cell is a bet: stake 1 (or −1) on its rows. It wins
|Σ(y − μ)| − Σc. Bets that depend on μ are calibration, bets that depend on μ and a group multicalibration.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from makewhole import arguments, frames
from makewhole.arguments import Floats
from makewhole.auditing import sums as tables
from makewhole.auditing.cells import (
    Cells,
    Sums,
    cell_at,
    findings_by_group,
    joint_scores,
    scores_of,
    sums_of_wins,
    table_of,
)
from makewhole.auditing.report import AuditReport
from makewhole.auditing.sums import Columns, Pass

_MOST_BINS = 1000  # more would be a cell for every few rows, and memory for each of every group
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
    these probabilities. So forecasts, c, groups and weights must not have been chosen by the outcomes
    audited: what a model that learns as it goes has said does not qualify; for that watch the statement of an
    `InsuredForecaster`. Binning can miss bets, never invent them.

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
        Columns, and named predicates: `["carrier", {"long haul": nw.col("distance") > 1000}]`. What a
        predicate says of a missing value is up to the engine: fill it first.
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
    if bins > _MOST_BINS:
        raise ValueError(f"bins must be at most {_MOST_BINS}; got {bins}")
    most = arguments.whole("max_groups", max_groups, least=1)
    level = arguments.scalar("confidence", confidence)
    if not 0 < level < 1:
        raise ValueError(f"confidence must lie between 0 and 1; got {confidence!r}")
    opened, rules = tables.open_frame(frame), group_rules(groups)
    plan = _plan(mu, outcome, c, stake, weight)
    if undecided is not None:
        none = arguments.scalar("undecided", undecided)
        plan = [replace(columns, undecided=none) for columns in plan]
    for columns in plan:
        tables.check_columns(
            opened, columns.numeric(), [rule for rule in rules.values() if isinstance(rule, str)]
        )
    if len(plan) > 1:
        tables.check_sums(opened, [columns.mu for columns in plan])
        opened = tables.mark_gaps(opened, sorted({*plan[0].numeric().values(), *plan[0].others}))
    opened = tables.planned(opened)
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
    said = "0" if c is None else f"column {c}" if isinstance(c, (str, Sequence)) else f"{float(c):g}"
    facts: dict[str, Any] = {"missing": gaps, "bins": bins, "confidence": level, "c": said}
    facts["notes"] = tuple(notes)
    return _report(found, plan, facts, frames.backend_of(opened))


def audit_arrays(
    outcome: Any, probability: Any, groups: Mapping[str, Any] | None = None, **options: Any
) -> AuditReport:
    """Audit outcomes and probabilities, a column for each class if several; `groups` are labels by name."""
    said, happened = np.asarray(probability, dtype=np.float64), np.asarray(outcome).astype(np.float64)
    if said.ndim == 2 and said.shape[1] < 2:
        raise ValueError(f"probability must be one column, or one for each class; got shape {said.shape}")
    mus = ["mu"] if said.ndim == 1 else [f"mu {k}" for k in range(said.shape[1])]
    columns: dict[str, Any] = {"y": happened} | dict(zip(mus, np.atleast_2d(said.T), strict=True))
    rules = {str(name): f"group {name}" for name in groups or {}}
    columns |= {f"group {name}": np.asarray(labels).tolist() for name, labels in (groups or {}).items()}
    for name, values in columns.items():
        if len(values) != len(happened):
            raise ValueError(f"{name} must be as long as the outcomes, {len(happened)}; got {len(values)}")
    return audit(frames.make_frame(columns), mus if len(mus) > 1 else mus[0], groups=rules, **options)


def _plan(mu: Any, outcome: Any, c: Any, stake: Any, weight: Any) -> list[Columns]:
    """Which columns each class needs; a binary event is one class."""
    for name, column in {"outcome": outcome, "weight": weight}.items():
        if not isinstance(column, str) and not (name == "weight" and column is None):
            raise TypeError(f"{name} must be the name of a column; got {column!r}")
    several = isinstance(mu, (list, tuple))
    if not isinstance(mu, str) and not (several and len(mu) > 1 and all(isinstance(m, str) for m in mu)):
        raise TypeError(f"mu must be a column, or a list of at least two, one per class; got {mu!r}")
    names = list(mu) if several else [mu]
    widths = list(c) if isinstance(c, (list, tuple)) else [c] * len(names)
    stakes = list(stake) if isinstance(stake, (list, tuple)) else [stake] * len(names)
    if len(widths) != len(names) or len(stakes) != len(names) or (several and isinstance(stake, str)):
        raise ValueError(f"c and stake must be one per class, {len(names)} of them; got {c!r}, {stake!r}")
    if any(not isinstance(one, str) for one in stakes if one is not None):
        raise TypeError(f"stake must be the name of a column; got {stake!r}")
    parts = zip(names, [_width(one) for one in widths], stakes, strict=True)
    if not several:
        return [Columns(name, outcome, width, staked, weight) for name, width, staked in parts]
    several_columns = [
        Columns(name, outcome, width, staked, weight, len(names), k)
        for k, (name, width, staked) in enumerate(parts)
    ]
    every = list(dict.fromkeys(n for columns in several_columns for n in columns.numeric().values()))
    return [
        replace(columns, others=tuple(n for n in every if n not in columns.numeric().values()))
        for columns in several_columns
    ]


def _width(c: Any) -> str | float:
    """A column of c, or a number."""
    if c is None or isinstance(c, str):
        return 0.0 if c is None else c
    width = arguments.scalar("c", c)
    if not 0 <= width <= 1:
        hint = " (a percentage? divide by 100)" if width > 1 else ""
        raise ValueError(f"c must lie in [0, 1]; got {width:g}{hint}")
    return width


def _add_up(frame: Any, columns: Columns, rules: Any, bins: int, most: int, notes: list[str]) -> Sums:
    passes = tables.add_up(frame, columns, rules, bins, most)
    first = passes[0].sums
    scores = {n: float(m.sum()) for n, m in first.items() if n in _SCORES}
    kept = [n for n in first if n not in scores and n != "bad"]
    names, blocks = [("", "")], [{n: _fold(n, first[n]) for n in kept}]
    for found in passes:
        note = (
            f"{found.keys[0]} has {most + found.others:,} groups: the {most:,} largest are audited one by "
            f"one, the other {found.others:,} as one (max_groups={most})"
            if found.others
            else ""
        )
        if note and note not in notes:  # once, not for every class
            notes.append(note)
        for name, block in _groups(found, rules, kept):
            names.append(name)
            blocks.append(block)
    sums = {}
    for n in kept:
        matrix = np.vstack([block[n] for block in blocks])
        total = matrix.max(axis=1) if n == "heaviest" else matrix.sum(axis=1)
        sums[n] = np.column_stack([matrix, total])
    return Sums(names, sums, scores, passes[0].missing)


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


def _report(
    found: list[Sums], columns: list[Columns], facts: dict[str, Any], backend: str | None
) -> AuditReport:
    cells = Cells(found, columns, facts["confidence"])
    names, classes = found[0].names, columns[0].classes
    p_value = float(cells.p_value[cells.full].min())
    wins, wins_low = sums_of_wins(cells)
    by_class = tuple(scores_of(cells, k, sums.scores) for k, sums in enumerate(found))
    scores = by_class[0] if classes is None else joint_scores(by_class, found, float(cells.weight[0, 0, -1]))
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
        best=cell_at(cells, names, classes, tuple(int(i) for i in best), facts["bins"]),
        wins=float(wins.max()),
        wins_low=float(wins_low.max()),
        scores=scores,
        groups=findings_by_group(cells, names),
        by_class=() if classes is None else by_class,
        table=table_of(cells, names, classes, facts["bins"]),
        staked=None if cells.staked is None else float(cells.staked[:, 0, -1].sum()),
        won=None if cells.won is None else float(cells.won[:, 0, -1].sum()),
        backend=backend,
        **facts,
    )


def group_rules(groups: Any) -> dict[str, Any]:
    """Groups as callers give them, by name: a column, or a predicate that is a narwhals expression."""
    import narwhals as nw

    if groups is None:
        return {}
    if isinstance(groups, (str, Mapping)):
        groups = [groups]
    if not isinstance(groups, Sequence):
        raise TypeError(f"groups must be columns or a mapping from names to predicates; got {groups!r}")
    rules: dict[str, Any] = {}
    for group in groups:
        if isinstance(group, str):
            rules |= _named_once(group, rules)
            continue
        if not isinstance(group, Mapping):
            raise TypeError(f"groups must be columns or a mapping from names to predicates; got {group!r}")
        for name, rule in group.items():
            if not isinstance(rule, (nw.Expr, str)):
                raise TypeError(
                    f"groups[{name!r}] must be a column or a narwhals expression, such as "
                    f"nw.col('distance') > 1000; got {rule!r}"
                )
            rules |= {**_named_once(str(name), rules), str(name): rule}
    return rules


def _named_once(name: str, known: Mapping[str, Any]) -> dict[str, str]:
    if not name or name in known:
        raise ValueError(f"groups must have names, each of its own; got {name!r}" + " twice" * bool(name))
    return {name: name}
