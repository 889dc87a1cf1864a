"""Compute the sums that an audit needs, in the engine that holds the table; only the sums come back.

There is one implementation for pandas, polars, pyarrow, DuckDB, Dask and Spark, written with narwhals. It
keeps to what all of them can do:

- Columns are made before `agg`, since not every engine takes expressions inside it.
- Flags are summed as whole numbers.
- Null and NaN both count as missing. A row with a missing number goes to bin −1, with zeros instead of its
  numbers: it cannot turn a sum into NaN, and it is counted.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np

from makewhole.arguments import SUM_TOLERANCE, Floats
from makewhole.auditing.describing import describe
from makewhole.auditing.groupings import Grouping, refuse_nested, refuse_unhashable
from makewhole.auditing.labels import RowLabels, number_clusters, read_labels, write_labels
from makewhole.frames import list_columns, literal, open_literal, own_name

# How many predicates share one query. Together they have at most 2⁶ combinations, each with its own cells.
_PREDICATES_PER_QUERY = 6

_INCOMPLETE = "makewhole: a class is missing"  # the name of a column that we add


@dataclass(frozen=True)
class Columns:
    """The columns that one class needs, by role; a binary event is one class.

    `c` may be a number instead of a column. With K classes, `classes` is K and `label` the class that counts
    as outcome 1. `others` are the other classes' columns: a row that lacks one of their numbers is left out.
    So is a row whose outcome equals `undecided`, a row of weight 0, and one without its `cluster` or its time
    (`order`). With `graded` the outcome is any number in [0, 1]. `largest_cluster` is the size (the weight)
    that no cluster can exceed.
    """

    mu: str
    outcome: str
    c: str | float
    stake: str | None
    weight: str | None
    classes: int | None = None
    label: int | None = None
    others: tuple[str, ...] = ()
    undecided: float | None = None
    cluster: str | None = None
    order: str | None = None
    graded: bool = False
    largest_cluster: float | None = None

    def numeric(self) -> dict[str, str]:
        """The columns that must hold numbers, by the argument that names them."""
        named = {"mu": self.mu, "outcome": self.outcome, "c": self.c, "stake": self.stake}
        named["weight"] = self.weight
        return {argument: column for argument, column in named.items() if isinstance(column, str)}

    def keyed(self) -> dict[str, str]:
        """The columns that may hold anything, by the argument that names them."""
        named = {"cluster": self.cluster, "order": self.order}
        return {argument: column for argument, column in named.items() if column is not None}

    def in_frame(self, frame: Any) -> Columns:
        """Return the same columns, by their names in a frame from `open_frame`."""
        renamed: dict[str, Any] = {part: literal(frame, name) for part, name in self.numeric().items()}
        renamed |= {part: literal(frame, name) for part, name in self.keyed().items()}
        return replace(self, **renamed)


@dataclass
class GroupedSums:
    """The result of one query: sums by the labels of some groupings and by the bin of the forecast.

    `labels` are the combinations of labels that occur, with one label per grouping. `sums[name]` has a row
    for each of them, and a column for each bin. `missing` is how many rows were left out. `merged` is how
    many small groups were merged into the last row. `parts` are the sums by cluster, if there are any.
    """

    groupings: tuple[Grouping, ...]
    labels: list[tuple[str, ...]]
    sums: dict[str, Floats]
    missing: int
    merged: int
    parts: ClusterParts | None = None


class ClusterParts(NamedTuple):
    """The same sums by label, bin and cluster: one entry for each such combination that has rows.

    `row` is the row of the label in the matrices, `bin` and `cluster` are numbers, and `sums` are the sums by
    name. `clusters` is how many clusters there are.
    """

    row: Any
    bin: Any
    cluster: Any
    sums: dict[str, Floats]
    clusters: int


def open_frame(frame: Any) -> Any:
    """Return the frame as a narwhals frame; columns whose names its engine reads as patterns are renamed.

    Raises
    ------
    TypeError
        If it is not a dataframe that narwhals knows.
    ValueError
        If two of its columns have the same name.
    """
    if hasattr(frame, "unify_dictionaries"):  # pyarrow's chunks may number their text differently
        frame = frame.unify_dictionaries()
    try:
        return open_literal(frame)
    except TypeError:
        raise TypeError(
            "frame must be a dataframe (pandas, polars, pyarrow, DuckDB, Dask or Spark); got "
            f"{describe(frame)}. Put probabilities and outcomes into columns and name them: "
            'mw.audit(pandas.DataFrame({"p": p, "y": y}), mu="p", outcome="y")'
        ) from None


def make_lazy(frame: Any) -> Any:
    """Return a polars frame as a lazy one, so that polars plans the whole query; any other as it is."""
    import narwhals as nw

    eager = isinstance(frame, nw.DataFrame) and frame.implementation.is_polars()
    return frame.lazy() if eager else frame


def mark_gaps(frame: Any, columns: Sequence[str]) -> Any:
    """Add a column that is 1 where a row lacks a number of some class; all classes leave that row out."""
    import narwhals as nw

    numbers = [nw.col(column).cast(nw.Float64) for column in columns]
    gap = functools.reduce(operator.or_, (number.is_null() | number.is_nan() for number in numbers))
    return frame.with_columns(nw.when(gap).then(nw.lit(1)).otherwise(nw.lit(0)).alias(_INCOMPLETE))


def check_columns(frame: Any, numeric: Mapping[str, str], others: Iterable[tuple[str, str]]) -> None:
    """Raise an error if a column does not exist (ValueError) or holds no numbers (TypeError).

    `numeric` are columns by argument, `others` pairs (argument, column) of those that may hold anything.
    """
    import narwhals as nw

    schema = frame.collect_schema()
    for argument, column in [*numeric.items(), *others]:
        if column not in schema:
            present = list_columns(schema.names())
            raise ValueError(f"{argument}={own_name(column)!r} is not a column; the frame has: {present}")
    for argument, column in numeric.items():
        if not (schema[column].is_numeric() or schema[column] == nw.Boolean or _holds_numbers(frame, column)):
            example = _first(frame.select(nw.col(column)))
            if example is None:  # all its values are missing, or it has none
                continue
            hint = ""
            if argument == "outcome":
                hint = " (map it to 0 and 1 first)"
            elif isinstance(example, str) and example.strip().endswith("%"):
                hint = " (a percentage? make it a number and divide by 100)"
            got = f"{schema[column]}, as in {example!r}{hint}"
            raise TypeError(f"{argument}={own_name(column)!r} must be a column of numbers; got {got}")


def check_times(frame: Any, column: str) -> None:
    """Raise a TypeError if a column holds neither numbers nor times: text would be sorted as text."""
    kind = frame.collect_schema()[column]
    if not (kind.is_numeric() or kind.is_temporal()):
        raise TypeError(
            f"order={own_name(column)!r} must be a column of numbers, dates or datetimes; got {kind} (turn "
            "text and Python's dates into datetimes first)"
        )


def _holds_numbers(frame: Any, column: str) -> bool:
    """Whether a pandas column of dtype object holds only numbers and missing values."""
    import narwhals as nw

    if frame.collect_schema()[column] != nw.Object:
        return False
    values = [v for v in _collect(frame.select(nw.col(column)))[column].to_list() if v is not None]
    return all(isinstance(v, (int, float, Decimal, np.number, np.bool_)) for v in values)


def query_sums(
    frame: Any, columns: Columns, groupings: Sequence[Grouping], bins: int, most: int
) -> list[GroupedSums]:
    """Query every sum that an audit needs: once for each column of groups, and once for every six predicates.

    The first query also adds up the scores, and finds numbers that are out of bounds. A column's largest
    groups come first; those after the first `most` are merged into one.

    Raises
    ------
    ValueError
        If a number is out of bounds: the message has an example.
    TypeError
        If the library that holds the frame cannot group by a column.
    """
    refuse_nested(frame, groupings)
    predicates = [grouping for grouping in groupings if grouping.column is None]
    queries: list[tuple[Grouping, ...]] = [
        (grouping,) for grouping in groupings if grouping.column is not None
    ]
    queries += [
        tuple(predicates[k : k + _PREDICATES_PER_QUERY])
        for k in range(0, len(predicates), _PREDICATES_PER_QUERY)
    ]
    keys = {grouping.name: f"key{k}" for k, grouping in enumerate(groupings)}
    try:
        prepared = _prepare(frame, columns, groupings, keys, bins)
    except TypeError:
        refuse_unhashable(frame, groupings)
        raise
    results: list[GroupedSums] = []
    for query in queries or [()]:
        by = [keys[grouping.name] for grouping in query]
        finer = [] if columns.cluster is None else ["cluster"]
        rows = _collect(prepared.group_by(*by, *finer, "bin").agg(*_sums(columns, first=not results)))
        values = {n: _floats(rows[n]) for n in rows.columns if n not in (*by, *finer)}
        if not results and values["bad"].sum():
            _refuse_wrong(frame, columns)
        labels = [read_labels(rows[key]) for key in by]
        by_column = bool(query) and query[0].column is not None
        cluster = number_clusters(rows["cluster"]) if finer else None
        results.append(_tabulate(query, labels, values, bins, most if by_column else None, cluster))
    return results


class BettingRows(NamedTuple):
    """The complete rows of one class: what betting needs, as arrays.

    `order` numbers the times from the first to the last, `cluster` the clusters (None without). `labels` are
    by the name of the grouping; those of a predicate are "yes", and None where it is not true.
    """

    bins: int
    bin: Any
    mu: Floats
    outcome: Floats
    c: Floats
    order: Any
    cluster: Any
    labels: dict[str, RowLabels]


def query_rows(frame: Any, columns: Columns, groupings: Sequence[Grouping], bins: int) -> BettingRows:
    """Read the rows that an audit by betting replays."""
    import narwhals as nw

    keys = {grouping.name: f"key{k}" for k, grouping in enumerate(groupings)}
    wanted = ["bin", "mu", "outcome", *columns.keyed(), *["c"] * isinstance(columns.c, str), *keys.values()]
    prepared = _prepare(frame, columns, groupings, keys, bins).filter(nw.col("bin") >= 0)
    rows = _collect(prepared.select(*wanted))
    kind = rows["order"].dtype
    if kind == nw.Datetime and kind.time_zone:  # when clocks go back, two hours read the same
        rows = rows.with_columns(nw.col("order").dt.convert_time_zone("UTC"))
    times = rows["order"].unique().sort().to_list()
    place = {time: k for k, time in enumerate(times)}
    labels = {}
    for grouping in groupings:
        try:
            read = read_labels(rows[keys[grouping.name]])
        except TypeError:
            refuse_unhashable(frame, [grouping])
            raise
        if grouping.column is None:
            read = RowLabels([{"1": "yes"}.get(name) for name in read.names], read.places)
        labels[grouping.name] = read
    return BettingRows(
        bins=bins,
        bin=_floats(rows["bin"]).astype(np.int64),
        mu=_floats(rows["mu"]),
        outcome=_floats(rows["outcome"]),
        c=_floats(rows["c"]) if isinstance(columns.c, str) else np.zeros(0),
        order=np.array([place[time] for time in rows["order"].to_list()], np.int64),
        cluster=number_clusters(rows["cluster"]) if columns.cluster is not None else None,
        labels=labels,
    )


def _floats(series: Any) -> Floats:
    import narwhals as nw

    return np.asarray(series.cast(nw.Float64).to_numpy(), np.float64)


def count_gaps(frame: Any, columns: Columns) -> dict[str, int]:
    """Count the rows that lack a number, by which number they lack."""
    import narwhals as nw

    others = {f"other {k}": name for k, name in enumerate(columns.others)}
    rules = {column: _gap(argument) for argument, column in {**columns.numeric(), **others}.items()}
    rules |= {column: nw.col(f"{argument} gap") == 1 for argument, column in columns.keyed().items()}
    if columns.undecided is not None:
        rules[f"a decided {own_name(columns.outcome)}"] = nw.col("outcome") == columns.undecided
    if columns.weight is not None:
        rules[f"a positive {own_name(columns.weight)}"] = nw.col("weight") == 0
    extra = [nw.col(column).cast(nw.Float64).alias(alias) for alias, column in others.items()]
    frame = frame.select(*_numbers(columns, frame), *extra)
    flags = [
        nw.when(r).then(nw.lit(1)).otherwise(nw.lit(0)).alias(f"n{k}") for k, r in enumerate(rules.values())
    ]
    counts = _collect(frame.select(*flags).select(*(nw.col(f"n{k}").sum() for k in range(len(rules)))))
    return {own_name(name): int(counts[f"n{k}"].to_list()[0]) for k, name in enumerate(rules)}


def check_sums(frame: Any, mus: Sequence[str]) -> None:
    """Raise a ValueError if the class probabilities of some row do not add up to one."""
    import narwhals as nw

    total = functools.reduce(operator.add, (nw.col(mu).cast(nw.Float64) for mu in mus))
    frame = frame.select(total.alias("total"))
    off = (nw.col("total") - 1).abs() > SUM_TOLERANCE
    example = _first(frame.filter(~_gap("total")).filter(off))
    if example is not None:
        raise ValueError(
            f"the sum of mu={[own_name(mu) for mu in mus]!r} must be 1 in every row; got {example:g}"
        )


def _numbers(columns: Columns, frame: Any) -> list[Any]:
    """Select the columns that have a role, and name them by it."""
    import narwhals as nw

    numeric = columns.numeric().items()
    marked = [nw.col(_INCOMPLETE)] if columns.others else []
    for argument, name in columns.keyed().items():
        key = nw.col(name)
        gap = key.is_null() | key.is_nan() if frame.collect_schema()[name].is_float() else key.is_null()
        gap = nw.when(gap).then(nw.lit(1)).otherwise(nw.lit(0))
        marked += [key.alias(argument), gap.alias(f"{argument} gap")]
    return [*(nw.col(column).cast(nw.Float64).alias(argument) for argument, column in numeric), *marked]


def _prepare(
    frame: Any, columns: Columns, groupings: Sequence[Grouping], keys: Mapping[str, str], bins: int
) -> Any:
    """Return the frame with a key for each grouping, `bin`, and every number that will be summed."""
    import narwhals as nw

    col, lit, when = nw.col, nw.lit, nw.when
    numeric, wrong = columns.numeric(), list(_wrong(columns).values())
    kept = _numbers(columns, frame)
    for grouping in groupings:
        if grouping.column is None:
            label = when(grouping.predicate).then(lit(1)).otherwise(lit(0))
        elif isinstance(frame, nw.DataFrame) and frame.schema[grouping.column] == nw.Object:
            label = col(grouping.column).map_batches(write_labels)  # to pandas, True and 1 are one group
        else:
            label = col(grouping.column)
        kept.append(label.alias(keys[grouping.name]))
    frame = frame.select(*kept)
    gone = _any_gap(columns)
    frame = frame.with_columns(gone=when(gone).then(lit(1)).otherwise(lit(0)), one=lit(1))
    whole = col("gone") == 0
    frame = frame.with_columns(*(when(whole).then(col(a)).otherwise(lit(0.0)).alias(a) for a in numeric))
    bad = functools.reduce(operator.or_, wrong)
    frame = frame.with_columns(bad=when(bad).then(lit(1)).otherwise(lit(0)))
    y = col("outcome")
    frame = frame.with_columns(
        mu=when(col("bad") == 0).then(col("mu")).otherwise(lit(0.0)),
        outcome=y if columns.label is None else when(y == columns.label).then(lit(1.0)).otherwise(lit(0.0)),
    )
    frame = frame.with_columns(
        bin=(col("mu") * bins).floor().cast(nw.Int64), error=col("outcome") - col("mu")
    )
    below = when(col("bin") < bins).then(col("bin")).otherwise(lit(bins - 1))  # μ = 1 belongs to the last bin
    frame = frame.with_columns(bin=when(whole).then(below).otherwise(lit(-1)))
    return _with_products(frame, columns)


def _gap(argument: str) -> Any:
    import narwhals as nw

    return nw.col(argument).is_null() | nw.col(argument).is_nan()


def _any_gap(columns: Columns) -> Any:
    import narwhals as nw

    gaps = [_gap(argument) for argument in columns.numeric()]
    gaps += [nw.col(_INCOMPLETE) == 1] if columns.others else []
    gaps += [] if columns.undecided is None else [nw.col("outcome") == columns.undecided]
    gaps += [] if columns.weight is None else [nw.col("weight") == 0]
    gaps += [nw.col(f"{argument} gap") == 1 for argument in columns.keyed()]
    return functools.reduce(operator.or_, gaps)


def _wrong(columns: Columns) -> dict[str, Any]:
    """By argument, the expression that is true where its number is out of bounds."""
    import narwhals as nw

    col, huge = nw.col, 1e300
    y, most = col("outcome"), 1 if columns.classes is None else columns.classes - 1
    rules = {
        "mu": (col("mu") < 0) | (col("mu") > 1),
        "outcome": (y < 0) | (y > most) if columns.graded else (y < 0) | (y > most) | (y != y.floor()),
    }
    if isinstance(columns.c, str):
        rules["c"] = (col("c") < 0) | (col("c") > 1)
    if columns.stake is not None:
        rules["stake"] = (col("stake") < -huge) | (col("stake") > huge)
    if columns.weight is not None:
        small = (col("weight") > 0) & (col("weight") < 1e-100)  # its square would be rounded to 0
        rules["weight"] = (col("weight") < 0) | (col("weight") > 1e100) | small
    return rules


def _bound(argument: str, columns: Columns) -> str:
    if argument in ("mu", "c") or (argument == "outcome" and columns.graded):
        return "must lie in [0, 1]"
    if argument == "outcome":
        last = columns.classes
        return "must be 0 or 1" if last is None else f"must be a class index, one of 0 … {last - 1}"
    return "must be finite" if argument == "stake" else "must be 0, or lie in [1e-100, 1e+100]"


def _with_products(frame: Any, columns: Columns) -> Any:
    """Add the columns that will be summed: errors, logarithms and money. All but the money are weighted."""
    import narwhals as nw

    col, lit = nw.col, nw.lit
    frame = _with_logs(frame, columns).with_columns(squared=col("error") * col("error"))
    made = {}
    if columns.stake is not None:
        c = col("c") if isinstance(columns.c, str) else lit(float(columns.c))
        made["staked"] = col("stake").abs()
        made["won"] = col("stake") * col("error") - col("stake").abs() * c
        frame = frame.with_columns(**made)
    if columns.classes is not None:  # the joint log loss counts only the class that happened
        frame = frame.with_columns(
            log_hit=col("log_chance") * col("outcome"), impossible_hit=col("impossible") * col("outcome")
        )
    if columns.weight is None:
        return frame
    frame = frame.with_columns(weight_squared=col("weight") * col("weight"))
    weighted = ["outcome", "mu", "squared", "log_chance"]
    weighted += ["c"] * isinstance(columns.c, str) + ["log_hit"] * (columns.classes is not None)
    return frame.with_columns(*((col(name) * col("weight")).alias(name) for name in weighted))


def _with_logs(frame: Any, columns: Columns) -> Any:
    """Add the logarithm of the probability given to what happened, and whether that was 0.

    For graded outcomes it is y·ln μ + (1 − y)·ln(1 − μ).
    """
    import narwhals as nw

    col, lit, when = nw.col, nw.lit, nw.when
    y, mu = col("outcome"), col("mu")
    if columns.graded:
        impossible = ((mu <= 0) & (y > 0)) | ((mu >= 1) & (y < 1))
        up = y * when(mu > 0).then(mu).otherwise(lit(1.0)).log()
        down = (1 - y) * when(mu < 1).then(1 - mu).otherwise(lit(1.0)).log()
        return frame.with_columns(
            log_chance=up + down, impossible=when(impossible).then(lit(1)).otherwise(lit(0))
        )
    frame = frame.with_columns(chance=when(y > 0).then(mu).otherwise(1 - mu))
    frame = frame.with_columns(
        chance=when(col("chance") > 0).then(col("chance")).otherwise(lit(1.0)),
        impossible=when(col("chance") > 0).then(lit(0)).otherwise(lit(1)),
    )
    return frame.with_columns(log_chance=col("chance").log())


def _sums(columns: Columns, *, first: bool) -> list[Any]:
    import narwhals as nw

    names = ["one", "outcome", "mu"] + ["c"] * isinstance(columns.c, str)
    names += ["weight", "weight_squared"] * (columns.weight is not None)
    names += ["staked", "won"] * (columns.stake is not None)
    if first:
        names += ["bad", "squared", "log_chance", "impossible"]
        names += ["log_hit", "impossible_hit"] * (columns.classes is not None)
    sums = [nw.col(name).sum() for name in names]
    return sums + [nw.col("weight").max().alias("heaviest")] * (columns.weight is not None)


def _tabulate(
    groupings: tuple[Grouping, ...],
    columns: list[RowLabels],
    values: dict[str, Floats],
    bins: int,
    most: int | None,
    cluster: Any,
) -> GroupedSums:
    """Turn a query's rows, one per label and bin, into a matrix for each sum, the largest groups first."""
    which = values.pop("bin").astype(np.int64)
    counted = which >= 0
    at, labels = _combine(columns, len(which))
    merged = 0
    if most is not None:
        size = np.bincount(at, values["one"] * counted, minlength=len(labels))
        order = sorted(np.flatnonzero(size).tolist(), key=lambda k: (-size[k], labels[k]))
        merged = max(0, len(order) - most)
        rank = np.zeros(len(labels), dtype=np.int64)  # groups without rows have no rank
        rank[order] = np.minimum(np.arange(len(order)), most)
        at, labels = rank[at], [labels[k] for k in order[:most]]
        labels += [_name_others(merged, labels)] * (merged > 0)
    row, column = at[counted], which[counted]
    inside = {name: value[counted] for name, value in values.items()}
    sums = {}
    for name, value in inside.items():
        sums[name] = np.zeros((len(labels), bins))
        combine = np.maximum if name == "heaviest" else np.add
        combine.at(sums[name], (row, column), value)
    parts = None
    if cluster is not None:
        inside_clusters = cluster[counted]
        clusters = int(np.count_nonzero(np.bincount(inside_clusters)))
        parts = ClusterParts(row, column, inside_clusters, inside, clusters)
    return GroupedSums(groupings, labels, sums, int(values["one"][~counted].sum()), merged, parts)


