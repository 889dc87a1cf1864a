"""Decision makers, honest and otherwise.

An agent sees a forecast and answers with a `Decision`. What else it may know it is given when it is made:
a clairvoyant is handed `nature.outcome`, an insider `nature.probability`. Adversaries stake `size`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np

from makewhole import arguments
from makewhole.corrections import Correction, for_book
from makewhole.decisions import Forecast, Plan, Rule, decide, insure


class Decision(NamedTuple):
    """An action, a stake, and what the action loses under each outcome (None where nothing is at stake)."""

    action: Any
    stake: Any
    losses: Any = None


# --- honest decision makers -------------------------------------------------------------------------------


class _Decides:
    """Has a loss table, or a function that gives a fresh one for every round."""

    def __init__(self, losses: Any) -> None:
        self.losses = losses

    def act(self, forecast: Forecast) -> Decision:
        """Decide for one forecast."""
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
    """Takes the least expected loss under μ, and stakes nothing.

    Examples
    --------
    >>> import makewhole as mw
    >>> mw.agents.Trustful({"fly": (-100, 100), "drive": (-40, -40)}).act(mw.Forecast(0.2)).action
    'fly'
    """

    rule = "trustful"


class Naive(_ByRule):
    """Takes the least loss if nothing goes wrong (outcome 0), and stakes nothing.

    Examples
    --------
    >>> import makewhole as mw
    >>> mw.agents.Naive({"fly": (-100, 100), "drive": (-40, -40)}).act(mw.Forecast(0.9)).action
    'fly'
    """

    rule = "naive"


class Cautious(_ByRule):
    """Takes the least worst-case loss, and stakes nothing.

    Examples
    --------
    >>> import makewhole as mw
    >>> mw.agents.Cautious({"fly": (-100, 100), "drive": (-40, -40)}).act(mw.Forecast(0.1)).action
    'drive'
    """

    rule = "cautious"


class Insured(_Decides):
    """Takes the action with the least certain loss, and the stake that makes it certain.

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
    """Knows the outcome, and bets on it wherever that pays.

    Examples
    --------
    >>> import makewhole as mw
    >>> mw.agents.Clairvoyant(knows=lambda: 0).act(mw.Forecast(0.3, 0.1)).stake
    -1.0
    >>> mw.agents.Clairvoyant(knows=lambda: 0).act(mw.Forecast(0.3, 0.4)).stake  # the spread eats it up
    0.0
    """

    def __init__(self, knows: Callable[[], int], size: float = 1.0) -> None:
        self.knows = knows
        self.size = arguments.positive("size", size)

    def act(self, forecast: Forecast) -> Decision:
        """Bet on what will happen."""
        outcome = self.knows()
        certain = np.arange(forecast.classes) == outcome if forecast.classes else float(outcome)
        return Decision(None, _best_stake(forecast, certain, self.size))


class Insider:
    """Knows the true probability, and bets wherever it lies outside [μ − c, μ + c].

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
        """Bet that the truth is right and the forecast wrong."""
        return Decision(None, _best_stake(forecast, self.knows(), self.size))


class PhaseDoubling:
    """Pushes the target up, then down, in phases of doubling length: what follow-the-leader cannot bear.

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
        """Bet with the outcome in even phases, against it in odd ones."""
        self._round += 1
        up = self._round.bit_length() % 2 == 1
        return Decision(None, _towards(forecast, up, self.knows(), self.size))


class Pusher:
    """Pushes the target away from λ: down where c is above `middle`, up where it is not.

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
        """Bet so that the forecast misses its balance by as much as it can."""
        return Decision(None, _towards(forecast, bool(forecast.c <= self.middle), self.knows(), self.size))


class DrawReader:
    """Reads off the published c which cell was drawn, and uses it: the counterexample to Theorem 1.

    It keeps a copy of the forecaster's correction, without its seed. Let β be the cell that holds +½. While
    β has fewer than T/8 credits the agent pushes the target down if β was drawn and up otherwise; then up
    for ever. Against the paper's swap it wins ln 4 / 8 ≈ 0.173 of its stake per forecast, for every number
    of rounds and cells. (For μ = ½ and ĉ = 0; `size` is the cap.)

    Examples
    --------
    >>> import makewhole as mw
    >>> f = mw.InsuredForecaster(lambda x: 0.5, mw.SwapRegret(cells=11, seed=0), max_stake=1)
    >>> nature = mw.Chance(1.0)
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
        """Look which cell was drawn, and push."""
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
    """Stakes anything between −size and size, evenly.

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
        """Stake at random."""
        lowest = 0.0 if forecast.one_sided else -self.size
        return Decision(None, arguments.plain(self._draw.uniform(lowest, self.size, np.shape(forecast.mu))))


def _towards(forecast: Forecast, up: bool, outcome: int, size: float) -> float:
    """The stake that makes b·(y − μ) positive, or negative; 0 where that side is not taken."""
    if up == bool(outcome):
        return size
    return 0.0 if forecast.one_sided else -size


def _best_stake(forecast: Forecast, truth: Any, size: float) -> Any:
    """Full size where E[y] lies outside [μ − c, μ + c], on its side; class by class."""
    edge = np.asarray(truth, dtype=np.float64) - forecast.mu
    stake = np.where(np.abs(edge) > forecast.c, np.sign(edge), 0.0) * size
    return arguments.plain(np.maximum(stake, 0.0) if forecast.one_sided else stake)
