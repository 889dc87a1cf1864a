"""Changes as values: what a forecast, a stake, a settlement or a void would change, before it does."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from makewhole.decisions import Forecast
from makewhole.insured.book import Id

# A forecaster's whole state is one dictionary with these keys:
#   ("memory", line, part)  what a line's correction has learned; a part is None, or a group's name
#   ("over", line, part)    the same of the correction that a reserve is over
#   ("totals", group)       what was settled, of everyone (None) or of a group
#   ("standing", group)     how many forecasts are open, and what they can lose as staked; everyone's also
#                           names this state, and knows the next number for a forecast without an id
#   ("exposure", group)     what may be lost on what is open, where a bound or a cap needs to know
#   ("open", id)            a forecast that awaits its outcome, with the latest bets on it
#   ("stakes", id, block)   the bets before those, in blocks
#   ("groups",)             the bounds of all groups together, where each has books of its own
Key = tuple[Any, ...]

GROUPS: Key = ("groups",)
TOTALS: Key = ("totals", None)
EXPOSURE: Key = ("exposure", None)
STANDING: Key = ("standing", None)


class Change(NamedTuple):
    """What a call would change. `InsuredForecaster.apply` makes it true, and returns what undoes it.

    `patch` has the new value of every key that changes, None for a key that goes away. `revision` is the
    state it was computed from: applied to any other, it is refused.
    """

    revision: int
    patch: Mapping[Key, Any]


class Opening(NamedTuple):
    """A forecast to be published: a `Change` that knows its forecast."""

    revision: int
    patch: Mapping[Key, Any]
    forecast: Forecast


class Bet(NamedTuple):
    """A stake to be taken: a `Change` that knows its `place` among the payments."""

    revision: int
    patch: Mapping[Key, Any]
    id: Id
    place: int
    amounts: tuple[float, ...]
    by: Id | None


class LineResult(NamedTuple):
    """What a settled line lost, and what its correction learns: (target, weight).

    `rest` is what rounding has cut off from the loss when the payments were added up.
    """

    loss: float
    target: float
    weight: float
    rest: float = 0.0


class Lesson(NamedTuple):
    """What the base is taught: features, outcome, what it had said, and the stakes divided by the cap."""

    x: Any
    outcome: float
    mu: Any
    net: Any
    gross: Any


class Payments(list[float]):
    """What each agent receives, in order of staking; `by` has the sum for everyone who gave a name."""

    by: Mapping[Id, float] = MappingProxyType({})  # replaced where somebody gave a name


class Settlement(NamedTuple):
    """A forecast to be settled: a `Change` that knows who receives what, what is lost and what is learned."""

    revision: int
    patch: Mapping[Key, Any]
    id: Id
    outcome: float
    payments: Payments
    loss: float
    turnover: float
    lines: tuple[LineResult, ...]
    lesson: Lesson | None


AnyChange = Change | Opening | Bet | Settlement
