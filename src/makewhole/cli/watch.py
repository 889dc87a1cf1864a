"""`makewhole watch`: watch a file of forecasts, or lines as they come in, and raise alarms."""

from __future__ import annotations

import argparse
import csv
import io
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import makewhole as mw
from makewhole import pages
from makewhole.cli.files import TableFile, need
from makewhole.cli.logs import as_times, check_figure
from makewhole.cli.printing import print_json
from makewhole.watching.findings import Alarm
from makewhole.watching.times import PERIODS
from makewhole.watching.watch import Watch

_MISSING = ("", "NA", "nan", "NaN", "null", "None")  # texts that stand for a missing number


def add_parser(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "watch",
        help="are these forecasts still right?",
        description="Watch forecasts and outcomes in order of time, and raise an alarm for a group whose "
        "forecasts are off: in which direction, likely since when, and by how much at least. With the given "
        "confidence no alarm is ever false, in all groups and at all times together.",
        epilog="FILE may be - for lines on standard input: a header and then comma-separated rows. Alarms "
        "are then printed as soon as they are raised. With --state the watch goes on where it ended; the "
        "last cluster counts once a later one has begun.",
    )
    add = parser.add_argument
    add("file", type=Path, help="a .csv, .tsv (or .gz of them) or .parquet file, or - for standard input")
    add("--mu", default="mu", help="column of forecast probabilities (default mu)")
    add("--outcome", default="y", help="column of outcomes, 0 or 1 (default y)")
    add("--time", help="column of times: numbers, or dates such as 2026-11-16 (default: the rows' order)")
    add("--by", "--group", "--groups", default="", metavar="COLUMN,…", help="columns of groups")
    add(
        "--cluster",
        choices=PERIODS,
        help="rows of one such period (at: of the same time) may depend on each other",
    )
    add("--largest-cluster", type=int, metavar="ROWS", help="a number of rows that no cluster can exceed")
    add("--c", type=float, default=0.0, help="alarm if forecasts are off by more than this (default 0)")
    add("--bins", type=int, default=5, help="bins of the forecast that are watched as groups (default 5)")
    add("--confidence", type=float, default=0.95, help="that no alarm is ever false (default 0.95)")
    add("--graded", action="store_true", help="outcomes are any numbers from 0 to 1, not only 0 and 1")
    add("--state", type=Path, help="load the watch from this file if it exists, and save it there at the end")
    add("--html", type=Path, help="write a self-contained page with a picture to this .html file")
    add("--figure", type=Path, help="write the picture to this .png, .svg or .pdf file")
    add("--json", action="store_true", help="print JSON")
    add("--fail-on-alarm", action="store_true", help="exit with 1 if there is an alarm")
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Watch a file or lines; returns the exit code: 1 if there is an alarm and --fail-on-alarm is given."""
    check_figure(given.figure)
    if given.html is not None:
        pages.check_path(given.html, "--html")
        need("matplotlib")
    watch = _open(given)
    if str(given.file) == "-":
        _watch_lines(watch, given)
    else:
        _watch_file(watch, given)
    if given.state is not None:
        watch.save(given.state)
    _write(watch, given)
    if given.json:
        print_json(watch.to_dict())
    else:
        print(watch)
    return int(given.fail_on_alarm and bool(watch.alarms()))


def _open(given: argparse.Namespace) -> Watch:
    """Return a new watch, or the saved one, which must have the same settings."""
    settings = {
        "groups": [name.strip() for name in given.by.split(",") if name.strip()],
        "cluster": given.cluster,
        "confidence": given.confidence,
        "c": given.c,
        "bins": given.bins,
        "graded": given.graded,
        "largest_cluster": given.largest_cluster,
    }
    watch = mw.Watch(**settings)
    if given.state is None or not given.state.exists():
        return watch
    saved = mw.Watch.load(given.state)
    for name, value in saved.settings().items():
        if settings[name] != value:
            raise ValueError(
                f"--{name.replace('_', '-')} must be that of the watch in {given.state}, {value!r}; got "
                f"{settings[name]!r} (or use another --state)"
            )
    return saved


def _watch_file(watch: Watch, given: argparse.Namespace) -> None:
    table = TableFile(given.file)
    times = [] if given.time is None else [given.time]
    frame = table.read([given.mu, given.outcome, *times], [*watch.settings()["groups"]])
    if times and frame[given.time].dtype == need("polars").String:
        frame = frame.with_columns(as_times(frame[given.time], "time"))
    watch.see_many(frame, given.mu, given.outcome, at=given.time)
    if watch.cluster is not None and given.state is None:
        watch.end_cluster()


def _watch_lines(watch: Watch, given: argparse.Namespace) -> None:
    """Read rows from standard input, and print each alarm as soon as it is raised."""
    known: set[tuple[Any, str]] = set()
    for number, row in enumerate(_rows(sys.stdin, [given.mu, given.outcome, given.time]), 2):
        try:
            _see_line(watch, given, row)
        except (ValueError, TypeError) as error:
            raise ValueError(f"line {number}: {error}") from None
        for alarm in watch.alarms():
            if (alarm.group, alarm.direction) not in known:
                known.add((alarm.group, alarm.direction))
                _announce(alarm, given.json)
    if watch.cluster is not None and given.state is None and watch.waiting == 0:
        watch.end_cluster()


def _rows(lines: Iterator[str], columns: list[str | None]) -> Iterator[dict[str, str]]:
    reader = csv.DictReader(lines)
    names = reader.fieldnames or []
    for column in columns:
        if column is not None and column not in names:
            raise ValueError(f"column {column!r} is not in the header; it has: {', '.join(names)}")
    yield from reader


def _see_line(watch: Watch, given: argparse.Namespace, row: dict[str, str]) -> None:
    """See one row; one without a number is left out and counted."""
    mu, outcome = row[given.mu], row[given.outcome]
    at = None if given.time is None else row[given.time]
    if mu in _MISSING or outcome in _MISSING or at in _MISSING:
        watch.missing += 1
        return
    groups = {name: row[name] for name in watch.settings()["groups"] if row.get(name)}
    watch.see(float(mu), float(outcome), groups=groups, at=None if at is None else _read_time(at))


def _read_time(text: str) -> Any:
    """Return a number, or a datetime from text such as 2026-11-16 or 2026-11-16T09:30."""
    try:
        return float(text)
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"--time must be a number, or a date such as 2026-11-16; got {text!r}") from None


def _announce(alarm: Alarm, as_json: bool) -> None:
    """Print an alarm now, even into a pipe; with --json to standard error, which leaves the JSON alone."""
    print(f"ALARM {pages.shown(str(alarm))}", file=sys.stderr if as_json else sys.stdout, flush=True)


def _write(watch: Watch, given: argparse.Namespace) -> None:
    """Write the picture and the page, if they are wanted."""
    if given.figure is None and given.html is None:
        return
    figure = mw.plots.WatchDisplay.from_watch(watch).figure_
    if given.figure is not None:
        figure.savefig(given.figure, dpi=130)
    if given.html is not None:
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=130)
        picture = pages.Picture("excess", "Events beyond the forecast, so far", buffer.getvalue())
        watch.to_html(given.html, title=f"watch on {given.file}", pictures=[picture])
