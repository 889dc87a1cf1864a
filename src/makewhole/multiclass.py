"""Fair bets on one of K classes: the same functions as in `makewhole.bets`, with the class on the last axis.

An agent who stakes the vector g, one number per class, receives

    payment(g, y) = g[y] − Σ_k g[k]·μ[k] − Σ_k |g[k]|·c[k]

where y is the index of the class that happened. Every c[k] must be at least 0: if their sum were negative,
the same stake on all classes would win money without risk. μ must sum to 1, unless `simplex=False`: a
published μ that was clipped need not sum to 1, and the hedge then takes that into account.

An exact forecaster has one c for all classes, which may be negative, and pays every stake g as `centred(g)`.
Staking the same amount on all classes then counts as no stake.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from makewhole import arguments
from makewhole.arguments import Floats
from makewhole.bets import LossBounds

# Masses that differ by less than this share of the whole count as equal: the difference is rounding.
_TIE = 16 * float(np.finfo(np.float64).eps)


def payment(stake: Any, outcome: Any, mu: Any, c: Any, *, simplex: bool = True) -> Any:
    """Return what the agent receives, and the forecaster loses, once the class is known.

    Examples
    --------
    >>> from makewhole import multiclass
    >>> multiclass.payment(stake=[0, 0, 8], outcome=2, mu=[0.5, 0.25, 0.25], c=[0, 0, 0.125])
    5.0
    """
    g, m, width = _read("stake", stake, mu, c, simplex=simplex)
    y = arguments.class_indices("outcome", outcome, g.shape[-1])
    arguments.together(stake=g[..., 0], outcome=y.astype(np.float64))
    return arguments.plain(_received(g, m, width, y))


def centred(stake: Any) -> Any:
    """Return the stake minus its median over the classes: the same amount on all of them changes nothing.

    If μ sums to 1, this changes payments only in their cost c·Σ|g|, which no other centre makes smaller. With
    an even number of classes there is an interval of medians, all with the same cost. The one nearest the
    midpoint of the smallest and the largest stake is used, because it makes the largest |g| smallest.

    Examples
    --------
    >>> from makewhole import multiclass
    >>> multiclass.centred([5, 5, 8])
    array([0., 0., 3.])
    >>> multiclass.centred([0, 1])
    array([-0.5,  0.5])
    """
    g = arguments.numbers("stake", stake)
    if g.ndim == 0 or g.shape[-1] < 2:
        raise ValueError(f"stake must have at least two classes on its last axis; got shape {g.shape}")
    ascending = np.sort(g, axis=-1)
    count = g.shape[-1]
    lower, upper = ascending[..., (count - 1) // 2], ascending[..., count // 2]
    middle = (ascending[..., 0] + ascending[..., -1]) / 2
    return g - np.clip(middle, lower, upper)[..., None]


def hedge(losses: Any, mu: Any, c: Any, *, simplex: bool = True) -> Any:
    """Return the stake l − γ*, which makes the total loss the same for every class, at the least cost.

    γ* is the quantile of the losses, weighted with c, at the mass (Σc + Σμ − 1)/2. If μ sums to 1, this is
    the weighted median. If several γ cost the same, the one whose largest stake is smallest is taken.

    Examples
    --------
    >>> from makewhole import multiclass
    >>> multiclass.hedge([0, 6, 12], mu=[0.5, 0.25, 0.25], c=[0.1, 0.1, 0.1])
    array([-6.,  0.,  6.])
    """
    losses_, m, width = _read("losses", losses, mu, c, simplex=simplex)
    return losses_ - _level(losses_, m, width)[..., None]


def loss_bounds(losses: Any, mu: Any, c: Any, *, simplex: bool = True) -> LossBounds:
    """Return the smallest and largest expected loss of all distributions within c of μ, and the one under μ.

    If the agent stakes `hedge(losses, mu, c)`, its total loss is `high` for every class.

    Examples
    --------
    >>> from makewhole import multiclass
    >>> multiclass.loss_bounds([0, 6, 12], mu=[0.5, 0.25, 0.25], c=[0.125, 0.125, 0.125])
    LossBounds(low=3.0, expected=4.5, high=6.0)
    """
    losses_, m, width = _read("losses", losses, mu, c, simplex=simplex)
    expected = (m * losses_).sum(axis=-1)
    high = expected + _surcharge(losses_, m, width)
    low = expected - _surcharge(-losses_, m, width)
    return LossBounds(*(arguments.plain(v) for v in (low, expected, high)))


def _received(g: Floats, m: Floats, width: Floats, y: Any) -> Any:
    g, y = np.broadcast_arrays(g, np.asarray(y)[..., None])
    drawn = np.take_along_axis(g, y[..., :1], axis=-1)[..., 0]
    return drawn - (g * m).sum(axis=-1) - (np.abs(g) * width).sum(axis=-1)


def _read(name: str, values: Any, mu: Any, c: Any, *, simplex: bool) -> tuple[Floats, Floats, Floats]:
    array = arguments.numbers(name, values)
    m = arguments.distribution("mu", mu, simplex=simplex)
    width = arguments.numbers("c", c)
    arguments.reject("c", width, width < 0, "must not be negative for classes")
    if array.ndim == 0 or array.shape[-1] != m.shape[-1]:
        raise ValueError(f"{name} must have {m.shape[-1]} classes on its last axis; got shape {array.shape}")
    if width.ndim and width.shape[-1] != m.shape[-1]:
        raise ValueError(f"c must have {m.shape[-1]} classes on its last axis; got shape {width.shape}")
    arguments.together(**{name: array, "mu": m, "c": width})
    array, m, width = np.broadcast_arrays(array, m, width)
    return array, m, width


def _surcharge(losses: Floats, m: Floats, width: Floats) -> Floats:
    """Return what the hedge costs beyond the expected loss: min over γ of γ(1 − Σμ) + ⟨c, |l − γ|⟩."""
    level = _level(losses, m, width)
    cost: Floats = level * (1 - m.sum(axis=-1)) + (width * np.abs(losses - level[..., None])).sum(axis=-1)
    return cost


def _level(losses: Floats, m: Floats, width: Floats) -> Floats:
    """Return γ*, the cheapest γ; of an interval of them, the one nearest the midpoint of the losses."""
    order = np.argsort(losses, axis=-1)
    ascending = np.take_along_axis(losses, order, axis=-1)
    mass = np.cumsum(np.take_along_axis(width, order, axis=-1), axis=-1)
    whole = mass[..., -1:]
    excess = m.sum(axis=-1, keepdims=True) - 1
    # With c = 0, a sum that differs from 1 by a softmax's rounding must count as 1.
    rounding = np.where(whole > 0, _TIE * m.shape[-1], arguments.SUM_TOLERANCE)
    excess = np.where(np.abs(excess) <= rounding, 0.0, excess)
    # Outside [0, Σc] the same stake on all classes wins for certain, and no γ is best; the nearest end
    # of the range still makes the total loss the same for every class.
    wanted = np.clip((whole + excess) / 2, 0, whole)
    tie = _TIE * (whole + np.abs(excess))
    first = np.argmax(mass >= wanted - tie, axis=-1)[..., None]
    beyond = mass > wanted + tie
    after = np.where(beyond.any(axis=-1), np.argmax(beyond, axis=-1), losses.shape[-1] - 1)[..., None]
    # At the ends of the mass, the γ of least cost extend beyond all losses; stop at the outermost loss.
    free_low, free_high = excess < -whole - tie, excess > whole + tie
    lowest = np.take_along_axis(ascending, np.where(free_high, losses.shape[-1] - 1, first), axis=-1)[..., 0]
    highest = np.take_along_axis(ascending, np.where(free_low, 0, after), axis=-1)[..., 0]
    middle = (ascending[..., 0] + ascending[..., -1]) / 2
    level: Floats = np.clip(middle, lowest, highest)
    return level
