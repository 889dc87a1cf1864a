"""Backtest: replay a log of forecasts, stakes and outcomes, to see what the bets would have cost."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from makewhole import frames
from makewhole.agents import Customers
from makewhole.backtesting.classes import ClassRun
from makewhole.backtesting.fitting import check_groups, check_new, copy_new, fit_forecaster, open_log
from makewhole.backtesting.late import LateRun
from makewhole.backtesting.limited import LimitedRun
from makewhole.backtesting.live import LiveRun
from makewhole.backtesting.log import Log
from makewhole.backtesting.result import BacktestResult
from makewhole.backtesting.run import Run
from makewhole.backtesting.source import Source, read_source
from makewhole.corrections import BookCorrection, Certificate, Correction, Terms, for_book
from makewhole.corrections.certificate import read_terms
from makewhole.corrections.names import Name
from makewhole.insured.certificates import (
    GroupBounds,
    base_bound,
    certify,
    certify_groups,
    guarded,
    shared_terms,
    thawed,
)
from makewhole.insured.forecaster import InsuredForecaster
from makewhole.insured.records import Scope
from makewhole.rules import Publishing


def backtest(
    log: Any,
    forecaster: InsuredForecaster | None = None,
    *,
    mu: str | Sequence[str] = "mu",
    outcome: str = "y",
    stake: str | Sequence[str] | None = None,
    c_hat: str | None = None,
    id: str | None = None,  # noqa: A002 - what callers call it
    group: str | Sequence[str] | None = None,
    time: str | None = None,
    known: str | None = None,
    customers: Customers | None = None,
    by: str | Sequence[str] | None = None,
    correction: Correction | None = None,
    max_stake: float | None = None,
    trace: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> BacktestResult:
    """Replay a log of forecasts, stakes and outcomes, as if an `InsuredForecaster` had run at the time.

    The numbers are exactly those of a forecaster that is fed the log in order of time (if a forecast has
    several stakes, up to the rounding of their sum). There are two ways to run, and they give the same
    numbers. makewhole's corrections on a binary log run compiled, at tens of millions of rows a second, and
    at some ten million with a `capital`, names (`by`) or a thaw, or if outcomes come late or customers decide
    on stakes; K classes in exact mode at a few million. Everything else drives a forecaster row by row, at
    some ten thousand rows a second: K classes in sound mode or with late outcomes or a thaw; `max_exposure`;
    a capital, names or a thaw together with ids, groups or your own correction; names together with late
    outcomes or customers; and late outcomes or customers together with groups or such a correction.

    Parameters
    ----------
    log
        A dataframe: pandas, polars, pyarrow, DuckDB, … A lazy one is collected.
    forecaster
        An `InsuredForecaster` that has not made a forecast yet, with `base=None`. It is copied, and stays as
        it is. By default one in exact mode with the settings that fit the log: its classes, its largest
        stake, and a `c_range` of (0, 0.5), or wider if the log's ĉ is.
    mu, outcome, stake
        The names of the columns: the forecast probability ("mu"); the outcome, 0 or 1 ("y"), or if the
        forecaster is `graded`, a number in [0, 1]; and what was staked ("stake"). Rows in which one of them
        is missing are left out and counted. For K classes `mu` and `stake` are lists of K columns, and the
        outcome is the index of a class.
    c_hat
        The column of ĉ, the model's own half-width, which must lie in the forecaster's `c_range`; by default
        ĉ is 0.
    id
        The column that names the forecast of a stake. Rows with the same id are stakes on one forecast,
        which is made at the first of them. By default every row is a forecast.
    group
        The column of groups, for a forecaster with a grouped correction: `Grouped`, or with a list of columns
        an `OverlappingReserve` or a `Balance`, where a row belongs to one group of each column. Without a
        forecaster, a correction for one group becomes `Grouped`. Rows without a group are left out and
        counted.
    time
        The column that says when each forecast was made, or with `id` each stake: numbers, dates or
        datetimes. The log is replayed in this order, rows of the same time in their own order. By default the
        order of the rows is that of time.
    known
        The column that says when each outcome was known. Until then the forecast is open. What is known at a
        time can be used at that time: before each forecast, those whose outcome was known by its time are
        settled, in order of `known`. A stake at the time at which its own outcome is known still counts. By
        default each outcome is known before the next forecast.
    customers
        The customers who would have bet, for a log without stakes: see `makewhole.agents.Customers`. They
        decide when they see μ and c.
    by
        The column that names the customer, for a forecaster with `lines`; a stake without a name has no line.
        A list of columns names her levels, the widest first, as `f.stake(..., by=(...))` does: by=["agency",
        "customer"]. The same name in two columns is the same. She bets at her own price; the c in the result
        and in the trace is the published one.
    correction, max_stake
        Shorthands for a log without a `forecaster`: `InsuredForecaster(correction=..., max_stake=...)`. By
        default the cap is the largest gross stake on a forecast of the log, which you would not have known in
        advance; with `customers`, 1.
    trace
        Whether to keep a trace: what was published and paid, for every row.
    progress
        A function that is called from time to time with (rows done, total rows).

    Returns
    -------
    BacktestResult
        `total_loss`, `peak_loss`, `drawdown`, `turnover`, `certificate`, `curve`, and more.

    Raises
    ------
    ValueError, TypeError
        If a column does not exist or holds values that do not fit; the message names the column and the row.
        If the forecaster has begun or has a base, or if it is given together with a shorthand.

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

    With a capital, which is all that can be lost:

    >>> f = mw.InsuredForecaster(capital=100, max_stake=10)
    >>> mw.backtest(log, f).total_loss <= 100
    True

    If outcomes are known only ten forecasts later, more is lost before c has adapted:

    >>> log["made"], log["known"] = range(1000), range(10, 1010)
    >>> late = mw.backtest(log, time="made", known="known", correction=mw.DeterministicSwap(cells=100))
    >>> round(late.peak_loss), late.peak_at
    (50, 10)
    """
    columns: Any = {"mu": mu, "outcome": outcome, "stake": stake, "c_hat": c_hat, "id": id, "group": group}
    columns |= {"time": time, "known": known, "by": by}
    if forecaster is not None:
        check_new(forecaster, correction=correction, max_stake=max_stake)
    source = read_source(log, customers=customers, **columns)
    if forecaster is None:
        opened, forecaster = fit_forecaster(source, correction, max_stake=max_stake)
    else:
        opened = open_log(source, forecaster)
    return _replay(_read_case(source, opened, forecaster), trace=trace, progress=progress)


# --- which way to run -------------------------------------------------------------------------------------


class Case(NamedTuple):
    """A log and the forecaster to replay it with, and the facts that decide how it can run.

    `correction_terms` are the terms that the correction sees: those of one bet, where all classes are one.
    `late` says that forecasts stay open, or that customers decide on stakes; `named` that customers have
    lines, and `thawing` that there is a thaw.
    """

    log: Log
    forecaster: InsuredForecaster
    correction: BookCorrection
    terms: Terms
    correction_terms: Terms
    customers: Customers | None
    late: bool
    named: bool
    thawing: bool

    @property
    def limited(self) -> bool:
        """Whether the compiled loop with a capital, lines and a thaw is needed, and can run this."""
        f = self.forecaster
        if self.late or not self.plain:
            return False
        return self.named or self.thawing or f.stop or f.capital is not None

    @property
    def plain(self) -> bool:
        """Whether the compiled loops can limit its stakes: binary, and one stake on each forecast."""
        f, rule = self.forecaster, self.correction
        one_stake_each = self.log.names["id"] is None and f.classes is None and f.max_exposure is None
        return one_stake_each and rule.kernels is not None and not rule.grouped

    @property
    def live(self) -> bool:
        """Whether only a forecaster can run this, bet by bet."""
        f, rule = self.forecaster, self.correction
        if self.limited or (self.late and self.plain and not self.named):
            return False
        if self.thawing or self.named or f.stop or f.max_exposure is not None:
            return True
        if f.capital is not None and (self.late or not _keeps_to(rule, self.terms, f.capital)):
            return True
        if rule.capital_each is not None and (self.late or not rule.in_mode(self.terms).gentler(self.terms)):
            return True
        if f.classes is not None:
            return self.late or not self.log.one_price
        return self.late and (rule.grouped or rule.kernels is None)


def _read_case(source: Source, log: Log, f: InsuredForecaster) -> Case:
    terms = read_terms(f.max_stake, f.c_range, sound=f.mode == "sound", one_sided=f.one_sided)
    correction_terms = shared_terms(terms, f.classes) if f.classes and log.one_price else terms
    correction = for_book(f.corrections[0])
    check_groups(source, correction)
    customers = source.customers
    return Case(
        log,
        f,
        copy.deepcopy(correction.in_mode(correction_terms).begun()),
        terms,
        correction_terms,
        customers,
        late=log.late or customers is not None,
        named=log.named and f.lines is not None,
        thawing=f.thaw is not None,
    )


def _replay(case: Case, *, trace: bool, progress: Callable[[int, int], None] | None) -> BacktestResult:
    """Replay the log in the fastest way possible."""
    if case.live:
        f = copy_new(case.forecaster)
        return LiveRun(case.log, f, trace=trace, customers=case.customers, progress=progress).run()
    run = _compiled_run(case, trace=trace)
    for chunk in case.log.chunks(case.terms.max_stake):
        run.step(chunk)
        if progress is not None:
            progress(min(chunk.stop, case.log.rows), case.log.rows)
    run.finish()
    return _result(case, run)


def _compiled_run(case: Case, *, trace: bool) -> Run:
    rule, terms, log, f = case.correction, case.terms, case.log, case.forecaster
    if case.limited:
        lines = f.lines if case.named else None
        limits: Any = {"capital": f.capital, "lines": lines, "thaw": f.thaw}
        limits |= {"stop": f.stop, "spread": f.book.spread}
        return LimitedRun(rule, terms, log, trace=trace, **limits)
    if rule.over is not None and all(one.kernels is None for one in rule.split(tuple(log.group_names))):
        raise TypeError(
            f"a Reserve with over=... must not override propose or observe in a backtest; got {rule!r}"
        )
    how = Publishing(terms.one_sided, terms.sound, rule.integrates)
    if case.late:
        late: Any = {"customers": case.customers, "capital": f.capital, "thaw": f.thaw}
        late |= {"stop": f.stop, "spread": f.book.spread}
        return LateRun(rule, terms.max_stake, how, log, trace=trace, **late)
    kind = ClassRun if log.one_price else Run
    return kind(rule, case.correction_terms.max_stake, how, log, trace=trace)


# --- what came of it --------------------------------------------------------------------------------------


def _result(case: Case, run: Run) -> BacktestResult:
    """Return the result of a compiled run, with the forecaster's certificate."""
    f, rounds = case.forecaster, run.sums.by_group[0]
    groups = [name for name, count in zip(case.log.group_names, rounds, strict=True) if count]
    certificate = _certificate(case.correction, groups, case.correction_terms, run.exposure)
    result = run.result(certificate, frames.backend_of(case.log.frame))
    if f.thaw is not None:
        learned = [for_book(result.correction)]
        certificate = thawed(certificate, f.thaw, result.rounds, learned, case.correction_terms)
    if f.capital is not None:
        certificate = guarded(certificate, f.capital)
    if certificate.max_stake is not None:
        certificate = replace(certificate, max_stake=f.max_stake)
    return replace(result, certificate=certificate, capital=f.capital, max_stake=f.max_stake)


def _keeps_to(rule: BookCorrection, terms: Terms, capital: float) -> bool:
    """Whether the correction keeps to a capital by itself, if each outcome comes before the next forecast."""
    bound = base_bound([rule], terms)
    kept = bound is not None and bound <= capital * (1.0 + 1e-12)
    return kept and rule.gentler(terms) and not rule.grouped


def _certificate(rule: BookCorrection, groups: list[Name], terms: Terms, scope: Scope) -> Certificate:
    """Return the bound on what a forecaster with this correction could have lost on such a log.

    `groups` are those that forecasts were made for: rows that were left out make none.
    """
    if not rule.apart:
        return certify([rule], terms, scope)
    bounds = GroupBounds()
    for name in groups if rule.all_groups is None else rule.all_groups:
        bounds = bounds.begun(base_bound([rule.of_group(name)], terms))
    return certify_groups(rule, terms, bounds, 1)
