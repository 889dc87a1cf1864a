"""Read the argument `groups` of an audit: columns, and predicates with names."""

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
        """The same grouping, with what its column is called in a frame from `frames.open_literal`."""
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


def _check_names(names: Sequence[str]) -> None:
    for k, name in enumerate(names):
        if not name:
            raise ValueError("every entry of groups must have a name; got ''")
        if name in names[:k]:
            raise ValueError(f"every entry of groups must have a name of its own; got {name!r} twice")
