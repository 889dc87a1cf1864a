"""The total loss in the course of a backtest: its peak, its worst drawdown, and the points of the curve."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from makewhole.arguments import Floats
from makewhole.jit import call, jit

CURVE_POINTS = 2000


class PathPoint(NamedTuple):
    """A moment of the run: after `settled` forecasts, the last of them in row `row` of the log.

    `total` is the total loss then, and `lam` the λ of the last of them. At the start `row` is None.
    """

    settled: int
    total: float
    lam: float
    row: int | None


START = PathPoint(0, 0.0, 0.0, None)


def largest_rise(total: Any, lowest: float, beyond: float) -> tuple[float, int, int]:
    """Return the largest rise of `total` from an earlier low, if it is beyond `beyond`, and its two places.

    `lowest` is the lowest before; a rise from there begins at place −1.
    """
    low_at, began, ended = -1, -1, -1
    for t in range(len(total)):
        if total[t] < lowest:
            lowest, low_at = total[t], t
        elif total[t] - lowest > beyond:
            beyond, began, ended = total[t] - lowest, low_at, t
    return beyond, began, ended


@functools.cache
def _compiled() -> Callable[..., tuple[float, int, int]]:
    return jit(largest_rise)


class Path:
    """Follows the total loss settlement by settlement. All settlements count; the curve shows some of them.

    `peak` is where the loss was largest. The worst drawdown is the largest rise of the loss from an earlier
    low: `drawdown` is its size, `trough` where it began and `crest` where it ended. `rounds` is how many
    settlements there will be at most.
    """

    def __init__(self, rounds: int) -> None:
        self.settled, self.peak, self.last = 0, START, START
        self.drawdown, self.trough, self.crest = 0.0, START, START
        self._lowest = START
        moments = np.arange(1, CURVE_POINTS) * (rounds / (CURVE_POINTS - 1))
        self._moments = np.unique(np.ceil(moments).astype(np.int64))
        self._points: list[tuple[Any, Any, Any]] = [(np.zeros(0, np.int64), np.zeros(0), np.zeros(0))]

    def extend(self, total: Floats, lam: Floats, row_of: Callable[[int], int]) -> None:
        """Continue: `total` is the total loss after each further settlement, and `lam` the λ of each.

        `row_of` gives the row of the log for a place in these arrays.
        """
        if not len(total):
            return

        def point(at: int) -> PathPoint:
            return PathPoint(self.settled + at + 1, float(total[at]), float(lam[at]), row_of(at))

        low, high = np.searchsorted(self._moments, [self.settled, self.settled + len(total)], side="right")
        at = self._moments[low:high] - self.settled - 1
        self._points.append((self._moments[low:high], total[at], lam[at]))
        top, bottom = float(total.max()), float(total.min())
        if top > self.peak.total:
            self.peak = point(int(total.argmax()))
        # Most stretches cannot hold a new drawdown: two fast passes find out, and the slow one is rare.
        if top - min(bottom, self._lowest.total) > self.drawdown:
            self._look_for_drawdown(total, point)
        if bottom < self._lowest.total:
            self._lowest = point(int(total.argmin()))
        self.last = point(len(total) - 1)
        self.settled += len(total)

    def _look_for_drawdown(self, total: Floats, point: Callable[[int], PathPoint]) -> None:
        rise, began, ended = call(_compiled(), total, self._lowest.total, self.drawdown)
        if rise > self.drawdown:
            trough = self._lowest if began < 0 else point(began)
            self.drawdown, self.trough, self.crest = rise, trough, point(ended)

    def curve(self) -> tuple[Any, Floats, Floats]:
        """Return (settled, total loss, λ) at some 2000 points; peak, drawdown and end are among them."""
        settled, total, lam = (np.concatenate(part) for part in zip(*self._points, strict=True))
        for point in (self.peak, self.trough, self.crest, self.last):
            at = int(np.searchsorted(settled, point.settled))
            if point.settled and (at == len(settled) or settled[at] != point.settled):
                settled = np.insert(settled, at, point.settled)
                total, lam = np.insert(total, at, point.total), np.insert(lam, at, point.lam)
        return settled, total, lam
