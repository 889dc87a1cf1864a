"""Conclusions from independent clusters, whose own outcomes may depend on each other in any way.

Flights of one day share the weather. So the unit of evidence is the day: for every cell and every cluster,
the sums over the cell's rows in that cluster.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from makewhole.arguments import Floats
from makewhole.auditing.evidence import Evidence, GapBounds, log_mean_exp, smallest_unrefuted
from makewhole.auditing.means import ClusterSums, Means
from makewhole.auditing.sums import ClusterParts, GroupedSums
from makewhole.jit import call, jit

_METHOD = "bets on whole clusters, mixed over their sizes (Waudby-Smith and Ramdas 2024)"

# The stakes on each cluster, as shares of the most that the bettor can stake at c = 0 without ever owing
# anything. A share may exceed 1 where the price is below 0, as it is for upper bounds on rare events.
_SHARES = 0.98 * 2.0 ** (2.0 - np.arange(10))

# A bettor's largest stake is set by the largest mean forecast; if that is tiny, by this share of the rows.
_LEAST_SHARE = 0.01

# The bets on all rows, or on a whole group, share this part of the risk; the bets on bins share the rest.
_WHOLES = 0.5

_HALVINGS = 21  # bisections of [−1, 1] in the search for a bound on a gap: to a millionth
_BLOCK = 64  # factors that are multiplied before the logarithm is taken; each lies in [0.001, 800]


def gather(
    results: Sequence[GroupedSums], bins: int, c: str | float, largest: float | None = None
) -> ClusterSums | None:
    """Combine the sums by cluster of one class's queries, with the cells of `ClassSums`.

    `c` is the half-width, or the name of its column. Returns None if there are no clusters, or if every row
    is one and `largest`, the size that no cluster can exceed, does not say that there may be larger ones.
    """
    first = results[0].parts
    if first is None or (largest is None and first.clusters == first.sums["one"].sum()):
        return None
    cells, sums = [], []
    for group, inside, parts in _groups_of(results):
        for column in (parts.bin[inside], np.full(int(inside.sum()), bins)):  # each bin, and all of them
            cell = group[inside] * (bins + 1) + column
            added = parts.sums
            weight = added.get("weight", added["one"])
            price = added["c"] if isinstance(c, str) else c * weight
            kept = [one[inside] for one in (weight, added["mu"], added["outcome"] - added["mu"], price)]
            folded = _fold(cell, parts.cluster[inside], kept)
            cells.append(folded[0])
            sums.append(folded[1])
    order = np.argsort(np.concatenate(cells), kind="stable")
    weight, mu, error, prices = (np.concatenate(column)[order] for column in zip(*sums, strict=True))
    top_c = 1.0 if isinstance(c, str) else c
    return ClusterSums(np.concatenate(cells)[order], weight, mu, error, prices, largest, top_c)


def _groups_of(results: Sequence[GroupedSums]) -> Iterator[tuple[Any, Any, ClusterParts]]:
    """Yield, for every grouping, each entry's group number, which entries are in a group, and the entries."""
    every = [(result, result.parts) for result in results if result.parts is not None]
    first = every[0][1]
    yield np.zeros(len(first.row), np.int64), np.ones(len(first.row), bool), first
    count = 1
    for result, parts in every:
        for k, grouping in enumerate(result.groupings):
            if grouping.column is not None:
                yield parts.row + count, np.ones(len(parts.row), bool), parts
                count += len(result.labels)
            else:
                member = np.array([label[k] == "1" for label in result.labels], dtype=bool)
                yield np.full(len(parts.row), count), member[parts.row], parts
                count += 1


def _fold(cell: Any, cluster: Any, columns: Sequence[Floats]) -> tuple[Any, list[Floats]]:
    """Add up the columns for each pair of a cell and a cluster; returns the cells, sorted, and the sums."""
    clusters = int(cluster.max(initial=0)) + 1
    pairs, at = np.unique(cell * clusters + cluster, return_inverse=True)
    sums: list[Any] = [np.bincount(at, column, len(pairs)) for column in columns]
    return pairs // clusters, sums


