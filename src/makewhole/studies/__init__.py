"""The paper's experiments on real data: `makewhole study --help`, or `run` from Python.

A new study is one module that makes a `Study`, and one line in `STUDIES`.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from makewhole.studies.lineup import LINEUP, Maker
    from makewhole.studies.own import AgentMaker, make_events
    from makewhole.studies.study import Study, StudyResult

__all__ = ["LINEUP", "STUDIES", "find", "make_events", "run"]

# name -> module and variable; a module is imported on first use, to keep start-up fast
STUDIES = {
    "statements": "statements:STUDY",
    "flights": "flights:STUDY",
    "honesty": "honesty:STUDY",
    "mnist": "decisions:MNIST",
    "adult": "decisions:ADULT",
    "adversaries": "adversaries:STUDY",
    "frontier": "frontier:STUDY",
    "market": "open_market:STUDY",
}


def __getattr__(name: str) -> Any:
    places = {"LINEUP": "lineup", "make_events": "own"}  # imported on first use, like the studies
    if name in places:
        return getattr(importlib.import_module(f"{__name__}.{places[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def find(name: str) -> Study:
    """Return the study of this name; raise a ValueError if there is none."""
    if name not in STUDIES:
        raise ValueError(f"study must be one of {', '.join(STUDIES)}; got {name!r}")
    module, variable = STUDIES[name].split(":")
    study: Study = getattr(importlib.import_module(f"{__name__}.{module}"), variable)
    return study


def run(
    name: str,
    *,
    rounds: int | None = None,
    seeds: int | None = None,
    corrections: str | Sequence[str] | Mapping[str, Maker] | None = None,
    data: Any = None,
    agents: str | Sequence[str] | Mapping[str, AgentMaker] | None = None,
    shares: Sequence[float] | None = None,
    airline: str | None = None,
    shuffle: bool = False,
    authors: bool = False,
    out: str | os.PathLike[str] | None = None,
    backend: str | None = None,
    jobs: int = -1,
    scheduler: str | None = None,
    watch: Callable[[list[Any], int, int], None] | None = None,
) -> StudyResult:
    """Run a study and return its frames, claims and figures.

    Parameters
    ----------
    name
        "statements", "flights", "honesty", "mnist", "adult", "adversaries", "frontier" or "market".
    rounds
        Use only the first `rounds` events of each run; for adversaries, the length of the longest game.
    seeds
        How many seeds, 0, 1, …; verdicts depend on the spread over them. By default the study's own number.
    corrections
        Names from `makewhole.studies.LINEUP`; or a dict from a name to a function of (rounds, c_range,
        seed) that makes a fresh correction. That may be one of makewhole's or your own, with the four methods
        of `makewhole.Correction`. Your own runs in a plain Python loop: expect some 100,000 steps a second.
        In the studies "frontier" and "market" the reserves or the barrier are compared with these.
    data
        flights, honesty: a path to a file of flights, or `Events` (see `make_events`). mnist and adult:
        `Events` with `z`, instead of the data set. frontier, market: a dict from a name to a log, a frame
        with the columns mu, y, stake and, optionally, c_hat.
    agents
        adversaries: names of our agents; or a dict from a name to a function of (nature, rounds, seed) that
        makes a fresh agent, an object with the method `act` (see `makewhole.agents`). Outcomes are fair
        coins, and `nature.outcome()` returns the round's outcome. Games of your own agents are shorter by
        default.
    shares
        flights, honesty: the shares of cautious passengers.
    airline, shuffle
        flights, honesty: a carrier's code; a random order instead of the schedule's.
    authors
        flights: use the authors' published choices where they differ from ours (`FlightSettings` says how),
        and their corrections.
    out
        Write Parquet, figures and a report to the folder `out/<name>`, as the command line does. Files there
        that makewhole did not write are neither changed nor removed; a FileExistsError says so before the
        run if one is in the way.
    backend
        "polars", "pandas" or "pyarrow": what the frames are. By default the first that is installed.
    jobs
        How many processes; −1 for one per core.
    scheduler
        The address of a Dask scheduler to run on.
    watch
        Called at the start and after each run with (claims so far, runs done, total runs).

    Returns
    -------
    StudyResult
        `results`, `summary` and `claims` are frames; `columns` says what each column means; `figures` are
        drawn on first use.

    Raises
    ------
    ValueError, TypeError
        If an option does not fit the study; the message names it. Nothing has been run or written then.

    Examples
    --------
    >>> from makewhole import studies
    >>> got = studies.run("adversaries", rounds=1000, seeds=1, corrections=["none", "reserve 0.1"], jobs=1)
    >>> got.results.shape
    (10, 5)
    >>> got.columns["results"]["mean_loss"]
    "the forecaster's loss per round, in units of the cap"
    >>> list(got.figures)
    ['adversaries']
    """
    from makewhole.studies.study import Options

    options = Options(
        rounds=rounds,
        seeds=seeds,
        corrections=corrections,
        shares=None if shares is None else tuple(shares),
        data=os.fspath(data) if isinstance(data, os.PathLike) else data,
        airline=airline,
        shuffle=shuffle,
        authors=authors,
        agents=agents,
        jobs=jobs,
        scheduler=scheduler,
    )
    return find(name).run(options, None if out is None else Path(out), backend=backend, watch=watch)
