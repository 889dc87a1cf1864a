"""`makewhole audit`: audit a file of forecasts, and print or write the report."""

from __future__ import annotations

import argparse
import io
import warnings
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import makewhole as mw
from makewhole import pages
from makewhole.auditing.report import AuditReport
from makewhole.cli.files import TableFile, need
from makewhole.cli.logs import as_times
from makewhole.cli.printing import print_json

# Options that `mw.audit` takes as they are.
_AS_GIVEN = (
    *("outcome", "weight", "bins", "cluster", "largest_cluster", "graded", "method", "order"),
    *("confidence", "max_groups"),
)


def add_parser(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "audit",
        help="should we stand behind these forecasts?",
        description="Audit a file of forecasts and outcomes: which bets against the forecasts win, how much, "
        "and how wide must the half-width c be? The forecaster stands behind the interval from forecast - c "
        "to forecast + c; c is the price of a bet per unit staked. Every bin of the forecast, every "
        "group, and every bin of every group is a bet. The verdict is refuted (some of these bets win on "
        "average), certified (none does at this c) or open (the data show neither).",
        epilog="The bounds hold for all bets at once and for any number of rows, if the outcomes are "
        "independent given the forecasts; with --cluster, if those of different clusters are. For a model "
        "that learned from these outcomes, such as an online learner, use --method betting with --order.",
    )
    add = parser.add_argument
    add("file", type=Path, help="a .csv, .tsv (or .gz of them) or .parquet file")
    add("--mu", default="mu", help="column of forecast probabilities (default mu); for classes p0,p1,…")
    add("--outcome", default="y", help="column of outcomes, 0 or 1 (default y); for classes 0 … K-1")
    add("--by", "--group", "--groups", default="", metavar="COLUMN,…", help="columns of groups")
    add("--c", help="the half-width c: a number, or a column; for classes one or several (default 0)")
    add("--stake", help="column of stakes (for classes several): also say what these bets won")
    add("--weight", help="column of weights")
    _add_assumptions(parser)
    add(
        "--bins",
        type=int,
        default=15,
        help="how many bins of equal width the forecast is divided into (default 15); fewer for little data",
    )
    add("--confidence", type=float, default=0.95, help="the chance that all bounds hold (default 0.95)")
    add(
        "--max-groups",
        type=int,
        default=1000,
        help="groups of a column audited one by one; the rest as one (default 1000)",
    )
    add(
        "--undecided",
        type=float,
        help="an outcome that means that nothing was decided, such as a tie: such rows are left out, and "
        "counted (default 0.5; for classes none)",
    )
    _add_results(parser)
    parser.set_defaults(run=run)


def _add_assumptions(parser: argparse.ArgumentParser) -> None:
    """Add the options that say what the outcomes are, and what may depend on what."""
    add = parser.add_argument
    add(
        "--cluster",
        help="column that says which outcomes may depend on each other: those with the same value, such as "
        "the flights of one date",
    )
    add(
        "--largest-cluster",
        type=float,
        metavar="ROWS",
        help="a number of rows that no cluster can exceed (default: the largest one seen, and the report "
        "says so)",
    )
    add(
        "--method",
        choices=("bounds", "betting"),
        default="bounds",
        help="betting: for forecasts that were learned from earlier outcomes; needs --order",
    )
    add("--order", help="for betting: column of times, numbers or dates such as 2026-11-16")
    add("--graded", action="store_true", help="outcomes are any numbers from 0 to 1, not only 0 and 1")


def _add_results(parser: argparse.ArgumentParser) -> None:
    """Add the options that say what to do with the report."""
    add = parser.add_argument
    add("--html", type=Path, help="write a self-contained report with pictures to this .html file")
    add("--json", action="store_true", help="print JSON")
    add(
        "--fail-if-refuted",
        "--fail-if-unsound",
        dest="fail_if_refuted",
        action="store_true",
        help="exit with 1 if the forecasts are refuted (the second is the option's old name)",
    )
    add(
        "--fail-unless-certified",
        type=float,
        metavar="C",
        help="exit with 1 unless the data certify this c: no bet on a bin or a group wins on average at it",
    )


