"""What Prometheus reads: answers and how long they took, by route; the queue; failures; books."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Any

# Upper bounds of the histogram's classes, in seconds; a last class has no bound.
_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_OF_A_BOOK = ("capital", "lost", "left", "at_risk", "cash", "open", "events", "compensated")


class Metrics:
    """Counts answers by route and status, and how long they took by route."""

    def __init__(self) -> None:
        self.answers: dict[tuple[str, int], int] = {}
        self._classes: dict[str, list[int]] = {}
        self._seconds: dict[str, float] = {}

    def note(self, path: str, status: int, seconds: float) -> None:
        """Count an answer, by the template of its path."""
        where = (path, status)
        self.answers[where] = self.answers.get(where, 0) + 1
        classes = self._classes.get(path)
        if classes is None:
            classes = self._classes[path] = [0] * (len(_BOUNDS) + 1)
        classes[bisect_left(_BOUNDS, seconds)] += 1
        self._seconds[path] = self._seconds.get(path, 0.0) + seconds

    def lines(self) -> Iterator[str]:
        """Yield the lines of the answers, in the format that Prometheus reads."""
        yield "# TYPE makewhole_answers_total counter"
        for (path, status), count in sorted(self.answers.items()):
            yield f'makewhole_answers_total{{path="{path}",status="{status}"}} {count}'
        yield "# TYPE makewhole_answer_seconds histogram"
        for path, classes in sorted(self._classes.items()):
            for bound, count in zip((*_BOUNDS, "+Inf"), accumulate(classes), strict=True):
                yield f'makewhole_answer_seconds_bucket{{path="{path}",le="{bound}"}} {count}'
            yield f'makewhole_answer_seconds_sum{{path="{path}"}} {self._seconds[path]:.6f}'
            yield f'makewhole_answer_seconds_count{{path="{path}"}} {sum(classes)}'


def numbers(kind: str, values: Mapping[str, float]) -> Iterator[str]:
    """Yield the lines of metrics that have one value each; `kind` is counter or gauge."""
    for name, value in values.items():
        yield f"# TYPE makewhole_{name} {kind}"
        yield f"makewhole_{name} {value}"


def of_books(statements: Iterable[tuple[str, Any]], forked: Iterable[str]) -> Iterator[str]:
    """Yield the lines of all books: the sums of their statements, and whether their log was forked."""
    known = list(statements)
    for field in _OF_A_BOOK:
        yield f"# TYPE makewhole_book_{field} gauge"
        for name, statement in known:
            yield f"makewhole_book_{field}{{book={_quoted(name)}}} {getattr(statement, field)}"
    closed = set(forked)
    yield "# TYPE makewhole_book_forked gauge"
    for name in sorted({name for name, _ in known} | closed):
        yield f"makewhole_book_forked{{book={_quoted(name)}}} {int(name in closed)}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
