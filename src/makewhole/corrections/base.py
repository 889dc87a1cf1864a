"""What a correction is: the methods `propose` and `observe`, and everything else that a forecaster calls."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np

from makewhole.corrections.certificate import Terms
from makewhole.corrections.names import Name

# What a correction has learned: the two lists that the kernels work on; for a user's own class, the object.
Memory = Any
# A correction's memory has parts: None is the part for all forecasts, a group's name the part for that group.
Part = Name | None


class Proposal(NamedTuple):
    """The λ that a correction proposes, and what it needs later to learn from the outcome.

    `cell` is the cell that the outcome is credited to. If `split` is True, it is credited to `cell` if its
    target lies below `lam`, and else to the next cell. Corrections without cells leave both at 0.
    """

    lam: float
    cell: int = 0
    split: bool = False


class Kernels(NamedTuple):
    """The two steps of a correction as plain functions that numba can compile (see `_kernels`)."""

    propose: Callable[..., Any]
    observe: Callable[..., None]


@runtime_checkable
class Correction(Protocol):
    """Chooses λ, so that the published half-width c = ĉ + λ balances the bets.

    ĉ is the base learner's half-width. To write your own correction, implement these four methods, and test
    it with `makewhole.checks.check_correction`.
    """

    def propose(self) -> Proposal:
        """Return the λ for the next forecast. Several forecasts may be open at the same time."""

    def observe(self, proposal: Proposal, target: float, weight: float) -> None:
        """Learn that λ = `target` would have balanced the forecast made with `proposal`.

        If ĉ lies in [c₋, c₊], targets lie in [−1 − c₊, 1 − c₋]. `weight` is the gross stake divided by the
        cap, in [0, 1]. A weight of 0 must change nothing. Another weight, or a target that is not finite,
        must raise a ValueError and change nothing.
        """

    def state(self) -> dict[str, Any]:
        """Return its settings and all that it has learned, as plain data."""

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Return a correction with the state that `state()` returned."""


