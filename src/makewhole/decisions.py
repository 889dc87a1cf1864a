"""Choose an action and a stake, given a forecast and a loss table.

A loss table gives the loss of each action under each outcome; a gain is a negative loss. It is either a dict,
`{"use": (2, -10), "skip": (0, 0)}`, or an array whose last two axes are (action, outcome); the actions are
then numbered 0, 1, … To decide many events in one call, pass a `Forecast` with an array of probabilities, and
a table with the events on its leading axes.
"""

from __future__ import annotations

import dataclasses
import functools
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from makewhole import arguments, bets, multiclass
from makewhole.arguments import Floats

Rule = Literal["trustful", "cautious", "naive"]

# Total losses that differ by less than this share of the stakes and losses count as equal.
_ROUNDING = 64 * float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Forecast:
    """A probability μ and a half-width c that a forecaster stands behind.

    Standing behind it means accepting bets: a customer who stakes b receives b·(y − μ) − |b|·c once the
    outcome y is known.

    Parameters
    ----------
    mu
        The probability that y = 1. An array holds the probabilities of many events. With `classes`, the last
        axis is the class.
    c
        The half-width: the price of a bet per unit staked. It may be negative; with `classes` only if it is
        the same for all of them.
    id
        The name or number of the forecast in an `InsuredForecaster`.
    classes
        The number of classes; None for a binary event.
    one_sided
        Whether only stakes of at least 0 are accepted, as when the event is never good news.
    simplex
        With `classes`: whether `mu` must sum to one. A clipped or one-sided forecast need not.
    one_price
        With `classes`: whether c is the same for all of them, and every stake is paid minus its median over
        the classes (`multiclass.centred`), as in an exact `InsuredForecaster`. A negative c implies it.

    Raises
    ------
    ValueError
        If `mu` lies outside [0, 1], or a shape or a sum does not fit.

    Examples
    --------
    >>> import makewhole as mw
    >>> forecast = mw.Forecast(mu=0.3, c=0.05)
    >>> forecast.is_interval
    True
    >>> mw.Forecast(mu=0.3, c=-0.01).is_interval  # c is negative
    False
    """

    mu: Any
    c: Any = 0.0
    id: str | int | None = None
    classes: int | None = None
    one_sided: bool = False
    simplex: bool = True
    one_price: bool = False

    def __post_init__(self) -> None:
        scalars = type(self.mu) is float and type(self.c) is float and self.classes is None
        if scalars and 0 <= self.mu <= 1 and abs(self.c) < np.inf:
            return
        c = arguments.numbers("c", self.c)
        if self.classes is None:
            mu = arguments.probabilities("mu", self.mu)
        else:
            classes = arguments.whole("classes", self.classes, least=2)
            mu = arguments.distribution("mu", self.mu, simplex=self.simplex and not self.one_sided)
            if mu.shape[-1] != classes:
                raise ValueError(f"mu must have {classes} classes on its last axis; got shape {mu.shape}")
            if c.ndim and c.shape[-1] != classes:
                raise ValueError(f"c must have {classes} classes on its last axis; got shape {c.shape}")
            self._check_price(c)
        arguments.together(mu=mu, c=c)
        for name, array in zip(("mu", "c"), np.broadcast_arrays(mu, c), strict=True):
            own = array.copy()
            own.flags.writeable = False  # a published forecast must not change
            object.__setattr__(self, name, arguments.plain(own))

    def _check_price(self, c: Floats) -> None:
        """Allow a negative c only as one price for all classes: else equal stakes on all would always win."""
        negative = bool((c < 0).any())
        if not (negative or self.one_price):
            return
        if self.one_sided or not self.simplex:
            arguments.reject("c", c, c < 0, "must not be negative for classes, one-sided or clipped")
            raise ValueError("one_price must be False for a one-sided or clipped forecast; got True")
        differs = c != c[..., :1] if c.ndim else np.zeros((), dtype=bool)
        rule = "must be the same for all classes where one of them is negative, or with one_price"
        arguments.reject("c", c, differs, rule)
        object.__setattr__(self, "one_price", True)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Forecast):
            return NotImplemented
        mine, its = ((one.id, one.classes, one.one_sided, one.one_price) for one in (self, other))
        return mine == its and np.array_equal(self.mu, other.mu) and np.array_equal(self.c, other.c)

    def __hash__(self) -> int:
        return hash((self.id, self.classes, self.one_sided))

    @property
    def is_interval(self) -> Any:
        """Whether [μ − c, μ + c] is an interval of probabilities: c >= 0, and inside [0, 1]."""
        mu, c = np.asarray(self.mu), np.asarray(self.c)
        inside = (c >= 0) & (mu - c >= 0) & (mu + c <= 1)
        return arguments.plain(inside.all(axis=-1) if self.classes else inside)


