"""A forecaster's book as plain data, and back. Every number is checked: a file may come from anywhere."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from makewhole import arguments, corrections, rules, saving
from makewhole.corrections import BookCorrection, Proposal, Terms, for_book
from makewhole.corrections.features import Features
from makewhole.corrections.names import Name, read_name, read_names
from makewhole.forecasters import SparseRow
from makewhole.insured.book import BetBook
from makewhole.insured.certificates import GroupBounds, base_bound, late_bound
from makewhole.insured.lines import MOST_LEVELS, LineBook
from makewhole.insured.records import (
    AnyLeg,
    Leg,
    Open,
    Scope,
    SharedLeg,
    Stake,
    add,
    worst_loss,
)
from makewhole.insured.totals import read_totals

KIND, VERSION = "makewhole.insured", 7

# No c, λ or target is this large, regardless of the correction.
_FAR = 1e12

# What a book as plain data consists of.
_PARTS = (
    *("serial", "next_id", "everyone", "groups", "memories", "inner_memories"),
    *("open", "accounts", "thaw", "bounds"),
)

# What is saved of an account; the rest is added up from the open forecasts.
_ACCOUNT = ("total", "low", "at_risk", "thawed", "since")

# Kinds of feature rows that are saved under their name.
_ROWS = {"SparseRow": SparseRow}


# --- to plain data ----------------------------------------------------------------------------------------


def plain_correction(correction: BookCorrection) -> dict[str, Any]:
    """A correction by the name of its class, and its settings."""
    made: Any = correction.rebuilt(correction.memories(), {})
    return {"type": corrections.name_of(made), "state": made.state()}


def plain_book(book: BetBook, *, keep_x: bool) -> dict[str, Any]:
    """All records of a book; features only if there is a base that will learn from them.

    The stakes of each name on an open forecast are left out: they are added up when a book is read.
    """
    accounts = {} if book.lines is None else book.lines.accounts
    return {
        "serial": book.serial,
        "next_id": book.next_id,
        "everyone": _plain_scope(book.everyone),
        "groups": [[name, _plain_scope(scope)] for name, scope in book.groups.items()],
        "memories": [
            [k, part, book.corrections[k].part_state(part, memory)]
            for (k, part), memory in book.memories.own.items()
        ],
        "inner_memories": [
            [k, part, _inner(book, k).part_state(None, memory)]
            for (k, part), memory in book.memories.inner.items()
        ],
        "open": [_plain_open(entry, keep_x) for entry in book.entries()],
        "accounts": [
            [name, {part: getattr(one, part) for part in _ACCOUNT}] for name, one in accounts.items()
        ],
        "thaw": _fields(book.thawing),
        "bounds": book.bounds._asdict(),
    }


def _inner(book: BetBook, k: int) -> BookCorrection:
    inner = book.corrections[k].over
    if inner is None:
        raise ValueError(f"correction {k} is over no other")
    return inner


def _fields(record: Any) -> dict[str, Any]:
    """The changing fields of a record, by name."""
    values = zip(record.changing, record.values(), strict=True)
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values}


def _plain_scope(scope: Scope) -> dict[str, Any]:
    return _fields(scope) | {"totals": _fields(scope.totals), "legs": _fields(scope.legs)}


def _plain_open(entry: Open, keep_x: bool) -> dict[str, Any]:
    for leg in entry.legs:
        if type(leg.proposal) is not Proposal:
            raise TypeError(
                "proposals must be makewhole.corrections.Proposal to be saved while open; "
                f"got {leg.proposal!r}"
            )
    return {
        "id": entry.id,
        "number": entry.number,
        "x": saving.encode(f"x of open forecast {entry.id}", entry.x, _ROWS) if keep_x else None,
        "legs": list(map(_plain_leg, entry.legs)),
        "groups": list(entry.groups),
        "features": list(entry.groups.values) if isinstance(entry.groups, Features) else None,
        "stakes": list(map(_plain_stake, entry.stakes)),
    }


def _plain_leg(leg: AnyLeg) -> dict[str, Any]:
    if isinstance(leg, SharedLeg):
        said: dict[str, Any] = {"mus": list(leg.mus), "c_hat": leg.c_hat}
    else:
        said = {"mu": leg.mu, "mu_hat": leg.mu_hat, "c_hat": leg.c_hat}
    proposals = {"proposal": list(leg.proposal), "inner": leg.inner and list(leg.inner)}
    return said | {"c": leg.c, "origin": leg.origin} | proposals


def _plain_stake(stake: Stake) -> dict[str, Any]:
    amounts = [list(b) if isinstance(b, tuple) else b for b in stake.amounts]
    named = {"by": stake.by, "levels": list(stake.levels)}
    return {"amounts": amounts} | named | {"surcharges": list(stake.surcharges)}


# --- from plain data --------------------------------------------------------------------------------------


def read_correction(state: dict[str, Any], kind: Any) -> Any:
    """The correction that `plain_correction` was given; `kind` is its class, if it is a user's own."""
    maker = corrections.by_name(state["type"])
    if maker is None and kind is None:
        raise ValueError(f"pass correction=, the class {state['type']!r}: it is not one of makewhole's")
    if maker is not None and kind is not None and kind is not maker:
        raise ValueError(f"correction must be {state['type']}, as in the file, or left out; got {kind!r}")
    chosen: Any = maker or kind
    return chosen.from_state(state["state"])


