"""The bookkeeping of an exact forecaster with classes: one correction and one price for all of them."""

from __future__ import annotations

import math
from dataclasses import replace
from operator import add as plus
from typing import Any

from makewhole import arguments
from makewhole.corrections import Certificate
from makewhole.corrections.names import Name, read_name
from makewhole.decisions import class_forecast
from makewhole.forecasters import Said
from makewhole.insured.book import (
    BLOCK,
    Line,
    OpenForecast,
    Stake,
    charged_for,
    without_common,
    worst_shared_loss,
)
from makewhole.insured.bookkeeping import FEW, Bookkeeping, Closing
from makewhole.insured.changes import EXPOSURE, MEMORY, STANDING, TOTALS, Get, LineResult, Patch, Payments
from makewhole.insured.lines import read_levels
from makewhole.insured.memories import warm
from makewhole.insured.results import shared_result
from makewhole.insured.totals import Standing

_NO = (0.0, 0.0)
_new = tuple.__new__


class OnePriceBookkeeping(Bookkeeping):
    """Takes a bet on K classes as one bet, at one price c for all of them.

    The same stake on every class wins and loses nothing, as one class happens and the μ add up to 1. So a
    stake is taken less its median, and costs c times the sum of the sizes of what is left: no other centre
    makes it cheaper. All classes together are then one bet, as on a binary event, with a cap of K·M, and the
    correction balances it. c may be negative: the same stake on every class earns nothing.
    """

    def __init__(self, *given: Any, **settings: Any) -> None:
        super().__init__(*given, **settings)
        self.short = not (self.grouped or self.capped or self.composed)

    def certificate(self, get: Get, group: Name | None = None) -> Certificate:
        """What can be lost at worst, in all or to a group."""
        made = super().certificate(get, group)
        return made if made.max_stake is None else replace(made, max_stake=self.max_stake)

    def room(self, lines: tuple[Line, ...]) -> tuple[float, ...]:
        """What a forecast of these lines can lose at most: no bet wins more than its size, and it costs c."""
        return (max(0.0, 1.0 - lines[0].c) * self.cap,)

    @staticmethod
    def turnover_of(open_: OpenForecast) -> float:
        """What was charged for."""
        return open_.charged[1]

    def quote(self, get: Get, patch: Patch, said: Said, groups: tuple[Name, ...]) -> tuple[Line, ...]:
        """Ask the correction once. Where ĉ is not the same for all classes, the largest is taken."""
        mus, widths = said
        _, c, origin, proposal, width, inner = self.line(get, patch, 0, mus[0], max(widths), 0.0, groups)
        return tuple([_new(Line, (mu, c, origin, proposal, width, inner)) for mu in mus])

    def amounts_of(self, stake: Any) -> tuple[float, ...]:
        """A stake as one number per class, less what is the same on all of them: the cap is on this."""
        values = arguments.plain_row(stake, self.count)
        if values is None or not abs(sum(values)) < math.inf:
            values = super().amounts_of(stake)
        return without_common(values)

    # --- the steps, written out for books without groups or a cap on exposure -------------------------------

    def open(
        self, get: Get, patch: Patch, x: Any, said: Said, groups: tuple[Name, ...], id_: Any
    ) -> OpenForecast:
        """Publish a forecast."""
        count, at_risk, number, _ = get(STANDING)
        chosen = number if id_ is None else read_name("id", id_)
        key = ("open", chosen)
        if not self.short or get(key) is not None:
            return super().open(get, patch, x, said, groups, id_)
        serial = self.serial = self.serial + 1
        memory = get(MEMORY)
        proposal, after = self.one.proposed(memory)
        if after is not memory:
            patch[MEMORY] = after
        mus, widths = said
        width = max(widths)
        c = width + proposal[0]
        lines = tuple([_new(Line, (mu, c, width, proposal, width, None)) for mu in mus])
        count += 1
        room = None
        if self.counts_room:
            room = self.room(lines)
            patch[EXPOSURE] = get(EXPOSURE).entered(room, count)
        forecast, zero = class_forecast(mus, c, chosen), self.zero
        entry: OpenForecast
        entry = patch[key] = _new(
            OpenForecast,
            (forecast, serial, x, mus, lines, (), zero, zero, 0, room, None, 0.0, (), (), _NO),
        )
        following = number + 1 if id_ is None else number
        patch[STANDING] = _new(Standing, (count, at_risk, following, serial))
        return entry

    def place(
        self, get: Get, patch: Patch, open_: OpenForecast, stake: Any, by: Any, price: Any
    ) -> OpenForecast:
        """The forecast with one stake more."""
        forecast, number, x, mus, lines, _, nets, grosses, bets, room, _, _, stakes, _, charged = open_
        values = arguments.plain_row(stake, self.count)
        if values is None or not self.short or bets >= FEW or price is not None:
            return super().place(get, patch, open_, stake, by, price)
        amounts, name = without_common(values), None if by is None else read_levels(by)[-1]
        nets, grosses = tuple(map(plus, nets, amounts)), tuple(map(plus, grosses, map(abs, amounts)))
        median, size = charged_for(amounts)
        if not (max(grosses) <= self.room_left and size < math.inf):  # where an amount is NaN, the size is
            return super().place(get, patch, open_, stake, by, price)
        charged = (charged[0] + median, charged[1] + size)
        risk = worst_shared_loss(mus, lines[0][1], nets, charged)
        placed = _new(Stake, (amounts, name, (), ()))
        last = stakes + (placed,) if len(stakes) < BLOCK else (placed,)  # noqa: RUF005 - half the time
        bets += 1
        return _new(
            OpenForecast,
            (forecast, number, x, mus, lines, (), nets, grosses, bets, room, None, risk, last, (), charged),
        )

    def close(
        self, get: Get, patch: Patch, open_: OpenForecast, outcome: Any, stake: Any, by: Any
    ) -> Closing:
        """Settle a forecast."""
        if not self.short:
            return super().close(get, patch, open_, outcome, stake, by)
        y = arguments.outcome(outcome, self.classes)
        final = open_ if stake is None else self._last(get, patch, open_, stake, by)
        stakes: Any = open_.stakes if open_.bets <= BLOCK else self.stakes_on(get, open_)
        if stake is not None:
            stakes = (*stakes, final.stakes[-1])
        payments, results = shared_result(final, y, stakes, self.cap)
        loss, target, weight, rest = results[0]
        (_, c, _, proposal, _, _), gross, id_ = open_.lines[0], final.charged[1], open_.forecast.id
        if weight:
            patch[MEMORY] = self.one.learned(get(MEMORY), proposal, target, weight, loss, rest)
        patch[TOTALS] = get(TOTALS).settled(loss, rest, gross, len(stakes), c, self.loss_range)
        if self.thaw is not None and (gross < self.hardly or self.thaw.share):
            warm(self.memories, self.thaw, get, patch, (), gross < self.hardly)
        serial = self.serial = self.serial + 1
        count, at_risk, following, _ = get(STANDING)
        count, at_risk = count - 1, at_risk - open_.at_risk
        if not count or at_risk < 0.0:  # no rounding may be left over
            at_risk = 0.0
        patch[STANDING] = _new(Standing, (count, at_risk, following, serial))
        if self.counts_room:
            patch[EXPOSURE] = get(EXPOSURE).left(open_, (), count)
        patch["open", id_] = None
        if open_.bets > BLOCK:
            patch.update(dict.fromkeys([("stakes", id_, n) for n in range(open_.blocks)]))
        lesson = self._lesson(open_, y, final.nets, final.grosses) if self.teaches else None
        return id_, y, payments, loss, gross, results, lesson

    def _results(
        self, open_: OpenForecast, y: int, stakes: list[Stake]
    ) -> tuple[Payments, tuple[LineResult, ...]]:
        return shared_result(open_, y, stakes, self.cap)
