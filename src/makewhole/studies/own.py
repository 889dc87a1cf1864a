"""The user's own corrections, agents and data sets, and the checks that they fit a study."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from makewhole import arguments
from makewhole.agents import Decision
from makewhole.corrections import Correction
from makewhole.datasets import Events
from makewhole.decisions import Forecast
from makewhole.protocol import Agent, Chance
from makewhole.studies.lineup import LINEUP, Maker

# A function that makes a fresh agent for a game: takes nature (a fair coin, whose outcome the agent may ask
# for), the number of rounds, and the seed.
AgentMaker = Callable[[Chance, int, int], Agent]
_HOW_CORRECTIONS = "a function of (rounds, c_range, seed) that makes a fresh correction"
_HOW_AGENTS = "a function of (nature, rounds, seed) that makes a fresh agent"


@dataclass(frozen=True)
class Own:
    """What the user brings to a run: makers of corrections and agents by name, and data."""

    corrections: Mapping[str, Maker] = field(default_factory=dict)
    agents: Mapping[str, AgentMaker] = field(default_factory=dict)
    data: Any = None


NOTHING = Own()


@runtime_checkable
class Acts(Protocol):
    """Any object with the method of an agent."""

    def act(self, forecast: Forecast) -> Decision:
        """Choose an action and a stake."""


class Entrants(NamedTuple):
    """The participants, by name and in order, and the makers of the user's own."""

    names: tuple[str, ...]
    own: dict[str, Any]


def read_corrections(given: Any) -> Entrants | None:
    """Read the option `corrections`: names of ours, or a mapping from a name to a maker.

    Returns None for None. Raises a ValueError for an unknown name, or for one of our names with another
    maker, and a TypeError for anything else that does not fit.
    """
    return _read("corrections", given, LINEUP, _HOW_CORRECTIONS)


def read_agents(given: Any, ours: Iterable[str]) -> Entrants | None:
    """Read the option `agents` in the same way; `ours` are the names of the study's agents."""
    return _read("agents", given, dict.fromkeys(ours), _HOW_AGENTS)


def _read(option: str, given: Any, ours: Mapping[str, Any], how: str) -> Entrants | None:
    if given is None:
        return None
    if isinstance(given, Mapping):
        pairs = dict(given)
    elif isinstance(given, str):
        pairs = {given: ours.get(given)}
    else:
        pairs = {name: ours.get(name) for name in given}
    if not pairs:
        raise ValueError(f"{option} must name at least one of {', '.join(ours)}")
    own = {}
    for name, maker in pairs.items():
        if not isinstance(name, str):
            raise TypeError(f"{option} must have text for names; got {name!r}")
        if name in ours:
            if maker is not None and maker is not ours[name]:
                raise ValueError(f"{option}: {name!r} is one of makewhole's; give yours another name")
        elif maker is None:
            raise ValueError(
                f"{option.removesuffix('s')} must be one of {', '.join(ours)}; got {name!r}. "
                f"For your own, pass {option}={{{name!r}: {how}}}"
            )
        elif not callable(maker) or isinstance(maker, (Correction, Acts)):
            raise TypeError(f"{option}[{name!r}] must be {how}; got {maker!r}")
        else:
            own[name] = maker
    return Entrants(tuple(pairs), own)


class PlainSteps(NamedTuple):
    """A correction's two methods as functions like our compilable steps, for a plain Python loop."""

    propose: Callable[..., Any]
    observe: Callable[..., None]


def plain_steps(correction: Correction, *, cells: bool = False) -> PlainSteps:
    """Wrap `propose` and `observe`; with `cells`, the step also returns which cell was proposed."""

    def propose(*_: Any) -> Any:
        proposal = correction.propose()
        return float(proposal.lam), proposal.cell if cells else 0, proposal

    def observe(_: Any, __: Any, step: Any, target: float, weight: float, *___: Any) -> None:
        correction.observe(step[2], float(target), float(weight))

    return PlainSteps(propose, observe)


# --- data -------------------------------------------------------------------------------------------------


def make_events(rows: Any, outcome: Any, *, z: Any = None, probability: Any = None) -> Events:
    """Make `Events`, the data set of a study, from a matrix of features and binary outcomes.

    Parameters
    ----------
    rows
        A matrix with a row of numbers per event, in order. Features should be of about size 1: standardise
        numbers first.
    outcome
        0 or 1 per row.
    z
        For the decision tasks ("mnist", "adult"): a whole number from 0 to 9 per row. An agent's losses
        depend on it, and results are also given per value.
    probability
        The true probability of 1 per row, if it is known. The decision tasks then also show an oracle.

    Examples
    --------
    >>> from makewhole import studies
    >>> events = studies.make_events([[0.0, 1.0], [0.5, 0.0]], [0, 1])
    >>> len(events), events.inputs
    (2, 2)
    """
    matrix = arguments.numbers("rows", rows)
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise ValueError(f"rows must be a matrix with a row per event; got shape {matrix.shape}")
    row, column = np.nonzero(matrix)
    made = Events(
        name="own data",
        inputs=matrix.shape[1],
        indptr=np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(matrix)))]),
        indices=column,
        data=matrix[row, column],
        outcome=outcome,
        z=z,
        probability=probability,
    )
    return check_events(made)


def check_events(events: Any, *, grouped: bool = False) -> Events:
    """Check a user's data set and return it with the types that our compiled loops expect.

    Raises a TypeError unless it is an `Events`, and a ValueError that names the field that does not fit.
    With `grouped`, the field `z` is also needed.
    """
    if not isinstance(events, Events):
        raise TypeError(
            "data must be makewhole.datasets.Events (make_events in makewhole.studies makes one); "
            f"got {type(events).__name__}"
        )
    outcome = np.atleast_1d(arguments.binary_outcomes("data.outcome", events.outcome))
    indptr, indices = (np.asarray(column, dtype=np.int64) for column in (events.indptr, events.indices))
    values = arguments.numbers("data.data", events.data)
    if not len(outcome):
        raise ValueError("data must have at least one row")
    if indptr.shape != (len(outcome) + 1,):
        raise ValueError(f"data must have as many rows as outcomes, {len(outcome)}; got {len(indptr) - 1}")
    if indptr[0] != 0 or (np.diff(indptr) < 0).any() or not indptr[-1] == len(indices) == len(values):
        raise ValueError("data.indptr must rise from 0 to the number of data.indices and data.data")
    if len(indices) and not (indices.min() >= 0 and indices.max() < events.inputs):
        raise ValueError(f"data.indices must lie in 0 … {events.inputs - 1}")
    probability = events.probability
    if probability is not None:
        probability = _per_row(
            "probability", arguments.probabilities("data.probability", probability), outcome
        )
    z = None if events.z is None else _per_row("z", arguments.class_indices("data.z", events.z, 10), outcome)
    if grouped and z is None:
        raise ValueError("data.z must be a whole number from 0 to 9 per row: losses depend on it; got None")
    return replace(
        events, indptr=indptr, indices=indices, data=values, outcome=outcome, z=z, probability=probability
    )


def _per_row(name: str, column: Any, outcome: Any) -> Any:
    if column.shape != outcome.shape:
        raise ValueError(f"data.{name} must have a number per row, {len(outcome)}; got shape {column.shape}")
    return column
