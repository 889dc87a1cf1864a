"""Every money formula, once: what a stake pays, what it can lose, what it costs, and what is left.

These are plain functions of numbers. `bets` calls them on arrays, the book of an `InsuredForecaster` on one
stake at a time, and backtests compile the same source with numba, so all of them give the same numbers. How λ
moves is not here: each correction has its own file in `corrections/`.

The letters are those of the notation table in ARCHITECTURE.md: b is one stake, B and A (`net` and `gross`)
are the sums of all stakes and of their sizes on one forecast, M (`max_stake`) is the cap on A.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

# --- a bet ------------------------------------------------------------------------------------------------


def payment(b: Any, y: Any, mu: Any, c: Any) -> Any:
    """Return what a stake of b receives, and the forecaster loses: b·(y − μ) − |b|·c."""
    return b * (y - mu) - abs(b) * c


def most_paid(net: float, gross: float, mu: float, c: float, surcharge: float) -> float:
    """Return the most that stakes on one event can be paid, below 0 if they lose whatever happens.

    `surcharge` is what they cost in addition to the published price, whatever happens.
    """
    most = -net * mu - gross * c - surcharge
    return most + net if net > 0.0 else most


def worst_loss(net: float, gross: float, mu: float, c: float, surcharge: float) -> float:
    """Return the most that stakes on one event can cost the forecaster; at least 0, as it may be voided."""
    worst = most_paid(net, gross, mu, c, surcharge)
    return worst if worst > 0.0 else 0.0


def most_paid_on_classes(legs: Sequence[tuple[float, float, float, float]], surcharge: float) -> float:
    """Return the same as `most_paid` for bets on classes, each (B, A, μ, c), of which exactly one happens."""
    if_none = 0.0
    for net, gross, mu, c in legs:
        if_none += -net * mu - gross * c
    return if_none - surcharge + max([leg[0] for leg in legs])


def worst_loss_of_classes(legs: Sequence[tuple[float, float, float, float]], surcharge: float) -> float:
    """Return the most that bets on classes can cost the forecaster; at least 0."""
    return max(0.0, most_paid_on_classes(legs, surcharge))


def room(mu: float, c: float, one_sided: bool, max_stake: float) -> float:
    """Return the most that a forecast can lose if it is staked in full on the worse side."""
    if one_sided:
        return (1.0 - mu) * max_stake
    worse = mu - c if mu > 0.5 else 1.0 - mu - c
    return worse * max_stake if worse > 0.0 else 0.0


# --- Algorithm 1: what is published, and what the correction learns from it -------------------------------


class Publishing(NamedTuple):
    """How forecasts are published: `one_sided` and `sound` as in `Terms`, `integrates` of the correction."""

    one_sided: bool
    sound: bool
    integrates: bool


def publish(
    mu_hat: float, c_hat: float, lam: float, how: Publishing, least: float
) -> tuple[float, float, float]:
    """Return (μ, c, origin): what is published, and the number from which the target is measured.

    Normally μ = μ̂, c = ĉ + λ, and the origin is ĉ. One-sided, c is 0 and ĉ + λ is added to μ instead. In
    sound mode c is clipped to [0, ½] and μ to [c, 1 − c]. `least` is the smallest c (one-sided: the smallest
    μ) at which the forecaster cannot lose more than its capital.

    If a number was clipped, the loss is not w·(x − λ) with the target x = z − ĉ (see `balance`). The target
    is then measured from c − λ, with the c that was published. There is one exception: if c was raised and
    the correction averages its targets, x = z − ĉ is kept. It stays in the correction's range, and stands
    for at least as much as was lost.
    """
    one_sided, sound, integrates = how
    wanted = c_hat + lam
    if one_sided:
        return min(max(mu_hat + wanted, 0.0, least), 1.0), 0.0, -lam
    if not sound:
        return mu_hat, wanted, c_hat
    c = wanted if wanted > 0.0 else 0.0  # comparisons take half the time of min and max
    if c < least:
        c = least
    if c > 0.5:
        c = 0.5
    mu = mu_hat if mu_hat > c else c
    if mu > 1.0 - c:
        mu = 1.0 - c
    if c == wanted or (c > wanted and not integrates):
        return mu, c, c_hat
    return mu, c, c - lam


def refine(c_hat: float, inner_lam: float) -> float:
    """Return what a reserve over an inner correction adds its λ to: ĉ + λ' of the inner one, in [0, ½]."""
    return min(max(c_hat + inner_lam, 0.0), 0.5)


def balance(
    mu: float, c: float, origin: float, outcome: float, net: float, gross: float, max_stake: float
) -> tuple[float, float, float]:
    """Return (ℓ, x, w) of a settled forecast: the loss, the target and the weight.

    With z = (B/A)·(y − μ), the target x = z − origin is the λ that would have balanced the forecast,
    w = A/M, and ℓ/M = w·(x − λ).
    """
    if gross == 0.0:
        return 0.0, -origin, 0.0
    error = outcome - mu
    return net * error - gross * c, net / gross * error - origin, gross / max_stake


# --- several classes at one price -------------------------------------------------------------------------


