"""All are out to ruin the book: it never loses more than its capital, nor to anyone more than her line."""

from collections import defaultdict, deque
from typing import Any

import numpy as np
import pytest

import makewhole as mw
from ledger.places import Clock, Place
from makewhole.ledger import Book, writing

CAPITAL, MAX_STAKE, LINE = 20_000, 1_000, 6_000


class Siege:
    """Many customers against one book; outcomes are known to some before they stake, and come late.

    Clairvoyants know the outcome; insiders mostly do; pairs stake b and -b, so that one of them wins; a crowd
    of a thousand names belongs to one person, who knows, too. Some ids have many versions, each staked on.
    All stop at a price at which they would lose.
    """

    def __init__(self, book: Book, clock: Clock, seed: int) -> None:
        self.book, self.clock, self.draw = book, clock, np.random.default_rng(seed)
        self.outcomes: dict[str, int] = {}
        self.open: deque[str] = deque()
        self.stakes = self.lost = self.worst = 0

    def round(self, n: int) -> None:
        """Open some ids, stake on what is open, and report what was opened long ago."""
        asked: list[dict[str, Any]] = []
        for k in range(5):
            id_, mu = f"{n} {k}", float(self.draw.uniform())
            self.outcomes[id_] = int(self.draw.uniform() < mu)
            self.open.append(id_)
            asked.append({"do": "forecast", "id": id_, "mu": mu})
        for id_ in self.draw.choice(list(self.open), 90):
            asked += self._stakes(str(id_))
        while len(self.open) > 20:
            id_ = self.open.popleft()
            if self.draw.uniform() < 0.05:
                asked.append({"do": "void", "id": id_, "reason": "fog"})
            else:
                asked.append({"do": "report", "id": id_, "outcome": self.outcomes[id_]})
        asked.append({"do": "settle"})
        self._follow(asked)

    def _stakes(self, id_: str) -> list[dict[str, Any]]:
        """What one of them stakes on an id."""
        known = 1 if self.outcomes[id_] else -1
        size = int(self.draw.integers(1, MAX_STAKE // 4))
        kind = self.draw.integers(5)
        if kind == 0:
            return [stake(id_, "clairvoyant", known * size)]
        if kind == 1:
            right = 1 if self.draw.uniform() < 0.8 else -1
            return [stake(id_, ["firm", f"insider {self.draw.integers(3)}"], known * right * size, 0.8)]
        if kind == 2:
            return [stake(id_, "left", size, 0.55), stake(id_, "right", -size, 0.55)]
        if kind == 3:
            return [stake(id_, f"crowd {self.draw.integers(1000)}", known * size)]
        version = {"do": "forecast", "id": id_, "mu": float(self.draw.uniform())}
        return [stake(id_, "clairvoyant", known * size), version, stake(id_, "versions", known * size)]

    def _follow(self, asked: list[dict[str, Any]]) -> None:
        """Ask, check every settlement as it comes, and add up what each has won."""
        answers = self.book.do_many(asked)
        lost = self.lost
        for one, done in zip(asked, answers, strict=True):
            if done.error is not None:
                assert isinstance(done.error, mw.StakeRefused), repr(done.error)
                continue
            self.stakes += one["do"] == "stake"
            for receipt in done.answer() if one["do"] == "settle" else ():
                lost += receipt["payouts"] - receipt["premiums"]
                assert lost <= CAPITAL, "ruined"
                self.worst = max(self.worst, lost)
        told = self.book.statement()
        assert told.lost == lost
        assert told.cash >= 0
        self.lost = lost


def stake(id_: str, by: Any, size: int, at_most: float = 1.0) -> dict[str, Any]:
    """A stake at a price below this part of what it pays."""
    return {"do": "stake", "id": id_, "by": by, "stake": size, "price": int(abs(size) * at_most)}


def besiege(place: Place, rounds: int, seed: int, least: int, **given: Any) -> None:
    clock = Clock()
    with place.open(clock=clock) as ledger:
        # Nothing but the lines and the capital stops them.
        lines = mw.Lines(each=LINE, of={"firm": 2 * LINE}, share=1, thaw=0)
        how: dict[str, Any] = {"lines": lines, "stop": False} | given
        book = ledger.create("book", capital=CAPITAL, max_stake=MAX_STAKE, unit="cent", **how)
        siege = Siege(book, clock, seed)
        for n in range(rounds):
            siege.round(n)
        winnings = won(book)
        for name, taken in winnings.items():
            assert taken <= (2 * LINE if name == "firm" else LINE), name
        assert siege.stakes > least, "the book must take bets for this to be a test"
        assert siege.worst > CAPITAL // 4, "they must come close to ruining it"
        assert ledger.verify().heads["book"] == (book.statement().events, book.statement().head)


def won(book: Book) -> dict[str, int]:
    """What each name and level has won net, on all that was settled: added up from the log alone."""
    won: dict[str, int] = defaultdict(int)
    bets: dict[str, list[tuple[Any, int, int]]] = defaultdict(list)
    for event in book.events():
        if event.kind == "staked":
            body = event.data()
            bets[body["id"]].append((body["by"], body["stake"], body["price"]))
        elif event.kind == "settled":
            body = event.data()
            for by, size, price in bets.pop(body["id"], ()):
                pays = abs(size) if (size > 0) == bool(body["outcome"]) else 0
                for name in [by] if isinstance(by, str) else by:
                    won[name] += pays - price
    return won


def test_a_siege_does_not_ruin_the_book(file: Place) -> None:
    besiege(file, 12, seed=1, least=300)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "given"),
    [
        (2, {}),
        pytest.param(3, {"one_sided": True}, marks=pytest.mark.long),
        pytest.param(4, {"correction": mw.DeterministicSwap(20)}, marks=pytest.mark.long),
        pytest.param(5, {"thaw": mw.Thaw(budget=2_000)}, marks=pytest.mark.long),
    ],
    ids=["default", "one-sided", "swap", "thaw"],
)
def test_a_long_siege_does_not_ruin_the_book(
    file: Place, seed: int, given: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hundred thousand stakes in the four of them."""
    monkeypatch.setattr(writing, "_SNAPSHOT_EVERY", 2_000)
    besiege(file, 700, seed, least=14_000, **given)
