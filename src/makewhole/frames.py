"""Read and make dataframes of any library, through narwhals."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

BACKENDS = ("polars", "pandas", "pyarrow")
_RENAMED = "makewhole: column "  # the prefix of a renamed column; its original name follows, in hexadecimal


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
    """Return a dataframe as a narwhals frame; raise a TypeError if it is not one that narwhals supports."""
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


def open_literal(frame: Any) -> Any:
    """Like `open_native`, but no column has a name that an engine reads as a pattern.

    Polars reads `^k$` as all columns that match, DuckDB and Spark `*` as all columns, Spark and earlier
    versions of DuckDB `a.b` as a part of the column `a`. Such columns are renamed: `literal` gives their
    name in the frame returned.
    """
    import narwhals as nw

    wrapped = open_native(frame)
    names = wrapped.collect_schema().names()
    renamed = {name: literal(wrapped, name) for name in names}
    changed = {name: new for name, new in renamed.items() if name != new}
    if not changed:
        return wrapped
    native = wrapped.to_native()  # narwhals itself would rename by pattern
    if wrapped.implementation.is_duckdb():
        native = native.project(
            ", ".join(f"{_quoted(old)} AS {_quoted(new)}" for old, new in renamed.items())
        )
    elif wrapped.implementation.is_polars():
        native = native.rename(changed)
    else:
        for old, new in changed.items():
            native = native.withColumnRenamed(old, new)
    return nw.from_native(native)


def literal(frame: Any, name: str) -> str:
    """Return a column's name in a narwhals frame from `open_literal`; `own_name` is the inverse."""
    engine = frame.implementation
    pattern = (
        (engine.is_polars() and (name == "*" or (name.startswith("^") and name.endswith("$"))))
        or (engine.is_duckdb() and (name == "*" or "." in name or '"' in name))
        or (engine.is_spark_like() and (name == "*" or "." in name or "`" in name))
    )
    return _RENAMED + name.encode().hex() if pattern else name


def own_name(name: Any) -> Any:
    """Return a column's original name, for messages and reports."""
    if isinstance(name, str) and name.startswith(_RENAMED):
        return bytes.fromhex(name.removeprefix(_RENAMED)).decode()
    return name


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def list_columns(names: list[Any]) -> str:
    """Return the names of the first columns of a frame, for messages."""
    listed = ", ".join(str(own_name(name)) for name in names[:20]) + (", …" if len(names) > 20 else "")
    return listed or "none"


def read_columns(frame: Any, columns: Mapping[str, str]) -> Any:
    """Return these columns as one narwhals frame in memory.

    `columns` maps the name of an argument to the column that it names; the columns of the result have the
    names of the arguments. Of a lazy frame, only these columns are read. Raises a ValueError if a column
    does not exist.
    """
    import narwhals as nw

    wrapped = open_literal(frame)
    present = wrapped.collect_schema().names()
    named = {argument: literal(wrapped, column) for argument, column in columns.items()}
    for argument, column in named.items():
        if column not in present:
            raise ValueError(
                f"{argument}={own_name(column)!r} is not a column; the frame has: {list_columns(present)}"
            )
    chosen = wrapped.select(**{argument: nw.col(column) for argument, column in named.items()})
    return chosen.collect() if isinstance(chosen, nw.LazyFrame) else chosen


def read_numbers(frame: Any, argument: str) -> NDArray[np.float64]:
    """Return a column of a frame from `read_columns` as floats, NaN where a number is missing.

    Raises a TypeError if it holds something else.
    """
    import narwhals as nw

    series = frame[argument]
    if not (series.dtype.is_numeric() or series.dtype == nw.Boolean or not len(series.drop_nulls())):
        example = series.drop_nulls().to_list()[0]
        raise TypeError(f"{argument} must be a column of numbers; got {series.dtype}, as in {example!r}")
    return np.asarray(series.cast(nw.Float64).to_numpy(), np.float64)


def backend_of(frame: Any) -> str | None:
    """Return a narwhals frame's backend, to make others of its kind; None if `make_frame` cannot."""
    name: str = frame.implementation.name.lower()
    return name if name in BACKENDS else None
