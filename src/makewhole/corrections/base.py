"""What a correction is: the verb pair `propose` and `observe`, and what a book may ask of it besides."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np

from makewhole.corrections.certificate import Terms
from makewhole.corrections.names import Name

# Values and whole numbers, the two lists that the kernels work on. Anybody else's correction: the object.
Memory = Any
# One of the things a correction remembers: None for what belongs to everyone, else a group's name.
Part = Name | None


class Proposal(NamedTuple):
    """The λ a correction proposes, and what it needs to credit the outcome later.

    `cell` is the cell to credit; with `split`, the outcome goes to `cell` if its target lies below `lam`
    and to the next cell otherwise.
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
    """Adapts λ so that c = ĉ + λ balances the books.

    Write your own with these four methods and `makewhole.checks.check_correction` tells whether it fits.
    """

    def propose(self) -> Proposal:
        """The λ for the next forecast. Several forecasts may be open at once."""

    def observe(self, proposal: Proposal, target: float, weight: float) -> None:
        """Learn that λ = `target` would have balanced the forecast made with `proposal`.

        Targets lie in [−1 − c₊, 1 − c₋] where ĉ lies in [c₋, c₊]; `weight`, the gross stake divided by
        the cap, in [0, 1]. Anything else, and what is not finite, must raise a ValueError and change
        nothing; a weight of 0 must change nothing, too.
        """

    def state(self) -> dict[str, Any]:
        """Everything it has learned and was told, as plain data."""

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Continue where `state()` was taken."""


class BookCorrection:
    """What a forecaster or a backtest may ask of a correction, each with its default.

    A book keeps what its corrections have learned in its own state, so that it can change everything in one
    step. So a correction has two sides: an object with the verbs `propose` and `observe`, and the pure pair
    `proposed` and `learned`, which take a memory and return the next one.

    Settings are read-only: what was certified is what runs.
    """

    # --- for the registry: the command line, the studies and the docs read these ------------------------

    name: ClassVar[str] = ""  # on the command line and in figures
    about: ClassVar[str] = ""  # what λ is, in a few words
    against: ClassVar[str] = ""  # against whom the mean loss vanishes
    options: ClassVar[tuple[str, ...]] = ()  # settings that the command line offers for it
    variants: ClassVar[
        Mapping[str, Mapping[str, Any]]
    ] = {}  # those that the studies compare: settings by name

    @classmethod
    def fitted(
        cls, rounds: int, c_range: tuple[float, float] = (0.0, 0.0), seed: int | None = None, **settings: Any
    ) -> Self:
        """One made for a run of so many forecasts with ĉ in `c_range`; `settings` override its choices."""
        return cls(**settings)

    # --- what it is ---------------------------------------------------------------------------------------

    integrates: bool = False  # whether λ adds up losses, rather than averaging targets
    grouped: bool = False  # whether a forecast must say which groups it belongs to
    apart: bool = False  # whether each group has books of its own
    all_groups: tuple[Name, ...] | None = None  # where they are known beforehand
    over: BookCorrection | None = None  # another correction, which refines ĉ first
    rate: float | None = None  # the size of its steps, where they have one
    why_no_bound: str = "no bound is known for this correction"
    settings: ClassVar[tuple[str, ...]] = ()  # attributes that cannot be assigned

    def __setattr__(self, name: str, value: Any) -> None:
        if name in type(self).settings and name in self.__dict__:
            raise AttributeError(f"{name} cannot be changed: make a new {type(self).__name__}")
        if callable(getattr(type(self), name, None)):
            raise AttributeError(f"{name} cannot be replaced on a correction: write a subclass")
        object.__setattr__(self, name, value)

    @property
    def kernels(self) -> Kernels | None:
        """Its two steps, to be compiled; None where it must run in a plain loop."""
        return None

    def in_mode(self, terms: Terms) -> Self:
        """The same as a book with these terms needs it; a ValueError if it does not fit them."""
        return self

    def begun(self) -> Self:
        """The same at the start of a new book: what it has learned elsewhere is where this one begins."""
        return self

    def covers(self, c_range: tuple[float, float]) -> bool:
        """Whether every target that may come is in its range when ĉ lies in `c_range`."""
        return True

    def resembles(self, other: object) -> bool:
        """Whether the other was made with the same settings, whatever each has learned."""
        return type(self) is type(other) and repr(self) == repr(other)

    def check(self, proposal: Proposal) -> None:
        """Raise a ValueError unless the proposal may have been this correction's."""

    def cell_of(self, x: float) -> int:
        """The cell that holds x; −1 for a correction without cells."""
        return -1

    def seen(self, lam: float) -> Proposal:
        """What someone who keeps a copy of this correction learns from seeing λ."""
        return self.propose()

    def propose(self) -> Proposal:
        """The λ for the next forecast."""
        raise NotImplementedError

    def observe(self, proposal: Proposal, target: float, weight: float) -> None:
        """Learn that λ = `target` would have balanced the forecast made with `proposal`."""
        raise NotImplementedError

    # --- what it certifies --------------------------------------------------------------------------------

    def line_bound(self, terms: Terms) -> float | None:
        """What one line can lose where every outcome comes before the next forecast; None: no bound."""
        return None

    def late_loss(self, terms: Terms, open_at_once: int) -> float | None:
        """What late outcomes add to that in exact mode; None: no bound."""
        return None

    def theorem(self, terms: Terms) -> str:
        """The name of the theorem behind the bound."""
        return ""

    mean_theorem: str = ""  # who proved the bound on the mean loss

    def mean_bound(self, rounds: int, terms: Terms) -> float | None:
        """A bound on |mean loss| after so many forecasts against everyone, in exact mode; None: none."""
        return None

    # --- groups -------------------------------------------------------------------------------------------

    def check_groups(self, groups: tuple[Name, ...]) -> tuple[Name, ...]:
        """The groups of a forecast, if this correction takes them."""
        raise TypeError(
            f"groups need a grouped correction, Grouped(...) or OverlappingReserve(...); got {groups!r}"
        )

    def of_group(self, group: Name) -> BookCorrection:
        """The correction that answers for a group's books."""
        return self

    def parts(self, groups: tuple[Name, ...]) -> tuple[Part, ...]:
        """Which parts of its memory a forecast of these groups uses."""
        return (None,)

    def split(self, groups: tuple[Name, ...]) -> list[BookCorrection]:
        """The corrections that a log of these groups is replayed through: one, or one per group."""
        return [self]

    def begin(self, groups: tuple[Name, ...]) -> Any:
        """Begin these groups; returns where each one's number stands in the compiled loop's list."""
        return np.zeros(len(groups), dtype=np.int64)

    # --- memory -------------------------------------------------------------------------------------------

    def arrays(self) -> tuple[Any, Any]:
        """The memory as arrays, for the compiled loop."""
        raise NotImplementedError

    def adopt(self, arrays: tuple[Any, Any]) -> None:
        """Take over the memory that the compiled loop has left."""
        raise NotImplementedError

    def memories(self) -> dict[Part, Memory]:
        """All it has learned, by part."""
        raise NotImplementedError

    def blank(self) -> Memory:
        """What a part that has not begun remembers."""
        raise NotImplementedError

    def with_memories(self, memories: Mapping[Part, Memory]) -> Self:
        """The same that remembers this."""
        raise NotImplementedError

    def with_over(self, over: BookCorrection | None) -> Self:
        """The same over a correction that has learned more."""
        return self

    def rebuilt(self, memories: Mapping[Part, Memory], overs: Mapping[Part, Memory]) -> Any:
        """The object with the verbs that has learned this; `overs` is what the one it is over has learned."""
        made = self.with_memories(memories)
        if self.over is not None and None in overs:
            made = made.with_over(self.over.with_memories({None: overs[None]}))
        return made

    def gather(self, memories: list[Memory]) -> Memory:
        """Put the memories of a forecast's parts together for a step."""
        return memories[0]

    def scatter(self, memory: Memory) -> list[Memory]:
        """Take a memory apart again after a step."""
        return [memory]

    def proposed(self, memory: Memory) -> tuple[Proposal, Memory]:
        """The next proposal, and the memory after it: the same object where nothing moved."""
        raise NotImplementedError

    def learned(self, memory: Memory, proposal: Proposal, target: float, weight: float) -> Memory:
        """The memory after an outcome; the one given stays as it is."""
        raise NotImplementedError

    def part_state(self, part: Part, memory: Memory) -> Any:
        """A part's memory as plain data."""
        raise NotImplementedError

    def read_part(self, part: Part, state: Any) -> Memory:
        """The memory that `part_state` was taken of, checked."""
        raise NotImplementedError


