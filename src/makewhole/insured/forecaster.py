"""Algorithm 1: a forecaster that stands behind what it says.

x -> base (μ̂, ĉ) -> correction (λ) -> Forecast(μ, c) -> stakes -> outcome -> payments -> learn
"""

from __future__ import annotations

import copy
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from types import FrameType, FunctionType
from typing import Any, Self, SupportsIndex

import numpy as np

from makewhole import arguments, saving
from makewhole.corrections import BookCorrection, Certificate, Correction
from makewhole.corrections.names import Name, read_name
from makewhole.decisions import Forecast, Quote
from makewhole.forecasters import adapt, ask
from makewhole.insured import saved
from makewhole.insured.book import BetBook
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
    read_outcomes,
)
from makewhole.insured.payments import Closing, Payments
from makewhole.insured.quotes import quote_of, with_plan
from makewhole.insured.records import Id, Open, SharedLeg, published
from makewhole.insured.refusals import Refusal, TeachingError
from makewhole.insured.settings import Default, Mode, plain_settings, read_settings, settings_from
from makewhole.insured.statement import GroupStatements, Statement
from makewhole.insured.stating import certificate_of, likely_worst, state_book, state_groups
from makewhole.insured.thaw import Thaw

# An id as callers give it: text, or a whole number of any kind.
AnyId = str | SupportsIndex

# Names a customer: herself, or the groups she belongs to, the widest first, and herself.
AnyBettor = AnyId | Sequence[AnyId]

_LIMITS = ("classes", "max_exposure", "graded", "lines", "thaw", "stop")
_SETTINGS = ("mode", "max_stake", "c_range", "one_sided", *_LIMITS)


