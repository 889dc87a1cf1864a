"""The protocols of the paper as one loop, `play`. Start reading here.

In Protocol 1 agents decide and stake nothing. In Protocol 2 they also bet on a binary event, in Protocol 3 on
an event with K classes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from makewhole import arguments, frames
from makewhole.agents import Decision
from makewhole.decisions import Forecast


class Nature(Protocol):
    """Chooses the features and the outcome of every round."""

    def reveal(self) -> Any:
        """Begin a round, and return its features x, which everyone sees."""

    def outcome(self) -> int:
        """Return the outcome of the round; the same one however often it is called."""


class Forecaster(Protocol):
    """Publishes forecasts and pays the bets on them, as an `InsuredForecaster` does."""

    def forecast(self, x: Any) -> Forecast:
        """Publish a forecast: μ and c."""

    def settle(self, forecast: Forecast, outcome: Any, stake: Any) -> list[float]:
        """Accept the stake, learn from the outcome, and return the payments."""


class Agent(Protocol):
    """Decides and stakes; `makewhole.agents` has ten of them."""

    def act(self, forecast: Forecast) -> Decision:
        """Return an action and a stake."""


def play(nature: Nature, forecaster: Forecaster, agent: Agent, rounds: int) -> Record:
    """Play the protocol for a number of rounds, and record every round.

    Parameters
    ----------
    nature
        Chooses features and outcomes: `Chance`, `Replay`, or an object of your own with `reveal` and
        `outcome`.
    forecaster
        An `InsuredForecaster`, or an object of your own with `forecast` and `settle`.
    agent
        One of `makewhole.agents`, or an object of your own with `act`.
    rounds
        How many rounds to play.

    Returns
    -------
    Record
        Every round's forecast, decision, outcome and payment.

    Examples
    --------
    >>> import makewhole as mw
    >>> from makewhole.protocol import Chance
    >>> nature = Chance(0.9, seed=0)
    >>> correction = mw.DeterministicSwap.for_horizon(1000, c_range=(0.0, 0.5))
    >>> f = mw.InsuredForecaster(lambda x: 0.5, correction, max_stake=12)
    >>> agent = mw.agents.Insured({"use": (2, -10), "skip": (0, 0)})
    >>> record = mw.play(nature, f, agent, rounds=1000)
    >>> abs(record.mean_loss) < 0.2  # the forecaster says 0.5, the truth is 0.9
    True
    """
    record = Record()
    for _ in range(arguments.whole("rounds", rounds, least=0)):
        # 1. Nature reveals x, and chooses the outcome without revealing it.
        x = nature.reveal()
        # 2. The forecaster reveals μ and c.
        forecast = forecaster.forecast(x)
        # 3. The agent, who has losses l(a, y), reveals an action a and a stake b.
        decision = agent.act(forecast)
        # 4. Nature reveals the outcome y.
        outcome = nature.outcome()
        # 5. The agent loses l(a, y) − payment, the forecaster loses the payment.
        payments = forecaster.settle(forecast, outcome, stake=decision.stake)
        record.add(forecast, decision, outcome, sum(payments))
    return record


class Record:
    """What happened in every round of `play`; `record["c"]` is a column, `record.to_frame()` is all of them.

    The columns are `mu`, `c`, `action`, `stake`, `outcome`, `payment` (what the agent received), `loss` (what
    the forecaster lost, the same number), `decision_loss` (the loss of the agent's action, NaN if it has no
    loss table) and `agent_loss` (decision_loss − payment). With K classes `mu`, `c` and `stake` have K
    columns each.
    """

    def __init__(self) -> None:
        self._rows: list[tuple[Any, ...]] = []

    def add(self, forecast: Forecast, decision: Decision, outcome: int, payment: float) -> None:
        """Append a round."""
        lost = np.nan if decision.losses is None else float(decision.losses[outcome])
        row = (forecast.mu, forecast.c, decision.action, decision.stake, outcome)
        self._rows.append((*row, payment, payment, lost, lost - payment))

    _NAMES = ("mu", "c", "action", "stake", "outcome", "payment", "loss", "decision_loss", "agent_loss")

    def __repr__(self) -> str:
        return f"Record(rounds={len(self)}, mean_loss={self.mean_loss:.6g})"

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, column: str) -> Any:
        if column not in self._NAMES:
            raise KeyError(f"{column!r} is not a column; there are {', '.join(self._NAMES)}")
        place = self._NAMES.index(column)
        return np.array([row[place] for row in self._rows])

    @property
    def total_loss(self) -> float:
        """What the forecaster lost in total."""
        return math.fsum(row[5] for row in self._rows)

    @property
    def mean_loss(self) -> float:
        """What the forecaster lost per round."""
        return self.total_loss / len(self._rows) if self._rows else 0.0

    def to_frame(self, backend: str | None = None) -> Any:
        """Return all columns as a dataframe of "polars", "pandas" or "pyarrow".

        By default it is the first of these that is installed.

        Examples
        --------
        >>> import makewhole as mw
        >>> from makewhole.protocol import Chance
        >>> f = mw.InsuredForecaster(lambda x: 0.5, max_stake=1)
        >>> record = mw.play(Chance(0.5, seed=0), f, mw.agents.Random(seed=0), rounds=3)
        >>> record.to_frame("pandas").shape
        (3, 9)
        """
        columns: dict[str, Any] = {}
        for name in self._NAMES:
            values = self[name]
            if name == "action":
                columns[name] = [None if a is None else a.item() if hasattr(a, "item") else a for a in values]
            elif values.ndim == 1:
                columns[name] = values
            else:
                columns |= {f"{name}_{k}": values[:, k] for k in range(values.shape[1])}
        return frames.make_frame(columns, backend)


class Chance:
    """A nature that draws every outcome at random with a given probability.

    Parameters
    ----------
    probability
        The probability that y = 1; for K classes a vector, one number per class; or a function without
        arguments that returns one for every round.
    x
        The features, or a function without arguments that returns them for every round.
    seed
        The same seed gives the same outcomes. None draws a new seed.

    Examples
    --------
    >>> import makewhole as mw
    >>> from makewhole.protocol import Chance
    >>> nature = Chance([0.2, 0.3, 0.5], seed=1)
    >>> nature.reveal(), nature.outcome() in (0, 1, 2)
    (None, True)
    """

    def __init__(self, probability: Any, x: Any = None, seed: int | None = None) -> None:
        self._given = probability if callable(probability) else None
        self._x = x
        self._draw = np.random.default_rng(seed)
        self._outcome: int | None = None
        if self._given is None:
            self._choose(probability)

    def _choose(self, probability: Any) -> None:
        value = arguments.probabilities("probability", probability)
        if value.ndim:
            value = arguments.distribution("probability", probability, simplex=True)
        self._probability = arguments.plain(value)
        # Where class k ends in [0, 1). The last end is left out: it is 1, regardless of rounding.
        self._ends = (1 - value).reshape(1) if value.ndim == 0 else np.cumsum(value)[:-1]

    def reveal(self) -> Any:
        """Begin a round, and return its features."""
        if self._given is not None:
            self._choose(self._given())
        self._outcome = int(self._ends.searchsorted(self._draw.random(), side="right"))
        return self._x() if callable(self._x) else self._x

    def probability(self) -> Any:
        """Return the true probability of the round, for agents that may know it."""
        return self._probability

    def outcome(self) -> int:
        """Return the outcome of the round."""
        if self._outcome is None:
            raise RuntimeError("no round has begun: call reveal() first")
        return self._outcome


class Replay:
    """A nature that repeats recorded outcomes, and the features that came with them.

    Parameters
    ----------
    outcomes
        The outcome of each round.
    xs
        The features of each round; by default None in every round.

    Raises
    ------
    ValueError
        If `xs` and `outcomes` differ in length, or more rounds are played than were recorded.

    Examples
    --------
    >>> import makewhole as mw
    >>> from makewhole.protocol import Replay
    >>> nature = Replay(outcomes=[1, 0], xs=["monday", "tuesday"])
    >>> nature.reveal(), nature.outcome(), nature.reveal(), nature.outcome()
    ('monday', 1, 'tuesday', 0)
    """

    def __init__(self, outcomes: Sequence[int], xs: Sequence[Any] | None = None) -> None:
        if xs is not None and len(xs) != len(outcomes):
            raise ValueError(f"xs must have as many rows as outcomes, {len(outcomes)}; got {len(xs)}")
        self._outcomes, self._xs, self._at = outcomes, xs, -1

    def reveal(self) -> Any:
        """Begin a round, and return its features."""
        if self._at + 1 >= len(self._outcomes):
            raise ValueError(f"rounds must be at most {len(self._outcomes)}, as many as were recorded")
        self._at += 1
        return None if self._xs is None else self._xs[self._at]

    def outcome(self) -> int:
        """Return the outcome of the round."""
        if self._at < 0:
            raise RuntimeError("no round has begun: call reveal() first")
        return int(self._outcomes[self._at])
