"""Audit a table of forecasts: which bets against the forecaster win, and how much.

The rows are put into cells: bins of the forecast, groups, and bins of groups. Every cell is a bet: stake 1
(or −1) on all its rows. It wins |Σ(y − μ)| − Σc, where μ is the forecast probability, y the outcome (0 or 1),
and c the half-width of the interval [μ − c, μ + c] that the forecaster stands behind. No bet on bins wins if
and only if the forecaster is calibrated up to c; no bet on bins of groups wins if and only if it is
multicalibrated.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Any, Literal, NamedTuple

import numpy as np

from makewhole import arguments, frames
from makewhole.arguments import Floats
from makewhole.auditing import clusters
from makewhole.auditing import sums as tables
from makewhole.auditing.cells import (
    Cells,
    add_up_wins,
    compute_scores,
    find_best,
    find_by_group,
    join_scores,
    look_ahead,
    tabulate_cells,
)
from makewhole.auditing.describing import describe
from makewhole.auditing.groupings import EVERYONE, Group, read_groupings
from makewhole.auditing.means import ClassSums
from makewhole.auditing.report import AuditReport
from makewhole.auditing.sums import Columns, GroupedSums

_MOST_BINS = 1000  # more would leave few rows per cell, and the cells of many groups would fill memory
_UNSEEN_SHOWN = 5  # classes that never happen, in a note
_SCORES = ("squared", "log_chance", "impossible", "log_hit", "impossible_hit")


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
    cluster: str | None = None,
    largest_cluster: float | None = None,
    graded: bool = False,
    method: Literal["bounds", "betting"] = "bounds",
    order: str | None = None,
    undecided: float | None = None,
    confidence: float = 0.95,
    max_groups: int = 1000,
) -> AuditReport:
    """Audit a table of forecasts and outcomes: which bets against them win, how much, and how wide c must be.

    The rows are put into cells: bins of the forecast, groups, and bins of groups. Each cell is a bet that the
    outcomes there are more frequent (or rarer) than forecast. The report says what each bet wins and between
    which bounds. It has two values of c: any c below `smallest_c` is refuted, and `certified_c` is certified.

    The library that holds the data does the summing; only each cell's sums come back. By default the outcomes
    are assumed to be independent given the forecasts; their probabilities may all differ. The bounds
    (`makewhole.bounds`) then hold for all cells together (Bonferroni), and for any number of rows. A tenth of
    the risk 1 − `confidence` goes to a test of all cells together, which can find many small gaps.

    Outcomes often depend on each other: the flights of one day share the weather. Name the day as `cluster`,
    and only outcomes of different days need be independent. The bounds are then those of bets on whole
    clusters.

    The forecasts, c, groups and weights must not depend on the outcomes audited. A model that learns from
    these outcomes breaks this. For such a model use `method="betting"`: it needs only that every forecast was
    made before its outcome was known, and can be repeated at any time as rows come in.

    Under these assumptions a verdict is right with a probability of at least `confidence`. It is about bets
    on whole cells: an audit may overlook a bet that wins only on part of a bin. "Open" does not mean that the
    forecasts are right.

    Parameters
    ----------
    frame
        A dataframe: pandas, polars (also lazy), pyarrow, DuckDB, Dask or Spark.
    mu
        The column of μ, the forecast probability that the outcome is 1. For K classes, a list of K columns
        that add up to 1 in every row.
    outcome
        The column of outcomes, 0 or 1. For K classes, class indices 0 … K−1.
    c
        The half-width: the forecaster stands behind the interval [μ − c, μ + c]. A number or a column; for K
        classes also a list of columns. None means 0.
    stake
        A column of stakes (for K classes, a list). The report then also says what these bets have won.
    weight
        A column of weights, not negative. Every mean is a weighted mean. Weights are not counts: the evidence
        is that of the actual rows, or less where weights differ. For a table of counts, repeat each row as
        often as it counts.
    groups
        Columns, and named predicates: `["carrier", {"long haul": nw.col("distance") > 1000}]`. Engines differ
        in how a predicate treats a missing value: fill missing values first.
    bins
        How many bins of equal width [0, 1] is divided into by the forecast, at most 1000. More bins find
        errors in narrower ranges of the forecast, but with fewer rows in each bin the bounds are wider. With
        15 bins and a few hundred rows in each, errors of about 0.1 are found; with little data use 5.
    cluster
        A column that says which outcomes may depend on each other, in any way: those with the same value.
        Rows of different clusters must be independent. Each cluster counts as one piece of evidence, so there
        should be at least dozens of them. Rows without a cluster are left out and counted.
    largest_cluster
        A number of rows that no cluster can exceed (with `weight`, a sum of weights), known before the
        outcomes. A cluster's size may then depend on its outcomes in any way. Without it, all conclusions
        hold only if no cluster can be larger than the largest one seen: rare, large clusters that happen
        not to be in the table could otherwise undo what the others show. The stakes are in proportion to
        1 / `largest_cluster`, so a number far above the usual sizes makes the bounds wide. With
        `method="betting"` it also limits the rows of one time.
    graded
        Whether an outcome may be any number in [0, 1], such as a delay as a share of three hours; μ is then
        its forecast mean.
    method
        "bounds": for rows that are independent, or clusters that are. "betting": for forecasts that may have
        been learned from earlier outcomes; the rows are then read into memory. Bets on every cell are
        replayed in order of time; their gain is evidence against the forecasts.
    order
        For betting: the column of times, which are numbers, dates or datetimes. Rows of the same time are
        taken together: none of their forecasts may know another's outcome. With `cluster`, clusters must
        not overlap in time.
    undecided
        An outcome that means that nothing was decided, such as 0.5 for a tie. Such rows are left out, and
        counted.
    confidence
        The probability with which all bounds hold together.
    max_groups
        How many groups of a column are audited one by one. If a column has more, the smallest are merged into
        one group, with a warning.

    Returns
    -------
    AuditReport
        Print it to read it. `report.verdict` ("refuted", "certified" or "open"), `report.p_value`,
        `report.smallest_c`, `report.certified_c`, `report.groups` and `report.cells` (a dataframe of the same
        kind as `frame`) are there for programs.

    Raises
    ------
    TypeError
        If `frame` is not a dataframe, a column does not hold numbers, or an argument is not a column's name.
    ValueError
        If a column does not exist, a number is out of bounds, or no row has all the numbers. The message
        names the argument and the value.

    Warns
    -----
    UserWarning
        If a column has more than `max_groups` groups.

    Examples
    --------
    >>> import makewhole as mw
    >>> import numpy as np
    >>> import pandas as pd
    >>> draw = np.random.default_rng(0)
    >>> table = pd.DataFrame({"mu": draw.uniform(size=20_000), "where": draw.choice(["JFK", "BOS"], 20_000)})
    >>> table["y"] = draw.uniform(size=20_000) < table["mu"] + 0.1 * (table["where"] == "JFK")
    >>> report = mw.audit(table, groups="where")
    >>> report.verdict, {name: round(group.smallest_c, 2) for name, group in report.groups["where"].items()}
    ('refuted', {'BOS': 0.0, 'JFK': 0.09})
    >>> mw.audit(table, groups="where", c=0.12).verdict, round(report.certified_c, 2)
    ('open', 0.19)
    >>> mw.audit(table, groups="where", c=0.21).verdict
    'certified'
    """
    given = locals().copy()
    del given["frame"]
    settings = _read_settings(bins, confidence, max_groups, c)._replace(timed=method == "betting")
    _check_method(method, order, weight, cluster)
    largest = _read_largest(largest_cluster, cluster, method)
    opened = tables.open_frame(frame)
    groupings = [grouping.in_frame(opened) for grouping in read_groupings(groups)]
    columns_named = _name_columns(mu, outcome, c, stake, weight)
    shared: Any = {"cluster": cluster, "order": order, "graded": _read_graded(graded, len(columns_named))}
    shared["largest_cluster"] = largest
    by_class = _with_others([replace(columns, **shared).in_frame(opened) for columns in columns_named])
    if undecided is not None:
        none = arguments.scalar("undecided", undecided)
        by_class = [replace(columns, undecided=none) for columns in by_class]
    named = [("groups", grouping.column) for grouping in groupings if grouping.column is not None]
    named += by_class[0].keyed().items()
    for columns in by_class:
        tables.check_columns(opened, columns.numeric(), named)
    if by_class[0].order is not None:
        tables.check_times(opened, by_class[0].order)
    first = by_class[0]
    if len(by_class) > 1:
        tables.check_sums(opened, [columns.mu for columns in by_class])
        opened = tables.mark_gaps(opened, sorted({*first.numeric().values(), *first.others}))
    opened = tables.make_lazy(opened)
    limits = (groupings, settings.bins, settings.max_groups)
    queried = [tables.query_sums(opened, columns, *limits) for columns in by_class]
    sums = [_arrange(results, columns) for results, columns in zip(queried, by_class, strict=True)]
    if not sums[0].rows:
        raise ValueError(f"frame must have a row with all numbers; got {_left_out(sums[0].missing)}")
    _check_largest(sums[0], first)
    notes = [*_merged_notes(queried, settings.max_groups), *_cluster_notes(sums[0], cluster)]
    for note in notes:
        warnings.warn(note, stacklevel=2)
    notes += _unseen_notes(sums, by_class)
    if weight is not None:
        notes.append(
            f"{weight} weighs rows and does not count them: the evidence is that of {sums[0].rows:,} rows"
        )
    missing = tables.count_gaps(opened, first) if sums[0].missing else {}
    rows = []
    if method == "betting":
        rows = [tables.query_rows(opened, columns, groupings, settings.bins) for columns in by_class]
    cells = Cells.from_sums(sums, by_class, settings.confidence, rows)
    report = _report(sums, cells, settings, missing, notes, _backend_of(opened))
    report = replace(report, largest_cluster=largest)
    return replace(report, made=f"{date.today().isoformat()} by {_call(given)}")


def _call(given: dict[str, Any]) -> str:
    """Write down the call of `audit`, with the arguments that are not its defaults."""
    defaults = {name: parameter.default for name, parameter in inspect.signature(audit).parameters.items()}
    passed = [f"{name}={describe(value)}" for name, value in given.items() if value is not defaults[name]]
    return f"audit({', '.join(['frame', *passed])})"


def audit_arrays(
    outcome: Any,
    probability: Any,
    groups: Mapping[str, Any] | None = None,
    *,
    weight: Any = None,
    cluster: Any = None,
    **options: Any,
) -> AuditReport:
    """Audit arrays instead of a frame.

    `probability` has a column for each class if there are several. `groups` are arrays of labels, by name;
    `weight` and `cluster` are also arrays. `options` are those of `audit`.
    """
    mu, happened = np.asarray(probability, dtype=np.float64), np.asarray(outcome).astype(np.float64)
    if mu.ndim == 2 and mu.shape[1] < 2:
        raise ValueError(f"probability must be one column, or one for each class; got shape {mu.shape}")
    mus = ["mu"] if mu.ndim == 1 else [f"mu {k}" for k in range(mu.shape[1])]
    columns: dict[str, Any] = {"y": happened} | dict(zip(mus, np.atleast_2d(mu.T), strict=True))
    named = {str(name): f"group {name}" for name in groups or {}}
    columns |= {f"group {name}": np.asarray(labels).tolist() for name, labels in (groups or {}).items()}
    for name, array in {"weight": weight, "cluster": cluster}.items():
        if array is not None:
            columns[name] = np.asarray(array).tolist()
            options[name] = name
    for name, values in columns.items():
        if len(values) != len(happened):
            raise ValueError(f"{name} must be as long as the outcomes, {len(happened)}; got {len(values)}")
    return audit(frames.make_frame(columns), mus if len(mus) > 1 else mus[0], groups=named, **options)


class _Settings(NamedTuple):
    """The numbers passed to an audit, and `c` in words, for the report."""

    bins: int
    confidence: float
    max_groups: int
    c: str
    timed: bool = False


def _read_settings(bins: Any, confidence: Any, max_groups: Any, c: Any) -> _Settings:
    bins = arguments.whole("bins", bins, least=1)
    if bins > _MOST_BINS:
        raise ValueError(f"bins must be at most {_MOST_BINS}; got {bins}")
    most = arguments.whole("max_groups", max_groups, least=1)
    level = arguments.scalar("confidence", confidence)
    if not 0 < level < 1:
        raise ValueError(f"confidence must lie between 0 and 1; got {confidence!r}")
    if c is None:
        return _Settings(bins, level, most, "0")
    if isinstance(c, (str, Sequence)):
        return _Settings(bins, level, most, f"column {c}")
    return _Settings(bins, level, most, f"{_read_c(c):g}")


def _name_columns(mu: Any, outcome: Any, c: Any, stake: Any, weight: Any) -> list[Columns]:
    """Return the columns that each class needs; a binary event is one class."""
    for name, column in {"outcome": outcome, "weight": weight}.items():
        if not isinstance(column, str) and not (name == "weight" and column is None):
            raise TypeError(f"{name} must be the name of a column; got {describe(column)}")
    several = isinstance(mu, (list, tuple))
    if not isinstance(mu, str) and not (several and len(mu) > 1 and all(isinstance(m, str) for m in mu)):
        raise TypeError(
            "mu must be the name of a column, or a list of at least two names, one per class; got "
            f"{describe(mu)}"
        )
    names = list(mu) if several else [mu]
    widths = list(c) if isinstance(c, (list, tuple)) else [c] * len(names)
    stakes = list(stake) if isinstance(stake, (list, tuple)) else [stake] * len(names)
    if len(widths) != len(names) or len(stakes) != len(names) or (several and isinstance(stake, str)):
        raise ValueError(
            f"c and stake must be one per class, {len(names)} of them; got {describe(c)}, {describe(stake)}"
        )
    if any(not isinstance(one, str) for one in stakes if one is not None):
        raise TypeError(f"stake must be the name of a column; got {describe(stake)}")
    parts = zip(names, [_read_c(one) for one in widths], stakes, strict=True)
    if not several:
        return [Columns(name, outcome, width, staked, weight) for name, width, staked in parts]
    return [
        Columns(name, outcome, width, staked, weight, len(names), k)
        for k, (name, width, staked) in enumerate(parts)
    ]


def _check_method(method: Any, order: Any, weight: Any, cluster: Any) -> None:
    """Raise an error if the method is unknown, or lacks a column that it needs."""
    for name, column in {"cluster": cluster, "order": order}.items():
        if column is not None and not isinstance(column, str):
            raise TypeError(f"{name} must be the name of a column; got {describe(column)}")
    if method not in ("bounds", "betting"):
        raise ValueError(f"method must be 'bounds' or 'betting'; got {method!r}")
    if method == "betting" and order is None:
        raise ValueError("order must name the column of times when method='betting'; got None")
    if method == "betting" and weight is not None:
        raise ValueError(f"weight must be None when method='betting': bets have no weights; got {weight!r}")
    if method == "bounds" and order is not None:
        raise ValueError(f"order is for method='betting' only; got {order!r}")


def _read_largest(largest: Any, cluster: Any, method: str) -> float | None:
    """Return the size that no cluster can exceed; None if none is given."""
    if largest is None:
        return None
    if cluster is None and method != "betting":
        raise ValueError(
            f"largest_cluster needs cluster=, the column of clusters; got {largest!r} without it"
        )
    return arguments.positive("largest_cluster", largest)


def _check_largest(sums: ClassSums, columns: Columns) -> None:
    """Raise a ValueError if a cluster is larger than the largest that there can be."""
    if sums.clusters is None or columns.largest_cluster is None:
        return
    everyone = sums.clusters.cell == sums.sums["one"].shape[1] - 1  # the first group, all bins
    seen = float(sums.clusters.weight[everyone].max())
    if seen > columns.largest_cluster * (1 + 1e-12):
        raise ValueError(
            f"largest_cluster must be a size that no cluster exceeds; got {columns.largest_cluster:g}, and a "
            f"cluster of {seen:g} (give the largest size that there can be)"
        )


def _read_graded(graded: Any, classes: int) -> bool:
    if not isinstance(graded, (bool, np.bool_)):
        raise TypeError(f"graded must be True or False; got {graded!r}")
    if graded and classes > 1:
        raise ValueError("graded outcomes must have one column of mu; got a list (classes are not graded)")
    return bool(graded)


def _with_others(by_class: list[Columns]) -> list[Columns]:
    """Return the columns of each class with those that only the other classes need."""
    every = list(dict.fromkeys(n for columns in by_class for n in columns.numeric().values()))
    return [
        replace(columns, others=tuple(n for n in every if n not in columns.numeric().values()))
        for columns in by_class
    ]


def _read_c(c: Any) -> str | float:
    """Return the name of the column of c, or the number that c is."""
    if c is None or isinstance(c, str):
        return 0.0 if c is None else c
    if np.ndim(c):
        raise TypeError(f"c must be a number or the name of a column; got {describe(c)}")
    width = arguments.scalar("c", c)
    if not 0 <= width <= 1:
        hint = " (a percentage? divide by 100)" if width > 1 else ""
        raise ValueError(f"c must lie in [0, 1]; got {width:g}{hint}")
    return width


def _arrange(results: list[GroupedSums], columns: Columns) -> ClassSums:
    """Combine one class's queries: a row for everyone and each group, and a last column for all bins."""
    first = results[0].sums
    scores = {n: float(m.sum()) for n, m in first.items() if n in _SCORES}
    kept = [n for n in first if n not in scores and n != "bad"]
    rows = [_GroupRow(EVERYONE, {n: _fold(n, first[n]) for n in kept})]
    families = [np.zeros(1, np.int64)]
    for result in results:
        members = list(_split(result, kept))
        if result.groupings and result.groupings[0].column is not None:
            families.append(np.arange(len(rows), len(rows) + len(members)))
        rows += members
    sums = {}
    for n in kept:
        matrix = np.vstack([row.sums[n] for row in rows])
        total = matrix.max(axis=1) if n == "heaviest" else matrix.sum(axis=1)
        sums[n] = np.column_stack([matrix, total])
    parts = results[0].parts
    return ClassSums(
        groups=[row.group for row in rows],
        sums=sums,
        scores=scores,
        missing=results[0].missing,
        families=families,
        clusters=clusters.gather(results, first["one"].shape[1], columns.c, columns.largest_cluster),
        cluster_count=None if parts is None else parts.clusters,
    )


