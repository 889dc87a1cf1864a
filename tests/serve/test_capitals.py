"""What other capitals would have meant: with its own capital, the replay must be the book itself."""

import asyncio
import contextlib
import json
from collections import deque
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import makewhole as mw
from makewhole.insured.refusals import Refusal
from makewhole.ledger import Book, Ledger
from makewhole.serve import capitals, history
from makewhole.serve.capitals import BEARABLE, Job, Trials, try_capitals
from makewhole.serve.history import History
from serve.served import BOOK, Served, served, wait_for
from serve.test_api import Clients

CAPITAL, CAP = 100_000, 5_000


def play(book: Book, moves: list[tuple[int, float, int, int]], *, grouped: bool) -> None:
    """Let forecasts, new versions, stakes and outcomes come as the moves say; all is settled at the end."""
    waiting: deque[tuple[str, int]] = deque()
    for number, (what, mu, size, who) in enumerate(moves):
        if what == 0 or not waiting:
            groups = ["east" if who % 2 else "west"] if grouped else None
            book.forecast(str(number), mu=mu, groups=groups)
            waiting.append((str(number), int(size % 10 < 10 * mu)))
        elif what == 1:
            id_, outcome = waiting.popleft()
            book.settle(id_, outcome)
        elif what == 2:
            groups = ["east" if who % 2 else "west"] if grouped else None
            book.forecast(waiting[-1][0], mu=mu, groups=groups)
        elif what == 3 and number % 7 == 0:
            book.void(waiting.pop()[0], "fog")
        else:
            id_ = waiting[who % len(waiting)][0]
            with contextlib.suppress(Refusal):
                book.stake(id_, by=f"customer {who}" if who else ["agency", "customer 0"], stake=size or 1)
    book.forecast("last", mu=0.5, groups=["east"] if grouped else None)
    book.stake("last", by="ann", stake=5)  # at least one
    for id_, outcome in [*waiting, ("last", 1)]:
        book.settle(id_, outcome)


def job_of(ledger: Ledger, times: list[float]) -> Job:
    """The job for a book, as the server makes it."""
    past = History("b")
    while past.follow(ledger.store):
        pass
    return Job(past.settled_rows(), json.loads(json.dumps(past.forecaster)), [CAPITAL * k for k in times])


sizes = st.integers(-5_000, 5_000) | st.integers(-500, 500)  # 500 is the share of one customer
moves = st.lists(
    st.tuples(st.integers(0, 9), st.floats(0.05, 0.95), sizes, st.integers(0, 4)),
    min_size=5,
    max_size=60,
)
SETTINGS: list[dict[str, Any]] = [
    {},
    {"lines": None, "thaw": None},
    {"lines": mw.Lines(each=40_000, share=1), "stop": False},
    {"correction": mw.Reserve(0.05), "max_exposure": 20_000},
    {"correction": mw.Grouped(mw.Barrier(40_000, spread=0.02))},
]


