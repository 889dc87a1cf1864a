"""Time functions side by side: on a shared machine only their ratio is meaningful."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple


class Row(NamedTuple):
    """One line of the table: ours against a peer, in the same run, and our target for the ratio."""

    what: str
    ours: float
    peer: str
    theirs: float
    unit: str
    target: float | None = None

    @property
    def ratio(self) -> float:
        """Ours over theirs; below 1 we are faster."""
        return self.ours / self.theirs


def side_by_side(*functions: Callable[[], object], repeats: int = 7) -> list[float]:
    """Return the best time of each, in seconds; they take turns, so that noise affects all alike."""
    best = [float("inf")] * len(functions)
    for _ in range(repeats):
        for i, function in enumerate(functions):
            began = time.perf_counter()
            function()
            best[i] = min(best[i], time.perf_counter() - began)
    return best


def print_rows(rows: list[Row]) -> bool:
    """Print the table; returns whether every target is met."""
    print(f"{'what':<58} {'ours':>9} {'theirs':>9} {'unit':<11} {'ratio':>6} {'target':>7}  peer")
    for row in rows:
        target = "" if row.target is None else f"<= {row.target:g}"
        missed = "  MISSED" if row.target is not None and row.ratio > row.target else ""
        numbers = f"{row.ours:>9.3f} {row.theirs:>9.3f} {row.unit:<11} {row.ratio:>6.2f} {target:>7}"
        print(f"{row.what:<58} {numbers}  {row.peer}{missed}", flush=True)
    return all(row.target is None or row.ratio <= row.target for row in rows)
