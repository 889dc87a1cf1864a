"""Where a forecaster stands: its statement, its certificates, and what they leave room for."""

from __future__ import annotations

from typing import Any

from makewhole.corrections import Grouped, Reserve
from makewhole.corrections.base import unchanged
from makewhole.corrections.members import Name
from makewhole.insured.book import Exposure, OpenForecast
from makewhole.insured.certificates import Certificate, certify, guarded, line_bounds, together
from makewhole.insured.statement import Statement
from makewhole.insured.totals import Tally


def statement_of(forecaster: Any) -> Statement:
    """All of it, and of each group."""
    exposed: dict[Name | None, float] = {}
    for entry in forecaster._book.open.values():
        for name in (None, *entry.groups):
            exposed[name] = exposed.get(name, 0.0) + entry.exposure()
    groups = {name: _stated(forecaster, name, exposed.get(name, 0.0), {}) for name in forecaster._book.groups}
    return _stated(forecaster, None, exposed.get(None, 0.0), groups)


def _stated(f: Any, group: Name | None, exposure: float, groups: dict[Name, Statement]) -> Statement:
    notes = []
    if not all(c.covers(f.c_range) for c in f.corrections if hasattr(c, "covers")):
        needed = f"[{-1 - f.c_range[1]:g}, {1 - f.c_range[0]:g}]"
        notes.append(f"the correction's range is narrower than {needed}: no guarantee")
    tally: Tally = f._tally if group is None else f._of(group)
    return Statement(
        correction=repr(f.corrections[0]),
        max_stake=f.max_stake,
        rounds=tally.rounds,
        open=(f._book.all if group is None else f._book.of(group)).open,
        voided=tally.voided,
        bets=tally.bets,
        turnover=tally.turnover,
        total_loss=tally.total,
        open_exposure=exposure,
        certificate=certificate_of(f, group),
        mean_loss_interval=tally.mean_loss_interval(),
        negative_c=tally.negative,
        notes=(*notes, *tally.notes()),
        groups=groups,
    )


def certificate_of(f: Any, group: Name | None = None) -> Certificate:
    """What can be lost at worst, in all or to a group."""
    one, book = f.corrections[0], f._book
    apart = isinstance(one, Grouped)
    if apart and group is None:
        names = book.groups if one.groups is None else one.groups
        found = together([certificate_of(f, name) for name in names], fixed=one.groups is not None)
    else:
        kept = book.groups.get(group, Exposure(book.lines)) if apart else book.all
        found = certify(
            _answering(f, group),
            max_stake=f.max_stake,
            c_range=f.c_range,
            rules=(f.one_sided, f.mode == "sound"),
            late=(kept.late_open, sum(kept.late_potential)),
            max_exposure=f.max_exposure,
        )
    return found if f.capital is None or group is not None else guarded(found, f.capital)


def limits_of(f: Any, open_: OpenForecast, most: float) -> list[list[float] | None]:
    """What each line may lose in all, in everyone's book and in each group's; None where nothing bounds it.

    A stake on a fresh forecast never meets it: where a line's bound is used up, c leaves nothing to win. But
    a stake may come long after its forecast, at a price that is no longer right.
    """
    apart = isinstance(f.corrections[0], Grouped)
    found: list[list[float] | None] = []
    for name in (None, *open_.groups):
        ones = _answering(f, name)
        if (apart and name is None) or not (isinstance(ones[0], Reserve) and unchanged(ones[0])):
            found.append(None)
            continue
        bounds = line_bounds(ones, f.max_stake, f.c_range, (f.one_sided, f.mode == "sound"))
        found.append([bound + most for bound in bounds])
    return found


def _answering(f: Any, group: Name | None) -> list[Any]:
    """The corrections, one per line, that answer for a group: its own where groups are apart."""
    apart = isinstance(f.corrections[0], Grouped)
    return [c.by_group.get(group, c.correction) for c in f.corrections] if apart else f.corrections
