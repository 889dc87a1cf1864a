"""The command line: `makewhole --help`."""

from __future__ import annotations

import argparse
import io
import os
import shlex
import signal
import sys
from collections.abc import Sequence
from typing import Any

import makewhole as mw
from makewhole.cli.printing import print_error

_ABOUT = """\
makewhole helps a forecaster to accept fair bets on its probabilities. A customer who stakes b on a forecast
with probability mu and half-width c receives b*(y - mu) - |b|*c once the outcome y (0 or 1) is known. With
the right stake, a decision has the same total loss for both outcomes.
"""

_EPILOG = """\
examples:
  makewhole insure --mu 0.5 use=2,-10 skip=0,0
      choose an action and a stake, given each action's loss if y=0 and if y=1
  makewhole backtest log.csv --mu p --outcome y --stake amount --figure loss.png
      what would it have cost to accept these stakes on these forecasts?
  makewhole capital forecasts.csv --mu p --outcome y --customers hedgers=0.95,clairvoyant=0.05
      how much capital would it have taken to insure these customers?
  makewhole audit forecasts.parquet --mu p --outcome y --by carrier,origin --html report.html
      which bets against these forecasts would have won, and not by luck?
  makewhole watch forecasts.csv --mu p --outcome y --time date --cluster day --by carrier --fail-on-alarm
      are these forecasts still right, in every group?
  makewhole ledger create delays.db --capital 500000 --max-stake 20000 --unit cent
      begin a durable book: promises, receipts, payments (makewhole ledger --help)
  makewhole serve --demo
      delay insurance on real flights, in your browser
  makewhole study flights
      the paper's airline on real flights: its figures, and which of its claims hold

exit codes: 0 done; 1 an error in the data or in the value of an argument (stderr says which), an audit that
--fail-if-refuted or --fail-unless-certified makes fail, or an alarm with --fail-on-alarm; 2 an error in the
command line; 130 interrupted; 141 the program that reads the output has ended.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line with these arguments (by default the program's), and return the exit code."""
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.SIG_IGN:  # a shell starts background jobs with SIGINT ignored
        signal.signal(signal.SIGINT, _stop_immediately)
    _replace_unprintable()
    try:
        # Caught twice: on Ctrl-C polars raises, and then Python raises again.
        try:
            arguments = _parser().parse_args(argv)
            arguments.command = shlex.join(["makewhole", *(sys.argv[1:] if argv is None else argv)])
            signal.signal(signal.SIGINT, before)
            return _run(arguments)
        except KeyboardInterrupt:
            return _interrupted()
    except KeyboardInterrupt:
        return _interrupted()
    finally:
        signal.signal(signal.SIGINT, before)


def _stop_immediately(*_: Any) -> None:
    """Handle Ctrl-C at start-up: an exception during imports gets lost, or prints a traceback."""
    os.write(2, b"interrupted\n")
    os._exit(130)


def _replace_unprintable() -> None:
    """Print a question mark for a character that the terminal's encoding lacks, instead of failing."""
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="replace")


def _run(arguments: argparse.Namespace) -> int:
    try:
        code: int | None = arguments.run(arguments)
    except SystemExit:  # rich raises this for a broken pipe
        return 141
    except BrokenPipeError:  # the reader has exited; Python must not try to flush the rest
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except (ValueError, TypeError, OSError, ModuleNotFoundError) as error:
        print_error(error)
        return 1
    return code or 0


def _interrupted() -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    print("interrupted", file=sys.stderr)
    return 130


def _parser() -> argparse.ArgumentParser:
    from makewhole.cli import (
        audit,
        backtest,
        capital,
        insure,
        ledger,
        serve,
        study,
        watch,
    )  # imported here, where Ctrl-C is already handled

    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="makewhole", description=_ABOUT, epilog=_EPILOG, formatter_class=raw
    )
    parser.add_argument("--version", action="version", version=f"makewhole {mw.__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    for command in (insure, backtest, capital, audit, watch, ledger, serve, study):
        command.add_parser(commands)
    return parser
