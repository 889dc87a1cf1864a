"""`makewhole ledger`: a durable book, from the command line."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

from makewhole import pages
from makewhole.arguments import positive
from makewhole.cli.files import TableFile, need
from makewhole.cli.insure import read_action
from makewhole.cli.printing import print_error, print_json
from makewhole.insured.lines import Lines
from makewhole.insured.refusals import Refusal
from makewhole.insured.settings import default_line
from makewhole.ledger import Book, Ledger, LogDamaged, Receipt
from makewhole.ledger.book import VERBS, read_request
from makewhole.ledger.page import statement_page
from makewhole.ledger.tables import TABLES, import_log
from makewhole.ledger.writing import Waiting

# How many requests are stored together.
_GROUP = 1_000
# The page shows the settlements among this many of the latest events.
_RECENT = 20_000

_ABOUT = """\
A ledger is an SQLite file, or a PostgreSQL database (postgresql://...). It has books; each is an append-only
log of what was promised to whom at which price, what happened, and what is due. Amounts are whole units.
"""

_NDJSON = """\
Without options, requests are read from stdin, one JSON object per line, and answered one per line: with the
signed receipts, or with an error. Every request may have a "key": the same request with the same key is done
once. The exit code is 1 if any was refused.
"""

_HELP = {
    "forecast": "publish a probability for an id",
    "stake": "take a stake",
    "report": "report an outcome",
    "settle": "settle final outcomes",
    "void": "void an id",
    "deposit": "add to the capital",
    "withdraw": "take out of the capital",
    "compensate": "pay for a mistake that was found too late",
}
_TYPES: dict[str, Any] = {
    "mu": float,
    "c_hat": float,
    "stake": int,
    "price": int,
    "amount": int,
    "outcome": int,
}


_OPTIONS = {
    "id": "what it is about, such as a flight",
    "mu": "the probability that it happens",
    "c_hat": "your own half-width",
    "closes": "when staking ends, such as 2026-05-01T12:00Z",
    "groups": "a group, if the correction has groups; may be repeated",
    "by": "who stakes or reports; repeated: her agency first, herself last",
    "stake": "whole units: above 0 is paid if it happens, below 0 if not",
    "price": "the most that she would pay, in whole units",
    "outcome": "1 if it happened, 0 if not",
    "reason": "why",
    "amount": "whole units",
}


_WHICH_BOOK = {
    "create": "its name (default: that of the file)",
    "verify": "the book (default: all of them)",
    "repair": "the book (default: all of them)",
    "backup": "not used: all books are copied",
    "rekey": "not used: all books have one key",
}


def add_parser(commands: Any) -> None:
    """Add the command and its subcommands to the parser."""
    parser = commands.add_parser("ledger", help="keep a durable book, with receipts", description=_ABOUT)
    own = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_create(own)
    for verb, (_, names) in VERBS.items():
        about = None if verb == "settle" else _NDJSON
        command = _add(own, verb, _HELP[verb], _write, description=about)
        for name in names:
            option, help_ = f"--{name.replace('_', '-')}", _OPTIONS[name]
            if name == "by" and verb != "stake":
                help_ = "who reports" if verb != "compensate" else "who is paid"
            more: dict[str, Any] = {"action": "append"} if name in ("groups", "by") else {}
            command.add_argument(option, dest=name, type=_TYPES.get(name, str), help=help_, **more)
        command.add_argument("--request-key", dest="key_", metavar="KEY", help="makes retries happen once")
        command.set_defaults(verb=verb)
    command = _add(own, "do", "do requests from stdin, one JSON object per line", _write, description=_NDJSON)
    command.set_defaults(verb=None)
    _add_quote(own)
    _add_reading(own)


def _add(own: Any, name: str, about: str, run: Any, **more: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = own.add_parser(name, help=about, **more)
    parser.add_argument("ledger", metavar="LEDGER", help="a file, or postgresql://...")
    parser.add_argument("--book", help=_WHICH_BOOK.get(name, "the book (default: the only one)"))
    parser.add_argument("--key", type=Path, help="the file of the signing key (default: LEDGER.key)")
    parser.set_defaults(run=lambda arguments: _guarded(run, arguments))
    return parser


def _add_create(own: Any) -> None:
    parser = _add(own, "create", "create a book", _create)
    add = parser.add_argument
    add("--capital", type=int, required=True, help="the most that may ever be lost, in whole units")
    add("--max-stake", type=int, required=True, help="the most that all stakes on an id may pay")
    add("--unit", required=True, help="what the whole units are, such as cent")
    add("--hold", type=float, default=0.0, help="seconds for which an outcome can be replaced (default 0)")
    add("--one-sided", action="store_true", help="take stakes above 0 only")
    add("--line", type=float, help="the most that a customer can win (default: a 25th of the capital)")
    add("--share", type=float, help="the part of --max-stake that a customer may hold (default: 0.1)")
    add("--no-stop", action="store_true", help="also sell at prices at which a stake can hardly win")


def _add_quote(own: Any) -> None:
    parser = _add(own, "quote", "what a bet costs a customer now", _quote)
    add = parser.add_argument
    add("--id", required=True)
    add("--by", required=True, action="append", help="the customer; repeated: her agency first, herself last")
    add("--stake", type=int, help="above 0: paid if it happens; below 0: if it does not")
    add("--payout", type=int, help="what is paid if it happens")
    add("--loss", action="append", metavar="ACTION=IF0,IF1", help="a line of a loss table, in whole units")


def _add_reading(own: Any) -> None:
    parser = _add(own, "statement", "the sums of a book, and the head of its chain", _statement)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--html", type=Path, help="write one page of HTML")
    parser = _add(own, "verify", "replay everything, and look up receipts", _verify)
    parser.add_argument("--receipts", type=Path, help="a folder of receipts, *.json or *.ndjson")
    parser = _add(own, "export", "write a table of a book", _export)
    parser.add_argument("--table", choices=sorted(TABLES), default="settlements")
    parser.add_argument("--out", type=Path, required=True, help="a new .csv or .parquet file")
    parser = _add(own, "import", "play a log of bets into a book", _import)
    parser.add_argument("file", type=Path, metavar="FILE", help="a .csv, .tsv or .parquet file")
    for name, about in (("mu", "probability"), ("outcome", "0 or 1"), ("stake", "whole units")):
        parser.add_argument(f"--{name}", required=True, help=f"the column: {about}")
    parser.add_argument("--id", help="the column of ids (default: a new id for every row)")
    parser.add_argument("--by", help="the column of customers (default: 'customer')")
    parser = _add(own, "backup", "copy an SQLite ledger while it is in use", _backup)
    parser.add_argument("to", type=Path, metavar="NEW")
    parser = _add(own, "repair", "find events that the log lacks, and add them back", _repair)
    parser.add_argument("--receipts", type=Path, help="a folder of receipts, *.json or *.ndjson")
    parser.add_argument("--from", dest="copy", metavar="COPY", help="a copy: a file, or postgresql://...")
    parser.add_argument("--into", metavar="NAME", help="the book that takes over open promises that are lost")
    _add(own, "rekey", "sign with a new key from now on", _rekey)


# --- run --------------------------------------------------------------------------------------------------


def _guarded(run: Any, arguments: argparse.Namespace) -> int:
    try:
        where = arguments.ledger
        if run is not _create and "://" not in where and not Path(where).is_file():
            raise ValueError(f"LEDGER {where!r} is not a file: create one with makewhole ledger create")
        wait = 60.0 if run in (_verify, _repair) else 3.0  # these may take long, and nobody waits for them
        with Ledger.open(where, key=arguments.key, wait=wait, partial=run is _repair) as ledger:
            code: int | None = run(arguments, ledger)
    except (Refusal, LogDamaged) as error:
        print_error(error)
        return 1
    return code or 0


def _book(arguments: argparse.Namespace, ledger: Ledger) -> Book:
    names = ledger.books()
    if arguments.book is not None:
        return ledger.book(arguments.book)
    if len(names) != 1:
        raise ValueError(f"--book must name one of the {len(names)} books: {', '.join(names)}")
    return ledger.book(names[0])


def _create(arguments: argparse.Namespace, ledger: Ledger) -> None:
    name = arguments.book or Path(arguments.ledger).stem
    more: dict[str, Any] = {"stop": False} if arguments.no_stop else {}
    if arguments.line is not None or arguments.share is not None:
        each = (
            default_line(arguments.capital) if arguments.line is None else positive("--line", arguments.line)
        )
        share = {} if arguments.share is None else {"share": arguments.share}
        more["lines"] = Lines(each=each, **share)
    book = ledger.create(
        name,
        capital=arguments.capital,
        max_stake=arguments.max_stake,
        unit=arguments.unit,
        hold=arguments.hold,
        one_sided=arguments.one_sided,
        **more,
    )
    print(book.statement())


def _write(arguments: argparse.Namespace, ledger: Ledger) -> int:
    book, verb = _book(arguments, ledger), arguments.verb
    names = () if verb is None else VERBS[verb][1]
    given = {name: getattr(arguments, name) for name in names if getattr(arguments, name) is not None}
    if given or verb == "settle":
        key = arguments.key_
        if isinstance(given.get("by"), list):
            if verb != "stake" and len(given["by"]) > 1:
                raise ValueError(f"--by must be given only once with {verb}")
            given["by"] = given["by"] if len(given["by"]) > 1 else given["by"][0]
        return _answer(book, [_asked({"do": verb, "key": key, **given})])
    code, lines = 0, _requests(verb)
    while group := list(islice(lines, _GROUP)):
        code |= _answer(book, group)
    return code


def _requests(verb: str | None) -> Iterator[Waiting]:
    """Yield the requests on stdin, one JSON object per line; any other line is answered with an error."""
    for number, line in enumerate(sys.stdin, 1):
        if not line.strip():
            continue
        try:
            read = json.loads(line)
            if not isinstance(read, dict):
                raise ValueError("not an object")
        except (ValueError, RecursionError) as error:
            yield Waiting(None, ValueError(f"line {number} of stdin must be a JSON object: {error}"))
            continue
        yield _asked(read if verb is None else {"do": verb} | read)


def _asked(request: dict[str, Any]) -> Waiting:
    try:
        return Waiting(read_request(request))
    except (ValueError, TypeError) as error:
        return Waiting(None, error)


def _answer(book: Book, group: list[Waiting]) -> int:
    code = 0
    book.ask(group)
    for asked in group:
        try:
            receipts = [json.loads(receipt.to_json()) for receipt in asked.answer()]
            line: dict[str, Any] = {"receipts": receipts}
            ended = [r["about"] for r in receipts if r["kind"] in ("settled", "voided")]
            if ended:
                line["payments"] = {id_: [p._asdict() for p in book.payments(id_)] for id_ in ended}
        except (Refusal, ValueError, TypeError) as error:
            line, code = {"error": type(error).__name__, "message": str(error)}, 1
            if hasattr(error, "limit"):
                line["limit"] = error.limit
        print(json.dumps(line, ensure_ascii=False))
    sys.stdout.flush()
    return code


def _quote(arguments: argparse.Namespace, ledger: Ledger) -> None:
    by = arguments.by if len(arguments.by) > 1 else arguments.by[0]
    losses: Any = None
    if arguments.loss:
        losses = {name: tuple(map(_whole, pair)) for name, pair in map(read_action, arguments.loss)}
    asked = {"stake": arguments.stake, "payout": arguments.payout, "losses": losses}
    quote = _book(arguments, ledger).quote(arguments.id, by=by, **asked)
    print_json(asdict(quote))


def _whole(number: float) -> int:
    if not number.is_integer():
        raise ValueError(f"a loss must be a whole number of units; got {number}")
    return int(number)


def _statement(arguments: argparse.Namespace, ledger: Ledger) -> None:
    book = _book(arguments, ledger)
    statement = book.statement()
    if arguments.html is not None:
        path = pages.check_path(arguments.html, "--html")
        recent = list(book.events(since=max(0, statement.events - _RECENT)))
        pages.write(path, statement_page(statement, recent))
    if arguments.json:
        print_json(statement.to_dict())
    else:
        print(statement)


def _verify(arguments: argparse.Namespace, ledger: Ledger) -> None:
    receipts = [] if arguments.receipts is None else list(_receipts(arguments.receipts))
    verified = ledger.verify(receipts, book=arguments.book)
    for name, (seq, head) in verified.heads.items():
        print(f"{name}: {seq:,} events, head {head}")
    print(f"verified {verified.events:,} events and {verified.receipts:,} receipts: all follow the rules")


def _receipts(folder: Path) -> Iterator[Receipt]:
    if not folder.is_dir():
        raise ValueError(f"--receipts must be a folder; got {str(folder)!r}")
    paths = sorted([*folder.glob("*.json"), *folder.glob("*.ndjson")])
    if not paths:
        raise ValueError(f"--receipts must have *.json or *.ndjson files; {str(folder)!r} has none")
    for path in paths:
        # Not `splitlines`: an id may contain other line separators.
        for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
            if line.strip():
                try:
                    read = json.loads(line)
                    several = [] if "error" in read else read.get("receipts", [read])  # skip refusals
                    yield from (Receipt.from_json(json.dumps(plain)) for plain in several)
                except (ValueError, TypeError, AttributeError) as error:
                    raise ValueError(f"{path}, line {number}: {error}") from None


def _export(arguments: argparse.Namespace, ledger: Ledger) -> None:
    out: Path = arguments.out
    if out.suffix not in (".csv", ".parquet"):
        raise ValueError(f"--out must end in .csv or .parquet; got {str(out)!r}")
    if out.exists():
        raise ValueError(f"--out must be a new file; {str(out)!r} exists")
    polars = need("polars")
    frame = polars.DataFrame(TABLES[arguments.table](_book(arguments, ledger).events()))
    frame.write_csv(out) if out.suffix == ".csv" else frame.write_parquet(out)
    print(f"wrote {len(frame):,} rows to {out}")


def _import(arguments: argparse.Namespace, ledger: Ledger) -> None:
    table = TableFile(arguments.file)
    wanted = {name: getattr(arguments, name) for name in ("mu", "outcome", "stake", "id", "by")}
    wanted = {name: column for name, column in wanted.items() if column is not None}
    texts = [wanted[name] for name in ("id", "by") if name in wanted]
    missing = [column for column in wanted.values() if column not in table.names]
    if missing:
        raise ValueError(f"FILE has no column {missing[0]!r}; it has {', '.join(table.names)}")
    frame = table.scan([wanted[name] for name in ("mu", "outcome", "stake")], texts).collect()
    columns = {name: frame[column].to_list() for name, column in wanted.items()}
    placed, refused = import_log(_book(arguments, ledger), columns, prefix=f"{arguments.file.name} ")
    print(f"{placed:,} stakes placed, {refused:,} refused")


def _backup(arguments: argparse.Namespace, ledger: Ledger) -> None:
    ledger.backup(arguments.to)
    print(f"wrote {arguments.to}; the key is not in it")


def _repair(arguments: argparse.Namespace, ledger: Ledger) -> int:
    copy, receipts = arguments.copy, arguments.receipts
    if copy is not None and "://" not in copy and not Path(copy).is_file():
        raise ValueError(f"--from must be a file or an address; got {copy!r}")
    known = [] if receipts is None else list(_receipts(receipts))
    found = ledger.repair(known, copy=copy, into=arguments.into, book=arguments.book)
    for one in found:
        print(one)
    return 0 if all(one.whole for one in found) else 1


def _rekey(arguments: argparse.Namespace, ledger: Ledger) -> None:
    print(f"receipts are signed with {ledger.rekey()} from now on")
