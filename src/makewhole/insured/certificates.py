"""What a forecaster can lose at worst, the theorem that says so, or why none does."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from makewhole.corrections import DeterministicSwap, NoCorrection, Reserve, StandardRegret, SwapRegret
from makewhole.corrections.base import unchanged


@dataclass(frozen=True, slots=True)
class Certificate:
    """A bound on the total loss that holds now and for ever, or None with the reason.

    `exposure` is what late outcomes add: the cap on open exposure where there is one, else what the forecasts
    that were open at once could have lost, and then the bound may still grow with them.
    """

    bound: float | None
    theorem: str
    rate: float | None = None
    max_stake: float | None = None
    c_range: tuple[float, float] | None = None
    exposure: float = 0.0

    def __str__(self) -> str:
        return f"none: {self.theorem}" if self.bound is None else f"{self.bound:,.6g} ({self.theorem})"


_WHY_NOT = {
    NoCorrection: "nothing is corrected",
    SwapRegret: "the paper's swap bounds the mean, in expectation, against agents who cannot see its draw",
    DeterministicSwap: "deterministic swap bounds the mean, not the total (Theorem C)",
    StandardRegret: "with falling steps the bound on the total grows like √T",
}


def certify(
    corrections: Sequence[Any],
    *,
    max_stake: float,
    c_range: tuple[float, float],
    rules: tuple[bool, bool] = (False, False),
    late: tuple[int, float] = (0, 0.0),
    max_exposure: float | None = None,
) -> Certificate:
    """The certificate of a book of one line, or one per class, each with its correction.

    `rules` are (one_sided, sound). `late` are the most forecasts that were open at once, where there were
    several, and the most they could have lost. With `max_exposure` the book refuses a stake that would break
    a line's bound; without, the bound has to allow for whatever is staked on what is open.
    """
    one = corrections[0]
    if not isinstance(one, Reserve) or not unchanged(one):
        return Certificate(None, _WHY_NOT.get(type(one), "none is known for this correction"))
    one_sided, sound = rules
    if one.over is not None:  # what it adds to lies in [0, ½], whatever ĉ does
        c_range = (0.0, 0.5)
    base = math.fsum(line_bounds(corrections, max_stake, c_range, rules))
    theorem = "Theorem B" if sound and not one_sided else "Theorem A"
    theorem += ", for every group and for all" if one.grouped else ""
    facts: dict[str, Any] = {"rate": one.rate, "max_stake": max_stake, "c_range": c_range}
    if max_exposure is not None:
        added = len(corrections) * max_exposure
        return Certificate(base + added, theorem, exposure=added, **facts)
    if sound or one_sided:
        return Certificate(base + late[1], theorem, exposure=late[1], **facts)
    quotes, share = late[0], one.rate * late[0]
    if share >= 1:
        reason = f"too many forecasts were open at once: rate × {quotes} >= 1"
        return Certificate(None, reason, **facts)
    # What a late unit of stake can lose: all that λ can have moved by in the meantime.
    top, bottom = 1.0 - c_range[0], -1.0 - c_range[1]
    reach = math.fsum(max(top, c.start) - min(bottom, c.start) for c in corrections)
    stale = quotes * max_stake * reach / (1 - share)
    return Certificate(base + stale, theorem, exposure=stale, **facts)


def line_bounds(
    corrections: Sequence[Any], max_stake: float, c_range: tuple[float, float], rules: tuple[bool, bool]
) -> list[float]:
    """What each line can lose where every outcome comes before the next forecast."""
    one_sided, sound = rules
    if corrections[0].over is not None:
        c_range = (0.0, 0.5)
    top = 0.5 if sound and not one_sided else 1.0
    return [max(0.0, top - c_range[0] - c.start) * max_stake / c.rate for c in corrections]


def together(groups: list[Certificate], *, fixed: bool) -> Certificate:
    """The certificate of groups that do not overlap: their bounds add, as do their exposures."""
    if not groups:
        return Certificate(0.0, "no group has begun; each adds its own bound")
    one = groups[0]
    so_far = "" if fixed else " so far"
    bounds = [found.bound for found in groups]
    exposure = math.fsum(found.exposure for found in groups)
    missing = [found for found in groups if found.bound is None]
    if missing:
        return replace(missing[0], exposure=exposure)
    total = math.fsum(bound for bound in bounds if bound is not None)  # in whatever order they began
    return replace(
        one, bound=total, theorem=f"{one.theorem} for each of {len(groups)} groups{so_far}", exposure=exposure
    )


def guarded(found: Certificate, capital: float) -> Certificate:
    """The certificate under a solvency guard, which no theorem is needed for."""
    if found.bound is not None and found.bound <= capital:
        return found
    return replace(found, bound=capital, theorem="the solvency guard")
