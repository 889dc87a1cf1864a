"""What would it have cost to stand behind these forecasts? Replay a log through a correction."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np

from makewhole import arguments, frames
from makewhole.arguments import Floats
from makewhole.corrections import Correction, DeterministicSwap, Reserve
from makewhole.corrections._kernels import compiled_composed_replay, compiled_replay, make_replay
from makewhole.corrections.base import Stepped
from makewhole.jit import call
from makewhole.logs import CHUNK, Chunk, Log

CURVE_POINTS = 2000


class Curve(NamedTuple):
    """A run at up to 2000 moments: after `round` forecasts, the loss so far, its mean, and λ then."""

    round: Floats
    total_loss: Floats
    mean_loss: Floats
    lam: Floats


@dataclass(frozen=True)
class BacktestResult:
    """What a replay cost. `str()` of it is a table.

    `total_loss` and `turnover` are in the stakes' unit; `mean_loss` is per forecast. `missing` rows lacked
    a number and were left out. `correction` has learned from the whole log: go on with it. `trace`, where
    asked for, holds per-row columns: the forecast's `mu` and `c` as published, `lam`, and the row's
    `payment` (NaN in rows left out).
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

    @property
    def mean_loss(self) -> float:
        """Loss per forecast."""
        return self.total_loss / self.rounds if self.rounds else 0.0

    def to_frame(self, backend: str | None = None) -> Any:
        """The trace, if there is one, else the curve, as a frame."""
        columns = self.curve._asdict() if self.trace is None else self.trace
        return frames.make_frame(columns, backend)

    def __str__(self) -> str:
        rows = [
            ("correction", repr(self.correction)),
            ("rows", f"{self.rows:,} ({self.missing:,} left out for missing numbers)"),
            ("forecasts", f"{self.rounds:,}"),
            ("cap per forecast", f"{self.max_stake:,.6g}"),
            ("turnover", f"{self.turnover:,.6g}"),
            ("total loss", f"{self.total_loss:,.6g}"),
            ("mean loss", f"{self.mean_loss:,.6g}"),
            ("mean c", f"{self.mean_c:,.6g} ({self.negative_c:,} below 0)"),
        ]
        return "\n".join(f"{name:<20}{value}" for name, value in rows)


