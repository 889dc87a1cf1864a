"""The settings of a forecaster, read and completed: defaults depend on the other arguments."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Literal, NamedTuple

from makewhole import arguments
from makewhole.corrections import Barrier, BookCorrection, StandardRegret, Terms, for_book
from makewhole.corrections.certificate import read_terms
from makewhole.insured.certificates import shared_terms
from makewhole.insured.lines import Lines
from makewhole.insured.thaw import Thaw

Mode = Literal["exact", "sound"]
# Leave the choice to makewhole.
Default = Literal["default"]

# Every class has its own correction.
_MOST_CLASSES = 100_000

# With a capital and no correction: the least price, and the share of the capital that is kept for a thaw;
# and, with any correction, the share that a named customer may win.
_SPREAD, _FOR_THAW, _LINE = 0.02, 0.2, 0.04
# Without either: what the default correction's thaw may concede, in caps times the square root of the rounds.
_ROOT = 2.0


# The mappings of `Lines` from names: as plain data they are lists, because a name may be a number.
_BY_NAME = ("of", "shares")


class Settings(NamedTuple):
    """The arguments of `InsuredForecaster`, with every default filled in."""

    terms: Terms
    mode: Mode
    classes: int | None
    max_exposure: float | None
    capital: float | None
    graded: bool
    lines: Lines | None
    thaw: Thaw | None
    stop: bool
    corrections: list[BookCorrection]


def read_settings(
    correction: Any,
    *,
    mode: Mode | None,
    max_stake: Any,
    c_range: Any,
    one_sided: Any,
    max_exposure: Any,
    capital: Any,
    classes: Any,
    graded: Any,
    lines: Any,
    thaw: Any,
    stop: Any,
) -> Settings:
    """Read the arguments of `InsuredForecaster`; a ValueError or TypeError if they do not fit."""
    if mode not in (None, "exact", "sound"):
        raise ValueError(f"mode must be 'exact' or 'sound'; got {mode!r}")
    rule = None if correction is None else for_book(copy.deepcopy(correction))
    given = capital
    mode, capital = choose_mode(rule, mode, capital, thaw)
    if capital is not None and mode == "exact" and not one_sided:
        whose = f", and {rule!r} has a capital" if given is None else ""
        raise ValueError(f"capital can be guarded in sound mode only, or one-sided; got mode='exact'{whose}")
    classes = None if classes is None else arguments.whole("classes", classes, least=2, most=_MOST_CLASSES)
    count = classes or 1
    terms = read_terms(max_stake, c_range, sound=mode == "sound", one_sided=bool(one_sided), lines=count)
    if not isinstance(graded, bool):
        raise TypeError(f"graded must be True or False; got {graded!r}")
    if graded and classes is not None:
        raise ValueError(f"graded outcomes must have classes=None; got classes={classes!r}")
    exposure = None if max_exposure is None else arguments.positive("max_exposure", max_exposure)
    capital = None if capital is None else read_capital(capital, terms.max_stake)
    own_spread = rule is None or rule.has_spread or terms.one_sided
    chosen = _read_lines(lines, capital, 0.0 if own_spread else _SPREAD)
    thawing = _read_thaw(thaw, capital, terms.max_stake * count, chose=rule is None)
    if rule is None:
        rule = _default_rule(capital, thawing)
    if thawing is not None and thawing.share:
        _check_share(rule, terms, capital)
    # In exact mode all classes have one price, and so one correction.
    rules = new_rules(rule, terms, 1 if mode == "exact" and not terms.one_sided else count, classes)
    stopping = _read_stop(stop, capital, chosen)
    return Settings(terms, mode, classes, exposure, capital, graded, chosen, thawing, stopping, rules)


def new_rules(rule: BookCorrection, terms: Terms, count: int, classes: int | None) -> list[BookCorrection]:
    """`count` copies of a correction, for new books: one per class, or one that all classes share."""
    own = terms if count == (classes or 1) else shared_terms(terms, classes or 1)
    return [rule.in_mode(own).begun()] * count


def choose_mode(rule: BookCorrection | None, mode: Mode | None, capital: Any, thaw: Any) -> tuple[Mode, Any]:
    """The mode, and the capital if there is one: by default that of the correction, and what a thaw adds."""
    if capital is None and rule is not None and rule.capital is not None:
        capital = rule.capital + (thaw.budget if isinstance(thaw, Thaw) else 0.0)
    if mode is None:
        made_for_one = capital is not None or (rule is not None and rule.capital_each is not None)
        mode = "sound" if made_for_one else "exact"
    return mode, capital


def plain_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings as plain data."""
    lines, thaw = settings["lines"], settings["thaw"]
    return settings | {
        "c_range": list(settings["c_range"]),
        "lines": lines
        and asdict(lines) | {part: list(map(list, getattr(lines, part).items())) for part in _BY_NAME},
        "thaw": thaw and asdict(thaw),
    }


