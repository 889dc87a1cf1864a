"""The bets of a watch, compiled. docs/theory.md, "The watch", has the proof that its alarms are right.

Every group has bettors on two sides: that it happens more often than forecast, and less often. A unit is
one cluster, or one row without clusters. At the end of a unit each bettor's money is multiplied by
1 + share·(wins − price) / cap; `cap` is the most that the unit's rows can lose, fixed before the unit. Part
of a reserve is put in before every unit, so that a change is found even after a long time without one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from makewhole import bounds
from makewhole.bounds import BETTING_SHARES
from makewhole.jit import jit

_SAFE = 0.999  # a share that could lose more than this part of the money counts as lost
_MOST = 1e290  # a cap on a bettor's money, so that it cannot overflow
_LEAST = 0.01  # the cap is at least this share of the rows
POINTS = 128  # of a group's history: how many are kept

# Of one unit, in `now`: rows, Σμ, the first and the last time; then for each side rows, Σμ and Σ(y − μ)
# of the rows that are bet on.
ROWS, MU, FIRST, LAST, SIDES = 0, 1, 2, 3, 4
# Of all units, in `sums`: rows, Σμ, Σy, units, rows that no side bet on, history's stride, history's points.
ALL_ROWS, ALL_MU, ALL_Y, UNITS, UNBET, STRIDE, KEPT = range(7)
# Of an alarm, in `alarms`: whether there is one, when it was raised, since when, and the group's rows then.
RAISED, WHEN, SINCE, BY = range(4)


class Memory(NamedTuple):
    """What a watch remembers: arrays whose first index is the group's number.

    `money` is [group, side, price, share]. `best` and `starts` are [group, side, price]: the money of 1 put
    in at the best time, and that time. `caps` are the most rows of a unit, and the most that each side can
    lose. `level` is how many prices each side has refuted. `enough` is the money at which a price is refuted.
    `touched` are the groups of the unit that has begun, `count` how many they are, `unit` its number.
    """

    money: Any
    best: Any
    starts: Any
    caps: Any
    now: Any
    sums: Any
    level: Any
    alarms: Any
    history: Any
    enough: Any
    touched: Any
    count: Any
    unit: Any


def make_memory(groups: int, prices: int) -> Memory:
    """Return an empty memory with room for this many groups."""
    shares = len(BETTING_SHARES)
    return Memory(
        money=np.zeros((groups, 2, prices, shares)),
        best=np.zeros((groups, 2, prices)),
        starts=np.zeros((groups, 2, prices)),
        caps=np.zeros((groups, 3)),
        now=np.zeros((groups, SIDES + 6)),
        sums=np.zeros((groups, 7)),
        level=np.zeros((groups, 2), np.int64),
        alarms=np.zeros((groups, 2, 4)),
        history=np.zeros((groups, POINTS, 3)),
        enough=np.full(groups, np.inf),
        touched=np.zeros(groups, np.int64),
        count=np.zeros(1, np.int64),
        unit=np.zeros(1),
    )


def prior_weight(number: int, first: int) -> float:
    """Return the weight of the `number`-th of infinitely many things, from 1; all weights add up to 1.

    The first `first` share ½, the next 2·first share ⅙, the next 4·first share 1/12, and so on.
    """
    size, end, epoch = first, first, 1
    while number > end:
        size *= 2
        end += size
        epoch += 1
    return 1.0 / (epoch * (epoch + 1.0) * size)


def watch_rows(
    memory: Any,
    mu: Any,
    y: Any,
    at: Any,
    unit: Any,
    cells: Any,
    prices: Any,
    watched: int,
    alone: bool,
    largest: float,
) -> None:
    """Add rows in order; a unit's bets are settled when the next unit begins, or after each row if `alone`.

    `cells` are the numbers of each row's groups (−1 for none). `watched` is the place of the price whose
    refutation raises an alarm. `largest` is the size that no unit can exceed; 0 if it is not known. A row
    whose y is NaN is left out.
    """
    for t in range(len(mu)):
        if np.isnan(y[t]):
            continue
        if unit[t] != memory.unit[0]:
            end_unit(memory, prices, watched, alone, largest)
            memory.unit[0] = unit[t]
        for j in range(cells.shape[1]):
            if cells[t, j] >= 0:
                add_row(memory, cells[t, j], mu[t], y[t], at[t], largest)
        if alone:
            end_unit(memory, prices, watched, alone, largest)


def add_row(memory: Any, g: int, mu: float, y: float, at: float, largest: float) -> None:
    """Add one row to the current unit of group g, on each side where it fits under the cap."""
    now, caps, sums = memory.now[g], memory.caps[g], memory.sums[g]
    if now[ROWS] == 0.0:
        memory.touched[memory.count[0]] = g
        memory.count[0] += 1
        now[FIRST] = at
        if largest > 0.0:
            caps[:] = largest
    now[LAST] = at
    now[ROWS] += 1.0
    now[MU] += mu
    sums[ALL_ROWS] += 1.0
    sums[ALL_MU] += mu
    sums[ALL_Y] += y
    fits = 0
    for side in range(2):
        own = now[SIDES + 3 * side : SIDES + 3 * side + 3]
        loses = mu if side == 0 else 1.0 - mu
        if own[0] + 1.0 <= caps[0] and own[1] + loses <= caps[1 + side]:
            own[0] += 1.0
            own[1] += loses
            own[2] += y - mu
            fits += 1
    if fits == 0:
        sums[UNBET] += 1.0


def end_unit(memory: Any, prices: Any, watched: int, alone: bool, largest: float) -> None:
    """Settle the bets of the current unit in all groups that it touched."""
    for i in range(memory.count[0]):
        g = memory.touched[i]
        now, sums = memory.now[g], memory.sums[g]
        sums[UNITS] += 1.0
        if memory.caps[g, 0] > 0.0:  # without a known size, a group's first unit only sets the caps
            settle(memory, g, prices, watched, prior_weight(sums[UNITS] - (largest == 0.0), 1))
        if largest == 0.0:
            grow_caps(memory.caps[g], now, alone)
        remember(memory.history[g], sums, now[LAST])
        now[:] = 0.0
    memory.count[0] = 0


def settle(memory: Any, g: int, prices: Any, watched: int, put_in: float) -> None:
    """Settle the bets of group g on one unit, at all prices, with new money put in; raise its alarms."""
    now, caps, sums = memory.now[g], memory.caps[g], memory.sums[g]
    for side in range(2):
        rows, error = now[SIDES + 3 * side], now[SIDES + 3 * side + 2]
        wins, per = error if side == 0 else -error, 1.0 / caps[1 + side]
        money, best, starts = memory.money[g, side], memory.best[g, side], memory.starts[g, side]
        refuted, share = 0, BETTING_SHARES[np.argmax(money[watched])]
        for p in range(len(prices)):
            won = (wins - prices[p] * rows) * per
            worst = 1.0 + prices[p] * caps[0] * per
            multiply(money[p], put_in, won, worst)
            # The money of 1 put in at the best time (CUSUM), for `find_start`.
            if best[p] < 1.0:
                best[p], starts[p] = 1.0, now[FIRST]
            bold = share if share * worst <= _SAFE else _SAFE / worst
            best[p] = min(best[p] * (1.0 + bold * won), _MOST)
            if refuted == p and add_up(money[p]) >= memory.enough[g]:
                refuted = p + 1
        memory.level[g, side] = max(memory.level[g, side], refuted)
        alarm = memory.alarms[g, side]
        if refuted > watched and alarm[RAISED] == 0.0:
            alarm[RAISED], alarm[WHEN], alarm[BY] = 1.0, now[LAST], sums[ALL_ROWS]
            alarm[SINCE] = find_start(best, starts, watched)


def multiply(money: Any, put_in: float, won: float, worst: float) -> None:
    """Settle the bets at one price, with all shares.

    `won` is what a stake of 1 wins, and `worst` the most that it can lose.
    """
    for k in range(len(BETTING_SHARES)):
        after = min((money[k] + put_in) * (1.0 + BETTING_SHARES[k] * won), _MOST)
        money[k] = after if BETTING_SHARES[k] * worst <= _SAFE else 0.0


def add_up(money: Any) -> float:
    """Return the money of all shares at one price."""
    total = 0.0
    for k in range(len(BETTING_SHARES)):
        total += money[k]
    return total


def find_start(best: Any, starts: Any, watched: int) -> float:
    """Estimate since when the forecasts have been off: the start at the highest price with clear evidence.

    At a low price a little luck before the change looks like its beginning; a price near half of the gap
    tells them apart. Clear evidence is the square root of the most.
    """
    p, clear = len(best) - 1, np.sqrt(np.max(best[watched:]))
    while p > watched and best[p] < clear:
        p -= 1
    found: float = starts[p]
    return found


def grow_caps(caps: Any, now: Any, alone: bool) -> None:
    """Leave room for units as large as the largest so far."""
    caps[0] = 1.0 if alone else max(caps[0], now[ROWS])
    for side in range(2):
        loses = now[MU] if side == 0 else now[ROWS] - now[MU]
        caps[1 + side] = min(max(caps[1 + side], loses, _LEAST * caps[0]), caps[0])


def remember(history: Any, sums: Any, at: float) -> None:
    """Keep a point of the group's history: the time, the rows so far, and Σ(y − μ).

    If there is no room left, every second point goes, and the points to come are twice as far apart.
    """
    if sums[STRIDE] == 0.0:
        sums[STRIDE] = 1.0
    if sums[UNITS] % sums[STRIDE] != 0.0:
        return
    kept = int(sums[KEPT])
    if kept == POINTS:
        for i in range(POINTS // 2):
            history[i] = history[2 * i + 1]
        kept = POINTS // 2
        sums[STRIDE] *= 2.0
    if sums[UNITS] % sums[STRIDE] == 0.0:
        history[kept, 0] = at
        history[kept, 1] = sums[ALL_ROWS]
        history[kept, 2] = sums[ALL_Y] - sums[ALL_MU]
        kept += 1
    sums[KEPT] = kept


_STEPS = (add_row, settle, multiply, add_up, find_start, grow_caps, remember, prior_weight)


@functools.cache
def compiled_rows() -> Callable[..., Any]:
    """`watch_rows`, compiled."""
    return jit(watch_rows, *_STEPS, end_unit, modules=(bounds,))


@functools.cache
def compiled_end() -> Callable[..., Any]:
    """`end_unit`, compiled."""
    return jit(end_unit, *_STEPS, modules=(bounds,))
