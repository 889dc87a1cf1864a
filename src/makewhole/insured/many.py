"""Many forecasts at once: the same numbers as one by one, all or nothing, in one step."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np

from makewhole import arguments, frames
from makewhole.arguments import Floats
from makewhole.corrections import Proposal
from makewhole.corrections._kernels import Rules
from makewhole.corrections.names import Name, read_name
from makewhole.decisions import Forecast, binary_forecast
from makewhole.forecasters import BaseForecaster, Rows, Said, ask_many, given_many, valid
from makewhole.insured.book import Exposure, Id, Line, OpenForecast
from makewhole.insured.bookkeeping import Bookkeeping
from makewhole.insured.changes import (
    EXPOSURE,
    MEMORY,
    STANDING,
    TOTALS,
    Get,
    Key,
    Patch,
    drafting,
)
from makewhole.insured.evidence import bet_many
from makewhole.insured.refusals import ForecastOpen
from makewhole.insured.totals import Standing, Totals


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the garbage collector: a batch makes many small tuples, which it would walk over and over."""
    running = gc.isenabled()
    try:
        gc.disable()
        yield
    finally:
        if running:
            gc.enable()


class Forecasts(Sequence[Forecast]):
    """Forecasts that were published together: a sequence of `Forecast`, with columns `ids`, `mu` and `c`."""

    def __init__(self, ids: list[Id], mu: Any, c: Any, entry: Callable[[Id], OpenForecast]) -> None:
        self.ids, self.mu, self.c, self._entry = ids, mu, c, entry

    @overload
    def __getitem__(self, at: int) -> Forecast: ...

    @overload
    def __getitem__(self, at: slice) -> list[Forecast]: ...

    def __getitem__(self, at: int | slice) -> Forecast | list[Forecast]:
        if isinstance(at, slice):
            return [self[k] for k in range(*at.indices(len(self)))]
        return self._entry(self.ids[at]).forecast

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        ends = f", ids {self.ids[0]!r} to {self.ids[-1]!r}" if self.ids else ""
        return f"Forecasts({len(self)} forecasts{ends})"


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Forecasts that were published together, with the same λ, and on which nobody has staked yet.

    It stands in the book in place of each of them, which is made an `OpenForecast` when it is needed.
    """

    places: dict[Id, int]
    xs: Rows
    mu_hats: list[float]
    widths: list[float]
    mus: list[float]
    cs: list[float]
    origins: list[float]
    rooms: list[float] | None
    proposal: Proposal
    first: int  # the serial number of the first
    one_sided: bool

    def entry(self, id_: Id) -> OpenForecast:
        """One of them."""
        k = self.places[id_]
        line = Line(self.mus[k], self.cs[k], self.origins[k], self.proposal, self.widths[k])
        forecast = binary_forecast(line.mu, line.c, id_, self.one_sided)
        room, zero = None if self.rooms is None else (self.rooms[k],), (0.0,)
        said = (self.mu_hats[k],)
        return OpenForecast(forecast, self.first + k, self.xs[k], said, (line,), (), zero, zero, 0, room)


def opened(id_: Id, entry: Any) -> OpenForecast:
    """An open forecast, whether it stands in the book by itself or in a batch."""
    alone: OpenForecast = entry.entry(id_) if type(entry) is Batch else entry
    return alone


def one_each(name: str, given: Any, count: int) -> list[Any]:
    """One value per row."""
    if given is None or isinstance(given, (str, bytes)) or not hasattr(given, "__len__"):
        raise TypeError(f"{name} must be one per forecast; got {given!r}")
    values = list(given.tolist() if isinstance(given, np.ndarray) else given)
    if len(values) != count:
        raise ValueError(f"{name} must be one per forecast, {count}; got {len(values)}")
    return values


# --- forecast ---------------------------------------------------------------------------------------------


def ask_rows(
    base: BaseForecaster | None, books: Bookkeeping, xs: Any, mu: Any, c_hat: Any
) -> tuple[Rows, Any]:
    """The rows, and what the base says of each: two arrays where the book is plain, else one `Said` each."""
    classes, c_range = books.classes, books.terms.c_range
    if base is None:
        if mu is None:
            raise TypeError("there is no base: give the probabilities, forecast_many(mu=...)")
        said = given_many(mu, c_hat, classes, c_range)
        rows = Rows([None] * len(said[0]) if xs is None else xs)
        if len(rows) != len(said[0]):
            raise ValueError(f"mu must be one per row, {len(rows)}; got {len(said[0])}")
    elif mu is not None or c_hat is not None:
        raise TypeError("there is a base, and it gives mu and c_hat: forecast_many(xs)")
    else:
        rows = Rows(xs)
        said = ask_many(base, rows, classes, c_range)
    if books.plain:
        return rows, said
    return rows, [valid(m, w, classes) for m, w in zip(*said, strict=True)]


def open_many(
    books: Bookkeeping,
    get: Get,
    patch: Patch,
    xs: Rows,
    said: list[Said] | tuple[Floats, Floats],
    groups: list[tuple[Name, ...]] | None,
    ids: Sequence[Id] | None,
) -> Forecasts:
    """Publish forecasts for many rows; `said` is what `ask_rows` gave."""
    chosen, keys = _new_ids(get, patch, len(xs), ids)
    if isinstance(said, tuple):
        memory = get(MEMORY)
        proposal, after = books.one.proposed(memory)
        if after is memory and chosen:  # so every forecast is made with the same λ
            return _open_together(books, drafting(get, patch), patch, xs, said, (chosen, keys), proposal)
        said = [valid(mu, width, None) for mu, width in zip(*map(_listed, said), strict=True)]
    read, entries = drafting(get, patch), {}
    for k, id_ in enumerate(chosen):
        named = () if groups is None else groups[k]
        entries[id_] = books.open(read, patch, xs[k], said[k], named, id_)
    made = [entry.forecast for entry in entries.values()]
    mu, c = np.array([one.mu for one in made]), np.array([one.c for one in made])
    return Forecasts(chosen, mu, c, entries.__getitem__)


def _listed(array: Floats) -> list[float]:
    listed: list[float] = array.tolist()
    return listed


def _new_ids(get: Get, patch: Patch, count: int, ids: Sequence[Id] | None) -> tuple[list[Id], list[Key]]:
    """Ids of their own for so many forecasts, those given or the next numbers; and their keys."""
    if ids is None:
        number: int = get(STANDING).next
        chosen: list[Id] = list(range(number, number + count))
        keys: list[Key] = [("open", id_) for id_ in chosen]
        while any(map(get, keys)):  # somebody's own id is among them: go on after the last such
            number += 1 + max(k for k, key in enumerate(keys) if get(key) is not None)
            chosen = list(range(number, number + count))
            keys = [("open", id_) for id_ in chosen]
        patch[STANDING] = get(STANDING)._replace(next=number + count)
        return chosen, keys
    if len(ids) != count:
        raise ValueError(f"ids must be one per forecast, {count}; got {len(ids)}")
    chosen = [read_name("ids", id_) for id_ in ids]
    if len(set(chosen)) < count:
        seen: set[Id] = set()
        twice = next(id_ for id_ in chosen if id_ in seen or seen.add(id_))  # type: ignore[func-returns-value]  # add returns None
        raise ValueError(f"ids must be different; got {twice!r} twice")
    for id_ in chosen:
        if get(("open", id_)) is not None:
            raise ForecastOpen(f"a forecast with the id {id_!r} is open: settle or void it first")
    return chosen, [("open", id_) for id_ in chosen]


def _open_together(
    books: Bookkeeping,
    get: Get,
    patch: Patch,
    xs: Rows,
    said: tuple[Floats, Floats],
    named: tuple[list[Id], list[Key]],
    proposal: Proposal,
) -> Forecasts:
    """Publish forecasts of one binary line each, all with the same λ; `named` are their ids and keys."""
    ids, keys = named
    mu, c, origin = publish_many(*said, proposal.lam, books.publishing)
    first, size = books.serial + 1, len(ids)
    books.serial += size
    count, at_risk, following, _ = get(STANDING)
    rooms = None
    if books.counts_room:
        sizes = rooms_of(mu, c, books.one_sided, books.max_stake)
        patch[EXPOSURE] = _entered(get(EXPOSURE), sizes, count)
        rooms = sizes.tolist()
    mu_hats, widths, mus, cs, origins = [array.tolist() for array in (*said, mu, c, origin)]
    places = dict(zip(ids, range(size), strict=True))
    facts = (proposal, first, books.one_sided)
    batch = Batch(places, xs, mu_hats, widths, mus, cs, origins, rooms, *facts)
    patch.update(dict.fromkeys(keys, batch))
    patch[STANDING] = Standing(count + size, at_risk, following, first + size - 1)
    return Forecasts(ids, mu, c, batch.entry)


def publish_many(mu_hat: Floats, c_hat: Floats, lam: float, rules: Rules) -> tuple[Floats, Floats, Floats]:
    """`publish` of a whole column, with the same bits."""
    wanted = c_hat + lam
    if rules.one_sided:
        ask = np.minimum(np.maximum(mu_hat + wanted, 0.0), 1.0)
        return ask, np.zeros(len(ask)), np.full(len(ask), -lam)
    if not rules.sound:
        return mu_hat, wanted, c_hat
    c = np.minimum(np.maximum(wanted, 0.0), 0.5)
    mu = np.minimum(np.maximum(mu_hat, c), 1.0 - c)
    kept = (c == wanted) | ((c > wanted) & (not rules.integrates))
    return mu, c, np.where(kept, c_hat, c - lam)


def rooms_of(mu: Floats, c: Floats, one_sided: bool, max_stake: float) -> Floats:
    """`room_of` of a whole column, with the same bits."""
    most = 1.0 - mu if one_sided else np.maximum(np.maximum(1.0 - mu - c, mu - c), 0.0)
    return most * max_stake


def _entered(exposure: Exposure, rooms: Floats, count: int) -> Exposure:
    """The exposure with one forecast after the other, as `Exposure.entered` adds them up."""
    sums = np.cumsum(np.concatenate([exposure.potential, rooms]))[1:]
    last = float(sums[-1])
    several = sums[1 if count == 0 else 0 :]
    if not len(several):
        return exposure._replace(potential=(last,))
    late = (max(exposure.late_potential[0], float(several.max())),)
    late_open = max(exposure.late_open, count + len(rooms))
    return exposure._replace(potential=(last,), late_potential=late, late_open=late_open)


# --- settle -----------------------------------------------------------------------------------------------


def read_outcomes(given: Any, id_column: str, outcome_column: str) -> dict[Id, Any]:
    """Outcomes by id, from a mapping or from two columns of a frame."""
    if isinstance(given, Mapping):
        if set(map(type, given)) <= {int, str}:
            return dict(given)
        return {read_name("id", id_): outcome for id_, outcome in given.items()}
    columns = frames.read_columns(given, {"id": id_column, "outcome": outcome_column})
    ids, outcomes = columns["id"].to_list(), columns["outcome"].to_list()
    read = {read_name(f"id={id_column!r}", id_): y for id_, y in zip(ids, outcomes, strict=True)}
    if len(read) < len(ids):
        raise ValueError(f"id={id_column!r} must name every forecast once; some occur twice")
    return read


def check_outcomes(outcomes: Collection[Any], *, graded: bool) -> None:
    """Raise unless every outcome is 0 or 1, or with `graded` a number in [0, 1]."""
    if set(map(type, outcomes)) != {int} or not set(outcomes) <= {0, 1}:
        for outcome in outcomes:
            arguments.outcome(outcome, None, graded=graded)


def _published(keys: list[Key], batches: list[Batch]) -> tuple[list[float], list[float]]:
    """The μ and c of these forecasts; without a search where they are one batch in its own order."""
    first = batches[0]
    if len(first.places) == len(keys) and [key[1] for key in keys] == list(first.places):
        return first.mus, first.cs
    places = [b.places[id_] for (_, id_), b in zip(keys, batches, strict=True)]
    found = list(zip(batches, places, strict=True))
    return [b.mus[k] for b, k in found], [b.cs[k] for b, k in found]


def close_unstaked(
    books: Bookkeeping, get: Get, patch: Patch, keys: list[Key], batches: list[Batch], outcomes: Iterable[Any]
) -> None:
    """Settle forecasts of batches that nobody has staked on: nothing is paid, and nothing learned."""
    totals: Totals = get(TOTALS)
    standing: Standing = get(STANDING)
    left = standing.open - len(keys)
    if books.counts_room:
        exposure = get(EXPOSURE)
        potential = exposure.potential[0]
        for (_, id_), batch in zip(keys, batches, strict=True):
            potential -= batch.rooms[batch.places[id_]] if batch.rooms is not None else 0.0
        patch[EXPOSURE] = exposure._replace(potential=(potential if left else 0.0,))
    patch.update(dict.fromkeys(keys))
    money, (mus, cs) = None, _published(keys, batches)
    if totals.money is not None and not books.one_sided:
        money = bet_many(totals.money, mus, cs, list(outcomes))
    patch[TOTALS] = totals.settled_unstaked(cs, money)
    books.serial += 1
    at_risk = standing.at_risk if left else 0.0
    patch[STANDING] = Standing(left, at_risk, standing.next, books.serial)
