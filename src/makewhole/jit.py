"""Compile a function with numba, on first use, and keep the result on disk where there is a place for it."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

# What adding up in another order needs: a sum then runs in vector registers.
_REORDER = {"reassoc", "nsz", "contract"}


_compiled: list[Any] = []


def jit(
    function: Callable[..., Any], *helpers: Callable[..., Any], reorder: tuple[Callable[..., Any], ...] = ()
) -> Callable[..., Any]:
    """Compile `function`; it may call the plain Python functions among `helpers`, which stay plain.

    Those in `reorder` may add in any order. Keep helpers in the function's own file, or give the function
    a `fingerprint` of the others in its closure: numba's cache notices a change only there.
    """
    import numba
    from numba.extending import register_jitable

    for helper in helpers:
        register_jitable(forceinline=True, error_model="numpy")(helper)
    for helper in reorder:
        register_jitable(forceinline=True, error_model="numpy", fastmath=_REORDER)(helper)
    try:
        compiled = numba.njit(cache=True, error_model="numpy")(function)
    except RuntimeError:  # neither the package's folder nor the home directory can be written
        compiled = numba.njit(error_model="numpy")(function)
    _compiled.append(compiled)
    result: Callable[..., Any] = compiled
    return result


def call(compiled: Callable[..., Any], *arguments: Any) -> Any:
    """Call a compiled function; where its cache cannot be written or read (a full disk), do without."""
    try:
        return compiled(*arguments)
    except (OSError, EOFError):  # compiled code opens no files: this came before it ran
        from numba.core.caching import NullCache

        for one in _compiled:
            one._cache = NullCache()  # noqa: SLF001 - numba has no public way
        return compiled(*arguments)


def fingerprint(*modules: ModuleType) -> int:
    """A number that changes when one of the modules' sources does."""
    value = 0
    for module in modules:
        value = zlib.crc32(Path(str(module.__file__)).read_bytes(), value)
    return value