@pytest.mark.slow
@pytest.mark.parametrize("how", SETTINGS, ids=str)
@settings(max_examples=25)
@given(moves=moves)
def test_with_its_own_capital_the_replay_is_the_book(
    how: dict[str, Any], moves: list[Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    where = tmp_path_factory.mktemp("capitals") / "books.db"
    with Ledger.open(where) as ledger:
        book = ledger.create("b", capital=CAPITAL, max_stake=CAP, unit="cent", **how)
        play(book, moves, grouped="Grouped" in str(how))
        told = book.inner_statement()
        (point,) = try_capitals(job_of(ledger, [1.0]))
        fair, peak, served = slowly(book)
    assert told.open == 0
    assert point.taken == 1.0
    assert point.served == pytest.approx(served)
    assert point.certified == pytest.approx(told.certificate.bound)
    # The premium is what customers would have won at the model's odds, less what they have won.
    assert point.premium * told.turnover == pytest.approx(fair - told.total_loss, abs=1e-6)
    assert point.worst == pytest.approx(peak, abs=1e-6)


def test_a_trial_has_no_days(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "books.db") as ledger:
        thaw = mw.Thaw(budget=CAPITAL / 2, per_day=1.0)
        book = ledger.create("b", capital=CAPITAL, max_stake=CAP, unit="cent", thaw=thaw)
        play(book, [], grouped=False)
        (point,) = try_capitals(job_of(ledger, [1.0]))
    assert point.certified == CAPITAL


def slowly(book: Book) -> tuple[float, float, float]:
    """From the log: what was won at the model's odds, the worst loss, the share that cost at most 5 %."""
    said: dict[int, float] = {}
    stakes: dict[str, list[dict[str, Any]]] = {}
    fair = lost = peak = cheap = wanted = 0.0
    for event in book.events():
        body = event.data()
        if event.kind == "forecast":
            said[event.seq] = body["mu"]
        elif event.kind == "staked":
            stakes.setdefault(body["id"], []).append(body)
        elif event.kind == "settled":
            for one in stakes.get(body["id"], []):
                fair += one["stake"] * (body["outcome"] - said[one["on"]])
                wanted += abs(one["stake"])
                side = 1 if one["stake"] > 0 else -1
                if one["c"] + side * (one["mu"] - said[one["on"]]) <= BEARABLE + 1e-9:
                    cheap += abs(one["stake"])
            # Versions are settled one after the other.
            for on in sorted({one["on"] for one in stakes.get(body["id"], [])}):
                for one in stakes[body["id"]]:
                    if one["on"] == on:
                        lost += one["stake"] * (body["outcome"] - one["mu"]) - abs(one["stake"]) * one["c"]
                peak = max(peak, lost)
    return fair, peak, cheap / wanted


@pytest.mark.slow
def test_more_capital_is_cheaper_and_less_is_refused_or_dearer(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "books.db") as ledger:
        how: dict[str, Any] = {"lines": mw.Lines(each=40_000, share=1), "stop": False}
        book = ledger.create("b", capital=CAPITAL, max_stake=CAP, unit="cent", **how)
        for number in range(60):
            book.forecast(str(number), mu=0.5)
            book.stake(str(number), by="knows all", stake=4_000)
            book.settle(str(number), 1)
        points = try_capitals(job_of(ledger, [1 / 64, 1 / 8, 1.0, 8.0]))
    assert [point.capital for point in points] == [CAPITAL / 64, CAPITAL / 8, CAPITAL, 8 * CAPITAL]
    assert [point.certified for point in points] == [point.capital for point in points]
    assert all(point.worst <= point.capital for point in points)
    premiums = [point.premium for point in points]
    assert premiums == sorted(premiums, reverse=True)
    assert points[0].worst < points[-1].worst
    assert points[2].taken == 1.0  # as the book did, which has no stop
    assert points[0].served < points[-1].served == 1.0
    assert points[-1].carries == int(8 * CAPITAL / (0.48 * CAP))  # at μ = 0.5 a full stake can lose 0.48


def test_only_the_latest_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "MOST_ROWS", 10)
    with Ledger.open(tmp_path / "books.db") as ledger:
        book = ledger.create("b", capital=CAPITAL, max_stake=CAP, unit="cent")
        for number in range(9):
            book.forecast(str(number), mu=0.5)
            book.forecast(str(number), mu=0.25)  # nobody has staked on the first: it goes
            for name in ("ann", "bob"):
                book.stake(str(number), by=name, stake=100)
            book.settle(str(number), 1)
        rows = job_of(ledger, []).rows
        head = book.head()[0]
    assert len(rows) == 9
    assert {row.mu for row in rows} == {0.25}
    assert [row.stake for row in rows] == [0, 100, 100] * 3
    assert rows[-1].known == head


# --- on the server ----------------------------------------------------------------------------------------

TRIED = f"/books/{BOOK}/capitals.json"


@pytest.mark.slow
def test_only_the_desk_may_ask_for_a_trial(clients: Clients, server: Served) -> None:
    for role, status in ((None, 401), ("customer", 403), ("oracle", 403)):
        assert clients[role].get(TRIED).status_code == status
    assert clients["publisher"].get("/books/none/capitals.json").status_code == 404


@pytest.mark.slow
def test_a_server_that_ends_ends_its_trial(tmp_path: Path) -> None:
    """Also if the trial has just begun: no process is left behind, and nothing is said."""
    with served(tmp_path, str(tmp_path / "books.db")) as made, made.client("the desk") as desk:
        with Ledger.open(tmp_path / "books.db") as ledger:
            book = ledger.book(BOOK)
            for number in range(500):
                book.do_many(
                    [
                        {"do": "forecast", "id": str(number), "mu": 0.5},
                        {"do": "stake", "id": str(number), "by": "ann", "stake": 5},
                        {"do": "settle", "id": str(number), "outcome": 1},
                    ]
                )
        wait_for(lambda: "499" in desk.get(f"/books/{BOOK}").text, "the settlements")
        assert "It is being computed" in desk.get(f"/books/{BOOK}/desk").text


def test_a_trial_is_made_once_for_the_same_settlements(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bytes] = []

    async def replay(job: bytes) -> tuple[int, bytes, bytes]:
        asked.append(job)
        await asyncio.sleep(0)
        return (0, msgspec.json.encode([]), b"") if len(asked) < 3 else (1, b"", b"no\nluck")

    monkeypatch.setattr(capitals, "_replay", replay)
    monkeypatch.setattr(capitals, "_REST", 0.0)

    async def look() -> None:
        trials = Trials()
        several = await asyncio.gather(*(trials.of(past) for _ in range(5)))
        assert len({id(one) for one in several}) == 1
        await trials.of(past)
        assert len(asked) == 1
        past.settled_at += 1
        await trials.of(past)
        assert len(asked) == 2
        past.settled_at += 1
        assert "luck" in (await trials.of(past)).problem
        monkeypatch.setattr(capitals, "_REST", 1e9)
        past.settled_at += 1
        await trials.of(past)
        past.settled_at += 1
        await trials.of(past)
        assert len(asked) == 4  # the last was just now

    with Ledger.open(tmp_path / "books.db") as ledger:
        book = ledger.create("b", capital=CAPITAL, max_stake=CAP, unit="cent")
        past = History("b")
        past.follow(ledger.store)
        assert asyncio.run(Trials().of(past)).problem == "No stake is settled yet."
        book.forecast("x", mu=0.5)
        book.stake("x", by="ann", stake=5)
        book.settle("x", 1)
        past.follow(ledger.store)
    asyncio.run(look())
