"""Grouped: a separate correction for every group."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Self

from makewhole.corrections.base import BookCorrection, Memory, Part, Proposal, Stepped
from makewhole.corrections.certificate import Terms
from makewhole.corrections.names import Name, read_names


class Grouped(BookCorrection):
    """A separate copy of a correction for every group, for groups that do not overlap.

    The bets on each group balance, not only all bets together. With a `Reserve`, each group has its own
    bound: `f.statement().groups["AA"].certificate`. Every forecast must name its group:
    `f.forecast(mu=0.3, groups="AA")`. For groups that overlap, see `OverlappingReserve`.

    Parameters
    ----------
    correction
        One of makewhole's corrections; every group gets a copy of it. One that was made for a capital, such
        as `Barrier(50)`, gives every group that capital. (With a thaw, forecasts of a group that are open at
        the same time can lose more; the group's certificate says how much.)
    groups
        The names of all groups; a forecast with another name raises a ValueError. If not given, any name is
        accepted, and the bound on the total loss grows with the number of groups.

    Raises
    ------
    TypeError
        If `correction` is not one of makewhole's, or is itself for groups.

    Examples
    --------
    >>> import makewhole as mw
    >>> f = mw.InsuredForecaster(None, mw.Grouped(mw.Reserve(0.01)), mode="sound", max_stake=1)
    >>> for t in range(10_000):  # an agent knows every outcome of AA, and nothing of UA
    ...     aa, ua = f.forecast(mu=0.5, groups="AA"), f.forecast(mu=0.5, groups="UA")
    ...     payments = f.settle(aa, 1, stake=1.0) + f.settle(ua, t % 2, stake=1.0)
    >>> {name: round(s.total_loss, 1) for name, s in f.statement().groups.items()}
    {'AA': 50.0, 'UA': 0.0}
    >>> f.peek(mu=0.5, groups="AA").c > 0.49, f.peek(mu=0.5, groups="UA").c < 0.01
    (True, True)
    """

    settings: ClassVar = ("correction", "groups")
    grouped = True
    apart = True

    def __init__(self, correction: Stepped, groups: Iterable[Name] | None = None) -> None:
        from makewhole.corrections import by_name, name_of

        ours = isinstance(correction, Stepped) and by_name(name_of(correction)) is type(correction)
        if not ours:
            raise TypeError(
                f"correction must be one of makewhole's corrections without groups; got {correction!r}"
            )
        self.correction: Stepped = copy.deepcopy(correction)
        self.groups = None if groups is None else read_names("groups", groups)
        self.by_group: dict[Name, Stepped] = {}
        for name in self.groups or ():
            self.by_group[name] = copy.deepcopy(correction)

    def __repr__(self) -> str:
        fixed = "" if self.groups is None else f", groups={list(self.groups)!r}"
        return f"Grouped({self.correction!r}{fixed})"

    def resembles(self, other: object) -> bool:
        """Whether the other has the same groups, and a correction with the same settings."""
        if not isinstance(other, Grouped):
            return False
        return self.groups == other.groups and self.correction.resembles(other.correction)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Grouped) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]  # it changes as it learns

    # --- what the copied correction answers ---------------------------------------------------------------

    @property
    def integrates(self) -> bool:  # type: ignore[override]  # as its correction does
        """Whether λ adds up losses instead of averaging targets."""
        return self.correction.integrates

    @property
    def over(self) -> BookCorrection | None:  # type: ignore[override]  # as its correction does
        """The correction that every group's `Reserve` is over, if any."""
        return self.correction.over

    @property
    def all_groups(self) -> tuple[Name, ...] | None:  # type: ignore[override]  # the setting
        """The names of all groups, if they were given."""
        return self.groups

    @property
    def capital_each(self) -> float | None:  # type: ignore[override]  # as its correction does
        """The capital of every group, if its correction was made for one."""
        return self.correction.capital

    def gentler(self, terms: Terms) -> bool:
        """Whether the price of every group is above the solvency guard's."""
        return self.correction.gentler(terms)

    @property
    def has_spread(self) -> bool:  # type: ignore[override]  # as its correction does
        """Whether its correction was given a spread."""
        return self.correction.has_spread

    @property
    def spread(self) -> float:  # type: ignore[override]  # as its correction does
        """The smallest λ of every group, if that is above 0."""
        return self.correction.spread

    @property
    def rate(self) -> float | None:  # type: ignore[override]  # as its correction does
        """The size of every group's steps."""
        return self.correction.rate

    def line_bound(self, terms: Terms) -> float | None:
        """Return the bound on what one group can lose on one line; None: no bound."""
        return self.correction.line_bound(terms)

    def theorem(self, terms: Terms) -> str:
        """Return the name of the theorem that proves each group's bound."""
        return self.correction.theorem(terms)

    @property
    def why_no_bound(self) -> str:  # type: ignore[override]  # as its correction does
        """Why a group has no bound."""
        return self.correction.why_no_bound

    def covers(self, c_range: tuple[float, float]) -> bool:
        """Whether its range contains every target that can occur if ĉ lies in `c_range`."""
        return self.correction.covers(c_range)

    def check(self, proposal: Proposal) -> None:
        """Raise a ValueError if the proposal cannot have come from a group's correction."""
        self.correction.check(proposal)

    def in_mode(self, terms: Terms) -> Self:
        """Return a copy for these terms; raise a ValueError if it does not fit them.

        A correction that was made for a capital must certify that capital to every group.
        """
        capital, bound = self.correction.capital, self.correction.in_mode(terms).line_bound(terms)
        if capital is not None and bound is not None and bound * terms.lines > capital * (1.0 + 1e-9):
            wide, rate = bound * terms.lines, self.correction.rate
            instead = "" if rate is None else f": use Reserve({rate * wide / capital:g})"
            raise ValueError(
                f"each group could lose {wide:g} on these terms with {self.correction!r}, which was made for "
                f"{capital:g}{instead}"
            )
        return self._each(lambda correction: correction.in_mode(terms))

    def begun(self) -> Self:
        """Return a copy for new books."""
        return self._each(lambda correction: correction.begun())

    def _each(self, change: Any) -> Self:
        twin = copy.copy(self)
        vars(twin).update(correction=change(self.correction))
        twin.by_group = {name: change(one) for name, one in self.by_group.items()}
        return twin

    # --- groups -------------------------------------------------------------------------------------------

    def check_groups(self, groups: tuple[Name, ...]) -> tuple[Name, ...]:
        """Return the group of a forecast; raise a ValueError unless it is exactly one known group."""
        if len(groups) != 1:
            asked = "groups must name exactly one group with Grouped(...), as in forecast(..., groups='AA')"
            raise ValueError(f"{asked}; got {list(groups)!r}")
        if self.groups is not None and groups[0] not in self.groups:
            known = ", ".join(map(str, self.groups[:20]))
            raise ValueError(f"groups must be one of: {known}; got {groups[0]!r}")
        return groups

    def member(self, groups: tuple[Name, ...]) -> Stepped:
        """Return the correction of this group; it is created if the group is new."""
        (name,) = self.check_groups(groups)
        if name not in self.by_group:
            self.by_group[name] = copy.deepcopy(self.correction)
        return self.by_group[name]

    def split(self, groups: tuple[Name, ...]) -> list[BookCorrection]:
        """Return the correction of every group."""
        return [self.member((name,)) for name in groups]

    def of_group(self, group: Name) -> BookCorrection:
        """Return the correction of a group; for a new group, the one it would be a copy of."""
        return self.by_group.get(group, self.correction)

    def parts(self, groups: tuple[Name, ...]) -> tuple[Part, ...]:
        """Return the parts of the memory that a forecast uses: its group's."""
        return groups

    def propose(self) -> Proposal:
        """Raise a TypeError: a proposal is made for a group."""
        raise TypeError("Grouped proposes for one group at a time: call member(groups).propose()")

    def observe(self, proposal: Proposal, target: float, weight: float) -> None:
        """Raise a TypeError: an outcome belongs to a group."""
        raise TypeError("Grouped learns for one group at a time: call member(groups).observe(...)")

    # --- memory: that of every group's correction ---------------------------------------------------------

    def memories(self) -> dict[Part, Memory]:
        """Return what every group has learned."""
        return {name: member.blank() for name, member in self.by_group.items()}

    def blank(self) -> Memory:
        """Return the memory of a new group."""
        return self.correction.blank()

    def with_memories(self, memories: Mapping[Part, Memory]) -> Self:
        """Return a copy whose groups have these memories."""
        twin = copy.copy(self)
        twin.by_group = {}
        for name, memory in memories.items():
            if name is not None:
                twin.by_group[name] = self.by_group.get(name, self.correction).with_memories({None: memory})
        return twin

    def rebuilt(self, memories: Mapping[Part, Memory], overs: Mapping[Part, Memory]) -> Any:
        """Return a copy whose groups have these memories; `overs` are those of the inner corrections."""
        twin = self.with_memories(memories)
        for name, member in twin.by_group.items():
            if member.over is not None and name in overs:
                twin.by_group[name] = member.with_over(member.over.with_memories({None: overs[name]}))
        return twin

    def proposed(self, memory: Memory) -> tuple[Proposal, Memory]:
        """Return a group's next proposal, and its memory after it."""
        return self.correction.proposed(memory)

    def learned(
        self, memory: Memory, proposal: Proposal, target: float, weight: float, loss: float, residual: float
    ) -> Memory:
        """Return a group's memory after an outcome."""
        return self.correction.learned(memory, proposal, target, weight, loss, residual)

    def part_state(self, part: Part, memory: Memory) -> Any:
        """Return a group's memory as plain data."""
        return self.of_group(part).part_state(None, memory) if part is not None else None

    def read_part(self, part: Part, state: Any) -> Memory:
        """Return the memory that `part_state` turned into `state`; raise a ValueError if it does not fit."""
        if part is None:
            raise ValueError("every memory must belong to a group")
        member: Stepped = type(self.correction).from_state(state)
        if not member.resembles(self.correction):
            raise ValueError(f"every group must have a copy of {self.correction!r}; got {member!r}")
        if repr(member) != repr(self.correction):  # its `start` differs from that of the others
            self.by_group[part] = member
        return self.correction.read_part(None, state)

    def state(self) -> dict[str, Any]:
        """Return the correction that is copied, and what every group has learned, as plain data."""
        from makewhole.corrections import name_of

        return {
            "type": name_of(self.correction),
            "correction": self.correction.state(),
            "groups": self.groups,
            "by_group": [[name, member.state()] for name, member in self.by_group.items()],
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Return a correction with the state that `state()` returned."""
        from makewhole.corrections import by_name

        kind = by_name(state["type"])
        if kind is None:
            raise ValueError(f"type must be one of makewhole's corrections; got {state['type']!r}")
        made = cls(kind.from_state(state["correction"]), state["groups"])
        for name, one in state["by_group"]:
            member = kind.from_state(one)
            if not member.resembles(made.correction):
                raise ValueError(f"every group must have a copy of {made.correction!r}; got {member!r}")
            made.by_group[made.check_groups(read_names("groups", [name]))[0]] = member
        return made
