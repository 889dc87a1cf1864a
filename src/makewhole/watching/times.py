"""Times of forecasts: as numbers in a watch's memory, as calendar periods, and back."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta
from typing import Any, Literal

import numpy as np

from makewhole import arguments
from makewhole.arguments import Floats

# What the times of a watch are: none were given (rows are numbered), numbers, dates, or datetimes with or
# without a time zone.
Kind = Literal["row", "number", "date", "datetime", "datetime UTC"]

# What a cluster can be: the rows of one calendar period, or of one and the same time.
PERIODS = ("hour", "day", "week", "month", "year", "at")

_EPOCH, _EPOCH_UTC, _FIRST_DAY = datetime(1970, 1, 1), datetime(1970, 1, 1, tzinfo=UTC), date(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)
_PER_DAY, _PER_HOUR = 86_400_000_000, 3_600_000_000


def read_time(at: Any) -> tuple[Kind, float]:
    """Return a time's kind, and the time as a number: days or microseconds since 1970, or itself."""
    if at.__class__ is float or at.__class__ is int:
        return "number", arguments.scalar("at", at) if at - at != 0 else at
    if isinstance(at, datetime):
        if at.tzinfo is None:
            return "datetime", (at - _EPOCH) / _MICROSECOND
        return "datetime UTC", (at - _EPOCH_UTC) / _MICROSECOND
    if isinstance(at, date):
        return "date", float((at - _FIRST_DAY).days)
    if isinstance(at, (int, float, np.number)) and not isinstance(at, bool):
        return "number", arguments.scalar("at", at)
    raise TypeError(f"at must be a number, a date or a datetime; got {at!r}")


def show_time(kind: Kind, number: float) -> Any:
    """Return the time that `read_time` read."""
    if kind == "date":
        return _FIRST_DAY + timedelta(days=int(number))
    if kind in ("datetime", "datetime UTC"):
        return (_EPOCH if kind == "datetime" else _EPOCH_UTC) + int(number) * _MICROSECOND
    return int(number) if number == math.floor(number) else number


def period_of(cluster: str, kind: Kind, number: float) -> int | float:
    """Return the number of the calendar period that a time lies in."""
    if cluster == "at":
        return number
    days = int(number) if kind == "date" else int(number) // _PER_DAY
    if cluster == "hour":
        return int(number) // _PER_HOUR
    if cluster == "day":
        return days
    if cluster == "week":  # 1970 began on a Thursday; weeks begin on Mondays
        return (days + 3) // 7
    day = _FIRST_DAY + timedelta(days=days)
    return day.year if cluster == "year" else 12 * day.year + day.month


def periods_of(cluster: str, kind: Kind, numbers: Floats) -> Any:
    """Return the period of each time in an array; the same numbers as `period_of`."""
    if cluster == "at":
        return numbers
    whole = numbers.astype(np.int64)
    days = whole if kind == "date" else whole // _PER_DAY
    if cluster == "hour":
        return whole // _PER_HOUR
    if cluster == "day":
        return days
    if cluster == "week":
        return (days + 3) // 7
    months = days.astype("M8[D]").astype("M8[M]").astype(np.int64)  # since January 1970
    return 1970 + months // 12 if cluster == "year" else 12 * 1970 + months + 1


def check_kind(cluster: str | None, kind: Kind) -> None:
    """Raise an error if times of this kind have no such periods."""
    if cluster is None or cluster == "at":
        return
    if kind in ("row", "number") or (kind == "date" and cluster == "hour"):
        wanted = "a datetime" if cluster == "hour" else "a date or a datetime"
        what = {"row": "no time", "number": "a number", "date": "a date"}[kind]
        raise TypeError(
            f"at must be {wanted} where cluster={cluster!r}; got {what} (cluster='at': rows of the same at)"
        )


def read_times(series: Any) -> tuple[Kind, Floats]:
    """Return the kind of a narwhals series of times, and its times as numbers; NaN where one is missing."""
    import narwhals as nw

    kind = series.dtype
    if kind == nw.Date:
        return "date", _floats(series.cast(nw.Datetime("us")).dt.timestamp("us")) / _PER_DAY
    if kind == nw.Datetime:
        return ("datetime UTC" if kind.time_zone else "datetime"), _floats(series.dt.timestamp("us"))
    if kind.is_numeric():
        return "number", _floats(series)
    values = series.to_list()
    if values and all(isinstance(value, date) for value in values):  # Python's dates in pandas
        read = [read_time(value) for value in values]
        if len({kind for kind, _ in read}) == 1:
            return read[0][0], np.array([number for _, number in read])
    raise TypeError(
        f"at must be a column of numbers, dates or datetimes; got {kind} (turn text into datetimes first)"
    )


def _floats(series: Any) -> Floats:
    import narwhals as nw

    return np.asarray(series.cast(nw.Float64).to_numpy(), np.float64)
