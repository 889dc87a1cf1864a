"""The command line: `makewhole --help`."""

from __future__ import annotations

import argparse
import io
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

import makewhole as mw

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
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.SIG_IGN:  # which is how a shell starts what runs in the background
        signal.signal(signal.SIGINT, _stop_at_once)
    _print_whatever_the_terminal_can()
    try:
        # Twice, for polars raises for a Ctrl-C and Python then raises for the same one.
        try:
            arguments = _parser().parse_args(argv)
            signal.signal(signal.SIGINT, before)
            return _run(arguments)
        except KeyboardInterrupt:
            return _interrupted()
    except KeyboardInterrupt:
        return _interrupted()
    finally:
        signal.signal(signal.SIGINT, before)


def _stop_at_once(*_: Any) -> None:
    """Handle Ctrl-C while the program starts: an exception amid imports gets lost, or leaves a traceback."""
    os.write(2, b"interrupted\n")
    os._exit(130)


def _print_whatever_the_terminal_can() -> None:
    """Print a question mark for a character that the terminal's encoding lacks, instead of failing."""
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="replace")


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
    from makewhole.cli import audit, backtest, insure, study  # here, where Ctrl-C is looked after

    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="makewhole", description=_ABOUT, epilog=_EPILOG, formatter_class=raw
    )
    parser.add_argument("--version", action="version", version=f"makewhole {mw.__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    for command in (insure, backtest, audit, study):
        command.add_parser(commands)
    return parser