def settings_from(plain: Mapping[str, Any]) -> dict[str, Any]:
    """The settings for which `plain_settings` returned this."""
    lines, thaw = plain["lines"], plain["thaw"]
    return dict(plain) | {
        "c_range": tuple(plain["c_range"]),
        "lines": None
        if lines is None
        else Lines(**{**lines, **{part: dict(map(tuple, lines[part])) for part in _BY_NAME}}),
        "thaw": None if thaw is None else Thaw(**thaw),
    }


def read_capital(capital: Any, max_stake: float) -> float:
    """The most that may be lost; a ValueError if it is less than a millionth of the cap."""
    given, least = arguments.within("capital", capital, 0.0, 1e100), 1e-6 * max_stake
    if given < least:
        raise ValueError(f"capital must be at least {least:g}, a millionth of max_stake; got {capital!r}")
    return given


def default_line(capital: float) -> float:
    """The most that a customer can win from a book with this capital, unless its owner says otherwise."""
    return _LINE * capital


def _read_lines(lines: Any, capital: float | None, spread: float) -> Lines | None:
    if isinstance(lines, str) and lines == "default":
        return None if capital is None else Lines(each=default_line(capital), spread=spread)
    if lines is not None and not isinstance(lines, Lines):
        raise TypeError(f"lines must be makewhole.Lines(...), or None for none; got {lines!r}")
    return lines


def _read_thaw(thaw: Any, capital: float | None, most_staked: float, *, chose: bool) -> Thaw | None:
    """`chose` says whether the correction is makewhole's choice: a thaw makes a certificate larger.

    `most_staked` is the most that can be staked on one forecast, over all its classes.
    """
    if isinstance(thaw, str) and thaw == "default":
        if not chose:
            return None
        return Thaw(root=_ROOT * most_staked) if capital is None else Thaw(budget=_FOR_THAW * capital)
    if thaw is not None and not isinstance(thaw, Thaw):
        raise TypeError(f"thaw must be makewhole.Thaw(...), or None for none; got {thaw!r}")
    if thaw is not None and capital is not None and not thaw.constant:
        raise ValueError(f"with a capital, a thaw must have a budget that does not grow; got {thaw!r}")
    return thaw


def _read_stop(stop: Any, capital: float | None, lines: Lines | None) -> bool:
    """By default selling stops where a customer's price can rise: with a capital, or lines."""
    if isinstance(stop, str) and stop == "default":
        return capital is not None or lines is not None
    if not isinstance(stop, bool):
        raise TypeError(f"stop must be True or False; got {stop!r}")
    return stop


def _check_share(rule: BookCorrection, terms: Terms, capital: float | None) -> None:
    """Refuse a thaw from past profits if what it concedes could be lost on top of a certificate."""
    if rule.grouped:
        raise ValueError(
            f"share of a thaw must be 0 with {rule!r}: a group could lose what others have won, beyond its "
            "own bound"
        )
    bounded = rule.line_bound(terms) is not None
    if capital is None and bounded and rule.stretch_bound(terms) is None:
        raise ValueError(
            f"share of a thaw must be 0 with {rule!r}, which keeps its gains and loses them again, so that a "
            "share of them could be lost twice: use mode='sound', or a capital"
        )


def _default_rule(capital: float | None, thaw: Thaw | None) -> BookCorrection:
    if capital is None:
        return for_book(StandardRegret(rate=0.1))
    reserved = min(thaw.budget, 0.5 * capital) if thaw is not None else 0.0
    return for_book(Barrier(capital - reserved, spread=_SPREAD))