class _GroupRow(NamedTuple):
    """One group's sums, by name, each with a column for every bin."""

    group: Group
    sums: dict[str, Floats]


def _split(result: GroupedSums, kept: list[str]) -> Iterator[_GroupRow]:
    """Yield the groups of one query: the values of a column, or the rows where each predicate is true."""
    for k, grouping in enumerate(result.groupings):
        if grouping.column is not None:
            for row, label in enumerate(result.labels):
                yield _GroupRow(Group(grouping.name, label[0]), {n: result.sums[n][row] for n in kept})
        else:
            members = [row for row, label in enumerate(result.labels) if label[k] == "1"]
            folded = {n: _fold(n, result.sums[n][members]) for n in kept}
            yield _GroupRow(Group(grouping.name, "yes"), folded)


def _fold(name: str, matrix: Floats) -> Floats:
    """Add up the rows of a matrix; for the heaviest weights, take the largest."""
    if not len(matrix):
        return np.zeros(matrix.shape[1])
    folded: Floats = matrix.max(axis=0) if name == "heaviest" else matrix.sum(axis=0)
    return folded


def _left_out(rows: int) -> str:
    why = "each with a missing number, an undecided outcome or weight 0"
    return f"{rows:,} rows, {why}" if rows else "no rows"


def _merged_notes(queried: list[list[GroupedSums]], most: int) -> list[str]:
    """Say which columns have more than `most` groups: once per column, not once per class."""
    notes = [
        f"{result.groupings[0].name} has {most + result.merged:,} groups: the {most:,} largest are audited "
        f"one by one, the other {result.merged:,} as one (max_groups={most})"
        for results in queried
        for result in results
        if result.merged
    ]
    return list(dict.fromkeys(notes))


