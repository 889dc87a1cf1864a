"""Watch a live model: whether it is still right, group by group, at any time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Self

import numpy as np

from makewhole import arguments, frames, pages
from makewhole.arguments import Floats
from makewhole.bounds import BETTING_SHARES
from makewhole.jit import call
from makewhole.watching import saved
from makewhole.watching._kernel import (
    ALL_MU,
    ALL_ROWS,
    ALL_Y,
    BY,
    KEPT,
    RAISED,
    SINCE,
    UNBET,
    UNITS,
    WHEN,
    Memory,
    compiled_end,
    compiled_rows,
    make_memory,
)
from makewhole.watching.findings import Alarm, GroupState, urgency
from makewhole.watching.groups import BINS_NAME, Groups, risk_share
from makewhole.watching.page import describe_watch, render_watch
from makewhole.watching.reading import WatchedRows, read_names, read_rows
from makewhole.watching.times import (
    PERIODS,
    Kind,
    check_kind,
    period_of,
    periods_of,
    read_time,
    show_time,
)
from makewhole.watching.waiting import RowQueue

# The half-widths that are tried for each group, besides the one that is watched.
_PRICES = (0.0, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.5)
_BOTH = frozenset({0, 1})  # a lookup is faster than reading a number
_BATCH = 4096  # rows that are kept before they are handed to the compiled loop
_PIECE = 1 << 16  # rows of a frame that are handed over together


class Watch:
    """Watch forecasts as their outcomes come in, and raise an alarm when they are no longer right.

    In every group the watch bets against the forecasts, in both directions and at several half-widths c. If
    the forecasts are right to within c, given what was known when they were made, no bettor's money grows in
    the long run; if she gets very rich, they are not. With probability at least `confidence` every alarm that
    is ever raised is right, in all groups and at all times together, however often you look. Part of the
    money is kept for later, so a change is also found after a long good time: after n clusters it takes more
    evidence than a test that began at the change, by a factor of about n·log₂(n)².

    What is assumed: each forecast was made before anything was known of the outcomes in its own cluster, and
    of outcomes awaited at the same time only those of one cluster depend on each other. Without clusters,
    each row is one. The bets are on whole groups and on bins of the forecast: a gap on a part of a group that
    is no group of the watch can go unnoticed, and no alarm does not mean that the forecasts are right.

    A watch belongs to one thread. A call that raises changes nothing.

    Parameters
    ----------
    groups
        The names of columns, such as `["carrier"]`. Every value is a group, from its first forecast on. The
        first sixteen groups (bins included) have the largest parts of the risk, later ones smaller parts.
    cluster
        Which rows may depend on each other: those of one "hour", "day", "week", "month" or "year" of `at`
        (in UTC, if it has a time zone), or with "at" those of one and the same `at`. None: no two rows. The
        bets on a cluster are settled when the next cluster begins, or with `end_cluster`.
    confidence
        The probability that no alarm is ever false.
    c
        The half-width that the forecaster stands behind: the alarm is raised if forecasts are off by more.
        Real models are rarely right to within 0, and with enough rows the watch will find it.
    bins
        Bins of the forecast, of equal width, that are watched as groups (column "forecast"). They find
        forecasts that are too high where they are high, and too low where they are low.
    graded
        Whether an outcome may be any number in [0, 1].
    largest_cluster
        A number of rows that no cluster can exceed. Without it, the watch bets on at most as many rows of a
        cluster as the largest one before it had, in the order in which they come; that order must then tell
        nothing about the outcomes. With it, all rows are bet on, with smaller stakes.

    Examples
    --------
    >>> import makewhole as mw
    >>> watch = mw.Watch(groups=["carrier"], confidence=0.95, bins=1)
    >>> for day in range(400):
    ...     watch.see(0.2, int(day % 5 == 0), groups={"carrier": "AA"}, at=day)  # right
    ...     watch.see(0.2, int(day % (5 if day < 200 else 2) == 0), groups={"carrier": "UA"}, at=day)
    >>> [(str(alarm.group), alarm.direction, alarm.at_least) for alarm in watch.alarms()]
    [('carrier UA', 'more', 0.1), ('all forecasts', 'more', 0.03)]
    >>> 195 <= watch.alarms()[0].since <= 205, watch.alarms()[0].raised
    (True, 278)
    >>> watch.smallest_c({"carrier": "AA"}), watch.smallest_c({"carrier": "UA"})
    (0.0, 0.1)

    References
    ----------
    Waudby-Smith & Ramdas (2024), "Estimating means of bounded random variables by betting"; Shin, Ramdas &
    Rinaldo (2022), "E-detectors: a nonparametric framework for sequential change detection". docs/theory.md
    has the proof.
    """

    def __init__(
        self,
        groups: Sequence[str] = (),
        cluster: str | None = None,
        confidence: float = 0.95,
        *,
        c: float = 0.0,
        bins: int = 5,
        graded: bool = False,
        largest_cluster: int | None = None,
    ) -> None:
        names = read_names(groups)
        if cluster is not None and cluster not in PERIODS:
            raise ValueError(f"cluster must be None or one of {', '.join(PERIODS)}; got {cluster!r}")
        level = arguments.scalar("confidence", confidence)
        if not 0 < level < 1:
            raise ValueError(f"confidence must lie between 0 and 1; got {confidence!r}")
        bins = arguments.whole("bins", bins, least=1, most=100)
        if bins > 1 and BINS_NAME in names:
            raise ValueError(f"groups must not be called {BINS_NAME!r} with bins; rename it, or pass bins=1")
        if largest_cluster is not None:
            if cluster is None:
                raise ValueError(f"largest_cluster needs cluster=; got {largest_cluster!r} without it")
            largest_cluster = arguments.whole("largest_cluster", largest_cluster, least=1)
        if not isinstance(graded, (bool, np.bool_)):
            raise TypeError(f"graded must be True or False; got {graded!r}")
        self.cluster, self.confidence, self.graded = cluster, level, bool(graded)
        self.c, self.largest_cluster = arguments.within("c", c, 0.0, 0.5), largest_cluster
        self.missing = self.dropped = 0
        self._prices = np.array(sorted({*map(float, _PRICES), self.c}))
        self._watched = int(np.searchsorted(self._prices, self.c))
        self._groups = Groups(names, bins)
        self._memory = make_memory(32, len(self._prices))
        self._waiting = RowQueue(self._groups.width)
        self._kind: Kind | None = None
        self._seen, self._unit, self._in_unit, self._ended = 0, -math.inf, 0, True
        self._make_room()

    # --- forecasts and outcomes ---------------------------------------------------------------------------

    def see(
        self,
        mu: float,
        y: Any = None,
        *,
        groups: Mapping[str, Any] | None = None,
        at: Any = None,
        id: Any = None,  # noqa: A002 - as in InsuredForecaster
    ) -> None:
        """See one forecast and its outcome; or the forecast only, with an `id` for `outcome` to name.

        `groups` maps the watch's columns to this row's values. `at` is its time: a number, a date or a
        datetime. WatchedRows must come in the order in which the forecasts were made.

        Raises a ValueError or TypeError that names the argument; nothing has changed then.
        """
        if type(mu) is not float or not 0.0 <= mu <= 1.0:
            mu = float(arguments.probabilities("mu", arguments.scalar("mu", mu)))
        if y is None:
            if id is None:
                raise ValueError(
                    "y must be given, or an id= with which outcome(id, y) gives it later; got None"
                )
        elif type(y) is not int or y not in _BOTH:
            y = float(arguments.outcome(y, None, graded=self.graded))
        if id is not None:
            self._check_new(id)
        if groups:
            self._groups.check(groups)
        kind: Kind
        kind, number = ("row", self._seen) if at is None else read_time(at)
        unit, room = self._enter(kind, number)
        cells = self._groups.number_row(mu, groups)
        self._unit, self._in_unit, self._ended, self._kind = unit, room, False, kind
        self._seen += 1
        waiting = self._waiting
        waiting.append(mu, 0.0 if y is None else y, number, unit, cells)
        if y is None:
            waiting.await_outcome(id, len(waiting) - 1)
        if len(waiting) >= _BATCH and waiting.ready >= _BATCH // 2:
            self._settle()

    def see_many(
        self,
        frame: Any,
        mu: str = "mu",
        outcome: str = "y",
        *,
        at: str | None = None,
        id: str | None = None,  # noqa: A002 - as in `see`
    ) -> int:
        """See the rows of a dataframe of any library; the same result, to the bit, as one by one.

        The watch's groups are columns of the frame. With `at`, the rows are taken in the order of that
        column. A row without a number is left out and counted in `missing`; with `id`, a row without an
        outcome waits for it. Returns how many rows were seen.

        Raises a ValueError or TypeError that names the argument; nothing has changed then.
        """
        named = {"mu": mu, "outcome": outcome} | ({} if at is None else {"at": at})
        named |= {} if id is None else {"id": id}
        named |= {f"group {name}": name for name in self._groups.columns}
        for argument, column in named.items():
            if not isinstance(column, str):
                raise TypeError(f"{argument} must be the name of a column; got {column!r}")
        rows = read_rows(frames.read_columns(frame, named), self.graded)
        if not rows.rows:
            self.missing += rows.missing
            return 0
        times = np.arange(self._seen, self._seen + rows.rows, dtype=np.float64) if at is None else rows.at
        unit = self._enter_many(rows.kind, times, rows.rows)
        ids = rows.ids if id is not None else []
        self._check_ids(ids)
        values = [rows.labels[f"group {name}"] for name in self._groups.columns]
        cells = self._groups.number_rows(rows.mu, values)
        self.missing += rows.missing
        self._kind = rows.kind
        self._take_in(rows, times, unit, cells, ids)
        return rows.rows

    def outcome(self, id: Any, y: float) -> None:  # noqa: A002 - as in `see`
        """Say what happened to a forecast that was seen without its outcome.

        Raises a ValueError if no forecast with this id waits for its outcome.
        """
        self._waiting.resolve(id, float(arguments.outcome(y, None, graded=self.graded)))

    def drop(self, id: Any) -> None:  # noqa: A002 - as in `see`
        """Say that the outcome of a forecast will never be known; it is left out and counted in `dropped`.

        A forecast that waits holds up all that were made after it. Whether one is dropped must not depend on
        what happened: otherwise right forecasts can look wrong.
        """
        self._waiting.resolve(id, math.nan)
        self.dropped += 1

    def end_cluster(self) -> None:
        """Settle the bets on the current cluster now: no more of its rows will come.

        Without it they are settled when the next cluster begins. Raises a ValueError if an outcome is still
        awaited.
        """
        if self._waiting.places:
            raise ValueError(
                f"end_cluster() needs all outcomes; id={self.oldest!r} waits for its own (use outcome() or "
                "drop())"
            )
        self._settle()
        call(compiled_end(), self._memory, *self._terms())
        self._ended = True

    def restart(self, group: Any = None) -> None:
        """Forget the alarms and the evidence so far, of one group or (None) of all: the model was mended.

        The confidence stays true: it is the probability that no alarm is ever false, before or after.
        """
        number = None if group is None else self._groups.find(group)
        self._settle()
        where = slice(None) if number is None else number
        for array in (self._memory.money, self._memory.best, self._memory.level, self._memory.alarms):
            array[where] = 0

    # --- what was found -----------------------------------------------------------------------------------

    def alarms(self) -> list[Alarm]:
        """Return the alarms raised since the start (or `restart`), the first ones first."""
        self._settle()
        memory = self._memory
        raised = np.argwhere(memory.alarms[..., RAISED] > 0)
        found = []
        for g, side in raised.tolist():
            state, alarm = self._state(g), memory.alarms[g, side]
            found.append(
                Alarm(
                    group=state.group,
                    direction="more" if side == 0 else "less",
                    since=show_time(self._times(), alarm[SINCE]),
                    raised=show_time(self._times(), alarm[WHEN]),
                    at_least=float(self._prices[memory.level[g, side] - 1]),
                    confidence=self.confidence,
                    rows=int(alarm[BY]),
                    mu=state.mu,
                    outcome=state.outcome,
                )
            )
        order = sorted(range(len(found)), key=lambda k: (memory.alarms[*raised[k], WHEN], k))
        return [found[k] for k in order]

    def smallest_c(self, group: Any = None) -> float:
        """Return the c up to which every half-width is refuted, for all forecasts or one group; 0 if none is.

        `group` is such as `{"carrier": "AA"}`. The values tried are 0, 0.01, 0.02 and so on up to 0.5, and
        the watch's own c. Raises a ValueError if no forecast of the group was seen.
        """
        return self.state(group).smallest_c

    def groups(self) -> list[GroupState]:
        """Return what is known of every group that has rows, those with the largest refuted c first."""
        self._settle()
        states = [self._state(g) for g in range(len(self._groups))]
        return sorted((s for s in states if s.rows), key=urgency)

    def state(self, group: Any = None) -> GroupState:
        """Return what is known of all forecasts, or of one group, such as `{"carrier": "AA"}`."""
        self._settle()
        return self._state(self._groups.find(group))

    def history(self, group: Any = None) -> tuple[list[Any], list[int], list[float]]:
        """Return a group's past at up to 128 moments: the time, its rows, and Σ(y − μ) so far."""
        self._settle()
        g = self._groups.find(group)
        points = self._memory.history[g, : int(self._memory.sums[g, KEPT])]
        times = [show_time(self._times(), number) for number in points[:, 0].tolist()]
        return times, points[:, 1].astype(int).tolist(), points[:, 2].tolist()

    @property
    def waiting(self) -> int:
        """How many rows wait: for their outcome, or for one of a forecast made before them."""
        self._settle()
        return len(self._waiting)

    @property
    def oldest(self) -> Any:
        """The id of the first forecast that waits for its outcome; None if none does."""
        return next(iter(self._waiting.places), None)

    def __str__(self) -> str:
        return describe_watch(self)

    def __repr__(self) -> str:
        return f"<Watch of {self._seen:,} forecasts, {len(self.alarms())} alarms>"

    def _repr_html_(self) -> str:
        return render_watch(self)

    def to_html(
        self, path: str | Path, *, title: str = "watch on forecasts", pictures: Sequence[pages.Picture] = ()
    ) -> None:
        """Write the watch to an HTML file that needs no other file; `pictures` come after the alarms.

        Raises a ValueError if the path does not end in .html (or .htm) or its folder does not exist. An
        existing file is replaced.
        """
        pages.check_path(path)
        pages.write(path, pages.page(title, render_watch(self, pictures)))

    def settings(self) -> dict[str, Any]:
        """Return the arguments that the watch was made with."""
        return {
            "groups": list(self._groups.columns),
            "cluster": self.cluster,
            "confidence": self.confidence,
            "c": self.c,
            "bins": self._groups.bins,
            "graded": self.graded,
            "largest_cluster": self.largest_cluster,
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the alarms and all groups as plain data, for JSON; times are text, except numbers."""
        alarms = [alarm._asdict() | {"group": alarm.group._asdict()} for alarm in self.alarms()]
        for alarm in alarms:
            for name in ("since", "raised"):
                alarm[name] = alarm[name] if isinstance(alarm[name], (int, float)) else str(alarm[name])
        groups = [s._asdict() | {"group": s.group._asdict(), "gap": s.gap} for s in self.groups()]
        plain = {"confidence": self.confidence, "c": self.c, "cluster": self.cluster, "rows": self._seen}
        plain |= {"waiting": self.waiting, "missing": self.missing, "dropped": self.dropped}
        return plain | {"alarms": alarms, "groups": groups}

    # --- files --------------------------------------------------------------------------------------------

    def save(self, path: str | PathLike[str]) -> None:
        """Save the watch to a file of plain data; a crash leaves the old file or the new one.

        Raises a TypeError if an id that waits is neither text nor a number.
        """
        self._settle()
        saved.write(path, self.settings(), self._progress(), self._groups, self._memory, self._waiting)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Return a saved watch. Raises a ValueError if the file is damaged or of another version."""
        content = saved.read(path)
        watch = cls(**content["settings"])
        watch._restore(content)
        return watch

    def _progress(self) -> dict[str, Any]:
        unit = None if math.isinf(self._unit) else self._unit
        told = {"seen": self._seen, "missing": self.missing, "dropped": self.dropped, "kind": self._kind}
        return told | {"unit": unit, "in_unit": self._in_unit, "ended": self._ended}

    def _restore(self, content: Any) -> None:
        progress = content["progress"]
        saved.check_progress(progress)
        self._seen, self.missing, self.dropped = (progress[n] for n in ("seen", "missing", "dropped"))
        self._kind, self._in_unit, self._ended = (progress[n] for n in ("kind", "in_unit", "ended"))
        self._unit = -math.inf if progress["unit"] is None else progress["unit"]
        saved.restore_groups(content, self._groups)
        self._make_room()
        saved.restore_memory(content, self._memory, len(self._groups))
        saved.restore_waiting(content, self._waiting, len(self._groups))

    # --- inside -------------------------------------------------------------------------------------------

    def _check_new(self, name: Any) -> None:
        """Raise an error if an id cannot be new."""
        if not isinstance(name, (str, int)):
            raise TypeError(f"id must be text or a whole number; got {name!r}")
        if name in self._waiting.places:
            raise ValueError(f"id must be new; got {name!r}, which waits for its outcome")

    def _check_ids(self, ids: Sequence[Any]) -> None:
        known = set()
        for name in ids:
            if name is None:
                continue
            self._check_new(name)
            if name in known:
                raise ValueError(f"id must be different in every row that waits; got {name!r} twice")
            known.add(name)

    def _check_time(self, kind: Kind) -> None:
        check_kind(self.cluster, kind)
        if self._kind is not None and kind != self._kind:
            raise TypeError(f"at must be of one kind; got a {kind}, and before a {self._kind}")
        if self.cluster is not None and kind == "row":
            raise ValueError(f"at must be given where cluster={self.cluster!r}; got None")

    def _enter(self, kind: Kind, number: float) -> tuple[float, int]:
        """Return the unit that a time lies in, and its rows so far; raise an error if it is over."""
        if kind != self._kind or self.cluster is not None:
            self._check_time(kind)
        if self.cluster is None:
            return self._seen, 1
        unit = period_of(self.cluster, kind, number)
        if unit < self._unit or (self._ended and unit == self._unit):
            raise ValueError(self._over(show_time(kind, number)))
        rows = self._in_unit + 1 if unit == self._unit else 1
        self._check_size(rows)
        return unit, rows

    def _enter_many(self, kind: Kind, times: Floats, count: int) -> Any:
        """Return the units of many times in order; raise an error if the first is over."""
        self._check_time(kind)
        if self.cluster is None:
            return np.arange(self._seen, self._seen + count, dtype=np.float64)
        unit = periods_of(self.cluster, kind, times).astype(np.float64)
        if unit[0] < self._unit or (self._ended and unit[0] == self._unit):
            raise ValueError(self._over(show_time(kind, times[0])))
        sizes = np.unique(unit, return_counts=True)[1]
        sizes[0] += self._in_unit if unit[0] == self._unit else 0
        self._check_size(int(sizes.max()))
        return unit

    def _over(self, at: Any) -> str:
        period = "cluster" if self.cluster == "at" else str(self.cluster)
        return f"at must not lie in a {period} that is over; got {at} (see the rows in order of time)"

    def _check_size(self, rows: int) -> None:
        if self.largest_cluster is not None and rows > self.largest_cluster:
            raise ValueError(
                f"a cluster must have at most largest_cluster={self.largest_cluster} rows; got {rows} (make "
                "a watch with a size that no cluster can exceed)"
            )

    def _take_in(self, rows: WatchedRows, times: Floats, unit: Any, cells: Any, ids: Sequence[Any]) -> None:
        """Put checked rows into the queue, piece by piece."""
        for start in range(0, rows.rows, _PIECE):
            part = slice(start, start + _PIECE)
            before = len(self._waiting)
            self._waiting.extend(
                rows.mu[part].tolist(),
                rows.y[part].tolist(),
                times[part].tolist(),
                unit[part].tolist(),
                cells[part].ravel().tolist(),
            )
            for k, name in enumerate(ids[part]):
                if name is not None:
                    self._waiting.await_outcome(name, before + k)
            self._settle()
        same = unit == unit[-1]
        begun = self._in_unit if unit[0] == unit[-1] == self._unit and not self._ended else 0
        self._unit, self._in_unit = float(unit[-1]), int(same.sum()) + begun
        self._seen += rows.rows
        self._ended = False

    def _make_room(self) -> None:
        """Grow the memory for all groups, and set the money at which each is refuted."""
        count, memory = len(self._groups), self._memory
        if count > len(memory.enough):
            larger = make_memory(max(count, 2 * len(memory.enough)), len(self._prices))
            for old, new in zip(memory, larger, strict=True):
                new[: len(old)] = old
            self._memory = memory = larger
        risk = 1 - self.confidence
        for g in np.flatnonzero(np.isinf(memory.enough[:count])).tolist():
            # The two sides share the group's risk, and the shares its money.
            memory.enough[g] = 2 * len(BETTING_SHARES) / (risk * risk_share(g))

    def _terms(self) -> tuple[Any, ...]:
        largest = float(self.largest_cluster or 0)
        return self._prices, self._watched, self.cluster is None, largest

    def _settle(self) -> None:
        """Bet on all rows that are ready."""
        if not self._waiting.ready:
            return
        self._make_room()
        ready = self._waiting.take()
        call(compiled_rows(), self._memory, *ready, *self._terms())

    def _times(self) -> Kind:
        return self._kind or "row"

    def _state(self, g: int) -> GroupState:
        memory: Memory = self._memory
        if g >= len(memory.enough):  # its first forecast waits for an outcome
            return GroupState(self._groups.all[g], 0, 0.0, 0.0, False, 0.0, 0, 0, self.confidence)
        sums, rows = memory.sums[g], max(1.0, memory.sums[g, ALL_ROWS])
        level = int(memory.level[g].max())
        return GroupState(
            group=self._groups.all[g],
            rows=int(sums[ALL_ROWS]),
            mu=float(sums[ALL_MU] / rows),
            outcome=float(sums[ALL_Y] / rows),
            refuted=level > 0,
            smallest_c=float(self._prices[level - 1]) if level else 0.0,
            clusters=int(sums[UNITS]),
            unbet=int(sums[UNBET]),
            confidence=self.confidence,
        )
