"""Grouped: a correction of its own for every group."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any, Self

from makewhole.corrections.base import Proposal, Stepped
from makewhole.corrections.members import Name, read_names
from makewhole.corrections.reserve import Reserve


class Grouped:
    """One correction per group, for groups that do not overlap: none pays for another.

    Every group's books balance, not only those of all together, and with a `Reserve` every group has a
    certificate of its own: `f.statement().groups`. A forecast then says whose it is:
    `f.forecast(mu=0.3, groups="AA")`. For groups that overlap see `Reserve(overlapping=True)`.

    Parameters
    ----------
    correction
        One of makewhole's; every group gets a copy of it.
    groups
        The names of all groups there will ever be; any other is refused. If not given, a group begins
        where it is first named, and the bound on the total grows with each.

    Examples
    --------
    >>> import makewhole as mw
    >>> f = mw.InsuredForecaster(None, mw.Grouped(mw.Reserve(0.01)), mode="sound", max_stake=1)
    >>> for t in range(10_000):  # someone knows all about AA, and nothing about UA
    ...     aa, ua = f.forecast(mu=0.5, groups="AA"), f.forecast(mu=0.5, groups="UA")
    ...     payments = f.settle(aa, 1, stake=1.0) + f.settle(ua, t % 2, stake=1.0)
    >>> {name: round(s.total_loss, 1) for name, s in f.statement().groups.items()}
    {'AA': 50.0, 'UA': 0.0}
    >>> f.peek(mu=0.5, groups="AA").c > 0.49, f.peek(mu=0.5, groups="UA").c < 0.01
    (True, True)
    """

    grouped = True

    def __init__(self, correction: Stepped, groups: Iterable[Name] | None = None) -> None:
        from makewhole.corrections import by_name, name_of

        ours = isinstance(correction, Stepped) and by_name(name_of(correction)) is type(correction)
        if not ours or getattr(correction, "grouped", False):
            raise TypeError(
                f"correction must be one of makewhole's for a single book, to be copied; got {correction!r}"
            )
        self.correction = copy.deepcopy(correction)
        self.groups = None if groups is None else read_names("groups", groups)
        self.by_group: dict[Name, Stepped] = {}
        for name in self.groups or ():
            self.by_group[name] = copy.deepcopy(correction)

    def __repr__(self) -> str:
        fixed = "" if self.groups is None else f", groups={list(self.groups)!r}"
        return f"Grouped({self.correction!r}{fixed})"

    def resembles(self, other: object) -> bool:
        """Whether the other is of the same groups and the same correction."""
        if not isinstance(other, Grouped):
            return False
        return self.groups == other.groups and self.correction.resembles(other.correction)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Grouped) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]  # it changes as it learns

    @property
    def integrates(self) -> bool:
        """Whether λ adds up losses, rather than averaging targets."""
        return self.correction.integrates

    def covers(self, c_range: tuple[float, float]) -> bool:
        """Whether every target that may come is in range."""
        check = getattr(self.correction, "covers", None)
        return check is None or bool(check(c_range))

    def in_mode(self, mode: str, one_sided: bool, c_range: tuple[float, float]) -> Self:
        """The same as a forecaster or a backtest in this mode wants it."""
        twin = copy.deepcopy(self)
        if isinstance(twin.correction, Reserve):
            twin.correction = twin.correction.in_mode(mode, one_sided, c_range)
            twin.by_group = {
                name: one.in_mode(mode, one_sided, c_range)
                for name, one in twin.by_group.items()
                if isinstance(one, Reserve)
            }
        return twin

    def begun(self) -> Self:
        """The same at the start of a book of its own."""
        twin = copy.deepcopy(self)
        if isinstance(twin.correction, Reserve):
            twin.correction = twin.correction.begun()
            twin.by_group = {
                name: one.begun() for name, one in twin.by_group.items() if isinstance(one, Reserve)
            }
        return twin

    def glimpse(self, groups: tuple[Name, ...]) -> Self:
        """The same with this group alone, to look at what it would say."""
        (name,) = self.checked(groups)
        twin = copy.copy(self)
        twin.by_group = {name: copy.deepcopy(self.by_group.get(name, self.correction))}
        return twin

    def checked(self, groups: tuple[Name, ...]) -> tuple[Name, ...]:
        """The group of a forecast; an error where it is not exactly one, or not one of those there are."""
        if len(groups) != 1:
            asked = "groups must name one group, as in forecast(..., groups='AA')"
            raise ValueError(f"{asked}: these do not overlap; got {list(groups)!r}")
        if self.groups is not None and groups[0] not in self.by_group:
            known = ", ".join(map(str, self.groups[:20]))
            raise ValueError(f"groups must be one of: {known}; got {groups[0]!r}")
        return groups

    def member(self, groups: tuple[Name, ...]) -> Stepped:
        """The correction that a forecast of this group is made with, and learned from."""
        (name,) = self.checked(groups)
        if name not in self.by_group:
            self.by_group[name] = copy.deepcopy(self.correction)
        return self.by_group[name]

    def propose(self) -> Proposal:
        """Not without a group."""
        raise TypeError("a grouped correction proposes for a group: member(groups).propose()")

    def observe(self, proposal: Proposal, target: float, weight: float) -> None:
        """Not without a group."""
        raise TypeError("a grouped correction learns for a group: member(groups).observe(...)")

    def state(self) -> dict[str, Any]:
        """The correction that is copied, and what every group has learned."""
        from makewhole.corrections import name_of

        return {
            "type": name_of(self.correction),
            "correction": self.correction.state(),
            "groups": self.groups,
            "by_group": [[name, one.state()] for name, one in self.by_group.items()],
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Continue where `state()` was taken."""
        from makewhole.corrections import by_name

        kind = by_name(state["type"])
        if kind is None:
            raise ValueError(f"type must be one of makewhole's corrections; got {state['type']!r}")
        made = cls(kind.from_state(state["correction"]), state["groups"])
        for name, one in state["by_group"]:
            member = kind.from_state(one)
            if not member.resembles(made.correction):
                raise ValueError(f"every group must have a copy of {made.correction!r}; got {member!r}")
            made.by_group[made.checked(read_names("groups", [name]))[0]] = member
        return made
