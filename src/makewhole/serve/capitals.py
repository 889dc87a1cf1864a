"""What another capital would have meant for a book: its own settled stakes, replayed with a dozen of them.

A replay of twenty thousand stakes takes a second for each capital. It runs in a process of its own, which
yields to everything else, so that neither requests nor the ledger's thread wait for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import os
import sys
import time
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from makewhole.backtesting.backtest import backtest
from makewhole.backtesting.capital import carried
from makewhole.backtesting.result import BacktestResult
from makewhole.frames import make_frame
from makewhole.insured.forecaster import InsuredForecaster
from makewhole.serve.history import History, SettledRow

# The capitals that are tried, in capitals of the book.
TIMES = (1 / 64, 1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
# After a replay that took a second nobody starts another for so many: it uses a tenth of a processor at most.
_REST = 10.0
_LONGEST = 600.0
# Whoever would have paid more than this above the model's odds, per unit staked, counts as not served.
BEARABLE = 0.05


class Point(msgspec.Struct):
    """What a capital would have meant.

    `premium` is what was paid above the model's odds per unit staked. Of the money staked, `taken` is the
    share that would not have been refused, and `served` the share that would have been taken for a premium of
    at most `BEARABLE`: a bet that costs half of what it can win is no service. `worst` is the largest total
    loss, `certified` the most that could have been lost. `carries` is how many forecasts can be open at once,
    each staked in full: the guard counts open bets as if all were lost.
    """

    capital: float
    premium: float
    taken: float
    served: float
    worst: float
    certified: float | None
    carries: int


class Trial(msgspec.Struct):
    """The points of a book at the event `seq`, from its latest `stakes`; or why there are none."""

    seq: int
    capital: int
    stakes: int
    points: list[Point] = []
    problem: str = ""


class Job(msgspec.Struct):
    """What a replay needs: the settled stakes, and the forecaster of the book as it began."""

    rows: list[SettledRow]
    forecaster: dict[str, Any]
    capitals: list[float]


# --- the replay, in a process of its own ------------------------------------------------------------------


def try_capitals(job: Job) -> list[Point]:
    """Replay the rows with each capital, in the order in which the book met them.

    Lines, a thaw's budget and the capital of a `Barrier` grow with the capital; all else stays as it is, but
    that a thaw has no limit by the day.
    """
    columns, names = _columns(job.rows, job.forecaster["settings"]["c_range"])
    return [_try(columns, names, _scaled(job.forecaster, capital)) for capital in job.capitals]


def _try(columns: dict[str, list[Any]], names: dict[str, Any], f: InsuredForecaster) -> Point:
    if not f.corrections[0].grouped:
        names = {name: column for name, column in names.items() if name != "group"}
    result = backtest(make_frame(columns), f, **names, trace=True)
    wanted = result.turnover + result.refused_stake
    sizes, kept = _premiums(columns, result)
    return Point(
        capital=float(f.capital or 0.0),
        premium=result.premium,
        taken=result.turnover / wanted,
        served=float(sizes[kept <= BEARABLE + 1e-9].sum() / wanted),
        worst=result.peak_loss,
        certified=None if result.certificate is None else result.certificate.bound,
        carries=carried(float(f.capital or 0.0), columns["mu"], (result.trace or {})["c"], f),
    )


def _premiums(columns: dict[str, list[Any]], result: BacktestResult) -> tuple[Any, Any]:
    """The sizes of the stakes that were taken, and the premium of each per unit staked."""
    trace = result.trace or {}
    mu, y, stake = (np.array(columns[name]) for name in ("mu", "y", "stake"))
    # What is refused is paid nothing. So is a bet at c = |y − μ|, which is not served unless it was certain.
    taken = (stake != 0) & (trace["payment"] != 0)
    sizes = np.abs(stake[taken])
    return sizes, ((stake * (y - mu) - trace["payment"])[taken]) / sizes


def _columns(
    rows: Sequence[SettledRow], widths: Sequence[float]
) -> tuple[dict[str, list[Any]], dict[str, Any]]:
    """The rows as columns, and what each is to `backtest`; `widths` are the least and the largest ĉ."""
    low, high = widths
    columns: dict[str, list[Any]] = {
        "mu": [row.mu for row in rows],
        "y": [row.outcome for row in rows],
        "stake": [float(row.stake) for row in rows],
        "c_hat": [min(max(row.c_hat or 0.0, low), high) for row in rows],
        "id": [row.on for row in rows],
        "time": [row.seq for row in rows],
        "known": [row.known for row in rows],
    }
    names: dict[str, Any] = {name: name for name in ("stake", "c_hat", "id", "time", "known")}
    for name, lists in (("by", [row.by for row in rows]), ("group", [row.groups for row in rows])):
        most = max(map(len, lists), default=0)
        for k in range(most):
            columns[f"{name}{k}"] = [one[k] if k < len(one) else None for one in lists]
        if most:
            names[name] = [f"{name}{k}" for k in range(most)]
    return columns, names


def _scaled(plain: dict[str, Any], capital: float) -> InsuredForecaster:
    """The forecaster as it began, with another capital."""
    made = copy.deepcopy(plain)
    settings = made["settings"]
    times = capital / settings["capital"]
    settings["capital"] = capital
    if settings.get("lines"):
        lines = settings["lines"]
        lines["each"] = lines["each"] and lines["each"] * times
        lines["of"] = [[name, line * times] for name, line in lines["of"]]
    if settings.get("thaw"):
        settings["thaw"]["budget"] *= times
        settings["thaw"].pop("per_day", None)  # the rows have no days
    for part in (made["corrections"], made["book"]["memories"]):
        _scale_capitals(part, times)
    return InsuredForecaster.from_state(made)


def _scale_capitals(part: Any, times: float) -> None:
    """Multiply every number under "capital", however deep: a `Barrier` may stand inside a `Grouped`."""
    if isinstance(part, dict):
        for name, value in part.items():
            if name == "capital" and isinstance(value, (int, float)):
                part[name] = value * times
            else:
                _scale_capitals(value, times)
    elif isinstance(part, list):
        for one in part:
            _scale_capitals(one, times)


def main() -> None:
    """Read a job, write its points."""
    if hasattr(os, "nice"):
        os.nice(10)
    job = msgspec.json.decode(sys.stdin.buffer.read(), type=Job)
    sys.stdout.buffer.write(msgspec.json.encode(try_capitals(job)))


# --- on the server ----------------------------------------------------------------------------------------


class Trials:
    """The latest trial of each book; one replay runs at a time."""

    def __init__(self) -> None:
        self.latest: dict[str, Trial] = {}
        self._next: dict[str, float] = {}  # when a book may be tried again
        self._running: dict[str, asyncio.Task[Trial]] = {}
        self._lock = asyncio.Lock()

    def start(self, past: History) -> None:
        """Begin a trial of a book, unless one runs, or the last was just now or with the same settlements."""
        known = self.latest.get(past.book)
        if known is not None and (known.seq == past.settled_at or time.monotonic() < self._next[past.book]):
            return
        if past.book not in self._running:
            self._running[past.book] = asyncio.create_task(self._try(past))

    async def of(self, past: History) -> Trial:
        """The trial of a book, when it is there."""
        self.start(past)
        running = self._running.get(past.book)
        # Whoever asked may go away; others wait for the same.
        return self.latest[past.book] if running is None else await asyncio.shield(running)

    async def stop(self) -> None:
        """End what runs."""
        running = list(self._running.values())
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _try(self, past: History) -> Trial:
        try:
            async with self._lock:
                began = time.monotonic()
                made = self.latest[past.book] = await _run(past)
                self._next[past.book] = time.monotonic() + _REST * (time.monotonic() - began)
                return made
        finally:
            del self._running[past.book]


async def _run(past: History) -> Trial:
    rows = past.settled_rows()
    made = Trial(past.settled_at, past.capital, sum(bool(row.stake) for row in rows))
    if not made.stakes:
        made.problem = "No stake is settled yet."
        return made
    job = Job(rows, past.forecaster, [past.capital * times for times in TIMES])
    code, out, told = await _replay(await asyncio.to_thread(msgspec.json.encode, job))
    if code == 0:
        made.points = msgspec.json.decode(out, type=list[Point])
    else:
        lines = told.decode(errors="replace").splitlines() or ["it ended without a word"]
        made.problem = f"The replay failed: {lines[-1].removeprefix('ModuleNotFoundError: ')}"
    return made


async def _replay(job: bytes) -> tuple[int | None, bytes, bytes]:
    """Run `main` in another process; returns its exit code and what it said."""
    pipe = asyncio.subprocess.PIPE
    words = (sys.executable, "-m", "makewhole.serve.capitals")
    process = await asyncio.create_subprocess_exec(*words, stdin=pipe, stdout=pipe, stderr=pipe)
    try:
        async with asyncio.timeout(_LONGEST):
            out, told = await process.communicate(job)
        return process.returncode, out, told
    except TimeoutError:
        return None, b"", f"it took more than {_LONGEST:g} seconds".encode()
    finally:
        if process.returncode is None:  # the server ends, or it took too long
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


if __name__ == "__main__":
    main()
