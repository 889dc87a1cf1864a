"""A faster version of the bookkeeping for the simplest book: binary, no groups, no cap on exposure."""

from __future__ import annotations

import math
from typing import Any

from makewhole import arguments
from makewhole.corrections._kernels import publish
from makewhole.corrections.names import Name
from makewhole.decisions import binary_forecast
from makewhole.forecasters import Said
from makewhole.insured.book import BLOCK, Line, OpenForecast, Stake, room_of
from makewhole.insured.bookkeeping import Bookkeeping, Closing
from makewhole.insured.changes import (
    EXPOSURE,
    STANDING,
    TOTALS,
    Get,
    Lesson,
    Patch,
    Payments,
    paid_by_name,
)
from makewhole.insured.evidence import bet
from makewhole.insured.lines import check_price, read_levels
from makewhole.insured.memories import warm
from makewhole.insured.refusals import ConservationError
from makewhole.insured.totals import Standing, exact_sum

_MEMORY = ("memory", 0, None)
_ZERO = (0.0,)
_NO = (0.0, 0.0)
_new = tuple.__new__


class PlainBookkeeping(Bookkeeping):
    """Does what `Bookkeeping` does, with the same bits, at half the cost; without it nothing would change.

    Every function call costs as much as the arithmetic here, so the steps are written out. A test holds the
    two to the same states.
    """

    def open(
        self, get: Get, patch: Patch, x: Any, said: Said, groups: tuple[Name, ...], id_: Any
    ) -> OpenForecast:
        """Publish a forecast."""
        count, at_risk, number, _ = get(STANDING)
        if id_ is not None:
            return super().open(get, patch, x, said, groups, id_)
        key = ("open", number)
        if get(key) is not None:
            return super().open(get, patch, x, said, groups, id_)
        serial = self.serial = self.serial + 1
        memory = get(_MEMORY)
        proposal, after = self.one.proposed(memory)
        if after is not memory:
            patch[_MEMORY] = after
        (mu_hat,), (width,) = said
        if self.publishes_as_is:
            mu, c, origin = mu_hat, width + proposal[0], width
        else:
            mu, c, origin = publish(mu_hat, width, proposal[0], self.publishing, 0.0)
        lines = (_new(Line, (mu, c, origin, proposal, width, None)),)
        count += 1
        room = None
        if self.counts_room:
            room = room_of(lines, self.one_sided, self.max_stake)
            patch[EXPOSURE] = get(EXPOSURE).entered(room, count)
        forecast = binary_forecast(mu, c, number, self.one_sided)
        entry: OpenForecast
        entry = patch[key] = _new(
            OpenForecast,
            (forecast, serial, x, said[0], lines, (), _ZERO, _ZERO, 0, room, None, 0.0, (), (), _NO),
        )
        patch[STANDING] = _new(Standing, (count, at_risk, number + 1, serial))
        return entry

    def take(
        self, get: Get, patch: Patch, open_: OpenForecast, stake: Any, by: Any, price: Any = None
    ) -> int:
        """Take a stake, if the cap leaves room for it."""
        name = None if by is None else read_levels(by)[-1]
        forecast, number, x, said, lines, _, (net,), grosses, bets, room, _, risk, stakes, _, _ = open_
        if price is not None:
            check_price(open_, (1.0,), -math.inf, price, self.one_sided)
        b = stake
        if not (
            type(b) is float and b >= 0.0 and grosses[0] + b <= (self.room_left if bets else self.max_stake)
        ):
            (b,) = self.accepted(get, open_, stake)
        line = lines[0]
        mu, c, net, gross = line[0], line[1], net + b, grosses[0] + abs(b)
        worst = -net * mu - gross * c
        if net > 0.0:
            worst += net
        if worst < 0.0:
            worst = 0.0
        id_ = forecast.id
        placed = _new(Stake, ((b,), name, (), ()))
        if len(stakes) < BLOCK:
            last = stakes + (placed,)  # noqa: RUF005 - half the time
        else:
            patch["stakes", id_, open_.blocks], last = stakes, (placed,)
        place, bets = bets, bets + 1
        patch["open", id_] = _new(
            OpenForecast,
            (forecast, number, x, said, lines, (), (net,), (gross,), bets, room, None, worst, last, (), _NO),
        )
        count, all_risk, following, _ = get(STANDING)
        self.serial += 1
        patch[STANDING] = _new(Standing, (count, all_risk + (worst - risk), following, self.serial))
        return place

    def close(
        self, get: Get, patch: Patch, open_: OpenForecast, outcome: Any, stake: Any, by: Any
    ) -> Closing:
        """Settle a forecast."""
        y = (
            outcome
            if type(outcome) is int and 0 <= outcome <= 1
            else arguments.outcome(outcome, None, graded=self.graded)
        )
        forecast, _, x, said, lines, _, (net,), (gross,), bets, _, _, at_risk, stakes, _, _ = open_
        mu, c, origin, proposal, _, _ = lines[0]
        id_: Any = forecast.id
        cap = self.max_stake
        patch["open", id_] = None
        if bets > BLOCK:
            stakes = tuple(self.stakes_on(get, open_))
            patch.update(dict.fromkeys([("stakes", id_, n) for n in range(open_.blocks)]))
        if stake is not None:
            amounts = self.accepted(get, open_, stake)
            placed = _new(Stake, (amounts, None if by is None else read_levels(by)[-1], (), ()))
            net, gross, bets, stakes = net + amounts[0], gross + abs(amounts[0]), bets + 1, (*stakes, placed)
        error, payments, named = y - mu, Payments(), False
        for (b,), name, _, _ in stakes:
            paid = b * error - abs(b) * c
            payments.append(paid)
            named = named or name is not None
        if named:
            payments.by = paid_by_name(stakes, payments)
        if gross:  # `balance`, written out
            expected, target, weight = net * error - gross * c, net / gross * error - origin, gross / cap
        else:
            expected, target, weight = 0.0, -origin, 0.0
        loss, rest = (payments[0], 0.0) if bets == 1 else exact_sum(payments)
        if loss != expected and not abs(loss - expected) <= 1e-9 * (gross + abs(loss)) + 1e-300:
            raise ConservationError(f"payments add up to {loss!r}, the loss is {expected!r}")
        if weight:
            patch[_MEMORY] = self.one.learned(get(_MEMORY), proposal, target, weight, loss, rest)
        totals = get(TOTALS)
        money = None if self.one_sided else bet(totals.money, mu, c, y)
        patch[TOTALS] = totals.settled(loss, rest, gross, bets, c < 0, self.loss_range, money)
        if self.thaw is not None and (gross < self.hardly or self.thaw.share):
            warm(self.memories, self.thaw, get, patch, (), gross < self.hardly)
        count, all_risk, following, _ = get(STANDING)
        count -= 1
        self.serial += 1
        all_risk -= at_risk
        if not count or all_risk < 0.0:  # no rounding may be left over
            all_risk = 0.0
        patch[STANDING] = _new(Standing, (count, all_risk, following, self.serial))
        if self.counts_room:
            patch[EXPOSURE] = get(EXPOSURE).left(open_, (), count)
        lesson = _new(Lesson, (x, y, said[0], net / cap, gross / cap)) if self.teaches else None
        return id_, y, payments, loss, gross, ((loss, target, weight, rest),), lesson
