"""A slow, obvious transcription of a book's rules, in exact fractions.

It keeps a list of forecasts with their stakes, and adds up everything anew each time it is asked. Published
prices come from the forecaster, because corrections are tested elsewhere. A customer's own price contains an
exponential, so the oracle works it out in floats, compares it with the quote, and pays at the quote.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

Name = str | int

# A limit that is closer than this to what is asked, relative to the cap, may go either way.
NEAR = Fraction(1, 10**9)


def exact(numbers: Any) -> list[Fraction]:
    """Numbers as fractions, without rounding."""
    return [Fraction(float(number)) for number in numbers]


@dataclass
class Bet:
    """A stake on each class (one number for a binary event), at the price of the customer."""

    amounts: list[Fraction]
    levels: tuple[Name, ...]
    mus: list[Fraction]
    cs: list[Fraction]

    @property
    def name(self) -> Name | None:
        """Who is paid."""
        return self.levels[-1] if self.levels else None


@dataclass
class Published:
    """A forecast: what the base said, what was published, and the bets on it."""

    said: list[float]
    widths: list[float]
    mus: list[Fraction]
    cs: list[Fraction]
    bets: list[Bet] = field(default_factory=list)


@dataclass
class Oracle:
    """Keeps the book of one forecaster; `one_price` if all classes have the same price (exact mode)."""

    max_stake: float
    one_sided: bool = False
    sound: bool = False
    classes: int | None = None
    one_price: bool = False
    capital: float | None = None
    lines: Any = None  # anything with the fields of makewhole.Lines
    spread: float = 0.0  # what is added to ĉ in the base's own price
    stop: bool = False
    names: Sequence[Name] = ()  # all that may come
    thawed: dict[Name, Fraction] = field(default_factory=dict)
    open: dict[Any, Published] = field(default_factory=dict)
    taken: dict[Name, Fraction] = field(default_factory=dict)
    lost: Fraction = Fraction(0)
    turnover: Fraction = Fraction(0)
    rounds: int = 0
    voided: int = 0
    bets: int = 0
    idle: int = 0
    negative: int = 0

    # --- what a bet pays ----------------------------------------------------------------------------------

    def pay(self, bet: Bet, y: Any) -> Fraction:
        """What a bet receives when y happens."""
        if self.classes is None:
            (b,), (mu,), (c,) = bet.amounts, bet.mus, bet.cs
            return b * (Fraction(y) - mu) - abs(b) * c
        if not self.one_price:
            each = zip(bet.amounts, bet.mus, bet.cs, strict=True)
            return sum(
                (b * (int(k == y) - mu) - abs(b) * c for k, (b, mu, c) in enumerate(each)), Fraction(0)
            )
        centred = [b - median(bet.amounts) for b in bet.amounts]
        fair = sum((b * mu for b, mu in zip(centred, bet.mus, strict=True)), Fraction(0))
        return centred[int(y)] - fair - bet.cs[0] * sum(map(abs, centred), Fraction(0))

    def outcomes(self) -> Sequence[Any]:
        """What may happen; a graded outcome is worst at one of the ends."""
        return (0, 1) if self.classes is None else range(self.classes)

    def worst(self, bets: Sequence[Bet]) -> Fraction:
        """The most that these bets on one forecast can win together; nothing if it is voided."""
        sums = [sum((self.pay(bet, y) for bet in bets), Fraction(0)) for y in self.outcomes()]
        return max(Fraction(0), *sums)

    def size(self, bet: Bet) -> Fraction:
        """What counts as turnover."""
        middle = median(bet.amounts) if self.one_price else 0
        return sum((abs(b - middle) for b in bet.amounts), Fraction(0))

    # --- what is at risk ----------------------------------------------------------------------------------

    def of(self, name: Name, id_: Any) -> list[Bet]:
        """The bets on a forecast that count in a name's line."""
        return [bet for bet in self.open[id_].bets if name in bet.levels]

    def at_risk(self, name: Name | None = None) -> Fraction:
        """What open bets can win: all of them, or those of a name."""
        found = [self.open[id_].bets if name is None else self.of(name, id_) for id_ in self.open]
        return sum(map(self.worst, found), Fraction(0))

    def line(self, name: Name) -> Fraction:
        """The line of a customer, with what has thawed."""
        return Fraction(float(self.lines.of.get(name, self.lines.each))) + self.thawed.get(name, Fraction(0))

    def share(self, name: Name, *, last: bool = True) -> float:
        """How much of a cap a name may hold."""
        share: float = self.lines.shares.get(name, self.lines.share if last else 1.0)
        return share * self.max_stake

    def limited(self, levels: Sequence[Name]) -> list[Name]:
        """Those of a customer's names that have a line: her own, the last, and groups that were given one."""
        return [name for name in levels if name == levels[-1] or name in self.lines.of]

    def thaw(self, name: Name) -> None:
        """A forecast was settled: a line of which little is left grows by a 5,000th of itself."""
        before = self.thawed.get(name, Fraction(0))
        line = self.line(name) - before
        scale = Fraction(self.lines.scale or max(self.share(name), float(line) / 25))
        wanted = self.taken.get(name, Fraction(0)) - line + 4 * scale
        most = min(wanted, Fraction(self.lines.thaw) * line)
        if most > before:
            self.thawed[name] = min(most, before + line / 5000)

    def account(self, name: Name) -> tuple[Fraction, Fraction, Fraction, Fraction]:
        """What a name has taken, can take with its open bets, its line, and what that leaves."""
        taken, at_risk, line = self.taken.get(name, Fraction(0)), self.at_risk(name), self.line(name)
        return taken, at_risk, line, line - taken - at_risk

    # --- prices -------------------------------------------------------------------------------------------

    def least_price(self) -> float:
        """The least c (one-sided: the least μ) with which a new forecast cannot pass the capital."""
        if self.capital is None:
            return 0.0
        left = (Fraction(self.capital) - self.lost - self.at_risk()) / (self.classes or 1)
        share = max(Fraction(0), left) / Fraction(self.max_stake)
        return float(1 - share if self.one_sided else (1 - share) / 2)

    def price(self, levels: Sequence[Name]) -> float:
        """The least c (one-sided: the least μ) for a customer: the highest that one of her names is asked."""
        if self.lines is None or not levels:
            return -math.inf
        top = 0.5 if self.sound and not self.one_sided else 1.0
        price: float = self.lines.spread
        for name in self.limited(levels):
            taken, _, line, left = map(float, self.account(name))
            share = self.share(name, last=name == levels[-1])
            given = line - float(self.thawed.get(name, 0))
            scale, room = self.lines.scale or max(share, given / 25), share * (self.classes or 1)
            smooth = top * math.exp(-max(0.0, line - taken) / scale)
            price = max(price, smooth, top * (1 - max(0.0, left) / room))
        return price

    def own(self, id_: Any, levels: Sequence[Name]) -> tuple[list[float], list[float]]:
        """The μ and c of each class for a customer."""
        made, price = self.open[id_], self.price(levels)
        mus, cs = [float(mu) for mu in made.mus], [float(c) for c in made.cs]
        for k, said in enumerate(made.said):
            if self.one_sided:
                mus[k] = min(max(mus[k], price), 1.0)
            elif price > cs[k]:
                cs[k] = min(price, 0.5) if self.sound else price
                mus[k] = min(max(said, cs[k]), 1.0 - cs[k]) if self.sound else mus[k]
        return mus, cs

    # --- whether a stake is taken -------------------------------------------------------------------------

    def refusals(self, id_: Any, bet: Bet, most: float | None) -> dict[str, bool]:
        """The limits that a bet would pass, by name; False where it is too near to say.

        `most` is the highest price that the customer would pay.
        """
        found: dict[str, bool] = {}
        cap, made = Fraction(self.max_stake), self.open[id_]
        if self.one_sided and min(bet.amounts) < 0:
            found["negative"] = True
        for k, b in enumerate(bet.amounts):
            self._passes(found, "cap", sum((abs(one.amounts[k]) for one in made.bets), abs(b)), cap)
        if most is not None:
            asked = [mu if self.one_sided else c for mu, c in zip(bet.mus, bet.cs, strict=True)]
            for b, price in zip(bet.amounts, asked, strict=True):
                if b:
                    self._passes(found, "price", price, Fraction(most))
        if self.capital is not None:
            left = Fraction(self.capital) - self.lost - self.at_risk()
            self._rises(found, "capital", made.bets, bet, left)
        for name in self.limited(bet.levels) if self.lines is not None and bet.levels else ():
            self._rises(found, "line", self.of(name, id_), bet, self.account(name)[3])
        for name in bet.levels if self.lines is not None else ():
            most_held = Fraction(self.share(name, last=name == bet.levels[-1]))
            for k, b in enumerate(bet.amounts):
                held = sum((abs(one.amounts[k]) for one in self.of(name, id_)), abs(b))
                self._passes(found, "share", held, most_held)
        if self.stop and any(bet.amounts):
            self._stops(found, id_, bet)
        return found

    def _stops(self, found: dict[str, bool], id_: Any, bet: Bet) -> None:
        """Selling stops if a bet can win too little, unless it lowers what the forecast and she can win.

        Without a name nobody knows what she holds, so her bet lowers nothing of hers.

        Half of what it can win at the base's own price is enough; if a thaw lowers the common price no more,
        half of what it can win at that.
        """
        made, near = self.open[id_], NEAR * Fraction(self.max_stake)
        base = [self._base(mu, c) for mu, c in zip(made.said, made.widths, strict=True)]
        at_base = Bet(bet.amounts, (), [mu for mu, _ in base], [c for _, c in base])
        at_common = Bet(bet.amounts, (), made.mus, made.cs)
        most, enough, common = (
            max(self.pay(one, y) for y in self.outcomes()) for one in (bet, at_base, at_common)
        )
        if most > near and most >= enough / 2 + near:
            return
        hers = [self.of(bet.levels[-1], id_)] if bet.levels and self.lines is not None else [[]]
        falls = [self.worst(bets) - self.worst([*bets, bet]) for bets in (made.bets, *hers)]
        if min(falls) > near:
            return
        certain = most < -near or most < min(enough, common) / 2 - near
        if certain and min(falls) < -near:
            found["stop"] = True
        else:
            found.setdefault("stop", False)

    def _base(self, mu: float, width: float) -> tuple[Fraction, Fraction]:
        """The base's own price: its ĉ, and the spread."""
        c = width + self.spread
        if self.one_sided:
            return Fraction(min(max(mu + c, 0.0), 1.0)), Fraction(0)
        if self.sound:
            c = min(max(c, 0.0), 0.5)
            mu = min(max(mu, c), 1.0 - c)
        return Fraction(mu), Fraction(c)

    def _rises(self, found: dict[str, bool], limit: str, bets: list[Bet], bet: Bet, left: Fraction) -> None:
        """A bet that lowers the risk is always taken; `left` is what is free beside that of these bets."""
        now, then = self.worst(bets), self.worst([*bets, bet])
        near = NEAR * Fraction(self.max_stake)
        if then > now + near:
            self._passes(found, limit, then, left + now)
        elif then > now - near and then > left + now - near:
            found.setdefault(limit, False)

    def _passes(self, found: dict[str, bool], limit: str, asked: Fraction, most: Fraction) -> None:
        near = NEAR * max(Fraction(1), Fraction(self.max_stake))
        if asked > most + near:
            found[limit] = True
        elif asked >= most - near:
            found.setdefault(limit, False)

    # --- what happens -------------------------------------------------------------------------------------

    def settle(self, id_: Any, y: Any) -> list[Fraction]:
        """Pay every bet on a forecast."""
        made = self.open.pop(id_)
        payments = [self.pay(bet, y) for bet in made.bets]
        self.lost += sum(payments, Fraction(0))
        turnover = sum(map(self.size, made.bets), Fraction(0))
        self.turnover += turnover
        self.idle = 0 if turnover else self.idle + 1
        self.rounds, self.bets = self.rounds + 1, self.bets + len(made.bets)
        self.negative += made.cs[0] < 0
        for name in self.names if self.lines is not None else ():
            self.thaw(name)
        for name in {name for bet in made.bets for name in bet.levels} if self.lines is not None else ():
            won = sum(
                (paid for bet, paid in zip(made.bets, payments, strict=True) if name in bet.levels),
                Fraction(0),
            )
            taken = self.taken.get(name, Fraction(0)) + won
            self.taken[name] = taken if self.lines.keep_gains else max(Fraction(0), taken)
        return payments

    def void(self, id_: Any) -> None:
        """Call a forecast off."""
        del self.open[id_]
        self.voided += 1


def median(amounts: Sequence[Fraction]) -> Fraction:
    """The middle; of an even number, the point between the middle two nearest to the mean of the ends."""
    ascending, half = sorted(amounts), len(amounts) // 2
    if len(amounts) % 2:
        return ascending[half]
    return min(max((ascending[0] + ascending[-1]) / 2, ascending[half - 1]), ascending[half])


def without_common(amounts: Sequence[Fraction]) -> list[Fraction]:
    """A stake on classes without the part that is the same on all of them."""
    common = max(Fraction(0), min(amounts)) + min(Fraction(0), max(amounts))
    return [b - common for b in amounts]
