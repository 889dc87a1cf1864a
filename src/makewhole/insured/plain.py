"""A faster version of the bookkeeping for the simplest book: binary, no groups, no cap on exposure."""

from __future__ import annotations

from typing import Any

from makewhole import arguments
from makewhole.corrections._kernels import balance, publish
from makewhole.corrections.names import Name, read_name
from makewhole.decisions import binary_forecast
from makewhole.forecasters import Said
from makewhole.insured.book import Id, Line, OpenForecast, Stake, room_of
from makewhole.insured.bookkeeping import Bookkeeping, Get, Patch
from makewhole.insured.changes import (
    EXPOSURE,
    NEXT,
    REVISION,
    STANDING,
    TOTALS,
    Lesson,
    LineResult,
    Payments,
    Settlement,
)
from makewhole.insured.refusals import ConservationError
from makewhole.insured.totals import Standing

_MEMORY = ("memory", 0, None)
_ZERO = (0.0,)
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
        number = get(NEXT)
        if id_ is not None or get(("open", number)) is not None:
            return super().open(get, patch, x, said, groups, id_)
        id_ = number
        serial = self.serial = self.serial + 1
        memory = get(_MEMORY)
        proposal, after = self.one.proposed(memory)
        if after is not memory:
            patch[_MEMORY] = after
        (mu_hat,), (width,) = said
        mu, c, origin = publish(mu_hat, width, proposal.lam, self.publishing, 0.0)
        line = _new(Line, (mu, c, origin, proposal, width, None))
        forecast = binary_forecast(mu, c, id_, self.one_sided)
        count, at_risk = get(STANDING)
        count += 1
        patch[STANDING] = _new(Standing, (count, at_risk))
        room = None
        if self.counts_room:
            room = room_of((line,), self.one_sided, self.max_stake)
            patch[EXPOSURE] = get(EXPOSURE).entered(room, count)
        entry: OpenForecast = _new(
            OpenForecast, (forecast, serial, x, said[0], (line,), (), _ZERO, _ZERO, 0, room, None, 0.0)
        )
        patch["open", id_] = entry
        patch[NEXT] = id_ + 1
        patch[REVISION] = serial
        return entry

    def take(self, get: Get, patch: Patch, open_: OpenForecast, stake: Any, by: Any) -> int:
        """Take a stake, if the cap leaves room for it."""
        name = None if by is None else read_name("by", by)
        forecast, number, x, said, lines, _, (net,), grosses, bets, room, _, risk = open_
        amounts = self.accepted(grosses, stake)
        (b,), (mu, c, *_) = amounts, lines[0]
        net, gross = net + b, grosses[0] + abs(b)
        if_not = -net * mu - gross * c
        at_risk = max(0.0, if_not, if_not + net)
        id_ = forecast.id
        patch["open", id_] = _new(
            OpenForecast,
            (forecast, number, x, said, lines, (), (net,), (gross,), bets + 1, room, None, at_risk),
        )
        patch["stake", id_, bets] = _new(Stake, (amounts, name))
        count, all_risk = get(STANDING)
        patch[STANDING] = _new(Standing, (count, all_risk + (at_risk - risk)))
        patch[REVISION] = self.serial = self.serial + 1
        return bets

    def close(
        self, get: Get, patch: Patch, open_: OpenForecast, outcome: Any, stake: Any, by: Any
    ) -> Settlement:
        """Settle a forecast."""
        y = outcome if type(outcome) is int and 0 <= outcome <= 1 else arguments.outcome(outcome, None)
        forecast, _, x, said, lines, _, (net,), (gross,), bets, _, _, at_risk = open_
        mu, c, origin, proposal, _, _ = lines[0]
        id_: Any = forecast.id
        cap = self.max_stake
        error, payments = y - mu, Payments()
        by_name: dict[Id, float] = {}
        patch["open", id_] = None
        for place in range(bets):
            key = ("stake", id_, place)
            (b,), name = get(key)
            payments.append(b * error - abs(b) * c)
            if name is not None:
                by_name[name] = by_name.get(name, 0.0) + payments[-1]
            patch[key] = None
        if stake is not None:
            if type(stake) is float and stake >= 0.0 and gross + stake <= cap:
                b = stake
            else:
                (b,) = self.accepted((gross,), stake)
            net, gross = net + b, gross + abs(b)
            payments.append(b * error - abs(b) * c)
            bets += 1
            if by is not None:
                name = read_name("by", by)
                by_name[name] = by_name.get(name, 0.0) + payments[-1]
        if by_name:
            payments.by = by_name
        result = balance(mu, c, origin, float(y), net, gross, cap)
        loss, target, weight = result
        paid = sum(payments)
        if paid != loss and not abs(paid - loss) <= 1e-9 * (gross + abs(loss)) + 1e-300:
            raise ConservationError(f"payments add up to {paid!r}, the loss is {loss!r}")
        if weight:
            patch[_MEMORY] = self.one.learned(get(_MEMORY), proposal, target, weight)
        patch[TOTALS] = get(TOTALS).settled(loss, gross, bets, c < 0, self.loss_range)
        standing = patch[STANDING] = get(STANDING).left(at_risk)
        if self.counts_room:
            patch[EXPOSURE] = get(EXPOSURE).left(open_, None, standing[0])
        patch[REVISION] = self.serial = self.serial + 1
        lesson = _new(Lesson, (x, y, said[0], net / cap, gross / cap)) if self.teaches else None
        results = (_new(LineResult, result),)
        return _new(Settlement, (get(REVISION), patch, id_, y, payments, loss, gross, results, lesson))
