"""The book: open a forecast, take a stake, close or void the forecast. Every change can be undone.

These are the only steps. `InsuredForecaster` calls them one at a time, a ledger in groups, and a trial calls
one and undoes it. The formulas are in `makewhole.rules`, the records that change in `records`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from makewhole import arguments, rules
from makewhole.corrections import BookCorrection, Terms
from makewhole.corrections.features import values_of
from makewhole.corrections.names import Name, read_name
from makewhole.decisions import Forecast, Quote
from makewhole.forecasters import Said
from makewhole.insured.certificates import (
    GroupBounds,
    base_bound,
    late_bound,
    shared_terms,
)
from makewhole.insured.evidence import bet
from makewhole.insured.grouping import read_groups
from makewhole.insured.journal import Journal, Journaled
from makewhole.insured.lines import ALONE, Along, Limits, LineBook, Lines, read_levels
from makewhole.insured.memories import Memories
from makewhole.insured.payments import Closing, check_conserved, pay
from makewhole.insured.prices import check_price
from makewhole.insured.records import (
    AnyLeg,
    Id,
    Leg,
    Open,
    Scope,
    SharedLeg,
    Stake,
    add,
    published,
    subtract,
    worst_loss,
)
from makewhole.insured.refusals import (
    CapitalNeeded,
    ForecastOpen,
    StakeRefused,
    find_limit,
    missing,
    part_of,
)
from makewhole.insured.staking import StakeReader, beyond_capital, check_stop
from makewhole.insured.thaw import Thaw, ThawState
from makewhole.insured.totals import exact_sum

_new = tuple.__new__


class BetBook(Journaled):
    """The settings and the records of an `InsuredForecaster`, and its four steps.

    A step that raises has changed some records already: the caller undoes the journal. If it succeeds, the
    caller clears the journal, which makes the step final.

    Parameters
    ----------
    terms
        The cap, the range of ĉ, the mode, and whether stakes are one-sided.
    corrections
        One per leg: a leg is the event itself, or one of its classes. Classes at one price are one leg.
    classes
        None for a binary event, otherwise the number of classes.
    max_exposure, capital, graded, lines, thaw, stop
        As in `InsuredForecaster`.
    """

    __slots__ = (  # a slot is read faster than an entry of a large dictionary
        "apart", "asks_own_price", "books_surcharges", "bounds", "cap", "capital", "capital_each",
        "capped", "classes", "count", "counted", "counts_room", "everyone", "graded", "grouped",
        "groups", "guarded", "journal", "leg_count", "lines", "loss_range", "max_exposure",
        "max_stake", "memories", "next_id", "one_price", "one_sided", "only_upper_side", "opens",
        "publishing", "reader", "serial", "spread", "stop", "terms", "tests_forecasts", "thaw", "thawing",
    )  # fmt: skip
    changing = ("serial", "next_id", "bounds", "capital")

    def __init__(
        self,
        terms: Terms,
        corrections: list[BookCorrection],
        *,
        classes: int | None = None,
        max_exposure: float | None = None,
        capital: float | None = None,
        graded: bool = False,
        lines: Lines | None = None,
        thaw: Thaw | None = None,
        stop: bool = False,
    ) -> None:
        first = corrections[0]
        self.classes, self.graded, self.thaw = classes, graded, thaw
        self.max_exposure, self.capital = max_exposure, capital
        self.max_stake, self.one_sided = terms.max_stake, terms.one_sided
        self.count = classes or 1  # numbers in a stake
        self.leg_count, self.one_price = len(corrections), self.count > len(corrections)
        self.terms = shared_terms(terms, self.count) if self.one_price else terms
        self.cap = self.terms.max_stake  # the cap that one correction sees
        self.grouped, self.apart = first.grouped, first.apart
        # The most each group may lose. With a thaw, which may concede more, only its correction limits it.
        self.capital_each = first.capital_each if thaw is None else None
        self.guarded = capital is not None or self.capital_each is not None
        self.publishing = rules.Publishing(terms.one_sided, terms.sound, first.integrates)
        raised = capital is not None or lines is not None or (terms.sound and not terms.one_sided)
        self.only_upper_side = raised  # losses are bounded, winnings are not
        self.asks_own_price = terms.one_sided and first.at_own_price
        self.books_surcharges = terms.sound and not first.at_own_price
        self.counts_room = capital is not None or first.line_bound(self.terms) is not None
        self.capped = max_exposure is not None
        # Selling stops if a stake can win less than half of what it could at the base's price, ĉ + spread.
        self.stop, self.spread = stop, max(first.spread, 0.0 if lines is None else lines.spread)
        self.counted = self.counts_room or self.capped
        self.tests_forecasts = classes is None and not terms.one_sided  # see `evidence`
        # No forecast can lose or win more, with corrections that stay among their targets.
        self.loss_range = self.count * terms.max_stake * (2.0 + terms.c_range[1] - terms.c_range[0])
        both = {"one_sided": terms.one_sided, "one_price": self.one_price}
        self.reader = StakeReader(terms.max_stake, classes, **both)
        # --- what changes ---
        self.journal = Journal()
        self.serial = 0  # the number of the latest forecast
        self.next_id = 0  # for a forecast that is given no id
        self.opens: dict[Id, Any] = {}  # `Open`, or the `Batch` that a forecast is in
        self.everyone = Scope(len(corrections))
        self.groups: dict[Name, Scope] = {}
        self.lines = None if lines is None else LineBook(lines, terms, self.journal)
        self.thawing = ThawState()
        self.memories = Memories(corrections, self.cap, self.journal, thaw)
        self.bounds = GroupBounds()  # of all groups together, where each has its own correction
        if self.apart:
            for name in first.all_groups or ():
                self.bounds = self.bounds.begun(base_bound(self.answering(name), self.terms))

    def share_journal(self, journal: Journal) -> None:
        """Use a ledger's journal, so that the book is undone together with the ledger's own state."""
        self.journal = self.memories.journal = journal
        if self.lines is not None:
            self.lines.journal = journal

    @property
    def corrections(self) -> list[BookCorrection]:
        """The corrections, one per leg, as they were at the start."""
        return self.memories.corrections

    # --- open ---------------------------------------------------------------------------------------------

    def open(self, x: Any, said: Said, groups: tuple[Name, ...], id_: Any) -> Open:
        """Publish a forecast for features `x`; `said` is what the base predicts for them."""
        journal, opens, following = self.journal, self.opens, self.next_id
        if id_ is None:
            id_ = following
            while id_ in opens:  # a caller has chosen it
                id_ += 1
            following = id_ + 1
        else:
            if type(id_) is not str and (type(id_) is not int or id_ >= 2**63 or id_ < 0):
                id_ = read_name("id", id_)
            if id_ in opens:
                raise ForecastOpen(f"a forecast with the id {id_!r} is open: settle or void it first")
        legs = self.legs(said, groups)
        journal.append((self, (self.serial, self.next_id, self.bounds, self.capital)))
        self.serial = number = self.serial + 1
        self.next_id = following
        entry = Open(id_, number, x, legs, groups, self.one_sided)
        self.everyone.enter(journal, legs, self.counts_room)
        for name in groups:
            self._enter_group(name, entry)
        journal.append((opens, (id_, None)))
        opens[id_] = entry
        return entry

    def legs(self, said: Said, groups: tuple[Name, ...]) -> list[AnyLeg]:
        """Ask the corrections, and combine their proposals with what the base said.

        Asking may change a correction: to only look, undo the journal afterwards.
        """
        mu_hats, widths = said
        if self.one_price:  # if ĉ differs between classes, the largest counts
            proposal, inner, width = self.memories.ask(0, max(widths), groups)
            c, origin = width + proposal.lam, width
            room = rules.shared_room(c, self.cap) if self.counts_room else 0.0
            return [SharedLeg(mu_hats, c, origin, proposal, max(widths), inner, room)]
        least, how = self._least_price(groups) if self.guarded else 0.0, self.publishing
        legs: list[AnyLeg] = []
        for k, mu_hat in enumerate(mu_hats):
            proposal, inner, width = self.memories.ask(k, widths[k], groups)
            mu, c, origin = rules.publish(mu_hat, width, proposal[0], how, least)
            if self.asks_own_price:  # the target is measured from the μ that the correction asked for
                origin -= mu - rules.publish(mu_hat, width, proposal[0], how, 0.0)[0]
            if c < 0.0 and self.classes is not None:  # otherwise the same stake on all classes would win
                c = 0.0
            room = rules.room(mu, c, self.one_sided, self.max_stake) if self.counts_room else 0.0
            legs.append(Leg(mu, c, origin, proposal, mu_hat, widths[k], inner, room))
        return legs

    def _least_price(self, groups: tuple[Name, ...]) -> float:
        """The least c (one-sided: ask) that the capital, of all or of each group, can afford."""
        least, scope, legs = 0.0, self.everyone, self.leg_count
        if self.capital is not None:
            totals = scope.totals
            left = rules.left_of(self.capital, totals.total + totals.low, scope.at_risk)
            least = rules.least_price(left, legs, self.max_stake, self.one_sided)
        if self.capital_each is not None:
            for name in groups:  # while no bet is open, a group's own correction keeps to its capital
                group = self.groups.get(name)
                if group is not None and group.at_risk:
                    left = rules.left_of(self.capital_each, group.totals.loss, group.at_risk)
                    least = max(least, rules.least_price(left, legs, self.max_stake, self.one_sided))
        return least

    def _enter_group(self, name: Name, entry: Open) -> None:
        """Add a new forecast to a group's sums, and its effect to the bound of all groups together."""
        scope = self.groups.get(name)
        new = scope is None
        if scope is None:
            scope = Scope(self.leg_count)
            self.journal.keep_item(self.groups, name)
            self.groups[name] = scope
        answering = self.answering(name) if self.apart and self.counted else None
        before = None if answering is None else late_bound(answering, self.terms, scope)
        scope.enter(self.journal, entry.legs, self.counts_room)
        if answering is not None:
            if new and self.corrections[0].all_groups is None:
                self.bounds = self.bounds.begun(base_bound(answering, self.terms))
            self.bounds = self.bounds.later(before, late_bound(answering, self.terms, scope))

    # --- take ---------------------------------------------------------------------------------------------

    def take(self, entry: Open, stake: Any, by: Any, price: Any = None, along: Along = ALONE) -> int:
        """Take a stake if limits leave room; returns its place in the payments. `along` shares its cap."""
        mark = len(self.journal)
        try:
            return self._take(entry, stake, by, price, along)
        except StakeRefused as refused:
            if self.classes is None:  # with classes, the limit is that of the cap that refused

                def trial(size: float) -> None:
                    self.journal.undo(mark)
                    self._take(entry, math.copysign(size, stake), by, None, along)

                find_limit(refused, trial)
            raise

    def _take(self, entry: Open, stake: Any, by: Any, price: Any, along: Along) -> int:
        journal, lines, legs, stakes = self.journal, self.lines, entry.legs, entry.stakes
        levels = () if by is None else read_levels(by)
        amounts = self.reader.read(entry, stake)
        name, own = levels[-1] if levels else None, -math.inf
        surcharges: tuple[float, ...] = ()
        limits: Limits = [] if lines is None else lines.limits(levels)
        if lines is None:
            levels = ()
        elif levels:
            own = lines.price(limits, self.everyone.totals.rounds, entry.least_price)
            if own > (legs[0].mu if self.one_sided else legs[0].c) or len(legs) > 1:
                surcharges = lines.surcharges(legs, amounts, own)
        if price is not None:
            check_price(price, self.own_forecast(entry, levels), amounts, by)
        parts = (amounts,) if self.one_price else amounts
        for k, leg in enumerate(legs):
            leg.add(journal, parts[k], surcharges[k] if surcharges else 0.0)
        before = entry.at_risk
        journal.append((entry, (before, entry.exposed, entry.positions)))
        entry.at_risk = then = leg.worst_loss() if len(legs) == 1 else worst_loss(legs)
        if self.capped:
            self._expose(entry, amounts)
        everyone = self.everyone
        totals, capital = everyone.totals, self.capital
        if capital is not None:
            lost = totals.total + totals.low
            if rules.too_much(capital, lost, everyone.at_risk, before, then):
                raise beyond_capital(capital, everyone, entry, before, amounts)
        if self.capital_each is not None:
            self._check_groups(self.capital_each, entry, before, amounts)
        placed, lowered = _new(Stake, (parts, name, levels, surcharges)), False
        if lines is not None and (levels or stakes):
            if levels:
                lines.check_shares(entry, along, amounts, limits)
            lowered = lines.enter(entry, placed, limits, totals.rounds) and then < before
        if self.stop and not lowered:
            high = [leg.proposal[0] > least for leg, least in zip(legs, self.memories.least, strict=True)]
            thawing = any(high) and self._to_concede() > 0.0
            check_stop(legs, amounts, surcharges, self.publishing, self.spread, thawing)
        everyone.risk(journal, then - before)
        for group in entry.groups:
            self.groups[group].risk(journal, then - before)
        place = len(stakes)
        journal.append((stakes, place))
        stakes.append(placed)
        return place

    def _check_groups(self, capital: float, entry: Open, before: float, amounts: tuple[float, ...]) -> None:
        """Refuse a stake that could make a group lose more than its capital."""
        for name, scope in [(name, self.groups[name]) for name in entry.groups]:
            if rules.too_much(capital, scope.totals.loss, scope.at_risk, before, entry.at_risk):
                raise beyond_capital(capital, scope, entry, before, amounts, f" of {name!r}")

    def _expose(self, entry: Open, amounts: tuple[float, ...]) -> None:
        """Count what each leg can lose by itself; refuse more than `max_exposure` or the certificate allows.

        A stake on a fresh forecast never reaches a leg's bound: once that is used up, c leaves nothing to
        win. But a stake may come long after its forecast, at a price that is no longer right.
        """
        most, zero = self.max_exposure or 0.0, (0.0,) * len(entry.legs)
        now, then = entry.exposed or zero, tuple([leg.worst_loss() for leg in entry.legs])
        others = sum(self.everyone.legs.staked) - sum(now)
        if others + sum(then) > most and sum(then) > sum(now):
            message = f"with this stake open bets could lose {others + sum(then):g}; max_exposure is {most:g}"
            raise StakeRefused(message, part_of(amounts, sum(now), sum(then), most - others))
        for name, scope in self._scopes(entry.groups):
            sums = scope.legs
            for k, bound in enumerate(self._leg_bounds(name)):
                slack = 2e-15 * (bound + self.cap)  # for rounding
                if rules.too_much(bound + slack, sums.lost[k], sums.staked[k], now[k], then[k]):
                    left = rules.left_of(bound + slack, sums.lost[k], sums.staked[k] - now[k])
                    message = f"this stake could lose {then[k]:g}; the certificate leaves {max(0.0, left):g}"
                    raise StakeRefused(message, part_of(amounts, now[k], then[k], left))
        entry.exposed = then
        for _, scope in self._scopes(entry.groups):
            self.journal.keep(scope.legs)
            scope.legs.staked = add(scope.legs.staked, subtract(then, now))

    def _leg_bounds(self, group: Name | None) -> list[float]:
        """The most each leg may lose, over all forecasts or a group's; empty if there is no bound."""
        if self.apart and group is None:
            return []
        bounds = [correction.line_bound(self.terms) for correction in self.answering(group)]
        more = self.max_exposure or 0.0
        # What a thaw has conceded raises a leg's bound; with several legs, it is not known which one's.
        if self.thaw is not None and self.leg_count == 1:
            more += self.thawing.conceded
        return [] if None in bounds else [bound + more for bound in bounds if bound is not None]

    # --- close --------------------------------------------------------------------------------------------

    def close(self, entry: Open, outcome: Any) -> Closing:
        """Settle a forecast: pay every stake, let the corrections learn, and remove the forecast."""
        y, journal = self.read_outcome(outcome), self.journal
        legs, stakes, groups = entry.legs, entry.stakes, entry.groups
        happened = (y,) if len(legs) == 1 else [float(y == k) for k in range(len(legs))]
        payments, losses = pay(legs, stakes, happened)
        if len(legs) == 1:
            leg = legs[0]
            (loss, rest), turnover, c = losses[0], leg.gross, leg.c
        else:
            (loss, rest), turnover = exact_sum(payments), entry.gross
            c = sum([leg.c for leg in legs]) / len(legs)  # none of them is below 0
        totals, money = self.everyone.totals, None
        if self.tests_forecasts and totals.money is not None:
            money = bet(totals.money, legs[0].mu, c, y)
        totals.settle(journal, loss, rest, turnover, len(stakes), c, self.loss_range, money)
        if groups:
            self._settle_groups(entry, y, (loss, rest), turnover, c)
        if self.thaw is not None and self.thaw.share:
            journal.keep(self.thawing)
            self.thawing.profit = max(self.thawing.profit, -totals.loss)
        for k, leg in enumerate(legs):
            self._learn(k, leg, happened[k], losses[k], entry)
        if self.capped:
            self._book_losses(groups, losses)
        if self.lines is not None and stakes:
            self.lines.leave(entry, payments, totals.rounds)
        self._leave(entry)
        return _new(Closing, (entry, y, payments))

    def _learn(self, k: int, leg: Any, y: Any, lost: tuple[float, float], entry: Open) -> None:
        """Let a leg's correction learn from what was lost, and from a thaw.

        Raises a `ConservationError` unless the payments add up to the loss.
        """
        loss, rest = lost
        expected, target, weight = leg.balance(y, self.cap)
        surcharge = leg.surcharge
        if surcharge:
            booked = self.books_surcharges
            expected, target = rules.with_surcharge(expected, target, surcharge, leg.gross, booked)
        if loss != expected:
            check_conserved(loss, expected, entry.legs)
        if surcharge:
            loss = rules.learned_loss(loss, surcharge, self.terms.sound)
        left = 0.0
        if leg.proposal[0] > self.memories.least[k]:
            left = self._to_concede()
        conceded = self.memories.learn(k, leg, entry.groups, target, weight, loss, rest, left)
        if conceded:
            self.journal.keep(self.thawing)
            self.thawing.conceded += conceded

    def _settle_groups(
        self, entry: Open, y: Any, lost: tuple[float, float], turnover: float, c: float
    ) -> None:
        """Add a settled forecast to the totals of its groups; a feature counts with its value."""
        values = values_of(entry.groups)
        for name in entry.groups:
            totals, value, money = self.groups[name].totals, values.get(name, 1.0), None
            if self.tests_forecasts and value == 1.0 and totals.money is not None:
                money = bet(totals.money, entry.legs[0].mu, c, y)
            loss, rest, staked = value * lost[0], value * lost[1], abs(value) * turnover
            totals.settle(self.journal, loss, rest, staked, len(entry.stakes), c, self.loss_range, money)

    def _book_losses(self, groups: tuple[Name, ...], losses: list[tuple[float, float]]) -> None:
        """Add what each leg has lost, where exposure is capped."""
        for _, scope in self._scopes(groups):
            legs = scope.legs
            self.journal.keep(legs)
            sums = []
            for total, low, (loss, rest) in zip(legs.lost, legs.low, losses, strict=True):
                sums.append(rules.add_exactly(*rules.add_exactly(total, low, loss), rest))
            legs.lost = tuple([total for total, _ in sums])
            legs.low = tuple([low for _, low in sums])

    def void(self, entry: Open) -> None:
        """Remove a forecast: no money changes hands, and nothing is learned."""
        if self.lines is not None and entry.stakes:
            self.lines.leave(entry, None, self.everyone.totals.rounds)
        for _, scope in self._scopes(entry.groups):
            self.journal.keep(scope.totals)
            scope.totals.voided += 1
        self._leave(entry)

    def _leave(self, entry: Open) -> None:
        """Remove a forecast from the sums over open forecasts."""
        journal = self.journal
        self.everyone.leave(journal, entry.legs, entry.at_risk, self.counts_room)
        for name in entry.groups:
            self.groups[name].leave(journal, entry.legs, entry.at_risk, self.counts_room)
        if self.capped:
            zero = (0.0,) * self.leg_count  # leave no rounding error behind
            for _, scope in self._scopes(entry.groups):
                journal.keep(scope.legs)
                staked = subtract(scope.legs.staked, entry.exposed or zero)
                scope.legs.staked = staked if scope.open else zero
        journal.append((self.opens, (entry.id, entry)))
        del self.opens[entry.id]

    # --- a thaw, a day, another capital -------------------------------------------------------------------

    def _to_concede(self) -> float:
        """What the thaw may still concede."""
        thaw, state = self.thaw, self.thawing
        if thaw is None:
            return 0.0
        left = thaw.allowed(self.everyone.totals.rounds, state.profit) - state.conceded
        return left if thaw.per_day is None else min(left, thaw.per_day - (state.conceded - state.before))

    def frozen(self) -> bool:
        """Whether settling a forecast without stakes would change anything, because of a thaw."""
        return self.thaw is not None and self.memories.highest() > self.thaw.above

    def begin_day(self, day: Any) -> None:
        """Count what a thaw concedes from now on as this day's; repeating the current day changes nothing."""
        if self.thaw is None or self.thaw.per_day is None:
            raise ValueError("only a thaw with per_day needs to know the day: thaw=Thaw(..., per_day=...)")
        number, state = arguments.whole("day", day, least=0), self.thawing
        if state.day is not None and number < state.day:
            raise ValueError(f"day must not be before the last one, {state.day}; got {number}")
        if state.day is None or number > state.day:
            self.journal.keep(state)
            state.day, state.before = number, state.conceded

    @property
    def committed(self) -> float:
        """The loss so far plus what open bets can lose."""
        return self.everyone.totals.loss + self.everyone.at_risk

    def least_capital(self) -> float:
        """The smallest capital allowed: it must cover what is committed, and what a thaw may concede."""
        if self.capital is None:
            raise ValueError("capital cannot be changed where there was none: make a new forecaster with one")
        least = max(self.committed, 1e-6 * self.max_stake)
        for correction in self.corrections:
            if correction.capital is not None:
                needed, legs = 1e-6 * self.max_stake, self.everyone.legs
                if self.capped:  # its capital and `max_exposure` bound each leg by itself
                    needed = max(needed, self.leg_count * max(add(legs.lost, legs.staked)))
                least = max(least, self.capital - correction.capital + needed)
        return least

    def change_capital(self, capital: float) -> None:
        """Set a new capital, after a deposit or a withdrawal.

        capital − loss − (what open bets can lose) is never below 0: stakes and settlements keep it so, and a
        capital that would not is refused. So the loss is at all times at most the capital at that time.
        What a thaw may concede does not change: the rest goes to the correction, if that has a capital.
        """
        least = self.least_capital()
        if capital < least:
            raise CapitalNeeded(f"capital must be at least {least:g}; got {capital:g}", least)
        more = float(capital) - (self.capital or 0.0)
        self.memories.change_capital(more, self.terms)
        if more < 0.0 and self.corrections[0].capital is not None:
            self.everyone.count_open_as_late(self.journal, self.memories.overdrawn())
        self.journal.keep(self)
        self.capital = float(capital)

    # --- reading ------------------------------------------------------------------------------------------

    def find(self, forecast: Any) -> Open:
        """The open forecast for what the caller gave: the forecast itself, or its id.

        To change it, use `find_to_change`: the forecast may be in a batch (see `many`).
        """
        if isinstance(forecast, Quote):  # it stands for the forecast that it is a price of
            forecast = forecast.published
        given = forecast.id if isinstance(forecast, Forecast) else forecast
        entry = self.opens.get(given) if type(given) is int or type(given) is str else None
        if entry is not None:
            if type(entry) is not Open:
                entry = entry.entry(given)
            if given is forecast or entry.forecast is forecast or entry.forecast == forecast:
                return entry
        return self._missing(forecast, given, entry)

    def find_to_change(self, forecast: Any) -> Open:
        """The same, to change it: a forecast is taken out of its batch first."""
        kind = type(forecast)
        if kind is Forecast:  # the usual case: the forecast as published
            entry = self.opens.get(forecast.id)
            if type(entry) is Open and entry.made is forecast:
                return entry
        elif kind is str or kind is int:
            entry = self.opens.get(forecast)
            if type(entry) is Open:
                return entry
        entry = self.find(forecast)
        if self.opens[entry.id] is not entry:
            self.journal.keep_item(self.opens, entry.id)
            self.opens[entry.id] = entry
        return entry

    def _missing(self, forecast: Any, given: Any, entry: Open | None) -> Open:
        """Raise the error for a forecast that is not found; a NumPy integer is looked up as an int."""
        if isinstance(given, np.integer):
            return self.find(int(given))
        raise missing(forecast, given, entry is None, self.next_id)

    def entries(self) -> list[Open]:
        """The open forecasts, the oldest first."""
        made = [item if type(item) is Open else item.entry(id_) for id_, item in self.opens.items()]
        return sorted(made, key=lambda entry: entry.number)

    def own_prices(self, entry: Open, levels: tuple[Name, ...]) -> list[tuple[Any, float]]:
        """μ and c of each leg for a customer of these levels."""
        if self.lines is None or not levels:
            return [(leg.mu, leg.c) for leg in entry.legs]
        price = self.lines.price(self.lines.limits(levels), self.everyone.totals.rounds, entry.least_price)
        return [self.lines.own(leg, price) for leg in entry.legs]

    def own_forecast(self, entry: Open, levels: tuple[Name, ...]) -> Forecast:
        """An open forecast at the price of a customer of these levels."""
        if self.lines is None or not levels:
            return entry.forecast
        own = self.own_prices(entry, levels)
        if own == [(leg.mu, leg.c) for leg in entry.legs]:
            return entry.forecast
        legs = [leg.unstaked() for leg in entry.legs]
        for leg, (mu, c) in zip(legs, own, strict=True):
            leg.mu, leg.c = mu, c
        return published(legs, entry.id, self.one_sided)

    def answering(self, group: Name | None) -> list[BookCorrection]:
        """The corrections, one per leg, that are responsible for all forecasts or for a group's."""
        if group is None:
            return self.corrections
        return [correction.of_group(group) for correction in self.corrections]

    def scope(self, group: Name | None) -> Scope:
        """The sums over all forecasts, or over those of a group; a KeyError if the group has none."""
        return self.everyone if group is None else self.groups[group]

    def _scopes(self, groups: tuple[Name, ...]) -> list[tuple[Name | None, Scope]]:
        """Everyone's sums and those of these groups."""
        if not groups:
            return [(None, self.everyone)]
        return [(None, self.everyone), *[(name, self.groups[name]) for name in groups]]

    # --- arguments ----------------------------------------------------------------------------------------

    def read_groups(self, groups: Any) -> tuple[Name, ...]:
        """The groups of a forecast, validated."""
        return read_groups(self.corrections[0], groups, nonnegative=self.only_upper_side)

    def read_outcome(self, outcome: Any) -> Any:
        """An outcome as a number: 0 or 1, the index of a class, or if graded a number in [0, 1]."""
        if type(outcome) is int and 0 <= outcome < (self.classes or 2):
            return outcome
        return arguments.outcome(outcome, self.classes, graded=self.graded)
