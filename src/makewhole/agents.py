"""Agents: decision makers who act on a forecast, and adversaries who bet against the forecaster.

An agent has one method, `act`: it takes a `Forecast` and returns a `Decision`. An agent that knows more than
the forecast gets a function when it is made: a clairvoyant gets `nature.outcome`, an insider
`nature.probability`. Adversaries stake `size` per forecast.

`Customers` is different: it simulates who would bet on the forecasts of a log that has no stakes.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np

from makewhole import arguments
from makewhole.arguments import Floats
from makewhole.corrections import Correction, for_book
from makewhole.decisions import Forecast, Plan, Rule, decide, insure


class Decision(NamedTuple):
    """An agent's answer: an action, a stake, and the action's loss under each outcome.

    `losses` is None for an agent that only bets.
    """

    action: Any
    stake: Any
    losses: Any = None


# --- honest decision makers -------------------------------------------------------------------------------


class _Decides:
    """An agent with a loss table, or with a function that returns a new table for every round."""

    def __init__(self, losses: Any) -> None:
        self.losses = losses

    def act(self, forecast: Forecast) -> Decision:
        """Choose an action and a stake for one forecast."""
        table = self.losses() if callable(self.losses) else self.losses
        plan = self._plan(forecast, table)
        return Decision(plan.action, plan.stake, np.asarray(table[plan.action], dtype=np.float64))

    def _plan(self, forecast: Forecast, table: Any) -> Plan:
        raise NotImplementedError


class _ByRule(_Decides):
    rule: ClassVar[Rule]

    def _plan(self, forecast: Forecast, table: Any) -> Plan:
        return decide(forecast, table, rule=self.rule)


class Trustful(_ByRule):
    """Takes the action with the smallest expected loss under μ, and stakes nothing.

    Examples
    --------
    >>> import makewhole as mw
    >>> mw.agents.Trustful({"fly": (-100, 100), "drive": (-40, -40)}).act(mw.Forecast(0.2)).action
    'fly'
    """

    rule = "trustful"


class Naive(_ByRule):
    """Takes the action with the smallest loss if nothing goes wrong (outcome 0), and stakes nothing.

    Examples
    --------
    >>> import makewhole as mw
    >>> mw.agents.Naive({"fly": (-100, 100), "drive": (-40, -40)}).act(mw.Forecast(0.9)).action
    'fly'
    """

    rule = "naive"


class Cautious(_ByRule):
    """Takes the action with the smallest worst-case loss, and stakes nothing.

    Examples
    --------
    >>> import makewhole as mw
    >>> mw.agents.Cautious({"fly": (-100, 100), "drive": (-40, -40)}).act(mw.Forecast(0.1)).action
    'drive'
    """

    rule = "cautious"


class Insured(_Decides):
    """Takes the action with the smallest worst-case total loss, bets included, and the stake for it.

    Parameters
    ----------
    losses
        A loss table (see `makewhole.insure`), or a function that returns a new one for every round.
    max_stake
        The largest stake; None for no limit.

    Examples
    --------
    >>> import makewhole as mw
    >>> mw.agents.Insured({"use": (2, -10), "skip": (0, 0)}).act(mw.Forecast(0.5))[:2]
    ('use', -12.0)
    """

    def __init__(self, losses: Any, max_stake: float | None = None) -> None:
        super().__init__(losses)
        self.max_stake = max_stake

    def _plan(self, forecast: Forecast, table: Any) -> Plan:
        return insure(forecast, table, max_stake=self.max_stake)


# --- adversaries ------------------------------------------------------------------------------------------


class Clairvoyant:
    """Knows the outcome, and bets on it if it wins more than the bet costs.

    Parameters
    ----------
    knows
        A function that returns the outcome of the round, such as `nature.outcome`.
    size
        How much it stakes.

    Examples
    --------
    >>> import makewhole as mw
    >>> mw.agents.Clairvoyant(knows=lambda: 0).act(mw.Forecast(0.3, 0.1)).stake
    -1.0
    >>> mw.agents.Clairvoyant(knows=lambda: 0).act(mw.Forecast(0.3, 0.4)).stake  # would win 0.3, pay 0.4
    0.0
    """

    def __init__(self, knows: Callable[[], int], size: float = 1.0) -> None:
        self.knows = knows
        self.size = arguments.positive("size", size)

    def act(self, forecast: Forecast) -> Decision:
        """Stake `size` on the outcome, or nothing."""
        outcome = self.knows()
        certain = np.arange(forecast.classes) == outcome if forecast.classes else float(outcome)
        return Decision(None, _best_stake(forecast, certain, self.size))


class Insider:
    """Knows the true probability, and bets if it lies outside [μ − c, μ + c].

    Parameters
    ----------
    knows
        A function that returns the true probability of the round, such as `nature.probability`.
    size
        How much it stakes.

    Examples
    --------
    >>> import makewhole as mw
    >>> mw.agents.Insider(knows=lambda: 0.45, size=10).act(mw.Forecast(0.3, 0.1)).stake
    10.0
    """

    def __init__(self, knows: Callable[[], Any], size: float = 1.0) -> None:
        self.knows = knows
        self.size = arguments.positive("size", size)

    def act(self, forecast: Forecast) -> Decision:
        """Stake `size` on the side of the true probability, or nothing."""
        return Decision(None, _best_stake(forecast, self.knows(), self.size))


class PhaseDoubling:
    """Pushes the correction's target up, then down, in phases whose length doubles.

    `NaiveBestResponse`, which follows the average of the past, never stops losing to it.

    Parameters
    ----------
    knows
        A function that returns the outcome of the round, such as `nature.outcome`.
    size
        How much it stakes.

    Examples
    --------
    >>> import makewhole as mw
    >>> agent = mw.agents.PhaseDoubling(knows=lambda: 1)
    >>> [agent.act(mw.Forecast(0.5)).stake for _ in range(7)]
    [1.0, -1.0, -1.0, 1.0, 1.0, 1.0, 1.0]
    """

    def __init__(self, knows: Callable[[], int], size: float = 1.0) -> None:
        self.knows = knows
        self.size = arguments.positive("size", size)
        self._round = 0

    def act(self, forecast: Forecast) -> Decision:
        """Stake on the outcome in the first, third, … phase, and against it in the others."""
        self._round += 1
        up = self._round.bit_length() % 2 == 1
        return Decision(None, _towards(forecast, up, self.knows(), self.size))


class Pusher:
    """Pushes the correction's target away from λ: down if c is above `middle`, else up.

    Parameters
    ----------
    knows
        A function that returns the outcome of the round, such as `nature.outcome`.
    size
        How much it stakes.
    middle
        The c above which it pushes down.

    Examples
    --------
    >>> import makewhole as mw
    >>> agent = mw.agents.Pusher(knows=lambda: 1)
    >>> agent.act(mw.Forecast(0.5, 0.1)).stake, agent.act(mw.Forecast(0.5, -0.1)).stake
    (-1.0, 1.0)
    """

    def __init__(self, knows: Callable[[], int], size: float = 1.0, middle: float = 0.0) -> None:
        self.knows = knows
        self.size = arguments.positive("size", size)
        self.middle = middle

    def act(self, forecast: Forecast) -> Decision:
        """Stake so that the payment is as far from 0 as possible."""
        return Decision(None, _towards(forecast, bool(forecast.c <= self.middle), self.knows(), self.size))


class DrawReader:
    """Sees in the published c which cell `SwapRegret` drew, and wins: a counterexample to Theorem 1.

    It keeps a copy of the forecaster's correction, without its seed. Let β be the cell that contains +½, and
    T the number of rounds. Until β has been credited T/8 times, the agent pushes the target down if β was
    drawn, and else up; after that, always up. Against the paper's swap it wins about ln 4 / 8 ≈ 0.173 of its
    stake per forecast, and more with few cells, for every number of rounds (with μ = ½, ĉ = 0, and stakes of
    the size of the cap).

    Parameters
    ----------
    correction
        A correction like the forecaster's; it is copied.
    rounds
        T, the number of rounds that will be played.
    knows
        A function that returns the outcome of the round, such as `nature.outcome`.
    size
        How much it stakes: the forecaster's cap.

    Examples
    --------
    >>> import makewhole as mw
    >>> from makewhole.protocol import Chance
    >>> f = mw.InsuredForecaster(lambda x: 0.5, mw.SwapRegret(cells=11, seed=0), max_stake=1)
    >>> nature = Chance(1.0)
    >>> agent = mw.agents.DrawReader(mw.SwapRegret(cells=11), rounds=2000, knows=nature.outcome)
    >>> round(mw.play(nature, f, agent, rounds=2000).mean_loss, 2)
    0.17
    """

    def __init__(
        self, correction: Correction, rounds: int, knows: Callable[[], int], size: float = 1.0
    ) -> None:
        self.correction = for_book(copy.deepcopy(correction))
        self.knows = knows
        self.size = arguments.positive("size", size)
        self._wanted = arguments.whole("rounds", rounds, least=1) / 8
        self._credits = 0

    def act(self, forecast: Forecast) -> Decision:
        """Find out which cell was drawn, and stake."""
        mine = self.correction
        seen, beta = mine.seen(forecast.c), mine.cell_of(0.5)
        at_beta = seen.cell == beta
        up = not (at_beta and self._credits < self._wanted)
        self._credits += at_beta
        outcome = self.knows()
        stake = _towards(forecast, up, outcome, self.size)
        mine.observe(seen, (1 if up else -1) * abs(outcome - forecast.mu), 1.0)
        return Decision(None, stake)


class Random:
    """Stakes a random number between −size and size (on a one-sided forecast, between 0 and size).

    Examples
    --------
    >>> import makewhole as mw
    >>> -1 <= mw.agents.Random(seed=0).act(mw.Forecast(0.5)).stake <= 1
    True
    """

    def __init__(self, size: float = 1.0, seed: int | None = None) -> None:
        self.size = arguments.positive("size", size)
        self._draw = np.random.default_rng(seed)

    def act(self, forecast: Forecast) -> Decision:
        """Draw a stake."""
        lowest = 0.0 if forecast.one_sided else -self.size
        return Decision(None, arguments.plain(self._draw.uniform(lowest, self.size, np.shape(forecast.mu))))


# --- customers for a log without stakes -------------------------------------------------------------------

# The paper's passengers lose 0.2·e^z if a flight is late, z uniform in [4, 9]: the largest loss is e^5 times
# the smallest.
_SPREAD = 5.0


class Customers:
    """Simulated customers for a log that has no stakes; for `backtest` and `find_capital`.

    Every forecast has one customer, drawn at random. She sees the published μ and c, and stakes:

    - A *hedger* loses a certain amount d if the event happens. She stakes d on it whenever that lowers her
      worst case, that is if μ + c < 1. Then she loses d·(μ + c) for certain.
    - An *informed* customer believes a better forecast, a column of the log. She stakes `size` on the side
      that she thinks is underpriced, if her probability lies outside [μ − c, μ + c].
    - A *clairvoyant* knows the outcome, and stakes `size` on it if it wins more than the bet costs.

    Real customers know less than a clairvoyant, so a share of clairvoyants is a stress test.

    Parameters
    ----------
    hedgers, informed, clairvoyant
        The shares of the forecasts that have such a customer, from 0 to 1 and at most 1 in total. By default
        all customers who are neither informed nor clairvoyant are hedgers. If the shares add up to less than
        1, the other forecasts have no customer.
    losses
        How much hedgers may lose. None: the paper's, d = M·e^(−5u) with u uniform in [0, 1], where M is the
        cap: losses between 0.7 % of the cap and the cap, small ones likelier. A number: exponentially
        distributed with this mean. Or a function that takes a NumPy generator and a count, and returns that
        many losses. Losses above the cap are cut to the cap.
    size
        How much informed customers and clairvoyants stake; by default the cap.
    view
        The name of the column with the better forecast, for informed customers.
    seed
        The seed of the draws: the same seed gives the same customers.

    Examples
    --------
    >>> import makewhole as mw
    >>> import pandas as pd
    >>> log = pd.DataFrame({"mu": [0.3] * 1000, "y": [0, 0, 1, 0] * 250})
    >>> result = mw.backtest(log, customers=mw.agents.Customers(clairvoyant=0.05))
    >>> result.turnover > 200, result.turnover == result.wanted_stake
    (True, True)
    """

    def __init__(
        self,
        hedgers: float | None = None,
        informed: float = 0.0,
        clairvoyant: float = 0.0,
        *,
        losses: float | Callable[[np.random.Generator, int], Any] | None = None,
        size: float | None = None,
        view: str | None = None,
        seed: int = 0,
    ) -> None:
        self.informed = arguments.within("informed", informed, 0.0, 1.0)
        self.clairvoyant = arguments.within("clairvoyant", clairvoyant, 0.0, 1.0)
        others = self.informed + self.clairvoyant
        self.hedgers = (
            max(0.0, 1.0 - others) if hedgers is None else arguments.within("hedgers", hedgers, 0.0, 1.0)
        )
        if self.hedgers + others > 1.0 + 1e-12:
            raise ValueError(
                f"hedgers, informed and clairvoyant must add up to at most 1; got {self.hedgers + others:g}"
            )
        if self.informed and view is None:
            raise ValueError("view must name the column that informed customers believe; got None")
        self.losses = losses if losses is None or callable(losses) else arguments.positive("losses", losses)
        self.size = None if size is None else arguments.positive("size", size)
        self.view = view
        self.seed = arguments.whole("seed", seed, least=0)

    def __repr__(self) -> str:
        shares = f"hedgers={self.hedgers:g}, informed={self.informed:g}, clairvoyant={self.clairvoyant:g}"
        given = {name: getattr(self, name) for name in ("losses", "size", "view")} | {
            "seed": self.seed or None
        }
        others = "".join(f", {name}={value!r}" for name, value in given.items() if value is not None)
        return f"Customers({shares}{others})"

    def begin(self, max_stake: float) -> Crowd:
        """Return the customers of a backtest with this cap; raise a ValueError if `size` is above it."""
        if self.size is not None and self.size > max_stake:
            raise ValueError(f"size must be at most max_stake, {max_stake:g}; got {self.size:g}")
        return Crowd(self, max_stake)


# The kinds of customers, in the order of their numbers.
CUSTOMER_KINDS = ("hedgers", "informed", "clairvoyant")


class Crowd:
    """The customers of one backtest, drawn forecast by forecast; see `Customers`."""

    def __init__(self, customers: Customers, max_stake: float) -> None:
        self._customers, self._cap = customers, max_stake
        # Losses are drawn separately: if the shares change, the remaining hedgers keep their losses.
        kinds, losses = np.random.SeedSequence(customers.seed).spawn(2)
        self._kinds, self._losses = np.random.default_rng(kinds), np.random.default_rng(losses)

    def draw(self, count: int, view: Any = None) -> tuple[Any, Floats, Floats]:
        """Return the kinds, the amounts and the views of the customers of the next `count` forecasts.

        A kind is 0 for a hedger, 1 for an informed customer, 2 for a clairvoyant and 3 for no customer; the
        backtest's loop decides on the stake. `view` is the column of the better forecast.
        """
        who = self._customers
        edges = np.cumsum([who.hedgers, who.informed, who.clairvoyant])
        kind = np.searchsorted(edges, self._kinds.random(count), side="right")
        size = self._cap if who.size is None else who.size
        amount = np.where(kind == 0, np.minimum(self._lose(count), self._cap), size)
        believed = np.zeros(count) if view is None else np.asarray(view, dtype=np.float64)
        return kind.astype(np.int64), amount, believed

    def _lose(self, count: int) -> Floats:
        losses = self._customers.losses
        if losses is None:
            return self._cap * np.exp(-_SPREAD * self._losses.random(count))
        if not callable(losses):
            return self._losses.exponential(losses, count)
        drawn = arguments.numbers("losses", losses(self._losses, count))
        if drawn.shape != (count,) or (drawn < 0).any():
            raise ValueError(f"losses must return {count} numbers that are not negative; got {drawn!r}")
        return drawn


def _towards(forecast: Forecast, up: bool, outcome: int, size: float) -> float:
    """Return the stake that makes b·(y − μ) positive (`up`) or negative; 0 if that stake is not accepted."""
    if up == bool(outcome):
        return size
    return 0.0 if forecast.one_sided else -size


def _best_stake(forecast: Forecast, truth: Any, size: float) -> Any:
    """Return ±`size` if the true probability lies outside [μ − c, μ + c], else 0; for each class."""
    edge = np.asarray(truth, dtype=np.float64) - forecast.mu
    stake = np.where(np.abs(edge) > forecast.c, np.sign(edge), 0.0) * size
    return arguments.plain(np.maximum(stake, 0.0) if forecast.one_sided else stake)
