"""A backtest while it runs: the corrections in the compiled loop, and the sums that the result is made of."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from makewhole.arguments import Floats
from makewhole.backtesting.log import CHUNK, Chunk, Log
from makewhole.backtesting.path import Path, PathPoint
from makewhole.backtesting.player import GroupPlayer, Player
from makewhole.backtesting.result import BacktestResult, Curve, GroupResult
from makewhole.corrections import BookCorrection, Certificate
from makewhole.insured.records import Scope
from makewhole.rules import Publishing, payment


class Out(NamedTuple):
    """What the loop writes for every forecast; the last two are empty if not asked for."""

    c: Floats
    lam: Floats
    total: Floats
    mu: Floats
    loss: Floats


class Sums:
    """What every way to run a backtest adds up: counts, money, groups, the path and the trace."""

    def __init__(self, log: Any, names: tuple[str, ...] = ()) -> None:
        self.log = log
        self.rounds, self.turnover = 0, 0.0
        self.by_group = np.zeros((4, len(log.group_names)))  # rounds, turnover, loss, c
        self.path = Path(log.rounds)
        self.trace = {name: np.full(log.rows, np.nan) for name in names} if names else None

    def result(self, **found: Any) -> BacktestResult:
        """Return the result; `found` are its further fields."""
        log, path = self.log, self.path
        settled, total, lam = path.curve()
        return BacktestResult(
            rows=log.rows,
            missing=log.missing,
            rounds=self.rounds,
            turnover=self.turnover,
            curve=Curve(settled, total, total / np.maximum(settled, 1), lam),
            trace=self.trace,
            groups={
                name: GroupResult(int(n), float(turned), float(lost), float(c / n) if n else 0.0)
                for name, n, turned, lost, c in zip(log.group_names, *self.by_group, strict=True)
            },
            peak_loss=path.peak.total,
            peak_at=path.peak.settled,
            peak_time=self._time(path.peak),
            drawdown=path.drawdown,
            drawdown_from=path.trough.settled,
            drawdown_to=path.crest.settled,
            drawdown_times=(self._time(path.trough), self._time(path.crest)) if log.clock else None,
            **found,
        )

    def _time(self, point: PathPoint) -> Any:
        """The time of a point: when the last outcome was known, or its forecast was made."""
        if self.log.clock is None or point.row is None:
            return None
        value = self.log.frame["time" if self.log.clock.known is None else "known"][point.row]
        return value.item() if isinstance(value, np.generic) else value


class Run:
    """A backtest in which each outcome is known before the next forecast."""

    def __init__(
        self, correction: BookCorrection, cap: float, how: Publishing, log: Log, *, trace: bool
    ) -> None:
        self.correction, self.cap, self.how, self.log = correction, cap, how, log
        names = tuple(log.group_names)
        self.overlapping = bool(names) and not correction.apart
        self.places = correction.begin(names)
        corrections = correction.split(names)
        self.apart = correction.apart and bool(corrections)  # if every row lacks its group, none has begun
        self.players: list[Any] = [GroupPlayer(corrections)] if self.apart else list(map(Player, corrections))
        # The loss, what rounding cut off from it, the sum of c, how many c < 0, the loss at the model's odds.
        self.totals = np.zeros(5)
        self.below, self.negative = 0.0, 0.0  # the sum of −c where c < 0, and in how many forecasts so far
        self.traced = trace or bool(names)
        self.out = Out(*(np.empty(CHUNK) for _ in Out._fields))
        self.sums = Sums(log, ("mu", "c", "lam", "payment") if trace else ())

    def step(self, chunk: Chunk) -> None:
        """Replay a chunk."""
        size = len(chunk.columns.mu_hat)
        if size > len(self.out.c):
            self.out = Out(*(np.empty(size) for _ in Out._fields))
        out = Out(*(column[: size if k < 3 or self.traced else 0] for k, column in enumerate(self.out)))
        self.play(chunk, out)
        if size:
            self.sums.path.extend(out.total, out.lam, chunk.first_row)
            self.add_up(chunk, chunk.columns.gross, out)

    def play(self, chunk: Chunk, out: Out) -> None:
        """Run the loop over a chunk."""
        if self.apart:
            codes = np.ascontiguousarray(chunk.groups[:, 0])
            settings = (self.how, self.cap, self.totals, out)
            self.sums.by_group += self.players[0].replay(codes, chunk.columns, *settings)[:, :4].T
        elif self.players:
            if self.overlapping:
                self._turn_to_members(chunk.groups)
            self.players[0].replay(chunk.columns, self.how, self.cap, self.totals, out)

    def add_up(self, chunk: Chunk, gross: Floats, out: Any) -> None:
        """Add a chunk to the sums, and keep its trace."""
        sums = self.sums
        sums.rounds += len(gross)
        if self.totals[3] > self.negative:  # most chunks of most logs have none
            self.below -= float(np.minimum(out.c, 0.0).sum())
            self.negative = float(self.totals[3])
        sums.turnover += float(gross.sum())
        for codes in [] if chunk.groups is None or self.apart else chunk.groups.T:
            for row, what in enumerate((np.ones(len(gross)), gross, out.loss, out.c)):
                sums.by_group[row] += np.bincount(codes, what, minlength=sums.by_group.shape[1])
        if sums.trace is not None:
            self._keep(sums.trace, chunk, out)

    def _turn_to_members(self, groups: Any) -> None:
        """Set the weights that the next forecasts add up: the one for all, and those of their groups."""
        rows, columns = groups.shape
        members = np.concatenate([np.ones((rows, 1), np.int64), self.places[groups]], axis=1)
        marks = np.concatenate([[2, columns + 1], members.ravel()])
        self.players[0].memory = (self.players[0].memory[0], marks, *self.players[0].memory[2:])

    def _keep(self, trace: dict[str, Floats], chunk: Chunk, out: Any) -> None:
        which = slice(None) if chunk.forecast is None else chunk.forecast
        mu, c = out.mu[which], out.c[which]
        trace["mu"][chunk.rows], trace["c"][chunk.rows] = mu, c
        trace["lam"][chunk.rows] = out.lam[which]
        if chunk.forecast is None:
            trace["payment"][chunk.rows] = out.loss
        else:
            b, y = chunk.stake, chunk.columns.outcome[which]
            trace["payment"][chunk.rows] = payment(b, y, mu, c)

    @property
    def exposure(self) -> Scope:
        """What was open at the same time: never more than one forecast."""
        return Scope(1)

    @property
    def wanted_stake(self) -> float | None:
        """What customers would have staked at c = 0; None without customers."""
        return None

    def finish(self) -> None:
        """Store what the loop has learned in the corrections."""
        for player in self.players:
            player.finish()

    def result(self, certificate: Certificate, backend: str | None) -> BacktestResult:
        """Return the result."""
        learned = self.correction.rebuilt(self.correction.memories(), {})
        rounds = self.sums.rounds
        return self.sums.result(
            correction=learned,
            corrections=(learned,),
            max_stake=self.cap,
            total_loss=float(self.totals[0] + self.totals[1]),
            premiums=float(self.totals[4] - self.totals[0]),
            negative_c=int(self.totals[3]),
            mean_c=float(self.totals[2]) / rounds if rounds else 0.0,
            mean_size_of_c=(float(self.totals[2]) + 2 * self.below) / rounds if rounds else 0.0,
            certificate=certificate,
            wanted_stake=self.wanted_stake,
            backend=backend,
        )