_new_object = object.__new__


def binary_forecast(mu: float, c: float, id_: str | int | None, one_sided: bool) -> Forecast:
    """Make a binary `Forecast` without checks, in a third of the time; the numbers must be valid."""
    made = _new_object(Forecast)
    fields = made.__dict__
    fields["mu"], fields["c"], fields["id"] = mu, c, id_
    if one_sided:
        fields["one_sided"] = True
    return made


@functools.cache
def _packed(count: int) -> Callable[..., bytes]:
    """Return a function that packs `count` numbers into the bytes of an array."""
    return struct.Struct(f"{count}d").pack


def class_forecast(mu: tuple[float, ...], c: float, id_: str | int | None) -> Forecast:
    """Make a `Forecast` of classes at one price without checks, in a tenth of the time."""
    made = _new_object(Forecast)
    fields, count = made.__dict__, len(mu)
    both = np.frombuffer(_packed(2 * count)(*mu, *(c,) * count))  # read-only
    fields["mu"], fields["c"], fields["id"] = both[:count], both[count:], id_
    fields["classes"], fields["one_price"] = count, True
    return made


class Plan(NamedTuple):
    """An action, a stake, and what they cost.

    `loss` is the most that the agent can lose in total, bet included. Depending on the outcome, the total
    loss may be lower by up to `spread`; if `spread` is 0, it is certain. `expected` is the expected loss of
    the action alone, under μ.
    """

    action: Any
    stake: Any
    loss: Any
    spread: Any
    expected: Any


@dataclass(frozen=True, eq=False)
class Quote(Forecast):
    """An open forecast at one customer's price, and with her losses what she should do (`f.quote`).

    `by` is the customer: her name, or the groups she belongs to and her name; None for the published price.
    `room` is the lowest and the highest stake that would be taken now; `insure` keeps to it. With classes it
    is what the cap and her share of it leave on each of them. `published` is the forecast as published.

    With a table of losses, `action` and `stake` are the best ones (`plan` is what `insure` returned). The
    stake costs `price` now, and pays later: as if the bet were a policy. `loss` is the most that she can lose
    in total. If `spread` is 0, that is certain; otherwise it may be lower by that much.

    Examples
    --------
    >>> import makewhole as mw
    >>> f = mw.InsuredForecaster(capital=100_000, max_stake=1_000)
    >>> q = f.forecast(mu=0.2, id="UA-123")
    >>> quote = f.quote("UA-123", by="ann", losses={"fly": (0, 90), "train": (25, 25)})
    >>> quote.action, quote.stake, round(quote.price, 2), round(quote.loss, 2)
    ('fly', 90.0, 19.8, 19.8)
    >>> f.stake("UA-123", quote.stake, by="ann", price=quote)  # at this price or a lower one
    0
    """

    by: Any = None
    room: tuple[float, float] = (-np.inf, np.inf)
    plan: Plan | None = None
    published: Forecast | None = dataclasses.field(default=None, repr=False)

    @property
    def action(self) -> Any:
        """The best action; None without losses."""
        return None if self.plan is None else self.plan.action

    @property
    def stake(self) -> Any:
        """The stake for it."""
        return None if self.plan is None else self.plan.stake

    @property
    def price(self) -> Any:
        """What the stake costs now; a stake b then pays b if it happens, or for b < 0 |b| if it does not."""
        return None if self.plan is None else price_of(self, self.plan.stake)

    @property
    def loss(self) -> Any:
        """The most that she can lose in total."""
        return None if self.plan is None else self.plan.loss

    @property
    def spread(self) -> Any:
        """By how much her total loss may be lower, depending on the outcome."""
        return None if self.plan is None else self.plan.spread


