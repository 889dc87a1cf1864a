"""The most that a customer would pay: a number, one for each class, or the quote that she was given."""

from __future__ import annotations

from typing import Any

import numpy as np

from makewhole import arguments
from makewhole.arguments import Floats
from makewhole.decisions import Forecast, Quote, price_of
from makewhole.insured.lines import read_levels
from makewhole.insured.refusals import PriceRefused


def check_price(most: Any, now: Forecast, amounts: tuple[float, ...], by: Any) -> None:
    """Refuse a stake that costs more than the customer would pay; `now` has her current price."""
    if isinstance(most, Forecast):
        _check_quote(most, now, amounts if now.classes else amounts[0], by)
        return
    asked = np.atleast_1d(now.mu if now.one_sided else now.c)
    limits = _read_limits(most, len(asked), float(asked.max()))
    staked = np.array(amounts) != 0.0
    over = staked & (asked > limits)
    if not over.any():
        return
    if limits.ndim == 0:
        highest = float(asked[staked].max())
        raise PriceRefused(f"the price is {highest:g} now, above price={limits:g}", highest)
    k = int(np.argmax(over))
    message = f"the price of class {k} is {asked[k]:g} now, above price[{k}]={limits[k]:g}"
    raise PriceRefused(message, asked.tolist())


def _read_limits(most: Any, classes: int, asked: float) -> Floats:
    """Return the limit, or one for each class; a ValueError if it cannot be a price per unit."""
    limits = arguments.numbers("price", most)
    if isinstance(most, (bool, np.bool_)) or limits.shape not in ((), (classes,) if classes > 1 else ()):
        several = f", {classes} numbers," if classes > 1 else ","
        raise ValueError(f"price must be one number{several} or a quote; got {most!r}")
    if limits.max() > max(1.0, asked):
        raise ValueError(
            f"price must be c, at most 1 per unit staked; got {limits.max():g} (an amount of money? pass the "
            "quote itself: price=quote)"
        )
    return limits


def _check_quote(quote: Forecast, now: Forecast, stake: Any, by: Any) -> None:
    """Refuse a stake that can lose more now than at the quoted price."""
    if quote.id != now.id:
        raise ValueError(f"price is a quote for forecast {quote.id!r}; got a stake on {now.id!r}")
    if isinstance(quote, Quote) and read_levels(quote.by) != read_levels(by):
        raise ValueError(
            f"price is a quote for by={quote.by!r}; got by={by!r}: ask for a quote with that name"
        )
    told, asked = price_of(quote, stake), price_of(now, stake)
    if asked > told:
        raise PriceRefused(f"the price of this stake is {asked:g} now; the quote said {told:g}", asked)
