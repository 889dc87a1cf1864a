"""What each call of a forecaster changes, computed from its state without changing it."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from makewhole import arguments
from makewhole.corrections import BookCorrection, Certificate, Proposal, Terms
from makewhole.corrections._kernels import Rules, publish, refine
from makewhole.corrections.features import Features, read_features, values_of
from makewhole.corrections.names import Name, read_name, read_names
from makewhole.forecasters import Said
from makewhole.insured.book import (
    BLOCK,
    Exposure,
    Line,
    OpenForecast,
    Scope,
    Stake,
    check_exposure,
    no_exposure,
    published,
    room_of,
)
from makewhole.insured.certificates import (
    GroupBounds,
    base_bound,
    certify,
    certify_groups,
    guarded,
    late_bound,
    shared_terms,
    thawed,
)
from makewhole.insured.changes import (
    CONCEDED,
    DAY,
    EXPOSURE,
    GROUPS,
    STANDING,
    TOTALS,
    Get,
    Key,
    Lesson,
    LineResult,
    Patch,
    Payments,
    drafting,
    keys_of,
)
from makewhole.insured.evidence import bet
from makewhole.insured.guards import check_capital, least_c, least_c_of_groups
from makewhole.insured.lines import LineBook, Lines, check_price, read_levels
from makewhole.insured.memories import Memories, recall_over, warm
from makewhole.insured.refusals import ForecastOpen, StakeRefused, find_limit
from makewhole.insured.results import line_results
from makewhole.insured.thaw import HARDLY, Conceded, Day, Thaw
from makewhole.insured.totals import Standing, Totals, exact_sum

# The sum of fewer stakes than this is off by less than a billionth of it.
FEW = 1_000_000

_EVERYONE = (STANDING,)
_new = tuple.__new__

# The fields of a `Settlement` after its first two, as they stand there: to make one takes as long as to pay.
Closing = tuple[Any, int, Payments, float, float, tuple[Any, ...], Lesson | None]


class Bookkeeping:
    """The settings of a book, and every step as a pure function of its state.

    A step reads the state by `get` and writes what it would change into `patch`; it changes nothing itself.
    `InsuredForecaster` owns the state and makes patches true.

    Parameters
    ----------
    terms
        The cap, the range of ĉ, the mode, and whether stakes are one-sided.
    rules
        The corrections, one per line: a line is the event itself, or one of its classes. (Classes at one
        price share one: `OnePriceBookkeeping`.)
    classes
        None for a binary event, else how many classes there are.
    max_exposure, capital
        As in `InsuredForecaster`.
    teaches
        Whether there is a base that learns from outcomes.
    graded
        Whether outcomes are any numbers in [0, 1].
    lines, thaw
        As in `InsuredForecaster`.
    """

    def __init__(
        self,
        terms: Terms,
        rules: list[BookCorrection],
        *,
        classes: int | None = None,
        max_exposure: float | None = None,
        capital: float | None = None,
        teaches: bool = False,
        graded: bool = False,
        lines: Lines | None = None,
        thaw: Thaw | None = None,
    ) -> None:
        self.thaw, self.lines = thaw, None if lines is None else LineBook(lines, terms)
        self.terms, self.rules, self.one, self.graded = terms, rules, rules[0], graded
        self.classes, self.max_exposure, self.capital = classes, max_exposure, capital
        self.teaches = teaches
        self.max_stake, self.one_sided = terms.max_stake, terms.one_sided
        self.count = classes or 1  # lines
        self.one_price = self.count > len(rules)
        if self.one_price:
            self.terms = shared_terms(terms, self.count)
        self.cap = self.terms.max_stake  # of what one correction sees
        self.hardly = HARDLY * self.cap
        self.room_left = (1.0 - 1e-9) * terms.max_stake  # up to here, rounding cannot have hidden anything
        self.grouped, self.apart = self.one.grouped, self.one.apart
        # What each group may lose; with a thaw, which may concede more, only its own correction sees to that.
        self.capital_each = self.one.capital_each if thaw is None else None
        self.publishing = Rules(terms.one_sided, terms.sound, self.one.integrates)
        self.publishes_as_is = not (terms.one_sided or terms.sound)
        self.capped = max_exposure is not None
        self.counts_room = capital is not None or self.one.line_bound(self.terms) is not None
        # No forecast can lose or win more, with corrections that stay among their targets.
        self.loss_range = self.count * terms.max_stake * (2.0 + terms.c_range[1] - terms.c_range[0])
        self.counted = self.counts_room or self.capped
        self.nothing_open = no_exposure(len(rules))
        self.zero = (0.0,) * self.count
        self.composed = self.one.over is not None
        self.memories = Memories(rules, self.cap)
        self.keys = self.memories.keys
        self.serial = 0  # the number of the last change that was computed
        self.dead = 0  # how many keys may have gone since the state was last swept
        several = self.classes is not None or self.grouped or self.composed
        limited = self.capital is not None or self.lines is not None
        self.short = not several and not self.capped  # see `PlainBookkeeping`
        self.plain = self.short and not limited

    def begin(self) -> dict[Key, Any]:
        """The state of an empty book."""
        state: dict[Key, Any] = {TOTALS: Totals(), STANDING: Standing()}
        if self.thaw is not None:
            state[CONCEDED] = Conceded()
        if self.counted:
            state[EXPOSURE] = self.nothing_open
        for k, rule in enumerate(self.rules):
            for part, memory in rule.memories().items():
                state["memory", k, part] = copy.deepcopy(memory)
                over = rule.over if part is None or not rule.apart else rule.of_group(part).over
                if over is not None and (part is None or rule.apart):
                    state["over", k, part] = over.blank()
        if self.apart:
            bounds = GroupBounds()
            for name in self.one.all_groups or ():
                bounds = bounds.begun(base_bound(self.answering(name), self.terms))
            state[GROUPS] = bounds
        return state

    def certificate(self, get: Get, group: Name | None = None) -> Certificate:
        """What can be lost at worst, in all or to a group."""
        if self.apart and group is None:
            made = certify_groups(self.one, self.terms, get(GROUPS), len(self.rules), self.max_exposure)
        else:
            scope = group if self.apart else None
            exposure = get(("exposure", scope)) or self.nothing_open
            made = certify(self.answering(scope), self.terms, exposure, self.max_exposure)
        if self.thaw is not None:
            made = thawed(made, self.thaw, get(TOTALS).rounds, self.rules, self.terms)
        if self.capital_each is not None:
            count = 1 if group is not None else get(GROUPS).groups
            made = guarded(made, count * self.capital_each)
        if self.capital is None or group is not None:
            return made
        growing = self.apart and self.one.all_groups is None  # with every group that begins
        return guarded(made, self.capital, growing=growing)

    # --- the steps ----------------------------------------------------------------------------------------

    def open(
        self, get: Get, patch: Patch, x: Any, said: Said, groups: tuple[Name, ...], id_: Any
    ) -> OpenForecast:
        """Publish a forecast for features `x`, of which the base has said this."""
        serial = self.serial = self.serial + 1
        count, at_risk, following, _ = get(STANDING)
        if id_ is None:
            id_ = following
            while get(("open", id_)) is not None:  # somebody's own id
                id_ += 1
            following = id_ + 1
        else:
            id_ = read_name("id", id_)
            if get(("open", id_)) is not None:
                raise ForecastOpen(f"a forecast with the id {id_!r} is open: settle or void it first")
        lines = self.quote(get, patch, said, groups)
        forecast = published(lines, id_, self.classes, self.one_sided, said[0])
        room, zero = None, self.zero
        patch[STANDING] = _new(Standing, (count + 1, at_risk, following, serial))
        if self.counts_room:
            room = self.room(lines)
            patch[EXPOSURE] = get(EXPOSURE).entered(room, count + 1)
        entry: OpenForecast = _new(
            OpenForecast,
            (forecast, serial, x, said[0], lines, groups, zero, zero, 0, room, None, 0.0, (), (), (0.0, 0.0)),
        )
        if groups:
            self._enter_groups(get, patch, entry)
        patch["open", id_] = entry
        return entry

    def room(self, lines: tuple[Line, ...]) -> tuple[float, ...]:
        """What a forecast of these lines can lose if it is staked in full, for each correction."""
        return room_of(lines, self.one_sided, self.max_stake)

    def quote(self, get: Get, patch: Patch, said: Said, groups: tuple[Name, ...]) -> tuple[Line, ...]:
        """Ask the corrections, and put what they say and what the base said together."""
        least, terms = 0.0, (len(self.rules), self.max_stake, self.one_sided)
        if self.capital is not None:
            least = least_c(get, None, self.capital, *terms)
        if self.capital_each is not None:
            least = max(least, least_c_of_groups(get, groups, self.capital_each, *terms))
        if self.classes is None:
            (mu,), (width,) = said
            return (self.line(get, patch, 0, mu, width, least, groups),)
        parts = enumerate(zip(said.mus, said.widths, strict=True))
        return tuple(self.line(get, patch, k, mu, width, least, groups) for k, (mu, width) in parts)

    def line(
        self,
        get: Get,
        patch: Patch,
        k: int,
        mu_hat: float,
        width: float,
        least: float,
        groups: tuple[Name, ...],
    ) -> Line:
        """One line, of which the base says μ̂ and ĉ (`width`); `least` is the least c that can be afforded."""
        rule = self.rules[k]
        if self.grouped:
            keys, memory = self.memories.recall(get, k, groups)
        else:
            keys = self.keys[k]
            memory = get(keys[0])
        proposal, after = rule.proposed(memory)
        if after is not memory:
            self.memories.remember(patch, rule, keys, after)
        inner, refined = None, width
        if self.composed:
            inner = self._refinement(get, patch, rule, ("over", k, keys[0][2]))
            refined = refine(width, inner.lam)
        mu, c, origin = publish(mu_hat, refined, proposal.lam, self.publishing, least)
        if self.one_sided and rule.at_own_price:  # the target is measured from the μ that it asked for
            origin -= mu - publish(mu_hat, refined, proposal.lam, self.publishing, 0.0)[0]
        if c < 0 and self.count > 1 and not self.one_price:  # else the same stake on all classes would win
            c = 0.0
        return _new(Line, (mu, c, origin, proposal, width, inner))

    def _refinement(self, get: Get, patch: Patch, rule: BookCorrection, key: Key) -> Proposal:
        """What the correction that a reserve is over proposes."""
        over: Any = rule.over
        before = recall_over(get, rule, key)
        inner, moved = over.proposed(before)
        if moved is not before:
            patch[key] = moved
        proposal: Proposal = inner
        return proposal

    def _enter_groups(self, get: Get, patch: Patch, entry: OpenForecast) -> None:
        """Count a new forecast in its groups' books."""
        for name in entry.groups:
            before = get(("standing", name))
            count, at_risk = (before or Standing())[:2]
            patch["standing", name] = Standing(count + 1, at_risk)
            if before is None:
                patch["totals", name] = Totals()
            if self.counted:
                exposure = get(("exposure", name)) or self.nothing_open
                wider = exposure.entered(entry.room, count + 1)
                patch["exposure", name] = wider
                if self.apart:
                    self._widen(get, patch, name, None if before is None else exposure, wider)

    def _widen(self, get: Get, patch: Patch, name: Name, before: Exposure | None, after: Exposure) -> None:
        """Keep the bound over all groups, which have books of their own, up to date."""
        bounds: GroupBounds = get(GROUPS)
        rules = self.answering(name)
        if before is None and self.one.all_groups is None:
            bounds = bounds.begun(base_bound(rules, self.terms))
        was = late_bound(rules, self.terms, before or self.nothing_open)
        bounds = bounds.later(was, late_bound(rules, self.terms, after))
        patch[GROUPS] = bounds

    def place(
        self, get: Get, patch: Patch, open_: OpenForecast, stake: Any, by: Any, price: Any
    ) -> OpenForecast:
        """The forecast with one stake more, at the price of whoever places it, if the caps leave room.

        Of the state, only the lines that the stake counts in are written into the patch.
        """
        levels = read_levels(by)
        amounts = self.accepted(get, open_, stake)
        own = -math.inf
        surcharges: tuple[float, ...] = ()
        if self.lines is not None and levels:
            own = self.lines.price(get, levels)
            surcharges = self.lines.surcharges(open_, amounts, own)
        if price is not None:
            check_price(open_, amounts, own, price, self.one_sided)
        name = levels[-1] if levels else None
        placed = _new(Stake, (amounts, name, levels if self.lines else (), surcharges))
        if self.max_exposure is not None:
            self._check_exposure(get, open_, amounts, self.max_exposure)
        after = open_.with_stake(placed, capped=self.capped, one_price=self.one_price)
        if self.capital is not None and after.at_risk > open_.at_risk:
            check_capital(get, None, self.capital, open_, after, amounts)
        if self.capital_each is not None and after.at_risk > open_.at_risk:
            for group in open_.groups:
                check_capital(get, group, self.capital_each, open_, after, amounts)
        if self.lines is not None:
            self.lines.take(get, patch, open_, placed)
        return after

    def own_prices(
        self, get: Get, open_: OpenForecast, levels: tuple[Name, ...]
    ) -> list[tuple[float, float]] | None:
        """μ and c of each line for a customer; None if they are those that were published."""
        if self.lines is None or not levels:
            return None
        price = self.lines.price(get, levels)
        first = open_.lines[0]
        if self.classes is None and price <= (first.mu if self.one_sided else first.c):
            return None
        return self.lines.own(open_, price)

    def _with_limit(self, refused: StakeRefused, get: Get, open_: OpenForecast, b: Any, by: Any) -> Exception:
        """The refusal with a limit that would be taken; with classes, that of the cap that refused."""
        if self.classes is None:
            find_limit(refused, lambda size: self.place(get, {}, open_, math.copysign(size, b), by, None))
        return refused

    def _last(self, get: Get, patch: Patch, open_: OpenForecast, stake: Any, by: Any) -> OpenForecast:
        """The forecast with a last stake, placed as it is settled."""
        try:
            return self.place(get, patch, open_, stake, by, None)
        except StakeRefused as refused:
            raise self._with_limit(refused, get, open_, stake, by) from None

    def take(
        self, get: Get, patch: Patch, open_: OpenForecast, stake: Any, by: Any, price: Any = None
    ) -> int:
        """Take a stake, if the caps leave room for it."""
        try:
            after = self.place(get, patch, open_, stake, by, price)
        except StakeRefused as refused:
            raise self._with_limit(refused, get, open_, stake, by) from None
        forecast, _, _, _, _, groups, _, _, bets, _, _, risk, stakes, _, _ = open_
        more_risk = after.at_risk - risk
        serial = self.serial = self.serial + 1
        for key in keys_of("standing", groups) if groups else _EVERYONE:
            count, at_risk, following, _ = get(key)
            patch[key] = _new(Standing, (count, at_risk + more_risk, following, serial))
        if self.capped:
            for key in keys_of("exposure", groups):
                patch[key] = get(key).restaked(open_, after)
        patch["open", forecast.id] = after
        if len(stakes) == BLOCK:
            patch["stakes", forecast.id, open_.blocks] = stakes
        return bets

    def close(
        self,
        get: Get,
        patch: Patch,
        open_: OpenForecast,
        outcome: Any,
        stake: Any,
        by: Any,
    ) -> Closing:
        """Settle a forecast: who receives what, what is lost, and what is learned."""
        y = arguments.outcome(outcome, self.classes, graded=self.graded)
        id_: Any = open_.forecast.id
        stakes = self.stakes_on(get, open_)
        final = open_
        if stake is not None:
            final = self._last(get, patch, open_, stake, by)
            stakes.append(final.stakes[-1])
        nets, grosses = final.nets, final.grosses
        payments, results = self._results(final, y, stakes)
        (loss, rest), turnover = exact_sum(payments), self.turnover_of(final)
        c = open_.lines[0].c  # of several lines, none has a c below 0
        if len(open_.lines) > 1:
            c = sum([line.c for line in open_.lines]) / len(open_.lines)
        if turnover:
            self._learn(get, patch, open_, results, final.surcharges)
        values = values_of(open_.groups)
        for key in keys_of("totals", open_.groups):
            totals: Totals = get(key)
            money, value = None, values.get(key[1], 1.0) if values else 1.0
            if self.classes is None and not self.one_sided and totals.money is not None and value == 1.0:
                money = bet(totals.money, open_.lines[0].mu, open_.lines[0].c, y)
            lost, left, staked = value * loss, value * rest, abs(value) * turnover
            patch[key] = totals.settled(lost, left, staked, len(stakes), c, self.loss_range, money)
        if self.thaw is not None and (turnover < self.hardly or self.thaw.share):
            warm(self.memories, self.thaw, get, patch, open_.groups, turnover < self.hardly)
        self._leave(get, patch, open_, results if self.capped else ())
        if self.lines is not None:
            self.lines.leave(drafting(get, patch), patch, open_, stakes, payments)
        lesson = self._lesson(open_, y, nets, grosses) if self.teaches else None
        return id_, y, payments, loss, turnover, results, lesson

    def _results(
        self, open_: OpenForecast, y: int, stakes: list[Stake]
    ) -> tuple[Payments, tuple[LineResult, ...]]:
        """What every stake receives; and what every correction learns."""
        booked = self.terms.sound and not self.one.at_own_price
        return line_results(open_, y, stakes, self.classes, self.max_stake, booked=booked)

    def _learn(
        self,
        get: Get,
        patch: Patch,
        open_: OpenForecast,
        results: tuple[LineResult, ...],
        surcharges: tuple[float, ...],
    ) -> None:
        """Every line's correction learns what happened; one below it, from its own target, z − ĉ."""
        for k, (loss, target, weight, rest) in enumerate(results):
            if not weight:
                continue
            rule, line = self.rules[k], open_.lines[k]
            if surcharges and not self.terms.sound:
                loss += surcharges[k]  # exact mode learns the loss at the published price
            if not self.grouped:
                key = self.keys[k][0]
                patch[key] = rule.learned(get(key), line.proposal, target, weight, loss, rest)
            else:
                keys, memory = self.memories.recall(get, k, open_.groups)
                after = rule.learned(memory, line.proposal, target, weight, loss, rest)
                self.memories.remember(patch, rule, keys, after)
                key = keys[0]
            if rule.over is not None and line.inner is not None:
                key = ("over", k, key[2])
                before = recall_over(get, rule, key)
                own = target + line.origin - line.c_hat
                patch[key] = rule.over.learned(before, line.inner, own, weight, loss, rest)

    def frozen(self, get: Get) -> bool:
        """Whether a forecast that nobody stakes on would change anything, because of a thaw."""
        return self.memories.frozen(get, self.thaw)

    def begin_day(self, get: Get, patch: Patch, day: Any) -> None:
        """Count what a thaw concedes from here as this day's, unless it is this day already."""
        if self.thaw is None or self.thaw.per_day is None:
            raise ValueError("only a thaw with per_day needs to know the day: thaw=Thaw(..., per_day=...)")
        number, before = arguments.whole("day", day, least=0), get(DAY)
        if before is not None and number < before.number:
            raise ValueError(f"day must not be before the last one, {before.number}; got {number}")
        if before is None or number > before.number:
            serial = self.serial = self.serial + 1
            patch[STANDING] = get(STANDING)._replace(revision=serial)
            patch[DAY] = Day(number, get(CONCEDED).total)

    def call_off(self, get: Get, patch: Patch, open_: OpenForecast) -> None:
        """Void a forecast."""
        if self.lines is not None:
            self.lines.leave(get, patch, open_, self.stakes_on(get, open_), ())
        for key in keys_of("totals", open_.groups):
            patch[key] = get(key).with_void()
        self._leave(get, patch, open_, ())

    def _leave(self, get: Get, patch: Patch, open_: OpenForecast, losses: tuple[LineResult, ...]) -> None:
        """Take a forecast and its stakes out of the book; `losses` are given where exposure is capped."""
        serial = self.serial = self.serial + 1
        for key in keys_of("standing", open_.groups):
            count, at_risk, following, _ = get(key)
            patch[key] = Standing(count, at_risk, following, serial).left(open_.at_risk)
        if self.counted:
            for key in keys_of("exposure", open_.groups):
                patch[key] = get(key).left(open_, losses, patch["standing", key[1]].open)
        id_ = open_.forecast.id
        patch["open", id_] = None
        for n in range(open_.blocks):
            patch["stakes", id_, n] = None

    @staticmethod
    def turnover_of(open_: OpenForecast) -> float:
        """What was staked on a forecast."""
        return math.fsum(open_.grosses)

    def _lesson(
        self, open_: OpenForecast, y: int, nets: tuple[float, ...], grosses: tuple[float, ...]
    ) -> Lesson:
        cap = self.max_stake
        if self.classes is None:
            return _new(Lesson, (open_.x, y, open_.said[0], nets[0] / cap, grosses[0] / cap))
        said, net, gross = np.array(open_.said), np.array(nets) / cap, np.array(grosses) / cap
        return Lesson(open_.x, y, said, net, gross)

    # --- what is asked of the arguments -------------------------------------------------------------------

    def named(self, groups: Any) -> tuple[Name, ...]:
        """The groups of a forecast, valid."""
        if groups is None and not self.grouped:
            return ()
        if isinstance(groups, Mapping):
            return self._features(groups)
        return self.one.check_groups(read_names("groups", groups) if self.grouped else groups)

    def _features(self, groups: Mapping[Any, Any]) -> Features:
        """The features of a forecast, valid. A group with a value below 0 would need the lower side, too."""
        if not self.one.takes_features:
            raise TypeError(f"groups must be names: only Balance takes values; got {groups!r}")
        made = read_features(groups)
        raised = self.capital is not None or self.lines is not None
        if (raised or not (self.one_sided or self.publishes_as_is)) and min(made.values, default=0.0) < 0:
            raise ValueError(
                "values of groups must not be negative in sound mode, or with a capital or lines: only what "
                f"is lost is bounded there, not what is won; got {groups!r}"
            )
        self.one.check_groups(made)
        return made

    def answering(self, group: Name | None) -> list[BookCorrection]:
        """The corrections, one per line, that answer for a group's books."""
        return self.rules if group is None else [rule.of_group(group) for rule in self.rules]

    def _check_exposure(self, get: Get, open_: OpenForecast, amounts: tuple[float, ...], most: float) -> None:
        scopes = []
        for name in (None, *open_.groups):
            bounds = [rule.line_bound(self.terms) for rule in self.answering(name)]
            # It may lose more by what a thaw has conceded; with several corrections nobody knows on which.
            more = most
            if self.thaw is not None and len(self.rules) == 1:
                more += get(CONCEDED).total
            known = [bound + more for bound in bounds if bound is not None]
            bounded = len(known) == len(bounds) and not (self.apart and name is None)
            scopes.append(
                Scope(get(("exposure", name)) or self.nothing_open, tuple(known) if bounded else None)
            )
        check_exposure(open_, amounts, scopes, most, self.cap, one_price=self.one_price)

    @staticmethod
    def stakes_on(get: Get, open_: OpenForecast) -> list[Stake]:
        """All stakes on a forecast, the oldest first."""
        id_ = open_.forecast.id
        return [*(stake for n in range(open_.blocks) for stake in get(("stakes", id_, n))), *open_.stakes]

    def accepted(self, get: Get, open_: OpenForecast | None, stake: Any) -> tuple[float, ...]:
        """The stake as one number per line, if the cap leaves room for it; None stands for a fresh forecast.

        Close to the cap the stakes are added up without rounding: else any number of stakes would fit that
        are too small to change the sum.
        """
        grosses, bets = (self.zero, 0) if open_ is None else (open_.grosses, open_.bets)
        room = self.max_stake if not bets else self.room_left if bets < FEW else -1.0
        fits = type(stake) is float and self.classes is None and grosses[0] + abs(stake) <= room
        if fits and not (self.one_sided and stake < 0):
            return (stake,)
        amounts = self.amounts_of(stake)
        for k, b in enumerate(amounts):
            if self.one_sided and b < 0:
                raise StakeRefused(f"stakes must not be negative on a one-sided forecast; got {b}", 0.0)
            if grosses[k] + abs(b) > room and self._full(get, open_, k, b):
                left = max(0.0, self.max_stake - grosses[k])
                where = f" on class {k}" if self.classes else ""
                message = f"stake {b}{where} is over the cap of {self.max_stake} per forecast: {left} is left"
                raise StakeRefused(message, left)
        return amounts

    def amounts_of(self, stake: Any) -> tuple[float, ...]:
        """A stake as one number per line; a ValueError if its shape is another."""
        array = arguments.numbers("stake", stake)
        shape = () if self.classes is None else (self.classes,)
        if array.shape != shape:
            raise ValueError(f"stake must have shape {shape}; got {array.shape}")
        return tuple(np.atleast_1d(array).tolist())

    def _full(self, get: Get, open_: OpenForecast | None, k: int, b: float) -> bool:
        """Whether the stakes on a line and one more, added up without rounding, are over the cap.

        The cap is passed by less than a few roundings of it: ten stakes of 0.1 fit a cap of 1.
        """
        sizes = [] if open_ is None else [abs(stake.amounts[k]) for stake in self.stakes_on(get, open_)]
        return math.fsum((*sizes, abs(b), -self.max_stake)) > 2.0**-50 * self.max_stake
