"""Every drill once: nothing that was acknowledged is lost, and nothing is done twice (`make test-faults`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledger.drills import DRILLS, Tally
from ledger.server import Server

# Smaller tests cover the others: test_crashes, test_hangs, test_processors, test_receipts.
SHORT = ("restore", "failover", "fork")


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [name if name in SHORT else pytest.param(name, marks=pytest.mark.long) for name in DRILLS]
)
def test_nothing_is_lost_and_nothing_is_done_twice(server: Server, tmp_path: Path, name: str) -> None:
    done = DRILLS[name](server, tmp_path, 0)
    assert done.acknowledged > 50
    assert (done.lost, done.doubled) == (0, 0)


@pytest.mark.long
def test_a_failover_whose_primary_is_gone_is_repaired_from_receipts(server: Server, tmp_path: Path) -> None:
    assert DRILLS["failover"](server, tmp_path, 1).lost == 0


def test_a_tally_adds_up() -> None:
    total = Tally(1, 2, 3, 4.0)
    total.add(Tally(10, 20, 30, 2.0))
    assert total == Tally(11, 22, 33, 4.0)
