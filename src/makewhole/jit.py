"""Compile a function with numba, on first use, and keep the result on disk where there is a place for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def jit(function: Callable[..., Any], *helpers: Callable[..., Any]) -> Callable[..., Any]:
    """Compile `function`; it may call the plain Python functions among `helpers`, which stay plain.

    Keep the helpers in the function's own file: numba's cache notices a change only there.
    """
    import numba
    from numba.extending import register_jitable

    for helper in helpers:
        register_jitable(forceinline=True, error_model="numpy")(helper)
    try:
        compiled = numba.njit(cache=True, error_model="numpy")(function)
    except RuntimeError:  # neither the package's folder nor the home directory can be written
        compiled = numba.njit(error_model="numpy")(function)
    result: Callable[..., Any] = compiled
    return result