def restored_corrections(objects: list[Any], terms: Terms, new: BetBook) -> list[BookCorrection]:
    """The corrections of a saved book: as many as a new one has."""
    if len(objects) != len(new.corrections):
        raise ValueError(f"there must be {len(new.corrections)} corrections; got {len(objects)}")
    made = [for_book(one).in_mode(new.terms if new.one_price else terms) for one in objects]
    if not all(one.resembles(made[0]) for one in made):
        raise ValueError(f"all classes must have a correction of the same kind; got {made!r}")
    return made


def read_book(plain: Mapping[str, Any], book: BetBook) -> None:
    """Fill an empty book with what `plain_book` returned; a ValueError if no forecaster can have left it."""
    strange = sorted(set(plain) - set(_PARTS))
    if strange:
        raise ValueError(f"records must be ones that a book has; got {', '.join(map(str, strange))}")
    book.serial = arguments.whole("serial", plain["serial"], least=0)
    book.next_id = arguments.whole("next_id", plain["next_id"], least=0)
    for name in ("memories", "inner_memories"):
        if len({(k, part) for k, part, _ in plain[name]}) < len(plain[name]):
            raise ValueError(f"{name} must each be of another correction or group; some are of the same")
    for k, part, value in plain["memories"]:
        _read_memory(book, book.memories.own, k, part, value)
    for k, part, value in plain["inner_memories"]:
        _read_memory(book, book.memories.inner, k, part, value)
    if book.lines is not None:
        for name, _ in plain["accounts"]:
            book.lines.open_account(read_name("line", name))  # in the order in which they were made
        if len(book.lines.accounts) < len(plain["accounts"]):
            raise ValueError("accounts must have different names; some have the same")
    for saved in plain["open"]:
        entry = _read_open(saved, book)
        if entry.id in book.opens:
            raise ValueError(f"open forecasts must have different ids; got {entry.id!r} twice")
        if not 1 <= entry.number <= book.serial:
            raise ValueError(f"number must lie in [1, {book.serial}]; got {entry.number}")
        book.opens[entry.id] = entry
    entries = book.entries()
    if len({entry.number for entry in entries}) < len(entries):
        raise ValueError("open forecasts must have different numbers; some have the same")
    book.everyone = _read_scope(plain["everyone"], entries, book)
    for name, saved in plain["groups"]:
        group = read_name("groups", name)
        book.corrections[0].check_groups((group,))
        inside = [entry for entry in entries if group in entry.groups]
        book.groups[group] = _read_scope(saved, inside, book)
    if len(book.groups) < len(plain["groups"]) or not {g for e in entries for g in e.groups} <= set(
        book.groups
    ):
        raise ValueError("groups must be those of the forecasts, each once")
    if book.apart:
        book.bounds = _read_bounds(plain["bounds"], book)
    _read_thaw(plain["thaw"], book)
    if book.capital is not None:
        arguments.within("total and at_risk", book.committed, -1e200, book.capital * (1.0 + 1e-9))
    if book.lines is not None:
        _read_accounts(plain["accounts"], book.lines, book.everyone.totals.rounds)
    book.journal.clear()