def run(arguments: argparse.Namespace) -> int:
    """Audit a file and print the report.

    Returns the exit code: 1 if the forecasts are refuted and --fail-if-refuted is given, or if
    --fail-unless-certified is and they are not; else 0.
    """
    wanted = arguments.fail_unless_certified
    if wanted is not None and not 0 <= wanted <= 1:
        raise ValueError(f"--fail-unless-certified must be a c in [0, 1]; got {wanted:g}")
    page: Path | None = arguments.html
    if page is not None:  # check it before the work, not after
        pages.check_path(page, "--html")
        need("matplotlib")
    table = TableFile(arguments.file)
    present = table.names
    mu, stake, groups = (_names(given, present) for given in (arguments.mu, arguments.stake, arguments.by))
    if not mu:
        raise ValueError(f"--mu must name a column, or several; got {arguments.mu!r}")
    if len(stake) not in (0, len(mu)):
        raise ValueError(f"--stake must name as many columns as --mu, {len(mu)}; got {arguments.stake!r}")
    c = _number_or_names(arguments.c, present)
    numbers = [*mu, arguments.outcome, *stake, *(c if isinstance(c, list) else [])]
    numbers += [named for named in (arguments.weight, arguments.order) if named]
    others = [*groups, *([arguments.cluster] if arguments.cluster else [])]
    frame = _with_times(table.scan(numbers, others), arguments.order)
    ties = arguments.undecided is None and len(mu) == 1 and not arguments.graded
    undecided = 0.5 if ties else arguments.undecided
    with warnings.catch_warnings(), table.readable():
        warnings.simplefilter("ignore", UserWarning)  # the report's notes say the same
        report = mw.audit(
            frame,
            mu=mu if len(mu) > 1 else mu[0],
            c=c[0] if isinstance(c, list) and len(c) == 1 else c,
            stake=(stake if len(mu) > 1 else stake[0]) if stake else None,
            groups=groups,
            undecided=undecided,
            **{name: getattr(arguments, name) for name in _AS_GIVEN},
        )
    report = replace(report, made=f"{date.today().isoformat()} by {arguments.command}")
    if page is not None:  # before printing: `| head` may end the program
        report.to_html(page, title=f"audit of {arguments.file.name}", pictures=_draw(report))
    if arguments.json:
        print_json(report.to_dict())
    else:
        print(report)
    if page is not None and not arguments.json:
        print(f"\nwrote {page}")
    uncertified = wanted is not None and report.certified_c > wanted
    return int(uncertified or (arguments.fail_if_refuted and report.verdict == "refuted"))


def _with_times(frame: Any, order: str | None) -> Any:
    """Return the frame with its column of times converted from text, if it is text."""
    if order is None or frame.collect_schema()[order] != need("polars").String:
        return frame
    read = frame.collect()  # betting reads all rows anyway
    return read.with_columns(as_times(read[order], "order"))


def _names(given: str | None, present: list[str]) -> list[str]:
    """Split names at commas, unless the whole text is the name of a column."""
    if given in present:
        return [given]
    return [name.strip() for name in (given or "").split(",") if name.strip()]


def _number_or_names(given: str | None, present: list[str]) -> float | list[str] | None:
    if given is None:
        return None
    try:
        return float(given)
    except ValueError:
        names = _names(given, present)
    if not names:
        raise ValueError(f"--c must be a number, or name a column; got {given!r}")
    return names


def _draw(report: AuditReport) -> list[pages.Picture]:
    """Draw a reliability diagram for each class, and the best bets."""
    pictures = []
    for class_ in range(max(1, len(report.by_class))):
        drawn = mw.plots.ReliabilityDisplay.from_report(report, class_=class_)
        name = f"reliability_{class_}" if report.by_class else "reliability"
        of = f" of class {class_}" if report.by_class else ""
        pictures.append(pages.Picture(name, f"What was said{of}, and what happened", _png(drawn.figure_)))
    bets = mw.plots.SoundnessDisplay.from_report(report)
    return [*pictures, pages.Picture("bets", "The bets that win most surely", _png(bets.figure_))]


def _png(figure: Any) -> bytes:
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about characters that the font lacks
        figure.savefig(buffer, format="png", dpi=130)
    return buffer.getvalue()
