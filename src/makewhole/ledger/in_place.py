"""The commonest steps of a book's forecaster, in place: the bits of `PlainBookkeeping` in half the time.

A forecaster computes what a step changes and then changes it all at once, so that a call that fails has
changed nothing. A ledger that fails in the middle forgets the whole state and reads it again: it need not pay
for that. What is rare here, and all that is refused, is left to the forecaster. A test holds the two to the
same events, the same states and the same words.
"""

from __future__ import annotations

from typing import Any

from makewhole.corrections._kernels import add_exactly, publish
from makewhole.decisions import binary_forecast
from makewhole.insured._kernels import least_price, own_price, surcharge
from makewhole.insured.book import BLOCK, Exposure, Line, OpenForecast, Stake
from makewhole.insured.bookkeeping import FEW
from makewhole.insured.changes import EXPOSURE, MEMORY, STANDING, TOTALS, Get
from makewhole.insured.evidence import bet
from makewhole.insured.forecaster import InsuredForecaster
from makewhole.insured.lines import NEW, Account, Position
from makewhole.insured.plain import PlainBookkeeping
from makewhole.insured.results import check_conserved
from makewhole.insured.totals import Standing, exact_sum

_new = tuple.__new__


class _Open:
    """An open forecast, as `OpenForecast` has it; `fresh` if the forecaster has not seen it."""

    __slots__ = ("bets", "extra", "fresh", "gross", "line", "net", "number", "risk", "room", "said", "stakes")

    def __init__(self, line: Line, number: int, said: float, room: float | None) -> None:
        self.line, self.number, self.said, self.room, self.fresh = line, number, said, room, True
        self.net = self.gross = self.risk = 0.0
        self.extra, self.bets = 0.0, 0
        self.stakes: list[Stake] = []