class InsuredForecaster:
    """A forecaster that takes bets on its own forecasts, and adapts its price so that they balance.

    A forecast is a probability μ and a half-width c. A customer who stakes b receives b·(y − μ) − |b|·c when
    the outcome y is known. The base, your model, gives μ̂ and ĉ; the correction gives λ; the forecaster
    publishes μ = μ̂ and c = ĉ + λ, takes stakes, pays them, and teaches the base and the correction what
    happened. Outcomes may come late and in any order: each is credited to the λ that its forecast was made
    with.

    What to know before using it:

    - In exact mode c may be negative. Someone who then stakes both b and −b earns 2|b||c| without risk; the
      statement counts such forecasts.
    - If c is so wide that no customer stakes, nothing is learned and c stays as it is, unless there is a
      `thaw`. The statement says so after 100 forecasts without a stake.
    - With `one_sided`, c is 0 and the correction moves μ itself: μ is then the price of a bet that pays 1.
    - With K classes, exact mode has one c for all of them: a stake is paid minus its median over the classes.
      In sound mode, and one-sided, each class is a binary bet with its own correction.

    A call that raises has changed nothing, with two exceptions. `TeachingError` says that a forecast was
    settled and only the base failed to learn from it. An interrupt (Ctrl-C) may be raised just after the
    call was completed; a retry then says that the forecast is closed. One call at a time: a call from a
    signal handler, a callback or another thread while one is running raises a RuntimeError.

    Parameters
    ----------
    base
        The model: a river or scikit-learn classifier, a callable, or an object with `predict` and `learn`.
        None if you give every forecast its probability: `f.forecast(mu=0.3)`.
    correction
        How λ is adapted; a copy is used. By default `Barrier` with a capital and a spread of 0.02, or
        `StandardRegret(rate=0.1)` without one. The swap corrections react to a single outcome in full: on
        a book with few stakes, one bet may make c too wide for everyone.
    mode
        "exact": c is any number that balances the bets. "sound": c lies in [0, ½] and [μ − c, μ + c] inside
        [0, 1]; with a `Reserve` the total loss is then bounded permanently. By default sound with a capital,
        otherwise exact.
    max_stake
        M, the cap on the sum of the sizes of all stakes on one forecast (with classes, on one class; in
        exact mode, the part that is the same on all classes does not count).
    c_range
        The base's ĉ is kept in this range; if all classes have one c, their largest ĉ counts.
    one_sided
        Take only stakes >= 0, as for an event that no customer wants to happen.
    max_exposure
        The most that all open bets together may be able to lose. A stake beyond it, or beyond what the
        certificate leaves, is refused.
    capital
        The most that may ever be lost: c is widened as far as needed, and a stake on an old forecast is
        refused if its price is no longer enough. For sound mode, or one-sided. By default that of the
        correction, if it was made for one.
    lines
        `Lines`: the most each named customer may win in total, and the share of a forecast's cap that she may
        hold. By default a twenty-fifth of the capital, if there is one, and a tenth of the cap, at a c of at
        least 0.02 unless the correction was given a spread. None: all pay the same price.
    thaw
        `Thaw`: how much may be conceded to lower λ while no customer stakes. The certificate grows by this,
        unless it is a share of past profits. By default, for the default correction only: a fifth of the
        capital, which the correction then does not use; without a capital, 2·max_stake (of all classes)
        times the square root of the number of forecasts.
    stop
        Whether selling stops at a high price: a stake is refused if it can win less than half of what it
        could at the base's own price (ĉ plus the spread), unless it lowers both the most that the forecast
        can lose and the most that the customer can win. Otherwise a customer who knows the outcomes fills
        the cap for nothing once her price is ½. By default with a capital, or lines. Without names a book
        cannot tell an informed customer from the others: if she keeps coming, everyone's price rises.
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

    With your own ids, and names for customers:

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
        stop: bool | Default = "default",
    ) -> None:
        given: Any = {"mode": mode, "max_stake": max_stake, "c_range": c_range, "one_sided": one_sided}
        given |= {"max_exposure": max_exposure, "capital": capital, "classes": classes, "graded": graded}
        given |= {"lines": lines, "thaw": thaw, "stop": stop}
        chosen = read_settings(correction, **given)
        self._given = given | {"correction": copy.deepcopy(correction)}  # to try another capital
        self.max_stake, self.c_range, _, self.one_sided, _ = chosen.terms
        self.mode, self.classes, self.max_exposure = chosen.mode, chosen.classes, chosen.max_exposure
        self.graded, self.lines, self.thaw = chosen.graded, chosen.lines, chosen.thaw
        self.stop = chosen.stop
        self.base = None if base is None else adapt(base, self.classes, graded=self.graded)
        self._terms = chosen.terms
        self._lock = threading.Lock()
        self._begin(chosen.corrections, chosen.capital)

    def _begin(self, corrections: list[BookCorrection], capital: float | None) -> None:
        """Start an empty book with these corrections."""
        limits: Any = {name: getattr(self, name) for name in _LIMITS}
        self.book = BetBook(self._terms, corrections, capital=capital, **limits)

    @property
    def capital(self) -> float | None:
        """The most that may ever be lost; None if no capital is guarded."""
        with self._turn(), self.book.journal:
            return self.book.capital

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "capital":
            raise AttributeError("capital cannot be changed by assignment: call change_capital(...)")
        if name in _SETTINGS and name in self.__dict__:
            raise AttributeError(f"{name} cannot be changed: make a new InsuredForecaster")
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        if name in _SETTINGS:
            raise AttributeError(f"{name} cannot be deleted: make a new InsuredForecaster")
        object.__delattr__(self, name)

    def __repr__(self) -> str:
        with self._turn(), self.book.journal:
            first, rounds = self.book.corrections[0], self.book.everyone.totals.rounds
            return f"InsuredForecaster({first!r}, max_stake={self.max_stake!r}, rounds={rounds})"

    def _turn(self) -> threading.Lock:
        """Return the lock that every call holds; raise if a call is running.

        A call from inside another one (a signal handler, a callback, another thread) raises. An exception
        that a trace function raises between two instructions can leave the lock closed: if no thread has a
        call on its stack, the lock is replaced.
        """
        if self._lock.locked():
            if _is_running(self):
                raise RuntimeError(
                    "another call of this InsuredForecaster is running (this one came from a signal handler, "
                    "a callback or another thread): make one call at a time"
                )
            self._lock = threading.Lock()
        return self._lock

    def __getstate__(self) -> dict[str, Any]:  # for pickles
        with self._turn(), self.book.journal:
            return self.__dict__ | {"_lock": None, "book": copy.deepcopy(self.book)}

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        with self._turn(), self.book.journal:
            parts = {name: value for name, value in self.__dict__.items() if name != "_lock"}
            twin = object.__new__(type(self))
            twin.__setstate__(copy.deepcopy(parts, memo))
            return twin

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.__dict__["_lock"] = threading.Lock()

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

        If the correction is grouped, `groups` names the group or groups of the forecast; with `Balance` it
        may map names to values, from −1 to 1.
        `id` is any text or whole number; without one, forecasts are numbered. Raises `ForecastOpen` if a
        forecast with that id is open.
        """
        said = ask(self.base, self.classes, self.c_range, x, mu, c_hat)
        book = self.book
        with self._turn(), book.journal:
            names = book.read_groups(groups) if groups is not None or book.grouped else ()
            return book.open(x, said, names, id).forecast

    def peek(self, x: Any = None, *, mu: Any = None, c_hat: Any = None, groups: Any = None) -> Forecast:
        """Return what `forecast` would publish now, without opening it: no stake can be placed on it."""
        said, book = ask(self.base, self.classes, self.c_range, x, mu, c_hat), self.book
        with self._turn(), book.journal:
            legs = book.legs(said, book.read_groups(groups))
            book.journal.undo()  # a peek must not change the corrections
            return published(legs, None, self.one_sided)

    def quote(self, forecast: Forecast | AnyId, *, by: AnyBettor | None = None, losses: Any = None) -> Quote:
        """Return an open forecast at one customer's price; with her table of losses, also what she should do.

        The price is the published one, or higher if she has used up much of her line (`Lines`). It can change
        with the next call: pass `price=quote` to `stake`, and she loses no more than she was told, or the
        stake is refused. `losses` is as in `insure`. Raises `UnknownForecast` if no open forecast has this
        id, and a ValueError if the losses do not fit.
        """
        with self._turn(), self.book.journal:
            quote = quote_of(self.book, self.book.find(forecast), read_levels(by))
        return quote if losses is None else with_plan(quote, losses)

    def account(self, name: AnyId) -> Customer:
        """Return what a customer, or a group of customers, has won, and what is left of the line."""
        if self.book.lines is None:
            raise ValueError("account() needs lines: create the forecaster with capital=... or lines=...")
        with self._turn(), self.book.journal:
            return self.book.lines.customer(read_name("name", name), self.book.everyone.totals.rounds)

    def stake(
        self,
        forecast: Forecast | AnyId,
        stake: Any,
        *,
        by: AnyBettor | None = None,
        price: Any = None,
    ) -> int:
        """Place a bet, and return its place among the payments. Over a limit it is refused as a whole.

        `by` names the customer, or the groups she belongs to and herself: her payments are then in
        `settle(...).by`, and with lines she bets at her own price, which `quote` shows. `price` is the most
        that she would pay: the quote itself, or as c (one-sided, as μ) a number or one for each class. Above
        it, `PriceRefused` gives the current price.
        """
        book = self.book
        with self._turn(), book.journal:
            return book.take(book.find_to_change(forecast), stake, by, price)

    def settle(
        self, forecast: Forecast | AnyId, outcome: Any, stake: Any = None, *, by: AnyBettor | None = None
    ) -> Payments:
        """Pay every bet on a forecast, and learn; returns what each customer receives, in order of staking.

        The list's `by` has the payments of named customers. With `stake`, one last bet is placed first.
        """
        book = self.book
        with self._turn(), book.journal:
            entry = book.find_to_change(forecast)
            if stake is not None:
                outcome = book.read_outcome(outcome)  # a wrong outcome is reported before a wrong stake
                book.take(entry, stake, by)
            closed = book.close(entry, outcome)
        if self.base is not None:
            self._teach(closed, closed.payments)
        return closed.payments

    def void(self, forecast: Forecast | AnyId) -> None:
        """Void a forecast: no money changes hands, and nothing is learned."""
        with self._turn(), self.book.journal:
            self.book.void(self.book.find_to_change(forecast))

    def begin_day(self, day: int) -> None:
        """Set the day, a number that never falls: on a new day a thaw may concede `per_day` again."""
        with self._turn(), self.book.journal:
            self.book.begin_day(day)

    def change_capital(self, capital: float) -> None:
        """Deposit or withdraw: set a new capital, for a forecaster that has one.

        Raises `CapitalNeeded`, with the least capital as its `limit`, if losses, open bets or a thaw need
        more. A correction that was made for a capital must be a `Barrier`.
        """
        given = arguments.within("capital", capital, 0.0, 1e100)
        with self._turn(), self.book.journal:
            self.book.change_capital(given)

    # --- many in one call ---------------------------------------------------------------------------------

    def forecast_many(
        self, xs: Any = None, *, mu: Any = None, c_hat: Any = None, groups: Any = None, ids: Any = None
    ) -> Forecasts:
        """Publish a forecast for every row of `xs`, or with `base=None` for every probability in `mu`.

        `xs` is an array, a frame or a sequence of rows; if possible, the base is asked once for all of them.
        `groups` and `ids` are one per row. The numbers are those that `forecast` would give row by row (as
        exactly as the model's answers for a batch match); if any row does not fit, nothing is published.

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
        rows, said = ask_rows(self.base, self.book, xs, mu, c_hat)
        ids = None if ids is None else one_each("ids", ids, len(rows))
        book, named = self.book, None
        with collector_paused(), self._turn(), book.journal:
            if groups is not None or book.grouped:
                named = [book.read_groups(one) for one in one_each("groups", groups, len(rows))]
            return open_many(book, rows, said, named, ids)

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
        book = self.book
        with collector_paused(), self._turn(), book.journal:
            waiting: list[Any] = [book.opens.get(id_) for id_ in given]
            if self.base is None and set(map(type, waiting)) == {Batch} and not book.frozen():
                check_outcomes(given.values(), graded=self.graded)
                close_unstaked(book, list(given), waiting, given.values())
                return {id_: Payments() for id_ in given}
            entries = [book.find_to_change(id_) for id_ in given]
            settled = [book.close(entry, given[entry.id]) for entry in entries]
        payments = {closed.entry.id: closed.payments for closed in settled}
        for closed in settled if self.base is not None else ():
            self._teach(closed, payments)
        return payments

    def _teach(self, closed: Closing, payments: Any) -> None:
        """Let the base learn: features, outcome, what it had said, and the stakes divided by the cap."""
        base: Any = self.base
        entry = closed.entry
        mu_hat, net, gross = _said_and_staked(entry, self.max_stake)
        try:
            base.learn(entry.x, closed.outcome, mu=mu_hat, net=net, gross=gross)
        except Exception as error:
            message = f"forecast {entry.id!r} was settled, but the base failed to learn from it: {error!r}"
            raise TeachingError(message, payments) from error

    # --- reports ------------------------------------------------------------------------------------------

    @property
    def open_forecasts(self) -> list[Forecast]:
        """The forecasts not yet settled or voided, oldest first."""
        with self._turn(), self.book.journal:
            return [entry.forecast for entry in self.book.entries()]

    @property
    def corrections(self) -> list[Any]:
        """The corrections as they stand, copied: one, or in sound mode and one-sided one for each class."""
        with self._turn(), self.book.journal:
            return self.book.memories.as_objects()

    def certificate(self, group: Name | None = None) -> Certificate:
        """Return the most that can be lost, in total or by one group."""
        with self._turn(), self.book.journal:
            return certificate_of(self.book, group)

    def likely_worst(self, confidence: float, *, cluster: Any = None) -> float:
        """Return what the open bets lose at most with this confidence, if the forecasts are right within c.

        The capital counts open bets as if all were lost together. This is the number that insurers use beside
        it: it is exceeded with a probability of at most 1 − confidence if forecasts are right given all that
        stakers knew, and clusters, such as days, are independent; inside a cluster there may be any
        dependence. It decides nothing. `cluster` is a function of a forecast's id, a mapping from ids, or a
        list with a label for each open forecast, the oldest first; without it all are one cluster.

        Examples
        --------
        >>> import makewhole as mw
        >>> f = mw.InsuredForecaster(max_stake=1, capital=1000)
        >>> places = [f.stake(f.forecast(mu=0.2), 1.0) for _ in range(1000)]
        >>> round(f.likely_worst(0.995)), round(f.likely_worst(0.995, cluster=lambda id: id % 20))
        (780, 336)
        """
        with self._turn(), self.book.journal:
            return likely_worst(self.book, confidence, cluster)

    def statement(self) -> Statement:
        """Return rounds, turnover, losses, exposure and the worst case; `groups` has them for each group."""
        book = self.book
        with self._turn(), book.journal:
            groups = GroupStatements(self._state_groups, self._count_changes) if book.grouped else {}
            return state_book(book, None, groups)

    def _state_groups(self) -> dict[Name, Statement]:
        with self._turn(), self.book.journal:
            return state_groups(self.book)

    def _count_changes(self) -> int:
        return self.book.journal.changes

    def proposed(self, forecast: Forecast | AnyId) -> list[float]:
        """Return the λ with which an open forecast was made, one for each class."""
        with self._turn(), self.book.journal:
            lams = [leg.proposal.lam for leg in self.book.find(forecast).legs]
        return lams * ((self.classes or 1) // len(lams))  # classes at one price are one leg

    def check_stake(self, stake: Any) -> None:
        """Raise what staking this on a fresh forecast would raise, exposure aside."""
        with self._turn(), self.book.journal:
            self.book.reader.read(None, stake)

    # --- as plain data ------------------------------------------------------------------------------------

    def to_state(self) -> dict[str, Any]:
        """Return all except the base as plain data: settings, corrections, and the records of the book."""
        with self._turn(), self.book.journal:
            return plain_forecaster(self)

    @classmethod
    def from_state(
        cls, state: Mapping[str, Any], base: Any = None, correction: type[Correction] | None = None
    ) -> Self:
        """Continue from what `to_state()` returned, with the base that you kept.

        `correction` is the class of the correction, if it is your own. Raises a ValueError for a state that
        no forecaster can have had.
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
        objects = [saved.read_correction(one, correction) for one in state["corrections"]]
        if not objects:
            raise ValueError("there must be at least one correction; got none")
        made = cls(base, objects[0], **settings)
        capital = made.capital
        made._begin(saved.restored_corrections(objects, made._terms, made.book), capital)
        saved.read_book(state["book"], made.book)
        return made

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything except the base to a versioned file of plain data.

        After a crash in the middle, the previous file is still there. Save the base yourself.
        """
        saving.write(path, kind=saved.KIND, version=saved.VERSION, content=self.to_state())

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], base: Any = None, correction: type[Correction] | None = None
    ) -> Self:
        """Continue from a file that `save` wrote, with the base that you kept.

        `correction` is the class of the correction, if it is your own.
        """
        content = saving.read(path, kind=saved.KIND, version=saved.VERSION)
        try:
            return cls.from_state(content, base, correction)
        except (KeyError, IndexError, TypeError, AttributeError) as error:
            raise ValueError(f"{path} is damaged: {error!r}") from error
        except ValueError as error:
            raise ValueError(f"{path} cannot be loaded: {error}") from None


def plain_forecaster(f: InsuredForecaster) -> dict[str, Any]:
    """A forecaster as plain data; a ledger calls this in the middle of a group of changes."""
    settings = {name: getattr(f, name) for name in _SETTINGS} | {"capital": f.book.capital}
    return {
        "settings": plain_settings(settings),
        "corrections": [saved.plain_correction(one) for one in f.book.corrections],
        "base": f.base is not None,
        "book": saved.plain_book(f.book, keep_x=f.base is not None),
    }


def _said_and_staked(entry: Open, cap: float) -> tuple[Any, Any, Any]:
    """What the base had said, and the net and gross stakes divided by the cap; with classes, arrays."""
    first, several = entry.legs[0], len(entry.legs) > 1
    if several:
        columns = [[getattr(leg, name) for leg in entry.legs] for name in ("mu_hat", "net", "gross")]
    elif isinstance(first, SharedLeg):
        columns = [list(numbers) for numbers in (first.mus, first.nets, first.grosses)]
    else:
        return first.mu_hat, first.net / cap, first.gross / cap
    mu_hat, net, gross = (np.array(column) for column in columns)
    return mu_hat, net / cap, gross / cap


def _is_running(f: InsuredForecaster) -> bool:
    """Whether a call of this forecaster, other than the one that asks, is on the stack of a thread."""
    asking = sys._getframe(2)  # noqa: SLF001 - the call that asked for its turn
    for frame in sys._current_frames().values():  # noqa: SLF001 - the stacks of all threads
        caller: FrameType | None = frame
        while caller is not None:
            own = caller.f_code in _CALLS and caller.f_locals.get("self") is f
            if own and caller is not asking:
                return True
            caller = caller.f_back
    return False


# The code of every method that takes a turn, to recognise a running call on a stack.
_CALLS = {
    member.__code__
    for name, member in vars(InsuredForecaster).items()
    if isinstance(member, FunctionType) and name not in ("_turn", "save", "__setattr__")
} | {
    member.fget.__code__
    for member in vars(InsuredForecaster).values()
    if isinstance(member, property) and isinstance(member.fget, FunctionType)
}
