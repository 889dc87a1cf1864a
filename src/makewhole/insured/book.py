"""An entry in a forecaster's book: a forecast that awaits its outcome, and the stakes on it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from makewhole import arguments, saving
from makewhole.corrections import Proposal
from makewhole.corrections.members import Name, read_names
from makewhole.decisions import Forecast
from makewhole.forecasters import SparseRow
from makewhole.insured.statement import StakeRefused

# Kinds of feature rows that are saved under their name.
_ROWS = {"SparseRow": SparseRow}

# One binary bet within a forecast, the event itself or one of its classes: what was published, what the
# target is measured from, what the correction needs to credit the outcome; and under a reserve that is over
# another correction, ĉ and that one's own proposal.
Line = tuple[float, float, float, Proposal, tuple[float, Proposal] | None]


def published(lines: list[Line], number: int, classes: int | None, one_sided: bool) -> Forecast:
    """The forecast that these lines make up."""
    if classes is None:
        return Forecast(lines[0][0], lines[0][1], number, None, one_sided)
    mu, c = np.array([line[0] for line in lines]), np.array([line[1] for line in lines])
    sums_to_one = abs(float(mu.sum()) - 1.0) <= arguments.SUM_TOLERANCE  # clipped, it need not
    return Forecast(mu, c, number, classes, one_sided, simplex=sums_to_one)


@dataclass(slots=True)
class OpenForecast:
    """A forecast that awaits its outcome; `nets` and `grosses` sum up the stakes on each line."""

    forecast: Forecast
    x: Any
    said: tuple[float, ...]  # the base's own μ̂
    lines: list[Line]
    stakes: list[tuple[float, ...]]
    nets: list[float]
    grosses: list[float]
    groups: tuple[Name, ...] = ()
    tracked: list[float] | None = None  # each line's exposure, as its book last counted it
    room: list[float] | None = None  # what it could lose, staked in full, on each line; None: not counted

    def add(self, staked: tuple[float, ...]) -> None:
        """Take a stake, one number per line."""
        self.stakes.append(staked)
        for k, b in enumerate(staked):
            self.nets[k] += b
            self.grosses[k] += abs(b)

    def with_stake(self, staked: tuple[float, ...]) -> OpenForecast:
        """The same with one stake more; this one stays as it is."""
        more = replace(self, stakes=self.stakes[:], nets=self.nets[:], grosses=self.grosses[:])
        more.add(staked)
        return more

    def exposure(self) -> float:
        """The most that its bets can lose; at least 0, as it may be voided."""
        lines = zip(self.lines, self.nets, self.grosses, strict=True)
        if_none = sum(-net * mu - gross * c for (mu, c, *_), net, gross in lines)
        gains = self.nets if self.forecast.classes else [0.0, self.nets[0]]
        return max(0.0, *(if_none + gain for gain in gains))

    def exposures(self) -> list[float]:
        """The most that each line's bets can lose on their own, whatever hedges them on other lines."""
        return [
            max(0.0, net * (1.0 - mu) - gross * c, -net * mu - gross * c)
            for (mu, c, *_), net, gross in zip(self.lines, self.nets, self.grosses, strict=True)
        ]

    def potential(self) -> list[float]:
        """The most each line can lose per unit of cap, staked in full on the worse side."""
        if self.forecast.one_sided:
            return [1.0 - mu for mu, *_ in self.lines]
        return [max(0.0, 1.0 - mu - c, mu - c) for mu, c, *_ in self.lines]

    def to_plain(self, *, keep_x: bool) -> dict[str, Any]:
        """As plain data; the features only where there is a base that will learn from them."""
        number = self.forecast.id
        strange = [line[3] for line in self.lines if type(line[3]) is not Proposal]
        if strange:
            raise TypeError(
                f"proposals must be makewhole.Proposal to be saved while open; got {strange[0]!r}"
            )
        return {
            "id": number,
            "x": saving.encode(f"x of open forecast {number}", self.x, _ROWS) if keep_x else None,
            "said": self.said,
            "lines": [
                [mu, c, origin, list(proposal), inner and [inner[0], list(inner[1])]]
                for mu, c, origin, proposal, inner in self.lines
            ],
            "stakes": self.stakes,
            "groups": self.groups,
        }

    @classmethod
    def from_plain(cls, saved: dict[str, Any], classes: int | None, one_sided: bool) -> OpenForecast:
        """What `to_plain` was taken of."""
        lines = [_read_line(line) for line in saved["lines"]]
        forecast = published(lines, saved["id"], classes, one_sided)
        x = saving.decode(saved["x"], _ROWS)
        zero = [0.0] * len(lines)
        groups = read_names("groups", saved["groups"])
        made = cls(forecast, x, tuple(saved["said"]), lines, [], zero, zero[:], groups)
        for staked in saved["stakes"]:
            row = arguments.numbers("stakes", staked)
            if row.shape != (len(lines),):
                raise ValueError(f"stakes must be {len(lines)} numbers each; got {staked!r}")
            made.add(tuple(row.tolist()))
        return made


