"""What the stakes on a settled forecast receive, and what each of its legs has lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from makewhole.insured.records import Id, Open, Stake
from makewhole.insured.refusals import ConservationError
from makewhole.insured.totals import exact_sum


class Payments(list[float]):
    """What each customer receives, in order of staking; `by` has the sum for each named customer."""

    by: Mapping[Id, float] = MappingProxyType({})  # replaced if a customer is named


class Closing(NamedTuple):
    """A forecast that was settled: its outcome as a number, and what its stakes received."""

    entry: Open
    outcome: Any
    payments: Payments


def pay(
    legs: Sequence[Any], stakes: Sequence[Stake], happened: Sequence[Any]
) -> tuple[Payments, list[tuple[float, float]]]:
    """What every stake receives; and what each leg has lost, with what rounding has cut off from that."""
    payments = Payments()
    parts: list[float] = []  # of each stake, on each leg
    named: dict[Id, float] = {}
    for amounts, name, _, surcharges in stakes:
        paid = 0.0  # never -0.0
        for k, leg in enumerate(legs):
            part = leg.pay(amounts[k], happened[k])
            if surcharges:
                part -= surcharges[k]
            parts.append(part)
            paid += part  # not sum(): later Pythons add up differently
        payments.append(paid)
        if name is not None:
            named[name] = named.get(name, 0.0) + paid
    if named:
        payments.by = named
    count = len(legs)
    if count == 1:
        return payments, [exact_sum(payments)]
    # Together the legs lose what was paid, to the last digit: a payment on several classes is rounded, and
    # the difference is counted on the first of them that has a stake.
    first = next((k for k, leg in enumerate(legs) if leg.gross), 0)
    others = [-part for k, part in enumerate(parts) if k % count != first]
    losses = [exact_sum(parts[k::count]) for k in range(count)]
    losses[first] = exact_sum([*payments, *others])
    return payments, losses


def check_conserved(loss: float, expected: float, legs: Sequence[Any]) -> None:
    """Raise unless the payments add up to the loss, except for rounding."""
    scale = 0.0
    for leg in legs:
        scale += leg.gross * (1.0 + abs(leg.c))
    if not abs(loss - expected) <= 1e-9 * scale + 1e-300:
        raise ConservationError(f"payments add up to {loss!r}, the loss is {expected!r}")
