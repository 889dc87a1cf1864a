"""Read the files that are given on the command line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from makewhole import extras

# Texts that stand for a missing number.
_MISSING = ["", "NA", "N/A", "na", "n/a", "nan", "NULL", "null", "None", "none", "-", "?"]


class Table:
    """A .csv, .tsv or .parquet file; `names` are its columns.

    Raises
    ------
    ValueError
        If the file does not exist, is empty, cannot be read, or has two columns of the same name.
    ModuleNotFoundError
        If polars is not installed.
    """

    def __init__(self, path: Path) -> None:
        kind = path.name.lower().removesuffix(".gz").rpartition(".")[2]
        if kind not in ("csv", "tsv", "parquet"):
            raise ValueError(f"FILE must end in .csv, .tsv (or .gz of them) or .parquet; got {str(path)!r}")
        if not path.is_file():
            raise ValueError(f"FILE {str(path)!r} is not a file")
        if path.stat().st_size == 0:
            raise ValueError(f"FILE {str(path)!r} is empty")
        self.path, self._polars = path, need("polars")
        try:
            if kind == "parquet":
                self._numbers = self._texts = self._polars.scan_parquet(path, glob=False)
            else:  # read the whole file to tell a column's type: decimals may come late
                options = {"separator": "\t" if kind == "tsv" else ",", "glob": False}
                typed = {"infer_schema_length": None, "null_values": _MISSING}
                self._numbers = self._polars.scan_csv(path, **typed, **options)
                self._texts = self._polars.scan_csv(path, infer_schema=False, **options)
            self.names: list[str] = self._numbers.collect_schema().names()
            empty = not len(self._numbers.head(1).collect())
        except self._polars.exceptions.PolarsError as error:
            raise _unreadable(path, error) from None
        twice = [name for name in self.names if re.search(r"_duplicated_\d+$", name)]
        if twice:
            name = twice[0].rpartition("_duplicated_")[0]
            raise ValueError(
                f"FILE {str(path)!r} must have columns of different names; {name!r} occurs twice"
            )
        if empty:
            raise ValueError(f"FILE {str(path)!r} has a header and no rows")

    def scan(self, numbers: list[str], texts: list[str]) -> Any:
        """Return a lazy polars frame of these columns.

        The columns `texts` are kept as they are written: 01 is not 1, and NA is not a missing value.
        """
        missing = [column for column in [*numbers, *texts] if column not in self.names]
        if missing:
            shown = ", ".join(sorted(self.names)[:20])
            semicolons = any(";" in name for name in self.names)
            hint = " (the separator looks like ';': save the file with commas)" if semicolons else ""
            raise ValueError(f"column {missing[0]!r} is not in {self.path}; it has: {shown}{hint}")
        by_name = self._polars.selectors.by_name  # a name alone could be read as a pattern
        wanted = self._numbers.select(by_name(list(dict.fromkeys(numbers))))
        others = [text for text in dict.fromkeys(texts) if text not in numbers]
        if not others:
            return wanted
        return self._polars.concat([wanted, self._texts.select(by_name(others))], how="horizontal")

    def read(self, numbers: list[str], texts: list[str]) -> Any:
        """Return a polars frame of these columns; like `scan`, but read into memory."""
        try:
            return self.scan(numbers, texts).collect()
        except self._polars.exceptions.PolarsError as error:
            raise _unreadable(self.path, error) from None


def _unreadable(path: Path, error: Exception) -> ValueError:
    first_line = str(error).strip().splitlines()[0]
    if "more fields" in first_line:
        first_line += " (columns must be separated by ',', and decimals written with '.')"
    return ValueError(f"FILE {str(path)!r} cannot be read as {path.suffix.lower()[1:]}: {first_line}")


def need(module: str) -> Any:
    """Import a library of the extra `cli`."""
    return extras.need(module, "cli")
