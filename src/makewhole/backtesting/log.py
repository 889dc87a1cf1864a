"""Read a log of forecasts, stakes and outcomes from a dataframe: check every row, and yield chunks."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from makewhole.arguments import Floats
from makewhole.backtesting.clock import Clock
from makewhole.backtesting.numbering import all_whole_if, number_alone, number_groups, number_names
from makewhole.corrections.certificate import WIDEST
from makewhole.corrections.names import Name, read_each
from makewhole.jit import call, jit

# The number of rows in a chunk: few enough for its columns to stay in the processor's cache.
CHUNK = 16_384
# The number of rows that are converted from the dataframe at a time, to limit memory.
_BLOCK = 64 * CHUNK


class ChunkColumns(NamedTuple):
    """The columns of a chunk, one entry per forecast: what the loop of a backtest reads."""

    mu_hat: Floats
    c_hat: Floats
    outcome: Floats
    net: Floats
    gross: Floats


@dataclass(slots=True)
class Chunk:
    """Some thousand forecasts: the columns for the loop, and the rows of the log that they come from."""

    columns: ChunkColumns
    groups: Any  # the numbers of each forecast's groups, one column per group column; None: no groups
    rows: Any  # the rows in the log, one per stake: a slice or an array
    forecast: Any  # for each of these rows, the number of its forecast in the chunk; None: a forecast per row
    stake: Floats
    stop: int
    times: Any = None  # of each forecast, when it was made and when its outcome was known; None: row by row
    view: Any = None  # what an informed customer believes; None: no such column
    by: Any = (
        None  # the numbers of each row's customer and groups, −1 for a level without a name; None: not needed
    )

    def first_row(self, forecast: int) -> int:
        """Return the first row of a forecast of this chunk in the log."""
        if self.forecast is None:
            return _row(self.rows, forecast)
        return _row(self.rows, int(np.argmax(self.forecast == forecast)))

    def first_rows(self) -> Any:
        """Return the first row of every forecast in the log."""
        if self.forecast is not None:
            return self.rows[np.unique(self.forecast, return_index=True)[1]]
        return np.arange(self.rows.start, self.rows.stop) if isinstance(self.rows, slice) else self.rows


_NUMBERS = ("mu", "outcome", "stake", "c_hat", "view")


class Log:
    """A log in a narwhals frame. `chunks` checks its rows and yields them in chunks, in order of time.

    `names` maps the arguments of `backtest` to column names. `clock` has the rows' times, if they have any;
    else the order of the rows is that of time. With `graded` outcomes are any numbers in [0, 1]. Raises a
    ValueError if the log is empty, and a TypeError if a column is not numeric.
    """

    one_price: bool = False  # whether all classes are one bet

    def __init__(
        self,
        frame: Any,
        names: dict[str, Any],
        one_sided: bool,
        groups: Sequence[str],
        clock: Clock | None = None,
        *,
        graded: bool = False,
    ) -> None:
        self.graded = graded
        self.frame, self.names, self.one_sided, self.clock = frame, names, one_sided, clock
        self.rows = len(frame)
        self.missing = 0
        self.order: Any = None  # the rows in the order of their forecasts; None: the log's order
        self.ids: Any = None  # the number of the id of each row of `order`; None: every row is a forecast
        self._whole: dict[str, Floats] = {}
        self._blocks: dict[str, tuple[int, Floats]] = {}
        self._bettors: Any = None  # the numbers of every row's customer; None: not needed so far
        self._levels = [name for name in names if name.partition("[")[0] == "by" and names[name] is not None]
        self._gaps = 0  # rows with missing numbers, if these are left out in advance
        if self.rows == 0:
            raise ValueError("frame must have at least one row; got 0")
        # With classes "mu[0]", "mu[1]", … stand for "mu".
        numeric = [name for name in names if name.partition("[")[0] in _NUMBERS]
        self._numeric = [name for name in numeric if names[name] is not None]
        for name in self._numeric:
            check_numeric(frame[name], name, names[name])
        self._no_width = np.zeros(CHUNK)
        self._sizes = np.empty(CHUNK)  # for |stake|, reused by every chunk: new memory costs time
        self._widest = (-WIDEST, WIDEST)
        self.groups, self.group_names = list(groups), list[Any]()
        self._codes = {name: self._numbered(name) for name in self.groups}
        self._with_gaps = [name for name, codes in self._codes.items() if np.isnan(codes.min())]
        # Larger with groups, because after every chunk the sums of all groups are added up.
        self._chunk_rows = CHUNK * 16 if groups else CHUNK
        self.rounds = self.rows
        in_order = clock is None or (
            not clock.missing.any() and bool(np.all(clock.time[1:] >= clock.time[:-1]))
        )
        if names["id"] is not None or not in_order:
            self._sort()

    def _sort(self) -> None:
        """Sort the rows without missing numbers by time, and by id, the ids in order of their first row."""
        self._whole = {name: as_floats(self.frame[name]) for name in self._numeric} | self._codes
        gaps = [np.isnan(column) for column in self._whole.values()]
        if self.clock is not None:
            gaps.append(self.clock.missing)
        kept = np.flatnonzero(~np.logical_or.reduce(gaps))
        if self.clock is not None:
            kept = kept[np.argsort(self.clock.time[kept], kind="stable")]
        self.order, self.rounds, self._gaps = kept, len(kept), self.rows - len(kept)
        if self.names["id"] is not None:
            _, first, code = np.unique(self._id_column()[kept], return_index=True, return_inverse=True)
            rank = np.empty(len(first), dtype=np.int64)
            rank[np.argsort(first)] = np.arange(len(first))
            number = rank[code.ravel()]
            by_id = np.argsort(number, kind="stable")
            self.rounds, self.ids, self.order = len(first), number[by_id], kept[by_id]

    def _id_column(self) -> Any:
        series = self.frame["id"]
        values = series.to_numpy()
        gaps = series.null_count() or (values.dtype.kind == "f" and int(np.isnan(values).sum()))
        if gaps:
            raise ValueError(f"id={self.names['id']!r} must not have missing values; got {gaps}")
        return values

    @property
    def named(self) -> bool:
        """Whether columns name the customers."""
        return bool(self._levels)

    @property
    def late(self) -> bool:
        """Whether a column says when outcomes were known."""
        return self.clock is not None and self.clock.known is not None

    def bettors(self) -> list[Any] | None:
        """The customer of each row: the names of her levels, None if there are none; None without columns."""
        if not self._levels:
            return None
        names = self.number_bettors()
        return [tuple(names[k] for k in row if k >= 0) or None for row in self._bettors.tolist()]

    def number_bettors(self) -> list[Name]:
        """Number the customers for the next chunks; returns all names, in the order of their numbers.

        The levels of a row are several columns; the same name has the same number in all of them.
        """
        known: dict[Name, float] = {}
        if len(self._levels) == 1:  # most logs: no name can be in two columns
            (level,) = self._levels
            numbers, names = number_alone(self.frame[level], self._reader(level))
            self._bettors = _whole_codes(numbers)[:, np.newaxis]
            return names
        codes = [
            _whole_codes(number_names(self.frame[level], known, self._reader(level)))
            for level in self._levels
        ]
        for k, wide in enumerate(codes):
            for narrow in codes[k + 1 :]:
                both = (wide == narrow) & (wide >= 0)
                if both.any():
                    row = int(np.argmax(both))
                    name, columns = list(known)[wide[row]], [self.names[level] for level in self._levels]
                    raise ValueError(
                        f"by={columns!r} must be different names; got {name!r} twice at row {row}"
                    )
        self._bettors = np.stack(codes, axis=1)
        return list(known)

    def _reader(self, level: str) -> Callable[[list[Any]], list[Name]]:
        argument = f"by={self.names[level]!r}"
        return lambda values: read_each(argument, all_whole_if(values))

    def enlarge_chunks(self, rows: int) -> None:
        """Let the next chunks have about this many rows, if that is more than now, within a limit."""
        while self._chunk_rows < rows and _BLOCK % (2 * self._chunk_rows) == 0:
            self._chunk_rows *= 2

    def keep_widths_in(self, c_range: tuple[float, float]) -> None:
        """Require ĉ to lie in this range, as a forecaster does; without a column it is 0, or the closest."""
        self._widest = c_range
        self._no_width = np.full(CHUNK, min(max(0.0, c_range[0]), c_range[1]))

    def _numbered(self, name: str) -> Floats:
        """Return a group column as indices into `group_names`; NaN where the group is missing."""
        prefix = f"{self.names[name]}=" if len(self.groups) > 1 else ""
        known = {group: float(k) for k, group in enumerate(self.group_names)}
        codes = number_groups(self.frame[name], known, prefix)
        self.group_names = list(known)
        return codes

    def _group_labels(self, codes: Floats) -> Any:
        return np.array([str(self.group_names[int(code)]) for code in codes], dtype=object)

    def c_range(self) -> tuple[float, float]:
        """Return the smallest and the largest ĉ in the log."""
        if self.names["c_hat"] is None:
            return 0.0, 0.0
        low, high = np.inf, -np.inf
        for chunk in self.chunks(np.inf):
            low = min(low, float(chunk.columns.c_hat.min(initial=np.inf)))
            high = max(high, float(chunk.columns.c_hat.max(initial=-np.inf)))
        return (low, high) if low <= high else (0.0, 0.0)

    def largest(self) -> float:
        """Return the largest gross stake on one forecast; 1 if nothing was staked."""
        found = max(
            (float(chunk.columns.gross.max(initial=0.0)) for chunk in self.chunks(np.inf)), default=0.0
        )
        return found or 1.0

    def _numbers(self, name: str, part: Any) -> Floats:
        if name in self._codes or not isinstance(part, slice):
            gathered: Floats = (self._codes | self._whole)[name][part]
            return gathered
        block = part.start // _BLOCK
        if self._blocks.get(name, (-1, None))[0] != block:
            self._blocks[name] = (block, as_floats(self.frame[name][block * _BLOCK : (block + 1) * _BLOCK]))
        values: Floats = self._blocks[name][1][part.start - block * _BLOCK : part.stop - block * _BLOCK]
        return values

    def chunks(self, cap: float) -> Iterator[Chunk]:
        """Yield the log in chunks, after checking their rows.

        Raises a ValueError for a value that does not fit, or a gross stake over `cap`.
        """
        self.missing = self._gaps
        start, end = 0, self.rows if self.order is None else len(self.order)
        while start < end:
            rows = self._chunk_rows
            while self.order is None and start % rows:  # else a chunk could lie in two blocks
                rows //= 2
            stop = min(start + rows, end)
            if self.ids is not None and stop < end:  # keep the rows of an id in one chunk
                stop = int(np.searchsorted(self.ids, self.ids[stop - 1], side="right"))
            yield self._chunk(start, stop, cap)
            start = stop

    def _chunk(self, start: int, stop: int, cap: float) -> Chunk:
        place: Any = slice(start, stop) if self.order is None else self.order[start:stop]
        columns = [self._numbers(name, place) for name in (*self._numeric, *self.groups)]
        named = dict(zip((*self._numeric, *self.groups), columns, strict=True))
        fine = self.ids is None and self._all_fine([named[n] for n in (*self._numeric, *self._with_gaps)])
        if self.order is None and not fine and any(np.isnan(column.min()) for column in columns):
            keep = ~np.logical_or.reduce([np.isnan(column) for column in columns])
            self.missing += int(np.count_nonzero(~keep))
            place = np.arange(start, stop)[keep]
            columns = [column[keep] for column in columns]
        named = dict(zip((*self._numeric, *self.groups), columns, strict=True))
        mu, y = named["mu"], named["outcome"]
        b = named["stake"] if "stake" in named else np.zeros(len(mu))
        width = named["c_hat"] if "c_hat" in named else self._widths(len(mu))
        low, high = self._widest
        narrow = "c_hat" not in named or not len(width) or (width.min() >= low and width.max() <= high)
        if not fine or not narrow or self.one_sided or "view" in named:
            self._check(place, mu, y, b, width)
            self._check_view(place, named.get("view"))
        codes = [named[group] for group in self.groups]
        if self.ids is None:
            sizes = self._sizes[: len(b)] if len(b) <= len(self._sizes) else None
            chunk = Chunk(ChunkColumns(mu, width, y, b, np.abs(b, out=sizes)), None, place, None, b, stop)
        else:
            chunk = self._gather(place, self.ids[start:stop], (mu, y, b, width), stop, codes)
        if codes and chunk.groups is None:
            chunk.groups = np.stack(codes, axis=1).astype(np.int64)
        chunk.view = named.get("view")
        chunk.by = None if self._bettors is None else self._bettors[chunk.rows]
        self._set_times(chunk)
        self._check_cap(chunk, cap)
        return chunk

    def _all_fine(self, columns: list[Floats]) -> bool:
        """Whether no number is missing or wrong: one fast pass, and only if not, slower checks."""
        mu, y, *others = columns
        b = others[0] if "stake" in self._numeric else mu
        if self.graded:  # y has the same rule as μ, and no other
            nothing = np.zeros(len(y))
            if not call(_survey(), y, nothing, nothing, nothing):
                return False
            y = nothing
        return all(call(_survey(), mu, y, b, other) for other in others or [mu])

    def _widths(self, count: int) -> Floats:
        return self._no_width[:count] if count <= len(self._no_width) else np.full(count, self._no_width[0])

    def _set_times(self, chunk: Chunk) -> None:
        """Set when each forecast of a chunk was made and known; with ids, by the first row of each id."""
        if self.clock is None or self.clock.known is None:
            return
        time, known = self.clock.time[chunk.rows], self.clock.known[chunk.rows]
        if chunk.forecast is not None:
            _, first = np.unique(chunk.forecast, return_index=True)
            differs = known != known[first][chunk.forecast]
            if differs.any():
                row = _row(chunk.rows, int(np.argmax(differs)))
                raise ValueError(
                    f"known={self.names['known']!r} must be the same in all rows of an id; got "
                    f"{self.frame['known'][row]} at row {row}"
                )
            time, known = time[first], known[first]
        chunk.times = (time, known)

    def _gather(
        self, place: Any, code: Any, columns: tuple[Floats, ...], stop: int, codes: list[Floats]
    ) -> Chunk:
        """Add up the stakes on each id; its forecast and outcome must be the same in all rows."""
        mu, y, b, width = columns
        _, first, forecast = np.unique(code, return_index=True, return_inverse=True)
        same = [("mu", mu), ("outcome", y), ("c_hat", width), *zip(self.groups, codes, strict=True)]
        for name, column in same:
            differs = column != column[first][forecast]
            shown = column if name not in self.groups else self._group_labels(column)
            self._reject(name, place, shown, differs, "must be the same in all rows of an id")
        net: Any = np.bincount(forecast, weights=b, minlength=len(first))
        gross: Any = np.bincount(forecast, weights=np.abs(b), minlength=len(first))
        groups = np.stack(codes, axis=1)[first].astype(np.int64) if codes else None
        return Chunk(
            ChunkColumns(mu[first], width[first], y[first], net, gross), groups, place, forecast, b, stop
        )

    def _check(self, place: Any, mu: Floats, y: Floats, b: Floats, width: Floats) -> None:
        if mu.min(initial=0.0) < 0 or mu.max(initial=1.0) > 1:
            outside = (mu < 0) | (mu > 1)
            hint = " (a percentage? divide by 100)" if 1 < mu[outside][0] <= 100 else ""
            self._reject("mu", place, mu, outside, "must lie in [0, 1]", hint)
        if self.graded:
            self._reject("outcome", place, y, ~((y >= 0) & (y <= 1)), "must lie in [0, 1]")
        else:
            hint = " (a quantity? graded=True takes numbers in [0, 1])"
            between = hint if ((y > 0) & (y < 1)).any() else ""
            self._reject("outcome", place, y, (y != 0) & (y != 1), "must be 0 or 1", between)
        self._reject("stake", place, b, np.isinf(b), "must be finite")
        self._check_width(place, width)
        if self.one_sided:
            self._reject("stake", place, b, b < 0, "must not be negative when one-sided")

    def _check_width(self, place: Any, width: Floats) -> None:
        if self.names["c_hat"] is not None:
            low, high = self._widest
            wide = (width < low) | (width > high)
            self._reject("c_hat", place, width, wide, f"must lie in [{low:g}, {high:g}]")

    def _check_view(self, place: Any, view: Floats | None) -> None:
        if view is not None:
            self._reject("view", place, view, ~((view >= 0) & (view <= 1)), "must lie in [0, 1]")

    def _check_cap(self, chunk: Chunk, cap: float) -> None:
        gross: Any = chunk.columns.gross
        if gross.ndim > 1:  # with classes the cap is on each of them
            gross = gross.max(axis=1)
        most = gross.max(initial=0.0)
        if not most < np.inf:
            at = int(np.argmax(~np.isfinite(gross)))
            raise ValueError(f"the sum of |stake| on a forecast must be finite; got {gross[at]}")
        if most > cap:
            worst = int(np.argmax(gross > cap))
            raise ValueError(
                f"max_stake must cover the sum of |stake| on every forecast; got {cap} < {gross[worst]} "
                f"at row {chunk.first_row(worst)}"
            )

    def _reject(self, name: str, place: Any, values: Floats, bad: Any, rule: str, hint: str = "") -> None:
        if bad.any():
            at = int(np.argmax(bad))
            column = self.names[name]
            raise ValueError(f"{name}={column!r} {rule}; got {values[at]!s} at row {_row(place, at)}{hint}")


def all_fine(mu: Any, y: Any, b: Any, other: Any) -> bool:
    """Whether all rows are valid: one fast pass. Only if not, slower checks find out what is wrong."""
    fine = True
    for t in range(len(mu)):
        fine &= (mu[t] >= 0.0) & (mu[t] <= 1.0) & ((y[t] == 0.0) | (y[t] == 1.0))
        fine &= (abs(b[t]) < np.inf) & (abs(other[t]) < np.inf)
    return fine


@functools.cache
def _survey() -> Callable[..., bool]:
    return jit(all_fine)


def _example(series: Any) -> str:
    """Return a column's type; for text, the first value that is not a number, and its row."""
    for row, value in enumerate(series.to_list() if str(series.dtype) == "String" else []):
        try:
            float(value or 0)
        except ValueError:
            return f"{value!r} at row {row}"
    return str(series.dtype)


def _whole_codes(codes: Floats) -> Any:
    """Return numbers as whole numbers, −1 where one is missing."""
    return np.where(np.isnan(codes), -1.0, codes).astype(np.int64)


def _row(place: Any, at: int) -> int:
    return int(place.start + at if isinstance(place, slice) else place[at])


def as_floats(series: Any) -> Floats:
    """Return a column as 64-bit floats, with NaN for missing values; without a copy if possible."""
    import narwhals as nw

    wanted = series if series.dtype == nw.Float64 else series.cast(nw.Float64)
    return np.asarray(wanted.to_numpy(), dtype=np.float64)


def check_numeric(series: Any, name: str, column: str) -> None:
    """Raise a TypeError unless a column holds numbers, or yes and no."""
    if not (series.dtype.is_numeric() or _is_boolean(series)):
        raise TypeError(f"{name}={column!r} must be a column of numbers; got {_example(series)}")


def _is_boolean(series: Any) -> bool:
    import narwhals as nw

    return bool(series.dtype == nw.Boolean)
