"""A season of flights, compiled: draw the passengers, find the price, add up everyone's money.

For each flight a thousand people would fly, each at some price; the airline asks the highest price at which
its seats sell. Everything here is plain Python that numba compiles on first use;
`tests/studies/test_flights.py` has the same season in slow, obvious Python.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from makewhole.corrections import _kernels as steps
from makewhole.forecasters import _kernels as learners
from makewhole.jit import jit
from makewhole.rules import balance, least_price, left_of, publish

# The columns of a flight's row of results; money is per flight, not yet per passenger. `flying` counts the
# cautious passengers on board, `trusted` adds up what a delay costs the trustful on board, and `report` is
# what the airline reported, as a multiple of its network's forecast.
COLUMNS = (
    *("mu", "c", "lam", "price", "stake", "revenue", "bets", "utility"),
    *("cautious", "naive", "trustful", "flying", "trusted", "report"),
)


# --- people -----------------------------------------------------------------------------------------------


def scramble(word: Any, key: Any) -> Any:
    """Hash 32 bits under a key: one round before the key, two after. The compiler does eight at a time."""
    word = word ^ (word >> np.uint32(16))
    word = np.uint32(word * np.uint32(0x846CA68B))
    word = np.uint32((word ^ (word >> np.uint32(15))) + key)
    word = word ^ (word >> np.uint32(16))
    word = np.uint32(word * np.uint32(0x21F0AAAD))
    word = word ^ (word >> np.uint32(15))
    word = np.uint32(word * np.uint32(0x735A2D97))
    return word ^ (word >> np.uint32(15))


def uniform(i: int, first: Any, second: Any) -> float:
    """Return the i-th number in (0, 1) of the stream with these two keys; a new one for every passenger."""
    word = scramble(np.uint32(np.uint32(i) * np.uint32(0x9E3779B9) + first), second)
    return (np.float64(word) + 0.5) * (1.0 / 4294967296.0)


def exponential(x: float) -> float:
    """Return e^x for 0 <= x < 20 to 14 digits: a power of two and a polynomial; libm's does not vectorise."""
    t = x * 1.4426950408889634
    k = math.floor(t + 0.5)
    f = (t - k) * 0.6931471805599453
    p = 1.0 + f * (1 / 10 + f * (1 / 110))
    p = 1.0 + f * (1 / 8 + f * (1 / 72) * p)
    p = 1.0 + f * (1 / 6 + f * (1 / 42) * p)
    p = 1.0 + f * (1 / 4 + f * (1 / 20) * p)
    p = 1.0 + f * (1 / 2 + f * (1 / 6) * p)
    return (1.0 + f * p) * np.float64(np.int32(1) << np.int32(k))


def draw_people(keys: Any, people: Any) -> None:
    """Draw r_alt ~ U(0, 200), r_trip ~ U(0, 400) but at least r_alt, c_delay = 0.2·e^z with z ~ U(4, 9)."""
    r_alt, r_trip, c_delay = people[0], people[1], people[2]
    count = len(r_alt)
    first, second = np.uint32(keys[0]), np.uint32(keys[1])
    for i in range(count):
        r_alt[i] = 200.0 * uniform(i, first, second)
        r_trip[i] = max(r_alt[i], 400.0 * uniform(i + count, first, second))
        c_delay[i] = 0.2 * exponential(4.0 + 5.0 * uniform(i + 2 * count, first, second))


# --- the price --------------------------------------------------------------------------------------------


def set_prices(
    r_alt: Any, r_trip: Any, c_delay: Any, groups: Any, told: int, weights: Any, price: Any
) -> None:
    """Set the most that each would pay: r_trip − r_alt − the group's weight times the cost of a delay.

    The weights are those of the cautious, of the trustful, and of the trustful from number `told` on.
    """
    for i in range(groups[0]):
        price[i] = r_trip[i] - r_alt[i] - weights[0] * c_delay[i]
    for i in range(groups[0], groups[1]):
        price[i] = r_trip[i] - r_alt[i]
    for i in range(groups[1], told):
        price[i] = r_trip[i] - r_alt[i] - weights[1] * c_delay[i]
    for i in range(told, len(price)):
        price[i] = r_trip[i] - r_alt[i] - weights[2] * c_delay[i]


def count_above(price: Any, x: float) -> int:
    """Count how many would pay more than x."""
    count = 0
    for i in range(len(price)):
        count += price[i] > x
    return count


def select(price: Any, rank: int, guess: float, scratch: Any) -> float:
    """Return the value that `rank` others exceed.

    Counting is much faster than sorting: narrow a bracket around the guess, the last flight's price, by
    counting the values above its ends, until few are left to sort.
    """
    step = 8.0
    low, high = guess - step, guess + step
    over_low, over_high = count_above(price, low), count_above(price, high)
    while over_low <= rank:
        step *= 2.0
        low, high, over_high = low - step, low, over_low
        over_low = count_above(price, low)
    while over_high > rank:
        step *= 2.0
        low, high, over_low = high, high + step, over_high
        over_high = count_above(price, high)
    while over_low - over_high > 24:
        middle = low + (high - low) * (over_low - rank - 0.5) / (over_low - over_high)
        if not low < middle < high:
            break  # ties: nothing lies between
        over = count_above(price, middle)
        if over <= rank:
            high, over_high = middle, over
        else:
            low, over_low = middle, over
    left = 0
    for i in range(len(price)):
        scratch[left] = price[i]
        left += (price[i] > low) & (price[i] <= high)
    for j in range(rank - over_high + 1):
        most = j
        for i in range(j + 1, left):
            if scratch[i] > scratch[most]:
                most = i
        scratch[j], scratch[most] = scratch[most], scratch[j]
    return float(scratch[rank - over_high])