def make_quote(own: Forecast, by: Any, room: tuple[float, float], published: Forecast) -> Quote:
    """Make a `Quote` of a forecast at the customer's price, without checks."""
    made = _new_object(Quote)
    made.__dict__.update(own.__dict__, by=by, room=room, published=published)
    return made


def price_of(forecast: Forecast, stake: Any) -> float:
    """Return what a stake on one event costs if it is paid for now: the most that the stake can lose."""
    if not forecast.classes:
        return float(bets.premium(stake, forecast.mu, forecast.c).price)
    g = np.asarray(multiclass.centred(stake) if forecast.one_price else stake)
    return float((g * forecast.mu + np.abs(g) * forecast.c).sum() - g.min())


def insure(forecast: Forecast, losses: Any, *, max_stake: float | None = None) -> Plan:
    """Choose the action with the smallest worst-case total loss, bets included, and the stake for it.

    The stake is the hedge, which makes the total loss the same for all outcomes. It is another one if
    `max_stake` or a one-sided forecast rules out the hedge, or if the other has a smaller worst case (a hedge
    can cost more than it pays). The total loss then depends on the outcome: `plan.spread` says by how much.

    With classes the stake is the best one allowed, so a larger `max_stake` is never worse. If μ does not sum
    to 1, the same stake on every class may win for certain. Without `max_stake` there is then no best stake;
    the one returned is at most the difference between the losses. On a forecast with one price for all
    classes (`Forecast.one_price`) the hedge is the losses minus a constant, which changes nothing: by default
    their median, or one with which the hedge fits `max_stake`. If c is negative, bets larger than the hedge
    might win for certain, as on a binary event; they are not insurance and are not considered.

    Parameters
    ----------
    forecast
        A `Forecast`, of one event or many.
    losses
        The loss of each action under each outcome; see the top of `makewhole.decisions`.
    max_stake
        The largest stake that is accepted; None for no limit. A `Quote` has its own limits, too.

    Returns
    -------
    Plan
        `action`, `stake`, `loss`, `spread` and `expected`.

    Raises
    ------
    TypeError
        If `forecast` is not a `Forecast`.
    ValueError
        If the loss table does not fit the forecast.

    Examples
    --------
    >>> import makewhole as mw
    >>> plan = mw.insure(mw.Forecast(mu=0.5, c=0.0), {"use": (2, -10), "skip": (0, 0)})
    >>> plan.action, plan.stake, plan.loss, plan.spread
    ('use', -12.0, -4.0, 0.0)
    >>> mw.insure(mw.Forecast(mu=0.5, c=0.0), {"use": (2, -10), "skip": (0, 0)}, max_stake=10).spread
    2.0
    """
    labels, table = _table(forecast, losses)
    cap = np.inf if max_stake is None else arguments.positive("max_stake", max_stake)
    mu, c = _per_action(forecast)
    lowest = 0.0 if forecast.one_sided else -cap
    if isinstance(forecast, Quote):
        lowest, cap = max(lowest, forecast.room[0]), min(cap, forecast.room[1])
    full = _full_hedge(forecast, table, mu, c, lowest, cap)
    stakes = np.stack([np.clip(full, lowest, cap), np.zeros_like(full)])
    if forecast.classes:
        best = _best_at_one_price if forecast.one_price else _best_stakes
        stakes = np.concatenate([stakes, best(table, mu, c, lowest, cap)])
    worst = _worst(forecast, table, stakes, mu, c)
    # On a tie take the first, the hedge: it has the same worst case, and its loss is certain.
    hedged = worst[0] <= worst.min(axis=0) + (_tie(table, stakes, mu) if forecast.classes else 0.0)
    use = np.where(hedged, 0, np.argmin(worst, axis=0))[None]
    worst = np.take_along_axis(worst, use, axis=0)[0]
    stake = _choose(stakes, use, forecast)
    left = table - stake if forecast.classes else full - stake
    spread = np.ptp(left, axis=-1) if forecast.classes else np.abs(left)
    # The full hedge has a spread of exactly 0; without this line, rounding could make it a little more.
    spread = np.where((full == stake).all(axis=-1) if forecast.classes else full == stake, 0.0, spread)
    return _pick(forecast, labels, table, np.argmin(worst, axis=-1), stake, worst, spread)


