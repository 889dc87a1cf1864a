"""Algorithm 1: a forecaster that stands behind what it says.

x -> base (μ̂, ĉ) -> correction (λ) -> Forecast(μ, c) -> stakes -> outcome -> payments -> learn
"""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping, Sequence
from typing import Any, Self, SupportsIndex

from makewhole import saving
from makewhole.corrections import BookCorrection, Certificate, Correction
from makewhole.corrections.names import Name, read_name
from makewhole.decisions import Forecast
from makewhole.forecasters import adapt, ask
from makewhole.insured import saved
from makewhole.insured.book import Id, OpenForecast, Stake, published
from makewhole.insured.changes import (
    STANDING,
    TOTALS,
    AnyChange,
    Bet,
    Change,
    Key,
    Lesson,
    LineResult,
    Opening,
    Payments,
    Settlement,
    drafting,
)
from makewhole.insured.finding import find_open
from makewhole.insured.lines import Customer, Lines, read_levels
from makewhole.insured.many import (
    Batch,
    Forecasts,
    ask_rows,
    check_outcomes,
    close_unstaked,
    collector_paused,
    one_each,
    open_many,
    opened,
    read_outcomes,
)
from makewhole.insured.refusals import ChangeRefused, Refusal, TeachingError
from makewhole.insured.settings import (
    Default,
    Mode,
    books_for,
    plain_settings,
    read_settings,
    settings_from,
)
from makewhole.insured.statement import GroupStatements, Statement
from makewhole.insured.stating import state_book, state_groups
from makewhole.insured.thaw import Thaw

# An id as callers give it: text, or a whole number of any kind.
AnyId = str | SupportsIndex

# Names whoever bets: herself, or the levels she belongs to, the widest first, and herself.
AnyBettor = AnyId | Sequence[AnyId]

_LIMITS = ("classes", "max_exposure", "capital", "graded", "lines", "thaw")
_SETTINGS = ("mode", "max_stake", "c_range", "one_sided", *_LIMITS)


