"""What a correction promises of a book's losses: a certificate, and the terms it is made under."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Terms(NamedTuple):
    """What a book promises to keep to; a correction's bound depends on it.

    `max_stake` is the cap M on the gross stake of one forecast, `c_range` the range of the base's ĉ, `sound`
    whether the book publishes honest intervals, `one_sided` whether it takes only stakes >= 0.
    """

    max_stake: float
    c_range: tuple[float, float] = (0.0, 0.0)
    sound: bool = False
    one_sided: bool = False


@dataclass(frozen=True, slots=True)
class Certificate:
    """A bound on the total loss that holds now and for ever, or None with the reason.

    `theorem` names the theorem (docs/theory.md), or says why there is no bound. `exposure` is what late
    outcomes add to the bound: the cap on open exposure where there is one, else what the forecasts that were
    open at once could have lost; in that case the bound may still grow with them.
    """

    bound: float | None
    theorem: str
    rate: float | None = None
    max_stake: float | None = None
    c_range: tuple[float, float] | None = None
    exposure: float = 0.0

    def __str__(self) -> str:
        return f"no bound: {self.theorem}" if self.bound is None else f"{self.bound:,.6g} ({self.theorem})"