def conclude(means: Means, by_class: Sequence[ClusterSums], confidence: float) -> Evidence:
    """Draw all conclusions.

    Take one cell, with n clusters. Let N be a cluster's weight in the cell, S = Σw(y − μ) and C = Σwc.
    A bettor who stakes the same η on every cluster that the event happens has, after all of them,
    Π(1 + η(S − C)) of her money. If the mean of S does not exceed the mean of C, no such bet wins: the
    clusters are independent, so the expectation is Π(1 + η·E(S − C)), which is at most
    (1 + η·mean of E(S − C))^n <= 1. Her money must not become negative: as S >= −Σwμ, η is at most
    1 / max(Σwμ + C), the maximum over the clusters. Ten stakes are tried in parallel, each with a tenth of
    the money. The bet that it does not happen is treated likewise.

    So the chance that she ends with 1/risk times her money is at most `risk` (Markov's inequality). The risk
    is divided among the cells, half of it to wholes and half to bins, and among the two sides. A mean of such
    bets is also a bet: `together` is the chance of the mean of all. A bound on a cell's gap is the largest c
    that her money refutes, for C = c·N.

    The clusters' sizes need not be independent of their outcomes, if the largest Σwμ + C is known
    beforehand: the bets are on sums, not on means, of clusters. `largest` in the sums gives it: no cluster's
    weight exceeds it, and no forecast of a bin exceeds the bin's upper end. Without it, the largest Σwμ + C
    seen is used, and the conclusions hold if no cluster can be larger.
    """
    shape = means.rows.shape[1:]
    share = divide_risk(means.full)
    low, high = np.full(means.rows.shape, -1.0), np.full(means.rows.shape, 1.0)
    logs = np.full((2, *means.rows.shape), -np.inf)
    risk = 1 - confidence
    spans = [_spans(sums.cell) for sums in by_class]
    for k, (sums, (starts, ends)) in enumerate(zip(by_class, spans, strict=True)):
        at = np.unravel_index(sums.cell[starts], shape)
        enough = -np.log(risk * share[k][at] / 2)
        for side, sign in enumerate((1.0, -1.0)):
            given, most = _one_side(sums, sign), _most_of(sums, sign, at[1], shape[1] - 1)
            logs[side, k][at] = call(_measure(), *given, sums.c, starts, ends, most, sums.top_c)
            reach = call(_search(), *given, starts, ends, most, enough)
            (low if side == 0 else high)[k][at] = sign * reach
    money = log_mean_exp(logs[:, means.full], axis=1, weights=share[means.full])
    evidence = float(log_mean_exp(money))
    p_value = np.ones(low.shape)
    own = np.log(share[means.full] / 2) + logs.max(axis=0)[means.full]
    p_value[means.full] = np.exp(-np.maximum(own, 0.0))
    gaps = GapBounds(np.maximum(low, -means.mu), np.minimum(high, 1 - means.mu))

    def refutes(c: float) -> bool:
        return _together(by_class, spans, share, c) >= -math.log(risk)

    return Evidence(
        gaps=gaps,
        p_value=p_value,
        together=min(1.0, math.exp(-evidence), float(p_value[means.full].min())),
        together_c=smallest_unrefuted(refutes, gaps, halvings=14),
        method=_METHOD,
    )


def divide_risk(full: Any) -> Floats:
    """Divide the risk among the cells: half to wholes and half to bins; with one bin all to wholes."""
    share = np.zeros(full.shape)
    if full.shape[-1] == 2:  # the bin and the whole are the same cell
        share[full] = 1.0 / full[..., -1].sum()
        return share
    for part, given in ((slice(-1, None), _WHOLES), (slice(None, -1), 1 - _WHOLES)):
        inside = full[..., part]
        share[..., part] = np.where(inside, given / max(1, inside.sum()), 0.0)
    return share


def _one_side(sums: ClusterSums, sign: float) -> tuple[Floats, Floats, Floats]:
    """Return each cluster's win for a bet on one side at c = 0, its weight, and its largest loss."""
    least = sums.mu if sign > 0 else sums.weight - sums.mu
    return sign * sums.error, sums.weight, least


def _most_of(sums: ClusterSums, sign: float, bins: Any, count: int) -> Any:
    """Return for each cell the largest weight of a cluster, and the most that a bet on it can lose at c = 0.

    `bins` are the cells' bins, the last of which, `count`, is all of them. Both numbers are 0 if no largest
    cluster is given.
    """
    edge = (bins + 1) / count if sign > 0 else 1 - bins / count
    edge = np.where(bins == count, 1.0, edge)
    largest = sums.largest or 0.0
    return np.column_stack([np.full(len(edge), largest), largest * edge])


