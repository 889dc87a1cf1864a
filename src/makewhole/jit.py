"""Compile functions with numba when they are first used, and cache the result on disk if possible."""

from __future__ import annotations

import contextlib
import traceback
import zlib
from collections.abc import Callable
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

# LLVM flags that allow sums to be reordered, so that they run in vector registers.
_REORDER = {"reassoc", "nsz", "contract"}


_compiled: list[Any] = []


def jit(
    function: Callable[..., Any],
    *helpers: Callable[..., Any],
    reorder: tuple[Callable[..., Any], ...] = (),
    modules: tuple[ModuleType, ...] = (),
) -> Callable[..., Any]:
    """Return `function` compiled.

    It may call the functions in `helpers` and `reorder`; these stay usable as plain Python. Those in
    `reorder` may add up in any order. A change of any of their files, or of the files of `modules`,
    invalidates the cache on disk.
    """
    import numba
    from numba.extending import register_jitable

    for helper in helpers:
        register_jitable(forceinline=True, error_model="numpy")(helper)
    for helper in reorder:
        register_jitable(forceinline=True, error_model="numpy", fastmath=_REORDER)(helper)
    try:
        compiled = numba.njit(cache=True, error_model="numpy")(function)
        files = {one.__code__.co_filename for one in (function, *helpers, *reorder)}
        _stamp(compiled, files | {str(module.__file__) for module in modules})
    except RuntimeError:  # neither the package's folder nor the home directory can be written
        compiled = numba.njit(error_model="numpy")(function)
    _compiled.append(compiled)
    result: Callable[..., Any] = compiled
    return result


def call(compiled: Callable[..., Any], *arguments: Any) -> Any:
    """Call a compiled function. A damaged cache on disk is rewritten; if that fails, none is used."""
    for mend in (_empty_cache, _drop_cache):
        try:
            return compiled(*arguments)
        except Exception as error:
            if not _is_cache_error(error):
                raise
            mend()
    return compiled(*arguments)


def _is_cache_error(error: Exception) -> bool:
    """Whether an error was raised where numba reads or writes its cache, before the function ran."""
    frames = traceback.walk_tb(error.__traceback__)
    return any(frame.f_globals.get("__name__") == "numba.core.caching" for frame, _ in frames)


def _empty_cache() -> None:
    """Empty the caches of all compiled functions; they are rewritten when the functions are compiled."""
    for compiled in _compiled:
        with contextlib.suppress(OSError):
            compiled._cache.flush()  # noqa: SLF001 - numba has no public way to empty a cache


def _drop_cache() -> None:
    """Turn off all caches, for example because the disk is full."""
    from numba.core.caching import NullCache

    for compiled in _compiled:
        compiled._cache = NullCache()  # noqa: SLF001 - numba has no public way to turn a cache off


def _stamp(compiled: Any, files: set[str]) -> None:
    """Make the cache on disk depend on these files; numba looks only at that of the compiled function."""
    value = 0
    for file in sorted(files):
        value = zlib.crc32(Path(file).read_bytes(), value)
    if isinstance(compiled, FunctionType):  # NUMBA_DISABLE_JIT is set
        return
    cached = compiled._cache._cache_file  # noqa: SLF001 - numba has no other way to say what it depends on
    cached._source_stamp = (cached._source_stamp, value)  # noqa: SLF001 - as above
