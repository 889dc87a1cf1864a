"""Features of a forecast: named like groups, each with a value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from makewhole import arguments
from makewhole.corrections.names import Name, read_name


class Features(tuple[Name, ...]):
    """The names of a forecast's features, with the value of each, from −1 to 1, in `values`.

    A group is a feature with the value 1, so `Features` can be passed wherever group names can.
    """

    values: tuple[float, ...]

    def __new__(cls, names: tuple[Name, ...], values: tuple[float, ...]) -> Self:
        """Make one, with a value for each name."""
        made = super().__new__(cls, names)
        made.values = values
        return made

    def __getnewargs__(self) -> tuple[tuple[Name, ...], tuple[float, ...]]:  # for copies
        return tuple(self), self.values

    @property
    def size(self) -> float:
        """The sum of the squares of the values."""
        return sum(value * value for value in self.values)


def read_features(given: Mapping[Any, Any]) -> Features:
    """Return the features in a mapping from names to values; raise an error for a bad name or value."""
    read = {read_name("groups", name): value for name, value in given.items()}
    values = tuple(arguments.within(f"groups[{name!r}]", value, -1.0, 1.0) for name, value in read.items())
    return Features(tuple(read), values)


def values_of(groups: tuple[Name, ...]) -> dict[Name | None, float]:
    """Return the values of features by name; an empty dict for groups, whose values are all 1."""
    return dict(zip(groups, groups.values, strict=True)) if type(groups) is Features else {}
