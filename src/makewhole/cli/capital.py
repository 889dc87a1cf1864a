"""`makewhole capital`: try many capitals on a log, and print which would have been enough."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import makewhole as mw
from makewhole.backtesting.capital import NO_PROMISE, CapitalReport
from makewhole.backtesting.fitting import fit_forecaster
from makewhole.backtesting.source import read_source
from makewhole.cli.files import need
from makewhole.cli.logs import add_columns, add_customers, check_figure, read_log
from makewhole.cli.printing import print_json


def add_parser(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "capital",
        help="how much capital does it take to stand behind these forecasts?",
        description="Replay a file of forecasts with several capitals, each in the book that it would have "
        "(--capital in backtest). Little capital makes bets expensive, and turns customers away: what would "
        "each have cost those who bet, whom would it have served, and which is the smallest that sufficed? "
        "A capital sufficed if bets cost at most --premium, at least the share --placed of the wanted stakes "
        "was placed, and the total loss never exceeded it. Without --stake and --customers, everybody is a "
        "hedger, who insures a loss.",
        epilog="It is a backtest on these data and customers, and no promise about others.",
    )
    add = parser.add_argument
    add_columns(add)
    add_customers(add)
    add("--max-stake", type=float, help="cap: the largest stake on a forecast (default: 1, or the log's)")
    add(
        "--max-exposure",
        type=float,
        help="the most that open bets may be able to lose; stakes beyond it are refused",
    )
    add(
        "--premium",
        type=float,
        default=0.03,
        help="the most that bets may cost per unit staked, on average (default 0.03)",
    )
    add(
        "--placed",
        type=float,
        default=0.95,
        help="least share of the wanted stakes to be placed (default 0.95)",
    )
    add("--capitals", help="capitals to try, such as 100,1000 (default: 1, 2, 5, ... 5000 times the cap)")
    add("--seed", type=int, default=0, help="seed of the customers, who are drawn at random (default 0)")
    add("--figure", type=Path, help="write premium against capital to this .png, .svg or .pdf")
    add("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Try many capitals on a log, and print what each would have cost."""
    check_figure(arguments.figure)
    if not arguments.json:
        need("rich")
    capitals = None if arguments.capitals is None else _numbers(arguments.capitals)
    read = read_log(arguments, [], None)
    columns = read.columns
    if columns["customers"] is None and arguments.stake is None:
        columns["customers"] = mw.agents.Customers(seed=arguments.seed)
    settings: Any = {"max_stake": arguments.max_stake, "max_exposure": arguments.max_exposure}
    settings |= {"graded": arguments.graded, "mode": "sound", "c_range": (0.0, 0.5)}
    with read.table.readable():
        _, forecaster = fit_forecaster(read_source(read.frame, **columns), **settings)
        report = mw.find_capital(
            read.frame,
            forecaster,
            premium=arguments.premium,
            placed=arguments.placed,
            capitals=capitals,
            **columns,
        )
    if arguments.figure is not None:
        mw.plots.CapitalDisplay.from_report(report).figure_.savefig(arguments.figure, dpi=150)
    if arguments.json:
        points = [point._asdict() | {"sufficed": report.suffices(point)} for point in report.points]
        asked = {name: getattr(report, name) for name in ("premium", "placed", "max_stake", "max_exposure")}
        asked |= {"most_open": report.most_open}
        print_json({"smallest": report.smallest, **asked, "points": points, "note": NO_PROMISE})
        return
    _print_table(report)
    if arguments.figure is not None:
        print(f"wrote {arguments.figure}")


def _numbers(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"--capitals must be numbers, such as 100,1000; got {text!r}") from None


def _print_table(report: CapitalReport) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console, table = Console(), Table(box=box.SIMPLE_HEAD)
    head, rows = report.table()
    for name in head:
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(*row)
    who = "the stakes of the file" if report.customers is None else repr(report.customers)
    limit = "" if report.max_exposure is None else f"; open bets may lose {report.max_exposure:,.6g}"
    console.print(f"{who}; cap {report.max_stake:,.6g}{limit}", highlight=False, markup=False)
    console.print(table)
    console.print(report.verdict(), highlight=False)
    console.print(report.not_served(), highlight=False, markup=False)
    console.print(NO_PROMISE, highlight=False)
