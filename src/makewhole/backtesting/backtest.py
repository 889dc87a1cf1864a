"""Backtest: replay a log of forecasts, stakes and outcomes, to see what the bets would have cost."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from makewhole import frames
from makewhole.agents import Customers
from makewhole.backtesting.classes import ClassLog, ClassRun
from makewhole.backtesting.clock import read_clock
from makewhole.backtesting.late import LateRun
from makewhole.backtesting.limited import LimitedRun
from makewhole.backtesting.live import LiveRun
from makewhole.backtesting.log import Log
from makewhole.backtesting.result import BacktestResult
from makewhole.backtesting.run import Run
from makewhole.corrections import (
    BookCorrection,
    Certificate,
    Correction,
    Grouped,
    StandardRegret,
    Terms,
    for_book,
)
from makewhole.corrections.certificate import read_terms
from makewhole.corrections.names import Name
from makewhole.insured.records import Scope
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
from makewhole.insured.lines import MOST_LEVELS, Lines
from makewhole.insured.settings import Default, Mode, choose_mode
from makewhole.insured.thaw import HARDLY, Thaw
from makewhole.rules import Publishing


def backtest(
    frame: Any,
    mu: str | Sequence[str] = "mu",
    outcome: str = "y",
    stake: str | Sequence[str] | None = None,
    *,
    c_hat: str | None = None,
    event: str | None = None,
    group: str | Sequence[str] | None = None,
    time: str | None = None,
    known: str | None = None,
    customers: Customers | None = None,
    by: str | Sequence[str] | None = None,
    correction: Correction | None = None,
    mode: Mode | None = None,
    max_stake: float | None = None,
    c_range: tuple[float, float] | None = None,
    one_sided: bool = False,
    capital: float | None = None,
    max_exposure: float | None = None,
    lines: Lines | Default | None = "default",
    thaw: Thaw | Default | None = "default",
    graded: bool = False,
    trace: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> BacktestResult:
    """Replay a log of forecasts, stakes and outcomes as an `InsuredForecaster` would have met it.

    The numbers are those of an `InsuredForecaster` with the same settings, to the bit, if it is fed the log
    in order of time (if a forecast has several stakes, up to the rounding of their sum). There are two ways
    to run, and they mean the same. makewhole's corrections on a binary log run compiled, at tens of millions
    of rows a second, and at some ten million with a `capital`, names (`by`) or a thaw, or if outcomes come
    late or customers decide on stakes; K classes in exact mode at a few million. All else drives a forecaster
    row by row, at some ten thousand rows a second: K classes in sound mode or with late outcomes or a thaw,
    `max_exposure`; a capital, names or a thaw together with events, groups, late outcomes, customers or a
    correction of your own; and late outcomes or customers together with groups or such a correction.

    Parameters
    ----------
    frame
        A dataframe: pandas, polars, pyarrow, DuckDB, … A lazy one is collected.
    mu, outcome, stake
        The names of the columns: the forecast probability ("mu"); the outcome, 0 or 1 ("y"); and what was
        staked ("stake"). Rows in which one of them is missing are left out and counted. For K classes `mu`
        and `stake` are lists of K columns, and the outcome is the index of a class.
    c_hat
        The column of ĉ, the model's own half-width; by default ĉ is 0.
    event
        The column that names the forecast. Rows with the same name are stakes on one forecast, which is made
        at the first of them. By default every row is a forecast.
    group
        The column of groups. Each group has its own copy of the correction, as in `Grouped`. With an
        `OverlappingReserve` or a `Balance` it may be a list of columns, and a row belongs to one group of
        each. Rows without a group are left out and counted.
    time
        The column that says when each forecast was made, or with `event` each stake: numbers, dates or
        datetimes. The log is replayed in this order, rows of the same time in their own order. By default the
        order of the rows is that of time.
    known
        The column that says when each outcome was known. Until then the forecast is open: before each
        forecast, all those are settled whose outcome was known by its time, in order of `known`. By default
        each outcome is known before the next forecast.
    customers
        Who would have bet, for a log without stakes: see `makewhole.agents.Customers`. They decide when they
        see μ and c.
    by
        The column that names who staked, for `lines`; where it is missing, she gave no name. A list of
        columns names her levels, the widest first, as `f.stake(..., by=(...))` does: by=["agency",
        "customer"]. The same name in two columns is the same.
    correction
        It is copied. By default the forecaster's, which depends on whether there is a capital.
    mode
        "exact": c is whatever balances the bets, and may be negative. "sound": c lies in [0, ½] and
        [μ − c, μ + c] inside [0, 1]. By default sound with a capital, else exact.
    max_stake
        The cap M: the largest gross stake, the sum of |stake|, on one forecast (with classes, on one class).
        By default the largest in the log, which one would not have known before; with `customers`, 1.
    c_range
        The forecaster's `c_range`, in which ĉ must lie. By default that of a forecaster, (0, 0.5), and wider
        if the log's ĉ is. In sound mode a `Reserve` keeps gains as a λ as low as −c₊, where c₊ is the upper
        end. So this range matters also if there is no ĉ.
    one_sided
        The correction moves μ, and c is 0; stakes must not be negative.
    capital
        The most that may ever be lost, as in `InsuredForecaster`: for sound mode, or one-sided.
    max_exposure
        The most that all open bets together may be able to lose. A stake beyond it is refused; the result
        counts those that were.
    lines, thaw
        As in `InsuredForecaster`, with the same defaults. With lines whoever is named by `by` bets at her own
        price; the c in the result and in the trace is the one that was published.
    graded
        Whether outcomes are any numbers in [0, 1], as in `InsuredForecaster`; not with classes.
    trace
        Whether to keep a trace: what was published and paid, for every row.
    progress
        A function that is called now and then with (rows done, rows in all).

    Returns
    -------
    BacktestResult
        `total_loss`, `peak_loss`, `drawdown`, `turnover`, `certificate`, `curve`, and more.

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

    If outcomes are known only ten forecasts later, more is lost before c has adapted:

    >>> log["made"], log["known"] = range(1000), range(10, 1010)
    >>> late = mw.backtest(log, time="made", known="known", correction=mw.DeterministicSwap(cells=100))
    >>> round(late.peak_loss), late.peak_at
    (50, 10)
    """
    if customers is not None and not isinstance(customers, Customers):
        raise TypeError(f"customers must be makewhole.agents.Customers(...); got {customers!r}")
    if mode not in (None, "exact", "sound"):
        raise ValueError(f"mode must be 'exact' or 'sound'; got {mode!r}")
    given = {"c_hat": c_hat, "event": event, "time": time, "known": known} | _level_columns(by)
    names, groups, classes = _names(mu, outcome, stake, given, customers, group)
    columns = frames.read_columns(frame, {k: v for k, v in names.items() if v is not None})
    chosen: Any = correction
    if groups and (chosen is None or not for_book(chosen).grouped):
        chosen = Grouped(StandardRegret(rate=0.1) if chosen is None else chosen)
    mode, _ = choose_mode(None if chosen is None else for_book(chosen), mode, capital, thaw)
    log = _log(columns, names, bool(one_sided), list(groups), classes, mode=mode, graded=bool(graded))
    terms = _terms(log, max_stake, c_range, customers, sound=mode == "sound", one_sided=bool(one_sided))
    limits: Any = {"capital": capital, "max_exposure": max_exposure, "classes": classes}
    own: Any = {"mode": mode, "max_stake": terms.max_stake, "one_sided": one_sided, "graded": graded}
    f = InsuredForecaster(None, chosen, c_range=terms.c_range, lines=lines, thaw=thaw, **own, **limits)
    if f.thaw is not None and f.thaw.per_day is not None:
        raise ValueError(f"a log has no days: the thaw of a backtest must not have per_day; got {f.thaw!r}")
    rule = copy.deepcopy(f.corrections[0]) if chosen is None else for_book(copy.deepcopy(chosen))
    _check_groups(rule, list(groups.values()))
    game = shared_terms(terms, classes) if classes and log.one_price else terms  # what the correction sees
    rule = copy.deepcopy(rule.in_mode(game).begun())
    run: Run
    late = known is not None or customers is not None
    warmed = f.thaw is not None and (customers is not None or log.any_unstaked(HARDLY * game.max_stake))
    named = by is not None and f.lines is not None
    prompt = not (classes or late or event is not None or _is_hard(rule) or max_exposure is not None)
    if prompt and (named or warmed or f.capital is not None):
        own = {"capital": f.capital, "lines": f.lines if named else None, "thaw": f.thaw}
        run = LimitedRun(rule, terms, log, trace=trace, **own)
        return _bounded(_replay(run, log, rule, (terms, terms), progress), f, terms)
    limited = f.capital is not None and (late or not _keeps_to(rule, terms, f.capital))
    limited |= rule.capital_each is not None and (late or not rule.in_mode(terms).gentler(terms))
    hard = late and _is_hard(rule) if classes is None else late or not log.one_price
    if hard or limited or warmed or named or max_exposure is not None:
        return LiveRun(log, f, trace=trace, customers=customers, progress=progress).run()
    if rule.over is not None and all(one.kernels is None for one in rule.split(tuple(log.group_names))):
        raise TypeError(
            f"a Reserve with over=... must not override propose or observe in a backtest; got {rule!r}"
        )
    how = Publishing(terms.one_sided, terms.sound, rule.integrates)
    if late:
        run = LateRun(rule, terms.max_stake, how, log, trace=trace, customers=customers)
    else:
        run = (ClassRun if log.one_price else Run)(rule, game.max_stake, how, log, trace=trace)
    return _bounded(_replay(run, log, rule, (terms, game), progress), f, game)


def _replay(
    run: Run,
    log: Log,
    rule: BookCorrection,
    both: tuple[Terms, Terms],
    progress: Callable[[int, int], None] | None,
) -> BacktestResult:
    """Run the compiled loop over the log; `both` are the terms of the forecaster and of its correction."""
    terms, game = both
    for chunk in log.chunks(terms.max_stake):
        run.step(chunk)
        if progress is not None:
            progress(min(chunk.stop, log.rows), log.rows)
    run.finish()
    rounds = run.sums.by_group[0]
    played = [name for name, count in zip(log.group_names, rounds, strict=True) if count]
    certificate = _certificate(rule, played, game, run.exposure)
    return run.result(certificate, frames.backend_of(log.frame))


def _bounded(result: BacktestResult, f: InsuredForecaster, game: Terms) -> BacktestResult:
    """Return the result with the certificate of this forecaster: it has a capital, or a thaw.

    `game` are the terms that its correction sees.
    """
    certificate = result.certificate
    if f.thaw is not None and certificate is not None:
        certificate = thawed(certificate, f.thaw, result.rounds, [for_book(result.correction)], game)
    if f.capital is not None and certificate is not None:
        certificate = guarded(certificate, f.capital)
    if certificate is not None and certificate.max_stake is not None:
        certificate = replace(certificate, max_stake=f.max_stake)
    return replace(result, certificate=certificate, capital=f.capital, max_stake=f.max_stake)


def _keeps_to(rule: BookCorrection, terms: Terms, capital: float) -> bool:
    """Whether the correction keeps to a capital by itself, if each outcome comes before the next forecast."""
    bound = base_bound([rule], terms)
    kept = bound is not None and bound <= capital * (1.0 + 1e-12)
    return kept and rule.gentler(terms) and not rule.grouped


def _is_hard(rule: BookCorrection) -> bool:
    """Whether only the compiled loop without limits and late outcomes can run this correction, if any can."""
    return rule.grouped or rule.kernels is None


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


# --- what is asked of the arguments -----------------------------------------------------------------------


def _names(
    mu: Any, outcome: str, stake: Any, others: dict[str, Any], customers: Customers | None, group: Any
) -> tuple[dict[str, Any], dict[str, str], int | None]:
    """Return the columns by argument, those of groups again, and the number of classes, None if binary."""
    if customers is not None:
        for name, value in (("stake", stake), ("event", others["event"])):
            if value is not None:
                raise ValueError(f"{name} must not be given with customers, who stake once; got {value!r}")
    elif stake is None:
        stake = "stake"
    groups = _group_columns(group)
    view = None if customers is None else customers.view
    if isinstance(mu, str):
        if stake is not None and not isinstance(stake, str):
            raise TypeError(f"stake must be the name of a column, as mu is; got {stake!r}")
        return {"mu": mu, "outcome": outcome, "stake": stake, **others, "view": view} | groups, groups, None
    if customers is not None:
        raise ValueError("customers bet on binary events: mu must be the name of one column")
    probabilities, stakes = _class_columns("mu", mu), _class_columns("stake", stake)
    if len(stakes) != len(probabilities) or len(stakes) < 2:
        raise ValueError(
            f"mu and stake must name one column for each of at least 2 classes; got {len(probabilities)} and "
            f"{len(stakes)}"
        )
    names = probabilities | {"outcome": outcome} | stakes | others | groups
    return names, groups, len(stakes)


def _class_columns(name: str, given: Any) -> dict[str, str]:
    columns = list(given) if isinstance(given, Sequence) and not isinstance(given, str) else None
    if columns is None or not all(isinstance(column, str) for column in columns):
        raise TypeError(f"{name} must be a list of the names of columns, one per class; got {given!r}")
    return {f"{name}[{k}]": column for k, column in enumerate(columns)}


def _log(
    columns: Any,
    names: dict[str, Any],
    one_sided: bool,
    groups: list[str],
    classes: int | None,
    *,
    mode: Mode,
    graded: bool,
) -> Log:
    clock = read_clock(columns, names)
    if classes is None:
        return Log(columns, names, one_sided, groups, clock, graded=graded)
    if graded:
        raise ValueError("graded outcomes must have one column of mu; got a list (classes are not graded)")
    one_price = mode == "exact" and not one_sided
    return ClassLog(columns, names, one_sided, groups, clock, classes=classes, one_price=one_price)


def _terms(
    log: Log,
    max_stake: float | None,
    c_range: tuple[float, float] | None,
    customers: Customers | None,
    *,
    sound: bool,
    one_sided: bool,
) -> Terms:
    """Return the terms of the forecaster that is replayed."""
    if max_stake is None and customers is not None:
        if customers.losses is not None or customers.size is not None:
            raise ValueError(f"max_stake must be given with losses or size of customers; got {customers!r}")
        max_stake = 1.0
    cap: Any = log.largest() if max_stake is None else max_stake
    low, high = log.c_range()
    wanted = (min(0.0, low), max(0.5, high)) if c_range is None else c_range
    terms = read_terms(cap, wanted, sound=sound, one_sided=one_sided)
    if c_range is not None:
        log.keep_widths_in(terms.c_range)
    return terms


def _level_columns(by: str | Sequence[str] | None) -> dict[str, str]:
    """Return the columns of who staked by argument: "by", or for levels "by[0]", "by[1]", and so on."""
    if by is None or isinstance(by, str):
        return {} if by is None else {"by": by}
    columns = list(by) if isinstance(by, Sequence) else [by]
    if not all(isinstance(column, str) for column in columns) or len(set(columns)) < len(columns):
        raise TypeError(f"by must be the name of a column, or a list of different names; got {by!r}")
    if not 1 <= len(columns) <= MOST_LEVELS:
        raise ValueError(f"by must be at most {MOST_LEVELS} columns, and at least one; got {len(columns)}")
    return {f"by[{k}]": column for k, column in enumerate(columns)}


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
            f"group must be one column, or the correction an OverlappingReserve(...) or a Balance(...); got "
            f"{columns!r}"
        )
    if correction.most_groups is not None and len(columns) > correction.most_groups:
        raise ValueError(
            f"group must be at most {correction.most_groups} columns with {correction!r}; got {columns!r}"
        )
