"""A forecaster's book as plain data, and back, every number checked: a file may have come from anywhere."""

from __future__ import annotations

from typing import Any

from makewhole import arguments, corrections
from makewhole.books import Exposure, read_open
from makewhole.corrections.members import read_names
from makewhole.tallies import Tally


def content_of(forecaster: Any) -> dict[str, Any]:
    """Everything but the base."""
    f = forecaster
    return {
        "settings": {
            "mode": f.mode,
            "max_stake": f.max_stake,
            "c_range": f.c_range,
            "one_sided": f.one_sided,
            "classes": f.classes,
            "max_exposure": f.max_exposure,
            "capital": f.capital,
        },
        "corrections": [{"type": corrections.name_of(c), "state": c.state()} for c in f.corrections],
        "base": f.base is not None,
        "open": [entry.to_plain(keep_x=f.base is not None) for entry in f._book.open.values()],
        "next": f._next,
        "tally": f._tally.to_plain(),
        "late": [f._book.all.late_exposure, f._book.all.late_gross],
        "groups": [
            [name, f._of(name).to_plain(), [kept.late_exposure, kept.late_gross]]
            for name, kept in f._book.groups.items()
        ],
    }


def restored(kind: Any, content: dict[str, Any], base: Any, correction: Any) -> Any:
    """A forecaster of class `kind` that goes on where the content was taken."""
    found = []
    for saved in content["corrections"]:
        maker = correction or corrections.by_name(saved["type"])
        if maker is None:
            raise ValueError(f"pass correction=, the class {saved['type']!r}: it is not one of makewhole's")
        found.append(maker.from_state(saved["state"]))
    if content["base"] and base is None:
        raise ValueError("pass base=: this forecaster was saved with one, and it is saved by its owner")
    settings = content["settings"]
    made = kind(base, found[0], **(settings | {"c_range": tuple(settings["c_range"])}))
    if len(found) != len(made.corrections):
        raise ValueError(f"there must be {len(made.corrections)} corrections; got {len(found)}")
    made.corrections = found
    made._next = arguments.whole("next", content["next"], least=0)
    for number, entry in read_open(
        content["open"], made._next, made.classes, made.one_sided, made.max_stake
    ).items():
        made._book.enter(number, entry)
    made._tally = Tally.from_plain(content["tally"])
    made._book.all.late_exposure, made._book.all.late_gross = _late(content["late"])
    for name, tally, late in content["groups"]:
        (name,) = read_names("groups", [name])
        made._tallies[name] = Tally.from_plain(tally)
        kept = made._book.groups.setdefault(name, Exposure())
        kept.late_exposure, kept.late_gross = _late(late)
    return made


def _late(pair: list[float]) -> list[float]:
    found: list[float] = arguments.numbers("late", pair).tolist()
    return found
