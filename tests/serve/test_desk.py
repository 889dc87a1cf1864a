"""What goes to the ledger's thread: together, in order, and all of it."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from makewhole.ledger import Ledger
from makewhole.serve.desk import Desk


def stakes(desk: Desk, count: int) -> list[asyncio.Future[Any]]:
    asked = {"do": "stake", "id": "UA-1", "by": "ann", "stake": 10}
    return [desk.write("delays", asked | {"key": str(k)}) for k in range(count)]


@pytest.mark.parametrize(("count", "groups"), [(1, 1), (64, 1), (65, 2), (300, 5)])
def test_what_comes_in_one_turn_is_stored_together_and_in_order(
    count: int, groups: int, tmp_path: Path
) -> None:
    async def play(ledger: Ledger) -> list[int]:
        desk = Desk(ledger)
        asked = stakes(desk, count)  # the thread does not run yet: whatever it finds has come in this turn
        await asyncio.sleep(0)
        desk.start()
        found = [(await one)[0].seq for one in asked]
        assert desk.groups == groups
        desk.stop()
        return found

    with Ledger.open(tmp_path / "books.db") as ledger:
        book = ledger.create("delays", capital=10**6, max_stake=10**5, unit="cent")
        first = book.forecast("UA-1", mu=0.2).seq + 1
        assert asyncio.run(play(ledger)) == list(range(first, first + count))


def test_the_desk_finishes_what_it_was_asked_before_it_ends(tmp_path: Path) -> None:
    async def play(ledger: Ledger) -> int:
        desk = Desk(ledger)
        desk.start()
        asked = stakes(desk, 100)
        looked = desk.read("delays", lambda book: book.head()[0])
        desk.stop()  # in the same turn
        await asyncio.gather(*asked)
        head: int = await looked
        return head

    with Ledger.open(tmp_path / "books.db") as ledger:
        book = ledger.create("delays", capital=10**6, max_stake=10**5, unit="cent")
        last = book.forecast("UA-1", mu=0.2).seq
        assert asyncio.run(play(ledger)) == last + 100
