"""The command line: `makewhole --help`."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence

import makewhole as mw
from makewhole.cli import audit, backtest, insure, study

_ABOUT = """\
makewhole turns a forecast into a promise: whoever stakes a fair bet b on a forecast (mu, c) receives
b*(y - mu) - |b|*c, so that her total loss is what the forecast said it would be, whatever happens.
"""

_EPILOG = """\
examples:
  makewhole insure --mu 0.5 use=2,-10 skip=0,0
      which action, which stake, and what it will cost, for certain
  makewhole backtest log.csv --mu p --outcome y --stake amount --figure loss.png
      what would it have cost to stand behind these forecasts?
  makewhole audit forecasts.parquet --mu p --outcome y --by carrier,origin --html report.html
      should we stand behind these forecasts? against whom would we lose, and how much?
  makewhole study flights
      the paper's airline, on real flights: its figures, and which of its claims hold

exit codes: 0 done; 1 the data or an argument's value does not fit (a message on stderr says what), or, with
--fail-if-unsound, an audit found the forecasts unsound; 2 the command line itself is wrong; 130 interrupted;
141 the reader of the output went away.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    arguments = _parser().parse_args(argv)
    before = signal.getsignal(signal.SIGINT)
    try:
        # Twice, for polars raises for a Ctrl-C and Python then raises for the same one.
        try:
            return _run(arguments)
        except KeyboardInterrupt:
            return _interrupted()
    except KeyboardInterrupt:
        return _interrupted()
    finally:
        signal.signal(signal.SIGINT, before)


def _run(arguments: argparse.Namespace) -> int:
    try:
        code: int | None = arguments.run(arguments)
    except SystemExit:  # rich's way to say the same
        return 141
    except BrokenPipeError:  # whoever read our output has enough; Python must not try to flush the rest
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except (ValueError, TypeError, OSError, ModuleNotFoundError) as error:
        print(f"makewhole: {error}", file=sys.stderr)
        return 1
    return code or 0


def _interrupted() -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    print("interrupted", file=sys.stderr)
    return 130


def _parser() -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="makewhole", description=_ABOUT, epilog=_EPILOG, formatter_class=raw
    )
    parser.add_argument("--version", action="version", version=f"makewhole {mw.__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    for command in (insure, backtest, audit, study):
        command.add_parser(commands)
    return parser