def decide(forecast: Forecast, losses: Any, *, rule: Rule, assume: int = 0) -> Plan:
    """Choose an action without insurance, by one of three rules.

    Parameters
    ----------
    forecast
        A `Forecast`, of one event or many.
    losses
        The loss of each action under each outcome; see the top of `makewhole.decisions`.
    rule
        "trustful" takes the smallest expected loss under μ (the Bayes rule), "cautious" the smallest worst
        case, "naive" the smallest loss if the outcome is `assume`.
    assume
        The outcome that "naive" assumes; by default 0, which stands for nothing going wrong.

    Returns
    -------
    Plan
        Its stake is 0.

    Raises
    ------
    TypeError
        If `forecast` is not a `Forecast`.
    ValueError
        If the loss table does not fit the forecast, or there is no such rule.

    Examples
    --------
    >>> import makewhole as mw
    >>> table = {"fly": (-100, 400), "drive": (-40, -40)}
    >>> [mw.decide(mw.Forecast(0.2), table, rule=rule).action for rule in ("naive", "trustful", "cautious")]
    ['fly', 'drive', 'drive']
    """
    labels, table = _table(forecast, losses)
    if rule == "trustful":
        judged = _expected(forecast, table)
    elif rule == "cautious":
        judged = table.max(axis=-1)
    elif rule == "naive":
        judged = table[..., int(arguments.class_indices("assume", assume, table.shape[-1]))]
    else:
        raise ValueError(f"rule must be 'trustful', 'cautious' or 'naive'; got {rule!r}")
    nothing = np.zeros(table.shape if forecast.classes else table.shape[:-1])
    worst, spread = table.max(axis=-1), np.ptp(table, axis=-1)
    return _pick(forecast, labels, table, np.argmin(judged, axis=-1), nothing, worst, spread)


def _table(forecast: Forecast, losses: Any) -> tuple[list[Any], Floats]:
    """Return the actions' labels, and the losses as an array (..., action, outcome), one row per event."""
    _check_forecast(forecast)
    if isinstance(losses, Mapping):
        labels = list(losses)
        if not labels:
            raise ValueError("losses must hold at least one action; got an empty table")
        columns = [arguments.numbers(f"losses[{a!r}]", losses[a]) for a in labels]
        outcomes = forecast.classes or 2
        for label, column in zip(labels, columns, strict=True):
            if column.ndim == 0 or column.shape[-1] != outcomes:
                hint = " (for K classes: Forecast(..., classes=K))" if column.size > outcomes == 2 else ""
                rule = f"must be {outcomes} numbers, one per outcome"
                raise ValueError(f"losses[{label!r}] {rule}; got {losses[label]!r}{hint}")
        arguments.together(**{f"losses[{a!r}]": v for a, v in zip(labels, columns, strict=True)})
        table = np.stack(np.broadcast_arrays(*columns), axis=-2)
    else:
        table = arguments.numbers("losses", losses)
        labels = list(range(table.shape[-2])) if table.ndim >= 2 else []
    outcomes = forecast.classes or 2
    if table.ndim < 2 or not labels or table.shape[-1] != outcomes:
        raise ValueError(
            f"losses must give {outcomes} numbers, one per outcome, for every action; got shape {table.shape}"
        )
    arguments.reject("losses", table, np.abs(table) > 1e300, "must lie in [-1e300, 1e300]")
    rows = np.shape(forecast.mu)[:-1] if forecast.classes else np.shape(forecast.mu)
    try:
        shape = np.broadcast_shapes(rows, table.shape[:-2])
    except ValueError:
        raise ValueError(
            f"losses must have as many rows as the forecast, {rows}; got {table.shape[:-2]}"
        ) from None
    return labels, np.broadcast_to(table, shape + table.shape[-2:])


