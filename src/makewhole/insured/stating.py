"""The certificate and the statement of a book, and what its open bets are likely to lose at most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from makewhole import arguments, rules
from makewhole.bounds import likely_sum
from makewhole.corrections import Certificate
from makewhole.corrections.names import Name
from makewhole.insured.book import BetBook
from makewhole.insured.certificates import certify, certify_groups, guarded, thawed
from makewhole.insured.records import Open, Scope, SharedLeg
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
    if book.lines is None and totals.bets and group is None:
        notes.append("there are no lines: a customer who keeps beating the forecast raises everyone's price")
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


# --- what open bets are likely to lose at most ------------------------------------------------------------


def likely_worst(book: BetBook, confidence: Any, cluster: Any) -> float:
    """What the open bets lose at most, with this confidence; see `InsuredForecaster.likely_worst`."""
    risk = 1.0 - arguments.scalar("confidence", confidence)
    if not 0.0 < risk < 1.0:
        raise ValueError(f"confidence must lie between 0 and 1, such as 0.995; got {confidence!r}")
    entries = book.entries()
    certain, sums = 0.0, dict[Any, list[float]]()
    for entry, label in zip(entries, _labels(entries, cluster), strict=True):
        if not entry.stakes:
            continue
        if any(leg.c < 0.0 for leg in entry.legs):  # no forecast is right within a negative c
            certain += entry.at_risk
            continue
        both = sums.setdefault(label, [0.0, 0.0])
        both[0] += entry.at_risk
        both[1] += _most_won(entry)
    worst, best = np.array(list(sums.values())).reshape(-1, 2).T
    return certain + likely_sum(worst, best, risk)


def _labels(entries: Sequence[Open], cluster: Any) -> list[Any]:
    """The cluster of each open forecast; without any, all are one."""
    if cluster is None:
        return [None] * len(entries)
    if isinstance(cluster, Mapping):
        for entry in entries:
            if entry.id not in cluster:
                raise ValueError(f"cluster must have a label for the open forecast {entry.id!r}; got none")
        return [cluster[entry.id] for entry in entries]
    if callable(cluster):
        return [cluster(entry.id) for entry in entries]
    labels = list(cluster)
    if len(labels) != len(entries):
        raise ValueError(
            f"cluster must have one label for each of {len(entries)} open forecasts; got {len(labels)}"
        )
    return labels


def _most_won(entry: Open) -> float:
    """The most that the forecaster can win on an open forecast: what all its stakes can lose together."""
    first, surcharge = entry.legs[0], sum(leg.surcharge for leg in entry.legs)
    if isinstance(first, SharedLeg):
        least = rules.fair_gain(first.nets, first.median, first.mus, min(first.nets))
        return max(0.0, first.gross * first.c - least)
    opposite = [(-leg.net, -leg.gross, leg.mu, leg.c) for leg in entry.legs]
    if len(opposite) == 1:
        return max(0.0, rules.most_paid(*opposite[0], -surcharge))
    return rules.worst_loss_of_classes(opposite, -surcharge)