def _read_memory(book: BetBook, memories: dict[Any, Any], k: Any, part: Any, value: Any) -> None:
    correction = book.corrections[arguments.whole("memory", k, least=0, most=len(book.corrections) - 1)]
    group = None if part is None else read_name("groups", part)
    if group is not None:
        correction.check_groups((group,))
    elif correction.apart:
        raise ValueError(f"every memory must belong to a group; got {[k, part]!r}")
    if memories is book.memories.own:
        memories[k, group] = correction.read_part(group, value)
    else:
        memories[k, group] = _inner(book, k).read_part(None, value)


def _read_open(saved: Mapping[str, Any], book: BetBook) -> Open:
    id_ = read_name("id", saved["id"])
    legs = [_read_leg(leg, book) for leg in saved["legs"]]
    if len(legs) != len(book.corrections):
        raise ValueError(f"forecast {id_!r} must have {len(book.corrections)} legs; got {len(legs)}")
    for leg, correction in zip(legs, book.corrections, strict=True):
        _check_leg(leg, correction, book.terms)
    number, x = arguments.whole("number", saved["number"], least=0), saving.decode(saved["x"], _ROWS)
    entry = Open(id_, number, x, legs, _read_groups(saved, book), book.one_sided)
    _ = entry.forecast  # raises unless its numbers are those of a forecast
    for stake in saved["stakes"]:
        _restore_stake(entry, _read_stake(stake, book), book)
    grosses = [gross for leg in legs for gross in leg.gross_stakes()]
    if max(grosses) > book.max_stake * (1.0 + 1e-12):
        raise ValueError(f"stakes on forecast {id_!r} must be ones that are taken, within {book.max_stake}")
    return entry


def _restore_stake(entry: Open, stake: Stake, book: BetBook) -> None:
    """Restore a stake on a forecast."""
    for k, leg in enumerate(entry.legs):
        leg.add(book.journal, stake.amounts[k], stake.surcharges[k] if stake.surcharges else 0.0)
    entry.at_risk = worst_loss(entry.legs)
    if book.capped:
        entry.exposed = tuple(leg.worst_loss() for leg in entry.legs)
    if book.lines is not None:
        book.lines.enter(entry, stake, book.lines.limits(stake.levels), 0, checked=False)
    entry.stakes.append(stake)


def _read_leg(saved: Mapping[str, Any], book: BetBook) -> AnyLeg:
    c, origin, c_hat = arguments.numbers("legs", [saved["c"], saved["origin"], saved["c_hat"]]).tolist()
    proposal = _read_proposal(saved["proposal"])
    inner = None if saved["inner"] is None else _read_proposal(saved["inner"])
    if not book.one_price:
        mu, mu_hat = arguments.probabilities("mu", [saved["mu"], saved["mu_hat"]]).tolist()
        room = rules.room(mu, c, book.one_sided, book.max_stake) if book.counts_room else 0.0
        return Leg(mu, c, origin, proposal, mu_hat, c_hat, inner, room)
    mus = arguments.probabilities("mus", saved["mus"])
    if mus.shape != (book.count,):
        raise ValueError(f"mus must be {book.count} probabilities; got {saved['mus']!r}")
    room = rules.shared_room(c, book.cap) if book.counts_room else 0.0
    return SharedLeg(tuple(mus.tolist()), c, origin, proposal, c_hat, inner, room)


def _read_proposal(saved: list[Any]) -> Proposal:
    lam, cell, split = saved
    if not isinstance(split, bool):
        raise ValueError(f"a proposal must say whether it is split; got {saved!r}")
    return Proposal(
        float(arguments.numbers("proposal", lam)), arguments.whole("proposal", cell, least=0), split
    )


