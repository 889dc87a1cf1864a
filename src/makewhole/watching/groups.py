"""The groups of a watch: their numbers in its memory, and their parts of the risk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from makewhole.arguments import Floats
from makewhole.watching._kernel import prior_weight

BINS_NAME = "forecast"  # the column of the groups that are bins of the forecast
_EVERYONE_SHARE = 0.5  # of the risk; all other groups share the rest
_FIRST = 16  # so many groups have the largest part of the rest
_MISSING = ("NAType", "NaTType")  # the types of pandas.NA and pandas.NaT


class WatchedGroup(NamedTuple):
    """One group: a column and a value of it; both are "" for all forecasts."""

    column: str
    value: str

    def __str__(self) -> str:
        return f"{self.column} {self.value}" if self.column else "all forecasts"


EVERYONE = WatchedGroup("", "")


def risk_share(number: int) -> float:
    """Return the part of the risk that the group with this number has; all parts add up to at most 1."""
    return _EVERYONE_SHARE if number == 0 else (1 - _EVERYONE_SHARE) * prior_weight(number, _FIRST)


class Groups:
    """The groups in the order in which they were first seen.

    The first is everyone, the next are the bins of the forecast, and then come the values of the columns, as
    they occur. A value's label is its text; a missing one is in no group of its column.
    """

    def __init__(self, columns: Sequence[str], bins: int) -> None:
        self.columns, self.bins = tuple(columns), bins
        self.all: list[WatchedGroup] = [EVERYONE]
        self._number: dict[Any, int] = {}
        if bins > 1:
            self.all += [
                WatchedGroup(BINS_NAME, f"{k / bins:.3g} to {(k + 1) / bins:.3g}") for k in range(bins)
            ]

    def __len__(self) -> int:
        return len(self.all)

    @property
    def width(self) -> int:
        """How many groups a row can be in."""
        return 1 + (self.bins > 1) + len(self.columns)

    def add(self, column: str, value: str) -> int:
        """Return a group's number; a new group gets the next one."""
        key = (column, value)
        number = self._number.get(key)
        if number is None:
            number = self._number[key] = len(self.all)
            self.all.append(WatchedGroup(column, value))
        return number

    def check(self, given: Any) -> None:
        """Raise an error unless `given` maps columns of this watch to values."""
        if type(given) is not dict and not isinstance(given, Mapping):
            raise TypeError(f"groups must be a mapping such as {{'carrier': 'AA'}}; got {given!r}")
        for column in given:
            if column not in self.columns:
                known = ", ".join(map(repr, self.columns)) or "none (pass groups=[...] to Watch)"
                raise ValueError(
                    f"groups must have columns among those of the watch, {known}; got {column!r}"
                )

    def number_row(self, mu: float, given: Mapping[str, Any] | None) -> list[int]:
        """Return the numbers of a row's groups, −1 where it has no value; check the row before."""
        numbers = [0]
        if self.bins > 1:
            numbers.append(1 + min(int(mu * self.bins), self.bins - 1))
        for column in self.columns:
            value = None if given is None else given.get(column)
            if type(value) is str:
                known = self._number.get((column, value))  # the usual case, without another call
                numbers.append(self.add(column, value) if known is None else known)
            else:
                text = label(value)
                numbers.append(-1 if text is None else self.add(column, text))
        return numbers

    def number_rows(self, mu: Floats, values: Sequence[Sequence[Any]]) -> Any:
        """Return the numbers of many rows' groups; new groups get the same numbers as row by row."""
        cells = np.full((len(mu), self.width), -1, np.int64)
        cells[:, 0] = 0
        if self.bins > 1:
            cells[:, 1] = 1 + np.minimum((mu * self.bins).astype(np.int64), self.bins - 1)
        first_column = self.width - len(self.columns)
        places: list[tuple[Any, list[str | None]]] = []
        new: list[tuple[int, int, str]] = []
        for j, column in enumerate(values):
            seen: dict[Any, int] = {}
            place = np.array([seen.setdefault(value, len(seen)) for value in column], np.int64)
            rows = np.unique(place, return_index=True)[1].tolist()
            texts = [label(value) for value in seen]
            new += [(row, j, text) for row, text in zip(rows, texts, strict=True) if text is not None]
            places.append((place, texts))
        for _, j, text in sorted(new):
            self.add(self.columns[j], text)
        for j, (place, texts) in enumerate(places):
            known = [-1 if text is None else self._number[self.columns[j], text] for text in texts]
            cells[:, first_column + j] = np.array(known, np.int64)[place] if len(place) else -1
        return cells

    def find(self, given: Any) -> int:
        """Return the number of the group that a caller names: None, a WatchedGroup, or {"carrier": "AA"}.

        Raises a ValueError if no forecast of that group was seen.
        """
        if given is None or given == EVERYONE:
            return 0
        if isinstance(given, tuple) and len(given) == 2:
            given = {given[0]: given[1]}
        if not isinstance(given, Mapping) or len(given) != 1:
            raise TypeError(
                f"group must be None (all forecasts) or such as {{'carrier': 'AA'}}; got {given!r}"
            )
        column, value = next(iter(given.items()))
        wanted = WatchedGroup(column, str(label(value)))
        if wanted in self.all:
            return self.all.index(wanted)
        raise ValueError(f"group must be one that was seen; got {column!r}: {value!r}")


def label(value: Any) -> str | None:
    """Return a value as text: 1 and 1.0 are the same; None if it is missing."""
    if value is None or type(value).__name__ in _MISSING:
        return None
    if isinstance(value, (float, np.floating)):
        if np.isnan(value):
            return None
        return str(int(value)) if np.isfinite(value) and value == np.floor(value) else str(value)
    return str(value)
