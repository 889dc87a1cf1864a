"""A forecaster that is calibrated against every nature."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np

from makewhole import arguments
from makewhole.forecasters.base import adapt


class CalibratedForecaster:
    """Forecast so that frequencies come out right, whatever nature does, if it cannot see the random draw.

    [0, 1] is divided into `levels` cells of equal width, and a forecast is the middle of a cell. A cell keeps
    the frequency of y = 1 over its own forecasts. If a cell contains its frequency, or has none yet, forecast
    its middle. Otherwise two neighbouring cells point at each other: the frequency of the lower one lies
    above their common edge, that of the upper one below it. Draw one of the two, each with a probability
    proportional to how far the *other* one is off, in outcomes.

    After T forecasts with N levels, if each outcome comes before the next forecast, the expectation of
    Σ |Σ(y − μ)|, the outer sum over levels and the inner one over a level's forecasts, is at most
    T/(2N) + √(N·T); with N = T^⅓ levels (`for_horizon`) 1.5·T^⅔. So a bettor who knows μ and nothing else
    wins at most T^−⅓ on average at a price of c = 1/(2N), and c can vanish. A bettor who knows more than μ
    can still win: being calibrated says nothing about her. docs/theory.md has the proof.

    With a `base`, there are `bins` such forecasters, one for each bin of the base's own μ̂. Each is calibrated
    by itself, so that forecasts stay as sharp as bins allow; the bound has √(bins·N·T).

    Parameters
    ----------
    base
        A base learner or a model (see `adapt`), for binary events; its ĉ is kept. None: forecasts depend on
        the outcomes only, and ĉ = 0.
    levels
        N, the number of values that μ can take.
    bins
        The number of bins of the base's μ̂; by default `levels`. Without a base there is one.
    seed
        The seed of the draws. None draws a new seed.

    Examples
    --------
    >>> from makewhole.forecasters import CalibratedForecaster
    >>> f = CalibratedForecaster(levels=10, seed=0)
    >>> for t in range(3000):
    ...     mu, c_hat = f.predict(None)
    ...     f.learn(None, t % 3 == 0, mu=mu)
    >>> f.predict(None)  # one in three
    (0.35, 0.0)

    References
    ----------
    Foster (1999), "A Proof of Calibration via Blackwell's Approachability Theorem". Kuleshov & Ermon (2017),
    "Estimating Uncertainty Online Against an Adversary", for the bins.
    """

    def __init__(
        self, base: Any = None, *, levels: int = 20, bins: int | None = None, seed: int | None = None
    ) -> None:
        self.levels = arguments.whole("levels", levels, least=2, most=100_000)
        if base is None and bins not in (None, 1):
            raise ValueError(f"bins must be 1 without a base; got {bins!r}")
        wanted = 1 if base is None else self.levels if bins is None else bins
        self.bins = arguments.whole("bins", wanted, least=1, most=100_000)
        self.base = None if base is None else adapt(base)
        self._ones, self._counts = ([[0.0] * self.levels for _ in range(self.bins)] for _ in "oc")
        self._current = [self._cell((j + 0.5) / self.bins) for j in range(self.bins)]
        self._draws = np.random.default_rng(seed)
        self._uniform = float(self._draws.random())

    @classmethod
    def for_horizon(cls, rounds: int, base: Any = None, seed: int | None = None) -> Self:
        """Make one for T forecasts, with ⌈T^⅓⌉ levels."""
        levels = math.ceil(arguments.whole("rounds", rounds, least=1) ** (1 / 3) - 1e-9)
        return cls(base, levels=max(2, levels), seed=seed)

    def predict(self, x: Any) -> tuple[float, float]:
        """Return μ̂ and ĉ; the draw is the same until the next outcome is learned."""
        said, c_hat = (0.5, 0.0) if self.base is None else self.base.predict(x)
        lower, chance = self._choose(self._bin(said))
        cell = lower if self._uniform < chance else lower + 1
        return (cell + 0.5) / self.levels, c_hat

    def learn(self, x: Any, outcome: Any, *, mu: Any, net: Any = 0.0, gross: Any = 0.0) -> None:
        """Count the outcome for the level `mu`, draw anew, and teach the base."""
        said = 0.5 if self.base is None else self.base.predict(x)[0]
        j, cell = self._bin(said), self._cell(mu)
        self._counts[j][cell] += 1
        self._ones[j][cell] += float(outcome)
        self._current[j] = cell
        self._uniform = float(self._draws.random())
        if self.base is not None:
            self.base.learn(x, outcome, mu=said, net=net, gross=gross)

    def expected(self, x: Any) -> float:
        """Return the mean of the next μ̂ over the draw: all that a nature who cannot see the draw knows."""
        said = 0.5 if self.base is None else self.base.predict(x)[0]
        lower, chance = self._choose(self._bin(said))
        return (lower + 1.5 - chance) / self.levels

    def _cell(self, mu: float) -> int:
        return min(int(mu * self.levels), self.levels - 1)

    def _bin(self, said: float) -> int:
        return min(int(said * self.bins), self.bins - 1)

    def _choose(self, j: int) -> tuple[int, float]:
        """Return a cell, and the probability to forecast it and not the next one.

        A cell that points right has what is wanted on its right: the highest cell cannot point right, nor the
        lowest one left. So halving finds a cell that contains its frequency, or two that point at each other.
        """
        left, right, cell = -1, self.levels, self._current[j]
        while True:
            count, ones = self._counts[j][cell], self._ones[j][cell]
            above, below = self._off(j, cell)
            if above <= 0.0 and below <= 0.0:
                return cell, 1.0
            left, right = (cell, right) if above > 0.0 else (left, cell)
            if right - left == 1:
                too_low, too_high = self._off(j, left)[0], self._off(j, right)[1]
                return left, too_high / (too_low + too_high)
            towards = self._cell(ones / count)
            cell = towards if left < towards < right else (left + right) // 2

    def _off(self, j: int, cell: int) -> tuple[float, float]:
        """Return by how many outcomes a cell's frequency lies above it, and below it; one of them is <= 0."""
        count, ones = self._counts[j][cell], self._ones[j][cell]
        return ones - (cell + 1) * count / self.levels, cell * count / self.levels - ones
