"""Rows that a watch has not bet on yet: in order, until all outcomes before them are known."""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import Any, NamedTuple

import numpy as np

from makewhole.arguments import Floats

_UNKNOWN = math.nan


class Ready(NamedTuple):
    """Rows whose outcomes are known (NaN: dropped), as arrays for the compiled loop."""

    mu: Floats
    y: Floats
    at: Floats
    unit: Any
    cells: Any


class RowQueue:
    """A queue of rows. Bets are settled in the order of the forecasts, not of the outcomes.

    If they were settled as outcomes come in, outcomes that become known sooner (a flight is cancelled, a loan
    defaults) would be counted first, and right forecasts would look wrong. `places` says where in the queue
    each id is that still has no outcome; the first of them holds up all rows after it.
    """

    def __init__(self, width: int) -> None:
        self.width, self.first = width, 0
        self.mu: list[float] = []
        self.y: list[float] = []
        self.at: list[float] = []
        self.unit: list[float] = []
        self.cells: list[int] = []
        # Unlike a dict, it finds its first entry quickly after many have been removed.
        self.places: OrderedDict[Any, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self.mu)

    def append(self, mu: float, y: float, at: float, unit: float, cells: list[int]) -> None:
        """Add one row to the end."""
        self.mu.append(mu)
        self.y.append(y)
        self.at.append(at)
        self.unit.append(unit)
        self.cells += cells

    def extend(self, mu: Any, y: Any, at: Any, unit: Any, cells: Any) -> None:
        """Add rows to the end; `cells` has `width` numbers per row."""
        self.mu += mu
        self.y += y
        self.at += at
        self.unit += unit
        self.cells += cells

    def await_outcome(self, name: Any, row: int) -> None:
        """Say that the outcome of a row of the queue comes later, by this id (`name`)."""
        self.places[name] = self.first + row
        self.y[row] = _UNKNOWN

    def resolve(self, name: Any, y: float) -> None:
        """Put in an outcome (NaN: the row is dropped). Raises a ValueError if no such id waits for one."""
        place = self.places.get(name)
        if place is None:
            raise ValueError(f"id must be of a forecast that waits for its outcome; got {name!r}")
        self.y[place - self.first] = y
        del self.places[name]

    @property
    def ready(self) -> int:
        """How many rows come before the first one whose outcome is not known."""
        return next(iter(self.places.values())) - self.first if self.places else len(self.mu)

    def take(self) -> Ready:
        """Remove and return the rows that are ready."""
        n = self.ready
        taken = Ready(
            np.array(self.mu[:n], np.float64),
            np.array(self.y[:n], np.float64),
            np.array(self.at[:n], np.float64),
            np.array(self.unit[:n], np.float64),
            np.array(self.cells[: n * self.width], np.int64).reshape(n, self.width),
        )
        for column in (self.mu, self.y, self.at, self.unit):
            del column[:n]
        del self.cells[: n * self.width]
        self.first += n
        return taken
