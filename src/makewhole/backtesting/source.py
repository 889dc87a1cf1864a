"""The dataframe of a log and the meaning of its columns, as the arguments of `backtest` give them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from makewhole import frames
from makewhole.agents import Customers
from makewhole.arguments import Floats
from makewhole.backtesting.classes import ClassLog
from makewhole.backtesting.clock import read_clock
from makewhole.backtesting.log import Log, as_floats
from makewhole.insured.lines import MOST_LEVELS


class Source(NamedTuple):
    """A log as it was given: a frame whose columns have the names of `backtest`'s arguments.

    `names` maps these arguments to the caller's columns; the members of a list are numbered, as in "mu[0]".
    `groups` are the arguments among them that are groups, `classes` is None for a binary log.
    """

    frame: Any
    names: dict[str, Any]
    groups: list[str]
    classes: int | None
    customers: Customers | None

    def mu(self) -> Floats:
        """Return what the model says, of all classes, NaN where it is missing."""
        columns = [name for name in self.names if name.partition("[")[0] == "mu"]
        return np.concatenate([as_floats(self.frame[name]) for name in columns])

    def open(self, *, one_sided: bool, graded: bool, one_price: bool) -> Log:
        """Return the log; its rows are checked as a forecaster with these settings needs them."""
        given = (self.frame, self.names, one_sided, self.groups, read_clock(self.frame, self.names))
        if self.classes is None:
            return Log(*given, graded=graded)
        if graded:
            raise ValueError(
                "graded outcomes must have one column of mu; got a list (classes are not graded)"
            )
        return ClassLog(*given, classes=self.classes, one_price=one_price)


def read_source(
    frame: Any,
    *,
    mu: Any = "mu",
    outcome: str = "y",
    stake: Any = None,
    c_hat: str | None = None,
    id: str | None = None,  # noqa: A002 - what callers call it
    group: str | Sequence[str] | None = None,
    time: str | None = None,
    known: str | None = None,
    customers: Customers | None = None,
    by: str | Sequence[str] | None = None,
) -> Source:
    """Read the columns that the arguments of `backtest` name.

    Raises a ValueError or TypeError if a column does not exist, or if the arguments do not fit together.
    """
    if customers is not None and not isinstance(customers, Customers):
        raise TypeError(f"customers must be makewhole.agents.Customers(...); got {customers!r}")
    stake = _stake_column(stake, id, customers)
    groups = _listed("group", group)
    others: dict[str, Any] = {"c_hat": c_hat, "id": id, "time": time, "known": known}
    others |= _level_columns(by) | groups
    classes = None
    if isinstance(mu, str):
        if stake is not None and not isinstance(stake, str):
            raise TypeError(f"stake must be the name of a column, as mu is; got {stake!r}")
        view = None if customers is None else customers.view
        names: dict[str, Any] = {"mu": mu, "outcome": outcome, "stake": stake, **others, "view": view}
    elif customers is not None:
        raise ValueError("customers bet on binary events: mu must be the name of one column")
    else:
        probabilities, stakes = _class_columns("mu", mu), _class_columns("stake", stake)
        classes = len(stakes)
        if classes != len(probabilities) or classes < 2:
            raise ValueError(
                f"mu and stake must name one column for each of at least 2 classes; got "
                f"{len(probabilities)} and {classes}"
            )
        names = {**probabilities} | {"outcome": outcome} | stakes | others
    present = {name: column for name, column in names.items() if column is not None}
    return Source(frames.read_columns(frame, present), names, list(groups), classes, customers)


def _stake_column(stake: Any, id_: str | None, customers: Customers | None) -> Any:
    if customers is None:
        return "stake" if stake is None else stake
    for name, value in (("stake", stake), ("id", id_)):
        if value is not None:
            raise ValueError(f"{name} must not be given with customers, who stake once; got {value!r}")
    return None


def _class_columns(name: str, given: Any) -> dict[str, str]:
    columns = list(given) if isinstance(given, Sequence) and not isinstance(given, str) else None
    if columns is None or not all(isinstance(column, str) for column in columns):
        raise TypeError(f"{name} must be a list of the names of columns, one per class; got {given!r}")
    return {f"{name}[{k}]": column for k, column in enumerate(columns)}


def _level_columns(by: str | Sequence[str] | None) -> dict[str, str]:
    columns = _listed("by", by)
    if by is not None and not 1 <= len(columns) <= MOST_LEVELS:
        raise ValueError(f"by must be at most {MOST_LEVELS} columns, and at least one; got {len(columns)}")
    return columns


def _listed(name: str, given: str | Sequence[str] | None) -> dict[str, str]:
    """Return columns by argument: under this name, or for a list "name[0]", "name[1]", and so on."""
    if given is None or isinstance(given, str):
        return {} if given is None else {name: given}
    columns = list(given) if isinstance(given, Sequence) else [given]
    if not all(isinstance(column, str) for column in columns) or len(set(columns)) < len(columns):
        raise TypeError(f"{name} must be the name of a column, or a list of different names; got {given!r}")
    return {f"{name}[{k}]": column for k, column in enumerate(columns)}
