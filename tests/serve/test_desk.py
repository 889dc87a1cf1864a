"""What goes to the ledger's thread: together, in order, and all of it."""

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from makewhole.ledger import Ledger, StoreUnavailable
from makewhole.serve import desk as desks
from makewhole.serve.desk import Desk, Turns, _Task


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


# --- turns --------------------------------------------------------------------------------------------------


def tasks(*what: Any, who: str = "ann") -> list[_Task]:
    """Tasks that nobody waits for: a request for each dictionary, and else something that only reads."""
    return [_Task(who, "delays", one, None) for one in what]  # type: ignore[arg-type]  # they are only gathered


@given(st.lists(st.sampled_from("abcd"), max_size=40), st.lists(st.sampled_from("abcd"), max_size=10))
def test_callers_take_turns_and_each_keeps_her_order(first: list[str], later: list[str]) -> None:
    turns, taken = Turns(), list[tuple[str, int]]()
    turns.add(_Task(who, "", number, None) for number, who in enumerate(first))  # type: ignore[arg-type]  # idem
    for _ in range(len(first) // 2):
        taken.append(turns.take()[::2])
    turns.add(_Task(who, "", len(first) + number, None) for number, who in enumerate(later))  # type: ignore[arg-type]  # idem
    taken += [turns.take()[::2] for _ in range(len(turns))]
    assert len(turns) == 0
    asked = [*enumerate([*first, *later])]
    assert sorted(taken) == sorted((who, number) for number, who in asked)
    for who in "abcd":
        assert [number for one, number in taken if one == who] == [
            number for number, one in asked if one == who
        ]


def test_a_caller_with_one_task_waits_for_one_of_each_other() -> None:
    turns = Turns()
    for who in "abcd":
        turns.add(tasks(*[{}] * 1_000, who=who))
    turns.add(tasks({}, who="single"))
    assert [turns.take().who for _ in range(6)] == ["a", "b", "c", "d", "single", "a"]


def test_what_is_put_back_is_the_next() -> None:
    turns = Turns()
    turns.add([*tasks({}, len, who="a"), *tasks(len, who="b")])
    assert (len(turns), turns.reads) == (3, 2)
    taken = [turns.take(), turns.take()]
    turns.put_back(taken)
    assert (len(turns), turns.reads) == (3, 2)
    assert [turns.take() for _ in range(2)] == taken
    turns.put_back(taken[1:])
    assert [turns.take().who for _ in range(2)] == ["b", "a"]


# --- groups -------------------------------------------------------------------------------------------------

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
        found = desk._gather(wanted, time.monotonic() + seconds)
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
        found = desk._gather(3, time.monotonic() + 60)
        other.join()
    assert len(found) == 2


def test_the_desk_gives_up_when_nobody_comes(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "books.db") as ledger:
        desk = Desk(ledger)
        desk._queue.put(tasks({}))
        found = desk._gather(64, time.monotonic() + 0.01)
    assert found == tasks({})


def test_a_group_has_as_many_of_each_caller(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "books.db") as ledger:
        desk = Desk(ledger)
        desk._queue.put([*tasks(*[{}] * 500, who="a"), *tasks(*[{}] * 500, who="b")])
        desk._queue.put(tasks({}, who="single"))
        found = [task.who for task in desk._gather(0, 0.0)]
    assert len(found) == 64
    assert (found.count("a"), found.count("b"), found.count("single")) == (32, 31, 1)


def test_whoever_is_alone_and_asks_again_at_once_is_not_waited_for(tmp_path: Path) -> None:
    told: list[int] = []

    class Recording(Desk):
        """A desk that notes for how many it would wait."""

        def _gather(self, wanted: int, until: float) -> list[_Task]:
            told.append(wanted)
            return super()._gather(0, 0.0)

    async def play(ledger: Ledger) -> None:
        desk = Recording(ledger)
        desk.start()
        for k in range(5):
            await desk.write("delays", {"do": "stake", "id": "UA-1", "by": "ann", "stake": 10 + k})
        desk.stop()

    with Ledger.open(tmp_path / "books.db") as ledger:
        ledger.create("delays", capital=10**6, max_stake=10**5, unit="cent").forecast("UA-1", mu=0.2)
        asyncio.run(play(ledger))
    assert told[:6] == [0, 1, 1, 1, 1, 1]


# --- when the database does not answer ----------------------------------------------------------------------


def test_who_has_gone_away_is_forgotten_and_her_request_is_not_done(tmp_path: Path) -> None:
    async def play(ledger: Ledger) -> int:
        desk = Desk(ledger)
        gone, kept = stakes(desk, 2)
        gone.cancel()
        desk.start()
        await kept
        left = len(desk)
        desk.stop()
        return left

    with Ledger.open(tmp_path / "books.db") as ledger:
        book = ledger.create("delays", capital=10**6, max_stake=10**5, unit="cent")
        book.forecast("UA-1", mu=0.2)
        assert asyncio.run(play(ledger)) == 0
        assert [event.kind for event in book.events()].count("staked") == 1


def test_all_who_wait_are_told_when_the_database_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What has begun is done when the database comes back; what waited behind it is not."""
    monkeypatch.setattr(desks, "HUNG_SECONDS", 0.01)
    monkeypatch.setattr(desks, "_STOP_SECONDS", 0.01)
    hanging, hung = threading.Event(), threading.Event()

    def hang(_: Any) -> None:
        hung.set()
        hanging.wait(60)

    async def play(ledger: Ledger) -> None:
        desk = Desk(ledger)
        desk.start()
        begun = desk.read("delays", hang)
        await asyncio.to_thread(hung.wait, 60)
        waiting = stakes(desk, 3)
        while not desk.hangs:
            await asyncio.sleep(0.01)
        desk.look_after()
        for future in (begun, *waiting):
            with pytest.raises(StoreUnavailable, match="same key"):
                await future
        assert len(desk) == 0
        hanging.set()
        (receipt,) = await desk.write("delays", {"do": "stake", "id": "UA-1", "by": "ann", "stake": 7})
        assert receipt["stake"] == 7
        hanging.clear()
        hung.clear()
        desk.read("delays", hang)
        await asyncio.to_thread(hung.wait, 60)
        assert not desk.stop()
        hanging.set()
        assert desk.stop()

    with Ledger.open(tmp_path / "books.db") as ledger:
        book = ledger.create("delays", capital=10**6, max_stake=10**5, unit="cent")
        book.forecast("UA-1", mu=0.2)
        asyncio.run(play(ledger))
        assert [event.kind for event in book.events()].count("staked") == 1


@pytest.mark.parametrize("reads", [True, False])
def test_one_failure_of_the_database_is_told_to_all_who_wait(reads: bool, tmp_path: Path) -> None:
    """Each would otherwise wait as long as the first."""
    tried = []

    def fail(_: Any) -> None:
        tried.append(1)
        raise StoreUnavailable("it does not answer")

    async def play(ledger: Ledger) -> list[Any]:
        desk = Desk(ledger)
        first = desk.read("delays", fail)
        others = [desk.read("delays", fail) for _ in range(200)] if reads else stakes(desk, 200)
        desk.start()
        answers = await asyncio.gather(first, *others, return_exceptions=True)
        desk.stop()
        return answers

    with Ledger.open(tmp_path / "books.db") as ledger:
        book = ledger.create("delays", capital=10**6, max_stake=10**5, unit="cent")
        book.forecast("UA-1", mu=0.2)
        answers = asyncio.run(play(ledger))
        # Writes come before reads in a group, so those of the first group were stored.
        stored = [event.kind for event in book.events()].count("staked")
    assert len(tried) == 1
    assert stored == (0 if reads else 63)
    assert sum(isinstance(one, StoreUnavailable) for one in answers) == 201 - stored


def test_an_answer_is_kept_until_the_book_changes(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "books.db") as ledger:
        book = ledger.create("delays", capital=10**6, max_stake=10**5, unit="cent")
        desk, made = Desk(ledger), list[str]()

        def make(_: Any) -> int:
            made.append("made")
            return len(made)

        assert [desk.cached(book, "a", make) for _ in range(3)] == [1, 1, 1]
        assert desk.cached(book, "b", make) == 2
        book.forecast("UA-1", mu=0.2)
        assert desk.cached(book, "a", make) == 3
        for number in range(1_000):
            desk.cached(book, number, make)
        assert len(desk._cache["delays"][1]) <= 201
