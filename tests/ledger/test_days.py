"""A thaw by the day in a ledger, which knows the time."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import makewhole as mw
from makewhole.ledger import Ledger


def test_a_ledger_knows_the_day(tmp_path: Path) -> None:
    """By the time of its events, so that it is the same when they are read again."""
    now = [0]
    day, told = 24 * 60 * 60 * 1_000_000, []
    thaw = mw.Thaw(budget=400.0, per_day=60.0)
    with Ledger.open(tmp_path / "books.db", clock=lambda: now[0]) as ledger:
        how: dict[str, Any] = {
            "thaw": thaw,
            "lines": mw.Lines(each=400, share=1),
            "stop": False,
        }  # so that c rises fast
        made = ledger.create("delays", capital=1_000, max_stake=100, unit="cent", **how)
        for k in range(240):
            now[0] += day // 40
            made.forecast(f"id {k}", mu=0.5)
            if k < 40:
                made.stake(f"id {k}", by=f"c{k}", stake=90)
            made.report(f"id {k}", 1)
            made.settle()
            told.append((now[0] // day, made._writer.state().f.statement().conceded))
        assert ledger.verify().events > 700
    last = dict(told)
    days = sorted(last)
    steps = [last[b] - last[a] for a, b in pairwise(days)]
    assert max(steps) == pytest.approx(60.0)
    assert last[days[-1]] > 200.0
    with Ledger.open(tmp_path / "books.db", clock=lambda: now[0]) as ledger:
        again = ledger.book("delays")._writer.state().f.statement().conceded
        assert again == last[days[-1]]