def _spans(cell: Any) -> tuple[Any, Any]:
    """Return where the entries of each cell begin and end in a sorted array of cells."""
    ends = np.flatnonzero(np.diff(cell, append=-1)) + 1
    return np.append(0, ends[:-1]), ends


def _together(by_class: Sequence[ClusterSums], spans: Sequence[Any], share: Floats, c: float) -> float:
    """Return the logarithm of the money of all bets together at a constant c."""
    money, weights = [], []
    for k, (sums, (starts, ends)) in enumerate(zip(by_class, spans, strict=True)):
        for sign in (1.0, -1.0):
            cells = sums.cell[starts]
            most = _most_of(sums, sign, cells % share.shape[-1], share.shape[-1] - 1)
            given = _one_side(sums, sign)
            money.append(call(_measure(), *given, c * sums.weight, starts, ends, most, c))
            weights.append(share[k].ravel()[cells])
    return float(log_mean_exp(np.concatenate(money), weights=np.concatenate(weights)))


# --- compiled ---------------------------------------------------------------------------------------------


def log_money(
    wins: Any,
    weight: Any,
    loses: Any,
    price: Any,
    c: float,
    top_c: float,
    start: int,
    end: int,
    most_of: Any,
    logs: Any,
    products: Any,
) -> float:
    """Return the logarithm of the money after bets on the clusters from `start` to `end`.

    The price of a bet on a cluster is `price` + c·weight; `price` is at most top_c·weight. `most_of` is the
    largest weight that a cluster can have and the most that a bet on it can lose at c = 0; 0 if not known. A
    stake that could lose more than all the money counts as lost. So the money never rises with the price.
    """
    unit = max(most_of[1], _LEAST_SHARE * most_of[0])
    most = most_of[1] + (top_c + c) * most_of[0]
    if most_of[0] == 0.0:
        for j in range(start, end):
            unit = max(unit, loses[j], _LEAST_SHARE * weight[j])
            most = max(most, loses[j] + price[j] + c * weight[j])
    stakes = len(_SHARES)
    first = 0
    while first < stakes and _SHARES[first] * most > 0.999 * unit:
        first += 1
    logs[:] = 0.0
    products[:] = 1.0
    for j in range(start, end):
        won = (wins[j] - price[j] - c * weight[j]) / unit
        for k in range(stakes):
            products[k] *= 1.0 + _SHARES[k] * won if k >= first else 1.0
        if (j - start) % _BLOCK == _BLOCK - 1:
            for k in range(stakes):
                logs[k] += math.log(products[k])
                products[k] = 1.0
    best = -np.inf
    for k in range(first, stakes):
        logs[k] += math.log(products[k])
        best = max(best, logs[k])
    money = 0.0
    for k in range(first, stakes):
        money += math.exp(logs[k] - best)
    return best + math.log(money / stakes) if first < stakes else -np.inf


def measure(
    wins: Any, weight: Any, loses: Any, price: Any, starts: Any, ends: Any, most: Any, top_c: float
) -> Any:
    """Return the logarithm of the money for each cell, at the given price."""
    money, logs, products = np.empty(len(starts)), np.empty(len(_SHARES)), np.empty(len(_SHARES))
    for i in range(len(starts)):
        money[i] = log_money(
            wins, weight, loses, price, 0.0, top_c, starts[i], ends[i], most[i], logs, products
        )
    return money


def search(wins: Any, weight: Any, loses: Any, starts: Any, ends: Any, most: Any, enough: Any) -> Any:
    """Return for each cell the largest constant c in [−1, 1] at which the money's logarithm is `enough`."""
    largest, logs, products = np.empty(len(starts)), np.empty(len(_SHARES)), np.empty(len(_SHARES))
    nothing = np.zeros(len(weight))
    for i in range(len(starts)):
        low, high = -1.0, 1.0
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            money = log_money(
                wins, weight, loses, nothing, middle, 0.0, starts[i], ends[i], most[i], logs, products
            )
            if money >= enough[i]:
                low = middle
            else:
                high = middle
        largest[i] = low
    return largest


@functools.cache
def _measure() -> Callable[..., Any]:
    return jit(measure, log_money)


@functools.cache
def _search() -> Callable[..., Any]:
    return jit(search, log_money)