def backtest(
    frame: Any,
    mu: str = "mu",
    outcome: str = "y",
    stake: str = "stake",
    *,
    c_hat: str | None = None,
    event: str | None = None,
    correction: Correction | None = None,
    mode: Literal["exact", "sound"] = "exact",
    max_stake: float | None = None,
    one_sided: bool = False,
    trace: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> BacktestResult:
    """Replay a log, row by row in the order given, through a correction.

    Exactly what an `InsuredForecaster` would have done, were each outcome known before the next forecast:
    our own corrections run compiled, anybody else's in a plain loop, with the same numbers.

    Parameters
    ----------
    frame
        Any dataframe narwhals knows: pandas, polars, pyarrow, DuckDB, … A lazy one is collected.
    mu, outcome, stake
        Names of the columns: a probability, 0 or 1, and what was staked. Rows where one is missing are
        left out and counted.
    c_hat
        Column of ĉ; 0 if not given.
    event
        Column that tells forecasts apart: its rows are stakes on one forecast, made where it first
        appears. If not given, every row is a forecast of its own.
    correction
        Copied, not changed; by default `DeterministicSwap.for_horizon` for the log.
    mode
        "exact": c is whatever balances the books. "sound": c in [0, ½] and [μ − c, μ + c] inside [0, 1].
    max_stake
        The cap M on the gross stake of one forecast; if not given, the largest in the log (known only in
        hindsight).
    one_sided
        Put everything into μ, with c = 0; stakes must not be negative.
    trace
        Keep per-row columns.
    progress
        Called with (rows done, rows in all) now and then.

    Examples
    --------
    >>> import makewhole as mw
    >>> import pandas as pd
    >>> log = pd.DataFrame({"mu": [0.5] * 1000, "y": [1] * 1000, "stake": [10.0] * 1000})
    >>> result = mw.backtest(log, correction=mw.DeterministicSwap(cells=100))
    >>> result.total_loss  # it lost once, and learned
    4.9
    >>> mw.backtest(log, correction=mw.NoCorrection()).total_loss
    5000.0
    """
    if mode not in ("exact", "sound"):
        raise ValueError(f"mode must be 'exact' or 'sound'; got {mode!r}")
    if correction is not None and not isinstance(correction, Correction):
        raise TypeError(f"correction must have propose, observe, state and from_state; got {correction!r}")
    names = {"mu": mu, "outcome": outcome, "stake": stake, "c_hat": c_hat, "event": event}
    log = Log(frames.read_columns(frame, {k: v for k, v in names.items() if v is not None}), names, one_sided)
    cap = log.largest() if max_stake is None else arguments.positive("max_stake", max_stake)
    if correction is None:
        correction = DeterministicSwap.for_horizon(max(1, log.rounds), c_range=log.c_range())
    correction = copy.deepcopy(correction)
    if isinstance(correction, Reserve):
        correction = correction.in_mode(mode, one_sided, log.c_range())
        if correction.over is not None and _compilable(correction) is None:
            raise TypeError(
                f"a reserve with its own ways cannot be replayed over another; got {correction!r}"
            )
    rules = (one_sided, mode == "sound", getattr(correction, "integrates", False))
    run = _Run(correction, cap, rules, log.rounds, trace=log.rows if trace else 0)
    for chunk in log.chunks(cap):
        run.step(chunk)
        if progress is not None:
            progress(min(chunk.stop, log.rows), log.rows)
    return run.result(log)


class _Run:
    """The loop's memory and what comes out of it."""

    def __init__(
        self, correction: Correction, cap: float, rules: tuple[bool, bool, bool], rounds: int, trace: int
    ) -> None:
        self.correction, self.cap, self.rules = correction, cap, rules
        self.stepped = _compilable(correction)
        self.over: Stepped | None = getattr(self.stepped, "over", None)
        self.memory: Any = self.stepped.arrays() if self.stepped else (None, None)
        if self.over is not None:
            self.memory += self.over.arrays()
        self.replay = self._loop()
        self.total, self.turnover, self.c_sum = np.zeros(1), 0.0, 0.0
        self.rounds = self.negative = 0
        self.traced = trace > 0
        self.out = tuple(np.empty(CHUNK) for _ in range(5))
        moments = np.arange(1, CURVE_POINTS) * (rounds / (CURVE_POINTS - 1))
        self.moments = np.unique(np.ceil(moments).astype(np.int64))
        self.points: list[tuple[Any, Any, Any]] = [(np.zeros(0, np.int64), np.zeros(0), np.zeros(0))]
        self.trace = {k: np.full(trace, np.nan) for k in ("mu", "c", "lam", "payment")} if trace else None

    def _loop(self) -> Callable[..., None]:
        if self.stepped is not None:
            kind = type(self.over or self.stepped)
            compiled = compiled_replay if self.over is None else compiled_composed_replay
            return functools.partial(call, compiled(kind._propose, kind._observe))
        correction = self.correction

        def propose(*_: Any) -> tuple[float, Any]:
            proposal = correction.propose()
            return proposal.lam, proposal

        def observe(_: Any, __: Any, proposal: tuple[float, Any], target: float, weight: float) -> None:
            correction.observe(proposal[1], target, weight)

        return make_replay(propose, observe)

    def step(self, chunk: Chunk) -> None:
        size = len(chunk.columns[0])
        if size > len(self.out[0]):
            self.out = tuple(np.empty(size) for _ in range(5))
        out = tuple(column[: size if k < 3 or self.traced else 0] for k, column in enumerate(self.out))
        columns = chunk.columns if self.stepped else tuple(column.tolist() for column in chunk.columns)
        self.replay(self.memory, columns, self.rules, self.cap, self.total, out)
        if not size:
            return
        c, lam, total, mu, loss = out
        self.turnover += float(chunk.columns[4].sum())
        self.c_sum += float(c.sum())
        self.negative += int(np.count_nonzero(c < 0))
        low, high = np.searchsorted(self.moments, [self.rounds, self.rounds + size], side="right")
        at = self.moments[low:high] - self.rounds - 1
        self.points.append((self.moments[low:high], total[at], lam[at]))
        self.rounds += size
        self.last = (np.array([self.rounds]), total[-1:].copy(), lam[-1:].copy())
        if self.trace is not None:
            self._keep(self.trace, chunk, mu, c, lam, loss)

    def _keep(
        self, trace: dict[str, Floats], chunk: Chunk, mu: Floats, c: Floats, lam: Floats, loss: Floats
    ) -> None:
        which = slice(None) if chunk.forecast is None else chunk.forecast
        trace["mu"][chunk.rows], trace["c"][chunk.rows] = mu[which], c[which]
        trace["lam"][chunk.rows] = lam[which]
        if chunk.forecast is None:
            trace["payment"][chunk.rows] = loss
        else:
            b, y = chunk.stake, chunk.columns[2][which]
            trace["payment"][chunk.rows] = b * (y - mu[which]) - np.abs(b) * c[which]

    def result(self, log: Log) -> BacktestResult:
        if self.stepped is not None:
            self.stepped.adopt(self.memory[:2])
        if self.over is not None:
            self.over.adopt(self.memory[2:])
        if self.rounds and not np.isin(self.rounds, self.moments):  # rows were left out: the end is elsewhere
            self.points.append(self.last)
        round_, total, lam = (np.concatenate(part) for part in zip(*self.points, strict=True))
        curve = Curve(round_, total, total / np.maximum(round_, 1), lam)
        return BacktestResult(
            correction=self.correction,
            max_stake=self.cap,
            rows=log.rows,
            missing=log.missing,
            rounds=self.rounds,
            turnover=self.turnover,
            total_loss=float(self.total[0]),
            negative_c=self.negative,
            mean_c=self.c_sum / self.rounds if self.rounds else 0.0,
            curve=curve,
            trace=self.trace,
        )


def _compilable(correction: Correction) -> Stepped | None:
    """One of ours, unless a subclass has its own way of proposing or observing."""
    if not isinstance(correction, Stepped):
        return None
    kind: Any = type(correction)
    own = kind.propose is not Stepped.propose or kind.observe is not Stepped.observe
    return None if own else correction
