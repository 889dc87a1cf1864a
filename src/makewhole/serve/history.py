"""The past as the page shows it: curves, settlements, reliability, and customers' winnings.

It follows the log on its own connection, some thousand events at a time, so that no request waits for it.
Its memory grows with the number of open forecasts and of customers, not with what is settled.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct

from makewhole import bounds
from makewhole.ledger.events import Event
from makewhole.ledger.money import due_for
from makewhole.ledger.store import Store

_POINTS = 1_000
_BINS = 10
_RISK = 0.025
_STEP = 20_000
_LATEST = 20
# How many of the latest settled stakes are kept, to replay them with other capitals.
MOST_ROWS = 20_000


class SettledRow(Struct, frozen=True, array_like=True):
    """A stake on a settled forecast, or with a stake of 0 the forecast itself.

    `on`, `seq` and `known` are the events of the forecast, of this stake, and of the settlement.
    """

    on: int
    seq: int
    known: int
    mu: float
    c_hat: float | None
    outcome: int
    stake: int
    by: list[str]
    groups: list[str]


class _Version(Struct):
    """A version of a forecast."""

    seq: int
    mu: float
    c_hat: float | None
    groups: list[str]


class _Staked(Struct):
    """A stake on an open forecast."""

    seq: int
    on: int
    by: list[str]
    stake: int
    price: int


class _OpenId(Struct):
    """An open forecast: the published (μ, c), its versions, and the stakes on them."""

    published: tuple[float, float]
    versions: dict[int, _Version]
    stakes: list[_Staked]


class ThinnedCurve:
    """Points of a line over time, thinned out as their number grows."""

    def __init__(self) -> None:
        self.points: list[tuple[float, ...]] = []
        self._every, self._count = 1, 0

    def add(self, *point: float) -> None:
        """Add a point; the latest point is always kept."""
        if self._count % self._every and self.points:
            self.points[-1] = point
        else:
            self.points.append(point)
        self._count += 1
        if len(self.points) > 2 * _POINTS:
            self.points = self.points[::2]
            self._every *= 2


class History:
    """The past of one book, as far as its log was followed (`seq`)."""

    def __init__(self, book: str) -> None:
        self.book, self.seq = book, 0
        self.money, self.prices = ThinnedCurve(), ThinnedCurve()
        self.settlements: list[dict[str, Any]] = []  # replaced, never changed: a page may be reading it
        self.capital = self.lost = 0
        self._highest = 0.0  # the highest c so far, published or charged
        self._open: dict[str, _OpenId] = {}
        self.forecaster: dict[str, Any] = {}  # its state when the book was created
        self.prices_of: dict[str, float] = {}  # by group, the latest published c
        self.settled_at = 0  # the event of the latest settlement
        self._settled: deque[list[SettledRow]] = deque()  # one list for each id
        self._rows = 0
        self.taken: dict[str, int] = {}
        self._bins = np.zeros((_BINS, 3))  # rows, sum of μ, sum of outcomes

    def follow(self, store: Store) -> bool:
        """Read further events; returns whether there may be more."""
        for count, event in enumerate(store.events(self.book, self.seq), 1):
            self.seq = event.seq
            self._take(event)
            if count == _STEP:
                return True
        return False

    def _take(self, event: Event) -> None:
        kind, at = event.kind, event.at / 1e6
        if kind in ("reported", "rekeyed"):
            return
        body, id_ = msgspec.json.decode(event.body), str(event.about)
        if kind == "forecast":
            c = body["published"][1]
            self._publish(id_, event.seq, body)
            self._highest = max(self._highest, c)
            self.prices.add(at, c, self._highest)
        elif kind == "staked":
            by = [body["by"]] if isinstance(body["by"], str) else body["by"]
            self._highest = max(self._highest, body["c"])
            self._open[id_].stakes.append(_Staked(event.seq, body["on"], by, body["stake"], body["price"]))
        elif kind in ("settled", "voided"):
            self._end(event, body)
        elif kind in ("deposited", "withdrawn"):
            self.capital = body["capital"]
            self.money.add(at, self.lost, self.capital)
        elif kind == "created":
            self.forecaster = body["forecaster"]
            self.capital = int(self.forecaster["settings"]["capital"])
            self.money.add(at, 0, self.capital)

    def _publish(self, id_: str, seq: int, body: dict[str, Any]) -> None:
        """Record a forecast. A version without stakes is forgotten when the next one comes."""
        mu, c = body["published"]
        open_ = self._open.setdefault(id_, _OpenId((mu, c), {}, []))
        open_.published = (mu, c)
        used = {stake.on for stake in open_.stakes}
        open_.versions = {on: version for on, version in open_.versions.items() if on in used}
        groups = body.get("groups", [])
        open_.versions[seq] = _Version(seq, body["mu"], body.get("c_hat"), groups)
        self.prices_of |= dict.fromkeys(groups, c)

    def _end(self, event: Event, body: dict[str, Any]) -> None:
        id_, outcome = str(event.about), body.get("outcome")
        open_ = self._open.pop(id_)
        (mu, c), stakes = open_.published, open_.stakes
        if outcome is not None:
            for staked in stakes:
                name, won = staked.by[-1], due_for(staked.stake, staked.price, outcome) - staked.price
                self.taken[name] = self.taken.get(name, 0) + won
            self._keep(event.seq, open_, outcome)
            self._bins[min(int(mu * _BINS), _BINS - 1)] += (1.0, mu, outcome)
            self.lost += body["payouts"] - body["premiums"]
            self.money.add(event.at / 1e6, self.lost, self.capital)
        paid = body.get("payouts", body.get("refunds", 0))
        line = {
            "id": id_,
            "at": event.at,
            "mu": mu,
            "c": c,
            "outcome": outcome,
            "stakes": len(stakes),
            "paid": paid,
        }
        self.settlements = [line, *self.settlements[: _LATEST - 1]]

    def _keep(self, known: int, open_: _OpenId, outcome: int) -> None:
        """Keep a settled forecast and its stakes, and drop the oldest."""
        rows = []
        for version in open_.versions.values():
            staked = [stake for stake in open_.stakes if stake.on == version.seq]
            rows.append((version, version.seq, 0, list[str]()))
            rows += [(version, stake.seq, stake.stake, stake.by) for stake in staked]
        self._settled.append(
            [
                SettledRow(v.seq, seq, known, v.mu, v.c_hat, outcome, stake, by, v.groups)
                for v, seq, stake, by in rows
            ]
        )
        self.settled_at = known
        self._rows += len(rows)
        while self._rows > MOST_ROWS:
            self._rows -= len(self._settled.popleft())

    def settled_rows(self) -> list[SettledRow]:
        """Return the latest settled forecasts and the stakes on them, in order of settlement."""
        return [row for rows in self._settled.copy() for row in rows]

    def reliability(self) -> list[dict[str, float]]:
        """Return for every bin of forecasts: the mean, how often it happened, and its 95 % interval."""
        rows = self._bins[self._bins[:, 0] > 0]
        if not len(rows):
            return []
        count, mean, share = rows[:, 0], rows[:, 1] / rows[:, 0], rows[:, 2] / rows[:, 0]
        low, high = bounds.interval(share, count, _RISK, counts=True)
        names = ("rows", "said", "happened", "low", "high")
        return [
            dict(zip(names, map(float, row), strict=True))
            for row in zip(count, mean, share, low, high, strict=True)
        ]

    def charts(self) -> dict[str, Any]:
        """Return what the page draws: columns of time, money lost, capital; time, c; and the reliability."""
        money = [list(column) for column in zip(*self.money.points, strict=True)] or [[], [], []]
        prices = [list(column) for column in zip(*self.prices.points, strict=True)] or [[], [], []]
        return {"money": money, "prices": prices, "reliability": self.reliability()}
