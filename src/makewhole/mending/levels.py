"""Round forecasts to a few levels, so that each level has enough rows to be certified."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from makewhole.arguments import Floats

# How much the mean of c² counts against half of the log loss that rounding costs. With the best levels,
# rounding then moves a forecast by about a fifth of c (root mean squares).
_WIDTH_COUNTS = 1 / 10

# Rounding may lose this share of what the forecasts know: of the log loss that they save against one forecast
# for all. With many groups c is wide whatever the levels are; rounding must then not do harm for little.
_MAY_LOSE = 0.08

_TINY = 1e-300  # a divisor where there are no rows
_GRID = 120  # parts of equal weight that levels are put together from


class Sizes(NamedTuple):
    """What is known of the certificate before its outcomes are: how many rows, tests and groups.

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
    the second: `stratum` has a number for each such pair. `edges` has an array for each stratum, of the
    probability of the most probable class. `values` has a row for each level: the mean forecast there.
    """

    stratum: Any
    edges: tuple[Floats, ...]
    values: Floats

    @classmethod
    def learn(cls, mended: Floats, weight: Floats, most: int, sizes: Sizes) -> Self:
        """Find the levels, about `most` or fewer, that are the best compromise of log loss and c.

        Each stratum has a share of them, in proportion to its rows. Forecasts that are equal stay together.
        """
        pair, highest = _rank(mended)
        shares = np.bincount(pair, weight, mended.shape[1] ** 2) / weight.sum()
        stratum = _strata(shares.reshape(mended.shape[1], -1), 1 / most)
        mine, edges = stratum[pair], []
        for k in range(int(stratum.max()) + 1):
            here = mine == k
            share = float(shares[stratum == k].sum())
            few = sizes._replace(rows=sizes.rows * share)
            edges.append(_best_edges(highest[here], weight[here], max(1, round(most * share)), few))
        place = _place(stratum, edges, mended)
        levels = sum(len(inside) + 1 for inside in edges)
        mass = np.bincount(place, weight, levels)
        plain = mended.mean(axis=0)  # for a level without rows: of a class that is never the most probable
        values = np.column_stack([np.bincount(place, weight * column, levels) for column in mended.T])
        means = np.where(mass[:, None] > 0, values / np.maximum(mass, _TINY)[:, None], plain)
        return cls(stratum, tuple(edges), means)

    def place(self, mended: Floats) -> Any:
        """Return every row's level, as a number from 0."""
        return _place(self.stratum, self.edges, mended)


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


def _best_edges(p: Floats, weight: Floats, most: int, sizes: Sizes) -> Floats:
    """Return where to divide forecasts into levels, at most `most`.

    The more levels, the less log loss does rounding cost, but each has fewer rows, and c is wider. The levels
    make the sum of half of this log loss and of a part of the mean c² as small as possible, among those that
    keep nearly all that the forecasts know. They are put together from parts of equal weight by dynamic
    programming.
    """
    parts = equal_mass_edges(p, weight, _GRID)
    found = []
    for count in range(1, min(most, len(parts) + 1) + 1):
        lost, width = _costs(p, weight, parts, count, sizes)
        cost = lost + _WIDTH_COUNTS * width
        for aim in (cost, lost):
            first, last = _divide(aim, count)
            found.append(_Division(parts[last[:-1]], cost[first, last].sum(), lost[first, last].sum()))
    fine = [one for one in found if one.lost <= _MAY_LOSE * found[0].lost]
    return min(fine, key=lambda one: one.cost).edges if fine else min(found, key=lambda one: one.lost).edges


class _Division(NamedTuple):
    """Where to divide forecasts into levels, what that costs, and the part of it that rounding costs."""

    edges: Floats
    cost: float
    lost: float


def _divide(cost: Floats, count: int) -> tuple[Any, Any]:
    """Return the first and the last part of each of `count` levels that cost the least together."""
    best, came = cost[0], []
    for _ in range(count - 1):
        through = best[:, None] + np.vstack([cost[1:], np.full(cost.shape[1], np.inf)])
        came.append(np.argmin(through, axis=0))
        best = through.min(axis=0)
    last = [cost.shape[1] - 1]
    for step in reversed(came):
        last.append(int(step[last[-1]]))
    ends = np.array(last[::-1])
    return np.append(0, ends[:-1] + 1), ends


def _costs(p: Floats, weight: Floats, parts: Floats, count: int, sizes: Sizes) -> tuple[Floats, Floats]:
    """Return, for every first part (a row) and last part (a column) of a level, its loss and its width.

    Half of the log loss that rounding is expected to cost counts: near ½ this is the Brier score it costs.
    With n rows in a cell, c² is about 2·ln(tests / risk)·μ(1 − μ) / n, and at most max(μ, 1 − μ)².
    """
    place = np.searchsorted(parts, p, side="right")
    share = weight / weight.sum() if len(p) else weight
    kinds = (np.ones(len(p)), p, _entropy(p))
    added = [np.bincount(place, share * one, len(parts) + 1) for one in kinds]
    ends = [np.cumsum(one) for one in added]
    mass, total, unsure = (end[None, :] - (end - one)[:, None] for end, one in zip(ends, added, strict=True))
    mu = np.clip(total / np.maximum(mass, _TINY), 0.0, 1.0)
    lost = np.maximum(mass * _entropy(mu) - unsure, 0.0) / 2
    reach = 2 * np.log(count * sizes.tests / (1 - sizes.confidence)) * mu * (1 - mu) / max(sizes.rows, 1)
    widest = np.maximum(mu, 1 - mu) ** 2
    labels = zip(*np.unique(sizes.shares, return_counts=True), strict=True)
    width = sum(many * np.minimum(reach, mass * one * widest) for one, many in labels)
    first, last = np.indices(mass.shape)
    return np.where(first <= last, lost, np.inf), np.where(first <= last, width, np.inf)


def _entropy(p: Floats) -> Floats:
    """The log loss that is expected of a forecast p that is right."""
    p = np.clip(p, _TINY, 1 - 1e-16)
    sure: Floats = -p * np.log(p) - (1 - p) * np.log1p(-p)
    return sure


def _rank(mended: Floats) -> tuple[Any, Floats]:
    """Return the number of every row's pair of most probable classes, and the higher of their probabilities.

    With two classes there is one column, one pair, and the probability of the second class.
    """
    classes, rows = mended.shape[1], np.arange(len(mended))
    first = np.argmax(mended, axis=1)
    highest: Floats = mended[rows, first]
    if classes == 1:
        return first, highest
    others = mended.copy()
    others[rows, first] = -np.inf
    return first * classes + np.argmax(others, axis=1), highest


def _strata(shares: Floats, least: float) -> Any:
    """Number the pairs with at least a share `least`, each by itself; the other pairs of a class together."""
    alone = shares >= least
    rest = np.cumsum(np.any(~alone, axis=1)) - 1
    numbers = np.where(alone, np.cumsum(alone).reshape(alone.shape) + rest.max(), rest[:, None])
    return numbers.ravel()


def _place(stratum: Any, edges: Sequence[Floats], mended: Floats) -> Any:
    pair, highest = _rank(mended)
    mine = stratum[pair]
    first = np.cumsum([0, *(len(inside) + 1 for inside in edges)])
    place = np.zeros(len(mended), dtype=np.int64)
    for k, inside in enumerate(edges):
        here = mine == k
        place[here] = first[k] + np.searchsorted(inside, highest[here], side="right")
    return place