class InPlace:
    """The state of a forecaster, taken out of it, changed step by step, and put back at the end.

    Until then nobody may use the forecaster. An open forecast, a customer's account and her position are
    taken when they are first needed; None stands for one that has gone. As in the forecaster, there is no
    position where a forecast has only one bet.
    """

    def __init__(self, f: InsuredForecaster, books: PlainBookkeeping) -> None:
        self.f, self.books, self.lines, self.one = f, books, books.lines, books.one
        self.cap, self.one_sided, self.capital = books.max_stake, books.one_sided, books.capital
        low, high = f.c_range
        self.width = min(max(0.0, low), high)
        self.opens: dict[int, _Open | None] = {}
        self.blocks: dict[tuple[int, int], tuple[Stake, ...]] = {}
        self.accounts: dict[Any, list[Any]] = {}
        self.positions: dict[tuple[int, Any], list[float] | None] = {}
        get: Get = f._state.get  # noqa: SLF001 - it stands in for the forecaster's own steps
        self.count, self.at_risk, self.following, _ = get(STANDING)
        self.totals, self.memory, self.kept = get(TOTALS), get(MEMORY), get
        self.late_open, self.potential, self.late = 0, 0.0, 0.0
        if books.counts_room:
            self.late_open, _, _, (self.potential,), (self.late,), _ = get(EXPOSURE)

    def put_back(self) -> None:
        """Give the forecaster everything that has changed."""
        books = self.books
        patch: dict[Any, Any] = {TOTALS: self.totals, MEMORY: self.memory}
        patch[STANDING] = Standing(self.count, self.at_risk, self.following, books.serial)
        if books.counts_room:
            before: Exposure = self.kept(EXPOSURE)
            patch[EXPOSURE] = before._replace(
                late_open=self.late_open, potential=(self.potential,), late_potential=(self.late,)
            )
        for id_, entry in self.opens.items():
            patch["open", id_] = None if entry is None else self._as_kept(id_, entry)
        for (id_, number), stakes in self.blocks.items():
            patch["stakes", id_, number] = stakes
        for name, account in self.accounts.items():
            patch["line", name] = Account(*account)
        for (id_, name), held in self.positions.items():
            entry = self.opens[id_]
            if held is None or entry is None:
                patch["position", id_, name] = None
            elif entry.bets > 1:
                patch["position", id_, name] = Position((held[0],), (held[1],), *held[2:])
        self.f._commit(patch)  # noqa: SLF001 - all at once, as the forecaster itself

    def _as_kept(self, id_: int, entry: _Open) -> OpenForecast:
        line = entry.line
        forecast = binary_forecast(line[0], line[1], id_, self.one_sided)
        room = None if entry.room is None else (entry.room,)
        extra = (entry.extra,) if entry.extra else ()
        known = (forecast, entry.number, None, (entry.said,), (line,), (), (entry.net,), (entry.gross,))
        return OpenForecast(*known, entry.bets, room, None, entry.risk, tuple(entry.stakes), extra)

    def _find(self, id_: int) -> _Open | None:
        """An open forecast; None if there is none."""
        if id_ in self.opens:
            return self.opens[id_]
        kept = self.kept(("open", id_))
        if type(kept) is not OpenForecast:
            return None
        entry = _Open(kept.lines[0], kept.number, kept.said[0], None if kept.room is None else kept.room[0])
        entry.net, entry.gross, entry.risk = kept.nets[0], kept.grosses[0], kept.at_risk
        entry.extra, entry.bets = kept.surcharges[0] if kept.surcharges else 0.0, kept.bets
        entry.stakes, entry.fresh = list(kept.stakes), False
        self.opens[id_] = entry
        return entry

    def _position(self, place: tuple[int, Any]) -> list[float] | None:
        if place in self.positions:
            return self.positions[place]
        kept = self.kept(("position", *place))
        return kept and [kept.nets[0], kept.grosses[0], kept.surcharge, kept.at_risk]

    def open(self, id_: int, mu: float) -> tuple[float, float]:
        """Publish a forecast under a new id; returns μ and c."""
        books, count = self.books, self.count + 1
        books.serial += 1
        proposal, self.memory = self.one.proposed(self.memory)
        width = self.width
        said, c, origin, least = mu, width + proposal[0], width, 0.0
        if not books.publishes_as_is:
            if self.capital is not None:
                left = self.capital - self.totals.loss - self.at_risk
                if left < 2.0 * self.cap:  # above that the least price is below 0
                    least = least_price(left, 1, self.cap, self.one_sided)
            if self.one_sided or not (0.0 < c < 0.5 and least <= c <= mu <= 1.0 - c):
                mu, c, origin = publish(mu, width, proposal[0], books.publishing, least)
        room = None
        if books.counts_room:
            room = (1.0 - mu if self.one_sided else max(0.0, 1.0 - mu - c, mu - c)) * self.cap
            self.potential += room
            if count > 1:
                self.late, self.late_open = max(self.late, self.potential), max(self.late_open, count)
        line = _new(Line, (mu, c, origin, proposal, width, None))
        self.opens[id_] = _Open(line, books.serial, said, room)
        self.count = count
        return mu, c

    def price(self, id_: int, by: Any) -> tuple[float, float, float] | None:
        """μ and c for a customer, and the least that she is asked; None if the forecaster should say."""
        entry = self._find(id_)
        if entry is None:
            return None
        mu, c, _, _, _, _ = entry.line
        if self.lines is None:
            return mu, c, 0.0
        account: Any = self.accounts.get(by) or self.kept(("line", by)) or NEW
        own = self.lines.asked(by, account)
        if own > (mu if self.one_sided else c):
            mu, c = own_price(mu, c, entry.said, own, self.one_sided)
        return mu, c, own

    def stake(self, id_: int, b: float, by: Any, own: float) -> bool:
        """Take a stake at the price that was just said; False if the forecaster should decide."""
        entry, lines = self.opens[id_], self.lines
        if entry is None or entry.bets >= FEW:
            return False
        (mu, c, _, _, _, _), size = entry.line, abs(b)
        gross = entry.gross + size
        if gross > (self.books.room_left if entry.bets else self.cap) or (self.one_sided and b < 0.0):
            return False
        more = 0.0
        if lines is not None and own > (mu if self.one_sided else c):
            more = surcharge(b, mu, c, *own_price(mu, c, entry.said, own, self.one_sided))
        net, extra = entry.net + b, entry.extra + more
        worst, risk = _worst(mu, c, net, gross, extra), entry.risk
        capital = self.capital
        if capital is not None and risk < worst > capital - self.totals.loss - (self.at_risk - risk):
            return False
        if lines is not None and not self._enter(id_, entry, b, more, by, worst):
            return False
        dearer, levels = (more,) if more else (), () if lines is None else (by,)
        if len(entry.stakes) == BLOCK:
            self.blocks[id_, entry.bets // BLOCK - 1] = tuple(entry.stakes)
            entry.stakes = []
        entry.stakes.append(_new(Stake, ((b,), by, levels, dearer)))
        self.books.serial += 1
        self.at_risk += worst - risk
        entry.net, entry.gross, entry.extra, entry.risk = net, gross, extra, worst
        entry.bets += 1
        return True

    def _enter(self, id_: int, entry: _Open, b: float, more: float, name: Any, worst: float) -> bool:
        """Count a stake in a customer's line; False if that leaves too little.

        With it all bets on the forecast can lose `worst`.
        """
        total, low, at_risk, count = self.accounts.get(name) or self.kept(("line", name)) or NEW
        now, then, held, lines = 0.0, worst, None, self.lines
        if entry.bets:
            if entry.bets == 1:
                for level in entry.stakes[0].levels:  # the bet that there was is the position of its levels
                    self.positions[id_, level] = [entry.net, entry.gross, entry.extra, entry.risk]
            held = self._position((id_, name))
            net, gross, dearer, now = held or (0.0, 0.0, 0.0, 0.0)
            net, gross, dearer = net + b, gross + abs(b), dearer + more
            then = _worst(entry.line[0], entry.line[1], net, gross, dearer)
        after = at_risk + (then - now)
        if then > now and total + low + after > lines.own_lines.get(name, lines.each):  # type: ignore[union-attr]  # it is called where there are lines
            return False
        self.accounts[name] = [total, low, after, count if held else count + 1]
        if entry.bets:
            self.positions[id_, name] = [net, gross, dearer, then]
        return True

    def settle(self, id_: int, y: int) -> bool:
        """Settle a forecast; False if the forecaster should."""
        entry, books, totals = self._find(id_), self.books, self.totals
        if entry is None or entry.bets > BLOCK:
            return False
        (mu, c, origin, proposal, _, _), net, gross = entry.line, entry.net, entry.gross
        error = y - mu
        paid = []
        for (b,), _, _, dearer in entry.stakes:
            one = b * error - abs(b) * c
            paid.append(0.0 + (one - dearer[0] if dearer else one))  # 0.0: never -0.0
        loss, rest, memory = 0.0, 0.0, self.memory
        if gross:
            expected, target = net * error - gross * c, net / gross * error - origin
            if entry.extra:
                expected, target = expected - entry.extra, target - entry.extra / gross
            loss, rest = (paid[0], 0.0) if len(paid) == 1 else exact_sum(paid)
            if loss != expected:
                check_conserved(loss, expected, gross * (1.0 + abs(c)))
            weight = gross / books.cap
            if weight:
                memory = self.one.learned(memory, proposal, target, weight, loss, rest)
        thaw = books.thaw
        if thaw is not None and (thaw.share or (gross < books.hardly and self._frozen(memory, thaw.above))):
            return False
        self.memory = memory
        money = None if self.one_sided or totals.money is None else bet(totals.money, mu, c, y)
        self.totals = totals.settled(loss, rest, gross, len(paid), c, books.loss_range, money)
        self._leave(id_, entry, paid)
        return True

    def _frozen(self, memory: Any, above: float) -> bool:
        """Whether a thaw would lower λ."""
        return bool(self.one.proposed(memory)[0][0] > max(above, self.one.spread))

    def _leave(self, id_: int, entry: _Open, paid: list[float]) -> None:
        """Take a settled forecast out of the book, and its stakes out of the customers' lines."""
        books, count = self.books, self.count - 1
        books.serial += 1
        self.count = count
        self.at_risk = max(0.0, self.at_risk - entry.risk) if count else 0.0  # no rounding may be left over
        if entry.room is not None:
            self.potential = self.potential - entry.room if count else 0.0
        if entry.fresh:
            del self.opens[id_]
        else:
            self.opens[id_] = None
        if self.lines is None:
            return
        if len(paid) == 1:
            for name in entry.stakes[0].levels:
                self._close(name, entry.risk, paid[0], 0.0)
            return
        amounts: dict[Any, list[float]] = {}
        for amount, (_, _, levels, _) in zip(paid, entry.stakes, strict=True):
            for name in levels:
                amounts.setdefault(name, []).append(amount)
        for name, several in amounts.items():
            held: Any = self._position((id_, name))
            self._close(name, held[3], *exact_sum(several))
            if entry.fresh:
                del self.positions[id_, name]
            else:
                self.positions[id_, name] = None

    def _close(self, name: Any, risk: float, amount: float, rest: float) -> None:
        """Close a position of a customer, which could take `risk` and was paid so much (and the `rest`)."""
        total, low, at_risk, count = self.accounts.get(name) or self.kept(("line", name))
        total, low = add_exactly(*add_exactly(total, low, amount), rest)
        lines: Any = self.lines
        if total < 0.0 and not lines.keep_gains:
            total = low = 0.0
        at_risk = max(0.0, at_risk - risk) if count > 1 else 0.0  # no rounding may be left over
        self.accounts[name] = [total, low, at_risk, count - 1]


def _worst(mu: float, c: float, net: float, gross: float, extra: float) -> float:
    """The most that bets can lose (`worst_loss` of one line)."""
    worst = -net * mu - gross * c - extra
    if net > 0.0:
        worst += net
    return worst if worst > 0.0 else 0.0


def in_place(f: InsuredForecaster) -> InPlace | None:
    """Take the state out of a forecaster; None if its books are not plain."""
    books = f._books  # noqa: SLF001 - which steps it takes is its own affair otherwise
    return InPlace(f, books) if isinstance(books, PlainBookkeeping) and f.base is None else None
