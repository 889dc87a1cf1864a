"""What the page shows of the past: curves, settlements, reliability, and what customers took.

It follows the log on a connection of its own, some thousand events at a time, so that nobody waits for it.
Its memory goes with what is open and with the number of customers, not with what is settled.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from makewhole import bounds
from makewhole.ledger.events import Event
from makewhole.ledger.money import due_for
from makewhole.ledger.store import Store

_POINTS = 1_000
_BINS = 10
_RISK = 0.025
_STEP = 20_000
_LATEST = 20


class Curve:
    """Points of a line over time, thinned out as they become many."""

    def __init__(self) -> None:
        self.points: list[tuple[float, ...]] = []
        self._every, self._count = 1, 0

    def add(self, *point: float) -> None:
        """Add a point; the last one is always there."""
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
        self.money, self.prices = Curve(), Curve()
        self.settlements: list[dict[str, Any]] = []  # replaced as a whole: a page may be reading it
        self.capital = self.lost = 0
        self._dearest = 0.0  # the highest price that anybody has paid
        self._said: dict[str, tuple[float, float]] = {}
        self._stakes: dict[str, list[tuple[str, int, int]]] = {}
        self.taken: dict[str, int] = {}
        self._bins = np.zeros((_BINS, 3))  # rows, sum of μ, sum of outcomes

    def follow(self, store: Store) -> bool:
        """Read on; returns whether there may be more."""
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
        body, id_ = event.data(), str(event.about)
        if kind == "forecast":
            mu, c = body["published"]
            self._said[id_] = (mu, c)
            self._dearest = max(self._dearest, c)
            self.prices.add(at, c, self._dearest)
        elif kind == "staked":
            by = body["by"]
            name = by if isinstance(by, str) else by[-1]
            self._dearest = max(self._dearest, body["c"])
            self._stakes.setdefault(id_, []).append((name, body["stake"], body["price"]))
        elif kind in ("settled", "voided"):
            self._end(event, body)
        elif kind in ("deposited", "withdrawn"):
            self.capital = body["capital"]
            self.money.add(at, self.lost, self.capital)
        elif kind == "created":
            self.capital = int(body["forecaster"]["settings"]["capital"])
            self.money.add(at, 0, self.capital)

    def _end(self, event: Event, body: dict[str, Any]) -> None:
        id_, outcome = str(event.about), body.get("outcome")
        mu, c = self._said.pop(id_)
        stakes = self._stakes.pop(id_, [])
        if outcome is not None:
            for name, stake, price in stakes:
                self.taken[name] = self.taken.get(name, 0) + due_for(stake, price, outcome) - price
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

    def reliability(self) -> list[dict[str, float]]:
        """Of every bin of forecasts: their mean, how often it happened, and the interval for that (95 %)."""
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
        """What the page draws: columns of time, money lost, capital; time, c; and the reliability."""
        money = [list(column) for column in zip(*self.money.points, strict=True)] or [[], [], []]
        prices = [list(column) for column in zip(*self.prices.points, strict=True)] or [[], [], []]
        return {"money": money, "prices": prices, "reliability": self.reliability()}