def add_up(
    r_alt: Any, r_trip: Any, c_delay: Any, price: Any, ticket: float, start: int, stop: int
) -> tuple[float, float, float, float]:
    """Add up one group: how many fly, their Σ r_trip and Σ c_delay, and Σ r_alt of those who don't."""
    flying, trips, delays, alternatives = 0.0, 0.0, 0.0, 0.0
    for i in range(start, stop):
        flies = price[i] > ticket
        flying += 1.0 if flies else 0.0
        trips += r_trip[i] if flies else 0.0
        delays += c_delay[i] if flies else 0.0
        alternatives += 0.0 if flies else r_alt[i]
    return flying, trips, delays, alternatives


def sell(people: Any, groups: Any, told: int, weights: Any, seats: int, guess: float, sums: Any) -> float:
    """Find the ticket's price, and add up each group into a row of `sums`."""
    r_alt, r_trip, c_delay, price, scratch = people
    set_prices(r_alt, r_trip, c_delay, groups, told, weights, price)
    ticket = select(price, seats, guess, scratch)
    start = 0
    for k in range(3):
        stop = groups[k]
        sums[k, 0], sums[k, 1], sums[k, 2], sums[k, 3] = add_up(
            r_alt, r_trip, c_delay, price, ticket, start, stop
        )
        start = stop
    return ticket


def record(row: Any, sums: Any, published: Any, came: Any) -> None:
    """Write one flight into its row of results: see `COLUMNS`."""
    ticket = published[3]
    y, paid, report = came
    for k in range(5):
        row[k] = published[k]
    total = 0.0
    for k in range(3):
        flying, trips, delays, alternatives = sums[k, 0], sums[k, 1], sums[k, 2], sums[k, 3]
        row[8 + k] = trips - ticket * flying - y * delays + alternatives
        total += flying
    row[8] += paid
    row[11], row[12], row[13] = sums[0, 0], sums[2, 2], report
    row[5] = ticket * total
    row[6] = -paid
    row[7] = row[5] + row[6] + row[8] + row[9] + row[10]


# --- the season -------------------------------------------------------------------------------------------

# Compiled once, and called by the season of every correction; set by `compiled_season`.
_draw: Any = None
_sell: Any = None
_predict: Any = None
_learn: Any = None


def make_season(propose: Callable[..., Any], observe: Callable[..., Any]) -> Callable[..., None]:
    """Make the loop over flights for one correction."""

    def season(
        memory: Any,
        nets: Any,
        settings: Any,
        rows: Any,
        outcome: Any,
        keys: Any,
        plan: Any,
        work: Any,
        out: Any,
    ) -> None:
        values, marks = memory
        starts, indices, features = rows
        groups, seats, insured, max_stake, scale, everyone, reports, told, capital, how = plan
        people, sums, active = work
        guess, lost = 130.0, 0.0
        for t in range(len(outcome)):
            i, x = indices[starts[t] : starts[t + 1]], features[starts[t] : starts[t + 1]]
            believed, c_hat = _predict(nets, settings, i, x, active)
            proposal = propose(values, marks)
            least = least_price(left_of(capital, lost, 0.0), 1, max_stake, False)
            y = outcome[t]
            _draw(keys[t], people)
            # Of several reports, the one with the highest expected income is tried again, last.
            report, most = reports[0], -np.inf
            for k in range(len(reports) + (len(reports) > 1)):
                now = reports[k] if k < len(reports) else report
                said = min(now * believed, 1.0)
                mu, c, origin = publish(said, c_hat, proposal[0], how, least)
                weights = (mu + c, mu, mu + c) if insured else (1.0, mu, mu)
                guess = _sell(people, groups, told, weights, seats, guess, sums)
                income = guess * (sums[0, 0] + sums[1, 0] + sums[2, 0])
                if insured:
                    income += sums[0, 2] * (mu + c - believed)
                if income > most:
                    report, most = now, income
            stake = sums[0, 2] if insured else 0.0
            if insured and everyone:  # the authors' code: also the bets of those who do not fly
                stake = 0.0
                for k in range(groups[0]):
                    stake += people[2][k]
            paid, target, w = balance(mu, c, origin, y, stake, stake, max_stake)
            lost += paid
            if w > 0.0:
                observe(values, marks, proposal, target, w, paid / max_stake, 0.0)
            _learn(nets, settings, i, x, active, (y, said, stake / scale, stake / scale))
            record(out[t], sums, (mu, c, proposal[0], guess, stake), (y, paid, report))

    return season


def _compile_callees() -> None:
    """Compile the functions that every season calls; numba looks compiled callees up in the globals."""
    global _draw, _sell, _predict, _learn
    if _sell is None:
        _draw = jit(draw_people, scramble, uniform, exponential)
        _sell = jit(sell, set_prices, count_above, select, reorder=(add_up,))
        _predict, _learn = learners.compiled().predict, learners.compiled().learn


def plain_season(propose: Callable[..., Any], observe: Callable[..., Any]) -> Callable[..., None]:
    """Return the season of a correction that cannot be compiled: the same loop as plain Python."""
    _compile_callees()
    return make_season(propose, observe)


@functools.cache
def compiled_season(propose: Callable[..., Any], observe: Callable[..., Any]) -> Callable[..., None]:
    """Compile the season of one correction."""
    _compile_callees()
    helpers = (*steps.HELPERS, record, propose, observe)
    return jit(make_season(propose, observe), *helpers, modules=(learners,))
