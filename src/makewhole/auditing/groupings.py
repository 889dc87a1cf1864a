"""Read the argument `groups` of an audit: columns, and named predicates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from makewhole import frames
from makewhole.auditing.describing import describe

_EXPECTED = "groups must be names of columns, or a mapping from names to columns and predicates"


@dataclass(frozen=True)
class Grouping:
    """One way to divide the rows into groups: by the values of a column, or by whether a predicate is true.

    Exactly one of `column` and `predicate` is given; the predicate is a narwhals expression.
    """

    name: str
    column: str | None = None
    predicate: Any = None

    def in_frame(self, frame: Any) -> Grouping:
        """Return the same grouping, with its column's name in a frame from `frames.open_literal`."""
        return self if self.column is None else replace(self, column=frames.literal(frame, self.column))


class Group(NamedTuple):
    """Some of the rows: those where the grouping named `grouping` has this value.

    A predicate has one group, with the value "yes". All rows are the group `EVERYONE`.
    """

    grouping: str
    value: str


EVERYONE = Group("", "")


def read_groupings(groups: Any) -> list[Grouping]:
    """Return the groupings that a caller names: a column, a mapping from names, or a list of these.

    Raises
    ------
    TypeError
        If something is neither a column nor a mapping from names to columns and narwhals expressions.
    ValueError
        If a name is empty or occurs twice.
    """
    import narwhals as nw

    if groups is None:
        return []
    if isinstance(groups, (str, Mapping)):
        groups = [groups]
    if not isinstance(groups, Sequence):
        raise TypeError(f"{_EXPECTED}; got {describe(groups)}")
    groupings: list[Grouping] = []
    for group in groups:
        if isinstance(group, str):
            groupings.append(Grouping(group, column=group))
            continue
        if not isinstance(group, Mapping):
            raise TypeError(f"{_EXPECTED}; got {describe(group)}")
        for name, rule in group.items():
            if isinstance(rule, str):
                groupings.append(Grouping(str(name), column=rule))
            elif isinstance(rule, nw.Expr):
                groupings.append(Grouping(str(name), predicate=rule))
            else:
                raise TypeError(
                    f"groups[{name!r}] must be a column or a narwhals expression, such as "
                    f"nw.col('distance') > 1000; got {describe(rule)}"
                )
    _check_names([grouping.name for grouping in groupings])
    return groupings


def refuse_nested(frame: Any, groupings: Sequence[Grouping]) -> None:
    """Raise a TypeError if a column of groups has nested values that its library cannot group by."""
    engine = frame.implementation
    if not (engine.is_pandas_like() or engine.is_pyarrow() or engine.is_dask()):
        return
    kinds = frame.collect_schema()
    for grouping in groupings:
        if grouping.column is not None and kinds[grouping.column].is_nested():
            raise _nested(grouping.column, str(kinds[grouping.column]), engine)


def refuse_unhashable(frame: Any, groupings: Sequence[Grouping]) -> None:
    """Raise a TypeError if a pandas column of objects has values, such as lists, that it cannot group by."""
    import narwhals as nw

    kinds = frame.collect_schema()
    for grouping in groupings:
        if grouping.column is None or kinds[grouping.column] != nw.Object:
            continue
        for value in frame.lazy().collect()[grouping.column].to_list():
            if getattr(type(value), "__hash__", None) is None:
                raise _nested(grouping.column, describe(value), frame.implementation) from None


def _nested(column: str, held: str, engine: Any) -> TypeError:
    name = frames.own_name(column)
    return TypeError(
        f"groups must be columns of labels, such as text, numbers or times; column {name!r} has values like "
        f"{held}, which {engine} cannot group by (convert it to text, in pandas frame[{name!r}].map(str), or "
        f"pass a polars frame, which can group by such values)"
    )


def _check_names(names: Sequence[str]) -> None:
    for k, name in enumerate(names):
        if not name:
            raise ValueError("every entry of groups must have a name; got ''")
        if name in names[:k]:
            raise ValueError(f"every entry of groups must have a different name; got {name!r} twice")
