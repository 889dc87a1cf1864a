"""A faster version of the bookkeeping of classes at one price: no groups, no cap on exposure."""

from __future__ import annotations

import math
from operator import add as plus
from typing import Any

from makewhole import arguments
from makewhole.corrections.names import Name, read_name
from makewhole.decisions import class_forecast
from makewhole.forecasters import Said
from makewhole.insured.book import BLOCK, Line, OpenForecast, Stake, without_common
from makewhole.insured.bookkeeping import FEW, Closing
from makewhole.insured.changes import EXPOSURE, MEMORY, STANDING, TOTALS, Get, Patch, Payments
from makewhole.insured.lines import read_levels
from makewhole.insured.memories import warm
from makewhole.insured.one_price import OnePriceBookkeeping
from makewhole.insured.results import shared_result
from makewhole.insured.totals import Standing

_NO = (0.0, 0.0)
_new = tuple.__new__


class PlainClasses(OnePriceBookkeeping):
    """Does what `OnePriceBookkeeping` does, with the same bits, at half the cost: see `PlainBookkeeping`.

    What is rare, and all that is refused, goes the general way. A test holds the two to the same states and
    the same words.
    """

    def open(
        self, get: Get, patch: Patch, x: Any, said: Said, groups: tuple[Name, ...], id_: Any
    ) -> OpenForecast:
        """Publish a forecast."""
        count, at_risk, number, _ = get(STANDING)
        chosen = number if id_ is None else read_name("id", id_)
        key = ("open", chosen)
        if get(key) is not None:
            return super().open(get, patch, x, said, groups, id_)
        serial = self.serial = self.serial + 1
        memory = get(MEMORY)
        proposal, after = self.one.proposed(memory)
        if after is not memory:
            patch[MEMORY] = after
        mus, widths = said
        width = max(widths)
        c = width + proposal[0]
        lines = (_new(Line, (mus[0], c, width, proposal, width, None)),)
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
        amounts: Any = arguments.plain_row(stake, self.count)
        if amounts is None or bets >= FEW or price is not None:
            return super().place(get, patch, open_, stake, by, price)
        ascending = sorted(amounts)
        if ascending[0] <= 0.0 <= ascending[-1]:
            amounts = tuple(amounts)
        else:
            amounts = without_common(amounts)
            ascending = sorted(amounts)
        name = None if by is None else read_levels(by)[-1]
        median, size, fair = ascending[self.middle], 0.0, 0.0  # `charged_for`, written out
        if self.even:
            median = min(max((ascending[0] + ascending[-1]) / 2, ascending[self.middle - 1]), median)
        for b in amounts:
            size += abs(b - median)
        if bets or 0.0 in amounts:  # which may be -0.0
            nets, grosses = tuple(map(plus, nets, amounts)), tuple(map(plus, grosses, map(abs, amounts)))
        else:
            nets, grosses = amounts, tuple(map(abs, amounts))
        if not (max(grosses) <= self.room_left and size < math.inf):  # where an amount is NaN, the size is
            return super().place(get, patch, open_, stake, by, price)
        median, size = charged = (charged[0] + median, charged[1] + size)
        for k, net in enumerate(nets):  # `worst_shared_loss`, written out
            fair += (net - median) * mus[k]
        risk = max(nets) - median - fair - size * lines[0][1]
        if not risk > 0.0:
            risk = 0.0
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
        y, final = outcome, open_
        if type(y) is not int or not 0 <= y < self.count:
            y = arguments.outcome(outcome, self.classes)
        forecast, _, _, mus, lines, _, nets, _, bets, _, _, risk, stakes, _, (median, gross) = open_
        if bets > BLOCK:
            stakes = tuple(self.stakes_on(get, open_))
        if stake is not None:
            final = self._last(get, patch, open_, stake, by)
            nets, stakes, (median, gross) = final.nets, (*stakes, final.stakes[-1]), final.charged
        (_, c, origin, proposal, _, _), id_ = lines[0], forecast.id
        if gross and len(stakes) == 1:  # `shared_result`, written out
            payments, fair, rest, name = Payments(), 0.0, 0.0, stakes[0][1]
            for k, net in enumerate(nets):
                fair += (net - median) * mus[k]
            won = nets[y] - median - fair
            loss, target, weight = won - gross * c, won / gross - origin, gross / self.cap
            payments.append(loss)
            if name is not None:
                payments.by = {name: 0.0 + loss}
        else:
            payments, ((loss, target, weight, rest),) = shared_result(final, y, stakes, self.cap)
        if weight:
            patch[MEMORY] = self.one.learned(get(MEMORY), proposal, target, weight, loss, rest)
        patch[TOTALS] = get(TOTALS).settled(loss, rest, gross, len(stakes), c, self.loss_range)
        if self.thaw is not None and (gross < self.hardly or self.thaw.share):
            warm(self.memories, self.thaw, get, patch, (), gross < self.hardly)
        serial = self.serial = self.serial + 1
        count, at_risk, following, _ = get(STANDING)
        count -= 1
        at_risk = max(0.0, at_risk - risk) if count else 0.0  # no rounding may be left over
        patch[STANDING] = _new(Standing, (count, at_risk, following, serial))
        if self.counts_room:
            patch[EXPOSURE] = get(EXPOSURE).left(open_, (), count)
        patch["open", id_] = None
        if bets > BLOCK:
            patch.update(dict.fromkeys([("stakes", id_, n) for n in range(open_.blocks)]))
        lesson = self._lesson(open_, y, final.nets, final.grosses) if self.teaches else None
        return id_, y, payments, loss, gross, ((loss, target, weight, rest),), lesson
