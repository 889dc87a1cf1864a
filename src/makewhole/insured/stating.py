"""Make statements of a book."""

from __future__ import annotations

from collections.abc import Mapping

from makewhole.corrections.names import Name
from makewhole.insured.book import Book
from makewhole.insured.statement import Statement


def state_groups(book: Book) -> dict[Name, Statement]:
    """The statement of every group."""
    return {name: state_book(book, name, {}) for name in book.groups}


def state_book(book: Book, group: Name | None, groups: Mapping[Name, Statement]) -> Statement:
    """The statement of all forecasts, or of a group's."""
    c_range = book.terms.c_range
    notes = []
    if not all(correction.covers(c_range) for correction in book.corrections):
        needed = f"[{-1 - c_range[1]:g}, {1 - c_range[0]:g}]"
        notes.append(f"the correction's range is narrower than {needed}: no guarantee")
    scope = book.scope(group)
    totals = scope.totals
    return Statement(
        correction=repr(book.corrections[0]),
        max_stake=book.max_stake,
        rounds=totals.rounds,
        open=scope.open,
        voided=totals.voided,
        bets=totals.bets,
        turnover=totals.turnover,
        total_loss=totals.loss,
        open_exposure=scope.at_risk,
        certificate=book.certificate(group),
        mean_loss_interval=totals.mean_loss_interval(book.loss_range),
        p_value=totals.p_value,
        negative_c=totals.negative,
        notes=(*notes, *totals.notes()),
        groups=groups,
        conceded=book.thawing.conceded,
        mean_size_of_c=totals.width / totals.rounds if totals.rounds else None,
    )
