"""A customer's quote: an open forecast at her price, how much more she may stake, and what she should do."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from makewhole.corrections.names import Name
from makewhole.decisions import Quote, insure, make_quote
from makewhole.insured.book import BetBook
from makewhole.insured.lines import ALONE
from makewhole.insured.records import Open
from makewhole.insured.refusals import StakeRefused


def quote_of(book: BetBook, entry: Open, levels: tuple[Name, ...]) -> Quote:
    """An open forecast at the price of a customer of these levels, and how much more she may stake."""
    by = None if not levels else levels[0] if len(levels) == 1 else levels
    return make_quote(book.own_forecast(entry, levels), by, room_of(book, entry, levels), entry.forecast)


def room_of(book: BetBook, entry: Open, levels: tuple[Name, ...]) -> tuple[float, float]:
    """The lowest and the highest stake that would be taken; with classes, what the cap and her share leave.

    What else may refuse a stake on an event (her line, the capital, the stop) is found by a trial: do, look,
    undo.
    """
    least, most = book.reader.room(entry)
    if book.lines is not None:
        left = book.lines.share_left(entry, ALONE, levels)
        least, most = max(least, -left), min(most, left)
    if book.classes is not None:
        return least, most
    return _taken(book, entry, levels, least), _taken(book, entry, levels, most)


def _taken(book: BetBook, entry: Open, levels: tuple[Name, ...], stake: float) -> float:
    """How much of this stake would be taken."""
    if not stake:
        return stake
    mark = len(book.journal)
    try:
        book.take(entry, stake, levels or None)
    except StakeRefused as refused:
        return math.copysign(refused.limit, stake) if refused.limit else 0.0
    else:
        return stake
    finally:
        book.journal.undo(mark)


def with_plan(quote: Quote, losses: Any) -> Quote:
    """The quote with the best action and stake for these losses, within what she may stake."""
    return replace(quote, plan=insure(quote, losses))