def _check_leg(leg: AnyLeg, correction: BookCorrection, terms: Terms) -> None:
    """Refuse a leg that a forecaster with these terms and this correction cannot have published."""
    if terms.one_sided and leg.c != 0:
        raise ValueError(f"c must be 0 on a one-sided forecast; got {leg.c}")
    if terms.sound and not terms.one_sided and isinstance(leg, Leg):
        if not 0 <= leg.c <= 0.5:
            raise ValueError(f"c must lie in [0, 0.5] in sound mode; got {leg.c}")
        if not leg.c <= leg.mu <= 1.0 - leg.c:
            raise ValueError(f"mu must lie in [c, 1 - c] in sound mode; got {leg.mu} with c = {leg.c}")
    for name in ("c", "origin", "c_hat"):
        arguments.within(name, getattr(leg, name), -_FAR, _FAR)
    arguments.within("λ", leg.proposal.lam, -_FAR, _FAR)
    if (leg.inner is None) != (correction.over is None):
        raise ValueError("an open forecast must have been made with the corrections in the file")
    correction.check(leg.proposal)
    if correction.over is not None and leg.inner is not None:
        correction.over.check(leg.inner)


def _read_stake(value: Mapping[str, Any], book: BetBook) -> Stake:
    given = value["amounts"][0] if book.one_price else value["amounts"]
    numbers, count = arguments.numbers("stakes", given), book.count
    if numbers.shape != (count,) or (book.one_price and len(value["amounts"]) != 1):
        raise ValueError(f"stakes must be {count} numbers each; got {value['amounts']!r}")
    if book.one_price and not numbers.min() <= 0.0 <= numbers.max():
        raise ValueError(f"stakes at one price must not have one sign only; got {given!r}")
    if book.one_sided and numbers.min() < 0:
        raise ValueError(f"stakes must not be negative on a one-sided forecast; got {given!r}")
    amounts: tuple[Any, ...] = tuple(numbers.tolist())
    name = None if value["by"] is None else read_name("by", value["by"])
    levels = read_names("levels", value["levels"])
    if levels and (levels[-1] != name or len(levels) > MOST_LEVELS):
        wanted = f"at most {MOST_LEVELS} names, the last that of who bets, {name!r}"
        raise ValueError(f"levels must be {wanted}; got {levels!r}")
    surcharges = arguments.numbers("surcharges", value["surcharges"])
    if surcharges.shape not in {(0,), (len(book.corrections),)} or (surcharges < 0).any():
        wanted = f"{len(book.corrections)} numbers, none negative"
        raise ValueError(f"surcharges must be {wanted}; got {value['surcharges']!r}")
    return Stake((amounts,) if book.one_price else amounts, name, levels, tuple(surcharges.tolist()))


def _read_groups(saved: Mapping[str, Any], book: BetBook) -> tuple[Name, ...]:
    """The groups of an open forecast, or its features."""
    groups, values = read_names("groups", saved["groups"]), saved["features"]
    if values is not None:
        return book.read_groups(dict(zip(groups, values, strict=True)))
    return book.corrections[0].check_groups(groups) if book.grouped or groups else groups


def _read_scope(saved: Mapping[str, Any], inside: list[Open], book: BetBook) -> Scope:
    """Sums over these open forecasts and those settled; what was saved must agree, except for rounding."""
    most_staked = book.count * book.max_stake
    scope = Scope(len(book.corrections), read_totals(saved["totals"], most_staked, book.loss_range))
    for entry in inside:
        scope.enter(book.journal, entry.legs, book.counts_room)
        scope.at_risk += entry.at_risk
        if entry.exposed is not None:
            scope.legs.staked = add(scope.legs.staked, entry.exposed)
    if saved["open"] != scope.open:
        raise ValueError(f"open must be the number of open forecasts, {scope.open}; got {saved['open']!r}")
    for name in ("at_risk", "potential"):
        setattr(scope, name, _agreeing(name, saved[name], getattr(scope, name), book.max_stake))
    late_open = arguments.whole("late_open", saved["late_open"], least=0, most=2**53)
    scope.late_open = max(scope.late_open, late_open)
    late = _read_sums("late_potential", saved["late_potential"], book)
    slack = 1e-9 * book.max_stake  # what is open now may exceed that by a rounding error
    pairs = zip(late, scope.late_potential, strict=True)
    scope.late_potential = tuple(was if was >= now - slack else now for was, now in pairs)
    legs = scope.legs
    legs.staked = _agreeing("staked", saved["legs"]["staked"], legs.staked, book.max_stake)
    legs.lost = _read_sums("lost", saved["legs"]["lost"], book, negative=True)
    legs.low = _read_sums("low", saved["legs"]["low"], book, negative=True)
    return scope


