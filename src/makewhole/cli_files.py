"""The files that the command line reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

# What people write for a number they do not have.
_MISSING = ["", "NA", "N/A", "na", "n/a", "nan", "NULL", "null", "None", "none", "-", "?"]


def scan(path: Path, columns: list[str]) -> Any:
    """A lazy polars frame of the columns that are asked for."""
    kind = path.name.lower().removesuffix(".gz").rpartition(".")[2]
    if kind not in ("csv", "tsv", "parquet"):
        raise ValueError(f"FILE must end in .csv, .tsv (or .gz of them) or .parquet; got {str(path)!r}")
    if not path.is_file():
        raise ValueError(f"FILE {str(path)!r} is not a file")
    if path.stat().st_size == 0:
        raise ValueError(f"FILE {str(path)!r} is empty")
    polars = need("polars")
    try:
        if kind != "parquet":  # the whole file decides a column's type: decimals may come late
            options = {"infer_schema_length": None, "null_values": _MISSING, "glob": False}
            lazy = polars.scan_csv(path, separator="\t" if kind == "tsv" else ",", **options)
        else:
            lazy = polars.scan_parquet(path, glob=False)
        present = set(lazy.collect_schema().names())
        empty = not len(lazy.head(1).collect())
    except polars.exceptions.PolarsError as error:
        raise _unreadable(path, error) from None
    if empty:
        raise ValueError(f"FILE {str(path)!r} has a header and no rows")
    missing = [column for column in columns if column not in present]
    if missing:
        shown = ", ".join(sorted(present)[:20])
        hint = " (columns apart by ';'? they must be by ',')" if any(";" in name for name in present) else ""
        raise ValueError(f"column {missing[0]!r} is not in {path}; it has: {shown}{hint}")
    return lazy.select(list(dict.fromkeys(columns)))


def read(path: Path, columns: list[str]) -> Any:
    """The same, read."""
    lazy, polars = scan(path, columns), need("polars")
    try:
        return lazy.collect()
    except polars.exceptions.PolarsError as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: Exception) -> ValueError:
    first_line = str(error).strip().splitlines()[0]
    return ValueError(f"FILE {str(path)!r} cannot be read as {path.suffix.lower()[1:]}: {first_line}")


def need(module: str) -> Any:
    """A module of the extra `cli`, or how to get it."""
    import importlib

    try:
        return importlib.import_module(module)
    except ModuleNotFoundError:
        raise ModuleNotFoundError(f"{module} is needed: pip install 'makewhole[cli]'") from None
