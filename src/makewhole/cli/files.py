"""Read the files named on the command line."""

from __future__ import annotations

import contextlib
import re
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from narwhals.exceptions import ComputeError

from makewhole import extras, unpacking

# Texts that stand for a missing number.
_MISSING = ["", "NA", "N/A", "na", "n/a", "nan", "NULL", "null", "None", "none", "-", "?"]

_QUOTE = " (is a quotation mark left open?)"


class TableFile:
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
        source = self._unpacked(path) if path.suffix.lower() == ".gz" else path
        try:
            if kind == "parquet":
                self._numbers = self._texts = self._polars.scan_parquet(source, glob=False)
            else:  # read the whole file to infer a column's type: decimals may come late
                options = {"separator": "\t" if kind == "tsv" else ",", "glob": False}
                typed = {"infer_schema_length": None, "null_values": _MISSING}
                self._numbers = self._polars.scan_csv(source, **typed, **options)
                self._texts = self._polars.scan_csv(source, infer_schema=False, **options)
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
            with source.open("rb") as file:
                lines = file.read(1 << 20).count(b"\n")
            raise ValueError(f"FILE {str(path)!r} has a header and no rows{_QUOTE if lines > 1 else ''}")

    def _unpacked(self, path: Path) -> Path:
        """Unpack a .gz file into a temporary one, piece by piece, so that its size is checked before use."""
        folder = tempfile.mkdtemp(prefix="makewhole-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        unpacked = Path(folder) / "unpacked"
        try:
            with unpacked.open("wb") as file:
                file.writelines(unpacking.pieces(path))
        except ValueError as error:
            raise ValueError(f"FILE {error}") from None
        return unpacked

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
        wanted = self._numbers.select(self._columns(numbers))
        others = [text for text in texts if text not in numbers]
        if not others:
            return wanted
        return self._polars.concat([wanted, self._texts.select(self._columns(others))], how="horizontal")

    def _columns(self, names: list[str]) -> Any:
        """Return these columns by position: a name could be read as a pattern."""
        return self._polars.nth([self.names.index(name) for name in dict.fromkeys(names)])

    def read(self, numbers: list[str], texts: list[str]) -> Any:
        """Return a polars frame of these columns; like `scan`, but read into memory."""
        with self.readable():
            return self.scan(numbers, texts).collect()

    @contextlib.contextmanager
    def readable(self) -> Iterator[None]:
        """Turn errors in reading the file, which may come only when its rows are used, into a ValueError."""
        try:
            yield
        except (self._polars.exceptions.PolarsError, ComputeError) as error:
            raise _unreadable(self.path, error) from None


def _unreadable(path: Path, error: Exception) -> ValueError:
    text = str(error).strip()
    first_line = text.splitlines()[0][:200]
    if "more fields" in first_line:
        first_line += " (columns must be separated by ',', and decimals written with '.')"
    if "malformed" in first_line or text.count('"') % 2:
        first_line += _QUOTE
    return ValueError(f"FILE {str(path)!r} cannot be read as {path.suffix.lower()[1:]}: {first_line}")


def need(module: str) -> Any:
    """Import a library of the extra `cli`."""
    return extras.need(module, "cli")
