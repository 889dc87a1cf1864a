"""A backtest with a capital, with lines of capital for named customers, or with a thaw, compiled."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from makewhole.backtesting._limited_loop import Limits, LineTerms, ThawTerms, compiled_limited_replay
from makewhole.backtesting.log import Chunk, Log
from makewhole.backtesting.result import BacktestResult
from makewhole.backtesting.run import Out, Run
from makewhole.corrections import BookCorrection, Certificate, Terms
from makewhole.corrections.names import Name
from makewhole.insured.journal import Journal
from makewhole.insured.lines import Limit, LineBook, Lines
from makewhole.insured.thaw import Thaw
from makewhole.jit import call
from makewhole.rules import Publishing

_NOBODY = np.zeros((0, 0), np.int64)
_NO_LINES = LineTerms(0.0, True, 0.0, 0.0)
_NO_THAW = ThawTerms(0.0, 0.0, 0.0, 0.0, math.inf, math.inf)


class LimitedRun(Run):
    """A backtest in which each outcome is known before the next forecast, and each forecast has one stake.

    `lines` and `capital` refuse stakes, and `thaw` lowers λ, as in an `InsuredForecaster`.
    """

    def __init__(
        self,
        correction: BookCorrection,
        terms: Terms,
        log: Log,
        *,
        capital: float | None,
        lines: Lines | None,
        thaw: Thaw | None,
        stop: bool,
        spread: float,
        trace: bool,
    ) -> None:
        how = Publishing(terms.one_sided, terms.sound, correction.integrates)
        super().__init__(correction, terms.max_stake, how, log, trace=trace)
        self.totals = np.zeros(10)
        self.names: list[Name] = []
        self.accounts, self.own_limits = np.zeros((0, 4)), np.zeros((1, 2, len(Limit._fields)))
        line_terms = _NO_LINES
        if lines is not None:
            book = LineBook(lines, terms, Journal())
            line_terms = LineTerms(book.top, lines.keep_gains, lines.spread, lines.thaw)
            self.names = log.number_bettors()
            self.accounts, self.own_limits = np.zeros((len(self.names), 4)), _limits(self.names, book)
        kept, thawing = math.inf if capital is None else capital, thaw_terms(thaw, correction)
        self.limits = Limits(how, terms.max_stake, kept, line_terms, thawing, stop, spread)
        over, kernels = correction.over, correction.kernels
        self._replay = compiled_limited_replay(*(kernels or ()), None if over is None else over.kernels)

    def play(self, chunk: Chunk, out: Out) -> None:
        """Run the loop over a chunk."""
        by: Any = _NOBODY if chunk.by is None else chunk.by
        book = ((by, self.accounts, self.own_limits), self.sums.rounds)
        call(self._replay, self.players[0].memory, chunk.columns, book, self.limits, self.totals, out)

    def result(self, certificate: Certificate, backend: str | None) -> BacktestResult:
        """Return the result."""
        turnover, refused, refused_stake = self.totals[5:8].tolist()
        limited = {"turnover": turnover, "refused": int(refused), "refused_stake": refused_stake}
        return replace(super().result(certificate, backend), **limited)


def _limits(names: list[Name], book: LineBook) -> Any:
    """Return the limits of these names, as customers and as groups; one for all, if none has its own."""
    several = names if book.named else [""]
    pairs = [(book.limit_of(name, last=True), book.limit_of(name, last=False)) for name in several]
    return np.array(pairs, dtype=np.float64).reshape(-1, 2, len(Limit._fields))  # also if there are none


def thaw_terms(thaw: Thaw | None, correction: BookCorrection) -> ThawTerms:
    """Return a thaw as the compiled loops need it."""
    if thaw is None:
        return _NO_THAW
    budget = (thaw.budget, thaw.per_forecast, thaw.root, thaw.share)
    return ThawTerms(*budget, thaw.above, max(thaw.above, correction.spread))
