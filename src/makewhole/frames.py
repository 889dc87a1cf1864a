"""Read and make dataframes of any library, through narwhals."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import Any

BACKENDS = ("polars", "pandas", "pyarrow")


def make_frame(columns: Mapping[str, Any], backend: str | None = None) -> Any:
    """Return a dataframe with these columns, which must be equally long.

    `backend` is "polars", "pandas" or "pyarrow"; by default the first of them that is installed. Raises a
    ModuleNotFoundError if none is.
    """
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
    """Return a dataframe as a narwhals frame; a TypeError if it is not one that narwhals supports."""
    import narwhals as nw

    try:
        wrapped = nw.from_native(frame)
        wrapped.collect_schema()
    except TypeError:
        raise TypeError(
            f"frame must be a dataframe (pandas, polars, pyarrow, DuckDB, …); got {type(frame).__name__}"
        ) from None
    except nw.exceptions.DuplicateError:
        raise ValueError(
            "frame must have columns of different names; rename those that occur twice"
        ) from None
    return wrapped


def read_columns(frame: Any, columns: Mapping[str, str]) -> Any:
    """Return these columns as one narwhals frame in memory.

    `columns` maps the name of an argument to the column that it names; the columns of the result have the
    names of the arguments. Of a lazy frame, only these columns are read. Raises a ValueError if a column
    does not exist.
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
    """Return the backend of a narwhals frame, to make results of the same kind; None if it is another."""
    name: str = frame.implementation.name.lower()
    return name if name in BACKENDS else None
