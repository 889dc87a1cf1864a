"""An entry in a forecaster's book: a forecast that awaits its outcome, and the stakes on it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from makewhole import arguments, saving
from makewhole.corrections import Proposal
from makewhole.decisions import Forecast
from makewhole.forecasters import SparseRow

# Kinds of feature rows that are saved under their name.
_ROWS = {"SparseRow": SparseRow}

# One binary bet within a forecast, the event itself or one of its classes: what was published, what the
# target is measured from, and what the correction needs to credit the outcome.
Line = tuple[float, float, float, Proposal]  # μ, c, origin, proposal


def published(lines: list[Line], number: int, classes: int | None, one_sided: bool) -> Forecast:
    """The forecast that these lines make up."""
    if classes is None:
        return Forecast(lines[0][0], lines[0][1], number, None, one_sided)
    mu, c = np.array([line[0] for line in lines]), np.array([line[1] for line in lines])
    return Forecast(mu, c, number, classes, one_sided, simplex=not one_sided)


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
        if_none = sum(-net * mu - gross * c for (mu, c, _, _), net, gross in lines)
        gains = self.nets if self.forecast.classes else [0.0, self.nets[0]]
        return max(0.0, *(if_none + gain for gain in gains))

    def to_plain(self, *, keep_x: bool) -> dict[str, Any]:
        """As plain data; the features only where there is a base that will learn from them."""
        number = self.forecast.id
        strange = [p for *_, p in self.lines if type(p) is not Proposal]
        if strange:
            raise TypeError(
                f"proposals must be makewhole.Proposal to be saved while open; got {strange[0]!r}"
            )
        return {
            "id": number,
            "x": saving.encode(f"x of open forecast {number}", self.x, _ROWS) if keep_x else None,
            "said": self.said,
            "lines": [[mu, c, origin, list(proposal)] for mu, c, origin, proposal in self.lines],
            "stakes": self.stakes,
        }

    @classmethod
    def from_plain(cls, saved: dict[str, Any], classes: int | None, one_sided: bool) -> OpenForecast:
        """What `to_plain` was taken of."""
        lines = [(mu, c, origin, Proposal(*p)) for mu, c, origin, p in saved["lines"]]
        forecast = published(lines, saved["id"], classes, one_sided)
        x = saving.decode(saved["x"], _ROWS)
        zero = [0.0] * len(lines)
        made = cls(forecast, x, tuple(saved["said"]), lines, [], zero, zero[:])
        for staked in saved["stakes"]:
            made.add(tuple(staked))
        return made


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
