"""Lines of capital: what each named customer, and whatever else she belongs to, may take in all."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from makewhole import arguments
from makewhole.corrections import Terms
from makewhole.corrections._kernels import add_exactly
from makewhole.corrections.names import Name, read_name
from makewhole.insured._kernels import line_price, own_price, surcharge
from makewhole.insured.book import OpenForecast, Stake, add, add_sizes, part_of, sizes, worst_loss
from makewhole.insured.changes import Get, Key, Patch, drafting
from makewhole.insured.refusals import PriceRefused, StakeRefused
from makewhole.insured.totals import exact_sum

# By default a customer's price falls to a third with every twenty-fifth of her line.
_PART = 25.0
# A customer belongs to no more levels than this.
MOST_LEVELS = 16


@dataclass(frozen=True)
class Lines:
    """A line of capital for every name: the most that its bearer may take from the forecaster, net.

    A customer's price depends on what is left of her own line: next to nothing while there is much, and all
    when there is nothing. So whoever knows better than the forecaster uses up her own line, and the others
    do not pay for it: in sound mode, or one-sided. In exact mode her line limits what she takes, but the
    published price learns from her bets as if she had paid no more than that: only so does it stay balanced.
    `f.stake(..., by="customer-7")` names her; `by=("agency-1", "customer-7")` also names
    what else she belongs to, the widest first: her price is the largest that any of her levels asks.

    Parameters
    ----------
    each
        The line of every name, in the unit of the stakes; a quarter to half of the forecaster's capital is a
        good choice. A short line is used up by luck.
    of
        Lines of their own for some names, such as an agency.
    scale
        The price is ½·exp(−left/scale): at least `max_stake`. By default a twenty-fifth of the line, or
        `max_stake` if that is more.
    keep_gains
        True: what a customer loses widens her line, and in all she takes at most her line. False: her line is
        never longer than at the start, and over every stretch of time she takes at most her line.
    spread
        The least c of everybody with a name; not for one-sided books, where the price is in μ. Without any
        spread, here or in the correction, luck uses up every line in the end. Lines that a capital brings
        have 0.02, unless the correction has a spread of its own.

    Examples
    --------
    >>> import makewhole as mw
    >>> f = mw.InsuredForecaster(max_stake=1, capital=100, lines=mw.Lines(each=25))
    >>> for _ in range(1000):  # she knows every outcome
    ...     payments = f.settle(f.forecast(mu=0.5), 1, stake=1.0, by="clairvoyant")
    >>> q = f.forecast(mu=0.5)
    >>> round(f.account("clairvoyant").taken) <= 25, round(f.quote(q, by="clairvoyant").c, 2)
    (True, 0.5)
    >>> round(f.quote(q, by="somebody else").c, 3)
    0.02
    """

    each: float
    of: Mapping[Name, float] = field(default_factory=dict)
    scale: float | None = None
    keep_gains: bool = True
    spread: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "each", arguments.within("each", self.each, 1e-100, 1e100))
        if not isinstance(self.of, Mapping):
            raise TypeError(f"of must be a mapping from names to lines; got {self.of!r}")
        own = {read_name("of", name): arguments.positive("of", line) for name, line in self.of.items()}
        object.__setattr__(self, "of", own)
        if self.scale is not None:
            object.__setattr__(self, "scale", arguments.positive("scale", self.scale))
        object.__setattr__(self, "spread", arguments.within("spread", self.spread, 0.0, 0.5))
        if not isinstance(self.keep_gains, bool):
            raise TypeError(f"keep_gains must be True or False; got {self.keep_gains!r}")

    def line_of(self, name: Name) -> float:
        """The line of a name."""
        return self.of.get(name, self.each)


class Account(NamedTuple):
    """What a name has taken, net, on settled forecasts, and what her open bets can take at most.

    `low` is what rounding has cut off from `total`; `open` counts the forecasts with bets of hers.
    """

    total: float = 0.0
    low: float = 0.0
    at_risk: float = 0.0
    open: int = 0

    @property
    def taken(self) -> float:
        """What she has taken; below 0 if she has lost."""
        return self.total + self.low


class Position(NamedTuple):
    """The bets of a name on one open forecast: sums per line, as in `OpenForecast`, and what they can take.

    `surcharge` is what they cost above the published price.
    """

    nets: tuple[float, ...]
    grosses: tuple[float, ...]
    surcharge: float
    at_risk: float


class Customer(NamedTuple):
    """What a name has `taken` net, and how much more she may (`InsuredForecaster.account`).

    `at_risk` is the most that her open bets can still take, and `left` what her `line` leaves after that.
    """

    taken: float
    at_risk: float
    line: float
    left: float


NEW = Account()
_new = tuple.__new__


class LineBook:
    """The lines of a forecaster with these terms: prices, and every step as a pure function of the state.

    The state has an `Account` under ("line", name); and, where a forecast has more than one bet, a `Position`
    under ("position", id, name). As in `Bookkeeping`, `get` reads the state, and what changes is written into
    `patch`.
    """

    def __init__(self, lines: Lines, terms: Terms) -> None:
        self.exact = not (terms.sound or terms.one_sided)
        if self.exact and terms.lines > 1:
            raise ValueError("lines must be in sound mode with classes: mode='sound', or a capital")
        if lines.scale is not None and lines.scale < terms.max_stake:
            raise ValueError(
                f"the scale of lines must be at least max_stake, {terms.max_stake:g}; got {lines.scale:g}"
            )
        self.lines, self.one_sided, self.keep_gains = lines, terms.one_sided, lines.keep_gains
        # At this price nobody can win. In exact mode μ stays where it is, however near to 0 or 1.
        self.top = 1.0 if terms.one_sided or self.exact else 0.5
        # With this much left, a forecast cannot lose more than that at any price.
        self.room = terms.max_stake * terms.lines
        self.margin = 1e-12 * self.room  # rounding must not pass a line
        self.least_scale = terms.max_stake
        if lines.spread and terms.one_sided:
            raise ValueError(f"spread of lines must be 0 in a one-sided book; got {lines.spread:g}")
        self.each, self.own_lines, self.spread = lines.each, lines.of, lines.spread
        self.each_scale = self.scale_of(lines.each)

    def scale_of(self, line: float) -> float:
        """The scale of the price on a line: with so much more left, it is e times as low."""
        return self.lines.scale or max(self.least_scale, line / _PART)

    def price(self, get: Get, levels: tuple[Name, ...]) -> float:
        """The least c (one-sided: ask) for a customer of these levels."""
        price = 0.0
        for name in levels:
            asked = self.asked(name, get(("line", name)) or NEW)
            if asked > price:
                price = asked
        return price

    def asked(self, name: Name, account: Account) -> float:
        """The least c (one-sided: ask) that one of her levels asks."""
        total, low, at_risk, _ = account
        line, scale = self.each, self.each_scale
        if self.own_lines and name in self.own_lines:
            line = self.own_lines[name]
            scale = self.scale_of(line)
        left = line - total - low
        if left - (at_risk + self.margin) < self.room:
            price = line_price(left, at_risk, scale, self.room, self.margin, self.top)
        else:
            price = self.top * math.exp(-left / scale)  # the same, written out: what is left is above 0
        return price if price > self.spread else self.spread

    def own(self, open_: OpenForecast, price: float) -> list[tuple[float, float]]:
        """μ and c of each line for a customer who is asked this price."""
        if self.exact:
            mu, c, *_ = open_.lines[0]
            return [(mu, max(c, price))]
        both = zip(open_.lines, open_.said, strict=True)
        return [own_price(line[0], line[1], said, price, self.one_sided) for line, said in both]

    def surcharges(self, open_: OpenForecast, amounts: tuple[float, ...], price: float) -> tuple[float, ...]:
        """What these amounts cost above the published price, on each line; empty if nothing."""
        mu, c, *_ = open_.lines[0]
        if price <= (mu if self.one_sided else c) and len(amounts) == 1:
            return ()
        own = self.own(open_, price)
        extra = tuple(
            surcharge(b, line[0], line[1], own_mu, own_c)
            for b, (own_mu, own_c), line in zip(amounts, own, open_.lines, strict=True)
        )
        return extra if any(extra) else ()

    def take(self, get: Get, patch: Patch, open_: OpenForecast, stake: Stake) -> None:
        """Count a stake in the lines of its levels; StakeRefused if one of them does not leave so much.

        The only bet on a forecast is the position of all its levels, so none is written down for it. With
        the second bet they are.
        """
        amounts, _, levels, surcharges = stake
        if not open_.bets:
            worst = _worst(open_, stake)
            for name in levels:
                self.take_first(patch, name, get(("line", name)) or NEW, amounts, worst)
            return
        if open_.bets == 1:
            _write_positions(patch, open_)
            get = drafting(get, patch)
        for name in levels:
            account = get(("line", name)) or NEW
            self._enter(get, patch, open_, amounts, surcharges, name, account)

    def take_first(
        self, patch: Patch, name: Name, account: Account, amounts: tuple[float, ...], worst: float
    ) -> None:
        """Count the first bet on a forecast, which can take `worst`, in the line of one of its levels."""
        total, low, at_risk, count = account
        after, line = at_risk + worst, self.each
        if self.own_lines:
            line = self.own_lines.get(name, line)
        if worst > 0.0 and total + low + after > line:
            raise _too_much(name, amounts, line - total - low - at_risk, 0.0, worst)
        patch["line", name] = _new(Account, (total, low, after, count + 1))

    def restore(self, state: dict[Key, Any], open_: OpenForecast, stakes: Sequence[Stake]) -> None:
        """Count all the bets on an open forecast, which were taken before."""
        for name in stakes[0].levels if len(stakes) == 1 else ():
            total, low, at_risk, count = state.get(("line", name)) or NEW
            state["line", name] = Account(total, low, at_risk + _worst(open_, stakes[0]), count + 1)
        for amounts, _, levels, surcharges in stakes if len(stakes) > 1 else ():
            for name in levels:
                account = state.get(("line", name)) or NEW
                self._enter(state.get, state, open_, amounts, surcharges, name, account, checked=False)

    def _enter(
        self,
        get: Get,
        patch: Patch,
        open_: OpenForecast,
        amounts: tuple[float, ...],
        surcharges: tuple[float, ...],
        name: Name,
        account: Account,
        *,
        checked: bool = True,
    ) -> None:
        """Count a bet that is not the only one on its forecast in the line of one of its levels."""
        place = ("position", open_.forecast.id, name)
        (total, low, at_risk, count), held = account, get(place)
        if held is None:
            now, nets, grosses, dearer, count = 0.0, amounts, sizes(amounts), 0.0, count + 1
        else:
            nets, grosses, dearer, now = held
            nets, grosses = add(nets, amounts), add_sizes(grosses, amounts)
        if surcharges:
            dearer += sum(surcharges)
        then = worst_loss(open_.lines, nets, grosses, dearer)
        after, line = at_risk + (then - now), self.own_lines.get(name, self.each)
        if checked and then > now and total + low + after > line:
            raise _too_much(name, amounts, line - total - low - at_risk, now, then)
        patch["line", name] = _new(Account, (total, low, after, count))
        patch[place] = _new(Position, (nets, grosses, dearer, then))

    def leave(
        self,
        get: Get,
        patch: Patch,
        open_: OpenForecast,
        stakes: Sequence[Stake],
        payments: Sequence[float],
    ) -> None:
        """Close the positions on a forecast; without payments it was voided."""
        if len(stakes) == 1:
            for name in stakes[0].levels:
                risk = open_.at_risk if open_.bets else _worst(open_, stakes[0])
                self._close(patch, name, get(("line", name)), risk, payments[0] if payments else 0.0, 0.0)
            return
        paid: dict[Name, list[float]] = {}
        for place, stake in enumerate(stakes):
            for name in stake.levels:
                paid.setdefault(name, []).append(payments[place] if payments else 0.0)
        for name, amounts in paid.items():
            key = ("position", open_.forecast.id, name)
            self._close(patch, name, get(("line", name)), get(key).at_risk, *exact_sum(amounts))
            patch[key] = None

    def _close(
        self, patch: Patch, name: Name, account: Account, risk: float, amount: float, rest: float
    ) -> None:
        """Close a position of a name, which could take `risk` and was paid so much (and the `rest`)."""
        total, low, at_risk, count = account
        total, low = add_exactly(*add_exactly(total, low, amount), rest)
        if total < 0.0 and not self.keep_gains:
            total = low = 0.0
        at_risk = max(0.0, at_risk - risk) if count > 1 else 0.0  # no rounding may be left over
        patch["line", name] = _new(Account, (total, low, at_risk, count - 1))

    def customer(self, get: Get, name: Name) -> Customer:
        """What a name has taken and how much more it may."""
        account: Account = get(("line", name)) or NEW
        line = self.lines.line_of(name)
        return Customer(account.taken, account.at_risk, line, line - account.taken - account.at_risk)


def _worst(open_: OpenForecast, stake: Stake) -> float:
    """The most that one bet can take."""
    return worst_loss(open_.lines, stake.amounts, sizes(stake.amounts), sum(stake.surcharges))


def _write_positions(patch: Patch, open_: OpenForecast) -> None:
    """Write down the positions of the only bet on a forecast, now that there is a second one."""
    stake = open_.stakes[0]
    if stake.levels:
        fields = (stake.amounts, sizes(stake.amounts), 0.0 + sum(stake.surcharges), _worst(open_, stake))
        made = _new(Position, fields)
        for name in stake.levels:
            patch["position", open_.forecast.id, name] = made


def _too_much(name: Name, amounts: tuple[float, ...], left: float, now: float, then: float) -> StakeRefused:
    """The refusal of a bet with which a position could take `then` instead of `now`."""
    left = max(0.0, left)
    message = f"with this stake {name!r} could take {then - now:g} more; its line leaves {left:g}"
    return StakeRefused(message, part_of(amounts, now, then, now + left))


def check_price(
    open_: OpenForecast, amounts: tuple[float, ...], own: float, most: Any, one_sided: bool
) -> None:
    """Refuse a stake that costs more than she would pay, on any class that she stakes on."""
    limit = arguments.scalar("price", most)
    published = [line.mu if one_sided else line.c for line in open_.lines]
    published *= len(amounts) // len(published)  # classes at one price are one line
    asked = max((max(own, p) for p, b in zip(published, amounts, strict=True) if b), default=limit)
    if asked > limit:
        raise PriceRefused(f"the price is {asked:g} now, above price={limit:g}", asked)


def read_levels(by: Any) -> tuple[Name, ...]:
    """The names of who bets, the widest level first and herself last, from what the caller gave."""
    if by is None:
        return ()
    if type(by) is str or (type(by) is int and -(2**63) < by < 2**63):  # in nearly all calls
        return (by,)
    if not isinstance(by, (tuple, list)):
        return (read_name("by", by),)
    names = tuple(read_name("by", one) for one in by)
    if not 1 <= len(names) <= MOST_LEVELS or len(set(names)) < len(names):
        raise ValueError(f"by must be a name, or up to {MOST_LEVELS} different names; got {by!r}")
    return names
