"""Show a watch: as text for a terminal, and in HTML."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from makewhole import pages

if TYPE_CHECKING:
    from makewhole.watching.watch import Watch

_SHOWN = 15  # groups in a table
_HEAD = ("group", "rows", "clusters", "said", "happened", "gap", "refuted c")


def _summary(watch: Watch) -> list[str]:
    """Say how much was seen, and whether there are alarms."""
    states = watch.groups()
    everyone = next((s for s in states if not s.group.column), None)
    rows = everyone.rows if everyone else 0
    inside = f" in {everyone.clusters:,} clusters" if everyone and watch.cluster else ""
    alarms = watch.alarms()
    lines = [f"{rows:,} forecasts{inside}, {len(states):,} groups; c = {watch.c:g}"]
    if alarms:
        lines.append(f"ALARM: {len(alarms)}, with {100 * watch.confidence:.6g}% confidence in all together.")
    else:
        lines.append("No alarm. That does not mean that the forecasts are right.")
    return lines


def _notes(watch: Watch) -> list[str]:
    unbet = max((s.unbet for s in watch.groups()), default=0)
    oldest = "" if watch.oldest is None else f", the first for the outcome of {watch.oldest!r}"
    notes = {
        f"{watch.waiting:,} rows wait{oldest}": watch.waiting,
        f"{watch.missing:,} rows without a number were left out": watch.missing,
        f"{watch.dropped:,} rows were dropped: their outcomes will not be known": watch.dropped,
        f"up to {unbet:,} rows of a group were not bet on: its first cluster, and rows beyond the largest "
        "cluster before": unbet if watch.cluster else 0,
    }
    return [f"note: {text}" for text, count in notes.items() if count]


def _promise(watch: Watch) -> list[str]:
    sure = f"{100 * watch.confidence:.6g}%"
    return [
        f"With a probability of at least {sure} every alarm that this watch ever raises is right, in all "
        "groups and at all times together: at some time up to the alarm, the group's forecasts were off by "
        "more than the c refuted. Since when is an estimate.",
        "Assumed: nothing was known of the outcomes of a cluster when its forecasts were made, and of the "
        "outcomes awaited at the same time only those of one cluster depend on each other"
        f"{_sizes(watch)}.",
        "gap: how often it happened, minus what was said, over all rows. refuted c: at some time forecasts "
        "were off by more than this.",
    ]


def _sizes(watch: Watch) -> str:
    if watch.cluster is None:
        return " (each row is a cluster)"
    if watch.largest_cluster is not None:
        return f"; no cluster can be larger than {watch.largest_cluster:,}, as given"
    return "; the order of the rows in a cluster tells nothing about their outcomes"


def _rows(watch: Watch) -> list[tuple[str, ...]]:
    return [
        (
            str(s.group),
            f"{s.rows:,}",
            f"{s.clusters:,}",
            f"{s.mu:.4f}",
            f"{s.outcome:.4f}",
            f"{s.gap:+.4f}",
            f"{s.smallest_c:.4g}" if s.refuted else "-",
        )
        for s in watch.groups()[:_SHOWN]
    ]


def describe_watch(watch: Watch) -> str:
    """Describe the alarms, the groups and the promise in words."""
    head, verdict = _summary(watch)
    lines = [head, verdict, *(f"  {alarm}" for alarm in watch.alarms()), ""]
    table = [_HEAD, *_rows(watch)]
    lines += [f"{pages.shown(row[0])[:29]:<30}" + "".join(f"{cell:>11}" for cell in row[1:]) for row in table]
    more = len(watch.groups()) - _SHOWN
    lines += [f"and {more:,} groups more"] if more > 0 else []
    lines += ["", *_notes(watch)]
    lines += [line for part in _promise(watch) for line in textwrap.wrap(part, 110)]
    return "\n".join(map(pages.shown, lines))


def render_watch(watch: Watch, pictures: Sequence[pages.Picture] = ()) -> str:
    """Build the HTML of a watch: its alarms, the pictures, the groups and the promise."""
    head, verdict = _summary(watch)
    kind, e = "refuted" if watch.alarms() else "", pages.escape
    said = "<br>".join(e(line) for line in (head, verdict, *map(str, watch.alarms())))
    parts = [f"<p class='verdict {kind}'>{said}</p>", *(pages.picture(*one) for one in pictures)]
    marked = [(row, row[-1] != "-") for row in _rows(watch)]
    parts.append(pages.numbers(_HEAD, marked))
    parts += [f"<p>{e(line)}</p>" for line in (*_notes(watch), *_promise(watch))]
    return "\n".join(parts)
