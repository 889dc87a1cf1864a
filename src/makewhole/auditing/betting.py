"""Conclusions by betting in order of time: for forecasts that were learned from earlier outcomes.

Every cell has a bettor. Before each unit (the rows of one time, or of one cluster) she knows its forecasts
and everything that happened before it; then its outcomes come. If every forecast is right given what happened
before it, her money has no upward drift, regardless of how the forecasts were learned.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from makewhole import bounds
from makewhole.arguments import Floats
from makewhole.auditing.clusters import divide_risk
from makewhole.auditing.evidence import Evidence, GapBounds, smallest_unrefuted
from makewhole.auditing.groupings import Group
from makewhole.auditing.means import Means
from makewhole.auditing.sums import BettingRows, Columns
from makewhole.bounds import BETTING_SHARES
from makewhole.insured.monitor import boundary
from makewhole.jit import call, jit

_METHOD = "betting in order of time (Waudby-Smith and Ramdas 2024; bounds of Howard et al. 2021)"

_LEAST_SHARE = 0.01  # of the rows; as in `clusters`
_MOST = 1e290  # a cap on a bettor's money, so that it cannot overflow: the evidence is overwhelming by then


class _Units(NamedTuple):
    """The rows of one class in order of time: where each unit ends, and the cells that each row lies in.

    `largest` is the number of rows that no unit can exceed; 0 if it is not known.
    """

    ends: Any
    mu: Floats
    outcome: Floats
    c: Floats
    cells: Any
    largest: float


def conclude(
    means: Means,
    rows: Sequence[BettingRows],
    columns: Sequence[Columns],
    groups: list[Group],
    confidence: float,
) -> Evidence:
    """Draw all conclusions.

    On each unit the bettor of a cell stakes a share of her money that it happens, in proportion to
    (Σ(y − μ) − Σc) / cap, or that it does not; the cap is the largest Σ(μ + c) (or Σ(1 − μ + c)) of a unit so
    far, this one included, which she knows before the outcomes. Ten shares are tried in parallel on each
    side. The money of all cells together, half of it given to wholes and half to bins, is compared with
    1/risk at every time: the chance that it ever gets there is at most `risk` (Ville's inequality). With
    classes the risk is divided among them.

    The bounds on the gaps are Howard et al.'s: they hold for the mean of the gaps given what happened before,
    at all times together. The groups and the largest unit are assumed to be known beforehand. If the columns
    give the largest unit, the cap is the most that it can lose: the sizes may then depend on the outcomes.
    """
    risk, classes = 1 - confidence, len(rows)
    p_value, low, high = (np.ones(means.rows.shape) for _ in range(3))
    share = divide_risk(means.full) * classes
    pool = share / share.sum(axis=(1, 2), keepdims=True)  # each class has its own money, 1 at the start
    units = [_arrange(own, column, groups) for own, column in zip(rows, columns, strict=True)]
    together = 1.0
    for k, unit in enumerate(units):
        top_c = 1.0 if isinstance(columns[k].c, str) else float(columns[k].c)
        richest, best, sums = _play(unit, pool[k], unit.c, top_c)
        together = min(together, classes / richest)
        p_value[k] = np.minimum(1.0, classes / np.maximum(best * share[k], 1e-300))
        low[k], high[k] = _bound(sums, share[k] * risk / classes)

    def refutes(c: float) -> bool:
        richest = (_play(unit, pool[k], np.full(len(unit.mu), c), c)[0] for k, unit in enumerate(units))
        return classes / max(richest) <= risk

    gaps = GapBounds(np.maximum(low, -means.mu), np.minimum(high, 1 - means.mu))
    together_c = smallest_unrefuted(refutes, gaps, halvings=14)
    if together <= risk and together_c <= float(means.c[means.full].min()):
        together = float(np.nextafter(risk, 1.0))  # a larger c must not be refuted if a smaller one is not
    return Evidence(
        gaps=gaps,
        p_value=np.where(means.full, p_value, 1.0),
        together=min(1.0, together, float(p_value[means.full].min())),
        together_c=together_c,
        method=_METHOD,
    )


def _arrange(rows: BettingRows, columns: Columns, groups: list[Group]) -> _Units:
    """Sort the rows by time, find the units, and number the cells that each row lies in (−1 for none)."""
    unit = rows.order
    if rows.cluster is not None:
        unit = _order_clusters(rows.order, rows.cluster, str(columns.cluster))
    order = np.argsort(unit, kind="stable")
    ends = np.flatnonzero(np.diff(unit[order], append=-1)) + 1
    width = rows.bins + 1
    place = {group: k for k, group in enumerate(groups)}
    cells = [rows.bin, np.full(len(rows.bin), rows.bins)]
    for name, labels in rows.labels.items():
        # A missing label belongs to a small group; these are audited as one, the column's last.
        last = max((k for k, group in enumerate(groups) if group.grouping == name), default=-1)
        known = [-1 if label is None else place.get(Group(name, label), last) for label in labels.names]
        group = np.array(known, np.int64)[labels.places]
        cells += [np.where(group < 0, -1, group * width + column) for column in (rows.bin, rows.bins)]
    c = rows.c if isinstance(columns.c, str) else np.full(len(rows.mu), columns.c)
    largest = columns.largest_cluster or 0.0
    seen = int(np.diff(ends, prepend=0).max())
    if largest and seen > largest:
        raise ValueError(
            f"largest_cluster must be a size that no cluster (or time) exceeds; got {largest:g}, and one of "
            f"{seen} rows (give the largest size that there can be)"
        )
    cells_of = np.stack(cells, axis=1)[order]
    return _Units(ends, rows.mu[order], rows.outcome[order], c[order], cells_of, largest)


def _order_clusters(order: Any, cluster: Any, name: str) -> Any:
    """Number the clusters by their first time; raise a ValueError if one begins before another ends."""
    first = np.full(int(cluster.max()) + 1, np.iinfo(np.int64).max)
    last = np.full(len(first), np.iinfo(np.int64).min)
    np.minimum.at(first, cluster, order)
    np.maximum.at(last, cluster, order)
    by_time = np.lexsort((last, first))
    if np.any(last[by_time][:-1] > first[by_time][1:]):
        raise ValueError(
            f"cluster={name!r} must have clusters that do not overlap in time; some do (forecasts must not "
            "be learned from the outcomes of a later cluster)"
        )
    rank = np.empty(len(first), np.int64)
    rank[by_time] = np.arange(len(first))
    return rank[cluster]


def _play(units: _Units, share: Floats, c: Floats, top_c: float) -> tuple[float, Floats, Any]:
    """Let all bettors bet. Returns the most money they had together, that each had, and sums for bounds.

    `top_c` is the largest c that there can be.
    """
    size = 1 << max(0, share.size - 1).bit_length()
    best, sums = np.ones(share.size), np.zeros((share.size, 4))
    sums[:, 3] = units.largest
    given = (units.ends, units.mu, units.outcome, c, units.cells, share.ravel(), size)
    richest = call(_bettors(), *given, _caps(units.largest, share.shape, top_c), best, sums)
    return richest, best.reshape(share.shape), sums.reshape(*share.shape, 4)


def _caps(largest: float, shape: tuple[int, ...], top_c: float) -> Floats:
    """Return the most that a bet on the largest unit can lose, by cell and side; 0 if it is not known."""
    bins = shape[-1] - 1
    top = np.append((np.arange(bins) + 1) / bins, 1.0)
    bottom = np.append(np.arange(bins) / bins, 0.0)
    sides = np.stack([top, 1 - bottom], axis=-1) + top_c
    caps: Floats = largest * np.broadcast_to(sides, (*shape, 2)).reshape(-1, 2)
    return caps


def _bound(sums: Any, risk: Floats) -> tuple[Floats, Floats]:
    """Bound the mean gap of each cell at all times, each side with half of the cell's risk."""
    low, high = np.full(risk.shape, -1.0), np.full(risk.shape, 1.0)
    for at in np.ndindex(risk.shape):
        rows, error, variance, largest = sums[at]
        if rows:
            half = boundary(variance, 2 * largest, float(risk[at]) / 2) / rows
            low[at], high[at] = error / rows - half, error / rows + half
    return low, high


# --- compiled ---------------------------------------------------------------------------------------------


def bettors(
    ends: Any,
    mu: Any,
    outcome: Any,
    c: Any,
    cells: Any,
    share: Any,
    size: int,
    caps: Any,
    best: Any,
    sums: Any,
) -> float:
    """Play all units; returns the most money that all bettors ever had together, starting from 1."""
    count, stakes = len(share), len(BETTING_SHARES)
    money = np.full((count, 2, stakes), 0.5 / stakes)
    now = np.zeros((count, 4))  # of the current unit: rows, Σμ, Σ(y − μ), Σc
    touched = np.empty(count, np.int64)
    # A tree of sums: the total is at its root, and a change costs one addition per level.
    tree = np.zeros(2 * size)
    for i in range(count):
        tree[size + i] = share[i]
    for i in range(size - 1, 0, -1):
        tree[i] = tree[2 * i] + tree[2 * i + 1]
    richest, start = float(tree[1]), 0
    for end in ends:
        many = 0
        for t in range(start, end):
            for k in range(cells.shape[1]):
                i = cells[t, k]
                if i < 0:
                    continue
                if now[i, 0] == 0.0:
                    touched[many] = i
                    many += 1
                now[i, 0] += 1.0
                now[i, 1] += mu[t]
                now[i, 2] += outcome[t] - mu[t]
                now[i, 3] += c[t]
        for j in range(many):
            i = touched[j]
            own = settle(now[i], money[i], caps[i], sums[i])
            best[i] = max(best[i], own)
            now[i, :] = 0.0
            place = size + i
            tree[place] = share[i] * own
            while place > 1:
                place //= 2
                tree[place] = tree[2 * place] + tree[2 * place + 1]
        richest = max(richest, float(tree[1]))
        start = end
    return richest


def settle(now: Any, money: Any, caps: Any, sums: Any) -> float:
    """Settle one cell's bets on one unit; returns the bettor's money after it."""
    rows, mu, error, price = now[0], now[1], now[2], now[3]
    total = 0.0
    for side in range(2):
        wins = error if side == 0 else -error
        loses = mu if side == 0 else rows - mu
        caps[side] = max(caps[side], loses + price, _LEAST_SHARE * rows)
        for k in range(len(BETTING_SHARES)):
            money[side, k] = min(
                money[side, k] * (1.0 + BETTING_SHARES[k] * (wins - price) / caps[side]), _MOST
            )
            total += money[side, k]
    expected = sums[1] / sums[0] * rows if sums[0] > 0.0 else 0.0
    sums[2] += (error - expected) ** 2
    sums[0] += rows
    sums[1] += error
    sums[3] = max(sums[3], rows)
    return total


@functools.cache
def _bettors() -> Callable[..., Any]:
    return jit(bettors, settle, modules=(bounds,))
