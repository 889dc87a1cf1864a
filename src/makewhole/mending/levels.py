"""Round forecasts to a few levels, so that each level has enough rows to be certified."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np

from makewhole.arguments import Floats

# How much the mean of c² counts against half of the log loss that rounding costs. With the best levels,
# rounding then moves a forecast by about a fifth of c (root mean squares).
_WIDTH_COUNTS = 1 / 10

# Rounding may lose this share of the log loss that the forecasts save against one forecast for all. With many
# groups c is wide for any levels; rounding must then not do much harm for little gain.
_MAY_LOSE = 0.08

# Smaller weights of c², tried where a limit on the loss leaves room; the last is 0.
_COUNTS_LESS = (0.03, 0.01, 0.003, 0.001, 0.0)

_TINY = 1e-300  # a divisor where there are no rows
_GRID = 120  # parts of equal weight that levels are built from
_FINE_GRID = 240  # the same, for more levels than were asked for
_MOST_PARTS = 5  # the most parts that a stratum is divided into by its second class


class Sizes(NamedTuple):
    """What is known about the certificate before the outcomes: how many rows, tests and groups.

    `rows` is the number of certification rows. `shares` is the share of the rows in each label of the
    grouping with most labels. `tests` is how many bounds there are per level. `confidence` is that of all.
    """

    rows: float
    shares: Floats
    tests: int
    confidence: float


@dataclass(frozen=True)
class Levels:
    """A few values that forecasts are rounded to.

    With two classes, level k is where the forecast is at least edge k − 1 and below edge k. With more classes
    rows are first divided by which class is the most probable, and, where there are enough rows, by which is
    the second: `stratum` has a number for each such pair. `by_second` has an array for each stratum, which
    divides it by the second class's share of the probability that the first leaves; mostly it is empty.
    `edges` has an array for each stratum, or for each part of one, of the most probable class's probability.
    `values` has a row for each level: the mean forecast there.
    """

    stratum: Any
    by_second: tuple[Floats, ...]
    edges: tuple[Floats, ...]
    values: Floats

    @classmethod
    def learn(
        cls,
        mended: Floats,
        weight: Floats,
        most: int,
        sizes: Sizes,
        spare: float = math.inf,
        finest: int | None = None,
    ) -> Self:
        """Find the levels, about `most` or fewer, that are the best compromise between log loss and c.

        Rounding should cost at most `spare` of log loss per row. If `most` levels cost more, there are more
        of them, up to `finest`. Each stratum has a share of them, in proportion to its rows. Equal forecasts
        stay together.
        """
        pair, highest, second = _rank(mended)
        shares = np.bincount(pair, weight, mended.shape[1] ** 2) / weight.sum()
        stratum = _strata(shares.reshape(mended.shape[1], -1), 1 / most)
        every = np.column_stack([mended, 1 - mended]) if mended.shape[1] == 1 else mended
        mine, partitions = stratum[pair], list[_Partition]()
        for k in range(int(stratum.max()) + 1):
            here = mine == k
            share = float(shares[stratum == k].sum())
            few = sizes._replace(rows=sizes.rows * share)
            counts = [max(1, round(many * share)) for many in (most, finest or most)]
            choices = _Choices(highest[here], second[here], every[here], weight[here], few)
            partitions.append(_best_edges(choices, counts[0], max(counts), spare))
        by_second = tuple(partition.second for partition in partitions)
        edges = tuple(inner for partition in partitions for inner in partition.edges)
        place = _place(stratum, by_second, edges, mended)
        levels = sum(len(inside) + 1 for inside in edges)
        mass = np.bincount(place, weight, levels)
        plain = mended.mean(axis=0)  # for a level without rows: of a class that is never the most probable
        values = np.column_stack([np.bincount(place, weight * column, levels) for column in mended.T])
        means = np.where(mass[:, None] > 0, values / np.maximum(mass, _TINY)[:, None], plain)
        return cls(stratum, by_second, edges, means)

    def place(self, mended: Floats) -> Any:
        """Return every row's level, as a number from 0."""
        return _place(self.stratum, self.by_second, self.edges, mended)


def equal_mass_edges(values: Floats, weight: Floats, count: int) -> Floats:
    """Return where to divide values into at most `count` parts of equal weight, none of them empty."""
    if not len(values):
        return np.empty(0)
    order = np.argsort(values, kind="stable")
    heaped = np.cumsum(weight[order])
    at = np.searchsorted(heaped, np.arange(1, count) / count * heaped[-1], side="right")
    edges = np.unique(values[order][np.minimum(at, len(values) - 1)])
    inner: Floats = edges[edges > values.min()]
    return inner


