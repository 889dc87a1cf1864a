"""If μ is calibrated against every nature, does c vanish? The paper's tasks, on digits that are misread.

Each event is a digit z; as on the paper's MNIST, Pr[y = 1 | z] = (z + 1)/11. The forecaster reads the digit
wrongly in three cases of ten. Its base learner forecasts the frequency so far of what it reads. It publishes
that, or lets a `CalibratedForecaster` mend it; the correction is deterministic swap in both cases, so c goes
where the bets push it. In a second nature y is, in every round, what is forecast as the less likely.

`in_the_benchmark` asks the same of the paper's own benchmark (`python benchmarks/calibrated.py` prints it).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from makewhole.arguments import Floats
from makewhole.backtesting.backtest import backtest
from makewhole.datasets import Events
from makewhole.forecasters import BaseForecaster, CalibratedForecaster
from makewhole.frames import make_frame
from makewhole.insured.forecaster import InsuredForecaster
from makewhole.studies.decisions import DecisionSettings, load, predict_and_stake
from makewhole.studies.lineup import make_correction
from makewhole.studies.own import NOTHING, Own

_MISREAD = 0.3
_DIGITS = 10
FORECASTERS = ("as learned", "calibrated")
# Who bets, and on which nature: digits, or the opposite of the forecast.
TASKS = "the paper's tasks"
BETTORS = ("knows μ", "knows μ, opposite", TASKS, "knows the digit")


class Frequencies:
    """Forecast how often y was 1 so far where the input was the same; ĉ = 0."""

    def __init__(self) -> None:
        self._ones, self._counts = [0.5] * _DIGITS, [1.0] * _DIGITS

    def predict(self, x: Any) -> tuple[float, float]:
        """Return the frequency, with half an outcome more of each kind."""
        return self._ones[x] / self._counts[x], 0.0

    def learn(self, x: Any, outcome: Any, *, mu: Any, net: Any = 0.0, gross: Any = 0.0) -> None:
        """Count the outcome."""
        self._ones[x] += float(outcome)
        self._counts[x] += 1.0


class _Learner:
    """Bets on μ alone: on the side that has won more often at the same forecast so far."""

    def __init__(self) -> None:
        self._won: dict[float, float] = {}

    def stake(self, mu: float, z: int) -> float:
        return 1.0 if self._won.get(round(mu, 2), 0.0) > 0 else -1.0

    def see(self, mu: float, y: int) -> None:
        self._won[round(mu, 2)] = self._won.get(round(mu, 2), 0.0) + y - mu


def _task(draw: np.random.Generator) -> Callable[[float, int], float]:
    """Return the stakes of one of the paper's random tasks: the trustful action's hedge, over the cap."""
    table = np.clip(draw.normal(0, 10, (_DIGITS, 2, 2)), -10, 10)
    slopes = (table[..., 1] - table[..., 0]).tolist()
    starts, cap = table[..., 0].tolist(), float(np.abs(table[..., 1] - table[..., 0]).max())

    def stake(mu: float, z: int) -> float:
        first, second = (starts[z][a] + mu * slopes[z][a] for a in (0, 1))
        return float(slopes[z][0 if first <= second else 1] / cap)

    return stake


def played_c(forecaster: str, bettor: str, rounds: int, seed: int) -> float:
    """Return the mean c, in the last fifth of the forecasts, at which the bets of one bettor balance."""
    draw = np.random.default_rng([seed, BETTORS.index(bettor)])
    base: BaseForecaster = Frequencies()
    if forecaster == "calibrated":
        base = CalibratedForecaster.for_horizon(rounds, Frequencies(), seed=seed)
    f = InsuredForecaster(
        base, make_correction("deterministic swap", rounds), max_stake=1.0, c_range=(0.0, 0.0)
    )
    learner, task = _Learner(), _task(draw)
    stakes: Callable[[float, int], float] = {
        "knows μ": learner.stake,
        "knows μ, opposite": lambda mu, z: 1.0 if mu < 0.5 else -1.0,
        TASKS: task,
        "knows the digit": lambda mu, z: 1.0 if (z + 1) / 11 > mu else -1.0,
    }[bettor]
    digits = draw.integers(0, _DIGITS, rounds)
    read = np.where(draw.random(rounds) < _MISREAD, draw.integers(0, _DIGITS, rounds), digits)
    luck, prices = draw.random(rounds), []
    for z, x, u in zip(digits.tolist(), read.tolist(), luck.tolist(), strict=True):
        if bettor == "knows μ, opposite":
            mean = base.expected(x) if isinstance(base, CalibratedForecaster) else base.predict(x)[0]
            y = int(mean < 0.5)
        else:
            y = int(u < (z + 1) / 11)
        q = f.forecast(x)
        f.settle(q, y, stake=stakes(q.mu, z))
        learner.see(q.mu, y)
        prices.append(q.c)
    return float(np.mean(prices[-max(1, rounds // 5) :]))


def play_all(rounds: int, seed: int) -> dict[str, Any]:
    """Return the c of every forecaster and bettor, in games of a tenth of the rounds and of all."""
    lengths = [max(10, rounds // 10), rounds]
    return {
        "lengths": lengths,
        "c": {
            f"{forecaster}, {bettor}": [played_c(forecaster, bettor, t, seed) for t in lengths]
            for forecaster in FORECASTERS
            for bettor in BETTORS
        },
    }


# --- the paper's benchmark --------------------------------------------------------------------------------


class BenchmarkRow(NamedTuple):
    """One forecaster of μ on the benchmark, over its twenty tasks; what is bet is balanced by c alone.

    `brier` is the mean of (y − μ)²; `on_mu` the c that the best bets on μ alone need, in a hundred bins; `c`
    the mean |c| in the last fifth; `loss` the mean of |mean loss| in caps.
    """

    forecaster: str
    brier: float
    on_mu: float
    c: float
    loss: float


def recalibrated(mu: Floats, outcome: Any, seed: int) -> Floats:
    """Return what a `CalibratedForecaster` over these forecasts would have said, in order."""
    said: list[float] = []
    f = CalibratedForecaster.for_horizon(len(mu), lambda x: x, seed=seed)
    for p, y in zip(mu.tolist(), outcome.tolist(), strict=True):
        said.append(f.predict(p)[0])
        f.learn(p, y, mu=said[-1])
    return np.array(said)


def in_the_benchmark(settings: DecisionSettings, seed: int, own: Own = NOTHING) -> list[BenchmarkRow]:
    """Compare the paper's μ with the same μ, calibrated: both with ĉ = 0 and deterministic swap."""
    events = load(settings, seed, own)
    made = predict_and_stake(events, settings, seed)
    each = zip(FORECASTERS, (made.mu, recalibrated(made.mu, events.outcome, seed)), strict=True)
    return [_measured(name, mu, events, made.tables, made.caps) for name, mu in each]


def _measured(name: str, mu: Floats, events: Events, tables: Floats, caps: Floats) -> BenchmarkRow:
    rounds, y = len(events), events.outcome
    late, sizes, losses = max(1, rounds // 5), [], []
    for table, cap in zip(tables[:, events.z], caps.tolist(), strict=True):
        expected = (1 - mu[:, None]) * table[..., 0] + mu[:, None] * table[..., 1]
        taken = table[np.arange(rounds), expected.argmin(axis=1)]
        frame = make_frame({"mu": mu, "y": y, "stake": taken[:, 1] - taken[:, 0]}, "polars")
        f = InsuredForecaster(
            None, make_correction("deterministic swap", rounds), max_stake=cap, c_range=(0.0, 0.0)
        )
        trace = backtest(frame, f, trace=True).trace or {}
        sizes.append(float(np.abs(trace["c"][-late:]).mean()))
        losses.append(abs(float(trace["payment"].mean())) / cap)
    won = np.bincount(np.minimum((mu * 100).astype(np.int64), 99), weights=y - mu)
    return BenchmarkRow(
        name,
        float(((y - mu) ** 2).mean()),
        float(np.abs(won).sum() / rounds),
        float(np.mean(sizes)),
        float(np.mean(losses)),
    )
