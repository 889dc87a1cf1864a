"""A backtest that drives a real `InsuredForecaster`, bet by bet: slower, and right by construction."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from makewhole import frames, multiclass
from makewhole.agents import CUSTOMER_KINDS, Customers
from makewhole.backtesting._late_loop import would_stake
from makewhole.backtesting.log import Log
from makewhole.backtesting.result import BacktestResult, Served
from makewhole.backtesting.run import Sums
from makewhole.decisions import Forecast
from makewhole.insured.forecaster import InsuredForecaster
from makewhole.insured.refusals import StakeRefused
from makewhole.rules import add_exactly

# The number of bets between reports of progress.
_REPORT = 1000


class Question(NamedTuple):
    """The subject of a forecast: what the model says, what happened, and when its outcome was known.

    `row` is its first row in the log.
    """

    mu: Any
    c_hat: float | None
    outcome: float
    groups: tuple[Any, ...]
    known: int
    row: int
    customer: tuple[int, float, float] | None


class Placed(NamedTuple):
    """A stake of the log: its forecast, amount, row and customer."""

    forecast: int
    stake: Any
    row: int
    by: Any = None


class OpenBets(NamedTuple):
    """An open forecast: as published, the λ that it was made with, and the bets that were taken."""

    question: Question
    forecast: Forecast
    lams: list[float]
    bets: list[Placed]


class LiveRun:
    """Replays a log through a forecaster, in order of time."""

    def __init__(
        self,
        log: Log,
        forecaster: InsuredForecaster,
        *,
        trace: bool,
        customers: Customers | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        self.log, self.forecaster, self.progress = log, forecaster, progress
        self.late = log.late
        self.people = None if customers is None else customers.begin(forecaster.max_stake)
        self.places = {name: k for k, name in enumerate(log.group_names)}
        self.sums = Sums(log, self._trace_names() if trace else ())
        self.questions: list[Question] = []
        self.open: dict[int, OpenBets] = {}
        self.due: list[tuple[int, int]] = []  # (when known, number) of open forecasts: a heap
        self.to_come: list[int] = []  # how many stakes of each forecast are still to come
        self.total, self.low = 0.0, 0.0
        self.fair = 0.0  # what would have been lost at the model's own odds
        self.settled: list[tuple[float, float, int]] = []  # after each settlement: total loss, λ, row
        self.c_sum, self.width, self.negative, self.wanted = 0.0, 0.0, 0, 0.0
        self.refused, self.refused_stake = 0, 0.0
        self.most_open = 1
        self.by_kind = np.zeros((4, 2))  # of each kind of customers: stakes at c = 0, and those placed

    def _trace_names(self) -> tuple[str, ...]:
        each, K = ("mu", "c", "lam"), self.forecaster.classes
        shown = each if K is None else [f"{name}[{k}]" for name in each for k in range(K)]
        return (*shown, "payment", *(["stake"] if self.people is not None else []))

    def run(self) -> BacktestResult:
        """Replay the whole log, and return the result."""
        bets = self._read()
        for done, bet in enumerate(bets, 1):
            if self.late:
                self._settle(until=self._time(bet))
            elif bet.forecast not in self.open:
                self._settle()
            if bet.forecast not in self.open:
                self._publish(bet.forecast)
            self._take(bet)
            self.to_come[bet.forecast] -= 1
            if self.progress is not None and (done % _REPORT == 0 or done == len(bets)):
                self.progress(done if done < len(bets) else self.log.rows, self.log.rows)
        self._settle()
        if self.settled:
            total, lam, rows = zip(*self.settled, strict=True)
            self.sums.path.extend(np.array(total), np.array(lam), lambda at: rows[at])
        return self._result()

    def _time(self, bet: Placed) -> int:
        return int(self.log.clock.time[bet.row])  # type: ignore[union-attr]  # asked for late outcomes only

    def _read(self) -> list[Placed]:
        """Read the log into questions and bets; returns the bets in order of time."""
        bets: list[Placed] = []
        names, by = self.log.group_names, self.log.bettors()
        for chunk in self.log.chunks(self.forecaster.max_stake):
            mu, width, outcome = (column.tolist() for column in chunk.columns[:3])
            first, count = len(self.questions), len(outcome)
            known = range(first, first + count) if chunk.times is None else chunk.times[1].tolist()
            rows = chunk.first_rows().tolist()
            people: Any = [None] * count
            if self.people is not None:
                drawn = self.people.draw(count, chunk.view)
                people = list(zip(*(column.tolist() for column in drawn), strict=True))
            for k in range(count):
                groups = () if chunk.groups is None else tuple(names[g] for g in chunk.groups[k])
                c_hat = None if self.log.names["c_hat"] is None else width[k]
                y = outcome[k] if self.log.graded else int(outcome[k])
                said = (mu[k], c_hat, y, groups)
                self.questions.append(Question(*said, known[k], rows[k], people[k]))
            which = range(count) if chunk.forecast is None else chunk.forecast.tolist()
            all_rows = np.arange(self.log.rows)[chunk.rows].tolist()
            stakes = zip(which, chunk.stake.tolist(), all_rows, strict=True)
            bets += [Placed(first + forecast, b, row, by and by[row]) for forecast, b, row in stakes]
            self.to_come += np.bincount(np.asarray(which, dtype=np.int64), minlength=count).tolist()
        return sorted(bets, key=self._time) if self.late else bets

    def _publish(self, number: int) -> None:
        question, f = self.questions[number], self.forecaster
        groups = list(question.groups) or None
        forecast = f.forecast(mu=question.mu, c_hat=question.c_hat, groups=groups)
        lams = f.proposed(forecast)
        self.open[number] = OpenBets(question, forecast, lams, [])
        heapq.heappush(self.due, (question.known, number))
        self.most_open = max(self.most_open, len(self.open))
        c = _mean(forecast.c)
        self.sums.rounds += 1
        self.c_sum += c
        self.width += abs(c)
        self.negative += c < 0
        for name in question.groups:
            self.sums.by_group[[0, 3], self.places[name]] += 1.0, c

    def _take(self, bet: Placed) -> None:
        """Place a bet. If the forecaster refuses it, count it and go on."""
        open_ = self.open[bet.forecast]
        question, forecast = open_.question, open_.forecast
        if question.customer is not None:
            y, sided = float(question.outcome), forecast.one_sided
            wanted = abs(would_stake(*question.customer, question.mu, 0.0, y, sided))
            self.wanted += wanted
            self.by_kind[question.customer[0], 0] += wanted
            seen = forecast if bet.by is None else self.forecaster.quote(forecast, by=bet.by)
            mu, c = float(seen.mu), float(seen.c)
            bet = bet._replace(stake=would_stake(*question.customer, mu, c, y, sided))
        try:
            self.forecaster.stake(forecast, bet.stake, by=bet.by)
        except StakeRefused:
            self.refused += 1
            self.refused_stake += self._charged_for(bet.stake)
            self._keep(open_, bet._replace(stake=np.zeros_like(bet.stake)), 0.0)
            return
        open_.bets.append(bet)
        if question.customer is not None:
            self.by_kind[question.customer[0], 1] += abs(bet.stake)

    def _settle(self, until: int | None = None) -> None:
        """Settle what was known by `until`, or all that is open: in order of `known`, then by number.

        A stake at the time at which its own outcome is known still counts, and comes first.
        """
        while self.due and (until is None or self.due[0][0] <= until):
            if until is not None and self.to_come[self.due[0][1]]:
                return
            open_ = self.open.pop(heapq.heappop(self.due)[1])
            question, turnover = open_.question, 0.0
            payments = self.forecaster.settle(open_.forecast, question.outcome)
            for bet, paid in zip(open_.bets, payments, strict=True):
                turnover += self._charged_for(bet.stake)
                self.total, self.low = add_exactly(self.total, self.low, paid)
                self.fair += _at_fair_odds(bet.stake, question)
                self._keep(open_, bet, paid)
            self.sums.turnover += turnover
            for name in question.groups:
                self.sums.by_group[1:3, self.places[name]] += turnover, sum(payments)
            self.settled.append((self.total + self.low, _mean(open_.lams), question.row))

    def _charged_for(self, stake: Any) -> float:
        """The size of a stake; at one price, Σ|b − median|."""
        return _size(multiclass.centred(stake) if self.log.one_price else stake)

    def _keep(self, open_: OpenBets, bet: Placed, paid: float) -> None:
        """Write a row of the trace."""
        trace, K = self.sums.trace, self.forecaster.classes
        if trace is None:
            return
        trace["payment"][bet.row] = paid
        if "stake" in trace:
            trace["stake"][bet.row] = bet.stake
        shown = {"mu": open_.forecast.mu, "c": open_.forecast.c, "lam": open_.lams}
        for name, values in shown.items():
            for k, value in enumerate(np.atleast_1d(values)):
                trace[name if K is None else f"{name}[{k}]"][bet.row] = value

    def _served(self) -> dict[str, Served]:
        kinds = zip(CUSTOMER_KINDS, self.by_kind.tolist(), strict=False)  # the last is no customer
        return {name: Served(*both) for name, both in kinds if both[0]}

    def _result(self) -> BacktestResult:
        f, rounds = self.forecaster, self.sums.rounds
        corrections = tuple(f.corrections)
        return self.sums.result(
            correction=corrections[0],
            corrections=corrections,
            max_stake=f.max_stake,
            total_loss=f.statement().total_loss,
            premiums=self.fair - self.total,
            negative_c=self.negative,
            mean_c=self.c_sum / rounds if rounds else 0.0,
            mean_size_of_c=self.width / rounds if rounds else 0.0,
            certificate=f.certificate(),
            capital=f.capital,
            refused=self.refused,
            refused_stake=self.refused_stake,
            wanted_stake=None if self.people is None else self.wanted,
            served=self._served(),
            most_open=self.most_open,
            backend=frames.backend_of(self.log.frame),
        )


# In binary logs these are plain floats: NumPy would take as long for one as the forecaster for a bet.


def _size(stake: Any) -> float:
    return abs(stake) if type(stake) is float else float(np.abs(stake).sum())


def _mean(values: Any) -> float:
    if type(values) is float:
        return values
    if len(values) == 1 or len(set(values)) == 1:  # the mean of three equal numbers may be rounded
        return float(values[0])
    return float(np.mean(values))


def _at_fair_odds(stake: Any, question: Question) -> float:
    """Return what a stake wins at the model's own odds."""
    if type(stake) is float:
        return stake * (question.outcome - float(question.mu))
    happened = np.arange(len(stake)) == question.outcome
    return float((np.asarray(stake) * (happened - np.asarray(question.mu))).sum())
