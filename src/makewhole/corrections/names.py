"""Read names of groups, forecasts and bettors: text or whole numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

Name = str | int

# Databases and other languages have 64-bit integers.
_LARGEST = 2**63 - 1


def read_name(argument: str, given: Any) -> Name:
    """Return one name, text or a whole number of at most 63 bits; raise an error for anything else."""
    if type(given) is str or (type(given) is int and -_LARGEST <= given <= _LARGEST):  # nearly all calls
        return given
    if isinstance(given, bool) or not isinstance(given, (str, int, np.integer)):
        raise TypeError(f"{argument} must be text or a whole number; got {given!r}")
    if not isinstance(given, str) and not -_LARGEST <= given <= _LARGEST:
        raise ValueError(f"{argument} must be at most {_LARGEST:,} as a number; give longer ones as text")
    return str(given) if isinstance(given, str) else int(given)


def read_each(argument: str, given: list[Any]) -> list[Name]:
    """Return every value as `read_name` does, faster if all are already valid names."""
    kinds = set(map(type, given))
    whole = kinds == {int} and min(given) >= -_LARGEST and max(given) <= _LARGEST
    return given if whole or kinds == {str} else [read_name(argument, value) for value in given]


def read_names(argument: str, given: Any) -> tuple[Name, ...]:
    """Return one name or several as a tuple without repeats; for None, an empty tuple.

    Raises a TypeError unless each is text or a whole number.
    """
    if given is None:
        return ()
    if isinstance(given, (str, int, np.integer)):
        given = (given,)
    flat = not isinstance(given, np.ndarray) or given.ndim == 1
    if not isinstance(given, Iterable) or isinstance(given, (bytes, bytearray)) or not flat:
        raise TypeError(
            f"{argument} must be a name or a list of names (text or whole numbers); got {given!r}"
        )
    names: dict[Name, None] = {}
    for name in given:
        if isinstance(name, bool) or not isinstance(name, (str, int, np.integer)):
            raise TypeError(f"{argument} must be names, text or whole numbers; got {name!r}")
        names[read_name(argument, name)] = None
    return tuple(names)
