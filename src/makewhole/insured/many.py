"""Many forecasts in one call: the same numbers as one by one, all or nothing, and much faster."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np

from makewhole import arguments, frames, rules
from makewhole.arguments import Floats
from makewhole.corrections import Proposal
from makewhole.corrections.names import Name, read_name
from makewhole.decisions import Forecast
from makewhole.forecasters import BaseForecaster, Rows, Said, ask_many, given_many, valid
from makewhole.insured.book import BetBook
from makewhole.insured.evidence import bet_many
from makewhole.insured.records import Id, Leg, Open, Scope
from makewhole.insured.refusals import ForecastOpen


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the garbage collector: a batch makes many small objects, which it would scan repeatedly."""
    running = gc.isenabled()
    try:
        gc.disable()
        yield
    finally:
        if running:
            gc.enable()


class Forecasts(Sequence[Forecast]):
    """Forecasts that were published together: a sequence of `Forecast`, with columns `ids`, `mu` and `c`."""

    def __init__(self, ids: list[Id], mu: Any, c: Any, entry: Callable[[Id], Open]) -> None:
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
    """Forecasts that were published together, with the same λ, and that have no stakes yet.

    It stands in the book for each of them; an `Open` is made when one of them is needed.
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

    def entry(self, id_: Id) -> Open:
        """One of the forecasts, as an `Open`."""
        k = self.places[id_]
        published = (self.mus[k], self.cs[k], self.origins[k], self.proposal)
        room = 0.0 if self.rooms is None else self.rooms[k]
        leg = Leg(*published, self.mu_hats[k], self.widths[k], None, room)
        return Open(id_, self.first + k, self.xs[k], [leg], (), self.one_sided)


def one_each(name: str, given: Any, count: int) -> list[Any]:
    """One value per row."""
    if given is None or isinstance(given, (str, bytes)) or not hasattr(given, "__len__"):
        raise TypeError(f"{name} must be one per forecast; got {given!r}")
    values = list(given.tolist() if isinstance(given, np.ndarray) else given)
    if len(values) != count:
        raise ValueError(f"{name} must be one per forecast, {count}; got {len(values)}")
    return values


# --- forecast ---------------------------------------------------------------------------------------------


def is_plain(book: BetBook) -> bool:
    """Whether all forecasts of a batch have the same λ and no limit: binary, no groups, no capital."""
    several = book.classes is not None or book.grouped or book.memories.composed
    return not (several or book.capped or book.capital is not None or book.lines is not None)


def ask_rows(base: BaseForecaster | None, book: BetBook, xs: Any, mu: Any, c_hat: Any) -> tuple[Rows, Any]:
    """The rows, and what the base says of each: two arrays if the book is plain, else a list of `Said`."""
    classes, c_range = book.classes, book.terms.c_range
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
    if is_plain(book):
        return rows, said
    return rows, [valid(m, w, classes) for m, w in zip(*said, strict=True)]


def open_many(
    book: BetBook,
    xs: Rows,
    said: list[Said] | tuple[Floats, Floats],
    groups: list[tuple[Name, ...]] | None,
    ids: Sequence[Id] | None,
) -> Forecasts:
    """Publish forecasts for many rows; `said` is what `ask_rows` returned."""
    chosen = _new_ids(book, len(xs), ids)
    if isinstance(said, tuple):
        memory = book.memories.own[0, None]
        proposal, after = book.corrections[0].proposed(memory)
        if after is memory and chosen:  # so every forecast is made with the same λ
            return _open_together(book, xs, said, chosen, proposal)
        said = [valid(mu, width, None) for mu, width in zip(*map(_listed, said), strict=True)]
    entries = {}
    for k, id_ in enumerate(chosen):
        entries[id_] = book.open(xs[k], said[k], () if groups is None else groups[k], id_)
    made = [entry.forecast for entry in entries.values()]
    mu, c = np.array([forecast.mu for forecast in made]), np.array([forecast.c for forecast in made])
    return Forecasts(chosen, mu, c, entries.__getitem__)


def _listed(array: Floats) -> list[float]:
    listed: list[float] = array.tolist()
    return listed


def _new_ids(book: BetBook, count: int, ids: Sequence[Id] | None) -> list[Id]:
    """An id for each of these forecasts: those given, or the next numbers."""
    opens = book.opens
    if ids is None:
        number = book.next_id
        chosen: list[Id] = list(range(number, number + count))
        while any(map(opens.__contains__, chosen)):  # callers have chosen some: continue after the last
            number += 1 + max(k for k, id_ in enumerate(chosen) if id_ in opens)
            chosen = list(range(number, number + count))
        book.journal.keep(book)
        book.next_id = number + count
        return chosen
    if len(ids) != count:
        raise ValueError(f"ids must be one per forecast, {count}; got {len(ids)}")
    chosen = [read_name("ids", id_) for id_ in ids]
    if len(set(chosen)) < count:
        seen: set[Id] = set()
        twice = next(id_ for id_ in chosen if id_ in seen or seen.add(id_))  # type: ignore[func-returns-value]  # add returns None
        raise ValueError(f"ids must be different; got {twice!r} twice")
    for id_ in chosen:
        if id_ in opens:
            raise ForecastOpen(f"a forecast with the id {id_!r} is open: settle or void it first")
    return chosen


def _open_together(
    book: BetBook, xs: Rows, said: tuple[Floats, Floats], ids: list[Id], proposal: Proposal
) -> Forecasts:
    """Publish binary forecasts, all with the same λ."""
    journal, scope, size = book.journal, book.everyone, len(ids)
    lam, how, one_sided, cap = proposal.lam, book.publishing, book.one_sided, book.max_stake
    mu_hats, widths = map(_listed, said)
    both = zip(mu_hats, widths, strict=True)
    published = [rules.publish(mu_hat, width, lam, how, 0.0) for mu_hat, width in both]
    mus, cs, origins = [list(column) for column in zip(*published, strict=True)]
    journal.keep(book)
    journal.keep(scope)
    rooms = None
    if book.counts_room:
        rooms = [rules.room(mu, c, one_sided, cap) for mu, c in zip(mus, cs, strict=True)]
        _enter_many(scope, rooms)
    places = dict(zip(ids, range(size), strict=True))
    facts = (proposal, book.serial + 1, book.one_sided)
    batch = Batch(places, xs, mu_hats, widths, mus, cs, origins, rooms, *facts)
    book.serial += size
    scope.open += size
    for id_ in ids:
        journal.keep_item(book.opens, id_)
    book.opens.update(dict.fromkeys(ids, batch))
    return Forecasts(ids, np.array(mus), np.array(cs), batch.entry)


def _enter_many(scope: Scope, rooms: list[float]) -> None:
    """Add what these forecasts could lose one after the other, as `Scope.enter` does."""
    count = scope.open
    sums = np.cumsum(np.concatenate([scope.potential, rooms]))[1:]
    scope.potential = (float(sums[-1]),)
    several = sums[1 if count == 0 else 0 :]
    if len(several):
        scope.late_potential = (max(scope.late_potential[0], float(several.max())),)
        scope.late_open = max(scope.late_open, count + len(rooms))


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


def _published(ids: list[Id], batches: list[Batch]) -> tuple[list[float], list[float]]:
    """The μ and c of these forecasts; without a search if they are one batch in its own order."""
    first = batches[0]
    if len(first.places) == len(ids) and ids == list(first.places):
        return first.mus, first.cs
    both = [(batch, batch.places[id_]) for id_, batch in zip(ids, batches, strict=True)]
    return [batch.mus[k] for batch, k in both], [batch.cs[k] for batch, k in both]


def close_unstaked(book: BetBook, ids: list[Id], batches: list[Batch], outcomes: Iterable[Any]) -> None:
    """Settle forecasts of batches, which have no stakes: nothing is paid, and nothing learned."""
    journal, scope = book.journal, book.everyone
    totals = scope.totals
    journal.keep(scope)
    journal.keep(totals)
    scope.open -= len(ids)
    if book.counts_room:
        potential = scope.potential[0]
        for id_, batch in zip(ids, batches, strict=True):
            potential -= batch.rooms[batch.places[id_]] if batch.rooms is not None else 0.0
        scope.potential = (potential if scope.open else 0.0,)
    money, (mus, cs) = None, _published(ids, batches)
    if totals.money is not None and not book.one_sided:
        money = bet_many(totals.money, mus, cs, list(outcomes))
    totals.settle_unstaked(cs, money)
    scope.at_risk = scope.at_risk if scope.open else 0.0
    for id_ in ids:
        journal.keep_item(book.opens, id_)
        del book.opens[id_]
