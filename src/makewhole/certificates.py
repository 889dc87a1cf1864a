"""What a forecaster can lose at worst, the theorem that says so, or why none does."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from makewhole.corrections import DeterministicSwap, NoCorrection, Reserve, StandardRegret, SwapRegret


@dataclass(frozen=True, slots=True)
class Certificate:
    """A bound on the total loss that holds now and for ever, or None with the reason.

    `exposure` is what late outcomes add: the cap on open exposure where there is one, else the most there has
    been so far, and then the bound may still grow with it.
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
    correction: Any,
    *,
    lines: int,
    max_stake: float,
    c_range: tuple[float, float],
    honest: bool,
    open_gross: float,
    exposure: float,
) -> Certificate:
    """The certificate of a correction's book of so many lines (1, or one per class).

    `honest` is whether its intervals lie inside [0, 1], that is, whether it is sound and two-sided.
    """
    if not isinstance(correction, Reserve):
        return Certificate(None, _WHY_NOT.get(type(correction), "none is known for this correction"))
    theorem = "Theorem B, for every group and for all" if correction.grouped else "Theorem B"
    if correction.over is not None:  # what it adds to lies in [0, ½], whatever ĉ does
        c_range = (0.0, 0.5)
    room = max(0.0, (0.5 if honest else 1.0) - c_range[0] - correction.start)
    base = lines * room * max_stake / correction.rate
    facts: dict[str, Any] = {"rate": correction.rate, "max_stake": max_stake, "c_range": c_range}
    if honest:
        return Certificate(base + exposure, theorem, exposure=exposure, **facts)
    late = correction.rate * open_gross / max_stake
    if late >= 1:
        reason = f"too many bets were open at once: rate × {open_gross / max_stake:.3g} caps >= 1"
        return Certificate(None, reason, exposure=exposure, **facts)
    return Certificate(base / (1 - late), "Theorem A", exposure=exposure, **facts)


def together(groups: list[Certificate], *, fixed: bool) -> Certificate:
    """The certificate of groups that do not overlap: their bounds add, as do their exposures."""
    if not groups:
        return Certificate(0.0, "no group has begun; each adds its own bound")
    one = groups[0]
    so_far = "" if fixed else " so far"
    bounds = [found.bound for found in groups]
    exposure = sum(found.exposure for found in groups)
    missing = [found for found in groups if found.bound is None]
    if missing:
        return replace(missing[0], exposure=exposure)
    total = sum(bound for bound in bounds if bound is not None)
    return replace(
        one, bound=total, theorem=f"{one.theorem} for each of {len(groups)} groups{so_far}", exposure=exposure
    )


def guarded(found: Certificate, capital: float) -> Certificate:
    """The certificate under a solvency guard, which no theorem is needed for."""
    if found.bound is not None and found.bound <= capital:
        return found
    return replace(found, bound=capital, theorem="the solvency guard")
