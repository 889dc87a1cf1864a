"""The paper's Appendix A.2, on small worlds of known truth: soundness, calibration and multicalibration."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np

from makewhole.bets import payment

WORLDS = 200
VALUES = np.linspace(0.1, 0.9, 5)
_CLOSE = 1e-12
_FEWEST = 5_000  # draws from a world: with fewer, what is unsound cannot be told from luck
_BETS = np.array([-1.0, 0.0, 1.0])
_CHOICES = np.array(list(itertools.product(range(len(_BETS)), repeat=len(VALUES))))


class World(NamedTuple):
    """Some inputs with their probabilities; forecasts, by the number of their value, and sets of inputs."""

    mass: Any
    truth: Any
    value: Any
    sets: Any

    @property
    def mu(self) -> Any:
        """The forecast for each input."""
        return VALUES[self.value]

    def best_bet(self, c: float, where: Any = True) -> float:
        """Return the most that E[b(Y − μ) − |b|c] is for a b that depends on μ, and is 0 outside `where`.

        Every b of −1, 0 or 1 on each value is tried. That is enough: what b wins is linear in |b|.
        """
        if_1, if_0 = (payment(_BETS[:, None], y, self.mu, c) for y in (1, 0))
        won = self.mass * where * (self.truth * if_1 + (1 - self.truth) * if_0)
        by_value = np.array([np.bincount(self.value, one, minlength=len(VALUES)) for one in won])
        return float(by_value[_CHOICES, np.arange(len(VALUES))].sum(axis=1).max())

    def best_bet_on_sets(self, c: float) -> float:
        """Return the same for bets on one of the sets."""
        return max(self.best_bet(c, where) for where in self.sets)

    def gap(self, where: Any = True) -> float:
        """Return the largest |E[Y | μ] − μ|, over the values that occur there."""
        weight = np.bincount(self.value, self.mass * where, minlength=len(VALUES))
        off = np.bincount(self.value, self.mass * where * (self.truth - self.mu), minlength=len(VALUES))
        return float(np.max(np.abs(off[weight > 0]) / weight[weight > 0], initial=0.0))

    def gap_in_sets(self) -> float:
        """Return the largest |E[Y | μ, S] − μ| over the sets."""
        return max(self.gap(where) for where in self.sets)

    def gap_as_read(self) -> float:
        """Return the largest |E[Y | μ] − μ| over the values that occur in a set: S is not conditioned on."""
        off = np.bincount(self.value, self.mass * (self.truth - self.mu), minlength=len(VALUES))
        weight = np.bincount(self.value, self.mass, minlength=len(VALUES))
        there = [k for k in range(len(VALUES)) if (self.sets.any(axis=0) & (self.value == k)).any()]
        return max((float(abs(off[k]) / weight[k]) for k in there), default=0.0)

    def mean_loss_in_errors(self, c: float, draw: np.random.Generator, count: int) -> float:
        """Return what the forecaster loses a round to the best bet on the worst value, in standard errors."""
        weight = np.bincount(self.value, self.mass, minlength=len(VALUES))
        off = np.bincount(self.value, self.mass * (self.truth - self.mu), minlength=len(VALUES))
        worst = int(np.argmax(np.abs(off) / np.maximum(weight, 1e-300)))
        x = draw.choice(len(self.mass), count, p=self.mass)
        y = draw.random(count) < self.truth[x]
        b = np.sign(off[worst]) * (self.value[x] == worst)
        paid = payment(b, y.astype(np.int64), self.mu[x], c)
        return float(paid.mean() / max(paid.std() / np.sqrt(count), 1e-12))


def draw_world(draw: np.random.Generator) -> World:
    """Draw a world of twenty inputs and three sets."""
    mass, truth = draw.dirichlet(np.ones(20)), draw.uniform(0, 1, 20)
    return World(mass, truth, draw.integers(0, len(VALUES), 20), draw.random((3, 20)) < 0.5)


# Two inputs with the same forecast, ½. The first is the set, and right; the second always happens.
RIGHT_IN_THE_SET = World(
    np.array([0.5, 0.5]), np.array([0.5, 1.0]), np.array([2, 2]), np.array([[True, False]])
)


def offline(draw: np.random.Generator, count: int) -> dict[str, float]:
    """Propositions 4 and 5, and that sound implies asymptotically sound.

    `prop4` and `prop5` count worlds where the search for bets disagrees with what calibration says.
    `prop5_read` is how far a world that is sound for its set is from multicalibrated as the paper's proof
    reads it, which forgets the set. `sound` is the largest mean loss of the forecaster, in standard errors,
    at the smallest c that is sound; `unsound` is the median at two thirds of it.
    """
    wrong4 = wrong5 = 0
    means: dict[str, list[float]] = {"sound": [], "unsound": []}
    for _ in range(WORLDS):
        world, c = draw_world(draw), float(draw.uniform(0, 0.6))
        wrong4 += (world.best_bet(c) <= _CLOSE) != (world.gap() <= c)
        wrong5 += world.best_bet_on_sets(c) <= _CLOSE and world.gap_in_sets() > c
        for key, share in (("sound", 1.0), ("unsound", 2 / 3)):
            means[key].append(world.mean_loss_in_errors(share * world.gap(), draw, max(count, _FEWEST)))
    return {
        "prop4": float(wrong4),
        "prop5": float(wrong5),
        "prop5_read": RIGHT_IN_THE_SET.gap_as_read() - max(0.0, RIGHT_IN_THE_SET.best_bet_on_sets(0.0)),
        "sound": max(means["sound"]),
        "unsound": float(np.median(means["unsound"])),
    } | null_sets(draw, count)


def null_sets(draw: np.random.Generator, count: int) -> dict[str, float]:
    """Proposition 4 with a maximum: a μ that is off by ½ at one value that never occurs.

    μ is uniform on [0, 1], and E[Y | μ] = μ but for μ = ½, where it is 1. Returns the printed maximum, and
    the largest mean win, in standard errors, of bets on intervals around ½ that shrink, at c = 0.
    """
    mu = draw.random(count)
    y = (draw.random(count) < np.where(mu == 0.5, 1.0, mu)).astype(np.int64)
    values = np.linspace(0, 1, 1001)
    error = np.abs(np.where(values == 0.5, 1.0, values) - values).max()
    won = [np.where(np.abs(mu - 0.5) < 0.5**k, y - mu, 0.0) for k in range(1, 8)]
    return {
        "prop4_printed": float(error),
        "prop4_null": max(float(one.mean() / max(one.std() / np.sqrt(count), 1e-12)) for one in won),
    }
