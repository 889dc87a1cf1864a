"""`makewhole serve`: a ledger over HTTP, its keys, and a demonstration."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from makewhole.cli.printing import print_error
from makewhole.extras import need
from makewhole.insured.refusals import Refusal

_ABOUT = """\
makewhole serve LEDGER                           serve a ledger (a file, or postgresql://...)
makewhole serve --demo                           a book on real flights, sold to simulated passengers
makewhole serve keys add LEDGER --role ROLE --name NAME      make a key; it is shown once
makewhole serve keys list LEDGER                 who may do what
makewhole serve keys revoke LEDGER --id ID       revoke a key

Roles: publisher (forecasts), oracle (outcomes), customer (stakes in her own name), auditor (reads events).
It listens on this machine only; put a web server with HTTPS in front of it for others.
"""


def add_parser(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "serve",
        help="serve a ledger over HTTP, with a page",
        usage="makewhole serve LEDGER | --demo | keys add|list|revoke LEDGER",
        description=_ABOUT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("words", nargs="*", metavar="LEDGER", help="what to serve")
    add("--demo", action="store_true", help="real flights, simulated passengers")
    add("--host", default="127.0.0.1", help="the address to listen on (default 127.0.0.1)")
    add("--port", type=int, default=8000, help="the port (default 8000)")
    add("--key", type=Path, help="the file of the signing key (default: LEDGER.key)")
    add("--rate", type=float, default=50.0, help="requests a second for each key (default 50; 0: no limit)")
    add("--pace", type=float, default=2.0, help="with --demo: flights a second (default 2)")
    add("--role", help="with keys add: publisher, oracle, customer or auditor")
    add("--name", help="with keys add: who stakes or reports with it")
    add("--id", help="with keys revoke: which")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Serve, or manage the keys."""
    for library in ("starlette", "uvicorn", "msgspec", "jinja2"):
        need(library, "serve")
    from makewhole import serve

    words = arguments.words
    try:
        if arguments.demo and not words:
            serve.run_demo(host=arguments.host, port=arguments.port, pace=arguments.pace)
        elif len(words) == 3 and words[0] == "keys":
            _keys(arguments, words[1], words[2])
        elif len(words) == 1 and words[0] != "keys" and not arguments.demo:
            _exists(words[0])
            where = {"host": arguments.host, "port": arguments.port}
            serve.run(words[0], key=arguments.key, rate=arguments.rate, **where)
        else:
            raise ValueError("give LEDGER, --demo, or keys add|list|revoke LEDGER; makewhole serve --help")
    except Refusal as error:
        print_error(error)
        return 1
    return 0


def _exists(where: str) -> None:
    if "://" not in where and not Path(where).is_file():
        raise ValueError(f"LEDGER {where!r} is not a file: create one with makewhole ledger create")


def _keys(arguments: argparse.Namespace, verb: str, where: str) -> None:
    from makewhole.ledger import Ledger
    from makewhole.serve.access import Keys

    _exists(where)
    with Ledger.open(where) as ledger:
        keys = Keys(ledger.store)
        if verb == "add":
            if arguments.role is None or arguments.name is None:
                raise ValueError("keys add needs --role and --name")
            print(keys.add(arguments.role, arguments.name))
        elif verb == "list":
            for access in keys.listed():
                made = datetime.fromtimestamp(access.made / 1e6, UTC)
                state = "" if access.revoked is None else "  revoked"
                print(f"{access.id}  {access.role:<10} {access.name}  {made:%Y-%m-%d}{state}")
        elif verb == "revoke":
            if arguments.id is None:
                raise ValueError("keys revoke needs --id, as keys list shows it")
            keys.revoke(arguments.id)
        else:
            raise ValueError(f"keys must be followed by add, list or revoke; got {verb!r}")