class _Choices(NamedTuple):
    """The forecasts to divide: by `p`, the highest probability, and by `second`.

    `second` is the second most probable class's share of the remainder. `chances` has the probability of each
    class.
    """

    p: Floats
    second: Floats
    chances: Floats
    weight: Floats
    sizes: Sizes


class _Division(NamedTuple):
    """Where to divide forecasts into levels, the cost of that, and the part of it due to rounding."""

    edges: Floats
    cost: float
    lost: float


class _Partition(NamedTuple):
    """Where to divide forecasts by `second`, and then each part into levels; and the cost of that."""

    second: Floats
    edges: tuple[Floats, ...]
    cost: float
    lost: float


_Split = TypeVar("_Split", _Division, _Partition)


def _best_edges(given: _Choices, most: int, finest: int, spare: float) -> _Partition:
    """Return where to divide forecasts into levels: at most `most`, or `finest` if fewer lose too much.

    With more levels, rounding costs less log loss, but each level has fewer rows, and c is wider. The levels
    minimise half of this log loss plus a part of the mean c², among those that keep nearly all that the
    forecasts know, and lose no more than `spare`. They are built from parts of equal weight by dynamic
    programming.
    """
    costs = _Costs.of(given, _GRID)
    divisions = list[_Division]()
    for count in range(1, min(most, costs.parts) + 1):
        divisions.extend(costs.divisions(count, (_WIDTH_COUNTS, 0.0)))
    limit = min(_MAY_LOSE * divisions[0].lost, spare / 2)
    best = _best(divisions, limit)
    if best.lost <= limit or finest <= most:
        return _Partition(np.empty(0), (best.edges,), best.cost, best.lost)
    several = (1,) if given.chances.shape[1] == 2 else range(1, _MOST_PARTS + 1)
    return _best([_finer(given, limit, finest, parts) for parts in several], limit)


def _best(splits: list[_Split], limit: float) -> _Split:
    """Return the cheapest split that loses no more than the limit; if none does, the one that loses least."""
    fine = [split for split in splits if split.lost <= limit]
    return min(fine, key=lambda split: split.cost) if fine else min(splits, key=lambda split: split.lost)


def _finer(given: _Choices, limit: float, finest: int, parts: int) -> _Partition:
    """Return where to divide forecasts into as few levels as meet the limit, in parts by `second`."""
    second = equal_mass_edges(given.second, given.weight, parts)
    place, whole = np.searchsorted(second, given.second, side="right"), float(given.weight.sum())
    edges, cost, lost = list[Floats](), 0.0, 0.0
    for k in range(len(second) + 1):
        here = place == k
        share = float(given.weight[here].sum()) / whole
        rows = given.sizes._replace(rows=given.sizes.rows * share)
        part = _Choices(given.p[here], given.second[here], given.chances[here], given.weight[here], rows)
        costs = _Costs.of(part, _FINE_GRID)
        count = costs.fewest(limit, max(1, round(finest * share)))
        best = _best(costs.divisions(count, _COUNTS_LESS), limit)
        edges.append(best.edges)
        cost, lost = cost + share * best.cost, lost + share * best.lost
    return _Partition(second, tuple(edges), cost, lost)


