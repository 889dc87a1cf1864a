"""Number the groups or names in a column, in the order in which they first occur."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from makewhole.arguments import Floats
from makewhole.jit import call, jit

# Makes labels from values.
Labels = Callable[[list[Any]], list[Any]]
# Whole numbers that lie this close together are looked up in a table; others are sorted first.
_WIDEST = 1 << 22
# Those that NumPy also has.
_WHOLE = frozenset(f"{sign}Int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64))
# Up to here every whole number is also a floating-point number.
_LARGEST = 2.0**53


def number_groups(series: Any, known: dict[Any, float], prefix: str) -> Floats:
    """Return the number of every row's group, NaN where it is missing; new groups are added to `known`.

    `known` has the numbers by label. A label is the value itself if it is text or a whole number and there
    is no prefix, else the prefix and the value as text.
    """
    return number_names(series, known, lambda values: [_label(value, prefix) for value in values])


def number_names(series: Any, known: dict[Any, float], label: Labels) -> Floats:
    """Return the number of every row's name, NaN where it is missing; new names are added to `known`.

    `known` has the numbers by label, and `label` makes labels from values, which are all different.
    """
    codes, labels = number_alone(series, label)
    numbers = np.array([known.setdefault(label, float(len(known))) for label in labels])
    if not np.array_equal(numbers, np.arange(len(labels))):
        present = ~np.isnan(codes)
        codes[present] = numbers[codes[present].astype(np.int64)]
    return codes


def number_alone(series: Any, label: Labels) -> tuple[Floats, list[Any]]:
    """Return the number of every row's name, NaN where it is missing, and the names."""
    found = _as_whole(series)
    if found is None:
        return _one_by_one(series, label)
    values, gaps = found
    low = int(values.min(initial=0))
    if int(values.max(initial=0)) - low >= _WIDEST:
        low, values = 0, np.unique(values, return_inverse=True)[1].ravel()
    span = int(values.max(initial=0)) - low + 1
    codes, first = np.empty(len(values)), np.empty(span, np.int64)
    count = call(_compiled(), values, gaps, low, np.full(span, -1), first, codes)
    return codes, label(series[first[:count].tolist()].to_list())


def _as_whole(series: Any) -> tuple[Any, Any] | None:
    """Return whole numbers that are equal where the values are, and where values are missing (or nothing).

    None if the column's library offers no fast way.
    """
    import narwhals as nw

    dtype, library = series.dtype, series.implementation
    if dtype.is_float():
        numbers = np.asarray(series.cast(nw.Float64).to_numpy(), dtype=np.float64)
        gaps = np.isnan(numbers)
        values = np.where(gaps, 0.0, numbers)
        return (values.astype(np.int64), gaps) if _are_whole(values) else None
    if dtype in (nw.String, nw.Categorical, nw.Enum):
        if library.is_pandas():
            values = np.asarray(series.to_native().factorize()[0], dtype=np.int64)
            return values, values < 0
        if not library.is_polars():
            return None
        texts = series.cast(nw.Categorical) if dtype == nw.String else series
        series = nw.from_native(texts.to_native().to_physical(), series_only=True)
    elif dtype != nw.Boolean and str(dtype) not in _WHOLE:
        return None
    gaps = np.zeros(0, np.bool_)
    if series.null_count():
        gaps = np.array(series.is_null().to_numpy(), dtype=np.bool_)
        series = series.fill_null(False if dtype == nw.Boolean else 0)
    values = series.to_numpy()
    if values.dtype.kind not in "iub" or values.max(initial=0) > np.iinfo(np.int64).max:
        return None
    return np.ascontiguousarray(values, dtype=np.int64), gaps


def _are_whole(values: Floats) -> bool:
    return bool((np.rint(values) == values).all() and (np.abs(values) < _LARGEST).all())


def whole_if(value: Any) -> Any:
    """Return a whole float as an int: pandas turns integers with a missing one into floats."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def all_whole_if(values: list[Any]) -> list[Any]:
    """Return whole floats as ints; a list without floats is returned as it is."""
    any_floats = any(issubclass(kind, float) for kind in set(map(type, values)))
    return list(map(whole_if, values)) if any_floats else values


def _label(value: Any, prefix: str) -> Any:
    value = whole_if(value)
    return value if type(value) in (int, str) and not prefix else f"{prefix}{value}"


def _one_by_one(series: Any, label: Labels) -> tuple[Floats, list[Any]]:
    codes, known = np.full(len(series), np.nan), dict[Any, float]()
    values, gaps = series.to_list(), series.is_null().to_list()
    rows = [row for row, value in enumerate(values) if not gaps[row] and value == value]  # not NaN
    for row, name in zip(rows, label([values[row] for row in rows]), strict=True):
        codes[row] = known.setdefault(name, float(len(known)))
    return codes, list(known)


def number(values: Any, gaps: Any, low: int, table: Any, first: Any, codes: Any) -> int:
    """Write the number of every value into `codes`, and where each first occurs; return how many there are.

    `table`, full of −1 at the start, has the number of the value low + k at k.
    """
    count = 0
    for t in range(len(values)):
        if len(gaps) > 0 and gaps[t]:
            codes[t] = np.nan
            continue
        place = values[t] - low
        if table[place] < 0:
            table[place] = count
            first[count] = t
            count += 1
        codes[t] = table[place]
    return count


@functools.cache
def _compiled() -> Callable[..., int]:
    return jit(number)
