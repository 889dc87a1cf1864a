"""Make statements of a book from its state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from makewhole.corrections.names import Name
from makewhole.insured.bookkeeping import Bookkeeping
from makewhole.insured.changes import CONCEDED, Key
from makewhole.insured.statement import Statement
from makewhole.insured.totals import Standing, Totals

State = Mapping[Key, Any]


def state_groups(books: Bookkeeping, state: State) -> dict[Name, Statement]:
    """The statement of every group."""
    names = [key[1] for key, value in state.items() if key[0] == "totals" and value is not None]
    return {name: state_book(books, state, name, {}) for name in names if name is not None}


def state_book(
    books: Bookkeeping, state: State, group: Name | None, groups: Mapping[Name, Statement]
) -> Statement:
    """The statement of everyone's book, or of a group's."""
    c_range = books.terms.c_range
    notes = []
    if not all(rule.covers(c_range) for rule in books.rules):
        needed = f"[{-1 - c_range[1]:g}, {1 - c_range[0]:g}]"
        notes.append(f"the correction's range is narrower than {needed}: no guarantee")
    totals: Totals = state["totals", group]
    standing: Standing = state["standing", group]
    return Statement(
        correction=repr(books.one),
        max_stake=books.max_stake,
        rounds=totals.rounds,
        open=standing.open,
        voided=totals.voided,
        bets=totals.bets,
        turnover=totals.turnover,
        total_loss=totals.loss,
        open_exposure=standing.at_risk,
        certificate=books.certificate(state.get, group),
        mean_loss_interval=totals.mean_loss_interval(books.loss_range),
        p_value=totals.p_value,
        negative_c=totals.negative,
        notes=(*notes, *totals.notes()),
        groups=groups,
        conceded=0.0 if books.thaw is None else state[CONCEDED].total,
        mean_size_of_c=None if totals.width is None or not totals.rounds else totals.width / totals.rounds,
    )
