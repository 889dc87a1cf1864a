"""Limit what each named customer, and each group of customers, can win in total."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
    """Limit what each named customer can win in total.

    A customer's line is the most she can win, net of her losses. As she uses it up, her price rises above the
    published one, until she cannot win. In sound mode, and one-sided, her winnings do not raise other
    customers' own prices. In exact mode the published price learns from her bets, but ignores her surcharge.

    Name her with `by="ann"`, or with her groups, widest first: `by=("agency-1", "ann")`. She pays the highest
    price among these names.

    Parameters
    ----------
    each
        The line of every name, in the unit of the stakes. A quarter to half of the forecaster's capital is a
        good choice; a short line is used up by luck.
    of
        Lines for particular names, such as an agency.
    scale
        Her price is ½·exp(−left/scale), where `left` is what her line leaves. At least `max_stake`. By
        default a twenty-fifth of the line, or `max_stake` if that is more.
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
    >>> f = mw.InsuredForecaster(max_stake=1, capital=100, lines=mw.Lines(each=25))
    >>> for _ in range(1000):  # she knows every outcome
    ...     payments = f.settle(f.forecast(mu=0.5), 1, stake=1.0, by="clairvoyant")
    >>> q = f.forecast(mu=0.5)
    >>> round(f.account("clairvoyant").taken) <= 25, round(f.quote(q, by="clairvoyant").c, 2)
    (True, 0.5)
    >>> round(f.quote(q, by="another customer").c, 3)
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


class Customer(NamedTuple):
    """What a customer has `taken`, net, and how much more she may take (`InsuredForecaster.account`).

    `at_risk` is the most that her open bets can still take, and `left` what remains of her `line` after that.
    """

    taken: float
    at_risk: float
    line: float
    left: float


_NEW = Account()  # the account of a name that has not staked yet; never changed


class LineBook:
    """The lines of a book: the accounts of all names, and the price for each.

    `journal` keeps what changes. A name's stakes on one open forecast are a `Holding` of that forecast.
    """

    def __init__(self, lines: Lines, terms: Terms, journal: Journal) -> None:
        exact = not (terms.sound or terms.one_sided)
        if exact and terms.lines > 1:
            raise ValueError("lines must be in sound mode with classes: mode='sound', or a capital")
        if lines.scale is not None and lines.scale < terms.max_stake:
            raise ValueError(
                f"the scale of lines must be at least max_stake, {terms.max_stake:g}; got {lines.scale:g}"
            )
        if lines.spread and terms.one_sided:
            raise ValueError(f"spread of lines must be 0 in a one-sided book; got {lines.spread:g}")
        self.lines, self.one_sided, self.sound = lines, terms.one_sided, terms.sound
        self.journal = journal
        self.accounts: dict[Name, Account] = {}
        # At this price no customer can win. In exact mode μ stays where it is, however near to 0 or 1.
        self.top = 1.0 if terms.one_sided or exact else 0.5
        # While this much is left, no forecast can lose more than that, at any price.
        self.room = terms.max_stake * terms.lines
        self.margin = 1e-12 * self.room  # rounding must not exceed a line
        self.least_scale = terms.max_stake
        self.each, self.each_scale = lines.each, self.scale_of(lines.each)
        self.of, self.spread, self.keep_gains = lines.of, lines.spread, lines.keep_gains

    def scale_of(self, line: float) -> float:
        """The scale of the price on a line: with this much more left, the price is e times lower."""
        return self.lines.scale or max(self.least_scale, line / _PART)

    def price(self, levels: tuple[Name, ...]) -> float:
        """The least c (one-sided: ask) for a customer of these levels: the highest price among them."""
        price = self.spread
        for name in levels:
            account, line, scale = self.accounts.get(name, _NEW), self.each, self.each_scale
            if self.of and name in self.of:
                line = self.of[name]
                scale = self.scale_of(line)
            left = rules.left_of(line, account.total, account.low)
            price = rules.line_price(left, account.at_risk, scale, self.room, self.margin, self.top, price)
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

    def enter(self, entry: Open, stake: Stake, *, checked: bool = True) -> None:
        """Count a stake in the lines of its levels; StakeRefused if a line leaves too little.

        The stake is in the legs of the forecast already, but not among its stakes. A stake of a saved book,
        which was taken before, is not `checked` again.
        """
        if not entry.stakes:  # the only stake on a forecast is the position of all its levels
            for name in stake.levels:
                self._hold(name, stake, 0.0, entry.at_risk, 1, checked)
            return
        if entry.positions is None:
            self._begin_positions(entry)
        for name in stake.levels:
            position = self._position(entry, name)
            self.journal.keep(position)
            self._add(position, stake)
            now, then = position.at_risk, worst_loss(position.legs)
            self._hold(name, stake, now, then, 0 if position.stakes else 1, checked)
            position.at_risk = then
            position.stakes += 1

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

    def _hold(self, name: Name, stake: Stake, now: float, then: float, new: int, checked: bool) -> None:
        """Count a position that can now take `then` instead of `now`; `new` is 1 for a new position, else 0.

        Refuse the stake if her line leaves less.
        """
        account = self.accounts.get(name)
        if account is None:
            account = self.open_account(name)
        line = self.of.get(name, self.each) if self.of else self.each
        taken = account.total + account.low
        if checked and rules.too_much(line, taken, account.at_risk, now, then):
            left = rules.left_of(line, taken, account.at_risk - now)
            message = f"with this stake {name!r} could take {then - now:g} more; its line leaves"
            limit = part_of(stake.amounts, now, then, left)
            raise StakeRefused(f"{message} {max(0.0, left - now):g}", limit)
        self.journal.append((account, (account.total, account.low, account.at_risk, account.open)))
        account.at_risk += then - now
        account.open += new

    def leave(self, entry: Open, payments: Sequence[float] | None) -> None:
        """Close the positions on a forecast; without payments it was voided."""
        if entry.positions is None:
            for name in entry.stakes[0].levels:
                paid = 0.0 if payments is None else payments[0]
                self._release(self.accounts[name], entry.at_risk, paid, 0.0)
            return
        received: dict[Name, list[float]] = {name: [] for name in entry.positions}
        for place, stake in enumerate(entry.stakes):
            for name in stake.levels:
                received[name].append(0.0 if payments is None else payments[place])
        for name, amounts in received.items():
            self._release(self.accounts[name], entry.positions[name].at_risk, *exact_sum(amounts))

    def _release(self, account: Account, risk: float, amount: float, rest: float) -> None:
        """Close a position that could take `risk` and was paid `amount` (plus the `rest`)."""
        self.journal.append((account, (account.total, account.low, account.at_risk, account.open)))
        total, low = rules.add_exactly(account.total, account.low, amount)
        if rest:
            total, low = rules.add_exactly(total, low, rest)
        if total < 0.0 and not self.keep_gains:
            total = low = 0.0
        account.total, account.low = total, low
        account.open -= 1
        account.at_risk = rules.released(account.at_risk, risk, account.open)

    def customer(self, name: Name) -> Customer:
        """What a name has taken, and how much more it may take."""
        account, line = self.accounts.get(name, _NEW), self.lines.line_of(name)
        taken, at_risk = account.taken, account.at_risk
        return Customer(taken, at_risk, line, rules.left_of(line, taken, at_risk))


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