@dataclass(frozen=True)
class _Costs:
    """The cost of making a level of the parts from a first (a row) to a last (a column).

    `lost` is half of the log loss that rounding is expected to cost: near ½ this is the Brier score it costs.
    `mass` is the share of the rows, and `mu` the mean forecast. `inner` are the edges between the parts.
    """

    inner: Floats
    lost: Floats
    mass: Floats
    mu: Floats
    sizes: Sizes

    @classmethod
    def of(cls, given: _Choices, grid: int) -> Self:
        """Add up the rows of every level that can be made of `grid` parts of equal weight."""
        inner = equal_mass_edges(given.p, given.weight, grid)
        place = np.searchsorted(inner, given.p, side="right")
        share = given.weight / given.weight.sum() if len(given.p) else given.weight

        def sums(values: Floats) -> Floats:
            # Without rows, bincount returns whole numbers.
            added = np.bincount(place, share * values, len(inner) + 1).astype(np.float64)
            ends = np.cumsum(added)
            between: Floats = ends[None, :] - (ends - added)[:, None]
            return between

        mass = sums(np.ones(len(given.p)))
        unsure = -sums(_entropy(given.chances).sum(axis=1))
        for column in given.chances.T:
            unsure += mass * _entropy(np.clip(sums(column) / np.maximum(mass, _TINY), 0.0, 1.0))
        mu = np.clip(sums(given.p) / np.maximum(mass, _TINY), 0.0, 1.0)
        lost = np.where(_possible(mass), np.maximum(unsure, 0.0) / 2, np.inf)
        return cls(inner, lost, mass, mu, given.sizes)

    @property
    def parts(self) -> int:
        return len(self.inner) + 1

    def width(self, count: int) -> Floats:
        """Return the sum of c² over the rows of each level, if there are `count` levels.

        With n rows in a cell, c² is about 2·ln(tests / risk)·μ(1 − μ) / n, and at most max(μ, 1 − μ)².
        """
        sizes, mu = self.sizes, self.mu
        reach = 2 * np.log(count * sizes.tests / (1 - sizes.confidence)) * mu * (1 - mu) / max(sizes.rows, 1)
        widest = np.maximum(mu, 1 - mu) ** 2
        labels = zip(*np.unique(sizes.shares, return_counts=True), strict=True)
        width = sum(many * np.minimum(reach, self.mass * label * widest) for label, many in labels)
        return np.where(_possible(self.mass), width, 0.0)

    def divisions(self, count: int, counts: Sequence[float]) -> list[_Division]:
        """Return the best divisions into `count` levels, one for each weight of c² in `counts`."""
        width, divisions = self.width(count), []
        for weight in counts:
            first, last = _divide(self.lost + weight * width, count)
            lost = float(self.lost[first, last].sum())
            cost = lost + _WIDTH_COUNTS * float(width[first, last].sum())
            divisions.append(_Division(self.inner[last[:-1]], cost, lost))
        return divisions

    def fewest(self, limit: float, most: int) -> int:
        """Return the smallest number of levels that can keep the loss within the limit, or else the most."""
        low, high = 1, min(most, self.parts)
        while low < high:
            middle = (low + high) // 2
            first, last = _divide(self.lost, middle)
            low, high = (low, middle) if self.lost[first, last].sum() <= limit else (middle + 1, high)
        return low


def _possible(costs: Floats) -> Any:
    """Whether the last part, a column, is not before the first, a row."""
    first, last = np.indices(costs.shape)
    return first <= last


def _divide(cost: Floats, count: int) -> tuple[Any, Any]:
    """Return the first and the last part of each of the `count` levels with the lowest total cost."""
    best, came = cost[0], []
    after = np.vstack([cost[1:], np.full(cost.shape[1], np.inf)])
    for _ in range(count - 1):
        through = best[:, None] + after
        came.append(np.argmin(through, axis=0))
        best = through.min(axis=0)
    last = [cost.shape[1] - 1]
    for step in reversed(came):
        last.append(int(step[last[-1]]))
    ends = np.array(last[::-1])
    return np.append(0, ends[:-1] + 1), ends


def _entropy(p: Floats) -> Floats:
    """Return a class's part of the expected log loss of correct forecasts, −p·ln p."""
    part: Floats = -p * np.log(np.maximum(p, _TINY))
    return part


def _rank(mended: Floats) -> tuple[Any, Floats, Floats]:
    """Return the number of every row's pair of most probable classes, and how probable they are.

    This is the higher of their probabilities, and the other's share of the remainder. With two classes there
    is one column, one pair, the probability of the second class, and a share of 0.
    """
    classes, rows = mended.shape[1], np.arange(len(mended))
    first = np.argmax(mended, axis=1)
    highest: Floats = mended[rows, first]
    if classes == 1:
        return first, highest, np.zeros(len(mended))
    others = mended.copy()
    others[rows, first] = -np.inf
    second = np.argmax(others, axis=1)
    return first * classes + second, highest, mended[rows, second] / np.maximum(1 - highest, _TINY)


def _strata(shares: Floats, least: float) -> Any:
    """Number the pairs with a share of at least `least` separately; the other pairs of a class together."""
    alone = shares >= least
    rest = np.cumsum(np.any(~alone, axis=1)) - 1
    numbers = np.where(alone, np.cumsum(alone).reshape(alone.shape) + rest.max(), rest[:, None])
    return numbers.ravel()


def _place(stratum: Any, by_second: Sequence[Floats], edges: Sequence[Floats], mended: Floats) -> Any:
    pair, highest, second = _rank(mended)
    mine, part = stratum[pair], np.zeros(len(mended), dtype=np.int64)
    begins = np.cumsum([0, *(len(inner) + 1 for inner in by_second)])
    for k, inner in enumerate(by_second):
        here = mine == k
        part[here] = begins[k] + np.searchsorted(inner, second[here], side="right")
    first = np.cumsum([0, *(len(inside) + 1 for inside in edges)])
    place = np.zeros(len(mended), dtype=np.int64)
    for k, inside in enumerate(edges):
        here = part == k
        place[here] = first[k] + np.searchsorted(inside, highest[here], side="right")
    return place
