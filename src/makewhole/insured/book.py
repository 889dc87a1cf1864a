"""An open forecast, the stakes on it, and what open forecasts can lose."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from makewhole import arguments
from makewhole.corrections import Proposal
from makewhole.corrections._kernels import add_exactly
from makewhole.corrections.names import Name
from makewhole.decisions import Forecast, binary_forecast, class_forecast
from makewhole.insured.refusals import StakeRefused

# Names a forecast or a bettor: any text or whole number.
Id = str | int


_ZERO = (0.0,)
# So many stakes stand in an open forecast itself; those before them in blocks of this size.
BLOCK = 16


class Line(NamedTuple):
    """One binary bet within a forecast: the event itself, or one of its classes.

    `mu` and `c` are what was published; the correction's target is measured from `origin`; `proposal` says
    which λ to credit. Classes at one price are one line, with the `mu` of the first of them. Under a reserve
    that is over another correction, `c_hat` is the base's own ĉ and `inner` that correction's proposal.
    """

    mu: float
    c: float
    origin: float
    proposal: Proposal
    c_hat: float = 0.0
    inner: Proposal | None = None


class Stake(NamedTuple):
    """A bet: one number per line, and who placed it, if she gave a name.

    `surcharges` is what it costs above the published price, on each line, whatever happens: a price of her
    own, μ' and c', is dearer by |b|·(c' − c) + b·(μ' − μ). `levels` are the names whose lines it counts in.
    """

    amounts: tuple[float, ...]
    by: Id | None = None
    levels: tuple[Name, ...] = ()
    surcharges: tuple[float, ...] = ()


# Of stakes on classes at one price: their medians added up, and the sizes of what they are beyond these.
Charged = tuple[float, float]


class OpenForecast(NamedTuple):
    """A forecast that awaits its outcome. It is never changed in place: a stake makes a new one.

    `said` is the base's own μ̂. `nets` and `grosses` sum up the stakes on each line, and `bets` counts them.
    `room` is what it could lose on each line if it were staked in full (None where no bound needs to know);
    `exposed`, what it can lose on each line as staked (None unless exposure is capped); both are one number
    where all classes have one price. `at_risk` is what it can lose in all as staked, hedges between classes
    included. `stakes` are the latest, at most BLOCK of
    them; the state has those before them in blocks, so that a stake costs the same however many there are.
    `surcharges` sums up theirs on each line; it is empty if there are none. `charged` sums up what is charged
    for where all classes have one price: the medians of the stakes, and the sizes of what is left of them.
    """

    forecast: Forecast
    number: int
    x: Any
    said: tuple[float, ...]
    lines: tuple[Line, ...]
    groups: tuple[Name, ...]
    nets: tuple[float, ...]
    grosses: tuple[float, ...]
    bets: int = 0
    room: tuple[float, ...] | None = None
    exposed: tuple[float, ...] | None = None
    at_risk: float = 0.0
    stakes: tuple[Stake, ...] = ()
    surcharges: tuple[float, ...] = ()
    charged: Charged = (0.0, 0.0)

    def with_stake(self, stake: Stake, *, capped: bool, one_price: bool = False) -> OpenForecast:
        """The same with one stake more; where `stakes` were a full block, they are the caller's to keep.

        `capped` says whether exposure is, and `one_price` whether all classes have one.
        """
        forecast, number, x, said, lines, groups, nets, grosses, bets, room, _, _, stakes, extra, paid = self
        nets, grosses = add(nets, stake.amounts), add_sizes(grosses, stake.amounts)
        if stake.surcharges:
            extra = add(extra, stake.surcharges) if extra else stake.surcharges
        exposed: tuple[float, ...] | None = None
        if one_price:
            median, size = charged_for(stake.amounts)
            paid = (paid[0] + median, paid[1] + size)
            risk = worst_shared_loss(said, lines[0][1], nets, paid)
            exposed = (risk,) if capped else None
        else:
            risk = worst_loss(lines, nets, grosses, sum(extra))
            exposed = exposures(lines, nets, grosses, extra) if capped else None
        latest = (*stakes, stake) if len(stakes) < BLOCK else (stake,)
        changed = (nets, grosses, bets + 1, room, exposed, risk, latest, extra, paid)
        return tuple.__new__(OpenForecast, (forecast, number, x, said, lines, groups, *changed))

    @property
    def blocks(self) -> int:
        """How many blocks of stakes the state has beside `stakes`."""
        return (self.bets - len(self.stakes)) // BLOCK


def published(
    lines: tuple[Line, ...],
    id_: Id | None,
    classes: int | None,
    one_sided: bool,
    said: tuple[float, ...],
) -> Forecast:
    """The forecast that these lines make up; `said` are the base's own μ̂, as published at one price."""
    if classes is None:
        return binary_forecast(lines[0].mu, lines[0].c, id_, one_sided)
    if len(lines) == 1:
        return class_forecast(said, lines[0][1], id_)
    mu, c = np.array([line.mu for line in lines]), np.array([line.c for line in lines])
    sums_to_one = abs(float(mu.sum()) - 1.0) <= arguments.SUM_TOLERANCE  # clipped, it need not
    return Forecast(mu, c, id_, classes, one_sided, simplex=sums_to_one)