def _read_line(saved: list[Any]) -> Line:
    mu, c, origin, proposal, inner = saved
    float(arguments.probabilities("mu", mu))
    c, origin = arguments.numbers("lines", [c, origin]).tolist()
    pair = None if inner is None else (float(arguments.numbers("lines", inner[0])), _read_proposal(inner[1]))
    return float(mu), c, origin, _read_proposal(proposal), pair


def _read_proposal(saved: list[Any]) -> Proposal:
    lam, cell, split = saved
    if not isinstance(split, bool):
        raise ValueError(f"a proposal must say whether it is split; got {saved!r}")
    return Proposal(
        float(arguments.numbers("proposal", lam)), arguments.whole("proposal", cell, least=0), split
    )


class Exposure:
    """What open forecasts can lose, line by line.

    `exposure` is what they can lose as staked, and `lost` what was lost, counted where exposure is capped.
    `potential` is what they could lose if every stake there is room for were placed: a stake may come long
    after its forecast, when the price has moved. `late_potential` and `late_open` are the most of it, and the
    most forecasts, while several were open: the bounds need no more, for what is settled before the next
    forecast adds nothing.
    """

    __slots__ = ("exposure", "late_open", "late_potential", "lost", "open", "potential")

    def __init__(self, lines: int) -> None:
        self.open = self.late_open = 0
        zero = [0.0] * lines
        self.exposure, self.lost, self.potential, self.late_potential = zero, zero, zero, zero

    def widen(self, room: list[float]) -> None:
        """Count a forecast that could lose so much on each line."""
        self.potential = _sum(self.potential, room)
        if self.open > 1:
            self.late_potential = list(map(max, self.late_potential, self.potential))
            self.late_open = max(self.late_open, self.open)

    def leave(self, entry: OpenForecast) -> None:
        """Close one."""
        self.open -= 1
        if not self.open:  # no rounding may be left over
            self.exposure = self.potential = [0.0] * len(self.potential)
            return
        if entry.tracked is not None:
            self.exposure = _difference(self.exposure, entry.tracked)
        if entry.room is not None:
            self.potential = _difference(self.potential, entry.room)


def _sum(one: list[float], other: list[float]) -> list[float]:
    return [a + b for a, b in zip(one, other, strict=True)]


def _difference(one: list[float], other: list[float]) -> list[float]:
    return [a - b for a, b in zip(one, other, strict=True)]


