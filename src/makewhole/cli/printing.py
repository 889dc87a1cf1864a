"""Print text that a program or a person can read, regardless of what is in the data."""

from __future__ import annotations

import json
import math
import sys
from typing import Any

from makewhole.pages import shown

# How many characters of an error are printed: some quote a whole file.
_LONGEST = 700


def print_json(value: Any) -> None:
    """Print JSON that every program can read: a number that is not finite is null."""
    print(json.dumps(_finite(value), allow_nan=False))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def print_error(error: Exception) -> None:
    """Print an error to stderr: cut to a few lines, without control characters."""
    text = "\n".join(shown(line) for line in str(error).splitlines())
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST]} … ({len(text):,} characters)"
    print(f"makewhole: {text}", file=sys.stderr)