def _cluster_notes(sums: ClassSums, cluster: str | None) -> list[str]:
    """Say that every row is a cluster; raise a ValueError if all rows are in one."""
    if cluster is None or (sums.clusters is not None and sums.cluster_count != 1):
        return []
    if sums.cluster_count == sums.rows:
        return [f"every row has its own {cluster}: the same as no clusters"]
    raise ValueError(
        f"cluster={cluster!r} must have at least two clusters; got the same value in all {sums.rows:,} rows "
        "(use a finer column)"
    )


def _unseen_notes(sums: list[ClassSums], by_class: list[Columns]) -> list[str]:
    """Say which classes never happen: the outcomes may not be the classes' numbers."""
    happened = [bool(class_.sums["outcome"][0, -1]) for class_ in sums]
    unseen = [f"{k} ({frames.own_name(columns.mu)})" for k, columns in enumerate(by_class) if not happened[k]]
    if len(by_class) == 1 or not unseen:
        return []
    listed = ", ".join(unseen[:_UNSEEN_SHOWN]) + (", …" if len(unseen) > _UNSEEN_SHOWN else "")
    which = f"class {listed} never happens" if len(unseen) == 1 else f"classes {listed} never happen"
    binary = len(by_class) > 2 and not any(happened[2:])
    hint = "; it is 0 or 1 only: a binary event? then give one column of mu" if binary else ""
    return [
        f"{which}: check that {frames.own_name(by_class[0].outcome)} numbers the columns of mu from 0{hint}"
    ]


