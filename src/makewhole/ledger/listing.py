"""The open ids of a book in sorted order, so that a page of them costs what it shows."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

# A State and a Subject of `requests`, which imports this module.
State: TypeAlias = Any
Subject: TypeAlias = Any

# The place of an id in an order: what it is sorted by, and the id itself, so that no two are equal.
Place = tuple[Any, str]

_NEVER = 2**63  # after every time at which an id may close


def _by_chance(state: State, id_: str, subject: Subject) -> Place:
    return -state.f.quote(subject.versions[-1]).mu, id_


ORDERS: dict[str, Callable[[State, str, Subject], Place]] = {
    "age": lambda _, id_, subject: (subject.first, id_),
    "closes": lambda _, id_, subject: (_NEVER if subject.closes is None else subject.closes, id_),
    "chance": _by_chance,
    "name": lambda _, id_, subject: (id_.casefold(), id_),
}


class Listing:
    """Keeps the open ids of a book sorted, in the orders that were asked for.

    A request only notes the id that it opened, changed or ended (`touch`). The order is put right when a page
    is read, from the state as it is then: a request that was undone does no harm.
    """

    __slots__ = ("_places", "_sorted", "_touched")

    def __init__(self) -> None:
        self._sorted: dict[str, list[Place]] = {}
        self._places: dict[str, dict[str, Place]] = {}  # by order: where each id is
        self._touched: set[str] = set()

    def touch(self, id_: str) -> None:
        """Note an id that has perhaps another place now, or none."""
        if self._sorted:
            self._touched.add(id_)
            if len(self._touched) > 1_000 + max(map(len, self._sorted.values())):
                self._forget()  # nobody reads pages: sorting anew is cheaper

    def _forget(self) -> None:
        self._sorted.clear()
        self._places.clear()
        self._touched.clear()

    def page(self, state: State, order: str, after: Place | None, begins: str = "") -> Iterator[Place]:
        """Yield the places after a place, in their order; with `begins`, in the order "name" only.

        Read it to where you need it, before the state changes.
        """
        self._refresh(state)
        places = self._sorted.get(order)
        if places is None:
            places = self._sort(state, order)
        start = begins.casefold()
        first = 0 if after is None else bisect_right(places, after)
        if begins:
            first = max(first, bisect_left(places, (start, "")))
        for number in range(first, len(places)):
            place = places[number]
            if begins and not place[0].startswith(start):
                return
            yield place

    def _sort(self, state: State, order: str) -> list[Place]:
        place_of = ORDERS[order]
        places = {id_: place_of(state, id_, subject) for id_, subject in state.subjects.items()}
        self._places[order], self._sorted[order] = places, sorted(places.values())
        return self._sorted[order]

    def _refresh(self, state: State) -> None:
        """Put the touched ids in their places; if they are many, sort anew when an order is asked for."""
        if len(self._touched) > 100 + len(state.subjects) // 8:
            self._forget()
        for order, places in self._sorted.items():
            known, place_of = self._places[order], ORDERS[order]
            for id_ in self._touched:
                old, subject = known.pop(id_, None), state.subjects.get(id_)
                if old is not None:
                    del places[bisect_left(places, old)]
                if subject is not None:
                    known[id_] = place_of(state, id_, subject)
                    insort(places, known[id_])
        self._touched.clear()
