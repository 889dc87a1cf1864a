"""A faster version of the bookkeeping for most books: binary, no groups, no cap on exposure."""

from __future__ import annotations

import math
from typing import Any

from makewhole import arguments
from makewhole.corrections._kernels import publish
from makewhole.corrections.names import Name, read_name
from makewhole.decisions import binary_forecast
from makewhole.forecasters import Said
from makewhole.insured._kernels import least_price
from makewhole.insured.book import BLOCK, Id, Line, OpenForecast, Stake, add, room_of
from makewhole.insured.bookkeeping import FEW, Bookkeeping, Closing
from makewhole.insured.changes import (
    EXPOSURE,
    MEMORY,
    STANDING,
    TOTALS,
    Get,
    Lesson,
    Patch,
    Payments,
    drafting,
)
from makewhole.insured.evidence import bet
from makewhole.insured.lines import NEW, Account, LineBook, check_price, read_levels
from makewhole.insured.memories import warm
from makewhole.insured.results import check_conserved
from makewhole.insured.totals import Standing, exact_sum

_ZERO = (0.0,)
_NO = (0.0, 0.0)
_new = tuple.__new__


class PlainBookkeeping(Bookkeeping):
    """Does what `Bookkeeping` does, with the same bits, at half the cost; without it nothing would change.

    Every function call costs as much as the arithmetic here, so the steps are written out. What is rare, and
    all that is refused, goes the general way. A test holds the two to the same states and the same words.
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
        (mu_hat,), (width,) = said
        mu, c, origin, least = mu_hat, width + proposal[0], width, 0.0
        if not self.publishes_as_is:
            if self.capital is not None:
                left = self.capital - get(TOTALS).loss - at_risk
                if left < 2.0 * self.max_stake:  # above that the least price is below 0
                    least = least_price(left, 1, self.max_stake, self.one_sided)
            as_is = 0.0 < c < 0.5 and least <= c <= mu <= 1.0 - c  # nothing is clipped
            if self.one_sided or not as_is:
                mu, c, origin = publish(mu, width, proposal[0], self.publishing, least)
        lines = (_new(Line, (mu, c, origin, proposal, width, None)),)
        count += 1
        room = None
        if self.counts_room:
            room = room_of(lines, self.one_sided, self.max_stake)
            patch[EXPOSURE] = get(EXPOSURE).entered(room, count)
        forecast = binary_forecast(mu, c, chosen, self.one_sided)
        entry: OpenForecast
        entry = patch[key] = _new(
            OpenForecast,
            (forecast, serial, x, said[0], lines, (), _ZERO, _ZERO, 0, room, None, 0.0, (), (), _NO),
        )
        following = number + 1 if id_ is None else number
        patch[STANDING] = _new(Standing, (count, at_risk, following, serial))
        return entry

    def place(
        self, get: Get, patch: Patch, open_: OpenForecast, stake: Any, by: Any, price: Any
    ) -> OpenForecast:
        """The forecast with one stake more."""
        if by is not None and price is None and self.lines is not None and not open_.bets:
            after = self._first(get, patch, open_, stake, by, self.lines)
            if after is not None:
                return after
        forecast, number, x, said, lines, _, (net,), (gross,), bets, room, _, risk, stakes, extra, _ = open_
        fits = type(stake) is float and gross + abs(stake) <= (self.room_left if bets else self.max_stake)
        if not fits or bets >= FEW or (self.one_sided and stake < 0.0):
            return super().place(get, patch, open_, stake, by, price)
        mu, c, _, _, _, _ = lines[0]
        amounts, own, book = (stake,), -math.inf, None
        name: Name | None = None
        levels: tuple[Name, ...] = ()
        dearer: tuple[float, ...] = ()
        if by is not None:
            levels, book = read_levels(by), self.lines
            if len(levels) > 1:
                return super().place(get, patch, open_, stake, by, price)
            name = levels[0]
        if name is None or book is None:
            levels = ()
        else:
            account = get(("line", name)) or NEW
            own = book.asked(name, account)
            if own > (mu if self.one_sided else c):
                dearer = book.surcharges(open_, amounts, own)
                extra = add(extra, dearer) if extra and dearer else extra or dearer
        if price is not None:
            check_price(open_, amounts, own, price, self.one_sided)
        net, gross = net + stake, gross + abs(stake)
        worst = -net * mu - gross * c - (extra[0] if extra else 0.0)  # `worst_loss`, written out
        if net > 0.0:
            worst += net
        if not worst > 0.0:
            worst = 0.0
        if worst > risk and self.capital is not None:
            left = self.capital - get(TOTALS).loss - (get(STANDING).at_risk - risk)
            if worst > left:
                return super().place(get, patch, open_, stake, by, price)
        placed = _new(Stake, (amounts, name, levels, dearer))
        if bets and self.lines is not None:
            self.lines.take(get, patch, open_, placed)
        elif name is not None and book is not None:
            book.take_first(patch, name, account, amounts, worst)
        last = stakes + (placed,) if len(stakes) < BLOCK else (placed,)  # noqa: RUF005 - half the time
        nets, grosses, bets = (net,), (gross,), bets + 1
        return _new(
            OpenForecast,
            (forecast, number, x, said, lines, (), nets, grosses, bets, room, None, worst, last, extra, _NO),
        )

    def _first(
        self, get: Get, patch: Patch, open_: OpenForecast, b: Any, by: Any, book: LineBook
    ) -> OpenForecast | None:
        """The forecast with its first stake, of somebody who is not asked more than was published; else None.

        Nearly all stakes with a name are like that. It is `asked` and `take_first` of `LineBook` written out.
        """
        forecast, number, x, said, lines, _, _, _, _, room, _, _, _, _, _ = open_
        known = type(by) is str or (type(by) is int and -(2**63) < by < 2**63)
        if not known or type(b) is not float or not abs(b) <= self.max_stake:
            return None
        key, mu, c = ("line", by), lines[0][0], lines[0][1]
        total, low, at_risk, count = get(key) or NEW
        line, scale = book.each, book.each_scale
        if book.own_lines and by in book.own_lines:
            line = book.own_lines[by]
            scale = book.scale_of(line)
        left, asked = line - total - low, mu if self.one_sided else c
        if book.spread > asked:
            return None
        if left - (at_risk + book.margin) < book.room or book.top * math.exp(-left / scale) > asked:
            return None
        net, gross = 0.0 + b, abs(b)
        worst = -net * mu - gross * c
        if net > 0.0:
            worst += net
        elif self.one_sided and b < 0.0:
            return None
        if not worst > 0.0:
            worst = 0.0
        elif self.capital is not None and worst > self.capital - get(TOTALS).loss - get(STANDING).at_risk:
            return None
        after = at_risk + worst
        if total + low + after > line:
            return None
        patch[key] = _new(Account, (total, low, after, count + 1))
        placed = (_new(Stake, ((b,), by, (by,), ())),)
        return _new(
            OpenForecast,
            (forecast, number, x, said, lines, (), (net,), (gross,), 1, room, None, worst, placed, (), _NO),
        )

    def close(
        self, get: Get, patch: Patch, open_: OpenForecast, outcome: Any, stake: Any, by: Any
    ) -> Closing:
        """Settle a forecast."""
        y = outcome
        if type(y) is not int or not 0 <= y <= 1:
            y = arguments.outcome(outcome, None, graded=self.graded)
        forecast, _, x, said, lines, _, (net,), (gross,), bets, _, _, risk, stakes, extra, _ = open_
        if bets > BLOCK:
            stakes = tuple(self.stakes_on(get, open_))
        if stake is not None:
            net, gross, extra, placed = self._with_last(get, patch, open_, stake, by)
            stakes = (*stakes, placed)
        (mu, c, origin, proposal, _, _), id_ = lines[0], forecast.id
        error, payments = y - mu, Payments()
        named: dict[Id, float] = {}
        for (b,), name, _, dearer in stakes:
            paid = b * error - abs(b) * c
            paid = 0.0 + (paid - dearer[0] if dearer else paid)  # 0.0: never -0.0
            payments.append(paid)
            if name is not None:
                named[name] = named.get(name, 0.0) + paid
        if named:
            payments.by = named
        loss, target, weight, rest = 0.0, -origin, 0.0, 0.0
        if gross:  # `balance`, written out
            expected, target, weight = net * error - gross * c, net / gross * error - origin, gross / self.cap
            if extra:  # in sound mode w·(x − λ) is the loss
                booked = extra[0] / gross if self.terms.sound else 0.0
                expected, target = expected - extra[0], target - booked
            loss, rest = (payments[0], 0.0) if len(payments) == 1 else exact_sum(payments)
            if loss != expected:
                check_conserved(loss, expected, gross * (1.0 + abs(c)))
        if weight:  # in exact mode, the loss at the published price is learned
            told = loss if self.terms.sound or not extra else loss + extra[0]
            patch[MEMORY] = self.one.learned(get(MEMORY), proposal, target, weight, told, rest)
        totals = get(TOTALS)
        money = None if self.one_sided or totals.money is None else bet(totals.money, mu, c, y)
        patch[TOTALS] = totals.settled(loss, rest, gross, len(payments), c, self.loss_range, money)
        if self.thaw is not None and (gross < self.hardly or self.thaw.share):
            warm(self.memories, self.thaw, get, patch, (), gross < self.hardly)
        self.serial += 1
        count, at_risk, following, _ = get(STANDING)
        at_risk = max(0.0, at_risk - risk) if count > 1 else 0.0  # no rounding may be left over
        patch[STANDING] = _new(Standing, (count - 1, at_risk, following, self.serial))
        if self.counts_room:
            patch[EXPOSURE] = get(EXPOSURE).left(open_, (), count - 1)
        patch["open", id_] = None
        if bets > BLOCK:
            patch.update(dict.fromkeys([("stakes", id_, n) for n in range(open_.blocks)]))
        if self.lines is not None:
            self.lines.leave(get if stake is None else drafting(get, patch), patch, open_, stakes, payments)
        lesson = _new(Lesson, (x, y, said[0], net / self.cap, gross / self.cap)) if self.teaches else None
        return id_, y, payments, loss, gross, ((loss, target, weight, rest),), lesson

    def _with_last(
        self, get: Get, patch: Patch, open_: OpenForecast, stake: Any, by: Any
    ) -> tuple[float, float, tuple[float, ...], Stake]:
        """B, A and the surcharges with a last stake, and the stake."""
        if not self.plain:
            final = self._last(get, patch, open_, stake, by)
            return final.nets[0], final.grosses[0], final.surcharges, final.stakes[-1]
        name = None if by is None else read_levels(by)[-1]
        amounts = self.accepted(get, open_, stake)  # there is no other limit
        net, gross = open_.nets[0] + amounts[0], open_.grosses[0] + abs(amounts[0])
        return net, gross, (), _new(Stake, (amounts, name, (), ()))