def check_lesson(target: float, weight: float) -> None:
    """Raise a ValueError unless a correction can learn from this."""
    if not 0.0 <= weight <= 1.0:
        raise ValueError(f"weight must lie in [0, 1]; got {weight!r}")
    if not -np.inf < target < np.inf:
        raise ValueError(f"target must be finite; got {target!r}")


class Stepped(BookCorrection):
    """A correction whose two steps are functions in `_kernels`, so that backtests run it compiled."""

    _propose: ClassVar[Callable[..., Any]]
    _observe: ClassVar[Callable[..., None]]
    _values: Any
    _marks: Any
    _cells: int = 1

    @property
    def kernels(self) -> Kernels | None:
        """Its two steps; None where a subclass steps in its own way."""
        return Kernels(self._propose, self._observe) if steps_as_registered(self) else None

    def propose(self) -> Proposal:
        """The λ for the next forecast, and the cell to credit."""
        return tuple.__new__(Proposal, self._propose(self._values, self._marks))

    def observe(self, proposal: Proposal, target: float, weight: float) -> None:
        """Learn that λ = `target` would have balanced the forecast made with `proposal`.

        `weight` is the gross stake divided by the cap, in [0, 1]; at 0 there is nothing to learn.
        """
        check_lesson(target, weight)
        self.check(proposal)
        if weight:
            self._observe(self._values, self._marks, proposal, target, weight)

    def check(self, proposal: Proposal) -> None:
        """Raise a ValueError unless the proposal may have been this correction's."""
        _, cell, split = proposal
        if not 0 <= cell < self._cells - split:
            raise ValueError(f"proposal must come from this correction; got cell {cell} of {self._cells}")

    def state(self) -> dict[str, Any]:
        """Everything it has learned and was told, as plain data."""
        raise NotImplementedError

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Continue where `state()` was taken."""
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
        """All it has learned."""
        return {None: (self._values[:], self._marks[:])}

    def blank(self) -> Memory:
        """What it has learned so far: where a copy of it begins."""
        return self._values[:], self._marks[:]

    def with_memories(self, memories: Mapping[Part, Memory]) -> Self:
        """The same that remembers this."""
        twin = copy.copy(self)
        values, marks = memories[None]
        vars(twin).update(_values=values[:], _marks=marks[:])
        return twin

    def proposed(self, memory: Memory) -> tuple[Proposal, Memory]:
        """The next proposal, and the memory after it."""
        return tuple.__new__(Proposal, self._propose(memory[0], memory[1])), memory

    def learned(self, memory: Memory, proposal: Proposal, target: float, weight: float) -> Memory:
        """The memory after an outcome."""
        values, marks = memory[0][:], memory[1][:]
        self._observe(values, marks, proposal, target, weight)
        return values, marks

    def part_state(self, part: Part, memory: Memory) -> Any:
        """A part's memory as plain data, with the settings it was learned under."""
        return self.with_memories({None: memory}).state()

    def read_part(self, part: Part, state: Any) -> Memory:
        """The memory that `part_state` was taken of, checked."""
        made = type(self).from_state(state)
        if not made.resembles(self):
            raise ValueError(f"a correction like {self!r} must have learned it; got {made!r}")
        return made.blank()

    # --- compiled -----------------------------------------------------------------------------------------

    def arrays(self) -> tuple[Any, Any]:
        """The memory as arrays, for the compiled loop."""
        return np.array(self._values, dtype=np.float64), np.array(self._marks, dtype=np.int64)

    def adopt(self, arrays: tuple[Any, Any]) -> None:
        """Take over the memory that the compiled loop has left."""
        self._values = self._stored(arrays[0].tolist(), "d")
        self._marks = self._stored(arrays[1].tolist(), "q")

    def _stored(self, numbers: list[Any], code: str) -> Any:
        """A memory as it is kept: a list, for it is read fastest."""
        return numbers


