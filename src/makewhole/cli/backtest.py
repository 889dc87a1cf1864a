"""`makewhole backtest`: replay a log, and print what accepting its bets would have cost."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import makewhole as mw
from makewhole.backtesting.fitting import correction_for, fit_forecaster
from makewhole.backtesting.result import BacktestResult
from makewhole.backtesting.source import read_source
from makewhole.cli.files import need
from makewhole.cli.logs import add_columns, add_customers, check_figure, read_log
from makewhole.cli.printing import print_json
from makewhole.corrections import REGISTRY, Barrier
from makewhole.pages import shown

_BY_NAME = {kind.name: kind for kind in REGISTRY}
_BARRIER = Barrier.name


def add_parser(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "backtest",
        help="replay a log of forecasts, stakes and outcomes",
        description="Replay a log through corrections, in order of time: what would it have cost to accept "
        "these stakes? A correction is a rule that adapts the half-width c, the price of a bet per unit "
        "staked.",
    )
    add_columns(parser.add_argument)
    _add_options(parser)
    add_customers(parser.add_argument)
    parser.set_defaults(run=run)


def _add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--group", action="append", help="column of groups; each group has its own correction")
    add(
        "--max-stake",
        type=float,
        help="cap: the largest sum of |stake| on a forecast (default: the largest in the log; with "
        "--customers, 1)",
    )
    add(
        "--one-sided",
        action="store_true",
        help="corrections move mu, and c is 0; stakes must not be negative",
    )
    add(
        "--correction",
        action="append",
        choices=[*_BY_NAME, _BARRIER, "all"],
        help="correction to use; may be given several times (default: all). barrier, for --capital, is "
        "what a forecaster with a capital uses; one without uses standard",
    )
    add(
        "--cells",
        type=int,
        help="number of cells of the swap corrections (default: chosen for the log's length)",
    )
    add(
        "--rate",
        type=float,
        help="step size of the corrections standard (default 0.1) and reserve (default 0.01)",
    )
    add(
        "--mode",
        choices=["exact", "sound"],
        help="sound: 0 <= c <= 1/2, and [mu - c, mu + c] inside [0, 1] (default exact; with --capital sound)",
    )
    add("--c-range", help="range of the model's half-width (default: 0,0.5, and wider if the log's is)")
    add("--capital", type=float, help="the most that may ever be lost; in sound mode, or one-sided")
    add(
        "--by",
        help="column that names who staked: with --capital everyone has a price and a limit of her own; "
        "agency,customer: the columns of her levels, the widest first",
    )
    add(
        "--max-exposure",
        type=float,
        help="the most that open bets may be able to lose; stakes beyond it are refused",
    )
    add("--seed", type=int, default=0, help="seed of customers and of the correction swap (default 0)")
    add("--figure", type=Path, help="write the losses over time to this .png, .svg or .pdf")
    add("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> None:
    """Replay a log through one or several corrections, and print what each would have cost."""
    chosen = arguments.correction or ["all"]
    everything = [*_BY_NAME, *([] if arguments.capital is None else [_BARRIER])]
    names = everything if "all" in chosen else list(dict.fromkeys(chosen))
    if _BARRIER in names and arguments.capital is None:
        raise ValueError("--correction barrier needs --capital, the most that may be lost")
    figure = arguments.figure
    check_figure(figure)
    if not arguments.json:
        need("rich")
    named = [] if arguments.by is None else arguments.by.split(",")
    read = read_log(arguments, [*(arguments.group or []), *named], "stake")
    columns = read.columns | {"group": _one_or_all(arguments.group), "by": named or None}
    results = {}
    with _BacktestProgress(quiet=arguments.json) as track, read.table.readable():
        forecasters = _forecasters(names, arguments, read.frame, columns)
        for name, f in forecasters.items():
            results[name] = mw.backtest(read.frame, f, **columns, progress=track(name))
    if figure is not None:
        mw.plots.LossDisplay.from_results(results).figure_.savefig(figure, dpi=150)
    if arguments.json:
        _print_json(results)
        return
    _print_table(results, arguments.max_stake)
    if arguments.group is not None:
        _print_groups(results, arguments.group[0])
    if figure is not None:
        print(f"wrote {figure}")


def _one_or_all(columns: list[str] | None) -> str | list[str] | None:
    return columns[0] if columns and len(columns) == 1 else columns


def _forecasters(
    names: list[str], arguments: argparse.Namespace, frame: Any, columns: dict[str, Any]
) -> dict[str, mw.InsuredForecaster]:
    """Return a forecaster for each correction; what the options leave out comes from the log."""
    source = read_source(frame, **columns)
    c_range = None if arguments.c_range is None else _pair(arguments.c_range)
    options = ("mode", "one_sided", "capital", "max_exposure", "graded")
    settings: Any = {name: getattr(arguments, name) for name in options}
    fitted: Any = {"max_stake": arguments.max_stake, "c_range": c_range}
    _, plain = fit_forecaster(source, mw.NoCorrection(), **fitted, **settings)
    settings |= {"max_stake": plain.max_stake, "c_range": plain.c_range, "classes": plain.classes}
    made = {}
    for name in names:
        correction = None if name == _BARRIER else _correction(name, arguments, frame, c_range)
        made[name] = mw.InsuredForecaster(None, correction_for(source, correction), **settings)
    return made


def _pair(text: str) -> tuple[float, float]:
    try:
        low, high = (float(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f"--c-range must be two numbers, such as 0,0.5; got {text!r}") from None
    return low, high


def _correction(
    name: str, arguments: argparse.Namespace, frame: Any, given: tuple[float, float] | None
) -> mw.Correction:
    """Return a correction for the length of the log and the range of its ĉ."""
    kind = _BY_NAME[name]
    widths = None if arguments.c_hat is None else frame[arguments.c_hat].drop_nulls().drop_nans()
    c_range = (0.0, 0.0) if widths is None or not len(widths) else (widths.min(), widths.max())
    c_range = c_range if given is None else given
    rounds = max(1, len(frame) if arguments.id is None else frame[arguments.id].n_unique())
    if arguments.group is not None:
        rounds = max(1, rounds // max(1, frame[arguments.group[0]].n_unique()))
    asked = {option: getattr(arguments, option) for option in kind.options}
    settings = {option: value for option, value in asked.items() if value is not None}
    made: mw.Correction = kind.fitted(rounds, c_range, arguments.seed, **settings)
    return made


class _BacktestProgress:
    """A progress bar for each correction that runs for over a second, on stderr if it is a terminal."""

    def __init__(self, *, quiet: bool) -> None:
        self._bars: Any = None
        if not quiet and sys.stderr.isatty():
            need("rich")
            from rich.console import Console
            from rich.progress import Progress

            self._bars = Progress(console=Console(stderr=True), transient=True)

    def __enter__(self) -> Callable[[str], Callable[[int, int], None] | None]:
        return self._track

    def __exit__(self, *_: object) -> None:
        if self._bars is not None:
            self._bars.stop()

    def _track(self, name: str) -> Callable[[int, int], None] | None:
        if self._bars is None:
            return None
        import time

        began, task = time.monotonic(), None

        def report(done: int, total: int) -> None:
            nonlocal task
            if task is None and time.monotonic() - began > 1:
                self._bars.start()
                task = self._bars.add_task(name, total=total)
            if task is not None:
                self._bars.update(task, completed=done)

        return report


_FIELDS = (
    "rows",
    "missing",
    "rounds",
    "max_stake",
    "turnover",
    "total_loss",
    "mean_loss",
    "mean_c",
    "mean_size_of_c",
    "negative_c",
    "premiums",
    "premium",
    "peak_loss",
    "peak_at",
    "drawdown",
    "drawdown_from",
    "drawdown_to",
    "capital",
    "capital_used",
    "refused",
    "refused_stake",
    "wanted_stake",
)


def _print_json(results: dict[str, BacktestResult]) -> None:
    found: dict[str, Any] = {}
    for name, result in results.items():
        found[name] = {f: getattr(result, f) for f in _FIELDS}
        found[name]["bound"] = None if result.certificate is None else result.certificate.bound
        found[name]["certificate"] = str(result.certificate)
        if result.peak_time is not None:
            found[name]["peak_time"] = str(result.peak_time)
        if result.drawdown_times is not None:
            found[name]["drawdown_times"] = [str(time) for time in result.drawdown_times]
        if result.groups:
            found[name]["groups"] = {str(group): g._asdict() for group, g in result.groups.items()}
    print_json(found)


def _print_groups(results: dict[str, BacktestResult], column: str) -> None:
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    most = 20
    first = next(iter(results.values())).groups
    largest = sorted(first, key=lambda group: -first[group].turnover)
    table = Table(
        box=box.SIMPLE_HEAD, title=escape(f"total loss by {shown(column)}, the largest turnover first")
    )
    table.add_column(escape(shown(column)))
    for name in ("forecasts", "turnover", *results):
        table.add_column(name, justify="right")
    for group in largest[:most]:
        lost = [f"{result.groups[group].total_loss:,.4g}" for result in results.values()]
        table.add_row(
            escape(shown(group)), f"{first[group].rounds:,}", f"{first[group].turnover:,.4g}", *lost
        )
    console = Console()
    console.print(table)
    if len(largest) > most:
        console.print(f"and {len(largest) - most:,} more groups; --json prints all of them", highlight=False)


def _print_table(results: dict[str, BacktestResult], cap: float | None) -> None:
    need("rich")
    from rich import box
    from rich.console import Console
    from rich.table import Table

    any_ = next(iter(results.values()))
    chosen = "the largest in the log" if any_.wanted_stake is None else "money is in caps"
    hindsight = f" ({chosen}; set --max-stake to choose one)" if cap is None else ""
    console = Console()
    console.print(
        f"{any_.rows:,} rows, {any_.missing:,} left out for missing numbers; {any_.rounds:,} forecasts, "
        f"turnover {any_.turnover:,.6g}, cap {any_.max_stake:,.6g}{hindsight}",
        highlight=False,
    )
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("correction")
    for column in ("total loss", "mean loss", "% of turnover", "mean c", "mean |c|", "c < 0"):
        table.add_column(column, justify="right")
    for name, r in results.items():
        share = 100 * r.total_loss / r.turnover if r.turnover else 0.0
        below = 100 * r.negative_c / r.rounds if r.rounds else 0.0
        row = (
            f"{r.total_loss:,.6g}",
            f"{r.mean_loss:,.4g}",
            f"{share:.3f}",
            f"{r.mean_c:.4f}",
            f"{r.mean_size_of_c:.4f}",
            f"{below:.1f} %",
        )
        table.add_row(name, *row)
    console.print(table)
    _print_risks(results, console)
    console.print(
        "Losses are those of the forecaster; below zero it won. c < 0: the share of forecasts. After, from, "
        "to: so many settled forecasts. Bound: what could be lost at worst, whoever bets.",
        highlight=False,
    )


def _print_risks(results: dict[str, BacktestResult], console: Any) -> None:
    """Print the worst moments of each run, what was certified, and what was refused."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("correction", no_wrap=True)
    capital = next(iter(results.values())).capital
    used = [] if capital is None else ["used"]
    for column in ("peak loss", "after", "worst rise", "from", "to", "bound", *used):
        table.add_column(column, justify="right")
    for name, r in results.items():
        bound = None if r.certificate is None else r.certificate.bound
        row = [f"{r.peak_loss:,.5g}", f"{r.peak_at:,}", f"{r.drawdown:,.5g}"]
        row += [f"{r.drawdown_from:,}", f"{r.drawdown_to:,}", "none" if bound is None else f"{bound:,.5g}"]
        table.add_row(name, *row, *([] if capital is None else [f"{r.capital_used:.1%}"]))
    console.print(table)
    if capital is not None:
        console.print(f"used: the peak loss as a share of the capital, {capital:,.6g}", highlight=False)
    for name, r in results.items():
        if r.certificate is not None and r.certificate.bound is None:
            console.print(escape(f"{name}: {r.certificate}"), highlight=False)
        if r.refused:
            refused = f"{name}: {r.refused:,} stakes were refused, {r.refused_stake:,.6g} in all"
            console.print(refused, highlight=False)
