"""A forecaster's book as plain data, and back, every number checked: a file may have come from anywhere."""

from __future__ import annotations

from typing import Any

from makewhole import arguments, corrections
from makewhole.corrections.base import Stepped
from makewhole.corrections.members import read_names
from makewhole.insured.book import Exposure, OpenForecast, read_open
from makewhole.insured.totals import Tally


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
        "late": _late(f._book.all),
        "groups": [[name, f._of(name).to_plain(), _late(kept)] for name, kept in f._book.groups.items()],
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
    if len(found) != (settings["classes"] or 1):
        raise ValueError(f"there must be {settings['classes'] or 1} corrections; got {len(found)}")
    if any(hasattr(one, "resembles") and not one.resembles(found[0]) for one in found):
        raise ValueError(f"all classes must have a correction of the same kind; got {found!r}")
    made = kind(base, found[0], **(settings | {"c_range": tuple(settings["c_range"])}))
    made.corrections = [_in_mode(one, made) for one in found]
    made._next = arguments.whole("next", content["next"], least=0)
    for name, *_ in content["groups"]:  # in the order they began
        made._book.of(read_names("groups", [name])[0])
    for number, entry in read_open(
        content["open"], made._next, made.classes, made.one_sided, made.max_stake
    ).items():
        _check_open(entry, made)
        made._book.enter(number, entry)
    made._tally = Tally.from_plain(content["tally"])
    _read_late(made._book.all, content["late"])
    for name, tally, late in content["groups"]:
        (name,) = read_names("groups", [name])
        made._tallies[name] = Tally.from_plain(tally)
        _read_late(made._book.of(name), late)
    return made


def _late(kept: Exposure) -> list[Any]:
    return [kept.late_open, kept.late_potential, kept.lost]


def _read_late(kept: Exposure, saved: list[Any]) -> None:
    """What was open at once; never less than what is open now."""
    kept.late_open = max(kept.late_open, arguments.whole("late", saved[0], least=0))
    potential, lost = arguments.numbers("late", saved[1]), arguments.numbers("late", saved[2])
    lines = (len(kept.potential),)
    if potential.shape != lines or lost.shape != lines or (potential < 0).any():
        raise ValueError(f"late must hold {lines[0]} numbers, none negative; got {saved[1:]!r}")
    kept.late_potential = list(map(max, kept.late_potential, potential.tolist()))
    kept.lost = lost.tolist()


def _in_mode(correction: Any, forecaster: Any) -> Any:
    """With the floor that the mode wants, whatever the file says."""
    if not isinstance(correction, (corrections.Reserve, corrections.Grouped)):
        return correction
    return correction.in_mode(forecaster.mode, forecaster.one_sided, forecaster.c_range)


def _check_open(entry: OpenForecast, f: Any) -> None:
    """What this forecaster cannot have published, it did not."""
    if f._grouped:
        f.corrections[0].checked(entry.groups)
    for (_, c, _, proposal, inner), corrector in zip(entry.lines, f.corrections, strict=True):
        if f.mode == "sound" and not 0 <= c <= 0.5:
            raise ValueError(f"c must lie in [0, 0.5] in sound mode; got {c}")
        one = getattr(corrector, "correction", corrector)
        if (inner is None) != (getattr(one, "over", None) is None):
            raise ValueError("an open forecast must have been made with the corrections in the file")
        for owner, made in ((one, proposal), (getattr(one, "over", None), inner and inner[1])):
            if isinstance(owner, Stepped) and made is not None:
                owner.check(made)
