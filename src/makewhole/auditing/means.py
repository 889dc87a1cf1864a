"""The means of every cell of an audit, from the sums that came back from the engine.

A cell is a bin of the forecast, a group, or a bin of a group. Arrays of cells are [class, group, bin]; the
first group is everyone, and the last bin is all bins together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from makewhole.arguments import Floats
from makewhole.auditing.groupings import Group
from makewhole.auditing.sums import Columns

# Weights whose mean is this close to the largest are equal up to rounding.
_EQUAL = 1e-9


class ClusterSums(NamedTuple):
    """The sums of one class by cell and cluster: one entry for each pair that has rows, sorted by cell.

    `cell` is the place in the flattened array [group, bin]. `weight` is Σw, `mu` Σwμ, `error` Σw(y − μ), and
    `c` Σwc. `largest` is the weight that no cluster can exceed (None if not known), `top_c` the largest c.
    """

    cell: Any
    weight: Floats
    mu: Floats
    error: Floats
    c: Floats
    largest: float | None
    top_c: float


@dataclass
class ClassSums:
    """The sums of one class: a row for everyone and for each group, a column for each bin and one for all.

    `scores` are the sums over all rows that only the scores need. `missing` is how many rows were left out.
    `families` are the places of groups that share no rows: everyone, and the groups of each column.
    `clusters` are the sums by cluster, and `cluster_count` is how many clusters there are; None without.
    """

    groups: list[Group]
    sums: dict[str, Floats]
    scores: dict[str, float]
    missing: int
    families: list[Any]
    clusters: ClusterSums | None = None
    cluster_count: int | None = None

    @property
    def rows(self) -> int:
        """How many rows were audited."""
        return int(self.sums["one"][0, -1])


class Means(NamedTuple):
    """The means of every cell, as arrays [class, group, bin]; the last bin is all bins together.

    `rows` is n, the number of rows; `full` says whether there are any. `weight` is Σw, the sum of the weights
    (n without weights). `mu`, `outcome` and `c` are weighted means, such as Σwμ / Σw. `share` is the mean
    weight divided by the largest, Σw / (n·max w): 1 where all weights are equal. `spread` is √Σw² / Σw, and
    None without weights. `graded` says that outcomes may be any numbers in [0, 1].
    """

    rows: Floats
    full: Any
    weight: Floats
    mu: Floats
    outcome: Floats
    c: Floats
    share: Floats
    spread: Floats | None
    graded: bool = False

    @property
    def gap(self) -> Floats:
        """How much more often it happened than was forecast: mean outcome − mean μ."""
        return self.outcome - self.mu

    @property
    def cells(self) -> int:
        """How many different cells have rows: with one bin, it and all bins together are the same cell."""
        return int((self.full[..., -1] if self.full.shape[-1] == 2 else self.full).sum())

    @property
    def ways(self) -> Floats:
        """How many bounds are tried per cell and side: 2 where rows weigh differently, else 1."""
        ways: Floats = np.where(self.share < 1 - _EQUAL, 2, 1) * np.ones(self.rows.shape)
        return ways

    @property
    def counted(self) -> Any:
        """Where the sum of the outcomes is a count: rows weigh the same, and every outcome is 0 or 1."""
        return (self.ways == 1) & (not self.graded)


def compute_means(by_class: Sequence[ClassSums], columns: Sequence[Columns]) -> Means:
    """Divide the sums of every cell by its weight."""
    rows = stack_sums(by_class, "one")
    full = rows > 0
    weight = stack_sums(by_class, "weight") if columns[0].weight else rows
    per = np.where(full, weight, 1.0)
    c = [  # a number stays as it is: multiplying and dividing it by the weight would round it
        sums.sums["c"] / w if isinstance(own.c, str) else np.where(sums.sums["one"] > 0, own.c, 0.0)
        for sums, own, w in zip(by_class, columns, per, strict=True)
    ]
    share, spread = np.ones(rows.shape), None
    if columns[0].weight:
        heaviest = np.where(full, rows * stack_sums(by_class, "heaviest"), 1.0)
        share = np.where(full, np.minimum(weight / heaviest, 1.0), 1.0)
        spread = np.sqrt(stack_sums(by_class, "weight_squared")) / per
    return Means(
        rows=rows,
        full=full,
        weight=weight,
        mu=stack_sums(by_class, "mu") / per,
        outcome=stack_sums(by_class, "outcome") / per,
        c=np.stack(c),
        share=share,
        spread=spread,
        graded=columns[0].graded,
    )


def stack_sums(by_class: Sequence[ClassSums], name: str) -> Floats:
    """Return one sum of all classes, as an array [class, group, bin]."""
    return np.stack([sums.sums[name] for sums in by_class])
