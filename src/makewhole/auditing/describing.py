"""Say what a caller has passed, for error messages."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

_LONGEST = 60  # characters of a value that are shown


def describe(value: Any) -> str:
    """Return a few words about a value: arrays by their shape, long collections by their length.

    Examples
    --------
    >>> from makewhole.auditing.describing import describe
    >>> describe(0.5), describe([1, 2]), describe(list(range(1000)))
    ('0.5', '[1, 2]', 'a list of 1,000')
    """
    kind, shape = type(value).__name__, getattr(value, "shape", None)
    if isinstance(shape, tuple) and shape:
        return f"a {kind} of shape {shape}"
    if isinstance(value, Collection) and len(repr(value)) > _LONGEST:
        return f"a {kind} of {len(value):,}"
    shown = repr(value)
    return shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 1]}…"
