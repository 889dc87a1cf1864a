"""Read the groups of a forecast, or its features: groups with values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from makewhole.corrections import BookCorrection
from makewhole.corrections.features import read_features
from makewhole.corrections.names import Name, read_names


def read_groups(correction: BookCorrection, groups: Any, *, nonnegative: bool) -> tuple[Name, ...]:
    """Return the groups of a forecast; an error if this correction does not take them.

    If `nonnegative`, values below 0 are refused: they would need a bound on winnings as well.
    """
    if groups is None and not correction.grouped:
        return ()
    if not isinstance(groups, Mapping):
        return correction.check_groups(read_names("groups", groups) if correction.grouped else groups)
    if not correction.takes_features:
        raise TypeError(f"groups must be names: only Balance takes values; got {groups!r}")
    made = read_features(groups)
    if nonnegative and min(made.values, default=0.0) < 0:
        raise ValueError(
            "values of groups must not be negative in sound mode, or with a capital or lines: only what "
            f"is lost is bounded there, not what is won; got {groups!r}"
        )
    correction.check_groups(made)
    return made
