"""Options that `makewhole backtest` and `makewhole capital` share: a log's columns, and customers."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, NamedTuple

import makewhole as mw
from makewhole.cli.files import TableFile, need

_KINDS = ("hedgers", "informed", "clairvoyant")


def add_columns(add: Any) -> None:
    """Add the options that name columns of a log; `add` is a parser's `add_argument`."""
    add("file", type=Path, help="a .csv, .tsv (or .gz of them) or .parquet file")
    add("--mu", default="mu", help="column of probabilities (default mu); for classes p0,p1,...")
    add("--outcome", default="y", help="column of outcomes, 0 or 1 (default y); for classes 0 to K-1")
    add("--stake", help="column of stakes, of any sign (backtest: default stake); for classes b0,b1,...")
    add("--c-hat", help="column of the model's own half-width (default: 0)")
    add("--id", help="column that says which forecast a stake is on; rows with the same id are stakes on one")
    add("--time", help="column that says when the forecast was made (default: the order of the rows)")
    add("--graded", action="store_true", help="outcomes are any numbers from 0 to 1, not only 0 and 1")
    add("--known", help="column that says when the outcome was known (default: before the next forecast)")


def add_customers(add: Any) -> None:
    """Add the options for customers."""
    add(
        "--customers",
        metavar="KIND=SHARE,...",
        help="for a file without stakes: who bets, such as hedgers=0.8,informed=0.15,clairvoyant=0.05. "
        "Hedgers insure a loss, the informed believe the column --view, clairvoyants know the outcome",
    )
    add("--view", help="column of a better forecast, for informed customers")
    add(
        "--size",
        type=float,
        help="what informed customers and clairvoyants stake (default: the cap); needs --max-stake",
    )
    add(
        "--losses",
        type=float,
        help="mean of the hedgers' losses (default: the paper's, up to the cap); needs --max-stake",
    )


def read_customers(given: argparse.Namespace) -> mw.agents.Customers | None:
    """Return the customers that the options describe; None without --customers."""
    if given.customers is None:
        for option in ("view", "size", "losses"):
            if getattr(given, option) is not None:
                raise ValueError(f"--{option} needs --customers; got {getattr(given, option)!r}")
        return None
    shares: dict[str, Any] = {}
    for part in given.customers.split(","):
        name, _, share = part.partition("=")
        try:
            shares[name.strip()] = float(share)
        except ValueError:
            raise ValueError(
                f"--customers must look like hedgers=0.9,clairvoyant=0.1; got {given.customers!r}"
            ) from None
    unknown = [name for name in shares if name not in _KINDS]
    if unknown:
        raise ValueError(f"--customers must be among {', '.join(_KINDS)}; got {unknown[0]!r}")
    options: Any = {"view": given.view, "size": given.size, "losses": given.losses, "seed": given.seed}
    return mw.agents.Customers(**shares, **options)


class Read(NamedTuple):
    """A log that was read: the table, its columns in a polars frame, and what `mw.backtest` calls them."""

    table: TableFile
    frame: Any
    columns: dict[str, Any]


def read_log(given: argparse.Namespace, groups: list[str], stake: str | None) -> Read:
    """Read the columns that the options name; `stake` is the column of stakes if none is named."""
    for option in ("c_hat", "id", "time", "known", "stake"):
        if getattr(given, option) == "":
            raise ValueError(f"--{option.replace('_', '-')} must name a column; got ''")
    customers = read_customers(given)
    table = TableFile(given.file)
    columns: dict[str, Any] = {
        "mu": _one_or_several(given.mu, table),
        "outcome": given.outcome,
        "stake": given.stake if customers is not None else _one_or_several(given.stake or stake, table),
        **{name: getattr(given, name) for name in ("c_hat", "id", "time", "known")},
    }
    numbers = _listed(columns["mu"], columns["outcome"], columns["stake"], given.c_hat, given.view)
    frame = table.read([*numbers, *_listed(given.time, given.known)], [*_listed(given.id), *groups])
    for option in ("time", "known"):
        column = columns[option]
        if column is not None and frame[column].dtype == need("polars").String:
            frame = frame.with_columns(as_times(frame[column], option))
    return Read(table, frame, columns | {"customers": customers})


def _one_or_several(given: str | None, table: TableFile) -> Any:
    """Return a column, or the columns of classes, separated by commas that are not part of a name."""
    if given is None or given in table.names or "," not in given:
        return given
    return given.split(",")


def _listed(*given: Any) -> list[str]:
    """Return all columns in one list."""
    return [name for one in given if one is not None for name in ([one] if isinstance(one, str) else one)]


def as_times(series: Any, option: str) -> Any:
    """Return a column of text as dates and times. The year must come first: 1/2/2013 can be read two ways."""
    written = series.drop_nulls()
    odd = written.filter(~written.str.contains(r"^\s*\d{4}-\d{1,2}-\d{1,2}"))
    try:
        if not len(odd):
            return series.str.to_datetime()
    except need("polars").exceptions.PolarsError:
        odd = written
    raise ValueError(
        f"--{option} must be a column of numbers, or of dates such as 2013-01-31 or 2013-01-31 09:30; "
        f"the column {series.name!r} has {next(iter(odd), '')!r}"
    )


def check_figure(figure: Path | None) -> None:
    """Raise a ValueError if a figure cannot be written there; call it before a long run."""
    if figure is None:
        return
    if figure.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise ValueError(f"--figure must end in .png, .svg or .pdf; got {str(figure)!r}")
    if not figure.parent.is_dir():
        raise ValueError(f"--figure must lie in a folder that exists; got {str(figure)!r}")
    need("matplotlib")
