"""The journal: old values, kept before they change, so that a call that fails can be undone.

A record changes in place. Before a value changes, its old value goes to the end of the journal. If anything
is raised, the journal is undone from its end; if all goes well, it is cleared.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from types import TracebackType
from typing import Any, ClassVar


class Journaled:
    """Something that changes in place. `changing` names the fields that do, at least two."""

    __slots__ = ()
    changing: ClassVar[tuple[str, ...]]
    _values: ClassVar[Callable[[Any], tuple[Any, ...]]]

    def __init_subclass__(cls) -> None:
        cls._values = operator.attrgetter(*cls.changing)

    def values(self) -> tuple[Any, ...]:
        """The values of the fields that change, in the order of `changing`."""
        return type(self)._values(self)  # noqa: SLF001 - its own


class Journal(list[tuple[Any, Any]]):
    """Undoes changes of records, dictionaries and lists.

    Keep every old value before it changes: `keep` for a record, `keep_item` for what a dictionary has under a
    key, `keep_length` for a list that is appended to. Where speed matters, an entry is appended directly:
    `journal.append((record, record.values()))`.

    `with journal:` makes a block all or nothing: if it raises, for any reason, all that it did is undone.
    An entry is removed only after its value is back, so an undo that is itself interrupted can be finished
    later: call `undo` again, or begin another block. `clear` makes everything final.

    Examples
    --------
    >>> from makewhole.insured.journal import Journal
    >>> journal, prices = Journal(), {"UA-1": 20}
    >>> try:
    ...     with journal:
    ...         journal.keep_item(prices, "UA-1")
    ...         prices["UA-1"] = 25
    ...         raise ValueError
    ... except ValueError:
    ...     print(prices)
    {'UA-1': 20}
    """

    __slots__ = ("changes",)

    def __init__(self) -> None:
        self.changes = 0  # how many blocks have changed anything

    def __enter__(self) -> None:
        if self:  # an undo that was interrupted
            self.undo()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if kind is not None:
            self.undo()
        elif self:
            self.clear()
            self.changes += 1

    def keep(self, record: Journaled) -> None:
        """Keep the fields of a record that may change."""
        self.append((record, record.values()))

    def keep_item(self, items: dict[Any, Any], key: Any) -> None:
        """Keep the value under a key of a dictionary, or that there is none."""
        self.append((items, (key, items.get(key))))

    def keep_length(self, items: list[Any]) -> None:
        """Keep the length of a list that is appended to."""
        self.append((items, len(items)))

    def undo(self, mark: int = 0) -> None:
        """Put old values back, the latest first, until `mark` entries are left."""
        while len(self) > mark:
            target, old = self[-1]
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
            self.pop()
