"""Limit what each named customer, and each group of customers, can win in total."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from makewhole import arguments, rules
from makewhole.corrections import Terms
from makewhole.corrections.names import Name, read_name
from makewhole.insured.journal import Journal
from makewhole.insured.records import Account, Holding, Open, Stake, worst_loss
from makewhole.insured.refusals import StakeRefused, part_of
from makewhole.insured.totals import exact_sum

# By default a customer's price falls to a third with every twenty-fifth of her line.
_PART = 25.0
# A customer belongs to no more levels than this.
MOST_LEVELS = 16


@dataclass(frozen=True)
class Lines:
    """Limit what each named customer can win in total, and how much of a forecast's cap she can hold.

    A customer's line is the most she can win, net of her losses. As she uses it up, her price rises above the
    published one, until she cannot win. In sound mode, and one-sided, her winnings do not raise other
    customers' own prices. In exact mode the published price learns from her bets, but ignores her surcharge.

    All stakes on a forecast share its cap, `max_stake`. A customer holds at most her `share` of it, so a few
    names cannot keep the others out.

    Name her with `by="ann"`, or with her groups, widest first: `by=("agency-1", "ann")`. She pays the highest
    price among these names. Only the last name has the line `each` and the share `share`; a group has the
    line and the share that `of` and `shares` give it, or none.

    Parameters
    ----------
    each
        The line of every customer, in the unit of the stakes. By default, with a capital, a twenty-fifth of
        it: with a share of 1/10, luck seldom uses up more, and ten informed customers cannot empty the book.
    of
        Lines for particular names, such as an agency.
    share
        The part of a forecast's cap that a customer may hold. 1: all of it.
    shares
        Shares for particular names.
    thaw
        A line that is nearly used up grows again, by a 5,000th of itself with every settled forecast, at most
        by this part of it in total: a customer who was only lucky is served again. In total she wins at most
        her line and this part of it.
    scale
        Her price is ½·exp(−left/scale), where `left` is what her line leaves. At least her share of
        `max_stake`. By default a twenty-fifth of the line, or her share of `max_stake` if that is more.
    keep_gains
        True: her losses lengthen her line, and in total she wins at most her line. False: her line is never
        longer than at the start, and over every stretch of time she wins at most her line.
    spread
        The least c for a customer with a name; not for one-sided books, where the price is in μ. Without any
        spread, here or in the correction, luck uses up every line in the end. Lines that come with a capital
        have 0.02, unless the correction was given a spread: `Barrier(100, spread=0)` charges none.

    Examples
    --------
    >>> import makewhole as mw
    >>> f = mw.InsuredForecaster(max_stake=1, capital=100)  # so a line is 4, and thaws by 0.8
    >>> for _ in range(1000):  # she knows every outcome, and holds as much as she may
    ...     q = f.forecast(mu=0.5)
    ...     try:
    ...         number = f.stake(q, 0.1, by="clairvoyant")
    ...     except mw.StakeRefused:
    ...         pass
    ...     payments = f.settle(q, 1)
    >>> f.account("clairvoyant").taken < 4.8
    True
    >>> q = f.forecast(mu=0.5)
    >>> f.quote(q, by="clairvoyant").c > 0.2, round(f.quote(q, by="another customer").c, 3)
    (True, 0.02)
    """

    each: float
    of: Mapping[Name, float] = field(default_factory=dict)
    share: float = 0.1
    shares: Mapping[Name, float] = field(default_factory=dict)
    thaw: float = 0.2
    scale: float | None = None
    keep_gains: bool = True
    spread: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "each", arguments.within("each", self.each, 1e-100, 1e100))
        for mapping in ("of", "shares"):
            given = getattr(self, mapping)
            if not isinstance(given, Mapping):
                raise TypeError(f"{mapping} must be a mapping from names to numbers; got {given!r}")
            own = {read_name(mapping, n): arguments.positive(mapping, x) for n, x in given.items()}
            object.__setattr__(self, mapping, own)
        object.__setattr__(self, "share", arguments.within("share", self.share, 1e-6, 1.0))
        for name, share in self.shares.items():
            arguments.within(f"share of {name!r}", share, 1e-6, 1.0)
        object.__setattr__(self, "thaw", arguments.within("thaw", self.thaw, 0.0, 1.0))
        if self.scale is not None:
            object.__setattr__(self, "scale", arguments.positive("scale", self.scale))
        object.__setattr__(self, "spread", arguments.within("spread", self.spread, 0.0, 0.5))
        if not isinstance(self.keep_gains, bool):
            raise TypeError(f"keep_gains must be True or False; got {self.keep_gains!r}")

    def limit_of(self, name: Name, max_stake: float, legs: int, *, last: bool) -> Limit:
        """The limits of a name: as a customer, the `last` of her names, or as a group above her."""
        line = self.of.get(name, self.each if last else math.inf)
        most = self.shares.get(name, self.share if last else 1.0) * max_stake
        scale = self.scale or (max(most, line / _PART) if line < math.inf else most)
        return Limit(line, most, scale, most * legs)


class Limit(NamedTuple):
    """The limits of a name: her line, the `most` of a cap that she may hold, and the scale of her price.

    While her line leaves `room`, no forecast can take more than is left, at any price.
    """

    line: float
    most: float
    scale: float
    room: float


# The names of a customer with their limits; her own name is the last.
Limits = list[tuple[Name, Limit]]


class Customer(NamedTuple):
    """What a customer has `taken`, net, and how much more she may take (`InsuredForecaster.account`).

    `at_risk` is the most that her open bets can still take, and `left` what remains of her `line` after that;
    the line includes what has thawed.
    """

    taken: float
    at_risk: float
    line: float
    left: float


class Along(NamedTuple):
    """What shares the cap of a forecast: in a ledger, the other versions of an id.

    `besides` is what names hold under that cap without a stake on any of them.
    """

    entries: Sequence[Open] = ()
    besides: Mapping[Name, int] = MappingProxyType({})

    def held(self, entry: Open, name: Name, k: int) -> float:
        """How much a name holds of one leg, on a forecast and along with it."""
        return math.fsum(
            [self.besides.get(name, 0), *[_held(one, name, k) for one in (entry, *self.entries)]]
        )


ALONE = Along()
_NEW = Account()  # the account of a name that has not staked yet; never changed


class LineBook:
    """The lines of a book: the accounts of all names, and the price for each.

    `journal` keeps what changes. A name's stakes on one open forecast are a `Holding` of that forecast.
    Where it says `rounds`, that is the number of forecasts settled so far, by which lines thaw.
    """

    def __init__(self, lines: Lines, terms: Terms, journal: Journal) -> None:
        exact = not (terms.sound or terms.one_sided)
        if exact and terms.lines > 1:
            raise ValueError("lines must be in sound mode with classes: mode='sound', or a capital")
        if lines.spread and terms.one_sided:
            raise ValueError(f"spread of lines must be 0 in a one-sided book; got {lines.spread:g}")
        self.lines, self.one_sided, self.sound = lines, terms.one_sided, terms.sound
        self.max_stake, self.legs = terms.max_stake, terms.lines
        self.journal = journal
        self.accounts: dict[Name, Account] = {}
        # At this price no customer can win. In exact mode μ stays where it is, however near to 0 or 1.
        self.top = 1.0 if terms.one_sided or exact else 0.5
        self.thaw, self.spread, self.keep_gains = lines.thaw, lines.spread, lines.keep_gains
        self.named = {*lines.of, *lines.shares}  # those with limits of their own
        self.own_limit = self._limit_of("", last=True)
        self.group_limit = self._limit_of("", last=False)
        if lines.scale is not None:
            for limit in (self.own_limit, *[self.limit_of(name, last=True) for name in self.named]):
                if lines.scale < limit.most:
                    raise ValueError(
                        f"the scale of lines must be at least a share of max_stake, {limit.most:g}; "
                        f"got {lines.scale:g}"
                    )

    def _limit_of(self, name: Name, *, last: bool) -> Limit:
        return self.lines.limit_of(name, self.max_stake, self.legs, last=last)

    def limit_of(self, name: Name, *, last: bool) -> Limit:
        """The limits of a name: as the `last` of a customer's names, or as a group above her."""
        if name in self.named:
            return self._limit_of(name, last=last)
        return self.own_limit if last else self.group_limit

    def limits(self, levels: tuple[Name, ...]) -> Limits:
        """The names of a customer with their limits; her own name is the last."""
        if len(levels) == 1 and not self.named:  # the usual case
            return [(levels[0], self.own_limit)]
        if not levels:
            return []
        groups = [(name, self.limit_of(name, last=False)) for name in levels[:-1]]
        return [*groups, (levels[-1], self.limit_of(levels[-1], last=True))]

    def thawed(self, account: Account, limit: Limit, rounds: int) -> float:
        """What has thawed of a line by now."""
        taken, since = account.total + account.low, rounds - account.since
        return rules.thawed_line(limit.line, limit.scale, self.thaw, taken, account.thawed, since)

    def price(self, limits: Limits, rounds: int, published: float) -> float:
        """The least c (one-sided: ask) for a customer with these limits: the highest among her names.

        It is at least the published one, which saves the exponential if her own would be lower.
        """
        price = max(self.spread, published)
        for name, limit in limits:
            account = self.accounts.get(name, _NEW)
            line = limit.line + self.thawed(account, limit, rounds)
            left = rules.left_of(line, account.total, account.low)
            price = rules.line_price(left, account.at_risk, limit.scale, limit.room, self.top, price)
        return price

    def own(self, leg: Any, price: float) -> tuple[float, float]:
        """μ and c of a leg for a customer with this price."""
        return rules.own_price(leg.mu, leg.c, leg.mu_hat, price, self.one_sided, self.sound)

    def surcharges(self, legs: Sequence[Any], amounts: tuple[float, ...], price: float) -> tuple[float, ...]:
        """What these amounts cost in addition to the published price, on each leg; empty if nothing."""
        costs = []
        for b, leg in zip(amounts, legs, strict=True):
            costs.append(rules.surcharge(b, leg.mu, leg.c, *self.own(leg, price)))
        return tuple(costs) if any(costs) else ()

    # --- shares -------------------------------------------------------------------------------------------

    def share_left(self, entry: Open, along: Along, levels: tuple[Name, ...]) -> float:
        """How much more a customer may stake within the shares of her names, on every class."""
        left = math.inf
        for name, limit in self.limits(levels):
            for k in range(self.legs):
                left = min(left, max(0.0, limit.most - along.held(entry, name, k)))
        return left

    def check_shares(self, entry: Open, along: Along, amounts: tuple[float, ...], limits: Limits) -> None:
        """Refuse a stake with which a name would hold more than its share of the cap."""
        fresh = not (entry.stakes or along.entries or along.besides)
        for name, limit in limits:
            if limit.most >= self.max_stake:
                continue
            for k, b in enumerate(amounts):
                held = 0.0 if fresh else along.held(entry, name, k)
                if held + abs(b) > limit.most * (1.0 + 2.0**-50):  # ten stakes of 0.1 fit a share of 1
                    left = max(0.0, limit.most - held)
                    raise StakeRefused(
                        f"{name!r} may hold {limit.most:g} of the cap of {self.max_stake:g} per forecast; "
                        f"got {b:g}: {left:g} is left",
                        left,
                    )

    # --- enter and leave ----------------------------------------------------------------------------------

    def enter(self, entry: Open, stake: Stake, limits: Limits, rounds: int, *, checked: bool = True) -> bool:
        """Count a stake in the lines of its levels; StakeRefused if a line leaves too little.

        Returns whether it lowers what the customer can take. The stake is in the legs of the forecast, but
        not yet among its stakes. A stake of a saved book, which was taken before, is not `checked` again.
        """
        if not entry.stakes:  # the only stake on a forecast is the position of all its levels
            for name, limit in limits:
                self._hold(name, limit if checked else None, stake, (0.0, entry.at_risk), 1, rounds)
            return False
        if entry.positions is None:
            self._begin_positions(entry)
        lowered = False
        for name, limit in limits:
            position = self._position(entry, name)
            self.journal.keep(position)
            self._add(position, stake)
            now, then = position.at_risk, worst_loss(position.legs)
            new = 0 if position.stakes else 1
            self._hold(name, limit if checked else None, stake, (now, then), new, rounds)
            position.at_risk, lowered = then, then < now
            position.stakes += 1
        return lowered

    def _begin_positions(self, entry: Open) -> None:
        """Write down the positions of the only stake so far, now that there is a second one."""
        entry.positions = {}
        first = entry.stakes[0]
        for name in first.levels:
            position = self._position(entry, name)
            self._add(position, first)
            position.at_risk, position.stakes = worst_loss(position.legs), 1

    def _position(self, entry: Open, name: Name) -> Holding:
        positions: Any = entry.positions
        position = positions.get(name)
        if position is None:
            self.journal.keep_item(positions, name)
            position = positions[name] = Holding([leg.unstaked() for leg in entry.legs])
        made: Holding = position
        return made

    def _add(self, position: Holding, stake: Stake) -> None:
        for k, leg in enumerate(position.legs):
            leg.add(self.journal, stake.amounts[k], stake.surcharges[k] if stake.surcharges else 0.0)

    def open_account(self, name: Name) -> Account:
        """Open an account for a new name."""
        self.journal.append((self.accounts, (name, None)))
        account = self.accounts[name] = Account()
        return account

    def _hold(
        self,
        name: Name,
        limit: Limit | None,
        stake: Stake,
        risks: tuple[float, float],
        new: int,
        rounds: int,
    ) -> None:
        """Count a position that could take risks[0] and can now take risks[1]; `new` is 1 for a new position.

        Refuse the stake if her line leaves less. Without a limit nothing is refused.
        """
        account = self.accounts.get(name)
        if account is None:
            account = self.open_account(name)
        now, then = risks
        if limit is not None:
            taken, line = account.total + account.low, limit.line + self.thawed(account, limit, rounds)
            if rules.too_much(line, taken, account.at_risk, now, then):
                left = rules.left_of(line, taken, account.at_risk - now)
                message = f"with this stake {name!r} could take {then - now:g} more; its line leaves"
                size = part_of(stake.amounts, now, then, left)
                raise StakeRefused(f"{message} {max(0.0, left - now):g}", size)
        self.journal.append((account, account.values()))
        account.at_risk += then - now
        account.open += new

    def leave(self, entry: Open, payments: Sequence[float] | None, rounds: int) -> None:
        """Close the positions on a forecast; without payments it was voided."""
        if entry.positions is None:
            paid = (0.0 if payments is None else payments[0], 0.0)
            for name, limit in self.limits(entry.stakes[0].levels):
                self._release(self.accounts[name], limit, entry.at_risk, paid, rounds)
            return
        received: dict[Name, list[float]] = {name: [] for name in entry.positions}
        limits: dict[Name, Limit] = {}
        for place, stake in enumerate(entry.stakes):
            for name, limit in self.limits(stake.levels):
                received[name].append(0.0 if payments is None else payments[place])
                limits[name] = limit
        for name, amounts in received.items():
            risk = entry.positions[name].at_risk
            self._release(self.accounts[name], limits[name], risk, exact_sum(amounts), rounds)

    def _release(
        self, account: Account, limit: Limit, risk: float, paid: tuple[float, float], rounds: int
    ) -> None:
        """Close a position that could take `risk` and was paid this: a sum, and what rounding cut off."""
        self.journal.append((account, account.values()))
        account.thawed, account.since = self.thawed(account, limit, rounds), rounds
        total, low = rules.add_exactly(account.total, account.low, paid[0])
        if paid[1]:
            total, low = rules.add_exactly(total, low, paid[1])
        if total < 0.0 and not self.keep_gains:
            total = low = 0.0
        account.total, account.low = total, low
        account.open -= 1
        account.at_risk = rules.released(account.at_risk, risk, account.open)

    def customer(self, name: Name, rounds: int) -> Customer:
        """What a name has taken, and how much more it may take."""
        account, limit = self.accounts.get(name, _NEW), self.limit_of(name, last=True)
        taken, at_risk = account.taken, account.at_risk
        line = limit.line + self.thawed(account, limit, rounds)
        return Customer(taken, at_risk, line, rules.left_of(line, taken, at_risk))


def _held(entry: Open, name: Name, k: int) -> float:
    """How much a name has staked on one leg of a forecast."""
    if entry.positions is not None:
        position = entry.positions.get(name)
        return 0.0 if position is None else position.legs[k].gross
    if entry.stakes and name in entry.stakes[0].levels:
        size: float = abs(entry.stakes[0].amounts[k])
        return size
    return 0.0


def read_levels(by: Any) -> tuple[Name, ...]:
    """A customer's names, from what the caller gave: the widest level first, her own name last."""
    if by is None:
        return ()
    if type(by) is str or (type(by) is int and -(2**63) < by < 2**63):  # the usual case
        return (by,)
    if not isinstance(by, (tuple, list)):
        return (read_name("by", by),)
    names = tuple(read_name("by", name) for name in by)
    if not 1 <= len(names) <= MOST_LEVELS or len(set(names)) < len(names):
        raise ValueError(f"by must be a name, or up to {MOST_LEVELS} different names; got {by!r}")
    return names
