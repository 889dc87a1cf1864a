"""When each forecast of a log was made, and when its outcome was known: columns of times as whole numbers."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

# The mask of all bits of a float except its sign.
_MAGNITUDE = np.int64(0x7FFF_FFFF_FFFF_FFFF)


class Clock(NamedTuple):
    """The times of all rows as whole numbers; only their order matters.

    `known` is None if every outcome is known before the next forecast. `missing` marks rows that lack a time.
    """

    time: Any
    known: Any
    missing: Any


def read_clock(frame: Any, names: dict[str, Any]) -> Clock | None:
    """Return the times of a log in a narwhals frame; None if it has no column of times.

    Raises a TypeError for columns that hold neither numbers nor dates, and a ValueError if an outcome was
    known before its forecast was made.
    """
    if names["time"] is None:
        if names["known"] is not None:
            raise ValueError(
                f"known={names['known']!r} needs time=..., the column that says when each forecast was made"
            )
        return None
    columns = {name: _read(frame, name, names) for name in ("time", "known") if names[name] is not None}
    missing = np.logical_or.reduce([gap for _, gap in columns.values()])
    if "known" not in columns:
        return Clock(_keys(columns["time"][0]), None, missing)
    time, known = columns["time"][0], columns["known"][0]
    if _sort_of(frame["time"]) != _sort_of(frame["known"]):
        kinds = f"{frame['time'].dtype} and {frame['known'].dtype}"
        raise TypeError(
            f"time={names['time']!r} and known={names['known']!r} must both be numbers or both be dates, "
            f"with a time zone or without; got {kinds}"
        )
    kind = np.result_type(time.dtype, known.dtype)
    clock = Clock(_keys(time.astype(kind)), _keys(known.astype(kind)), missing)
    early = ~missing & (clock.known < clock.time)
    if early.any():
        row = int(np.argmax(early))
        raise ValueError(
            f"known={names['known']!r} must not be before time={names['time']!r}; got {frame['known'][row]} "
            f"before {frame['time'][row]} at row {row}"
        )
    return clock


def _sort_of(series: Any) -> str:
    """The sort of times that a column holds: different sorts cannot be compared."""
    import narwhals as nw

    if series.dtype == nw.Datetime:
        return "zoned" if series.dtype.time_zone else "dates"
    return {nw.Date: "dates", nw.Duration: "spans"}.get(series.dtype, "numbers")


def _read(frame: Any, name: str, names: dict[str, Any]) -> tuple[Any, Any]:
    """Return a column of times as an array of numbers or dates, and which of them are missing."""
    import narwhals as nw

    series = frame[name]
    temporal = series.dtype in (nw.Date, nw.Datetime, nw.Duration)
    if not temporal and not series.dtype.is_numeric():
        raise TypeError(
            f"{name}={names[name]!r} must be a column of numbers, dates or datetimes; got {series.dtype} "
            "(turn text and Python's dates into datetimes first)"
        )
    gaps = np.asarray(series.is_null().to_numpy(), dtype=bool)
    if series.dtype.is_integer() and not gaps.any():
        numbers = series.to_numpy()
        if len(numbers) and int(numbers.max()) > np.iinfo(np.int64).max:
            raise ValueError(f"{name}={names[name]!r} must be below 2**63; got {numbers.max()}")
        return numbers.astype(np.int64), gaps
    if not temporal:
        values = np.asarray(series.cast(nw.Float64).to_numpy(), dtype=np.float64)
        return values, gaps | np.isnan(values)
    values = series.to_numpy()
    if values.dtype.kind == "m":
        values = values.view(f"M8[{np.datetime_data(values.dtype)[0]}]")
    return values, gaps | np.isnat(values)


def _keys(values: Any) -> Any:
    """Return whole numbers in the same order: the loops compare these for any kind of times."""
    if values.dtype.kind != "f":
        return values.view(np.int64)
    bits = (values + 0.0).view(np.int64)  # −0 becomes 0
    return np.where(bits < 0, bits ^ _MAGNITUDE, bits)
