"""What goes to the ledger's thread: together, in order, and all of it."""

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from makewhole.ledger import Ledger
from makewhole.serve.desk import Desk, _Task


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


# --- groups -------------------------------------------------------------------------------------------------


def tasks(*what: Any) -> list[_Task]:
    """Tasks that nobody waits for: a request for each dictionary, and else something that only reads."""
    return [_Task("delays", one, None) for one in what]  # type: ignore[arg-type]  # they are only gathered


LONG = 10**6  # seconds: whoever waited so long would not come back in a test


@pytest.mark.parametrize(
    ("parts", "wanted", "seconds"),
    [
        ([tasks({}, {})], 2, LONG),  # all are there
        ([tasks({}), tasks({}), tasks({})], 3, LONG),
        ([tasks({}), tasks({}, {}, {})], 2, LONG),  # and some more
        ([tasks({})], 0, LONG),  # nobody else was under way
        ([tasks({})], 5, -1),  # it was long ago
        ([tasks({}), tasks(len)], 5, LONG),  # somebody only reads
        ([tasks(len, {})], 5, LONG),
        ([tasks(*[{}] * 64)], 100, LONG),  # a group is full
    ],
)
def test_the_desk_waits_for_nobody(
    parts: list[list[_Task]], wanted: int, seconds: float, tmp_path: Path
) -> None:
    with Ledger.open(tmp_path / "books.db") as ledger:
        desk = Desk(ledger)
        for part in parts:
            desk._queue.put(part)
        found, more = desk._gather(wanted, time.monotonic() + seconds)
    assert more
    assert found == [task for part in parts for task in part]


def test_the_desk_waits_for_those_who_were_under_way_before(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "books.db") as ledger:
        desk = Desk(ledger)
        looks = threading.Event()
        queue = desk._queue

        class Telling:
            """A queue that tells when somebody waits for more."""

            def get(self, block: bool, seconds: float | None) -> Any:
                if block and seconds is not None:
                    looks.set()
                return queue.get(block, seconds)

        def come() -> None:
            looks.wait(60)
            queue.put(tasks({}))
            queue.put(None)

        desk._queue = Telling()  # type: ignore[assignment]  # only what is asked of it here
        other = threading.Thread(target=come)
        other.start()
        queue.put(tasks({}))
        found, more = desk._gather(3, time.monotonic() + LONG)
        other.join()
    assert len(found) == 2
    assert not more


def test_the_desk_gives_up_when_nobody_comes(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "books.db") as ledger:
        desk = Desk(ledger)
        desk._queue.put(tasks({}))
        found, more = desk._gather(64, time.monotonic() + 0.01)
    assert found == tasks({})
    assert more


def test_whoever_is_alone_and_asks_again_at_once_is_not_waited_for(tmp_path: Path) -> None:
    class Recording(Desk):
        """A desk that notes for how many it would wait."""

        def _gather(self, wanted: int, until: float) -> tuple[list[_Task], bool]:
            told.append(wanted)
            return super()._gather(0, 0.0)

    class Loop:
        """An event loop that has one client, who asks again before anything else happens."""

        def is_closed(self) -> bool:
            return False

        def call_soon_threadsafe(self, *_: Any) -> None:
            ask() if len(told) < 5 else desk._queue.put(None)

    def ask() -> None:
        desk._asked += 1
        desk._queue.put(tasks({"do": "stake", "id": "UA-1", "by": "ann", "stake": 10}))

    told: list[int] = []
    with Ledger.open(tmp_path / "books.db") as ledger:
        ledger.create("delays", capital=10**6, max_stake=10**5, unit="cent").forecast("UA-1", mu=0.2)
        desk = Recording(ledger)
        desk._loop = Loop()  # type: ignore[assignment]  # all that the desk asks of one
        ask()
        desk._work()
    assert told[:5] == [0, 1, 1, 1, 1]