class BookCorrection:
    """The base class of makewhole's corrections: all that a forecaster or a backtest calls, with defaults.

    A forecaster keeps what its corrections have learned (their memory) in its own state, so that it can
    change everything in one step. Therefore a correction can be used in two ways: as an object that learns,
    with `propose` and `observe`; or with `proposed` and `learned`, which take a memory and return the next
    one.

    Settings are read-only, because certificates depend on them.
    """

    # --- for the registry: the command line, the studies and the docs read these ------------------------

    name: ClassVar[str] = ""  # its name on the command line and in figures
    about: ClassVar[str] = ""  # what λ is, in a few words
    against: ClassVar[str] = ""  # against whom the mean loss tends to 0
    options: ClassVar[tuple[str, ...]] = ()  # the settings that the command line offers
    variants: ClassVar[Mapping[str, Mapping[str, Any]]] = {}  # what the studies compare: settings by name

    @classmethod
    def fitted(
        cls, rounds: int, c_range: tuple[float, float] = (0.0, 0.0), seed: int | None = None, **settings: Any
    ) -> Self:
        """Make one for a run of `rounds` forecasts with ĉ in `c_range`; `settings` override its choices."""
        return cls(**settings)

    # --- what it is ---------------------------------------------------------------------------------------

    integrates: bool = False  # whether λ adds up losses instead of averaging targets
    grouped: bool = False  # whether forecasts must name their groups
    apart: bool = False  # whether each group has its own correction
    all_groups: tuple[Name, ...] | None = None  # the names of all groups, if they are known
    takes_features: bool = False  # whether groups may have values, as features do
    most_groups: int | None = None  # the most groups that a forecast may belong to; None: any number
    at_own_price: bool = False  # whether it learns the loss at ĉ + λ, even if a capital or a line raised c
    over: BookCorrection | None = None  # another correction, which changes ĉ first
    rate: float | None = None  # the size of its steps, if it has one
    capital: float | None = None  # the most it may lose, if it was made for a capital
    capital_each: float | None = None  # the most that each of its groups may lose, if given
    spread: float = 0.0  # λ is at least this, if that is above 0
    has_spread: bool = False  # whether it was given its spread: then 0 means none
    sizable: bool = False  # whether `sized` makes it for a capital, which it then keeps to in sound mode
    why_no_bound: str = "no bound is known for this correction"
    settings: ClassVar[tuple[str, ...]] = ()  # attributes that cannot be assigned

    def __setattr__(self, name: str, value: Any) -> None:
        if name in type(self).settings and name in self.__dict__:
            raise AttributeError(f"{name} cannot be changed: make a new {type(self).__name__}")
        if callable(getattr(type(self), name, None)):
            raise AttributeError(f"{name} cannot be replaced on a correction: write a subclass")
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        if name in type(self).settings:
            raise AttributeError(f"{name} cannot be deleted: make a new {type(self).__name__}")
        object.__delattr__(self, name)

    @property
    def kernels(self) -> Kernels | None:
        """Its two steps, to be compiled; None if it must run in a plain Python loop."""
        return None

    def in_mode(self, terms: Terms) -> Self:
        """Return a copy for these terms; raise a ValueError if it does not fit them."""
        return self

    def begun(self) -> Self:
        """Return a copy for new books, which keeps what it has learned elsewhere."""
        return self

    def with_capital(self, capital: float, terms: Terms) -> Self:
        """Return a copy with another capital; a ValueError if it was made for one that cannot change."""
        raise ValueError(
            f"capital can be changed with a Barrier, or with a correction without one; got {self!r}"
        )

    def carried(self, memory: Memory) -> Memory:
        """Return a memory of the same correction with another capital as one with this capital."""
        return memory

    def overdrawn(self, memory: Memory) -> float:
        """Return how much more it has lost than its capital, which may have been lowered; at least 0."""
        return 0.0

    def gentler(self, terms: Terms) -> bool:
        """Whether its price is above the solvency guard's, no matter how little of its capital is left."""
        return False

    def sized(self, capital: float, max_stake: float) -> Self:
        """Return a new one that can lose at most `capital` in sound mode, if it is `sizable`."""
        raise NotImplementedError

    def covers(self, c_range: tuple[float, float]) -> bool:
        """Whether its range contains every target that can occur if ĉ lies in `c_range`."""
        return True

    def resembles(self, other: object) -> bool:
        """Whether the other has the same class and settings; what they have learned may differ."""
        return type(self) is type(other) and repr(self) == repr(other)

    def check(self, proposal: Proposal) -> None:
        """Raise a ValueError if the proposal cannot have come from this correction."""

    def cell_of(self, x: float) -> int:
        """Return the index of the cell that contains x; −1 for a correction without cells."""
        return -1

    def seen(self, lam: float) -> Proposal:
        """Return the proposal that an observer with a copy of this correction infers from λ."""
        return self.propose()

    def propose(self) -> Proposal:
        """Return the λ for the next forecast."""
        raise NotImplementedError

    def observe(self, proposal: Proposal, target: float, weight: float) -> None:
        """Learn that λ = `target` would have balanced the forecast made with `proposal`."""
        raise NotImplementedError

    # --- what it certifies --------------------------------------------------------------------------------

    def line_bound(self, terms: Terms) -> float | None:
        """Return a bound on what one line can lose; None: no bound.

        A line is one binary bet: an event with K classes has K lines, but in exact mode they share the
        correction, and the terms are those of all of them together. Every outcome must come before the next
        forecast; otherwise `late_loss` and the exposure are added.
        """
        return None

    def stretch_bound(self, terms: Terms) -> float | None:
        """Return a bound on what one line can lose between any two times; None: no bound.

        If several forecasts are open, the most that they can lose is added, as for `line_bound`.
        """
        return None

    def late_loss(self, terms: Terms, open_at_once: int) -> float | None:
        """Return what late outcomes add to `line_bound` in exact mode; None: no bound."""
        return None

    def theorem(self, terms: Terms) -> str:
        """Return the name of the theorem that proves the bound."""
        return ""

    mean_theorem: str = ""  # who proved the bound on the mean loss

    def mean_bound(self, rounds: int, terms: Terms) -> float | None:
        """Return a bound on |mean loss| after `rounds` forecasts, in exact mode; None: no bound."""
        return None

    # --- groups -------------------------------------------------------------------------------------------

    def check_groups(self, groups: tuple[Name, ...]) -> tuple[Name, ...]:
        """Return the groups of a forecast; raise a TypeError if this correction is not for groups."""
        raise TypeError(
            f"groups need a grouped correction: Grouped, OverlappingReserve or Balance; got {groups!r}"
        )

    def of_group(self, group: Name) -> BookCorrection:
        """Return the correction of a group."""
        return self

    def parts(self, groups: tuple[Name, ...]) -> tuple[Part, ...]:
        """Return the parts of its memory that a forecast of these groups uses."""
        return (None,)

    def split(self, groups: tuple[Name, ...]) -> list[BookCorrection]:
        """Return the corrections that a log with these groups is replayed through: one, or one per group."""
        return [self]

    def begin(self, groups: tuple[Name, ...]) -> Any:
        """Add these groups, and return the place of each one's number in the compiled loop's list."""
        return np.zeros(len(groups), dtype=np.int64)

    # --- memory -------------------------------------------------------------------------------------------

    def arrays(self) -> tuple[Any, Any]:
        """Return the memory as arrays, for the compiled loop."""
        raise NotImplementedError

    def adopt(self, arrays: tuple[Any, Any]) -> None:
        """Take over the memory after the compiled loop."""
        raise NotImplementedError

    def memories(self) -> dict[Part, Memory]:
        """Return all that it has learned, by part."""
        raise NotImplementedError

    def blank(self) -> Memory:
        """Return the memory of a new part."""
        raise NotImplementedError

    def with_memories(self, memories: Mapping[Part, Memory]) -> Self:
        """Return a copy with these memories."""
        raise NotImplementedError

    def with_over(self, over: BookCorrection | None) -> Self:
        """Return a copy that is over `over`."""
        return self

    def rebuilt(self, memories: Mapping[Part, Memory], overs: Mapping[Part, Memory]) -> Any:
        """Return an object with these memories; `overs` are those of the correction that it is over."""
        made = self.with_memories(memories)
        if self.over is not None and None in overs:
            made = made.with_over(self.over.with_memories({None: overs[None]}))
        return made

    def gather(self, memories: list[Memory]) -> Memory:
        """Join the memories of a forecast's parts, for one step."""
        return memories[0]

    def gather_for(self, memories: list[Memory], groups: tuple[Name, ...]) -> Memory:
        """Join the memories of the parts of a forecast with these groups, for one step."""
        return self.gather(memories)

    def scatter(self, memory: Memory) -> list[Memory]:
        """Split a memory into those of its parts, after a step."""
        return [memory]

    def proposed(self, memory: Memory) -> tuple[Proposal, Memory]:
        """Return the next proposal, and the memory after it: the same object if nothing changed."""
        raise NotImplementedError

    def learned(
        self, memory: Memory, proposal: Proposal, target: float, weight: float, loss: float, residual: float
    ) -> Memory:
        """Return the memory after an outcome; the memory passed in does not change.

        `loss` is what the forecast lost, in money, and `residual` what rounding cut off from it.
        """
        raise NotImplementedError

    def part_state(self, part: Part, memory: Memory) -> Any:
        """Return a part's memory as plain data."""
        raise NotImplementedError

    def read_part(self, part: Part, state: Any) -> Memory:
        """Return the memory that `part_state` turned into `state`; raise a ValueError if it does not fit."""
        raise NotImplementedError


