"""Write the labels of groups as text, in the same way for every engine."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

MISSING = "(missing)"
_PANDAS_MISSING = ("NAType", "NaTType")  # the types of pandas.NA and pandas.NaT


class RowLabels(NamedTuple):
    """The labels of a grouping's rows: the names that occur, and each row's place among them."""

    names: Sequence[Any]
    places: Any


def read_labels(series: Any) -> RowLabels:
    """Write the labels of groups as text, in the same way for every engine."""
    numbers, values = number_values(series)
    labels = [label_of(value) for value in values]
    by_label = name_labels(labels)
    names = list(by_label.values())
    place = {name: k for k, name in enumerate(names)}
    return RowLabels(names, np.array([place[by_label[label]] for label in labels], np.int64)[numbers])


def write_labels(series: Any) -> Any:
    """Return the name of each row's group, as an array."""
    labels = read_labels(series)
    return np.array(labels.names, dtype=object)[labels.places]


def number_values(series: Any) -> tuple[Any, list[Any]]:
    """Number the distinct values of a series; returns each row's number, and the values (null is None)."""
    import narwhals as nw

    values = series.to_list()
    if series.null_count():
        values = [None if gap else v for v, gap in zip(values, series.is_null().to_list(), strict=True)]
    keys: Any = values
    if series.dtype in (nw.Object, nw.Unknown):  # pandas may hold 1, True and 1.0 in one column
        keys = [(type(value), value) for value in values]
    if series.dtype == nw.Datetime and series.dtype.time_zone:
        # When clocks go back, two hours of one day read the same, and Python treats them as equal.
        keys = list(zip(series.dt.convert_time_zone("UTC").to_list(), values, strict=True))
    if series.dtype.is_nested():  # lists, structs
        keys = values = [text_of(value) for value in values]
    places: dict[Any, int] = {}
    numbers = np.array([places.setdefault(key, len(places)) for key in keys], dtype=np.int64)
    return numbers, list(places) if keys is values else [value for _, value in places]


def number_clusters(series: Any) -> Any:
    """Number the distinct values of a series, in any order; numbers and times without a loop."""
    if (series.dtype.is_integer() or series.dtype.is_temporal()) and not series.null_count():
        return np.unique(series.to_numpy(), return_inverse=True)[1]
    numbers, values = number_values(series)
    if len({type(value) for value in values}) < 2:
        return numbers
    return read_labels(series).places  # 1 and 1.0 are one cluster


class Label(NamedTuple):
    """A label in its column: whether it is text, and how it reads."""

    is_text: bool
    text: str


def label_of(value: Any) -> Label:
    """Return the label that a value is; 1 and 1.0 are the same, 1 and "1" are not."""
    return Label(isinstance(value, str), text_of(value))


def name_labels(labels: Iterable[Label]) -> dict[Label, str]:
    """Give each label of a column a unique name: how it reads, or if that is taken, text in quotes.

    Examples
    --------
    >>> from makewhole.auditing.labels import label_of, name_labels
    >>> list(name_labels(label_of(value) for value in (1, "1", "2", None)).values())
    ['(missing)', '1', "'1'", '2']
    """
    names: dict[Label, str] = {}
    taken: set[str] = set()
    for label in sorted(set(labels)):
        name = label.text
        while name in taken:
            name = repr(name)
        names[label] = name
        taken.add(name)
    return names


def text_of(value: Any) -> str:
    """Write one label as text. Engines may give whole numbers as floats, and missing values as NaN."""
    if value is None or type(value).__name__ in _PANDAS_MISSING:
        return MISSING
    if isinstance(value, (float, np.floating)):
        if math.isnan(value):
            return MISSING
        return str(int(value)) if math.isfinite(value) and value == math.floor(value) else str(value)
    return str(value)