def _check_forecast(given: Any) -> None:
    """Raise a TypeError that says what to write, unless it is a `Forecast`."""
    if not isinstance(given, Forecast):
        number = isinstance(given, (int, float)) and not isinstance(given, bool)
        write = f"mw.Forecast(mu={given!r})" if number else "mw.Forecast(mu=...)"
        raise TypeError(f"forecast must be a Forecast: write {write}; got {given!r}")


def _per_action(forecast: Forecast) -> tuple[Floats, Floats]:
    axis = -2 if forecast.classes else -1
    return np.expand_dims(np.asarray(forecast.mu), axis), np.expand_dims(np.asarray(forecast.c), axis)


def _expected(forecast: Forecast, table: Floats) -> Floats:
    mu, _ = _per_action(forecast)
    weights = mu if forecast.classes else np.stack([1 - mu, mu], axis=-1)
    expected: Floats = (weights * table).sum(axis=-1)
    return expected


def _full_hedge(
    forecast: Forecast, table: Floats, mu: Floats, c: Floats, lowest: float, cap: float
) -> Floats:
    if not forecast.classes:
        return np.asarray(bets.hedge(table))
    if (
        forecast.one_price
    ):  # minus any constant it is the same bet: take one that fits the cap, if there is one
        centred = np.asarray(multiclass.centred(table))
        least, most = centred.max(axis=-1, keepdims=True) - cap, centred.min(axis=-1, keepdims=True) - lowest
        return np.where(least <= most, centred - np.clip(0.0, least, np.maximum(least, most)), centred)
    if forecast.one_sided:  # only stakes >= 0: raise every class above the best one
        return np.asarray(table - table.min(axis=-1, keepdims=True))
    return np.asarray(multiclass.hedge(table, mu, c, simplex=False))


def _best_stakes(table: Floats, mu: Floats, c: Floats, lowest: float, cap: float) -> Floats:
    """Return candidate stakes within the cap, on a new first axis; the best possible stake is among them.

    To lose at most W before the cost of the bets, class y needs a stake of at least l_y − W. A smaller stake
    is cheaper, down to the cap if μ_y >= c_y, and down to 0 if not. The cost is convex and piecewise linear
    in W, so the best W is one at which its slope changes. The candidates are the stakes for all such W.
    """
    floors = np.broadcast_to(np.where(mu >= c, lowest, 0.0), table.shape)
    bends = table
    if cap < np.inf:  # else no stake is ever at the cap
        least = table.max(axis=-1, keepdims=True) - cap
        bends = np.maximum(np.concatenate([table, table - floors, least], axis=-1), least)
    stakes = np.maximum(table[..., None, :] - bends[..., :, None], floors[..., None, :])
    return np.moveaxis(np.minimum(stakes, cap), -2, 0)


