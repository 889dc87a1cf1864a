"""Protocols 1, 2 and 3 of the paper as one loop. Start reading here: `play`.

Protocol 1 (decisions) is agents that stake nothing, Protocol 2 (with bets) is the binary case, Protocol 3
the same with K classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from makewhole import arguments, frames
from makewhole.agents import Decision
from makewhole.decisions import Forecast


class Nature(Protocol):
    """Chooses what happens. Forecasters and agents may have anything to do with it, or nothing."""

    def reveal(self) -> Any:
        """Begin a round: the features x, for all to see."""

    def outcome(self) -> int:
        """The round's outcome; the same however often it is asked."""


class Forecaster(Protocol):
    """Publishes forecasts and stands behind them; an `InsuredForecaster` is one."""

    def forecast(self, x: Any) -> Forecast:
        """Publish μ and c."""

    def settle(self, forecast: Forecast, outcome: Any, stake: Any) -> list[float]:
        """Take the stake, pay it, learn."""


class Agent(Protocol):
    """Decides and stakes; the module `makewhole.agents` has a dozen."""

    def act(self, forecast: Forecast) -> Decision:
        """Choose an action and a stake."""


def play(nature: Nature, forecaster: Forecaster, agent: Agent, rounds: int) -> Record:
    """Play the protocol for a number of rounds, and record every one.

    Examples
    --------
    >>> import makewhole as mw
    >>> nature = mw.Chance(0.9, seed=0)
    >>> correction = mw.DeterministicSwap.for_horizon(1000, c_range=(0.0, 0.5))
    >>> f = mw.InsuredForecaster(lambda x: 0.5, correction, max_stake=12)
    >>> agent = mw.agents.Insured({"use": (2, -10), "skip": (0, 0)})
    >>> record = mw.play(nature, f, agent, rounds=1000)
    >>> abs(record.mean_loss) < 0.2  # the forecaster's; its probability is quite wrong
    True
    """
    record = Record()
    for _ in range(arguments.whole("rounds", rounds, least=0)):
        # 1. Nature reveals x and chooses, without revealing it, what will happen.
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
    """What happened, round by round: `record.to_frame()` for all of it, or a column by its name.

    Columns: `mu`, `c`, `action`, `stake`, `outcome`, `payment` (what the agent received), `loss` (what the
    forecaster lost: the same), `decision_loss` (the agent's own l(a, y), NaN if it had none) and
    `agent_loss` (decision_loss − payment). With K classes `mu`, `c` and `stake` have K columns.
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
        """What the forecaster lost."""
        return float(np.cumsum([row[5] for row in self._rows])[-1]) if self._rows else 0.0

    @property
    def mean_loss(self) -> float:
        """What the forecaster lost per round."""
        return self.total_loss / len(self._rows) if self._rows else 0.0

    def to_frame(self, backend: str | None = None) -> Any:
        """All columns as a frame of "polars", "pandas" or "pyarrow"; by default the first installed.

        Examples
        --------
        >>> import makewhole as mw
        >>> f = mw.InsuredForecaster(lambda x: 0.5, max_stake=1)
        >>> record = mw.play(mw.Chance(0.5, seed=0), f, mw.agents.Random(seed=0), rounds=3)
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
    """A nature that draws every outcome from a probability: a number, or a vector for K classes.

    Parameters
    ----------
    probability
        Of 1; or of each class; or a function that gives one for every round.
    x
        The features it reveals, or a function that gives them.
    seed
        The same seed, the same outcomes.

    Examples
    --------
    >>> import makewhole as mw
    >>> nature = mw.Chance([0.2, 0.3, 0.5], seed=1)
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
        # Where in [0, 1) class k ends; the last ends at 1 whatever the rounding.
        self._ends = (1 - value).reshape(1) if value.ndim == 0 else np.cumsum(value)[:-1]

    def reveal(self) -> Any:
        """Begin a round."""
        if self._given is not None:
            self._choose(self._given())
        self._outcome = int(self._ends.searchsorted(self._draw.random(), side="right"))
        return self._x() if callable(self._x) else self._x

    def probability(self) -> Any:
        """The round's true probability, for insiders."""
        return self._probability

    def outcome(self) -> int:
        """The round's outcome."""
        if self._outcome is None:
            raise RuntimeError("no round has begun: call reveal() first")
        return self._outcome


class Replay:
    """A nature that repeats what happened: outcomes, and the features that came with them.

    Examples
    --------
    >>> import makewhole as mw
    >>> nature = mw.Replay(outcomes=[1, 0], xs=["monday", "tuesday"])
    >>> nature.reveal(), nature.outcome(), nature.reveal(), nature.outcome()
    ('monday', 1, 'tuesday', 0)
    """

    def __init__(self, outcomes: Sequence[int], xs: Sequence[Any] | None = None) -> None:
        if xs is not None and len(xs) != len(outcomes):
            raise ValueError(f"xs must be as many as outcomes, {len(outcomes)}; got {len(xs)}")
        self._outcomes, self._xs, self._at = outcomes, xs, -1

    def reveal(self) -> Any:
        """Begin a round."""
        if self._at + 1 >= len(self._outcomes):
            raise ValueError(f"only {len(self._outcomes)} rounds happened; play no more than that")
        self._at += 1
        return None if self._xs is None else self._xs[self._at]

    def outcome(self) -> int:
        """The round's outcome."""
        if self._at < 0:
            raise RuntimeError("no round has begun: call reveal() first")
        return int(self._outcomes[self._at])