def check_lesson(target: float, weight: float) -> None:
    """Raise a ValueError unless the weight lies in [0, 1] and the target is finite."""
    if not 0.0 <= weight <= 1.0:
        raise ValueError(f"weight must lie in [0, 1]; got {weight!r}")
    if not -np.inf < target < np.inf:
        raise ValueError(f"target must be finite; got {target!r}")


_new = tuple.__new__


class Stepped(BookCorrection):
    """A correction whose two steps are functions in `_kernels`, so that backtests can compile them."""

    _propose: ClassVar[Callable[..., Any]]
    _observe: ClassVar[Callable[..., None]]
    _values: Any
    _marks: Any
    _cells: int = 1
    _cap: float = 1.0  # M, where losses are given in units of it

    @property
    def kernels(self) -> Kernels | None:
        """Its two steps, to be compiled; None for a subclass that overrides them."""
        return Kernels(self._propose, self._observe) if steps_as_registered(self) else None

    def propose(self) -> Proposal:
        """Return the λ for the next forecast, and the cell to credit."""
        return tuple.__new__(Proposal, self._propose(self._values, self._marks))

    def observe(self, proposal: Proposal, target: float, weight: float) -> None:
        """Learn that λ = `target` would have balanced the forecast made with `proposal`.

        `weight` is the gross stake divided by the cap, in [0, 1]; at 0 nothing is learned. Raises a
        ValueError for another weight, a target that is not finite, or a proposal of another correction.
        """
        if not (0.0 <= weight <= 1.0 and -np.inf < target < np.inf):
            check_lesson(target, weight)
        self.check(proposal)
        if weight:
            loss = weight * (target - proposal[0]) * self._cap
            self._observe(self._values, self._marks, proposal, target, weight, loss, 0.0)

    def check(self, proposal: Proposal) -> None:
        """Raise a ValueError if the proposal cannot have come from this correction."""
        _, cell, split = proposal
        if not 0 <= cell < self._cells - split:
            raise ValueError(f"proposal must come from this correction; got cell {cell} of {self._cells}")

    def state(self) -> dict[str, Any]:
        """Return its settings and all that it has learned, as plain data."""
        raise NotImplementedError

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Return a correction with the state that `state()` returned."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other) or not isinstance(other, Stepped):
            return False
        return (self._values, self._marks) == (other._values, other._marks)

    __hash__ = None  # type: ignore[assignment]  # it changes as it learns

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.with_memories(self.memories())

    # --- memory: (values, marks), never changed in place by `proposed` and `learned` ----------------------

    def memories(self) -> dict[Part, Memory]:
        """Return all that it has learned."""
        return {None: (self._values[:], self._marks[:])}

    def blank(self) -> Memory:
        """Return what it has learned so far; copies start with it."""
        return self._values[:], self._marks[:]

    def with_memories(self, memories: Mapping[Part, Memory]) -> Self:
        """Return a copy with these memories."""
        twin = copy.copy(self)
        values, marks = memories[None]
        vars(twin).update(_values=values[:], _marks=marks[:])
        return twin

    def proposed(self, memory: Memory) -> tuple[Proposal, Memory]:
        """Return the next proposal, and the memory after it."""
        return _new(Proposal, self._propose(memory[0], memory[1])), memory

    def learned(
        self, memory: Memory, proposal: Proposal, target: float, weight: float, loss: float, residual: float
    ) -> Memory:
        """Return the memory after an outcome."""
        values, marks = memory[0][:], memory[1][:]
        self._observe(values, marks, proposal, target, weight, loss, residual)
        return values, marks

    def part_state(self, part: Part, memory: Memory) -> Any:
        """Return a part's memory as plain data, with the settings of the correction."""
        return self.with_memories({None: memory}).state()

    def read_part(self, part: Part, state: Any) -> Memory:
        """Return the memory that `part_state` turned into `state`; raise a ValueError if it does not fit."""
        made = type(self).from_state(state)
        if not made.resembles(self):
            raise ValueError(f"the state must be that of {self!r}; got {made!r}")
        return made.blank()

    # --- compiled -----------------------------------------------------------------------------------------

    def arrays(self) -> tuple[Any, Any]:
        """Return the memory as arrays, for the compiled loop."""
        return np.array(self._values, dtype=np.float64), np.array(self._marks, dtype=np.int64)

    def adopt(self, arrays: tuple[Any, Any]) -> None:
        """Take over the memory after the compiled loop."""
        self._values, self._marks = arrays[0].tolist(), arrays[1].tolist()


