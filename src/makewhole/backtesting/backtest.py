"""Backtest: replay a log of forecasts, stakes and outcomes, to see what the bets would have cost."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from makewhole import frames, pages
from makewhole.arguments import Floats
from makewhole.backtesting.log import CHUNK, Chunk, Columns, Log
from makewhole.backtesting.player import Player
from makewhole.corrections import (
    BookCorrection,
    Certificate,
    Correction,
    DeterministicSwap,
    Grouped,
    Terms,
    for_book,
)
from makewhole.corrections._kernels import Rules, add_exactly
from makewhole.corrections.certificate import read_terms
from makewhole.corrections.names import Name
from makewhole.insured.book import no_exposure
from makewhole.insured.certificates import GroupBounds, base_bound, certify, certify_groups

CURVE_POINTS = 2000
_GROUPS_SHOWN = 20


class Curve(NamedTuple):
    """A run at up to 2000 points: after `round` forecasts, the total loss, the mean loss, and λ."""

    round: Floats
    total_loss: Floats
    mean_loss: Floats
    lam: Floats


class GroupResult(NamedTuple):
    """The number of forecasts, turnover, total loss and mean c of one group."""

    rounds: int
    turnover: float
    total_loss: float
    mean_c: float


@dataclass(frozen=True)
class BacktestResult:
    """The result of a backtest: what accepting the bets would have cost. Print it for a table.

    `total_loss` is what the forecaster would have lost and `turnover` the sum of all |stake|, both in the
    unit of the stakes; `mean_loss` is the loss per forecast. `rows` is the length of the log and `rounds` the
    number of forecasts; `missing` rows lacked a number and were left out. `mean_c` is the mean published c,
    and `negative_c` the number of forecasts with c < 0. `correction` has learned from the whole log.
    `curve` shows the run at up to 2000 points. `trace`, if asked for, has a column each for the published
    `mu` and `c`, for `lam` and for the `payment` of every row (NaN in rows left out). `groups`, if asked for,
    has a `GroupResult` for each group. `certificate` is the bound on the total loss, whoever had bet.
    """

    correction: Correction
    max_stake: float
    rows: int
    missing: int
    rounds: int
    turnover: float
    total_loss: float
    negative_c: int
    mean_c: float
    curve: Curve = field(repr=False)
    trace: dict[str, Floats] | None = field(repr=False, default=None)
    groups: dict[Name, GroupResult] = field(repr=False, default_factory=dict)
    certificate: Certificate | None = None
    backend: str | None = field(repr=False, default=None)

    @property
    def mean_loss(self) -> float:
        """Loss per forecast."""
        return self.total_loss / self.rounds if self.rounds else 0.0

    def to_frame(self, backend: str | None = None) -> Any:
        """Return the trace, if there is one, else the curve, as a dataframe.

        `backend` is "polars", "pandas" or "pyarrow"; by default that of the log.
        """
        columns = self.curve._asdict() if self.trace is None else self.trace
        return frames.make_frame(columns, backend or self.backend)

    def _rows(self) -> list[tuple[str, str]]:
        """What it says, as pairs (label, value)."""
        rows = [
            ("correction", repr(self.correction)),
            ("rows", f"{self.rows:,} ({self.missing:,} left out for missing numbers)"),
            ("forecasts", f"{self.rounds:,}"),
            ("cap per forecast", f"{self.max_stake:,.6g}"),
            ("turnover", f"{self.turnover:,.6g}"),
            ("total loss", f"{self.total_loss:,.6g}"),
            ("bound on the loss", str(self.certificate)),
            ("mean loss", f"{self.mean_loss:,.6g}"),
            ("mean c", f"{self.mean_c:,.6g} ({self.negative_c:,} below 0)"),
        ]
        if self.groups:
            name, worst = max(self.groups.items(), key=lambda item: item[1].total_loss)
            rows.append(
                ("groups", f"{len(self.groups):,}; the largest loss is {name}'s: {worst.total_loss:,.6g}")
            )
        return rows

    def __str__(self) -> str:
        return "\n".join(pages.shown(f"{label:<20}{value}") for label, value in self._rows())

    def _repr_html_(self) -> str:
        worst = sorted(self.groups.items(), key=lambda item: -item[1].total_loss)[:_GROUPS_SHOWN]
        rows = [
            (str(name), f"{g.rounds:,}", f"{g.turnover:,.6g}", f"{g.total_loss:,.6g}") for name, g in worst
        ]
        head = ("group", "forecasts", "turnover", "total loss")
        tables = [pages.Table("by group, those that lost most first", head, rows)] if rows else []
        return pages.fragment("What standing behind these forecasts cost", self._rows(), (), tables)

    def to_html(self, path: str | Path, *, title: str = "backtest") -> None:
        """Write the result to an HTML file that needs no other file.

        Raises a ValueError if the path does not end in .html (or .htm) or its folder does not exist. A file
        that is there already is replaced.
        """
        pages.check_path(path)
        pages.write(path, pages.page(title, self._repr_html_()))


def backtest(
    frame: Any,
    mu: str = "mu",
    outcome: str = "y",
    stake: str = "stake",
    *,
    c_hat: str | None = None,
    event: str | None = None,
    group: str | Sequence[str] | None = None,
    correction: Correction | None = None,
    mode: Literal["exact", "sound"] = "exact",
    max_stake: float | None = None,
    one_sided: bool = False,
    trace: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> BacktestResult:
    """Replay a log of forecasts, stakes and outcomes through a correction, in the order of its rows.

    The numbers are those of an `InsuredForecaster` that learns every outcome before the next forecast.
    makewhole's corrections run compiled; a correction of your own runs in a plain Python loop.

    Parameters
    ----------
    frame
        A dataframe: pandas, polars, pyarrow, DuckDB, … A lazy one is collected.
    mu, outcome, stake
        The names of the columns: the forecast probability; the outcome, 0 or 1; and what was staked. Rows in
        which one of them is missing are left out and counted.
    c_hat
        The column of ĉ, the model's own half-width; by default ĉ is 0.
    event
        The column that names the forecast. Rows with the same name are stakes on one forecast, which is made
        at the first of them. By default every row is a forecast.
    group
        The column of groups. Each group has its own copy of the correction, as in `Grouped`. With an
        `OverlappingReserve` it may be a list of columns, and a row belongs to one group of each. Rows
        without a group are left out and counted.
    correction
        It is copied. By default a `DeterministicSwap` with the number of cells for the length of the log.
    mode
        "exact": c is whatever balances the bets, and may be negative. "sound": c lies in [0, ½] and
        [μ − c, μ + c] inside [0, 1].
    max_stake
        The cap M: the largest gross stake, the sum of |stake|, on one forecast. By default the largest in the
        log, which one would not have known before.
    one_sided
        The correction moves μ, and c is 0; stakes must not be negative.
    trace
        Whether to keep a trace: what was published and paid, for every row.
    progress
        A function that is called now and then with (rows done, rows in all).

    Returns
    -------
    BacktestResult
        `total_loss`, `mean_loss`, `turnover`, `curve`, and more.

    Raises
    ------
    ValueError, TypeError
        If a column does not exist or holds values that do not fit; the message names the column and the row.

    Examples
    --------
    >>> import makewhole as mw
    >>> import pandas as pd
    >>> log = pd.DataFrame({"mu": [0.5] * 1000, "y": [1] * 1000, "stake": [10.0] * 1000})
    >>> result = mw.backtest(log, correction=mw.DeterministicSwap(cells=100))
    >>> result.total_loss  # it loses 5 on the first forecast, and then adapts c
    4.9
    >>> mw.backtest(log, correction=mw.NoCorrection()).total_loss
    5000.0
    """
    if mode not in ("exact", "sound"):
        raise ValueError(f"mode must be 'exact' or 'sound'; got {mode!r}")
    names = {"mu": mu, "outcome": outcome, "stake": stake, "c_hat": c_hat, "event": event}
    groups = _group_columns(group)
    names |= groups
    columns = frames.read_columns(frame, {k: v for k, v in names.items() if v is not None})
    log = Log(columns, names, one_sided, list(groups))
    given = log.largest() if max_stake is None else max_stake
    terms = read_terms(given, log.c_range(), sound=mode == "sound", one_sided=one_sided)
    cap, c_range = terms.max_stake, terms.c_range
    if correction is None:
        rounds = max(1, log.rounds // max(1, len(log.group_names)))
        correction = DeterministicSwap.for_horizon(rounds, c_range=c_range)
    rule = for_book(copy.deepcopy(correction))
    if groups and not rule.grouped:
        rule = Grouped(correction)  # type: ignore[arg-type]  # it says if it is not one of ours
    _check_groups(rule, list(groups.values()))
    rule = copy.deepcopy(rule.in_mode(terms).begun())
    if rule.over is not None and all(one.kernels is None for one in rule.split(tuple(log.group_names))):
        raise TypeError(
            f"a Reserve with over=... must not override propose or observe in a backtest; got {rule!r}"
        )
    run = _Run(rule, cap, Rules(one_sided, terms.sound, rule.integrates), log, trace=trace)
    for chunk in log.chunks(cap):
        run.step(chunk)
        if progress is not None:
            progress(min(chunk.stop, log.rows), log.rows)
    played = [name for name, rounds in zip(log.group_names, run.by_group[0], strict=True) if rounds]
    return run.result(log, _certificate(rule, played, terms), frames.backend_of(columns))


def _certificate(rule: BookCorrection, groups: list[Name], terms: Terms) -> Certificate:
    """Return the bound on what a forecaster with this correction could have lost on such a log.

    `groups` are those that forecasts were made for: rows that were left out make none.
    """
    if not rule.apart:
        return certify([rule], terms, no_exposure(1))
    bounds = GroupBounds()
    for name in groups if rule.all_groups is None else rule.all_groups:
        bounds = bounds.begun(base_bound([rule.of_group(name)], terms))
    return certify_groups(rule, terms, bounds, 1)


def _group_columns(group: str | Sequence[str] | None) -> dict[str, str]:
    """Return the columns of groups by argument: "group", or for several "group[0]", "group[1]", and so on."""
    if group is None or isinstance(group, str):
        return {} if group is None else {"group": group}
    columns = list(group) if isinstance(group, Sequence) else [group]
    if not all(isinstance(column, str) for column in columns) or len(set(columns)) < len(columns):
        raise TypeError(f"group must be the name of a column, or a list of different names; got {group!r}")
    return {f"group[{k}]": column for k, column in enumerate(columns)}


def _check_groups(correction: BookCorrection, columns: list[str]) -> None:
    if correction.grouped and not columns:
        raise ValueError(f"group must name a column, because {correction!r} is for groups; got None")
    if correction.apart and len(columns) > 1:
        raise ValueError(
            f"group must be one column, or the correction an OverlappingReserve(...); got {columns!r}"
        )


class _Out(NamedTuple):
    """What the loop writes for every forecast; the last two are empty if not asked for."""

    c: Floats
    lam: Floats
    total: Floats
    mu: Floats
    loss: Floats


class _Run:
    """A backtest while it runs: the corrections, the totals so far, and the points of the curve."""

    def __init__(
        self, correction: BookCorrection, cap: float, rules: Rules, log: Log, *, trace: bool
    ) -> None:
        self.correction, self.cap, self.rules = correction, cap, rules
        names = tuple(log.group_names)
        self.apart, self.overlapping = correction.apart, bool(names) and not correction.apart
        self.places = correction.begin(names)
        self.players = [Player(one) for one in correction.split(names)]
        self.by_group = np.zeros((4, len(names)))  # rounds, turnover, loss, c
        self.totals = np.zeros(4)  # the loss, what rounding cut off from it, the sum of c, how many c < 0
        self.turnover = 0.0
        self.rounds = 0
        self.traced = trace or bool(names)
        self.out = _Out(*(np.empty(CHUNK) for _ in _Out._fields))
        moments = np.arange(1, CURVE_POINTS) * (log.rounds / (CURVE_POINTS - 1))
        self.moments = np.unique(np.ceil(moments).astype(np.int64))
        self.points: list[tuple[Any, Any, Any]] = [(np.zeros(0, np.int64), np.zeros(0), np.zeros(0))]
        columns = ("mu", "c", "lam", "payment")
        self.trace = {k: np.full(log.rows, np.nan) for k in columns} if trace else None

    def step(self, chunk: Chunk) -> None:
        size = len(chunk.columns.mu_hat)
        if size > len(self.out.c):
            self.out = _Out(*(np.empty(size) for _ in _Out._fields))
        out = _Out(*(column[: size if k < 3 or self.traced else 0] for k, column in enumerate(self.out)))
        if self.apart:
            self._step_apart(chunk, out)
        else:
            if self.overlapping:
                self._turn_to_members(chunk.groups)
            self.players[0].replay(chunk.columns, self.rules, self.cap, self.totals, out)
        if not size:
            return
        c, lam, total, mu, loss = out
        gross = chunk.columns.gross
        self.turnover += float(gross.sum())
        for codes in [] if chunk.groups is None else chunk.groups.T:
            for row, what in enumerate((np.ones(size), gross, loss, c)):
                self.by_group[row] += np.bincount(codes, what, minlength=self.by_group.shape[1])
        low, high = np.searchsorted(self.moments, [self.rounds, self.rounds + size], side="right")
        at = self.moments[low:high] - self.rounds - 1
        self.points.append((self.moments[low:high], total[at], lam[at]))
        self.rounds += size
        self.last = (np.array([self.rounds]), total[-1:].copy(), lam[-1:].copy())
        if self.trace is not None:
            self._keep(self.trace, chunk, mu, c, lam, loss)

    def _step_apart(self, chunk: Chunk, out: _Out) -> None:
        """Replay each group's forecasts through its own correction, then restore the order."""
        codes = chunk.groups[:, 0]
        order = np.argsort(codes, kind="stable")
        columns = Columns(*(column[order] for column in chunk.columns))
        done = _Out(*(np.empty(len(order)) for _ in out))
        before = self.totals[:1].copy()
        ends = np.flatnonzero(np.diff(codes[order], append=-1)) + 1
        for start, stop in zip([0, *ends], ends, strict=False):
            player, part = self.players[codes[order[start]]], slice(start, stop)
            there = _Out(*(column[part] for column in done))
            own = np.zeros(4)
            player.replay(Columns(*(c[part] for c in columns)), self.rules, self.cap, own, there)
            self.totals[2:] += own[2:]
            for loss in own[:2].tolist():
                self.totals[:2] = add_exactly(float(self.totals[0]), float(self.totals[1]), loss)
        for column, sorted_ in zip(out, done, strict=True):
            column[order] = sorted_
        out.total[:] = np.cumsum(np.concatenate([before, out.loss]))[1:]

    def _turn_to_members(self, groups: Any) -> None:
        """Set the weights that the next forecasts add up: the one for all, and those of their groups."""
        rows, columns = groups.shape
        members = np.concatenate([np.ones((rows, 1), np.int64), self.places[groups]], axis=1)
        marks = np.concatenate([[2, columns + 1], members.ravel()])
        self.players[0].memory = (self.players[0].memory[0], marks, *self.players[0].memory[2:])

    def _keep(
        self, trace: dict[str, Floats], chunk: Chunk, mu: Floats, c: Floats, lam: Floats, loss: Floats
    ) -> None:
        which = slice(None) if chunk.forecast is None else chunk.forecast
        trace["mu"][chunk.rows], trace["c"][chunk.rows] = mu[which], c[which]
        trace["lam"][chunk.rows] = lam[which]
        if chunk.forecast is None:
            trace["payment"][chunk.rows] = loss
        else:
            b, y = chunk.stake, chunk.columns.outcome[which]
            trace["payment"][chunk.rows] = b * (y - mu[which]) - np.abs(b) * c[which]

    def result(self, log: Log, certificate: Certificate, backend: str | None) -> BacktestResult:
        for player in self.players:
            player.finish()
        if self.rounds and not np.isin(self.rounds, self.moments):  # rows were left out
            self.points.append(self.last)
        round_, total, lam = (np.concatenate(part) for part in zip(*self.points, strict=True))
        curve = Curve(round_, total, total / np.maximum(round_, 1), lam)
        return BacktestResult(
            correction=self.correction.rebuilt(self.correction.memories(), {}),
            max_stake=self.cap,
            rows=log.rows,
            missing=log.missing,
            rounds=self.rounds,
            turnover=self.turnover,
            total_loss=float(self.totals[0] + self.totals[1]),
            negative_c=int(self.totals[3]),
            mean_c=float(self.totals[2]) / self.rounds if self.rounds else 0.0,
            curve=curve,
            trace=self.trace,
            certificate=certificate,
            backend=backend,
            groups={
                name: GroupResult(int(n), float(turned), float(lost), float(c / n) if n else 0.0)
                for name, n, turned, lost, c in zip(log.group_names, *self.by_group, strict=True)
            },
        )
