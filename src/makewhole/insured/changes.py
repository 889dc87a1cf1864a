"""Changes as values: what a forecast, a stake, a settlement or a void would change, before it does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from makewhole.corrections.names import Name
from makewhole.decisions import Forecast
from makewhole.insured.book import Id, Stake

# A forecaster's whole state is one dictionary with these keys:
#   ("memory", line, part)  what a line's correction has learned; a part is None, or a group's name
#   ("over", line, part)    the same of the correction that a reserve is over
#   ("totals", group)       what was settled, of everyone (None) or of a group
#   ("standing", group)     how many forecasts are open, and what they can lose as staked; everyone's also
#                           names this state, and knows the next number for a forecast without an id
#   ("exposure", group)     what may be lost on what is open, where a bound or a cap needs to know
#   ("open", id)            a forecast that awaits its outcome, with the latest bets on it
#   ("stakes", id, block)   the bets before those, in blocks
#   ("line", name)          what a named customer, or a level of customers, has taken of its line
#   ("position", id, name)  her bets on an open forecast, unless it has one bet in all
#   ("conceded",)           what a thaw has conceded
#   ("day",)                the day that it is, if a thaw needs to know and was told
#   ("groups",)             the bounds of all groups together, where each has books of its own
Key = tuple[Any, ...]

GROUPS: Key = ("groups",)
CONCEDED: Key = ("conceded",)
DAY: Key = ("day",)
TOTALS: Key = ("totals", None)
EXPOSURE: Key = ("exposure", None)
STANDING: Key = ("standing", None)
MEMORY: Key = ("memory", 0, None)  # where there is one correction, and no groups


# Reads a key of the state, as it is or as a batch in the making has it.
Get = Callable[[Key], Any]
Patch = dict[Key, Any]


def drafting(get: Get, patch: Patch) -> Get:
    """Read the state as it will be once the patch is applied."""

    def read(key: Key) -> Any:
        return patch[key] if key in patch else get(key)

    return read


_EVERYONES = {"totals": [TOTALS], "exposure": [EXPOSURE], "standing": [STANDING]}


def keys_of(kind: str, groups: tuple[Name, ...]) -> list[Key]:
    """The keys of everyone's and of every group's."""
    return _EVERYONES[kind] + [(kind, name) for name in groups] if groups else _EVERYONES[kind]


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
    """A stake to be taken: a `Change` that knows its `place` among the payments.

    `surcharges` is what it costs above the published price, on each line; empty if nothing.
    """

    revision: int
    patch: Mapping[Key, Any]
    id: Id
    place: int
    amounts: tuple[float, ...]
    by: Id | None
    surcharges: tuple[float, ...] = ()


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


def paid_by_name(stakes: Sequence[Stake], payments: Payments) -> Mapping[Id, float]:
    """What everyone who gave a name receives."""
    named: dict[Id, float] = {}
    for place, (_, name, _, _) in enumerate(stakes):
        if name is not None:
            named[name] = named.get(name, 0.0) + payments[place]
    return named


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