class Book:
    """The open forecasts, and what they can cost together, `all` of them and by `groups`.

    `watched` is whether a certificate needs to know; `guarded`, whether the price does.
    """

    def __init__(self, max_stake: float, lines: int, *, capped: bool, guarded: bool, watched: bool) -> None:
        self.open: dict[int, OpenForecast] = {}
        self.max_stake, self.lines = max_stake, lines
        self.capped, self.guarded, self.watched = capped, guarded, watched
        self.all = Exposure(lines)
        self.groups: dict[Name, Exposure] = {}

    def of(self, group: Name) -> Exposure:
        """A group's."""
        return self.groups.setdefault(group, Exposure(self.lines))

    def scopes(self, entry: OpenForecast) -> list[Exposure]:
        """Everyone's, and that of every group it belongs to."""
        return [self.all, *(self.groups[name] for name in entry.groups)]

    def enter(self, number: int, entry: OpenForecast) -> None:
        """Open a forecast."""
        self.open[number] = entry
        self.all.open += 1
        for name in entry.groups:
            self.of(name).open += 1
        if self.guarded or (self.watched and (self.all.open > 1 or entry.groups)):
            if self.all.open == 2:  # from here on several are open, and each counts
                self._count(next(iter(self.open.values())))
            self._count(entry)
        if self.capped and entry.stakes:
            self._track(entry)

    def add(self, entry: OpenForecast, staked: tuple[float, ...]) -> None:
        """Take a stake."""
        entry.add(staked)
        if self.capped:
            self._track(entry)

    def leave(self, entry: OpenForecast, lost: list[float] | None = None) -> None:
        """Close a forecast, which has lost so much on each line."""
        del self.open[entry.forecast.id]  # type: ignore[arg-type]  # what is open has a number
        if entry.room is None and not self.capped and not entry.groups:  # nothing was counted
            self.all.open -= 1
            return
        for scope in self.scopes(entry):
            scope.leave(entry)
            if self.capped and lost is not None:
                scope.lost = _sum(scope.lost, lost)

    def check(
        self, entry: OpenForecast, staked: tuple[float, ...], most: float, bounds: list[list[float] | None]
    ) -> None:
        """Refuse a stake with which open bets could lose more than `most`, or a line more than its bound."""
        now, then = entry.exposures(), entry.with_stake(staked).exposures()
        counted = entry.tracked or [0.0] * self.lines
        others = sum(self.all.exposure) - sum(counted)
        if others + sum(then) > most and sum(then) > sum(now):
            message = f"with this stake open bets could lose {others + sum(then):g}; max_exposure is {most:g}"
            raise StakeRefused(message, _part(staked, sum(now), sum(then), most - others))
        for scope, bound in zip(self.scopes(entry), bounds, strict=True):
            for k, least in enumerate(bound or []):
                slack = max(1e-10 * self.max_stake, 1e-15 * least)  # for rounding
                left = least + slack - scope.lost[k] - scope.exposure[k] + counted[k]
                if then[k] > left and then[k] > now[k]:
                    message = f"this stake could lose {then[k]:g}; the certificate leaves {max(0.0, left):g}"
                    raise StakeRefused(message, _part(staked, now[k], then[k], left))

    def _count(self, entry: OpenForecast) -> None:
        if entry.room is None:
            entry.room = [share * self.max_stake for share in entry.potential()]
            for scope in self.scopes(entry):
                scope.widen(entry.room)

    def _track(self, entry: OpenForecast) -> None:
        before, entry.tracked = entry.tracked or [0.0] * self.lines, entry.exposures()
        for scope in self.scopes(entry):
            scope.exposure = _sum(scope.exposure, _difference(entry.tracked, before))


def _part(staked: tuple[float, ...], now: float, then: float, most: float) -> float:
    """How much of the stake would still be taken: what it can lose grows no faster than in proportion."""
    return max(0.0, (most - now) / (then - now)) * sum(map(abs, staked))


def read_open(
    entries: list[dict[str, Any]], below: int, classes: int | None, one_sided: bool, max_stake: float
) -> dict[int, OpenForecast]:
    """The open forecasts of a saved book by number, each checked: a file may have come from anywhere."""
    found: dict[int, OpenForecast] = {}
    for saved in entries:
        number = arguments.whole("id", saved["id"], least=0)
        if number in found or number >= below:
            raise ValueError(f"open forecasts must have numbers of their own below {below}; got {number}")
        entry = OpenForecast.from_plain(saved, classes, one_sided)
        if len(entry.lines) != (classes or 1) or max(entry.grosses) > max_stake:
            raise ValueError(
                f"forecast {number} must have {classes or 1} lines with stakes within {max_stake}"
            )
        found[number] = entry
    return found