class Plain(BookCorrection):
    """Somebody else's correction in a book: its memory is the object itself, copied before every step."""

    def __init__(self, correction: Correction) -> None:
        self.correction = correction

    def __repr__(self) -> str:
        return repr(self.correction)

    def resembles(self, other: object) -> bool:
        """Whether the other is of the same class."""
        return isinstance(other, Plain) and type(self.correction) is type(other.correction)

    def propose(self) -> Proposal:
        """The λ for the next forecast."""
        return self.correction.propose()

    def observe(self, proposal: Proposal, target: float, weight: float) -> None:
        """Learn an outcome."""
        self.correction.observe(proposal, target, weight)

    def memories(self) -> dict[Part, Memory]:
        """The object."""
        return {None: self.correction}

    def blank(self) -> Memory:
        """The object."""
        return self.correction

    def with_memories(self, memories: Mapping[Part, Memory]) -> Self:
        """Another object in its place."""
        return type(self)(memories[None])

    def proposed(self, memory: Memory) -> tuple[Proposal, Memory]:
        """The next proposal, and a copy that has made it."""
        twin = copy.deepcopy(memory)
        return twin.propose(), twin

    def learned(self, memory: Memory, proposal: Proposal, target: float, weight: float) -> Memory:
        """A copy that has seen the outcome."""
        twin = copy.deepcopy(memory)
        twin.observe(proposal, target, weight)
        return twin

    def part_state(self, part: Part, memory: Memory) -> Any:
        """Its state."""
        return memory.state()

    def read_part(self, part: Part, state: Any) -> Memory:
        """An object of the same class in that state."""
        return type(self.correction).from_state(state)

    def rebuilt(self, memories: Mapping[Part, Memory], overs: Mapping[Part, Memory]) -> Any:
        """The object itself."""
        made = memories[None]
        if self.over is not None and None in overs:
            made = made.with_over(self.over.with_memories({None: overs[None]}))
        return made

    # A subclass of one of ours that steps in its own way is asked what the class it extends answers.

    def _extended(self) -> BookCorrection | None:
        return self.correction if isinstance(self.correction, BookCorrection) else None

    @property
    def integrates(self) -> bool:  # type: ignore[override]  # it depends on whom it stands for
        """Whether λ adds up losses."""
        extended = self._extended()
        return extended is not None and extended.integrates

    @property
    def over(self) -> BookCorrection | None:  # type: ignore[override]  # it depends on whom it stands for
        """The correction that refines ĉ first."""
        extended = self._extended()
        return None if extended is None else extended.over

    def in_mode(self, terms: Terms) -> Self:
        """The same as a book with these terms needs it."""
        extended = self._extended()
        return self if extended is None else type(self)(extended.in_mode(terms))  # type: ignore[arg-type]  # ours has the verbs

    def covers(self, c_range: tuple[float, float]) -> bool:
        """Whether every target that may come is in its range."""
        extended = self._extended()
        return extended is None or extended.covers(c_range)


