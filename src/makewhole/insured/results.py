"""What a settled forecast pays, loses, and shows to its corrections."""

from __future__ import annotations

from collections.abc import Sequence

from makewhole.corrections._kernels import balance
from makewhole.insured.book import OpenForecast, Stake, charged_for, won_on_classes
from makewhole.insured.changes import LineResult, Payments, paid_by_name
from makewhole.insured.refusals import ConservationError
from makewhole.insured.totals import exact_sum

_new = tuple.__new__


def line_results(
    open_: OpenForecast,
    y: float,
    stakes: Sequence[Stake],
    classes: int | None,
    max_stake: float,
    *,
    booked: bool = True,
) -> tuple[Payments, tuple[LineResult, ...]]:
    """What every stake receives; and of every line its loss, its target and its weight.

    If `booked`, what customers paid above the published price counts in the target, too.

    The losses of the lines are what was paid, to the last digit: a payment on several classes is rounded, and
    the difference is counted on the first of them that has a stake.
    """
    if classes is None:
        return _single_result(open_, y, stakes, max_stake, booked=booked)
    happened = [float(y == k) for k in range(classes)]
    zero = (0.0,) * len(happened)
    lines, nets, grosses, extra = open_.lines, open_.nets, open_.grosses, open_.surcharges or zero
    payments, parts = Payments(), []
    for amounts, _, _, dearer in stakes:
        each, paid = [], 0.0
        for b, line, y_k, more in zip(amounts, lines, happened, dearer or zero, strict=True):
            each.append(b * (y_k - line.mu) - abs(b) * line.c - more)
            paid += each[-1]  # not sum(): later Pythons add up differently
        payments.append(paid)
        parts.append(each)
    payments.by = paid_by_name(stakes, payments)
    results = []
    first = next((k for k, gross in enumerate(grosses) if gross), 0)
    scale = sum(gross * (1.0 + abs(line.c)) for gross, line in zip(grosses, lines, strict=True))
    for k, (mu, c, origin, *_) in enumerate(lines):
        expected, target, weight = balance(mu, c, origin, happened[k], nets[k], grosses[k], max_stake)
        if extra[k]:
            expected -= extra[k]
            if booked:  # w·(x − λ) is the loss
                target -= extra[k] / grosses[k]
        if k != first:
            loss, rest = exact_sum([each[k] for each in parts])
        else:
            others = [-part for each in parts for j, part in enumerate(each) if j != first]
            loss, rest = exact_sum([*payments, *others])
        check_conserved(loss, expected, scale)
        results.append(tuple.__new__(LineResult, (loss, target, weight, rest)))
    return payments, tuple(results)


def _single_result(
    open_: OpenForecast, y: float, stakes: Sequence[Stake], max_stake: float, *, booked: bool
) -> tuple[Payments, tuple[LineResult, ...]]:
    """The same for a binary event, which has one line: with the same numbers, in half the time."""
    mu, c, origin, *_ = open_.lines[0]
    net, gross, error = open_.nets[0], open_.grosses[0], y - mu
    payments = Payments()
    for (b,), _, _, dearer in stakes:
        paid = b * error - abs(b) * c
        payments.append(0.0 + (paid - dearer[0] if dearer else paid))  # 0.0: never -0.0
    payments.by = paid_by_name(stakes, payments)
    expected, target, weight = balance(mu, c, origin, y, net, gross, max_stake)
    if open_.surcharges and open_.surcharges[0]:
        extra = open_.surcharges[0]
        expected -= extra
        if booked:  # w·(x − λ) is the loss
            target -= extra / gross
    loss, rest = exact_sum(payments)
    check_conserved(loss, expected, gross * (1.0 + abs(c)))
    return payments, (_new(LineResult, (loss, target, weight, rest)),)


def shared_result(
    open_: OpenForecast, y: int, stakes: Sequence[Stake], cap: float
) -> tuple[Payments, tuple[LineResult, ...]]:
    """The same where all classes have one price and one correction, whose cap is `cap`: one result for all.

    A stake b, less its median, wins b_y − Σ b_k·μ_k and costs c·Σ|b_k|. So all classes together are one bet
    with an outcome between −1 and 1, and the size Σ|b_k|: what `balance` does with B·(y − μ) and A.
    """
    _, c, origin, _, _, _ = open_.lines[0]
    mus, (median, gross) = open_.said, open_.charged  # what is published at one price is the base's μ̂
    if not gross:
        payments = Payments([0.0] * len(stakes))
        payments.by = paid_by_name(stakes, payments)
        return payments, (_new(LineResult, (0.0, -origin, 0.0, 0.0)),)
    won = won_on_classes(mus, open_.nets, median, y)
    expected = won - gross * c
    if len(stakes) == 1:
        payments, loss, rest = Payments([expected]), expected, 0.0
    else:
        payments = Payments()
        for amounts, *_ in stakes:
            middle, size = charged_for(amounts)
            payments.append(won_on_classes(mus, amounts, middle, y) - size * c)
        loss, rest = exact_sum(payments)
        check_conserved(loss, expected, gross * (1.0 + abs(c)))
    payments.by = paid_by_name(stakes, payments)
    return payments, (_new(LineResult, (loss, won / gross - origin, gross / cap, rest)),)


def check_conserved(loss: float, expected: float, scale: float) -> None:
    """Raise unless the payments add up to the loss, but for rounding at this scale."""
    if not abs(loss - expected) <= 1e-9 * scale + 1e-300:
        raise ConservationError(f"payments add up to {loss!r}, the loss is {expected!r}")