def _read_sums(name: str, saved: Any, book: BetBook, *, negative: bool = False) -> tuple[float, ...]:
    """A number per correction that a book can have added up."""
    numbers, count = arguments.numbers(name, saved), len(book.corrections)
    if numbers.shape != (count,) or (not negative and (numbers < 0).any()):
        raise ValueError(f"{name} must hold {count} numbers, none negative; got {saved!r}")
    widest = 2**53 * (2.0 + book.terms.c_range[1] - book.terms.c_range[0]) * book.max_stake
    if np.abs(numbers).max() > widest:
        raise ValueError(f"{name} must be sums that a book can have; got {saved!r}")
    return tuple(numbers.tolist())


def _agreeing(name: str, saved: Any, value: Any, scale: float) -> Any:
    """The saved number, for identical results, if it equals the value except for rounding."""
    given = arguments.numbers(name, saved).tolist()
    kept = tuple(given) if isinstance(value, tuple) else given
    pairs: Any = zip(kept, value, strict=True) if isinstance(value, tuple) else [(kept, value)]
    if not all(math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9 * scale) for a, b in pairs):
        raise ValueError(f"{name} must be what the open forecasts add up to, {value!r}; got {saved!r}")
    return kept


def _read_bounds(saved: Mapping[str, Any], book: BetBook) -> GroupBounds:
    """The bounds of all groups together, added up anew; what was saved must agree, except for rounding."""
    terms, nothing, known = book.terms, Scope(len(book.corrections)), book.corrections[0].all_groups
    bounds = GroupBounds()
    for name in book.groups if known is None else known:
        bounds = bounds.begun(base_bound(book.answering(name), terms))
    for name, scope in book.groups.items() if book.counted else ():
        answering = book.answering(name)
        late = late_bound(answering, terms, scope)
        bounds = bounds.later(late_bound(answering, terms, nothing), late)
    scale = book.max_stake * (1 + len(book.groups))
    sums = {name: _agreeing(name, saved[name], getattr(bounds, name), scale) for name in ("base", "late")}
    return bounds._replace(**sums)


def _read_thaw(saved: Mapping[str, Any], book: BetBook) -> None:
    thaw, state, totals = book.thaw, book.thawing, book.everyone.totals
    if thaw is None:
        return
    if thaw.share:  # at least what it is now, at most what this many forecasts can win
        most = 1e200 if totals.surprises is None else 1.0000001 * totals.rounds * book.loss_range
        state.profit = arguments.within("profit", saved["profit"], max(0.0, -totals.loss), most)
    most = thaw.allowed(totals.rounds, state.profit) * (1.0 + 1e-9)
    state.conceded = arguments.within("conceded", saved["conceded"], 0.0, most)
    if saved["day"] is not None and thaw.per_day is not None:
        state.day = arguments.whole("day", saved["day"], least=0)
        state.before = arguments.within("before", saved["before"], 0.0, state.conceded)


def _read_accounts(saved: list[Any], lines: LineBook, rounds: int) -> None:
    """The accounts; what open bets can take was added up from the stakes."""
    for name, value in saved:
        read = read_name("line", name)
        account, limit = lines.accounts[read], lines.limit_of(read, last=True)
        total, low, at_risk = arguments.numbers("line", [value[n] for n in ("total", "low", "at_risk")])
        for one in (total, low):
            arguments.within("line", one, -1e100, 1e100)
        account.at_risk = _agreeing("at_risk", at_risk, account.at_risk, limit.room)
        account.total, account.low = float(total), float(low)
        account.thawed = arguments.within("thawed", value["thawed"], 0.0, lines.thaw * limit.line)
        account.since = arguments.whole("since", value["since"], least=0, most=rounds)