class Plain(BookCorrection):
    """A user's own correction: its memory is the object itself, which is copied before every step."""

    def __init__(self, correction: Correction) -> None:
        self.correction = correction

    def __repr__(self) -> str:
        return repr(self.correction)

    def resembles(self, other: object) -> bool:
        """Whether the other has the same class."""
        return isinstance(other, Plain) and type(self.correction) is type(other.correction)

    def propose(self) -> Proposal:
        """Return the λ for the next forecast."""
        return self.correction.propose()

    def observe(self, proposal: Proposal, target: float, weight: float) -> None:
        """Learn an outcome."""
        self.correction.observe(proposal, target, weight)

    def memories(self) -> dict[Part, Memory]:
        """Return the object."""
        return {None: self.correction}

    def blank(self) -> Memory:
        """Return the object."""
        return self.correction

    def with_memories(self, memories: Mapping[Part, Memory]) -> Self:
        """Return a wrapper of the object in these memories."""
        return type(self)(memories[None])

    def proposed(self, memory: Memory) -> tuple[Proposal, Memory]:
        """Return the next proposal, and a copy of the object that has made it."""
        twin = copy.deepcopy(memory)
        return twin.propose(), twin

    def learned(
        self, memory: Memory, proposal: Proposal, target: float, weight: float, loss: float, residual: float
    ) -> Memory:
        """Return a copy of the object that has learned the outcome."""
        twin = copy.deepcopy(memory)
        twin.observe(proposal, target, min(weight, 1.0))  # rounding may put a sum of stakes above the cap
        return twin

    def part_state(self, part: Part, memory: Memory) -> Any:
        """Return the object's state."""
        return memory.state()

    def read_part(self, part: Part, state: Any) -> Memory:
        """Return an object of the same class with that state."""
        return type(self.correction).from_state(state)

    def rebuilt(self, memories: Mapping[Part, Memory], overs: Mapping[Part, Memory]) -> Any:
        """Return the object with these memories."""
        made = memories[None]
        if self.over is not None and None in overs:
            made = made.with_over(self.over.with_memories({None: overs[None]}))
        return made

    # A user's subclass of one of our corrections delegates to that class.

    def _extended(self) -> BookCorrection | None:
        return self.correction if isinstance(self.correction, BookCorrection) else None

    @property
    def integrates(self) -> bool:  # type: ignore[override]  # it depends on the wrapped correction
        """Whether λ adds up losses instead of averaging targets."""
        extended = self._extended()
        return extended is not None and extended.integrates

    @property
    def over(self) -> BookCorrection | None:  # type: ignore[override]  # it depends on the wrapped correction
        """The correction that changes ĉ first, if any."""
        extended = self._extended()
        return None if extended is None else extended.over

    def in_mode(self, terms: Terms) -> Self:
        """Return a copy for these terms; raise a ValueError if it does not fit them."""
        extended = self._extended()
        return self if extended is None else type(self)(extended.in_mode(terms))  # type: ignore[arg-type]  # ours has the methods

    def covers(self, c_range: tuple[float, float]) -> bool:
        """Whether its range contains every target that can occur if ĉ lies in `c_range`."""
        extended = self._extended()
        return extended is None or extended.covers(c_range)


