"""Algorithm 1: a forecaster that stands behind what it says.

x -> base (μ̂, ĉ) -> correction (λ) -> Forecast(μ, c) -> stakes -> outcome -> payments -> learn
"""

from __future__ import annotations

import copy
import os
from typing import Any, Literal, Self, SupportsIndex

import numpy as np

from makewhole import arguments, saving
from makewhole.corrections import Correction, Reserve, StandardRegret
from makewhole.corrections._kernels import balance, publish, refine
from makewhole.corrections.base import Stepped
from makewhole.corrections.grouped import Grouped
from makewhole.corrections.members import Name, read_names
from makewhole.decisions import Forecast
from makewhole.forecasters import BaseForecaster, adapt, ask
from makewhole.insured.book import Book, Line, OpenForecast, published
from makewhole.insured.saved import content_of, restored
from makewhole.insured.standing import limits_of, statement_of
from makewhole.insured.statement import (
    ConservationError,
    ForecastClosed,
    Refusal,
    StakeRefused,
    Statement,
    UnknownForecast,
)
from makewhole.insured.totals import Tally

_KIND, _VERSION = "makewhole.insured", 2


class InsuredForecaster:
    """A forecaster that takes fair bets on what it says, and adapts so that they balance.

    It publishes μ = μ̂ and c = ĉ + λ: the base says μ̂ and ĉ, the correction λ. Whoever stakes b on a
    forecast receives b·(y − μ) − |b|·c when it is settled. Outcomes may come late and in any order; each is
    credited to the λ its forecast was made with.

    In `exact` mode c may be negative: then someone who stakes both b and −b earns 2|b||c| for nothing (the
    statement counts such forecasts). One-sided, c is 0 and everything
    goes into μ, the ask. With K classes each class is a binary bet of its own, with a correction and a
    cap of its own; there a negative c is published as 0, so that the books balance in the agents' favour
    only up to there.

    A book that nobody trades on is balanced, too: where c is so wide that nobody stakes, nothing is learned
    and nothing changes. The statement says so when it goes on for long.

    It belongs to one thread at a time. When a call raises, nothing has changed. (Only a base or a correction
    of your own that itself breaks down half-way in learning may have learned.)

    Parameters
    ----------
    base
        A base learner, a river or scikit-learn classifier, a callable; or None, and every forecast is
        given its probability: `f.forecast(mu=0.3)`.
    correction
        By default `StandardRegret(rate=0.1)`. It is copied, not shared. The swap corrections answer a
        single outcome at once and in full: on a book with few stakes that may price everybody out.
    mode
        "exact": c is whatever balances the books. "sound": honest intervals, c in [0, ½] and [μ − c, μ + c]
        inside [0, 1]; with a `Reserve` the total loss is bounded for ever.
    max_stake
        M, the cap on the gross stake Σ|b| of one forecast (of one class).
    c_range
        Where the base's ĉ is kept.
    one_sided
        Take only stakes >= 0: the event is never good news.
    max_exposure
        The most that all open bets together may be able to lose, class by class; a stake that goes beyond, or
        beyond what the certificate leaves, is refused.
    capital
        The solvency guard: c is widened so that, come what may, no more than this is ever lost.
    classes
        None for a binary event, else K; outcomes are then 0 … K−1 and stakes arrays of K numbers.

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
    """

    def __init__(
        self,
        base: Any = None,
        correction: Correction | None = None,
        *,
        mode: Literal["exact", "sound"] = "exact",
        max_stake: float,
        c_range: tuple[float, float] = (0.0, 0.5),
        one_sided: bool = False,
        max_exposure: float | None = None,
        capital: float | None = None,
        classes: int | None = None,
    ) -> None:
        if mode not in ("exact", "sound"):
            raise ValueError(f"mode must be 'exact' or 'sound'; got {mode!r}")
        if capital is not None and mode == "exact" and not one_sided:
            raise ValueError("capital can be guarded in sound mode only, or one-sided; got mode='exact'")
        self.max_stake = arguments.within("max_stake", max_stake, 1e-100, 1e100)
        self.c_range = arguments.interval("c_range", c_range)
        for end in self.c_range:  # far beyond, rounding would eat what is learned
            arguments.within("c_range", end, -100.0, 100.0)
        self.one_sided = bool(one_sided)
        self.classes = None if classes is None else arguments.whole("classes", classes, least=2)
        self.mode = mode
        self.max_exposure = None if max_exposure is None else arguments.positive("max_exposure", max_exposure)
        self.capital = None if capital is None else arguments.positive("capital", capital)
        if self.capital is not None and self.capital < 1e-6 * self.max_stake:
            raise ValueError(f"capital must be at least a millionth of max_stake; got {capital!r}")
        self.base = None if base is None else adapt(base, self.classes)
        if correction is None:
            correction = StandardRegret(rate=0.1)
        elif not isinstance(correction, Correction):
            raise TypeError(
                f"correction must have propose, observe, state and from_state; got {correction!r}"
            )
        if isinstance(correction, (Reserve, Grouped)):
            correction = correction.in_mode(mode, one_sided, self.c_range).begun()
        self.corrections: list[Correction] = [copy.deepcopy(correction) for _ in range(self.classes or 1)]
        self._rules = (self.one_sided, mode == "sound", bool(getattr(correction, "integrates", False)))
        self._ours = isinstance(correction, (Stepped, Grouped))
        self._grouped = bool(getattr(correction, "grouped", False))
        self._composed = isinstance(getattr(correction, "correction", correction), Reserve)
        self._book = Book(
            self.max_stake,
            len(self.corrections),
            capped=self.max_exposure is not None,
            guarded=self.capital is not None,
            watched=self._composed,
        )
        self._next = 0
        # No forecast can lose or win more, with corrections that stay among their targets.
        widest = 2.0 + self.c_range[1] - self.c_range[0]
        self._loss_range = len(self.corrections) * self.max_stake * widest
        self._tally = Tally(self._loss_range)
        self._tallies: dict[Name, Tally] = {}  # of each group

    def __repr__(self) -> str:
        kind, cap = self.corrections[0], self.max_stake
        return f"InsuredForecaster({kind!r}, max_stake={cap!r}, rounds={self._tally.rounds})"

    # --- forecast -> stakes -> settle ---------------------------------------------------------------------

    def forecast(self, x: Any = None, *, mu: Any = None, c_hat: Any = None, groups: Any = None) -> Forecast:
        """Publish a forecast for x, or with `base=None` for a probability `mu` (and ĉ = `c_hat`).

        Where the correction is grouped, `groups` is the name, or are the names, of those it belongs to.
        """
        names = () if groups is None and not self._grouped else self._named(groups)
        forecast, said, lines = self._quote(self.corrections, (x, mu, c_hat), names)
        zero = [0.0] * len(lines)
        self._book.enter(self._next, OpenForecast(forecast, x, said, lines, [], zero, zero[:], names))
        self._next += 1
        return forecast

    def peek(self, x: Any = None, *, mu: Any = None, c_hat: Any = None, groups: Any = None) -> Forecast:
        """What `forecast` would publish now, without opening anything: no stake can be placed on it."""
        names = () if groups is None and not self._grouped else self._named(groups)
        correctors = [
            c.glimpse(names) if isinstance(c, Grouped) else copy.deepcopy(c) for c in self.corrections
        ]
        quoted, _, _ = self._quote(correctors, (x, mu, c_hat), names)
        return Forecast(quoted.mu, quoted.c, None, quoted.classes, quoted.one_sided, quoted.simplex)

    def stake(self, forecast: Forecast | SupportsIndex, stake: Any) -> int:
        """Place a bet; returns its place among the payments. Over the cap it is refused whole."""
        open_ = self._find(forecast)
        self._book.add(open_, self._taken(open_, stake))
        return len(open_.stakes) - 1

    def settle(self, forecast: Forecast | SupportsIndex, outcome: Any, stake: Any = None) -> list[float]:
        """Pay every bet on a forecast, and learn; returns what each agent receives, in order of staking.

        With `stake`, one last bet is placed first.
        """
        open_ = self._find(forecast)
        y = arguments.outcome(outcome, self.classes)
        if stake is not None:
            open_ = open_.with_stake(self._taken(open_, stake))
        payments = [0.0] * len(open_.stakes)
        losses, negative, lessons, inner_lessons = [], False, [], []
        for k, (mu, c, origin, proposal, inner) in enumerate(open_.lines):
            happened = float(y if self.classes is None else y == k)
            net, gross = open_.nets[k], open_.grosses[k]
            lost, target, weight = balance(mu, c, origin, happened, net, gross, self.max_stake)
            error = happened - mu
            for i, staked in enumerate(open_.stakes):
                payments[i] += staked[k] * error - abs(staked[k]) * c
            losses.append(lost)
            negative |= c < 0
            lessons.append((proposal, target, weight))
            if inner is not None:  # its own target, z − ĉ
                inner_lessons.append((inner[1], target + origin - inner[0], weight))
        loss, turnover = sum(losses), sum(open_.grosses)
        if not abs(sum(payments) - loss) <= 1e-9 * (turnover + abs(loss)) + 1e-300:
            raise ConservationError(f"payments add up to {sum(payments)!r}, the loss is {loss!r}")
        if self.base is not None:
            self._teach(self.base, open_, y)
        correctors = self._members(self.corrections, open_.groups) if self._grouped else self.corrections
        self._correct(correctors, lessons)
        for reserve, (proposal, target, weight) in zip(correctors, inner_lessons, strict=False):
            reserve.over.observe(proposal, target, weight)  # type: ignore[attr-defined]  # a reserve over it
        self._book.leave(open_, losses)
        self._tally.settled(loss, turnover, len(payments), negative)
        for name in open_.groups:
            self._of(name).settled(loss, turnover, len(payments), negative)
        return payments

    def void(self, forecast: Forecast | SupportsIndex) -> None:
        """Call a forecast off: nobody pays, nothing is learned."""
        open_ = self._find(forecast)
        self._book.leave(open_)
        self._tally.voided += 1
        for name in open_.groups:
            self._of(name).voided += 1

    def statement(self) -> Statement:
        """Rounds, turnover, losses, open exposure and what can be lost at worst; `groups`: of each group."""
        return statement_of(self)

    @property
    def open_forecasts(self) -> list[Forecast]:
        """The forecasts not yet settled or voided, oldest first."""
        return [o.forecast for o in self._book.open.values()]

    # --- the steps ----------------------------------------------------------------------------------------

    def _quote(
        self, correctors: list[Correction], said: tuple[Any, Any, Any], groups: tuple[Name, ...]
    ) -> tuple[Forecast, tuple[float, ...], list[Line]]:
        """Ask the base, then the corrections, and put the two together. Only the corrections move."""
        mus, widths = ask(self.base, self.classes, self.c_range, said)
        if self._grouped:
            correctors = self._members(correctors, groups)
        lines, least = [], 0.0 if self.capital is None else self._least(self.capital)
        for corrector, mu_hat, width in zip(correctors, mus, widths, strict=True):
            proposal, inner, refined = corrector.propose(), None, width
            over = getattr(corrector, "over", None) if self._composed else None
            if over is not None:
                inner = (width, over.propose())
                refined = refine(width, inner[1].lam)
            mu_k, c_k, origin = publish(mu_hat, refined, proposal.lam, self._rules, least)
            if c_k < 0 and self.classes is not None:  # negative prices are refused for classes
                c_k = 0.0
            lines.append((mu_k, c_k, origin, proposal, inner))
        return published(lines, self._next, self.classes, self.one_sided), mus, lines

    def _named(self, groups: Any) -> tuple[Name, ...]:
        """The groups of a forecast, valid."""
        if not self._grouped:
            raise TypeError(
                f"groups need a grouped correction, Grouped(...) or Reserve(overlapping=True); got {groups!r}"
            )
        correction: Any = self.corrections[0]
        names: tuple[Name, ...] = correction.checked(read_names("groups", groups))
        return names

    def _members(self, correctors: list[Correction], groups: tuple[Name, ...]) -> list[Correction]:
        """The corrections of a forecast that belongs to these groups."""
        return [corrector.member(groups) for corrector in correctors]  # type: ignore[attr-defined]  # grouped

    def _of(self, group: Name) -> Tally:
        return self._tallies.setdefault(group, Tally(self._loss_range))

    def _least(self, capital: float) -> float:
        """The least c (one-sided: ask) at which a forecast cannot lose more than is left of the capital."""
        left = capital - self._tally.total - sum(self._book.all.potential)
        left = max(0.0, left - 1e-12 * self.max_stake) / len(self.corrections)  # rounding must not pass it
        return 1.0 - left / self.max_stake if self.one_sided else 0.5 - left / (2 * self.max_stake)

    def _find(self, forecast: Forecast | SupportsIndex) -> OpenForecast:
        number: Any = forecast.id if isinstance(forecast, Forecast) else forecast
        if type(number) is not int and isinstance(number, np.integer):
            forecast = number = int(number)
        open_ = self._book.open.get(number) if type(number) is int else None
        if open_ is not None and (
            open_.forecast is forecast or number is forecast or open_.forecast == forecast
        ):
            return open_
        if open_ is None and type(number) is int and 0 <= number < self._next:
            raise ForecastClosed(f"forecast {number} was settled or voided before")
        raise UnknownForecast(f"no such forecast was made here; got {forecast!r}")

    def check_stake(self, stake: Any) -> None:
        """Raise what staking this on a fresh forecast would raise, exposure aside."""
        self._accepted([0.0] * len(self.corrections), stake)

    def _taken(self, open_: OpenForecast, stake: Any) -> tuple[float, ...]:
        """The stake as one number per line, if the caps leave room for it."""
        staked = self._accepted(open_.grosses, stake)
        if self.max_exposure is not None:
            self._book.check(open_, staked, self.max_exposure, limits_of(self, open_, self.max_exposure))
        return staked

    def _accepted(self, grosses: list[float], stake: Any) -> tuple[float, ...]:
        """The stake as one number per line, if it is taken on top of what is there."""
        if type(stake) is float and -np.inf < stake < np.inf and self.classes is None:
            staked: tuple[float, ...] = (stake,)
        else:
            array = arguments.numbers("stake", stake)
            shape = () if self.classes is None else (self.classes,)
            if array.shape != shape:
                raise ValueError(f"stake must have shape {shape}; got {array.shape}")
            staked = tuple(np.atleast_1d(array).tolist())
        for k, b in enumerate(staked):
            if self.one_sided and b < 0:
                raise StakeRefused(f"stakes must not be negative on a one-sided forecast; got {b}", 0.0)
            if grosses[k] + abs(b) > self.max_stake:
                left, where = self.max_stake - grosses[k], f" on class {k}" if self.classes else ""
                message = f"stake {b}{where} is over the cap of {self.max_stake} per forecast: {left} is left"
                raise StakeRefused(message, left)
        return staked

    def _correct(self, correctors: list[Correction], lessons: list[tuple[Any, float, float]]) -> None:
        """All corrections learn, or none: ours take every lesson, somebody else's may refuse one."""
        before = None if self._ours else copy.deepcopy(self.corrections)
        try:
            for correction, (proposal, target, weight) in zip(correctors, lessons, strict=True):
                if weight:
                    correction.observe(proposal, target, weight)
        except BaseException:
            self.corrections = before or self.corrections
            raise

    def _teach(self, base: BaseForecaster, open_: OpenForecast, y: int) -> None:
        shape = () if self.classes is None else (self.classes,)
        said, net, gross = (np.reshape(v, shape) for v in (open_.said, open_.nets, open_.grosses))
        net, gross = net / self.max_stake, gross / self.max_stake
        base.learn(
            open_.x, y, mu=arguments.plain(said), net=arguments.plain(net), gross=arguments.plain(gross)
        )

    # --- save and load ------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything but the base to a versioned file of plain data.

        A crash in the middle leaves the file that was there before. The base is saved by its owner.
        """
        saving.write(path, kind=_KIND, version=_VERSION, content=content_of(self))

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], base: Any = None, correction: type[Correction] | None = None
    ) -> Self:
        """Continue from a file that `save` wrote, with the base its owner has kept.

        `correction` is the class of the correction, where it is not one of ours.
        """
        content = saving.read(path, kind=_KIND, version=_VERSION)
        try:
            return restored(cls, content, base, correction)  # type: ignore[no-any-return]  # it is a cls
        except (KeyError, IndexError, TypeError, AttributeError) as error:
            raise ValueError(f"{path} is damaged: {error!r}") from error
        except (ValueError, Refusal) as error:
            raise ValueError(f"{path} cannot be loaded: {error}") from None