def worst_loss(
    lines: tuple[Line, ...], nets: tuple[float, ...], grosses: tuple[float, ...], surcharge: float = 0.0
) -> float:
    """The most that these bets can lose together; at least 0, as the forecast may be voided."""
    if len(lines) == 1:
        line, net = lines[0], nets[0]
        worst = -net * line[0] - grosses[0] * line[1] - surcharge
        if net > 0.0:
            worst += net
        return worst if worst > 0.0 else 0.0
    if_none = sum(-n * line.mu - g * line.c for line, n, g in zip(lines, nets, grosses, strict=True))
    if_none -= surcharge
    return max(0.0, *(if_none + gain for gain in nets))


def without_common(amounts: Sequence[float]) -> tuple[float, ...]:
    """A stake on classes less what is the same on all of them, which wins and loses nothing."""
    low, high = min(amounts), max(amounts)
    if low <= 0.0 <= high:
        return amounts if type(amounts) is tuple else tuple(amounts)
    common = low if low > 0.0 else high
    return tuple([b - common for b in amounts])


def charged_for(amounts: Sequence[float]) -> Charged:
    """The median of a stake on classes, as in `multiclass.centred`, and the size of what it is beyond it."""
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


def won_on_classes(mus: Sequence[float], amounts: Sequence[float], median: float, y: int) -> float:
    """What a stake less its median wins at fair odds, if class y happens: b_y − Σ b_k·μ_k."""
    fair = 0.0
    for k, b in enumerate(amounts):
        fair += (b - median) * mus[k]
    return amounts[y] - median - fair


def worst_shared_loss(mus: tuple[float, ...], c: float, nets: tuple[float, ...], charged: Charged) -> float:
    """`worst_loss` where all classes have one price: that with the largest net stake happens."""
    median, size = charged
    worst = won_on_classes(mus, nets, median, nets.index(max(nets))) - size * c
    return worst if worst > 0.0 else 0.0


def exposures(
    lines: tuple[Line, ...],
    nets: tuple[float, ...],
    grosses: tuple[float, ...],
    surcharges: tuple[float, ...] = (),
) -> tuple[float, ...]:
    """The most that each line's bets can lose on their own, whatever hedges them on other lines."""
    extras = surcharges or (0.0,) * len(lines)
    return tuple(
        max(0.0, net * (1.0 - line.mu) - gross * line.c - extra, -net * line.mu - gross * line.c - extra)
        for line, net, gross, extra in zip(lines, nets, grosses, extras, strict=True)
    )


def room_of(lines: tuple[Line, ...], one_sided: bool, max_stake: float) -> tuple[float, ...]:
    """The most that each line can lose, staked in full on the worse side."""
    if len(lines) == 1:
        mu, c, _, _, _, _ = lines[0]
        return ((1.0 - mu) * max_stake,) if one_sided else (max(0.0, 1.0 - mu - c, mu - c) * max_stake,)
    if one_sided:
        return tuple((1.0 - line.mu) * max_stake for line in lines)
    return tuple(max(0.0, 1.0 - line.mu - line.c, line.mu - line.c) * max_stake for line in lines)


