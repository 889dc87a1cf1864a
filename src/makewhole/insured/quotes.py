"""A customer's quote: an open forecast at her price, how much more she may stake, and what she should do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from makewhole.corrections.names import Name
from makewhole.decisions import Quote, insure, make_quote
from makewhole.insured.book import BetBook
from makewhole.insured.records import Open


def quote_of(book: BetBook, entry: Open, levels: tuple[Name, ...]) -> Quote:
    """An open forecast at the price of a customer of these levels, and how much more she may stake."""
    by = None if not levels else levels[0] if len(levels) == 1 else levels
    return make_quote(book.own_forecast(entry, levels), by, book.reader.room(entry), entry.forecast)


def with_plan(quote: Quote, losses: Any) -> Quote:
    """The quote with the best action and stake for these losses, within what she may stake."""
    return replace(quote, plan=insure(quote, losses))
