"""A ledger of a later version is refused and left as it is."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from makewhole.ledger import Ledger, NotALedger


def test_a_later_version_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "later.db"
    with Ledger.open(path) as ledger:
        ledger.create("delays", capital=500_000, max_stake=20_000, unit="cent").forecast("UA-1", mu=0.2)
    later = apsw.Connection(str(path))
    later.execute("PRAGMA user_version = 99")
    later.close()
    before = path.read_bytes()
    with pytest.raises(NotALedger, match="has version 99; this makewhole knows 4"):
        Ledger.open(path)
    assert path.read_bytes() == before
