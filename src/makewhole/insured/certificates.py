"""Certificates: what a book can lose at worst, from the bounds of its corrections."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from makewhole.corrections import BookCorrection, Certificate, Terms
from makewhole.insured.records import Scope
from makewhole.insured.thaw import Thaw


def shared_terms(terms: Terms, classes: int) -> Terms:
    """The terms of a correction that all classes share: its cap is that of all classes together."""
    return terms._replace(max_stake=terms.max_stake * classes, lines=1)


def base_bound(rules: Sequence[BookCorrection], terms: Terms) -> float | None:
    """What a book with these corrections can lose if every outcome comes before the next forecast."""
    bounds = [rule.line_bound(terms) for rule in rules]
    return None if None in bounds else math.fsum(b for b in bounds if b is not None)


def late_bound(rules: Sequence[BookCorrection], terms: Terms, scope: Scope) -> float | None:
    """What late outcomes add to that bound, given what was open at the same time."""
    if terms.sound or terms.one_sided:
        return math.fsum(scope.late_potential)
    added = [rule.late_loss(terms, scope.late_open) for rule in rules]
    return None if None in added else math.fsum(a for a in added if a is not None)


def certify(
    rules: Sequence[BookCorrection], terms: Terms, scope: Scope, max_exposure: float | None = None
) -> Certificate:
    """The certificate of a book with one leg, or one per class, each with its correction.

    With `max_exposure` the book refuses a stake that would break a leg's bound; without it, the bound has to
    allow for any stake on an open forecast.
    """
    base = base_bound(rules, terms)
    if base is None:
        return Certificate(None, rules[0].why_no_bound)
    facts = _facts(rules[0], terms)
    added = late_bound(rules, terms, scope) if max_exposure is None else len(rules) * max_exposure
    if added is None:
        reason = f"too many forecasts were open at once: rate × {scope.late_open} >= 1"
        return Certificate(None, reason, **facts)
    return Certificate(base + added, rules[0].theorem(terms), exposure=added, **facts)


def _facts(rule: BookCorrection, terms: Terms) -> dict[str, Any]:
    c_range = terms.c_range if rule.over is None else (0.0, 0.5)
    return {"rate": rule.rate, "max_stake": terms.max_stake, "c_range": c_range}


class GroupBounds(NamedTuple):
    """The bounds of groups with separate corrections, added up as groups begin and outcomes come late.

    `unbounded` counts the groups without a bound: too many of their forecasts were open at the same time.
    """

    groups: int = 0
    base: float = 0.0
    late: float = 0.0
    unbounded: int = 0

    def begun(self, base: float | None) -> GroupBounds:
        """With one more group."""
        return self._replace(groups=self.groups + 1, base=self.base + (base or 0.0))

    def later(self, before: float | None, after: float | None) -> GroupBounds:
        """With a group whose late outcomes can now cost `after` instead of `before`."""
        return self._replace(
            late=self.late + (after or 0.0) - (before or 0.0),
            unbounded=self.unbounded + (after is None) - (before is None),
        )


def certify_groups(
    rule: BookCorrection,
    terms: Terms,
    bounds: GroupBounds,
    lines: int,
    max_exposure: float | None = None,
) -> Certificate:
    """The certificate of groups that do not overlap: their bounds add, as do their exposures."""
    if rule.line_bound(terms) is None:
        return Certificate(None, rule.why_no_bound)
    if not bounds.groups:
        return Certificate(0.0, "no group has begun; each adds its own bound")
    so_far = "" if rule.all_groups is not None else " so far"
    added = bounds.late if max_exposure is None else bounds.groups * lines * max_exposure
    facts = _facts(rule, terms)
    if max_exposure is None and bounds.unbounded:
        reason = f"too many forecasts of {bounds.unbounded} groups were open at once"
        return Certificate(None, reason, exposure=added, **facts)
    theorem = f"{rule.theorem(terms)} for each of {bounds.groups} groups{so_far}"
    return Certificate(bounds.base + added, theorem, exposure=added, **facts)


def thawed(
    certificate: Certificate, thaw: Thaw, rounds: int, rules: Sequence[BookCorrection], terms: Terms
) -> Certificate:
    """The certificate plus what a thaw may concede (if its budget grows, what it may concede so far).

    A share of past profits adds nothing to what may be lost over any stretch of time. If that has no bound,
    the certificate has none either, unless a capital is guarded.
    """
    if certificate.bound is None:
        return certificate
    allowed = thaw.allowed(rounds)
    if thaw.share:
        known = base_bound(rules, terms)
        stretches = [rule.stretch_bound(terms) for rule in rules]
        if known is None or None in stretches:
            return replace(certificate, bound=None, theorem="a thaw may concede a share of any profit")
        allowed += math.fsum(s for s in stretches if s is not None) - known
    more = "a thaw" if thaw.constant else "a thaw so far"
    return replace(
        certificate, bound=certificate.bound + allowed, theorem=f"{certificate.theorem}, and {more}"
    )


def guarded(certificate: Certificate, capital: float, *, growing: bool = False) -> Certificate:
    """The certificate under a solvency guard, Theorem D; `growing` if its bound may still grow."""
    if (
        not growing and certificate.bound is not None and certificate.bound <= capital * (1.0 + 1e-12)
    ):  # up to rounding
        return replace(certificate, bound=min(certificate.bound, capital))
    return replace(certificate, bound=capital, theorem="the solvency guard")
