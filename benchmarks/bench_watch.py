"""Watching rows: one by one against river's drift detectors, and frames against the sums alone."""

from __future__ import annotations

import time

import numpy as np
import polars as pl
from river.drift import ADWIN

import makewhole as mw
from timing import Row, side_by_side

ROWS = 50_000
BUDGET = 5.0  # µs a row, one by one, with three groups per row


def rows() -> list[Row]:
    draw = np.random.default_rng(0)
    mu = draw.uniform(size=ROWS)
    frame = pl.DataFrame(
        {
            "mu": mu,
            "y": (draw.uniform(size=ROWS) < mu).astype(int),
            "carrier": draw.choice(["AA", "UA", "DL"], ROWS),
        }
    ).with_columns(day=pl.int_range(ROWS) // 300, bin=(pl.col("mu") * 5).cast(int))
    given = list(zip(*(frame[name].to_list() for name in ("mu", "y", "carrier", "bin", "day")), strict=True))

    def one_by_one() -> None:
        watch = mw.Watch(groups=["carrier"])
        for mu, y, carrier, _, day in given:
            watch.see(mu, y, groups={"carrier": carrier}, at=day)
        watch.alarms()

    def detectors() -> None:
        """One detector for all rows, each carrier and each bin: as many as the watch has groups."""
        found: dict[object, ADWIN] = {}
        for mu, y, carrier, place, _ in given:
            for key in ("", carrier, place):
                if key not in found:
                    found[key] = ADWIN()
                found[key].update(y - mu)

    def many() -> None:
        watch = mw.Watch(groups=["carrier"])
        watch.see_many(frame, at="day")
        watch.alarms()

    def by_day() -> None:
        watch = mw.Watch(groups=["carrier"], cluster="at")
        watch.see_many(frame, at="day")
        watch.alarms()

    times = side_by_side(one_by_one, detectors, many, by_day, repeats=3)
    one, river, frames, days = (1e6 * seconds / ROWS for seconds in times)
    began = time.process_time()
    one_by_one()
    busy = 1e6 * (time.process_time() - began) / ROWS
    unit, peer = "µs a row", "river's ADWIN, three a row"
    return [
        Row("watch, one by one, processor time", busy, "what is allowed", BUDGET, unit, 1.0),
        Row("watch, one by one", one, peer, river, unit),
        Row("watch, a frame", frames, peer, river, unit),
        Row("watch, a frame by day", days, peer, river, unit),
    ]
