"""The certificate and the statement of a book."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from makewhole.corrections import Certificate
from makewhole.corrections.names import Name
from makewhole.insured.book import BetBook
from makewhole.insured.certificates import certify, certify_groups, guarded, thawed
from makewhole.insured.records import Scope
from makewhole.insured.statement import Statement


def certificate_of(book: BetBook, group: Name | None = None) -> Certificate:
    """The most that can be lost, in total or by one group."""
    first = book.corrections[0]
    if book.apart and group is None:
        made = certify_groups(first, book.terms, book.bounds, len(book.corrections), book.max_exposure)
    else:
        scope = book.groups.get(group) if book.apart and group is not None else book.everyone
        if scope is None:  # a group that has not begun
            scope = Scope(len(book.corrections))
        answering = book.answering(group if book.apart else None)
        made = certify(answering, book.terms, scope, book.max_exposure)
    if book.thaw is not None:
        rounds = book.everyone.totals.rounds
        made = thawed(made, book.thaw, rounds, book.corrections, book.terms)
    if book.capital_each is not None:
        count = 1 if group is not None else book.bounds.groups
        made = guarded(made, count * book.capital_each)
    if book.capital is not None and group is None:
        growing = book.apart and first.all_groups is None  # with every group that begins
        made = guarded(made, book.capital, growing=growing)
    return made if made.max_stake is None else replace(made, max_stake=book.max_stake)


def state_groups(book: BetBook) -> dict[Name, Statement]:
    """The statement of every group."""
    return {name: state_book(book, name, {}) for name in book.groups}


def state_book(book: BetBook, group: Name | None, groups: Mapping[Name, Statement]) -> Statement:
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
        certificate=certificate_of(book, group),
        mean_loss_interval=totals.mean_loss_interval(book.loss_range),
        p_value=totals.p_value,
        negative_c=totals.negative,
        notes=(*notes, *totals.notes()),
        groups=groups,
        conceded=book.thawing.conceded,
        mean_size_of_c=totals.width / totals.rounds if totals.rounds else None,
    )