# A subclass that overrides one of these cannot use our compiled steps.
_STEPS = ("propose", "observe", "_propose", "_observe", "proposed", "learned", "in_mode")


def steps_as_registered(correction: BookCorrection) -> bool:
    """Whether it is one of ours, or a subclass that does not override how it proposes and learns."""
    kind = type(correction)
    ours = next((k for k in kind.__mro__ if k.__module__.startswith("makewhole.corrections.")), None)
    return ours is not None and all(getattr(kind, s, None) is getattr(ours, s, None) for s in _STEPS)


def for_book(correction: Any) -> BookCorrection:
    """Return the correction as a forecaster uses it: ours as it is, a user's own class wrapped in `Plain`.

    Raises a TypeError for a class instead of an object, and for an object without the four methods.
    """
    if isinstance(correction, type) and issubclass(correction, (BookCorrection, Correction)):
        name = correction.__name__
        raise TypeError(f"correction must be an object, not a class: write {name}(...) instead of {name}")
    if isinstance(correction, str):
        raise TypeError(f"correction must be an object, such as mw.Reserve(); got the text {correction!r}")
    if not isinstance(correction, Correction):
        raise TypeError(f"correction must have propose, observe, state and from_state; got {correction!r}")
    if isinstance(correction, BookCorrection) and steps_as_registered(correction):
        return correction
    if isinstance(correction, BookCorrection) and correction.grouped:
        raise TypeError(f"a correction for groups must not override propose or observe; got {correction!r}")
    return Plain(correction)