def _backend_of(frame: Any) -> str | None:
    """Return the library that makes `report.cells`: the caller's, if it makes frames in memory.

    Dask's frames are made of pandas frames. For DuckDB and Spark it is None: the first library installed.
    """
    return "pandas" if frame.implementation.is_dask() else frames.backend_of(frame)


def _report(
    sums: list[ClassSums],
    cells: Cells,
    settings: _Settings,
    missing: dict[str, int],
    notes: list[str],
    backend: str | None,
) -> AuditReport:
    wins = add_up_wins(cells)
    smallest_c, certified_c = cells.overall_c
    by_class = tuple(compute_scores(cells, k, class_.scores) for k, class_ in enumerate(sums))
    binary = cells.classes is None
    return AuditReport(
        rows=sums[0].rows,
        missing=missing,
        incomplete=sums[0].missing,
        bins=settings.bins,
        confidence=settings.confidence,
        c=settings.c,
        verdict=cells.verdict,
        p_value=cells.evidence.together,
        smallest_c=smallest_c,
        certified_c=certified_c,
        outlook=look_ahead(cells),
        bets=2 * cells.means.cells,
        method=cells.evidence.method,
        clusters=None if sums[0].clusters is None else sums[0].cluster_count,
        timed=settings.timed,
        best=find_best(cells),
        wins=float(wins.measured.max()),
        wins_low=float(wins.at_least.max()),
        scores=by_class[0] if binary else join_scores(by_class, sums, float(cells.means.weight[0, 0, -1])),
        groups=find_by_group(cells, wins),
        by_class=() if binary else by_class,
        table=tabulate_cells(cells),
        notes=tuple(notes),
        staked=None if cells.staked is None else float(cells.staked[:, 0, -1].sum()),
        won=None if cells.won is None else float(cells.won[:, 0, -1].sum()),
        backend=backend,
    )
