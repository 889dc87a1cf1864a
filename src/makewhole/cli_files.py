"""The files that the command line reads."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

# What people write for a number they do not have.
_MISSING = ["", "NA", "N/A", "na", "n/a", "nan", "NULL", "null", "None", "none", "-", "?"]


def scan(path: Path, numbers: list[str], texts: list[str]) -> Any:
    """A lazy polars frame of these columns; `texts` as they are written, 01 apart from 1, NA no gap."""
    kind = path.name.lower().removesuffix(".gz").rpartition(".")[2]
    if kind not in ("csv", "tsv", "parquet"):
        raise ValueError(f"FILE must end in .csv, .tsv (or .gz of them) or .parquet; got {str(path)!r}")
    if not path.is_file():
        raise ValueError(f"FILE {str(path)!r} is not a file")
    if path.stat().st_size == 0:
        raise ValueError(f"FILE {str(path)!r} is empty")
    polars = need("polars")
    try:
        if kind == "parquet":
            as_numbers = as_texts = polars.scan_parquet(path, glob=False)
        else:  # the whole file decides a column's type: decimals may come late
            options = {"separator": "\t" if kind == "tsv" else ",", "glob": False}
            as_numbers = polars.scan_csv(path, infer_schema_length=None, null_values=_MISSING, **options)
            as_texts = polars.scan_csv(path, infer_schema=False, **options)
        present = as_numbers.collect_schema().names()
        empty = not len(as_numbers.head(1).collect())
    except polars.exceptions.PolarsError as error:
        raise _unreadable(path, error) from None
    twice = [name for name in present if re.search(r"_duplicated_\d+$", name)]
    if twice:
        raise ValueError(f"FILE {str(path)!r} must have columns of different names; see {twice[0]!r}")
    if empty:
        raise ValueError(f"FILE {str(path)!r} has a header and no rows")
    missing = [column for column in [*numbers, *texts] if column not in present]
    if missing:
        shown = ", ".join(sorted(present)[:20])
        hint = " (columns apart by ';'? they must be by ',')" if any(";" in name for name in present) else ""
        raise ValueError(f"column {missing[0]!r} is not in {path}; it has: {shown}{hint}")
    wanted = as_numbers.select(list(dict.fromkeys(numbers)))
    others = [text for text in dict.fromkeys(texts) if text not in numbers]
    return polars.concat([wanted, as_texts.select(others)], how="horizontal") if others else wanted


def columns_of(path: Path) -> list[str]:
    """The names of a file's columns, if it can be read; whoever reads it then says why not."""
    try:
        polars = need("polars")
        kind = path.name.lower().removesuffix(".gz").rpartition(".")[2]
        if kind == "parquet":
            return list(polars.scan_parquet(path, glob=False).collect_schema().names())
        separator = "\t" if kind == "tsv" else ","
        lazy = polars.scan_csv(path, infer_schema=False, separator=separator, glob=False)
        return list(lazy.collect_schema().names())
    except Exception:  # noqa: BLE001 - said properly by whoever reads it
        return []


def read(path: Path, numbers: list[str], texts: list[str]) -> Any:
    """The same, read."""
    lazy, polars = scan(path, numbers, texts), need("polars")
    try:
        return lazy.collect()
    except polars.exceptions.PolarsError as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: Exception) -> ValueError:
    first_line = str(error).strip().splitlines()[0]
    if "more fields" in first_line:
        first_line += " (are columns apart by ',' and decimals by '.'?)"
    return ValueError(f"FILE {str(path)!r} cannot be read as {path.suffix.lower()[1:]}: {first_line}")


def need(module: str) -> Any:
    """A module of the extra `cli`, or how to get it."""
    import importlib

    try:
        return importlib.import_module(module)
    except ModuleNotFoundError:
        raise ModuleNotFoundError(f"{module} is needed: pip install 'makewhole[cli]'") from None