# What makes a step: a subclass that changes one of these steps in its own way.
_STEPS = ("propose", "observe", "_propose", "_observe", "proposed", "learned")


def steps_as_registered(correction: BookCorrection) -> bool:
    """Whether it is one of ours, and no subclass has its own way of proposing or observing."""
    kind = type(correction)
    ours = next((k for k in kind.__mro__ if k.__module__.startswith("makewhole.corrections.")), None)
    return ours is not None and all(getattr(kind, s, None) is getattr(ours, s, None) for s in _STEPS)


def for_book(correction: Any) -> BookCorrection:
    """The correction as a book uses it: ours as it is, anybody else's as a `Plain` one.

    Raises a TypeError for anything without the four verbs.
    """
    if isinstance(correction, type) and issubclass(correction, (BookCorrection, Correction)):
        name = correction.__name__
        raise TypeError(f"correction must be an object, not a class: write {name}(...) instead of {name}")
    if not isinstance(correction, Correction):
        raise TypeError(f"correction must have propose, observe, state and from_state; got {correction!r}")
    if isinstance(correction, BookCorrection) and steps_as_registered(correction):
        return correction
    if isinstance(correction, BookCorrection) and correction.grouped:
        raise TypeError(f"a grouped correction must step as makewhole's own does; got {correction!r}")
    return Plain(correction)