class InsuredForecaster:
    """A forecaster that takes bets on its own forecasts, and adapts its price so that they balance.

    A forecast is a probability μ and a half-width c. Whoever stakes b on it receives b·(y − μ) − |b|·c when
    the outcome y is known. The base, a model of yours, says μ̂ and ĉ; the correction says λ; the forecaster
    publishes μ = μ̂ and c = ĉ + λ, takes stakes, pays them, and teaches the base and the correction what
    happened. Outcomes may come late and in any order: each is credited to the λ that its forecast was made
    with.

    What to know before using it:

    - In exact mode c may be negative. Someone who then stakes both b and −b earns 2|b||c| without risk; the
      statement counts such forecasts.
    - Where c is so wide that nobody stakes, nothing is learned and c stays as it is, unless there is a
      `thaw`. The statement says so after 100 forecasts without a stake.
    - With `one_sided`, c is 0 and the correction moves μ itself: μ is then the price of a bet that pays 1.
    - With K classes, exact mode has one c for all of them: a stake is paid less its median over the classes.
      In sound mode, and one-sided, each class is a binary bet with a correction of its own.
    - It belongs to one thread at a time.

    Every call computes what it will change and then changes everything in one step. So a call that raises has
    changed nothing, with two exceptions. `TeachingError` says that a forecast was settled and only the base
    failed to learn from it. An interrupt (Ctrl-C) may be raised just after the step; a retry then says that
    the forecast is closed.

    To store changes before they take effect, use the same calls in two steps: `plan_forecast`, `plan_stake`,
    `plan_settle` and `plan_void` return a change as a value; `apply(change)` makes it true and returns the
    change that undoes it.

    Parameters
    ----------
    base
        The model: a river or scikit-learn classifier, a callable, or an object with `predict` and `learn`.
        None if you give every forecast its probability: `f.forecast(mu=0.3)`.
    correction
        How λ is adapted; a copy is used. By default `Barrier` with a capital and a spread of 0.02, or
        `StandardRegret(rate=0.1)` without one. The swap corrections answer a single outcome in full: on a
        book with few stakes, one bet may make c too wide for everybody.
    mode
        "exact": c is whatever balances the bets. "sound": c lies in [0, ½] and [μ − c, μ + c] inside [0, 1];
        with a `Reserve` the total loss is then bounded for ever. By default sound with a capital, else exact.
    max_stake
        M, the cap on the sum of the sizes of all stakes on one forecast (with classes, on one class; what is
        the same on all classes does not count in exact mode).
    c_range
        The base's ĉ is kept in this range; where all classes have one c, their largest ĉ counts.
    one_sided
        Take only stakes >= 0, as for an event that nobody wants to happen.
    max_exposure
        The most that all open bets together may be able to lose. A stake beyond it, or beyond what the
        certificate leaves, is refused.
    capital
        The most that may ever be lost: c is widened as far as needed, and a stake on an old forecast is
        refused if its price is no longer enough. For sound mode, or one-sided. By default that of the
        correction, if it was made for one.
    lines
        `Lines`: what each named customer may take in all. By default 0.4 of the capital, if there is one, at
        a c of at least 0.02 if the correction has no spread. None: all pay the same.
    thaw
        `Thaw`: how much may be conceded so that λ comes down while nobody stakes; the certificate is larger
        by that, unless it is a share of past profits. By default, for the default correction only: half of
        the capital, which the correction then does not use; without a capital 5·max_stake (of all classes)
        times the root of the number of forecasts.
    classes
        None for a binary event, else K. Outcomes are then 0 … K−1, and stakes are arrays of K numbers.
    graded
        Whether an outcome may be any number in [0, 1], such as a delay as a share of three hours; μ is then
        its forecast mean. A payment is affine in y, so every bound holds as it is. A river or scikit-learn
        regressor becomes a base with `forecasters.RegressorForecaster`.

    Examples
    --------
    >>> import makewhole as mw
    >>> f = mw.InsuredForecaster(max_stake=100)
    >>> q = f.forecast(mu=0.5)
    >>> plan = mw.insure(q, {"use": (2, -10), "skip": (0, 0)})
    >>> f.stake(q, plan.stake)
    0
    >>> f.settle(q, outcome=0)  # not effective: she lost 2, and is paid 6
    [6.0]
    >>> f.statement().total_loss
    6.0

    With ids of your own, and names for those who bet:

    >>> q = f.forecast(mu=0.2, id="UA-123")
    >>> f.stake("UA-123", 10.0, by="customer-7")
    0
    >>> payments = f.settle("UA-123", outcome=1)
    >>> round(payments[0], 2), {name: round(paid, 2) for name, paid in payments.by.items()}
    (7.94, {'customer-7': 7.94})
    """

    def __init__(
        self,
        base: Any = None,
        correction: Correction | None = None,
        *,
        mode: Mode | None = None,
        max_stake: float,
        c_range: tuple[float, float] = (0.0, 0.5),
        one_sided: bool = False,
        max_exposure: float | None = None,
        capital: float | None = None,
        classes: int | None = None,
        graded: bool = False,
        lines: Lines | Default | None = "default",
        thaw: Thaw | Default | None = "default",
    ) -> None:
        given: Any = {"mode": mode, "max_stake": max_stake, "c_range": c_range, "one_sided": one_sided}
        given |= {"max_exposure": max_exposure, "capital": capital, "classes": classes, "graded": graded}
        given |= {"lines": lines, "thaw": thaw}
        chosen = read_settings(correction, **given)
        self._given = given | {"correction": copy.deepcopy(correction)}  # for the same with another capital
        self.max_stake, self.c_range, _, self.one_sided, _ = chosen.terms
        self.mode, self.classes, self.max_exposure = chosen.mode, chosen.classes, chosen.max_exposure
        self.capital, self.graded, self.lines, self.thaw = chosen[4:8]
        self.base = None if base is None else adapt(base, self.classes, graded=self.graded)
        self._terms = chosen.terms
        self._begin(chosen.rules)

    def _begin(self, rules: list[BookCorrection]) -> None:
        """Start an empty book with these corrections."""
        limits: Any = {name: getattr(self, name) for name in _LIMITS}
        self._books = books_for(self._terms, rules, teaches=self.base is not None, **limits)
        self._state = self._books.begin()
        self._epoch = int.from_bytes(os.urandom(8), "big") << 64  # a plan of another forecaster must not fit

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _SETTINGS and name in self.__dict__:
            raise AttributeError(f"{name} cannot be changed: make a new InsuredForecaster")
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        if name in _SETTINGS:
            raise AttributeError(f"{name} cannot be deleted: make a new InsuredForecaster")
        object.__delattr__(self, name)

    def __repr__(self) -> str:
        cap, rounds = self.max_stake, self._state[TOTALS].rounds
        return f"InsuredForecaster({self._books.one!r}, max_stake={cap!r}, rounds={rounds})"

    # --- forecast -> stakes -> settle ---------------------------------------------------------------------

    def forecast(
        self,
        x: Any = None,
        *,
        mu: Any = None,
        c_hat: Any = None,
        groups: Any = None,
        id: AnyId | None = None,  # noqa: A002 - what callers call it
    ) -> Forecast:
        """Publish a forecast for x, or with `base=None` for a probability `mu` (and ĉ = `c_hat`).

        Where the correction is grouped, `groups` is the name, or are the names, of those it belongs to; with
        `Balance` it may map names to values, from −1 to 1.
        `id` is any text or whole number; without one, forecasts are numbered. Raises `ForecastOpen` where a
        forecast with that id is open.
        """
        patch: dict[Key, Any] = {}
        names = () if groups is None and not self._books.grouped else self._books.named(groups)
        said = ask(self.base, self.classes, self.c_range, x, mu, c_hat)
        opened = self._books.open(self._state.get, patch, x, said, names, id)
        self._state.update(patch)
        return opened.forecast

    def peek(self, x: Any = None, *, mu: Any = None, c_hat: Any = None, groups: Any = None) -> Forecast:
        """What `forecast` would publish now, without opening anything: no stake can be placed on it."""
        said = ask(self.base, self.classes, self.c_range, x, mu, c_hat)
        lines = self._books.quote(self._state.get, {}, said, self._books.named(groups))
        return published(lines, None, self.classes, self.one_sided, said.mus)

    def quote(self, forecast: Forecast | AnyId, *, by: AnyBettor | None = None) -> Forecast:
        """An open forecast at the price of whoever is named: the published one, or a dearer one (`Lines`).

        It holds until the forecaster goes on: pass `price=` to `stake` to be sure of it.
        """
        open_ = find_open(self._state.get, forecast)
        own = self._books.own_prices(self._state.get, open_, read_levels(by))
        if own is None:
            return open_.forecast
        lines = tuple(line._replace(mu=mu, c=c) for line, (mu, c) in zip(open_.lines, own, strict=True))
        return published(lines, open_.forecast.id, self.classes, self.one_sided, open_.said)

    def account(self, name: AnyId) -> Customer:
        """What a customer, or a level of customers, has taken of its line; a ValueError without lines."""
        if self._books.lines is None:
            raise ValueError("there are no lines: make it with capital=... or lines=...")
        return self._books.lines.customer(self._state.get, read_name("name", name))

    def stake(
        self,
        forecast: Forecast | AnyId,
        stake: Any,
        *,
        by: AnyBettor | None = None,
        price: float | None = None,
    ) -> int:
        """Place a bet; returns its place among the payments. Over the cap it is refused whole.

        `by` names who bets, or what she belongs to and herself: her payments are then in `settle(...).by`,
        and with lines she bets at her own price, which `quote` shows. `price` is the most that she would pay,
        as c (one-sided, as μ): above it a `PriceRefused` says the price now.
        """
        patch: dict[Key, Any] = {}
        state = self._state
        place = self._books.take(state.get, patch, find_open(state.get, forecast), stake, by, price)
        state.update(patch)
        return place

    def settle(
        self, forecast: Forecast | AnyId, outcome: Any, stake: Any = None, *, by: AnyBettor | None = None
    ) -> Payments:
        """Pay every bet on a forecast, and learn; returns what each agent receives, in order of staking.

        The list's `by` has the payments of those who gave a name. With `stake`, one last bet is placed first.
        """
        patch: dict[Key, Any] = {}
        get = self._state.get
        closed = self._books.close(get, patch, find_open(get, forecast), outcome, stake, by)
        self._commit(patch)
        payments, lesson = closed[2], closed[6]
        if lesson is not None:
            self._teach(closed[0], lesson, payments)
        return payments

    def void(self, forecast: Forecast | AnyId) -> None:
        """Call a forecast off: nobody pays, nothing is learned."""
        patch: dict[Key, Any] = {}
        self._books.call_off(self._state.get, patch, find_open(self._state.get, forecast))
        self._commit(patch)

    def begin_day(self, day: int) -> None:
        """Say which day it is, by a number that grows: on a new one a thaw may concede `per_day` again."""
        patch: dict[Key, Any] = {}
        self._books.begin_day(self._state.get, patch, day)
        self._state.update(patch)

    # --- many at once -------------------------------------------------------------------------------------

    def forecast_many(
        self, xs: Any = None, *, mu: Any = None, c_hat: Any = None, groups: Any = None, ids: Any = None
    ) -> Forecasts:
        """Publish a forecast for every row of `xs`, or with `base=None` for every probability in `mu`.

        `xs` is an array, a frame or a sequence of rows; the base is asked once for all of them where it can
        be. `groups` and `ids` are one per row. The numbers are those that `forecast` would give row by row
        (and as exact as what the model says of a batch); if any row does not fit, nothing is published.

        Examples
        --------
        >>> import makewhole as mw
        >>> f = mw.InsuredForecaster(max_stake=100)
        >>> forecasts = f.forecast_many(mu=[0.2, 0.5, 0.9], ids=["UA-1", "UA-2", "UA-3"])
        >>> f.stake("UA-2", 100.0)
        0
        >>> f.settle_many({"UA-1": 0, "UA-2": 1, "UA-3": 1})["UA-2"]
        [50.0]
        """
        rows, said = ask_rows(self.base, self._books, xs, mu, c_hat)
        named = None
        if groups is not None or self._books.grouped:
            named = [self._books.named(one) for one in one_each("groups", groups, len(rows))]
        ids = None if ids is None else one_each("ids", ids, len(rows))
        patch: dict[Key, Any] = {}
        with collector_paused():
            made = open_many(self._books, self._state.get, patch, rows, said, named, ids)
            self._state.update(patch)
        return made

    def settle_many(
        self,
        outcomes: Any,
        *,
        id: str = "id",  # noqa: A002 - what callers call it
        outcome: str = "outcome",
    ) -> dict[Id, Payments]:
        """Settle many forecasts in one step; returns the payments of each by its id.

        `outcomes` is a mapping from ids to outcomes, or a frame with a column of ids (`id`) and one of
        outcomes. They are settled in that order, with the numbers that `settle` would give one by one; if any
        does not fit, nothing is settled.
        """
        given = read_outcomes(outcomes, id, outcome)
        patch: dict[Key, Any] = {}
        get = drafting(self._state.get, patch)
        keys: list[Key] = [("open", name) for name in given]
        entries: list[Any] = list(map(self._state.get, keys))
        if self.base is None and set(map(type, entries)) == {Batch} and not self._books.frozen(get):
            check_outcomes(given.values(), graded=self.graded)
            with collector_paused():
                close_unstaked(self._books, get, patch, keys, entries, given.values())
                self._commit(patch)
                return {name: Payments() for name in given}
        now, close = self._state.get, self._books.close
        closed = [close(get, patch, find_open(now, name), y, None, None) for name, y in given.items()]
        payments = {id_: paid for id_, _, paid, *_ in closed}
        self._commit(patch)
        for id_, *_, lesson in closed:
            if lesson is not None:
                self._teach(id_, lesson, payments)
        return payments

    # --- the same in two steps: compute, then apply -------------------------------------------------------

    def plan_forecast(
        self,
        x: Any = None,
        *,
        mu: Any = None,
        c_hat: Any = None,
        groups: Any = None,
        id: AnyId | None = None,  # noqa: A002 - what callers call it
    ) -> Opening:
        """What `forecast` would do, as a value; nothing changes until it is applied."""
        patch: dict[Key, Any] = {}
        said = ask(self.base, self.classes, self.c_range, x, mu, c_hat)
        opened = self._books.open(self._state.get, patch, x, said, self._books.named(groups), id)
        return Opening(self._revision(), patch, opened.forecast)

    def plan_stake(
        self,
        forecast: Forecast | AnyId,
        stake: Any,
        *,
        by: AnyBettor | None = None,
        price: float | None = None,
    ) -> Bet:
        """What `stake` would do, as a value."""
        patch: dict[Key, Any] = {}
        open_ = find_open(self._state.get, forecast)
        place = self._books.take(self._state.get, patch, open_, stake, by, price)
        id_: Any = open_.forecast.id
        taken: Stake = patch["open", id_].stakes[-1]
        return Bet(self._revision(), patch, id_, place, taken.amounts, taken.by, taken.surcharges)

    def plan_settle(
        self, forecast: Forecast | AnyId, outcome: Any, stake: Any = None, *, by: AnyBettor | None = None
    ) -> Settlement:
        """What `settle` would do, as a value: payments, losses, targets, and what each part will learn."""
        patch: dict[Key, Any] = {}
        open_ = find_open(self._state.get, forecast)
        closed = self._books.close(self._state.get, patch, open_, outcome, stake, by)
        lines = tuple(LineResult(*result) for result in closed[5])
        return Settlement(self._revision(), patch, *closed[:5], lines, closed[6])

    def plan_void(self, forecast: Forecast | AnyId) -> Change:
        """What `void` would do, as a value."""
        patch: dict[Key, Any] = {}
        self._books.call_off(self._state.get, patch, find_open(self._state.get, forecast))
        return Change(self._revision(), patch)

    def apply(self, change: AnyChange) -> Change:
        """Make a planned change true, in one step; returns the change that undoes it.

        Raises `ChangeRefused` if anything has changed since it was planned. The base is not taught: do that
        with `teach(settlement)` once the settlement is safe.

        Examples
        --------
        >>> import makewhole as mw
        >>> f = mw.InsuredForecaster(max_stake=1)
        >>> opening = f.plan_forecast(mu=0.5, id="UA-123")
        >>> undo = f.apply(opening)
        >>> len(f.open_forecasts)
        1
        >>> again = f.apply(undo)  # as if it had never been
        >>> len(f.open_forecasts)
        0
        """
        if change.revision != self._revision():
            raise ChangeRefused("the forecaster has changed since this change was planned: plan it again")
        undo = {key: self._state.get(key) for key in change.patch}
        self._commit(change.patch)
        return Change(self._revision(), undo)

    def _commit(self, patch: Mapping[Key, Any]) -> None:
        """Change everything in one call into C, which no interrupt can cut in two; then sweep up at times.

        A key whose value is None reads as absent: it need not go at once.
        """
        state, books = self._state, self._books
        state.update(patch)
        books.dead += len(patch)
        if books.dead > 64 + len(state):
            books.dead = 0
            self._state = {key: value for key, value in state.items() if value is not None}

    def teach(self, settlement: Settlement) -> None:
        """Let the base learn from a settlement; call it at most once for each. `settle` does so itself."""
        if settlement.lesson is not None:
            self._teach(settlement.id, settlement.lesson, settlement.payments)

    def _teach(self, id_: Id, lesson: Lesson, payments: Any) -> None:
        base: Any = self.base
        try:
            base.learn(lesson.x, lesson.outcome, mu=lesson.mu, net=lesson.net, gross=lesson.gross)
        except Exception as error:
            message = f"forecast {id_!r} was settled, but the base failed to learn from it: {error!r}"
            raise TeachingError(message, payments) from error

    # --- what it says of itself ---------------------------------------------------------------------------

    @property
    def open_forecasts(self) -> list[Forecast]:
        """The forecasts not yet settled or voided, oldest first."""
        return [entry.forecast for entry in self._entries()]

    @property
    def corrections(self) -> list[Any]:
        """The corrections as they stand, copied: one, or in sound mode and one-sided one for each class."""
        made = []
        for k, rule in enumerate(self._books.rules):
            memories = {key[2]: value for key, value in self._kept("memory") if key[1] == k}
            overs = {key[2]: value for key, value in self._kept("over") if key[1] == k}
            made.append(rule.rebuilt(copy.deepcopy(memories), copy.deepcopy(overs)))
        return made

    def certificate(self, group: Name | None = None) -> Certificate:
        """What can be lost at worst, in all or to a group."""
        return self._books.certificate(self._state.get, group)

    def statement(self) -> Statement:
        """Rounds, turnover, losses, open exposure and what can be lost at worst; `groups`: of each group."""
        make = lambda: state_groups(self._books, self._state)  # noqa: E731 - called later, if at all
        groups = GroupStatements(make, self._revision) if self._books.grouped else {}
        return state_book(self._books, self._state, None, groups)

    def _revision(self) -> int:
        """Name this state: no other, also of no other forecaster, has the same."""
        revision: int = self._state[STANDING].revision
        return self._epoch + revision

    def _kept(self, kind: str) -> list[tuple[Key, Any]]:
        return [item for item in self._state.items() if item[0][0] == kind and item[1] is not None]

    def _entries(self) -> list[OpenForecast]:
        return sorted((opened(key[1], entry) for key, entry in self._kept("open")), key=lambda e: e.number)

    def check_stake(self, stake: Any) -> None:
        """Raise what staking this on a fresh forecast would raise, exposure aside."""
        self._books.accepted(self._state.get, None, stake)

    # --- as plain data ------------------------------------------------------------------------------------

    def to_state(self) -> dict[str, Any]:
        """All of it, the base apart, as plain data: settings, corrections, and the state item by item.

        `items` is a list of [key, value]: `["totals", null]` is what was settled, `["memory", line, part]`
        what a correction has learned, `["open", id]` an open forecast with the latest bets on it.
        A store can keep them one by one, and with `change_state` write only those that changed.
        """
        live = {key: value for key, value in self._state.items() if value is not None}
        return self.head_state() | {"items": saved.items_of(live, self._books.rules, self.base is not None)}

    def head_state(self) -> dict[str, Any]:
        """The settings and the corrections' settings: what never changes."""
        return {
            "settings": plain_settings({name: getattr(self, name) for name in _SETTINGS}),
            "corrections": [saved.rule_state(rule) for rule in self._books.rules],
            "base": self.base is not None,
        }

    def change_state(self, change: AnyChange) -> list[list[Any]]:
        """The items that a change sets, as plain data; the value is None where an item goes away."""
        return saved.items_of(change.patch, self._books.rules, self.base is not None)

    @classmethod
    def from_state(
        cls, state: Mapping[str, Any], base: Any = None, correction: type[Correction] | None = None
    ) -> Self:
        """Continue where `to_state()` was taken, with the base its owner has kept.

        `correction` is the class of the correction, where it is not one of ours. Raises a ValueError for a
        state that no forecaster can have left.
        """
        try:
            return cls._restored(state, base, correction)
        except (KeyError, IndexError, TypeError, AttributeError, OverflowError) as error:
            raise ValueError(f"the state is damaged: {error!r}") from error
        except Refusal as error:
            raise ValueError(str(error)) from None

    @classmethod
    def _restored(cls, state: Mapping[str, Any], base: Any, correction: type[Correction] | None) -> Self:
        if state["base"] and base is None:
            raise ValueError(
                "pass base=, the model: this forecaster was saved with one, which makewhole does not save"
            )
        settings = settings_from(state["settings"])
        objects = [saved.read_rule(one, correction) for one in state["corrections"]]
        if len(objects) not in (1, settings["classes"]):
            raise ValueError(f"there must be {settings['classes'] or 1} corrections; got {len(objects)}")
        made = cls(base, objects[0], **settings)
        made._begin(saved.restored_rules(objects, made._terms, made._books))
        made._state.update(saved.read_items(state["items"], made._books))
        made._books.serial = max((entry.number for entry in made._entries()), default=0)
        return made

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything but the base to a versioned file of plain data.

        A crash in the middle leaves the file that was there before. Save the base yourself.
        """
        saving.write(path, kind=saved.KIND, version=saved.VERSION, content=self.to_state())

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], base: Any = None, correction: type[Correction] | None = None
    ) -> Self:
        """Continue from a file that `save` wrote, with the base its owner has kept.

        Files of earlier versions load, too. `correction` is its class, where it is not one of ours.
        """
        version, content = saving.read(path, kind=saved.KIND, versions=saved.VERSIONS, sealed_from=4)
        try:
            return cls.from_state(saved.upgrade(version, content), base, correction)
        except (KeyError, IndexError, TypeError, AttributeError) as error:
            raise ValueError(f"{path} is damaged: {error!r}") from error
        except ValueError as error:
            raise ValueError(f"{path} cannot be loaded: {error}") from None
