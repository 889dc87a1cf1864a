"""Standard regret: online gradient descent."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Self

from makewhole import arguments
from makewhole.corrections import _kernels
from makewhole.corrections.base import Stepped
from makewhole.corrections.certificate import Terms


class StandardRegret(Stepped):
    """λ ← λ + (rate/√t)·w·(x − λ): gradient descent on w(x − λ)², with falling steps.

    `rate` decides how it compares with the others: try 0.01, 0.1 and 1.

    Parameters
    ----------
    rate
        The first step's size, above 0; at most 1 keeps λ among the targets seen.

    Examples
    --------
    >>> import makewhole as mw
    >>> correction = mw.StandardRegret(rate=0.5)
    >>> for target in (0.5, 0.25):
    ...     correction.observe(correction.propose(), target, weight=1.0)
    >>> correction.propose().lam
    0.25

    References
    ----------
    Zinkevich (2003), "Online Convex Programming and Generalized Infinitesimal Gradient Ascent".
    """

    name = "standard"
    about = "online gradient descent, in steps that get smaller"
    against = "everyone, like 1/√T; the rate decides how soon"
    why_no_bound = "with falling steps the bound on the total grows like √T"
    mean_theorem = "Zinkevich (2003)"
    options = ("rate",)
    settings = ("rate",)
    variants: ClassVar = {f"standard {rate:g}": {"rate": rate} for rate in (0.01, 0.1, 1.0)}

    _propose = staticmethod(_kernels.gradient_propose)
    _observe = staticmethod(_kernels.gradient_observe)

    rate: float

    def __init__(self, rate: float = 0.1) -> None:
        self.rate = arguments.positive("rate", rate)
        self._values, self._marks = [0.0, 0.0, self.rate], []

    def mean_bound(self, rounds: int, terms: Terms) -> float | None:
        """Falling steps: |Σℓ| <= R·√T/p caps."""
        reach = 2.0 + terms.c_range[1] - terms.c_range[0]
        return reach / (self.rate * math.sqrt(rounds)) * terms.max_stake

    def __repr__(self) -> str:
        return f"StandardRegret(rate={self.rate!r})"

    def state(self) -> dict[str, Any]:
        """The rate, λ, and how many steps were taken."""
        lam, steps, rate = self._values
        return {"rate": rate, "lam": lam, "steps": steps}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Continue where `state()` was taken."""
        made = cls(state["rate"])
        lam, steps = arguments.numbers("state", [state["lam"], state["steps"]]).tolist()
        if steps < 0:
            raise ValueError(f"steps in the state must not be negative; got {steps}")
        made._values = [lam, steps, made.rate]
        return made
