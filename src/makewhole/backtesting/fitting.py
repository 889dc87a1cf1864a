"""The forecaster of a backtest: the caller's, checked against the log, or one made to fit the log."""

from __future__ import annotations

from typing import Any

from makewhole.backtesting.log import Log
from makewhole.backtesting.source import Source
from makewhole.corrections import BookCorrection, Grouped, StandardRegret, for_book
from makewhole.insured.forecaster import InsuredForecaster
from makewhole.insured.settings import choose_mode

_SETTINGS = (
    "mode",
    "max_stake",
    "c_range",
    "one_sided",
    "max_exposure",
    "capital",
    "classes",
    "graded",
    "lines",
    "thaw",
    "stop",
)


# --- a forecaster that was given --------------------------------------------------------------------------


def check_new(forecaster: Any, **shorthands: Any) -> InsuredForecaster:
    """Return the forecaster if a log can be replayed with it: it has no base, and has not begun.

    `shorthands` are arguments that stand for settings; none may be given together with a forecaster.
    """
    if not isinstance(forecaster, InsuredForecaster):
        raise TypeError(
            f"forecaster must be an InsuredForecaster; got {forecaster!r} (columns and a correction are "
            "given by name: mu=..., correction=...)"
        )
    both = [name for name, value in shorthands.items() if value is not None]
    if both:
        raise ValueError(
            f"{' and '.join(both)} must not be given with a forecaster, which has its own: use "
            f"InsuredForecaster({', '.join(f'{name}=...' for name in both)})"
        )
    if forecaster.base is not None:
        raise ValueError(
            f"forecaster must have base=None, because the log has the forecasts; got {forecaster.base!r}"
        )
    so_far = forecaster.statement()
    if so_far.rounds or so_far.open or so_far.voided:
        raise ValueError(
            f"forecaster must not have made a forecast yet; got one with {so_far.rounds} settled, "
            f"{so_far.open} open and {so_far.voided} voided: make a new one with the same settings"
        )
    if forecaster.thaw is not None and forecaster.thaw.per_day is not None:
        raise ValueError(
            f"a log has no days: the thaw of a backtest must not have per_day; got {forecaster.thaw!r}"
        )
    return forecaster


def copy_new(forecaster: InsuredForecaster) -> InsuredForecaster:
    """Return a forecaster with the same settings and corrections, and the same starting point."""
    settings: Any = {name: getattr(forecaster, name) for name in _SETTINGS}
    return InsuredForecaster(None, forecaster.corrections[0], **settings)


def open_log(source: Source, forecaster: InsuredForecaster) -> Log:
    """Return the log as this forecaster reads it; a ValueError if they do not agree."""
    if source.classes != forecaster.classes:
        raise ValueError(
            f"mu must be {_columns_for(forecaster.classes)}, because the forecaster has "
            f"classes={forecaster.classes}; got {_columns_for(source.classes)}"
        )
    one_price = forecaster.mode == "exact" and not forecaster.one_sided
    log = source.open(one_sided=forecaster.one_sided, graded=forecaster.graded, one_price=one_price)
    log.keep_widths_in(forecaster.c_range)
    return log


def _columns_for(classes: int | None) -> str:
    return "one column" if classes is None else f"a list of {classes} columns"


def check_groups(source: Source, correction: BookCorrection) -> None:
    """Raise a ValueError unless the log has the columns of groups that this correction needs."""
    columns = [source.names[group] for group in source.groups]
    if columns and not correction.grouped:
        raise ValueError(
            f"group={columns!r} needs a forecaster with a grouped correction: use Grouped({correction!r}), "
            "OverlappingReserve(...) or Balance(...)"
        )
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


# --- a forecaster that is made ----------------------------------------------------------------------------


def fit_forecaster(
    source: Source,
    correction: Any = None,
    *,
    max_stake: float | None = None,
    c_range: tuple[float, float] | None = None,
    **settings: Any,
) -> tuple[Log, InsuredForecaster]:
    """Return the log, and a forecaster for it; `settings` are further ones of `InsuredForecaster`.

    By default `max_stake` is the largest in the log (with customers, 1), and `c_range` is (0, 0.5), or wider
    if the log's ĉ is. With groups, a correction without them becomes `Grouped`.
    """
    correction = correction_for(source, correction)
    rule = None if correction is None else for_book(correction)
    mode, _ = choose_mode(rule, settings.get("mode"), settings.get("capital"), settings.get("thaw"))
    one_sided, graded = bool(settings.get("one_sided")), bool(settings.get("graded"))
    log = source.open(one_sided=one_sided, graded=graded, one_price=mode == "exact" and not one_sided)
    if max_stake is None:
        max_stake = _largest_stake(log, source)
    if c_range is None:
        low, high = log.c_range()
        c_range = (min(0.0, low), max(0.5, high))
    terms: Any = {"max_stake": max_stake, "c_range": c_range, "classes": source.classes}
    forecaster = InsuredForecaster(None, correction, **terms, **settings)
    log.keep_widths_in(forecaster.c_range)
    return log, forecaster


def correction_for(source: Source, correction: Any) -> Any:
    """Return the correction, or one for groups if the log has them and the correction does not."""
    if not source.groups or (correction is not None and for_book(correction).grouped):
        return correction
    return Grouped(StandardRegret(rate=0.1) if correction is None else correction)


def _largest_stake(log: Log, source: Source) -> float:
    customers = source.customers
    if customers is None:
        return log.largest()
    if customers.losses is not None or customers.size is not None:
        raise ValueError(f"max_stake must be given with losses or size of customers; got {customers!r}")
    return 1.0