def without_common(amounts: Sequence[float]) -> tuple[float, ...]:
    """Return a stake on classes without the part that is the same on all, which neither wins nor loses."""
    low, high = min(amounts), max(amounts)
    if low <= 0.0 <= high:
        return tuple(amounts)
    common = low if low > 0.0 else high
    return tuple([b - common for b in amounts])


def median_and_size(amounts: Sequence[float]) -> tuple[float, float]:
    """Return the median m of a stake on classes, as in `multiclass.centred`, and its size Σ|b − m|."""
    ascending = sorted(amounts)
    count = len(ascending)
    median = ascending[count // 2]
    if not count % 2:
        lower = ascending[count // 2 - 1]
        median = min(max((ascending[0] + ascending[-1]) / 2, lower), median)
    size = 0.0
    for b in amounts:  # not sum(): later Pythons add up differently
        size += abs(b - median)
    return median, size


def fair_gain(amounts: Sequence[float], median: float, mus: Sequence[float], won: float) -> float:
    """Return what a stake on classes wins at fair odds, without its median: b_y − m − Σ (b_k − m)·μ_k.

    `won` is b_y, the stake on the class that happened.
    """
    fair = 0.0
    for k, mu in enumerate(mus):
        fair += (amounts[k] - median) * mu
    return won - median - fair


def shared_room(c: float, cap: float) -> float:
    """Return the most that classes at one price can lose: no bet wins more than its size, and it costs c."""
    return max(0.0, 1.0 - c) * cap


# --- what a capital, and what a customer's line, leave ----------------------------------------------------


def left_of(limit: float, lost: float, at_risk: float) -> float:
    """Return what a capital or a line leaves, after what was lost and what open bets can still lose."""
    return limit - lost - at_risk


def too_much(limit: float, lost: float, at_risk: float, now: float, then: float) -> bool:
    """Whether bets that can now lose `then` instead of `now`, a part of `at_risk`, would break a limit."""
    return then > now and then > limit - lost - (at_risk - now)


def released(at_risk: float, part: float, still_open: int) -> float:
    """Return what open bets can lose after one of them, which could lose `part`, was removed."""
    if not still_open or at_risk < part:  # leave no rounding error behind
        return 0.0
    return at_risk - part


def least_price(left: float, legs: int, max_stake: float, one_sided: bool) -> float:
    """Return the least c (one-sided: ask) at which a forecast of these legs cannot lose more than is left."""
    left -= 1e-12 * max_stake  # rounding must not exceed it
    each = left / legs if left > 0.0 else 0.0
    return 1.0 - each / max_stake if one_sided else 0.5 - each / (2 * max_stake)


def exp(x: float) -> float:
    """Return e^x for x ≤ 0, with the same bits on every processor; within one unit of the last place.

    The C library's exp differs in its last bit between processors with and without fused multiply-add, so a
    book that is priced with it could not be verified elsewhere. Additions and multiplications do not differ.
    With k = x/log 2, rounded, e^x = 2^k·e^r, and the Taylor series of e^r is short: |r| ≤ 0.35.
    """
    if x < -708.0:
        return 0.0
    k = math.floor(x * 1.4426950408889634 + 0.5)
    # log 2 in two parts; the first ends in 21 zero bits, so k times it is exact.
    r = (x - k * 0.693147180369123816490) - k * 1.90821492927058770002e-10
    p = 1.6059043836821613e-10  # 1/13!
    p = p * r + 2.08767569878681e-09
    p = p * r + 2.505210838544172e-08
    p = p * r + 2.755731922398589e-07
    p = p * r + 2.7557319223985893e-06
    p = p * r + 2.48015873015873e-05
    p = p * r + 1.984126984126984e-04
    p = p * r + 1.388888888888889e-03
    p = p * r + 8.333333333333333e-03
    p = p * r + 4.1666666666666664e-02
    p = p * r + 1.6666666666666666e-01
    p = p * r + 0.5
    return math.ldexp(1.0 + (r + r * r * p), int(k))


def barrier_price(left: float, scale: float, straight: bool, top: float, least: float) -> float:
    """Return the price when this much of a capital is left: `top` if nothing is left, and lower with more.

    It is top·exp(−left/scale), or with `straight` top·(1 − left/scale), but not below `least`.
    """
    if left <= 0.0:
        return top
    x = left / scale
    if straight:
        price = top * (1.0 - x)
    elif top <= least * (1.0 + x + 0.5 * x * x):  # e^x is more than this: no need to compute it
        return least
    else:
        price = top * exp(-x)
    return price if price > least else least


# --- a customer's own price -------------------------------------------------------------------------------

# With this many scales of a line left, her price is ½·exp(−CALM), less than 0.01: it needs no thaw.
CALM = 4.0
# A line thaws by this part of itself with every settled forecast.
LINE_PACE = 5000.0


def line_price(left: float, at_risk: float, scale: float, room: float, top: float, least: float) -> float:
    """Return the least c (one-sided: ask) for a customer when this much of her line is left.

    It is at least `least`, and smooth in her settled bets. Her open bets count only when less than `room`,
    the most that she can take on one forecast, would be left after them: otherwise many open bets would price
    her out.
    """
    asked = barrier_price(left, scale, False, top, least)
    left -= at_risk + 1e-12 * room  # rounding must not exceed a line
    return asked if left >= room else barrier_price(left, room, True, top, asked)


def thawed_line(line: float, scale: float, thaw: float, taken: float, thawed: float, rounds: float) -> float:
    """Return what has thawed of a line: `thawed` before, and `rounds` settled forecasts since then.

    While less than CALM scales of her line are left, so that her price is raised, it grows by a
    LINE_PACE-th of her line with every settled forecast, to at most `thaw` times her line in all.
    """
    most = taken - line + CALM * scale
    if most > thaw * line:
        most = thaw * line
    if most <= thawed:
        return thawed
    grown = thawed + rounds * line / LINE_PACE
    return grown if grown < most else most


def stops(most: float, at_base: float, at_common: float, thawing: bool) -> bool:
    """Whether selling stops at a customer's price: whether the most a stake can pay there is too little.

    It must be above 0, and at least half of the most at the base's own price. Once the common price no longer
    thaws, half of the most at that price is enough: otherwise a book with a high price would stay shut.
    """
    enough = at_base if thawing or at_base < at_common else at_common
    return most <= 0.0 or most < 0.5 * enough


def own_price(
    mu: float, c: float, mu_hat: float, price: float, one_sided: bool, sound: bool
) -> tuple[float, float]:
    """Return the μ and c for a customer with this price; `mu` and `c` are the published ones."""
    if one_sided:
        return min(max(mu, price), 1.0), 0.0
    if price <= c:
        return mu, c
    if not sound:  # in exact mode μ stays where it is
        return mu, price
    wide = min(price, 0.5)
    return min(max(mu_hat, wide), 1.0 - wide), wide


def surcharge(b: float, mu: float, c: float, own_mu: float, own_c: float) -> float:
    """Return how much more a stake costs at a customer's own price than at the published one."""
    return max(0.0, abs(b) * (own_c - c) + b * (own_mu - mu))


def with_surcharge(
    loss: float, target: float, surcharge: float, gross: float, booked: bool
) -> tuple[float, float]:
    """Return the loss and the target of a forecast whose customers paid a surcharge.

    If the surcharge is `booked`, the target also counts it, so that w·(x − λ) stays the loss.
    """
    if surcharge == 0.0:
        return loss, target
    return loss - surcharge, target - surcharge / gross if booked else target


def learned_loss(loss: float, surcharge: float, sound: bool) -> float:
    """Return the loss that the correction learns: in exact mode, the loss at the published price."""
    return loss if sound else loss + surcharge


# --- a thaw -----------------------------------------------------------------------------------------------


def thaw_allowed(
    budget: float, per_forecast: float, root: float, share: float, rounds: int, profit: float
) -> float:
    """Return what a thaw may have conceded after this many settled forecasts, with this largest profit."""
    return budget + per_forecast * rounds + root * math.sqrt(rounds) + share * profit


def concede(lam: float, unstaked: float, left: float, max_stake: float) -> tuple[float, float]:
    """Return the weight of a thaw's imaginary bet, and what it concedes: at most `left`.

    The bet fills the part of the cap that was not staked, `unstaked`, so that both together are at most M.
    """
    weight = min(unstaked, left / (max_stake * lam))
    if weight <= 0.0:
        return 0.0, 0.0
    return weight, max_stake * weight * lam


def with_thaw(target: float, weight: float, aim: float, extra: float) -> tuple[float, float]:
    """Return target and weight of a settled bet and a thaw's imaginary one, `aim` and `extra`, as one step.

    With aim 0, λ moves by η·(w·(x − λ) − w̃·λ), where w̃ is `extra`.
    """
    if extra == 0.0:
        return target, weight
    both = weight + extra
    return (weight * target + extra * aim) / both, both


# --- exact sums -------------------------------------------------------------------------------------------


def add_exactly(total: float, low: float, x: float) -> tuple[float, float]:
    """Add x to the sum `total` + `low`, where `low` is what rounding has cut off; return the new pair.

    Each addition errs by at most 2⁻¹⁰⁴ of the largest number in it. So after a trillion of them the error is
    still far below one ordinary rounding ("double-double" arithmetic: Dekker 1971, Knuth's TwoSum). What was
    cut off last time is added before x: the compiled loop can do that while it waits for x.
    """
    sum_ = total + low
    back = sum_ - total
    low = (total - (sum_ - back)) + (low - back)
    total = sum_ + x
    back = total - sum_
    return total, low + ((sum_ - (total - back)) + (x - back))


# The functions that the compiled loops call: pass them to `jit` together with a loop.
COMPILED = (
    payment,
    most_paid,
    worst_loss,
    room,
    publish,
    refine,
    balance,
    left_of,
    too_much,
    released,
    least_price,
    exp,
    barrier_price,
    line_price,
    thawed_line,
    stops,
    own_price,
    surcharge,
    with_surcharge,
    learned_loss,
    thaw_allowed,
    concede,
    with_thaw,
    add_exactly,
)
