"""Read a stake, check it against the cap, and say why a capital refuses it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from makewhole import arguments, rules
from makewhole.insured.records import Open, Scope
from makewhole.insured.refusals import StakeRefused, part_of

# The sum of fewer stakes than this is off by less than a billionth of it.
_FEW = 1_000_000


class StakeReader:
    """Reads stakes, and refuses those over the cap M, or below 0 on a one-sided forecast."""

    def __init__(self, max_stake: float, classes: int | None, *, one_sided: bool, one_price: bool) -> None:
        self.max_stake, self.classes, self.count = max_stake, classes, classes or 1
        self.one_sided, self.one_price = one_sided, one_price
        self.room_left = (1.0 - 1e-9) * max_stake  # up to here, rounding cannot have hidden anything

    def read(self, entry: Open | None, stake: Any) -> tuple[float, ...]:
        """A stake as one number per class, if the cap leaves room for it; None stands for a fresh forecast.

        Close to the cap the stakes are added up without rounding: otherwise any number of stakes too small
        to change the sum would fit.
        """
        bets = 0 if entry is None else len(entry.stakes)
        room = self.max_stake if not bets else self.room_left if bets < _FEW else -1.0
        if type(stake) is float and self.classes is None and not (self.one_sided and stake < 0.0):
            gross = 0.0 if entry is None else entry.legs[0].gross
            if gross + abs(stake) <= room:
                return (stake,)
        amounts = self._amounts(stake)
        grosses: Sequence[float] = (0.0,) * self.count
        if entry is not None:
            grosses = [gross for leg in entry.legs for gross in leg.gross_stakes()]
        for k, b in enumerate(amounts):
            if self.one_sided and b < 0:
                raise StakeRefused(f"stakes must not be negative on a one-sided forecast; got {b}", 0.0)
            if grosses[k] + abs(b) > room and self._is_full(entry, k, b):
                left = max(0.0, self.max_stake - grosses[k])
                where = f" on class {k}" if self.classes else ""
                message = f"stake {b}{where} is over the cap of {self.max_stake} per forecast: {left} is left"
                raise StakeRefused(message, left)
        return amounts

    def room(self, entry: Open) -> tuple[float, float]:
        """The lowest and the highest stake that the cap leaves; with classes, on every one of them."""
        staked = max([gross for leg in entry.legs for gross in leg.gross_stakes()])
        left = self.max_stake - staked if staked < self.max_stake else 0.0
        return (0.0 if self.one_sided else -left), left

    def _amounts(self, stake: Any) -> tuple[float, ...]:
        """A stake as one number per class; a ValueError if it has another shape.

        At one price the part that is the same on all classes is left out: the cap is on the rest.
        """
        row = None if self.classes is None else arguments.plain_row(stake, self.count)
        if row is None or not abs(sum(row)) < math.inf:
            array = arguments.numbers("stake", stake)
            shape = () if self.classes is None else (self.classes,)
            if array.shape != shape:
                raise ValueError(f"stake must have shape {shape}; got {array.shape}")
            row = np.atleast_1d(array).tolist()
        return rules.without_common(row) if self.one_price else tuple(row)

    def _is_full(self, entry: Open | None, k: int, b: float) -> bool:
        """Whether the stakes on a class and one more, added up without rounding, are over the cap.

        A few rounding errors above the cap are allowed: ten stakes of 0.1 fit a cap of 1.
        """
        sizes = []
        for stake in () if entry is None else entry.stakes:
            amounts = stake.amounts[0] if self.one_price else stake.amounts
            sizes.append(abs(amounts[k]))
        return math.fsum((*sizes, abs(b), -self.max_stake)) > 2.0**-50 * self.max_stake


def beyond_capital(
    capital: float,
    scope: Scope,
    entry: Open,
    before: float,
    amounts: tuple[float, ...],
    whose: str = "",
) -> StakeRefused:
    """The refusal of a stake that could make the loss exceed a capital (Theorem D)."""
    then, left = entry.at_risk, rules.left_of(capital, scope.totals.loss, scope.at_risk - before)
    message = f"with this stake the forecast could lose {then:g}; the capital{whose} leaves {left:g}"
    return StakeRefused(message, part_of(amounts, before, then, left))


def check_stop(
    legs: Sequence[Any],
    amounts: tuple[float, ...],
    surcharges: tuple[float, ...],
    how: rules.Publishing,
    spread: float,
    thawing: bool,
) -> None:
    """Refuse a stake that could win too little at her price: it would fill the cap at little cost.

    `thawing` says whether a thaw can still lower the common price.
    """
    here, at_base = [], []
    if len(legs) == 1 and not surcharges:  # the usual case: the base's own price, or a lower one
        b, leg = amounts[0], legs[0]
        over = leg.mu - leg.mu_hat if how.one_sided else leg.c
        if over <= leg.c_hat + spread and rules.most_paid(b, abs(b), leg.mu, leg.c, 0.0) > 0.0:
            return
    for b, leg in zip(amounts, legs, strict=True):
        mu, c, _ = rules.publish(leg.mu_hat, leg.c_hat, spread, how, 0.0)
        here.append((b, abs(b), leg.mu, leg.c))
        at_base.append((b, abs(b), mu, c))
    common, base = _most_paid(here, 0.0), _most_paid(at_base, 0.0)
    most = _most_paid(here, sum(surcharges))
    if any(amounts) and rules.stops(most, base, common, thawing):
        wins = "at this price the stake cannot win anything"
        if most > 0.0:
            wins = f"at this price the stake could win {most:g} at most, less than half of what is usual"
        raise StakeRefused(f"{wins}: selling has stopped", 0.0)


def _most_paid(legs: Sequence[tuple[float, float, float, float]], surcharge: float) -> float:
    if len(legs) == 1:
        return rules.most_paid(*legs[0], surcharge)
    return rules.most_paid_on_classes(legs, surcharge)
