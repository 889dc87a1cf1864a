"""Read what a watch is given: the names of groups, and the rows of a dataframe."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from makewhole import arguments, frames
from makewhole.arguments import Floats
from makewhole.watching.times import Kind, read_times


class WatchedRows(NamedTuple):
    """The complete rows of a frame in order of time.

    `ids` are those of rows that wait for their outcome, None for the others; `labels` are the values of the
    groups by column, and `missing` is how many rows were left out.
    """

    rows: int
    mu: Floats
    y: Floats
    at: Floats
    kind: Kind
    ids: list[Any]
    labels: dict[str, list[Any]]
    missing: int


def read_names(groups: Any) -> list[str]:
    """Return the names of columns of groups; raise an error if they are not names, or not different."""
    if isinstance(groups, str) or not isinstance(groups, Sequence):
        raise TypeError(f"groups must be a list of names, such as ['carrier']; got {groups!r}")
    for name in groups:
        if not isinstance(name, str) or not name:
            raise TypeError(f"groups must be names of columns; got {name!r}")
    if len(set(groups)) < len(groups):
        raise ValueError(f"groups must have different names; got {list(groups)!r}")
    return list(groups)


def read_rows(frame: Any, graded: bool) -> WatchedRows:
    """Read a narwhals frame whose columns are named by the arguments of `see_many`."""
    mu, y = frames.read_numbers(frame, "mu"), frames.read_numbers(frame, "outcome")
    kind, at = read_times(frame["at"]) if "at" in frame.columns else ("row", np.zeros(len(mu)))
    late = np.isnan(y) & _present(frame, "id")
    kept = ~np.isnan(mu) & ~np.isnan(at) & (late | ~np.isnan(y))
    arguments.probabilities("mu", mu[kept])
    known = y[kept & ~late]
    (arguments.probabilities if graded else arguments.binary_outcomes)("outcome", known)
    order = np.flatnonzero(kept)
    if kind != "row":
        order = order[np.argsort(at[order], kind="stable")]
    places = order.tolist()
    ids = frame["id"].to_list() if "id" in frame.columns else []
    labels = {
        name: [values[k] for k in places]
        for name in frame.columns
        if name.startswith("group ")
        for values in [frame[name].to_list()]
    }
    return WatchedRows(
        rows=len(order),
        mu=mu[order],
        y=np.where(late, 0.0, y)[order],
        at=at[order],
        kind=kind,
        ids=[ids[k] if late[k] else None for k in places] if ids else [],
        labels=labels,
        missing=int(len(mu) - len(order)),
    )


def _present(frame: Any, argument: str) -> Any:
    if argument not in frame.columns:
        return np.zeros(len(frame), dtype=bool)
    return ~np.asarray(frame[argument].is_null().to_numpy(), dtype=bool)
