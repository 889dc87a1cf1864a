"""A log of forecasts with K classes: a column of probabilities and a column of stakes for each class.

In exact mode all classes have one price, and together they are one bet, which the compiled loop plays.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from makewhole import multiclass
from makewhole.arguments import SUM_TOLERANCE, Floats
from makewhole.backtesting.log import Chunk, ChunkColumns, Log
from makewhole.backtesting.run import Run


class ClassLog(Log):
    """A log with K classes. In its chunks μ̂ and stakes have a column for each class.

    An outcome is the index of a class, from 0 to K − 1. At `one_price` stakes are those that a forecaster
    takes: minus the part that is the same on all classes.
    """

    def __init__(self, *given: Any, classes: int, one_price: bool = False) -> None:
        self.classes, self.one_price = classes, one_price
        super().__init__(*given)
        if self.order is None:
            self._sort()

    def _chunk(self, start: int, stop: int, cap: float) -> Chunk:
        place, K = self.order[start:stop], self.classes
        column = {name: self._numbers(name, place) for name in (*self._numeric, *self.groups)}
        mu = np.stack([column[f"mu[{k}]"] for k in range(K)], axis=1)
        b: Any = np.stack([column[f"stake[{k}]"] for k in range(K)], axis=1)
        y = column["outcome"]
        width = column["c_hat"] if "c_hat" in column else self._widths(len(y))
        self._check_classes(place, mu, y, b, width)
        if self.one_price:
            b = _without_common(b)
        codes = np.stack([column[group] for group in self.groups], axis=1) if self.groups else None
        first, forecast = np.arange(len(y)), None
        if self.ids is not None:
            _, first, forecast = np.unique(self.ids[start:stop], return_index=True, return_inverse=True)
            same = {name: column[name] for name in column if not name.startswith("stake")}
            for name, values in same.items():
                shown = values if name not in self.groups else self._group_labels(values)
                differs = values != values[first][forecast]
                self._reject(name, place, shown, differs, "must be the same in all rows of an id")
        net, gross = np.zeros((len(first), K)), np.zeros((len(first), K))
        which = first if forecast is None else forecast
        np.add.at(net, which, b)
        np.add.at(gross, which, np.abs(b))
        groups = None if codes is None else codes[first].astype(np.int64)
        columns = ChunkColumns(mu[first], width[first], y[first], net, gross)
        chunk = Chunk(columns, groups, place, forecast, b, stop)
        self._set_times(chunk)
        self._check_cap(chunk, cap)
        return chunk

    def _check_classes(self, place: Any, mu: Any, y: Floats, b: Any, width: Floats) -> None:
        for k in range(self.classes):
            fits = (mu[:, k] >= 0) & (mu[:, k] <= 1)
            self._reject(f"mu[{k}]", place, mu[:, k], ~fits, "must lie in [0, 1]")
            self._reject(f"stake[{k}]", place, b[:, k], np.isinf(b[:, k]), "must be finite")
            if self.one_sided:
                rule = "must not be negative when one-sided"
                self._reject(f"stake[{k}]", place, b[:, k], b[:, k] < 0, rule)
        sums = mu.sum(axis=1)
        off = np.abs(sums - 1) > SUM_TOLERANCE
        if off.any():
            at = int(np.argmax(off))
            raise ValueError(f"mu must add up to 1 over the classes; got {sums[at]:g} at row {place[at]}")
        odd = (y < 0) | (y >= self.classes) | (y != np.floor(y))
        self._reject("outcome", place, y, odd, f"must be a class index, one of 0 … {self.classes - 1}")
        self._check_width(place, width)


def _without_common(b: Any) -> Any:
    """Return `without_common` of every row: the stakes as a forecaster with one price takes them."""
    low, high = b.min(axis=1, keepdims=True), b.max(axis=1, keepdims=True)
    return b - np.where(low > 0.0, low, np.where(high < 0.0, high, 0.0))


class ClassRun(Run):
    """A backtest of classes at one price: all classes of a forecast are one bet.

    Minus its median, a stake wins B = b_y − Σ b_k·μ_k and costs c·A, where A = Σ|b_k|. The loop treats it as
    a stake of B, of the size A, on an event of probability 0 that happens.
    """

    log: ClassLog

    def __init__(self, *given: Any, trace: bool) -> None:
        super().__init__(*given, trace=False)
        if trace:  # the loop's own trace would be of the one bet
            self.traced, count = True, self.log.classes
            each = [f"{name}[{k}]" for name in ("mu", "c", "lam") for k in range(count)]
            self.sums.trace = {name: np.full(self.log.rows, np.nan) for name in (*each, "payment")}

    def step(self, chunk: Chunk) -> None:
        """Replay a chunk."""
        mu, width, outcome, *_ = chunk.columns
        which = np.arange(len(outcome)) if chunk.forecast is None else chunk.forecast
        won, size = _won(mu[which], chunk.stake, outcome[which].astype(np.int64))
        net: Any = np.bincount(which, weights=won, minlength=len(outcome))
        gross: Any = np.bincount(which, weights=size, minlength=len(outcome))
        columns = ChunkColumns(np.zeros(len(net)), width, np.ones(len(net)), net, gross)
        self.bets = mu, won, size
        super().step(replace(chunk, columns=columns))

    def _keep(self, trace: dict[str, Floats], chunk: Chunk, out: Any) -> None:
        mu, won, size = self.bets
        which = slice(None) if chunk.forecast is None else chunk.forecast
        for k in range(mu.shape[1]):
            trace[f"mu[{k}]"][chunk.rows] = mu[which, k]
            trace[f"c[{k}]"][chunk.rows], trace[f"lam[{k}]"][chunk.rows] = out.c[which], out.lam[which]
        trace["payment"][chunk.rows] = won - size * out.c[which]


def _won(mu: Any, b: Any, y: Any) -> tuple[Floats, Floats]:
    """What every stake, minus its median, wins at fair odds, and its size; added up as a forecaster does."""
    centred = multiclass.centred(b)
    fair, size = np.zeros(len(b)), np.zeros(len(b))
    for k in range(b.shape[1]):
        fair += centred[:, k] * mu[:, k]
        size += np.abs(centred[:, k])
    return centred[np.arange(len(b)), y] - fair, size