def _best_at_one_price(table: Floats, mu: Floats, c: Floats, lowest: float, cap: float) -> Floats:
    """Return the best stakes within the cap where all classes have one price, one for each level W.

    A stake g loses at most W + <g, μ> + c·Σ|g_k − m| if g_k >= l_k − W, where m is its median. If μ_k >= c,
    the smallest such g_k is the cheapest; otherwise the one nearest to m. For c >= 0 the sum is convex and
    piecewise linear in W and m together, so the best pair is a corner of the lines where its slope changes:
    W is l_k minus an end of the cap's range, and m is a stake, or the cap. For c < 0 the candidates are the
    hedges cut off at the cap, and the best of these has such a W as well.
    """
    widest = np.ptp(table, axis=-1, keepdims=True)  # no best stake is larger
    low, high = np.maximum(lowest, -widest), np.minimum(cap, widest)
    levels = np.concatenate([table - low, table - high], axis=-1)
    levels = np.maximum(levels, (table - high).max(axis=-1, keepdims=True))
    price, free = np.maximum(c, 0.0)[..., None, :], (mu < c)[..., None, :]
    best = []
    for level in np.moveaxis(levels, -1, 0)[..., None]:
        least = np.clip(table - level, low, high)
        medians = np.concatenate([least, high], axis=-1)[..., None]
        stakes = np.where(free, np.maximum(medians, least[..., None, :]), least[..., None, :])
        cost = (stakes * mu[..., None, :] + np.abs(stakes - medians) * price).sum(axis=-1)
        use = np.argmin(cost, axis=-1)[..., None, None]
        best.append(np.take_along_axis(stakes, use, axis=-2)[..., 0, :])
    return np.stack(best)


def _tie(table: Floats, stakes: Floats, mu: Floats) -> Floats:
    """Return how much of a difference between two stakes' losses is rounding, in the sums and in μ itself."""
    off = np.abs(mu.sum(axis=-1) - 1)
    off = np.where(off <= arguments.SUM_TOLERANCE, off, 0.0)
    staked, lost = np.abs(stakes).max(axis=(0, -1)), np.abs(table).max(axis=-1)
    tie: Floats = off * staked + _ROUNDING * (staked + lost)
    return tie


def _worst(forecast: Forecast, table: Floats, stakes: Floats, mu: Floats, c: Floats) -> Floats:
    """Return the largest total loss of all outcomes, for each candidate stake, event and action."""
    if forecast.one_price:
        stakes = multiclass.centred(stakes)
    if forecast.classes:  # the cost of a bet does not depend on the outcome
        cost = (stakes * mu + np.abs(stakes) * c).sum(axis=-1)
        return np.asarray((table - stakes).max(axis=-1) + cost)
    paid = bets.payment(stakes[..., None], np.arange(2), mu[..., None], c[..., None])
    return np.asarray((table - paid).max(axis=-1))


def _choose(stakes: Floats, use: Any, forecast: Forecast) -> Floats:
    index = use[..., None] if forecast.classes else use
    return np.asarray(np.take_along_axis(stakes, index, axis=0)[0])


def _pick(
    forecast: Forecast,
    labels: list[Any],
    table: Floats,
    best: Any,
    stake: Floats,
    worst: Floats,
    spread: Floats,
) -> Plan:
    """Return the plan: the values of every table at the chosen action."""
    index = np.asarray(best)[..., None]

    def chosen(values: Floats) -> Any:
        return arguments.plain(np.take_along_axis(values, index, axis=-1)[..., 0])

    staked = (
        np.take_along_axis(stake, index[..., None], axis=-2)[..., 0, :] if forecast.classes else chosen(stake)
    )
    action = labels[int(best)] if np.ndim(best) == 0 else _named(labels, best)
    return Plan(action, staked, chosen(worst), chosen(spread), chosen(_expected(forecast, table)))


def _named(labels: list[Any], index: Any) -> Any:
    names = np.empty(len(labels), dtype=object)
    names[:] = labels
    alike = {type(a) for a in labels} in ({int}, {str})
    return np.array(names[index].tolist()) if alike else names[index]
