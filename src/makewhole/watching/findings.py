"""What a watch finds: its alarms, and the state of each group."""

from __future__ import annotations

from typing import Any, NamedTuple

from makewhole.watching.groups import WatchedGroup


class Alarm(NamedTuple):
    """A group whose forecasts were off: it happened more often than forecast by over c, or less often.

    At some time up to `raised` the group's forecasts were off by more than `at_least`, on average over the
    rows of a cluster, in this direction. `since` estimates when that began. `confidence` is the probability
    that every alarm that the watch ever raises is right, in all groups and at all times together. `rows` is
    how many rows of the group had been bet on by then; `mu` and `outcome` are the means of all its rows now.
    """

    group: WatchedGroup
    direction: str
    since: Any
    raised: Any
    at_least: float
    confidence: float
    rows: int
    mu: float
    outcome: float

    def __str__(self) -> str:
        since, raised = (str(time).removesuffix(" 00:00:00") for time in (self.since, self.raised))
        return (
            f"{self.group}: happened {self.direction} often than forecast, off by more than "
            f"{self.at_least:.3g}; likely since {since}, raised {raised} ({self.rows:,} rows)"
        )


class GroupState(NamedTuple):
    """What a watch knows of one group: if it is `refuted`, every c up to `smallest_c` is.

    `unbet` rows were not bet on: the first cluster, and rows beyond the largest cluster before.
    """

    group: WatchedGroup
    rows: int
    mu: float
    outcome: float
    refuted: bool
    smallest_c: float
    clusters: int
    unbet: int
    confidence: float

    @property
    def gap(self) -> float:
        """How much more often it happened than was forecast, over all rows."""
        return self.outcome - self.mu


def urgency(state: GroupState) -> tuple[bool, float, float]:
    """Return a sort key that puts the worst group first."""
    return not state.refuted, -state.smallest_c, -abs(state.gap) * state.rows**0.5
