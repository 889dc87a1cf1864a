"""A forecaster's state as plain data, and back. Every number is checked: a file may come from anywhere."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from makewhole import arguments, corrections, saving
from makewhole.corrections import BookCorrection, Proposal, Terms, for_book
from makewhole.corrections.features import Features
from makewhole.corrections.names import Name, read_name, read_names
from makewhole.forecasters import SparseRow
from makewhole.insured.book import (
    BLOCK,
    Exposure,
    Id,
    Line,
    OpenForecast,
    Stake,
    no_exposure,
    published,
)
from makewhole.insured.bookkeeping import Bookkeeping
from makewhole.insured.certificates import GroupBounds, base_bound, late_bound
from makewhole.insured.changes import CONCEDED, DAY, GROUPS, STANDING, TOTALS, Key
from makewhole.insured.lines import MOST_LEVELS, Account, LineBook
from makewhole.insured.many import opened
from makewhole.insured.thaw import Conceded, Day
from makewhole.insured.totals import Standing, Totals, read_totals

KIND, VERSION, VERSIONS = "makewhole.insured", 5, (2, 3, 4, 5)

Blocks = list[tuple[Stake, ...]]

# No c, λ or target is as large, whatever correction has made it.
_FAR = 1e12

# Kinds of feature rows that are saved under their name.
_ROWS = {"SparseRow": SparseRow}


# --- to plain data ----------------------------------------------------------------------------------------


def rule_state(rule: BookCorrection) -> dict[str, Any]:
    """A correction by the name of its class, and its settings."""
    made: Any = rule.rebuilt(rule.memories(), {})
    return {"type": corrections.name_of(made), "state": made.state()}


def items_of(state: Mapping[Key, Any], rules: list[BookCorrection], keep_x: bool) -> list[list[Any]]:
    """Every item as [key, value]; the features only where there is a base that will learn from them.

    Positions are left out: they are added up from the stakes when a book is read.
    """
    return [
        [list(key), None if value is None else _plain(key, value, rules, keep_x)]
        for key, value in state.items()
        if key[0] != "position"
    ]


def _plain(key: Key, value: Any, rules: list[BookCorrection], keep_x: bool) -> Any:
    kind = key[0]
    if kind == "memory":
        return rules[key[1]].part_state(key[2], value)
    if kind == "over":
        over: Any = rules[key[1]].over
        return over.part_state(None, value)
    if kind == "open":
        return _plain_open(opened(key[1], value), keep_x)
    if kind == "stakes":
        return list(map(_plain_stake, value))
    fields = {name: list(v) if isinstance(v, tuple) else v for name, v in value._asdict().items()}
    fields.pop("revision", None)  # it means something to this forecaster only
    return fields


def _plain_stake(stake: Stake) -> dict[str, Any]:
    return {
        "amounts": list(stake.amounts),
        "by": stake.by,
        "levels": list(stake.levels),
        "surcharges": list(stake.surcharges),
    }


def _plain_open(entry: OpenForecast, keep_x: bool) -> dict[str, Any]:
    id_, lines = entry.forecast.id, entry.lines
    if len(lines) < len(entry.said):  # classes at one price: files have a line for each of them
        lines = tuple(lines[0]._replace(mu=mu) for mu in entry.said)
    for line in lines:
        if type(line.proposal) is not Proposal:
            raise TypeError(
                f"proposals must be makewhole.Proposal to be saved while open; got {line.proposal!r}"
            )
    return {
        "number": entry.number,
        "x": saving.encode(f"x of open forecast {id_}", entry.x, _ROWS) if keep_x else None,
        "said": list(entry.said),
        "lines": [
            line._asdict() | {"proposal": list(line.proposal), "inner": line.inner and list(line.inner)}
            for line in lines
        ],
        "groups": list(entry.groups),
        "features": list(entry.groups.values) if isinstance(entry.groups, Features) else None,
        "bets": entry.bets,
        "stakes": list(map(_plain_stake, entry.stakes)),
    }


# --- from plain data --------------------------------------------------------------------------------------


def read_rule(state: dict[str, Any], kind: Any) -> Any:
    """The correction that `rule_state` was taken of; `kind` is its class, where it is not one of ours."""
    maker = corrections.by_name(state["type"])
    if maker is None and kind is None:
        raise ValueError(f"pass correction=, the class {state['type']!r}: it is not one of makewhole's")
    if maker is not None and kind is not None and kind is not maker:
        raise ValueError(f"correction must be {state['type']}, as in the file, or left out; got {kind!r}")
    chosen: Any = maker or kind
    return chosen.from_state(state["state"])


def restored_rules(objects: list[Any], terms: Terms, new: Bookkeeping) -> list[BookCorrection]:
    """The corrections of a saved book: as many as a new one has, or one per class.

    Earlier versions had one per class in exact mode, too, and such a book goes on as it was.
    """
    if len(objects) not in (len(new.rules), new.count):
        raise ValueError(f"there must be {new.count} corrections; got {len(objects)}")
    own = terms if len(objects) == new.count else new.terms
    rules = [for_book(one).in_mode(own) for one in objects]
    if not all(rule.resembles(rules[0]) for rule in rules):
        raise ValueError(f"all classes must have a correction of the same kind; got {rules!r}")
    return rules


def read_items(items: Iterable[Any], books: Bookkeeping) -> dict[Key, Any]:
    """The state that these items make up; a ValueError if no forecaster can have left them."""
    plain: dict[Key, Any] = {}
    for key, value in items:
        name = tuple(key)
        if name in plain:
            raise ValueError(f"items must have keys of their own; got {key!r} twice")
        if value is not None:
            plain[name] = value
    state: dict[Key, Any] = {}
    most_staked = books.count * books.max_stake
    for key, value in plain.items():
        if key[0] in ("memory", "over"):
            state[key] = _read_memory(key, value, books)
        elif key[0] == "totals":
            state["totals", _read_group(key[1])] = read_totals(value, most_staked, books.loss_range)
    entries = _read_open(plain, books)
    for entry, blocks in entries:
        state["open", entry.forecast.id] = entry
        for n, block in enumerate(blocks):
            state["stakes", entry.forecast.id, n] = block
    groups = [key[1] for key in state if key[0] == "totals"]
    for group in dict.fromkeys([None, *groups, *(g for entry, _ in entries for g in entry.groups)]):
        inside = [entry for entry, _ in entries if group is None or group in entry.groups]
        state.setdefault(("totals", group), Totals())
        state["standing", group] = _read_standing(plain.get(("standing", group)), inside, books)
        if books.counted:
            state["exposure", group] = _read_exposure(plain.get(("exposure", group)), inside, books)
    if books.apart:
        state[GROUPS] = _read_bounds(plain.get(GROUPS), state, books)
    following = arguments.whole("next", plain[STANDING]["next"], least=0)
    state[STANDING] = state[STANDING]._replace(next=following)
    if books.thaw is not None:
        state[CONCEDED] = _read_conceded(plain.get(CONCEDED), books, state[TOTALS])
        if DAY in plain and books.thaw.per_day is not None:
            number = arguments.whole("day", plain[DAY]["number"], least=0)
            most = state[CONCEDED].total
            state[DAY] = Day(number, arguments.within("before", plain[DAY]["before"], 0.0, most))
    if books.capital is not None:
        at_worst = state[TOTALS].loss + state[STANDING].at_risk
        arguments.within("total and at_risk", at_worst, -1e200, books.capital * (1.0 + 1e-9))
    if books.lines is not None:
        state.update(_read_lines(plain, entries, books.lines))
    known = {"memory", "over", "totals", "standing", "open", "stakes", "exposure", "groups"}
    known |= {"line", "position", "conceded", "day"}
    strange = [key for key in plain if key[0] not in known]
    if strange:
        raise ValueError(f"items must be ones that a forecaster has; got {strange!r}")
    return state


def _read_standing(
    saved: Mapping[str, Any] | None, inside: list[OpenForecast], books: Bookkeeping
) -> Standing:
    """What is open and at risk, which must be what the open forecasts add up to."""
    at_risk = float(sum(entry.at_risk for entry in inside))
    if saved is not None and saved["at_risk"] is not None:  # as it was added up, for the same bits
        at_risk = _agreeing("at_risk", saved["at_risk"], at_risk, books.max_stake)
    return Standing(len(inside), at_risk)


def _read_conceded(saved: Mapping[str, Any] | None, books: Bookkeeping, totals: Totals) -> Conceded:
    thaw: Any = books.thaw
    if saved is None:
        saved = Conceded()._asdict()
    profit = 0.0
    if thaw.share:  # at least what it is now, at most what so many forecasts can win
        most = 1e200 if totals.surprises is None else 1.0000001 * totals.rounds * books.loss_range
        profit = arguments.within("profit", saved.get("profit", 0.0), max(0.0, -totals.loss), most)
    most = thaw.allowed(totals.rounds, profit) * (1.0 + 1e-9)
    return Conceded(arguments.within("conceded", saved["total"], 0.0, most), profit)


def _read_lines(
    plain: dict[Key, Any], entries: list[tuple[OpenForecast, Blocks]], lines: LineBook
) -> dict[Key, Any]:
    """The accounts, and the positions, which are added up anew from the stakes on open forecasts."""
    state: dict[Key, Any] = {}
    for entry, blocks in entries:
        stakes = [*(stake for block in blocks for stake in block), *entry.stakes]
        lines.restore(state, entry, stakes)
    for key, value in plain.items():
        if key[0] == "line":
            name = read_name("line", key[1])
            total, low, at_risk = arguments.numbers("line", [value[n] for n in ("total", "low", "at_risk")])
            for one in (total, low):
                arguments.within("line", one, -1e100, 1e100)
            added: Account = state.get(("line", name), Account())
            risk = _agreeing("at_risk", at_risk, added.at_risk, lines.room)
            most = lines.lines.line_of(name) * (1.0 + 1e-9)
            arguments.within("line", float(total + low + at_risk), -1e200, most)
            state["line", name] = Account(float(total), float(low), risk, added.open)
    return state


def _read_group(name: Any) -> Name | None:
    return None if name is None else read_name("groups", name)


def _read_memory(key: Key, value: Any, books: Bookkeeping) -> Any:
    kind, line, part = key
    rule = books.rules[arguments.whole("line", line, least=0)]
    group = _read_group(part)
    if group is not None:
        rule.check_groups((group,))
    elif rule.apart:
        raise ValueError(f"every memory must belong to a group; got {list(key)!r}")
    if kind == "memory":
        return rule.read_part(group, value)
    if rule.over is None:
        raise ValueError(f"the correction is over no other; got {list(key)!r}")
    return rule.over.read_part(None, value)


def _read_open(plain: dict[Key, Any], books: Bookkeeping) -> list[tuple[OpenForecast, Blocks]]:
    """The open forecasts, oldest first, with the blocks of earlier stakes on each."""
    blocks: dict[Id, dict[int, tuple[Stake, ...]]] = {}
    for key, value in plain.items():
        if key[0] == "stakes":
            place = arguments.whole("block", key[2], least=0)
            read = tuple(_read_stake(stake, books) for stake in value)
            blocks.setdefault(read_name("id", key[1]), {})[place] = read
    entries = []
    for key, value in plain.items():
        if key[0] == "open":
            id_ = read_name("id", key[1])
            placed = blocks.pop(id_, {})
            if sorted(placed) != list(range(len(placed))):
                raise ValueError(f"blocks of stakes on forecast {id_!r} must be numbered from 0")
            ordered = [placed[n] for n in range(len(placed))]
            entries.append((_read_entry(id_, value, ordered, books), ordered))
    if blocks:
        raise ValueError(f"stakes must be on open forecasts; got some on {next(iter(blocks))!r}")
    return sorted(entries, key=lambda pair: pair[0].number)


def _read_stake(value: dict[str, Any], books: Bookkeeping) -> Stake:
    amounts, lines = arguments.numbers("stakes", value["amounts"]), books.count
    if amounts.shape != (lines,):
        raise ValueError(f"stakes must be {lines} numbers each; got {value['amounts']!r}")
    if books.one_price and not amounts.min() <= 0.0 <= amounts.max():
        raise ValueError(f"stakes at one price must not have one sign only; got {value['amounts']!r}")
    by, name = value["by"], None
    if by is not None:
        name = read_name("by", by)
    levels = read_names("levels", value.get("levels", ()))  # files before version 5 lack it
    if levels and (levels[-1] != name or len(levels) > MOST_LEVELS):
        rule = f"at most {MOST_LEVELS} names, the last that of who bets, {name!r}"
        raise ValueError(f"levels must be {rule}; got {levels!r}")
    surcharges = arguments.numbers("surcharges", value.get("surcharges") or [])
    if surcharges.shape not in {(0,), (lines,)} or (surcharges < 0).any():
        raise ValueError(f"surcharges must be {lines} numbers, none negative; got {value['surcharges']!r}")
    return Stake(tuple(amounts.tolist()), name, levels, tuple(surcharges.tolist()))


def _read_entry(id_: Id, saved: dict[str, Any], blocks: Blocks, books: Bookkeeping) -> OpenForecast:
    lines = tuple(_read_line(line) for line in saved["lines"])
    terms = books.terms
    if len(lines) != books.count:
        raise ValueError(f"forecast {id_!r} must have {books.count} lines; got {len(lines)}")
    if books.one_price and len({line[1:] for line in lines}) > 1:
        raise ValueError(f"all classes of forecast {id_!r} must have one price; got {saved['lines']!r}")
    groups = _read_groups(saved, books)
    rules = books.rules * books.count if books.one_price else books.rules
    for line, rule in zip(lines, rules, strict=True):
        _check_line(line, rule, terms)
    zero = (0.0,) * len(lines)
    said = arguments.probabilities("said", saved["said"])
    if said.shape != (len(lines),):
        raise ValueError(f"said must be {len(lines)} probabilities; got {saved['said']!r}")
    if books.one_price and said.tolist() != [line.mu for line in lines]:
        raise ValueError(f"said must be what was published at one price; got {saved['said']!r}")
    if books.one_price:
        lines = lines[:1]
    room = books.room(lines) if books.counts_room else None
    entry = OpenForecast(
        published(lines, id_, books.classes, terms.one_sided, tuple(said.tolist())),
        arguments.whole("number", saved["number"], least=0),
        saving.decode(saved["x"], _ROWS),
        tuple(said.tolist()),
        lines,
        groups,
        zero,
        zero,
        room=room,
    )
    latest = [_read_stake(stake, books) for stake in saved["stakes"]]
    stakes = [*(stake for block in blocks for stake in block), *latest]
    for stake in stakes:
        entry = entry.with_stake(stake, capped=books.capped, one_price=books.one_price)
    bets = arguments.whole("bets", saved["bets"], least=0)
    if bets != entry.bets or len(latest) != len(entry.stakes) or len(blocks) != entry.blocks:
        raise ValueError(f"forecast {id_!r} must have {bets} stakes; got {len(stakes)}")
    if max(entry.grosses) > books.max_stake * (1.0 + 1e-12) or (
        terms.one_sided and any(min(s.amounts) < 0 for s in stakes)
    ):
        raise ValueError(f"stakes on forecast {id_!r} must be ones that are taken, within {books.max_stake}")
    return entry


def _read_groups(saved: dict[str, Any], books: Bookkeeping) -> tuple[Name, ...]:
    """The groups of an open forecast, or its features; earlier files have none of these."""
    groups, values = read_names("groups", saved["groups"]), saved.get("features")
    if values is not None:
        return books.named(dict(zip(groups, values, strict=True)))
    return books.one.check_groups(groups) if books.grouped or groups else groups


def _read_line(saved: dict[str, Any]) -> Line:
    mu = float(arguments.probabilities("mu", saved["mu"]))
    c, origin, c_hat = arguments.numbers("lines", [saved["c"], saved["origin"], saved["c_hat"]]).tolist()
    inner = saved["inner"]
    return Line(
        mu,
        c,
        origin,
        _read_proposal(saved["proposal"]),
        c_hat,
        None if inner is None else _read_proposal(inner),
    )


def _read_proposal(saved: list[Any]) -> Proposal:
    lam, cell, split = saved
    if not isinstance(split, bool):
        raise ValueError(f"a proposal must say whether it is split; got {saved!r}")
    return Proposal(
        float(arguments.numbers("proposal", lam)), arguments.whole("proposal", cell, least=0), split
    )


def _check_line(line: Line, rule: BookCorrection, terms: Terms) -> None:
    """Refuse a line that a forecaster with these terms and this correction cannot have published."""
    if terms.one_sided and line.c != 0:
        raise ValueError(f"c must be 0 on a one-sided forecast; got {line.c}")
    if terms.sound and not terms.one_sided and not 0 <= line.c <= 0.5:
        raise ValueError(f"c must lie in [0, 0.5] in sound mode; got {line.c}")
    if terms.sound and not terms.one_sided and not line.c <= line.mu <= 1.0 - line.c:
        raise ValueError(f"mu must lie in [c, 1 - c] in sound mode; got {line.mu} with c = {line.c}")
    for name in ("c", "origin", "c_hat"):
        arguments.within(name, getattr(line, name), -_FAR, _FAR)
    arguments.within("λ", line.proposal.lam, -_FAR, _FAR)
    if (line.inner is None) != (rule.over is None):
        raise ValueError("an open forecast must have been made with the corrections in the file")
    rule.check(line.proposal)
    if rule.over is not None and line.inner is not None:
        rule.over.check(line.inner)


def _read_exposure(
    saved: Mapping[str, Any] | None, inside: list[OpenForecast], books: Bookkeeping
) -> Exposure:
    """What the open forecasts can lose, added up anew; what was saved must agree, but for rounding."""
    lines = len(books.rules)
    exposure = no_exposure(lines)
    for count, entry in enumerate(inside, 1):
        exposure = exposure.entered(entry.room, count).restaked(entry._replace(exposed=None), entry)
    if saved is None:
        return exposure
    names = ("lost", "low", "late_potential")
    lost, low, late = (arguments.numbers("exposure", saved[name]) for name in names)
    late_open = max(exposure.late_open, arguments.whole("late_open", saved["late_open"], least=0, most=2**53))
    widest = 2**53 * (2.0 + books.terms.c_range[1] - books.terms.c_range[0]) * books.max_stake
    if max(np.abs([*lost, *low, *late]), default=0.0) > widest:
        raise ValueError(f"exposure must be one that a book can have; got {saved!r}")
    if {lost.shape, low.shape, late.shape} != {(lines,)} or (late < 0).any():
        raise ValueError(f"exposure must hold {lines} numbers, none negative; got {saved!r}")
    slack = 1e-9 * books.max_stake  # what is open now may be a rounding more than it was
    pairs = zip(late.tolist(), exposure.late_potential, strict=True)
    most = tuple(was if was >= now - slack else now for was, now in pairs)
    running: dict[str, Any] = {"staked": exposure.staked, "potential": exposure.potential}
    for name, value in running.items():
        if saved.get(name) is not None:  # as it was added up, for the same bits
            running[name] = _agreeing(name, saved[name], value, books.max_stake)
    sums = {"lost": tuple(lost.tolist()), "low": tuple(low.tolist())}
    return exposure._replace(**sums, late_open=late_open, late_potential=most, **running)


def _agreeing(name: str, saved: Any, value: Any, scale: float) -> Any:
    given = arguments.numbers(name, saved).tolist()
    kept = tuple(given) if isinstance(value, tuple) else given
    pairs: Any = zip(kept, value, strict=True) if isinstance(value, tuple) else [(kept, value)]
    if not all(math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9 * scale) for a, b in pairs):
        raise ValueError(f"{name} must be what the open forecasts add up to, {value!r}; got {saved!r}")
    return kept


def _read_bounds(saved: Mapping[str, Any] | None, state: dict[Key, Any], books: Bookkeeping) -> GroupBounds:
    """The bounds of all groups together, added up anew; what was saved must agree, but for rounding."""
    terms, nothing = books.terms, books.nothing_open
    begun = [key[1] for key in state if key[0] == "totals" and key[1] is not None]
    bounds = GroupBounds()
    for name in begun if books.one.all_groups is None else books.one.all_groups:
        bounds = bounds.begun(base_bound(books.answering(name), terms))
    for name in begun if books.counted else []:
        rules = books.answering(name)
        late = late_bound(rules, terms, state["exposure", name])
        bounds = bounds.later(late_bound(rules, terms, nothing), late)
    if saved is None:
        return bounds
    scale = books.max_stake * (1 + len(begun))
    sums = {name: _agreeing(name, saved[name], getattr(bounds, name), scale) for name in ("base", "late")}
    return bounds._replace(**sums)


# --- files of earlier versions ----------------------------------------------------------------------------


def upgrade(version: int, content: Any) -> Any:
    """What a file of an earlier version says, as one of this version would say it."""
    if version == 2:
        content = _from_2(content)
    return _from_3(content) if version < 4 else content


def _from_3(content: dict[str, Any]) -> dict[str, Any]:
    """Version 3 kept every stake as an item, and sums without what rounding had cut off from them."""
    settings = content["settings"]
    items: list[list[Any]] = []
    stakes: dict[Any, dict[int, Any]] = {}
    low, high = settings["c_range"]
    loss_range = (settings["classes"] or 1) * settings["max_stake"] * (2.0 + high - low)
    found = {tuple(key): value for key, value in content["items"]}
    if len(found) < len(content["items"]):
        raise ValueError("items must have keys of their own; some occur twice")
    following = found.pop(("next",))
    for key in [key for key in found if key[0] == "stake"]:
        stakes.setdefault(key[1], {})[key[2]] = found.pop(key)
    for key, value in found.items():
        if key[0] == "totals":
            watched = value.pop("watched")
            spread = None if watched is None else watched["variance"] * loss_range**2
            value |= {"low": 0.0, "surprises": spread}
        elif key[0] == "exposure":
            value["low"] = [0.0] * len(value["lost"])
        elif key[0] == "open":
            placed = stakes.pop(key[1], {})
            if sorted(placed) != list(range(value["bets"])):
                raise ValueError(f"forecast {key[1]!r} must have {value['bets']} stakes; got {len(placed)}")
            ordered = [placed[n] for n in range(len(placed))]
            full = max(0, len(ordered) - 1) // BLOCK
            items += [[["stakes", key[1], n], ordered[BLOCK * n : BLOCK * (n + 1)]] for n in range(full)]
            value["stakes"] = ordered[BLOCK * full :]
        items.append([list(key), value])
    if stakes:
        raise ValueError(f"stakes must be on open forecasts; got some on {next(iter(stakes))!r}")
    standing = found.get(("standing", None))
    if standing is None:
        standing = {"at_risk": None}
        items.append([["standing", None], standing])
    standing["next"] = following
    return content | {"items": items}


def _from_2(content: dict[str, Any]) -> dict[str, Any]:
    """Version 2 kept corrections with what they had learned, and stakes inside their forecast."""
    items: list[list[Any]] = [[["next"], content["next"]]]
    items.append([["totals", None], _totals_from_2(content["tally"])])
    items.append([["exposure", None], _exposure_from_2(content["late"])])
    for name, tally, late in content["groups"]:
        items.append([["totals", name], _totals_from_2(tally)])
        items.append([["exposure", name], _exposure_from_2(late)])
    for number, entry in enumerate(content["open"]):
        id_ = arguments.whole("id", entry["id"], least=0)
        if id_ >= content["next"]:
            raise ValueError(f"open forecasts must have numbers below {content['next']}; got {id_}")
        lines = []
        for mu, c, origin, proposal, inner in entry["lines"]:
            below = {"c_hat": 0.0, "inner": None} if inner is None else {"c_hat": inner[0], "inner": inner[1]}
            lines.append({"mu": mu, "c": c, "origin": origin, "proposal": proposal} | below)
        kept = {name: entry[name] for name in ("x", "said", "groups")}
        items.append([["open", id_], kept | {"number": number, "lines": lines, "bets": len(entry["stakes"])}])
        for place, amounts in enumerate(entry["stakes"]):
            items.append([["stake", id_, place], {"amounts": amounts, "by": None}])
    return {name: content[name] for name in ("settings", "corrections", "base")} | {"items": items}


def _totals_from_2(tally: dict[str, Any]) -> dict[str, Any]:
    counts = dict(zip(("rounds", "voided", "bets", "negative", "idle"), tally["counts"], strict=True))
    turnover, total = tally["sums"]
    return counts | {"turnover": turnover, "total": total, "watched": tally["monitor"]}


def _exposure_from_2(late: list[Any]) -> dict[str, Any]:
    return dict(zip(("late_open", "late_potential", "lost"), late, strict=True))
