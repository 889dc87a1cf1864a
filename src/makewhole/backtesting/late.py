"""A backtest whose outcomes come late, or whose stakes depend on what is published, in the compiled loop."""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from makewhole.agents import CUSTOMER_KINDS, Customers
from makewhole.arguments import Floats
from makewhole.backtesting._late_loop import LateTerms, compiled_late_replay
from makewhole.backtesting.limited import thaw_terms
from makewhole.backtesting.log import Chunk, ChunkColumns, Log
from makewhole.backtesting.result import BacktestResult, Served
from makewhole.backtesting.run import Run
from makewhole.corrections import BookCorrection, Certificate
from makewhole.insured.records import Scope
from makewhole.insured.thaw import Thaw
from makewhole.jit import call
from makewhole.rules import Publishing

_NOBODY = (np.zeros(0, np.int64), np.zeros(0), np.zeros(0))
# How many forecasts can be open before more slots are made.
_FEW = 1024
_LINE = 8  # numbers in a line of a processor's cache, 64 bytes


class LateOut(NamedTuple):
    """What the loop writes: the first six for every forecast, the others for every settlement."""

    c: Floats
    lam: Floats
    mu: Floats
    loss: Floats
    stake: Floats
    fair: Floats  # what a customer would stake at c = 0
    total: Floats
    settled_lam: Floats
    settled_row: Any


class Slots(NamedTuple):
    """Open forecasts, as `_late_loop.py` explains."""

    kept: Floats
    free: Any
    counts: Any


def new_slots(count: int, lines: int) -> Slots:
    """Return `count` free slots, each of `lines` whole cache lines."""
    width = _LINE * lines
    room = np.zeros((count + 1) * width)
    begin = -room.ctypes.data // room.itemsize % _LINE
    kept = room[begin : begin + count * width].reshape(count, width)
    return Slots(kept, np.arange(count), np.zeros(2, np.int64))


