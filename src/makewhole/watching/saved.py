"""A watch as plain data, and back. Every number is checked: a file may come from anywhere."""

from __future__ import annotations

import math
from os import PathLike
from typing import Any, get_args

import numpy as np

from makewhole import saving
from makewhole.watching._kernel import Memory
from makewhole.watching.groups import Groups
from makewhole.watching.times import Kind
from makewhole.watching.waiting import RowQueue

KIND, VERSION = "makewhole.watch", 1
_PARTS = ("settings", "progress", "groups", "memory", "waiting")
# Made anew from the settings and the groups, so not saved.
_DERIVED = ("enough",)
# Not by group.
_SINGLE = ("count", "unit")
_COLUMNS = ("mu", "y", "at", "unit", "cells")


def write(
    path: str | PathLike[str], settings: Any, progress: Any, groups: Groups, memory: Memory, waiting: RowQueue
) -> None:
    """Write a watch to a file."""
    queue: dict[str, Any] = {name: getattr(waiting, name) for name in _COLUMNS}
    places = [[name, place - waiting.first] for name, place in waiting.places.items()]
    unknown = {place for _, place in places}
    queue["y"] = [0.0 if k in unknown else y for k, y in enumerate(waiting.y)]
    queue["y"] = [None if y != y else y for y in queue["y"]]  # dropped rows
    kept = {
        name: (array if name in _SINGLE else array[: len(groups)]).ravel().tolist()
        for name, array in memory._asdict().items()
        if name not in _DERIVED
    }
    content = {
        "settings": settings,
        "progress": progress,
        "groups": groups.all,
        "memory": kept,
        "waiting": queue | {"places": places},
    }
    saving.write(path, kind=KIND, version=VERSION, content=content)


def read(path: str | PathLike[str]) -> Any:
    """Read a file that `write` wrote; raise a ValueError if it is not one."""
    content = saving.read(path, kind=KIND, version=VERSION)
    if not isinstance(content, dict) or sorted(content) != sorted(_PARTS):
        raise ValueError(f"{path} is damaged: it must have the parts {', '.join(_PARTS)}")
    return content


def check_progress(progress: Any) -> None:
    """Check how far the watch has come."""
    counts = [progress[name] for name in ("seen", "missing", "dropped", "in_unit")]
    _check(all(type(n) is int and n >= 0 for n in counts), "its counts must be whole numbers")
    _check(progress["kind"] in (None, *get_args(Kind)), f"kind={progress['kind']!r} is not a kind of time")
    _check(type(progress["ended"]) is bool, "ended must be true or false")
    unit = progress["unit"]
    _check(unit is None or (isinstance(unit, (int, float)) and math.isfinite(unit)), "unit must be finite")


def restore_groups(content: Any, groups: Groups) -> None:
    """Add the saved groups, in their order."""
    known = [list(group) for group in groups.all]
    listed = content["groups"]
    _check(listed[: len(known)] == known, "its first groups are not those of the settings")
    for column, value in listed[len(known) :]:
        _check(column in groups.columns, f"it has no column {column!r}")
        groups.add(column, value)
    _check(len(groups) == len(listed), "a group occurs twice")


def restore_memory(content: Any, memory: Memory, groups: int) -> None:
    """Fill the memory of so many groups."""
    for name, array in memory._asdict().items():
        if name in _DERIVED:
            continue
        part = array if name in _SINGLE else array[:groups]
        numbers = np.array(content["memory"][name], array.dtype)
        _check(numbers.size == part.size, f"{name} must have {part.size} numbers")
        _check(bool(np.isfinite(numbers).all()), f"{name} must be finite")
        if name in ("money", "best", "caps", "level", "sums"):
            _check(bool((numbers >= 0).all()), f"{name} must not be negative")
        part[...] = numbers.reshape(part.shape)
    _check(bool((memory.touched < groups).all()), "touched must be numbers of groups")
    _check(0 <= memory.count[0] <= groups, "count must be at most the number of groups")


def restore_waiting(content: Any, waiting: RowQueue, groups: int) -> None:
    """Fill the queue."""
    queue = content["waiting"]
    columns = [queue[name] for name in _COLUMNS]
    rows = len(columns[0])
    sizes = [rows, rows, rows, rows, rows * waiting.width]
    _check([len(column) for column in columns] == sizes, "the rows that wait must be complete")
    _check(all(-1 <= cell < groups for cell in queue["cells"]), "cells must be numbers of groups")
    _check(all(0.0 <= mu <= 1.0 for mu in queue["mu"]), "mu must lie in [0, 1]")
    queue["y"] = [float("nan") if y is None else y for y in queue["y"]]
    waiting.extend(*(queue[name] for name in _COLUMNS))
    for name, place in queue["places"]:
        _check(0 <= place < rows, "a row that waits must be in the queue")
        waiting.await_outcome(name, place)


def _check(holds: bool, rule: str) -> None:
    if not holds:
        raise ValueError(f"the watch's file is damaged: {rule}")
