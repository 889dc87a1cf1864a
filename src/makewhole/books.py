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
from makewhole.statements import StakeRefused

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
    tracked: tuple[float, float] = (0.0, 0.0)  # exposure and gross stake, as its forecaster last counted them

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

    def potential(self) -> float:
        """The most it can lose per unit of cap, with every line staked in full: Σ(1 − 2c), or Σ(1 − ask)."""
        one_sided = self.forecast.one_sided
        return sum([max(0.0, 1.0 - (mu if one_sided else 2 * c)) for mu, c, *_ in self.lines])

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
        lines: list[Line] = [
            (mu, c, origin, Proposal(*p), inner and (inner[0], Proposal(*inner[1])))
            for mu, c, origin, p, inner in saved["lines"]
        ]
        forecast = published(lines, saved["id"], classes, one_sided)
        x = saving.decode(saved["x"], _ROWS)
        zero = [0.0] * len(lines)
        groups = read_names("groups", saved["groups"])
        made = cls(forecast, x, tuple(saved["said"]), lines, [], zero, zero[:], groups)
        for staked in saved["stakes"]:
            made.add(tuple(staked))
        return made


@dataclass(slots=True)
class Exposure:
    """What open forecasts can lose as staked, and their gross stakes; and the most of both, several open.

    The most while a single one was open does not matter: the bounds do not need it when outcomes come before
    the next forecast.
    """

    open: int = 0
    exposure: float = 0.0
    gross: float = 0.0
    late_exposure: float = 0.0
    late_gross: float = 0.0

    def move(self, exposure: float, gross: float) -> None:
        """Add to both."""
        self.exposure += exposure
        self.gross += gross
        if self.open > 1:
            self.late_exposure = max(self.late_exposure, self.exposure)
            self.late_gross = max(self.late_gross, self.gross)

    def leave(self, exposure: float, gross: float) -> None:
        """Close one."""
        self.open -= 1
        self.exposure -= exposure
        self.gross -= gross
        if not self.open:  # no rounding may be left over
            self.exposure = self.gross = 0.0


class Book:
    """The open forecasts, and what they can cost together, `all` of them and by `groups`.

    `potential`, counted where capital is guarded, is what they could lose if every stake there is room for
    were placed.
    """

    def __init__(self, max_stake: float, max_exposure: float | None, *, guarded: bool) -> None:
        self.open: dict[int, OpenForecast] = {}
        self.max_stake, self.max_exposure, self.guarded = max_stake, max_exposure, guarded
        self.potential = 0.0
        self.all = Exposure()
        self.groups: dict[Name, Exposure] = {}

    def enter(self, number: int, entry: OpenForecast) -> None:
        """Open a forecast."""
        if self.all.open == 1:  # from here on several are open, and each is kept track of
            self._track(next(iter(self.open.values())))
        self.open[number] = entry
        self.all.open += 1
        for name in entry.groups:
            group = self.groups.setdefault(name, Exposure())
            group.open += 1
            group.move(0.0, 0.0)
        if self.guarded:
            self.potential += entry.potential() * self.max_stake
        if entry.stakes:
            self._track(entry)

    def add(self, entry: OpenForecast, staked: tuple[float, ...]) -> None:
        """Take a stake, if open bets may lose that much."""
        if self.max_exposure is not None:
            self._check_exposure(entry, staked, self.max_exposure)
        entry.add(staked)
        if self.all.open > 1 or self.max_exposure is not None:
            self._track(entry)

    def with_stake(self, entry: OpenForecast, staked: tuple[float, ...]) -> OpenForecast:
        """The entry with one stake more, if open bets may lose that much; the book stays as it is."""
        if self.max_exposure is not None:
            self._check_exposure(entry, staked, self.max_exposure)
        return entry.with_stake(staked)

    def leave(self, entry: OpenForecast) -> None:
        """Close a forecast."""
        if self.all.open > 1:  # a stake may have been placed with the settlement itself
            self._track(entry)
        del self.open[entry.forecast.id]  # type: ignore[arg-type]  # what is open has a number
        self.all.leave(*entry.tracked)
        for name in entry.groups:
            self.groups[name].leave(*entry.tracked)
        if self.guarded:
            self.potential = self.potential - entry.potential() * self.max_stake if self.open else 0.0

    def _check_exposure(self, entry: OpenForecast, staked: tuple[float, ...], most: float) -> None:
        others, now = self.all.exposure - entry.tracked[0], entry.exposure()
        after = others + entry.with_stake(staked).exposure()
        if after > most and after > others + now:
            message = f"with this stake open bets could lose {after:g}; max_exposure is {most:g}"
            raise StakeRefused(message, max(0.0, most - others - now))

    def _track(self, entry: OpenForecast) -> None:
        before = entry.tracked
        entry.tracked = (entry.exposure(), sum(entry.grosses))
        more = entry.tracked[0] - before[0], entry.tracked[1] - before[1]
        self.all.move(*more)
        for name in entry.groups:
            self.groups[name].move(*more)


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