class Exposure(NamedTuple):
    """What open forecasts can lose, in all or of one group; tuples have a number per correction.

    `staked` is what they can lose as staked, and `lost` what was lost (only where exposure is capped; `low`
    is what rounding has cut off from it).
    `potential` is what they could lose if every stake there is room for were placed: a stake may come long
    after its forecast, when the price has moved. `late_potential` and `late_open` are the most of it, and the
    most forecasts, while several were open: the bounds need no more, for what is settled before the next
    forecast adds nothing.
    """

    late_open: int
    staked: tuple[float, ...]
    lost: tuple[float, ...]
    potential: tuple[float, ...]
    late_potential: tuple[float, ...]
    low: tuple[float, ...]

    def entered(self, room: tuple[float, ...] | None, count: int) -> Exposure:
        """With one more open forecast, which could lose so much on each line; `count` are open then."""
        if room is None:
            return self
        late_open, staked, lost, potential, late, low = self
        potential = add(potential, room)
        if count > 1:
            late, late_open = tuple(map(max, late, potential)), max(late_open, count)
        return tuple.__new__(Exposure, (late_open, staked, lost, potential, late, low))

    def restaked(self, before: OpenForecast, after: OpenForecast) -> Exposure:
        """With another stake on an open forecast."""
        if after.exposed is None:
            return self
        more = subtract(after.exposed, before.exposed or (0.0,) * len(self.staked))
        return self._replace(staked=add(self.staked, more))

    def left(self, entry: OpenForecast, losses: Sequence[Any], count: int) -> Exposure:
        """With one open forecast less; `count` are open then.

        `losses` are what it has lost on each line, as `LineResult`s, where exposure is capped.
        """
        late_open, staked, lost, potential, late, low = self
        if losses:
            sums = [_booked(*each) for each in zip(lost, low, losses, strict=True)]
            lost, low = tuple(total for total, _ in sums), tuple(rest for _, rest in sums)
        if not count:  # no rounding may be left over
            staked = potential = _ZERO if len(staked) == 1 else (0.0,) * len(staked)
        else:
            if entry.exposed is not None:
                staked = subtract(staked, entry.exposed)
            if entry.room is not None:
                potential = subtract(potential, entry.room)
        return tuple.__new__(Exposure, (late_open, staked, lost, potential, late, low))


def _booked(total: float, low: float, result: Any) -> tuple[float, float]:
    return add_exactly(*add_exactly(total, low, result.loss), result.rest)


def no_exposure(lines: int) -> Exposure:
    """Nothing is open."""
    zero = (0.0,) * lines
    return Exposure(0, zero, zero, zero, zero, zero)


def add(one: tuple[float, ...], other: tuple[float, ...]) -> tuple[float, ...]:
    """Number by number."""
    if len(one) == 1:
        return (one[0] + other[0],)
    return tuple(map(operator.add, one, other))


def add_sizes(one: tuple[float, ...], other: tuple[float, ...]) -> tuple[float, ...]:
    """The sizes of the second are added to the first."""
    if len(one) == 1:
        return (one[0] + abs(other[0]),)
    return tuple(map(operator.add, one, map(abs, other)))


def sizes(numbers: tuple[float, ...]) -> tuple[float, ...]:
    """Number by number."""
    return (abs(numbers[0]),) if len(numbers) == 1 else tuple(map(abs, numbers))


def subtract(one: tuple[float, ...], other: tuple[float, ...]) -> tuple[float, ...]:
    """Number by number."""
    if len(one) == 1:
        return (one[0] - other[0],)
    return tuple(map(operator.sub, one, other))


class Scope(NamedTuple):
    """A book that a stake counts in, everyone's or a group's: its exposure, and what each line may lose.

    `bounds` is None where nothing bounds it.
    """

    exposure: Exposure
    bounds: tuple[float, ...] | None


def check_exposure(
    entry: OpenForecast,
    amounts: tuple[float, ...],
    scopes: list[Scope],
    most: float,
    max_stake: float,
    *,
    one_price: bool = False,
) -> None:
    """Refuse a stake with which open bets could lose more than `most`, or a line more than its bound.

    A stake on a fresh forecast never meets a line's bound: where that is used up, c leaves nothing to win.
    But a stake may come long after its forecast, at a price that is no longer right. The first scope is
    everyone's.
    """
    zero = (0.0,) * (1 if one_price else len(amounts))
    now: tuple[float, ...] = (entry.at_risk,)
    if not one_price:
        now = exposures(entry.lines, entry.nets, entry.grosses, entry.surcharges)
    then = entry.with_stake(Stake(amounts), capped=True, one_price=one_price).exposed or zero
    counted = entry.exposed or zero
    others = sum(scopes[0].exposure.staked) - sum(counted)
    if others + sum(then) > most and sum(then) > sum(now):
        message = f"with this stake open bets could lose {others + sum(then):g}; max_exposure is {most:g}"
        raise StakeRefused(message, part_of(amounts, sum(now), sum(then), most - others))
    for exposure, bounds in scopes:
        for k, bound in enumerate(bounds or ()):
            slack = 2e-15 * (bound + max_stake)  # for rounding
            left = bound + slack - exposure.lost[k] - exposure.staked[k] + counted[k]
            if then[k] > left and then[k] > now[k]:
                message = f"this stake could lose {then[k]:g}; the certificate leaves {max(0.0, left):g}"
                raise StakeRefused(message, part_of(amounts, now[k], then[k], left))


def part_of(amounts: tuple[float, ...], now: float, then: float, most: float) -> float:
    """How much of the stake would still be taken: what it can lose grows no faster than in proportion."""
    return max(0.0, (most - now) / (then - now)) * sum(map(abs, amounts))
