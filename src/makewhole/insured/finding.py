"""Find the open forecast that a caller means."""

from __future__ import annotations

from typing import Any

import numpy as np

from makewhole.decisions import Forecast
from makewhole.insured.book import OpenForecast
from makewhole.insured.changes import STANDING, Get
from makewhole.insured.many import opened
from makewhole.insured.refusals import ForecastClosed, UnknownForecast


def find_open(get: Get, forecast: Any) -> OpenForecast:
    """The open forecast that the caller means: the forecast itself, or its id. `get` reads the state."""
    kind = type(forecast)
    if kind is int or kind is str:  # the commonest cases, in half the time
        entry = get(("open", forecast))
        if type(entry) is OpenForecast:
            return entry
    elif kind is Forecast:
        entry = get(("open", forecast.id))
        if type(entry) is OpenForecast and entry[0] is forecast:
            return entry
    given = forecast.id if isinstance(forecast, Forecast) else forecast
    known = type(given) is int or type(given) is str
    entry = get(("open", given)) if known else None
    id_: Any = given
    open_ = entry if entry is None or type(entry) is OpenForecast else opened(id_, entry)
    if open_ is not None and (given is forecast or open_[0] is forecast or open_[0] == forecast):
        return open_
    return _missing(get, forecast, given, open_)


def _missing(get: Get, forecast: Any, given: Any, open_: OpenForecast | None) -> OpenForecast:
    """Say why a forecast is not found; a NumPy number is as good as any other."""
    if isinstance(given, np.integer):
        return find_open(get, int(given))
    if open_ is None and type(given) is int and 0 <= given < get(STANDING).next:
        raise ForecastClosed(f"forecast {given} was settled or voided before")
    if open_ is None and isinstance(given, str) and given is not forecast:
        raise ForecastClosed(f"forecast {given!r} is not open here: it was settled or voided before")
    if open_ is None and type(given) in (int, str):
        raise UnknownForecast(
            f"no open forecast has the id {given!r}: it was settled or voided before, or never made here"
        )
    raise UnknownForecast(f"no such forecast was made here; got {forecast!r}")