def more_slots(slots: Slots, count: int) -> Slots:
    """Return the same open forecasts in `count` slots."""
    wider = new_slots(count, slots.kept.shape[1] // _LINE)
    for old, new in zip(slots, wider, strict=True):
        new[: len(old)] = old
    return wider


def stable_order(keys: Any) -> tuple[Any, Any]:
    """Return these whole numbers sorted, and the place that each had; equal numbers keep their order.

    If they fit, number and place are sorted as one number, which is several times as fast as `argsort`.
    """
    if bool(np.all(keys[1:] >= keys[:-1])):
        return keys, np.arange(len(keys))
    bits = len(keys).bit_length()
    low, high = int(keys.min()), int(keys.max())
    if high - low >= 1 << (62 - bits):
        places = np.argsort(keys, kind="stable")
        return keys[places], places
    packed = keys - low
    packed <<= bits
    packed |= np.arange(len(keys))
    packed.sort()
    places = packed & ((1 << bits) - 1)
    packed >>= bits
    packed += low
    return packed, places


class LateRun(Run):
    """A backtest in which forecasts stay open until their outcome is known.

    `customers` decide on their stakes when a forecast is published. If the log has no times, each outcome
    is known before the next forecast. A `capital` or `stop` refuses stakes, and `thaw` lowers λ, as in an
    `InsuredForecaster`; each forecast then has one stake.
    """

    def __init__(
        self,
        correction: BookCorrection,
        cap: float,
        how: Publishing,
        log: Log,
        *,
        trace: bool,
        customers: Customers | None = None,
        capital: float | None = None,
        thaw: Thaw | None = None,
        stop: bool = False,
        spread: float = 0.0,
    ) -> None:
        super().__init__(correction, cap, how, log, trace=trace)
        self.people = None if customers is None else customers.begin(cap)
        self.totals = np.zeros(14)  # see `_late_loop.py`
        self.by_kind = np.zeros((2, 4))  # what each kind of customers would stake at c = 0, and has staked
        kept = math.inf if capital is None else capital
        self.limits = LateTerms(how, cap, kept, thaw_terms(thaw, correction), stop, spread, last=False)
        self.waiting = (np.zeros(0, np.int64), np.zeros(0, np.int64))  # when known and slot, in this order
        player = self.players[0]
        kernels: Any = correction.kernels
        inner = None if player.over is None else player.over.kernels
        self.slots = new_slots(_FEW, 1 if inner is None and capital is None else 2)
        self._replay = functools.partial(call, compiled_late_replay(*kernels, inner))
        if trace and customers is not None and self.sums.trace is not None:
            self.sums.trace["stake"] = np.full(log.rows, np.nan)

    def step(self, chunk: Chunk) -> None:
        """Replay a chunk: make its forecasts, and settle what is due before each of them."""
        columns = chunk.columns
        size = len(columns.mu_hat)
        first = self.sums.rounds
        order = np.arange(first, first + size)
        time, known = (order, order) if chunk.times is None else chunk.times
        people = _NOBODY if self.people is None else self.people.draw(size, chunk.view)
        out = self._go_on(columns, (time, known, chunk.first_rows()), people, last=False)
        self.log.enlarge_chunks(len(self.waiting[0]))  # each chunk sorts all that are open
        asked = self.people is not None or self.limits.capital < math.inf or self.limits.stop
        gross = np.abs(out.stake) if asked else columns.gross  # some may have been refused
        self.totals[2] += out.c.sum()
        self.totals[3] += np.count_nonzero(out.c < 0)
        self.totals[4] += (out.stake * (columns.outcome - columns.mu_hat)).sum()
        self.add_up(chunk, gross, out)
        if self.people is not None:
            stakes = (out.fair, np.abs(out.stake))
            self.by_kind += [np.bincount(people[0], sizes, minlength=4) for sizes in stakes]
        if self.sums.trace is not None and "stake" in self.sums.trace:
            self.sums.trace["stake"][chunk.rows] = out.stake

    def _go_on(self, columns: ChunkColumns, times: Any, people: Any, *, last: bool) -> LateOut:
        size, opened = len(columns.mu_hat), len(self.waiting[0])
        if opened + size > len(self.slots.free):
            self.slots = more_slots(self.slots, 2 * (opened + size))
        time, known, rows = times
        known, who = stable_order(np.concatenate([self.waiting[0], known]))
        slot_of = np.concatenate([self.waiting[1], np.empty(size, np.int64)])
        made = [np.empty(size) for _ in range(6)]
        ended = [np.empty(opened + size), np.empty(opened + size), np.empty(opened + size, np.int64)]
        out = LateOut(*made, *ended)
        book = (*self.slots, known, who, slot_of, time, rows)
        limits, memory = self.limits._replace(last=last), self.players[0].memory
        done = self._replay(memory, book, columns, people, limits, self.totals, tuple(out))
        self.totals[13] += done
        self.waiting = (known[done:], slot_of[who[done:]])
        self.sums.path.extend(out.total[:done], out.settled_lam[:done], lambda at: int(out.settled_row[at]))
        return out

    def finish(self) -> None:
        """Settle what is still open, and store what the loop has learned in the correction."""
        nothing, none = np.zeros(0), np.zeros(0, np.int64)
        columns = ChunkColumns(nothing, nothing, nothing, nothing, nothing)
        self._go_on(columns, (none, none, none), _NOBODY, last=True)
        super().finish()

    def result(self, certificate: Certificate, backend: str | None) -> BacktestResult:
        """Return the result, with the stakes that were refused."""
        refused, refused_stake = self.totals[9:11].tolist()
        made = super().result(certificate, backend)
        served = {}
        if self.people is not None:
            kinds = zip(CUSTOMER_KINDS, self.by_kind.T.tolist(), strict=False)  # the last is no customer
            served = {name: Served(*both) for name, both in kinds if both[0]}
        most = max(1, int(self.slots.counts[1]))
        return replace(made, refused=int(refused), refused_stake=refused_stake, served=served, most_open=most)

    @property
    def exposure(self) -> Scope:
        """What was open at the same time, for the certificate."""
        scope = Scope(1)
        scope.late_open, scope.late_potential = int(self.slots.counts[1]), (float(self.totals[6]),)
        return scope

    @property
    def wanted_stake(self) -> float | None:
        """What the customers would have staked at c = 0; None without customers."""
        return None if self.people is None else float(self.by_kind[0].sum())
