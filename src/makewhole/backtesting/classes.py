"""A log of forecasts with K classes: a column of probabilities and a column of stakes for each class."""

from __future__ import annotations

from typing import Any

import numpy as np

from makewhole.arguments import SUM_TOLERANCE, Floats
from makewhole.backtesting.log import Chunk, Columns, Log


class ClassLog(Log):
    """A log with K classes. In its chunks μ̂ and stakes have a column for each class.

    An outcome is the index of a class, from 0 to K − 1.
    """

    def __init__(self, *given: Any, classes: int) -> None:
        self.classes = classes
        super().__init__(*given)
        if self.order is None:
            self._sort()

    def _chunk(self, start: int, stop: int, cap: float) -> Chunk:
        place, K = self.order[start:stop], self.classes
        column = {name: self._numbers(name, place) for name in (*self._numeric, *self.groups)}
        mu = np.stack([column[f"mu[{k}]"] for k in range(K)], axis=1)
        b = np.stack([column[f"stake[{k}]"] for k in range(K)], axis=1)
        y = column["outcome"]
        width = column["c_hat"] if "c_hat" in column else self._widths(len(y))
        self._check_classes(place, mu, y, b, width)
        codes = np.stack([column[group] for group in self.groups], axis=1) if self.groups else None
        first, forecast = np.arange(len(y)), None
        if self.event is not None:
            _, first, forecast = np.unique(self.event[start:stop], return_index=True, return_inverse=True)
            same = {name: column[name] for name in column if not name.startswith("stake")}
            for name, values in same.items():
                shown = values if name not in self.groups else self._group_labels(values)
                differs = values != values[first][forecast]
                self._reject(name, place, shown, differs, "must be the same in all rows of an event")
        net, gross = np.zeros((len(first), K)), np.zeros((len(first), K))
        which = first if forecast is None else forecast
        np.add.at(net, which, b)
        np.add.at(gross, which, np.abs(b))
        groups = None if codes is None else codes[first].astype(np.int64)
        columns = Columns(mu[first], width[first], y[first], net, gross)
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
