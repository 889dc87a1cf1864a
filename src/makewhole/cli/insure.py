"""`makewhole insure`: choose an action and a stake, and print the total loss."""

from __future__ import annotations

import argparse
from typing import Any

import makewhole as mw
from makewhole.cli.printing import print_json


def add_parser(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("insure", help="choose an action and a stake, given a loss table")
    parser.add_argument(
        "actions",
        nargs="+",
        metavar="ACTION=IF0,IF1",
        help="name of an action, its loss if y=0, its loss if y=1",
    )
    parser.add_argument("--mu", type=float, required=True, help="probability that y=1")
    parser.add_argument(
        "--c",
        type=float,
        default=0.0,
        help="half-width of the forecast: the price of a bet per unit staked (default 0)",
    )
    parser.add_argument("--max-stake", type=float, help="largest stake that is accepted (default: no limit)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Print the plan for a loss table given on the command line."""
    table = dict(read_action(text) for text in arguments.actions)
    if len(table) < len(arguments.actions):
        raise ValueError("every ACTION must have a different name; got one twice")
    forecast = mw.Forecast(arguments.mu, arguments.c)
    plan = mw.insure(forecast, table, max_stake=arguments.max_stake)
    if arguments.json:
        print_json(plan._asdict())
        return
    premium = mw.premium(plan.stake, arguments.mu, arguments.c)
    print(f"action  {plan.action}")
    print(f"stake   {plan.stake:g}", end="")
    print(
        f"  (pay {premium.price:g} now, receive {premium.payout:g} if y={premium.pays_on})"
        if plan.stake
        else ""
    )
    print(
        f"loss    {plan.loss:g}"
        + (" for certain" if not plan.spread else f" at most, or up to {plan.spread:g} less")
    )


def read_action(text: str) -> tuple[str, tuple[float, float]]:
    """Return the name of an action and its losses, from a text such as "use=2,-10"."""
    name, equals, losses = text.partition("=")
    try:
        if_0, if_1 = (float(part) for part in losses.split(","))
    except ValueError:
        equals = ""
    if not equals or not name:
        raise ValueError(f"ACTION must look like use=2,-10 (loss if y=0, loss if y=1); got {text!r}")
    return name, (if_0, if_1)
