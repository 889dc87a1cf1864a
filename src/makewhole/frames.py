"""Any dataframe in, any dataframe out, by way of narwhals."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import Any

BACKENDS = ("polars", "pandas", "pyarrow")


def make_frame(columns: Mapping[str, Any], backend: str | None = None) -> Any:
    """Make a frame of equal columns; by default of the first installed of polars, pandas and pyarrow."""
    import narwhals as nw

    chosen: Any = backend or _installed()
    return nw.from_dict(dict(columns), backend=chosen).to_native()


def _installed() -> str:
    for name in BACKENDS:
        if importlib.util.find_spec(name):
            return name
    raise ModuleNotFoundError(
        "a dataframe library is needed: pip install 'makewhole[cli]' (brings polars), or pandas, or pyarrow"
    )


def open_native(frame: Any) -> Any:
    """A dataframe as narwhals knows it."""
    import narwhals as nw

    try:
        wrapped = nw.from_native(frame)
        wrapped.collect_schema()
    except TypeError:
        raise TypeError(
            f"frame must be a dataframe that narwhals knows; got {type(frame).__name__}"
        ) from None
    except nw.exceptions.DuplicateError:
        raise ValueError("frame must have columns of different names; some occur twice") from None
    return wrapped


def read_columns(frame: Any, columns: Mapping[str, str]) -> Any:
    """Select the columns an argument names, in one eager frame, under the argument's name.

    A lazy frame is collected, its other columns left where they are.
    """
    import narwhals as nw

    wrapped = open_native(frame)
    present = wrapped.collect_schema().names()
    for argument, column in columns.items():
        if column not in present:
            shown = ", ".join(map(str, present[:20])) + (", …" if len(present) > 20 else "")
            raise ValueError(f"{argument}={column!r} is not a column; the frame has: {shown or 'none'}")
    chosen = wrapped.select(**{argument: nw.col(column) for argument, column in columns.items()})
    return chosen.collect() if isinstance(chosen, nw.LazyFrame) else chosen


def backend_of(frame: Any) -> str | None:
    """The backend that a frame as narwhals knows it would like its answer in; None for any."""
    name: str = frame.implementation.name.lower()
    return name if name in BACKENDS else None
