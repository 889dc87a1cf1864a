"""The journal: old values, kept before they change, so that a call that fails can be undone.

A record changes in place. Before a value changes, its old value goes to the end of the journal. If anything
is raised, the journal is undone from its end; if all goes well, it is cleared.
"""

from __future__ import annotations

import operator
from typing import Any, ClassVar


class Record:
    """Something that changes in place. `changing` names the fields that do; at least two."""

    __slots__ = ()
    changing: ClassVar[tuple[str, ...]]
    values: ClassVar[Any]  # returns the values of the changing fields of a record

    def __init_subclass__(cls) -> None:
        cls.values = operator.attrgetter(*cls.changing)


class Journal:
    """Undoes changes of records, dictionaries and lists.

    Keep every old value before it changes. An entry is removed only after its value is back, so an undo that
    is itself interrupted can be finished later: call `undo` again.

    Examples
    --------
    >>> from makewhole.insured.journal import Journal
    >>> journal, prices = Journal(), {"UA-1": 20}
    >>> journal.keep_item(prices, "UA-1")
    >>> prices["UA-1"] = 25
    >>> journal.undo()
    >>> prices
    {'UA-1': 20}
    """

    __slots__ = ("entries",)

    def __init__(self) -> None:
        self.entries: list[tuple[Any, Any]] = []

    def keep(self, record: Record) -> None:
        """Keep the fields of a record that may change."""
        self.entries.append((record, record.values(record)))

    def keep_item(self, items: dict[Any, Any], key: Any) -> None:
        """Keep what a dictionary has under a key, or that it has nothing there."""
        self.entries.append((items, (key, items.get(key))))

    def keep_length(self, items: list[Any]) -> None:
        """Keep the length of a list that is appended to."""
        self.entries.append((items, len(items)))

    def clear(self) -> None:
        """Make everything since the last call final."""
        self.entries.clear()

    def undo(self, mark: int = 0) -> None:
        """Put old values back, the latest first, until `mark` entries are left."""
        entries = self.entries
        while len(entries) > mark:
            target, old = entries[-1]
            if type(target) is dict:
                if old[1] is None:
                    target.pop(old[0], None)
                else:
                    target[old[0]] = old[1]
            elif type(target) is list:
                del target[old:]
            else:
                for name, value in zip(target.changing, old, strict=True):
                    setattr(target, name, value)
            entries.pop()
