"""The bookkeeping of an exact forecaster with classes: one correction and one price for all of them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from makewhole import arguments
from makewhole.corrections import Certificate
from makewhole.corrections.names import Name
from makewhole.forecasters import Said
from makewhole.insured.book import Line, OpenForecast, Stake, without_common
from makewhole.insured.bookkeeping import Bookkeeping
from makewhole.insured.changes import Get, LineResult, Patch, Payments
from makewhole.insured.results import shared_result


class OnePriceBookkeeping(Bookkeeping):
    """Takes a bet on K classes as one bet, at one price c for all of them.

    The same stake on every class wins and loses nothing, as one class happens and the μ add up to 1. So a
    stake is taken less its median, and costs c times the sum of the sizes of what is left: no other centre
    makes it cheaper. All classes together are then one bet, as on a binary event, with a cap of K·M, and the
    correction balances it. c may be negative: the same stake on every class earns nothing.
    """

    def __init__(self, *given: Any, **settings: Any) -> None:
        super().__init__(*given, **settings)
        self.short = not (self.grouped or self.capped or self.composed)  # see `PlainClasses`
        self.middle, self.even = self.count // 2, self.count % 2 == 0

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
        return (self.line(get, patch, 0, mus[0], max(widths), 0.0, groups),)

    def amounts_of(self, stake: Any) -> tuple[float, ...]:
        """A stake as one number per class, less what is the same on all of them: the cap is on this."""
        values = arguments.plain_row(stake, self.count)
        if values is None or not abs(sum(values)) < math.inf:
            values = super().amounts_of(stake)
        return without_common(values)

    def _results(
        self, open_: OpenForecast, y: int, stakes: list[Stake]
    ) -> tuple[Payments, tuple[LineResult, ...]]:
        return shared_result(open_, y, stakes, self.cap)