def _combine(columns: list[RowLabels], rows: int) -> tuple[Any, list[tuple[str, ...]]]:
    """Number the combinations of labels that occur; returns each row's number, and the combinations."""
    code = np.zeros(rows, dtype=np.int64)
    for column in columns:
        code = code * len(column.names) + column.places
    codes, at = np.unique(code, return_inverse=True)
    labels: list[tuple[str, ...]] = []
    for remaining in codes.tolist():
        parts = []
        for column in reversed(columns):
            remaining, place = divmod(remaining, len(column.names))
            parts.append(column.names[place])
        labels.append(tuple(reversed(parts)))
    return at, labels


def _name_others(merged: int, labels: list[tuple[str, ...]]) -> tuple[str, ...]:
    """Name the group of all small groups, differently from every other group."""
    name = f"({merged:,} others)"
    while (name,) in labels:
        name = f"{name[:-1]}, merged)"
    return (name,)


def _refuse_wrong(frame: Any, columns: Columns) -> None:
    """Raise a ValueError about the first argument with a number out of bounds, with an example."""
    import narwhals as nw

    named = columns.numeric()
    whole = frame.select(*_numbers(columns, frame)).filter(~_any_gap(columns))
    for argument, rule in _wrong(columns).items():
        example = _first(whole.filter(rule).select(nw.col(argument)))
        if example is not None:
            percent = argument in ("mu", "c") and 1.01 < example <= 100
            hint = " (a percentage? divide by 100)" if percent else ""
            if argument == "outcome" and columns.classes is None and not columns.graded:
                hint = _outcome_hint(example)
            bound = _bound(argument, columns)
            raise ValueError(f"{argument}={own_name(named[argument])!r} {bound}; got {example:.16g}{hint}")


def _outcome_hint(example: float) -> str:
    if example == 0.5:
        return " (a tie? undecided=0.5 leaves such rows out, and counts them)"
    return " (a quantity? graded=True audits numbers in [0, 1])" if 0 < example < 1 else ""


def _first(frame: Any) -> Any:
    """Return the first value that is not null in a frame of one column; None if there is none."""
    import narwhals as nw

    column = frame.collect_schema().names()[0]
    values = _collect(frame.filter(~nw.col(column).is_null()).head(1))[column].to_list()
    return values[0] if values else None


def _collect(frame: Any) -> Any:
    import narwhals as nw

    if not isinstance(frame, nw.LazyFrame):
        return frame
    options: Any = {"engine": "streaming"} if frame.implementation.is_polars() else {}
    return frame.collect(**options)
