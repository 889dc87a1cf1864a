"""Standard regret: online gradient descent on λ."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Self

from makewhole import arguments
from makewhole.corrections import _kernels
from makewhole.corrections.base import Memory, Part, Stepped
from makewhole.corrections.certificate import Terms

# Outside a forecaster, |λ| is at most this: no target can exceed it, for any `c_range`.
_FAR = 101.0


class StandardRegret(Stepped):
    """Online gradient descent on λ, in steps that get smaller like 1/√t.

    After the t-th forecast λ moves by (rate/√t)·w·(x − λ). The target x is the λ that would have balanced
    the forecast; the weight w is its gross stake divided by the cap. This is gradient descent on
    ½·w·(x − λ)². The mean loss tends to 0 like 1/√T, against everyone (docs/theory.md, "Steps that get
    smaller"); in sound mode it is at most this, and may be below 0. How soon depends on `rate`: try 0.01, 0.1
    and 1. Zinkevich bounds the regret of such steps, Σ½w(x − λ)² against the best constant, and not the loss.

    Parameters
    ----------
    rate
        The size of the first step, above 0. For any rate, λ stays within the range of the targets (in a
        forecaster, [−1 − c₊, 1 − c₋], where [c₋, c₊] is its `c_range`).

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
    why_no_bound = "its steps get smaller, so the bound on the total loss grows like √T"
    mean_theorem = "our theorem on steps that get smaller"
    options = ("rate",)
    settings = ("rate",)
    variants: ClassVar = {f"standard {rate:g}": {"rate": rate} for rate in (0.01, 0.1, 1.0)}

    _propose = staticmethod(_kernels.gradient_propose)
    _observe = staticmethod(_kernels.gradient_observe)

    rate: float

    def __init__(self, rate: float = 0.1) -> None:
        self.rate = arguments.positive("rate", rate)
        self._values, self._marks = [0.0, 0.0, self.rate, -_FAR, _FAR], []

    def in_mode(self, terms: Terms) -> Self:
        """Return a copy for these terms, whose λ stays within the range of its targets."""
        lam, steps, rate = self._values[:3]
        least, most = -1.0 - terms.c_range[1], 1.0 - terms.c_range[0]
        return self.with_memories({None: ([min(max(lam, least), most), steps, rate, least, most], [])})

    def read_part(self, part: Part, state: Any) -> Memory:
        """Return the memory that `part_state` turned into `state`, with the range of these terms."""
        (lam, *others), marks = super().read_part(part, state)
        least, most = self._values[3:]
        return [min(max(lam, least), most), *others[:2], least, most], marks

    def mean_bound(self, rounds: int, terms: Terms) -> float | None:
        """Return R·M/(rate·√T): the bound for steps that get smaller (docs/theory.md).

        A rate above 1 adds R·M·rate²/T for the first rate² forecasts, whose steps may leave λ's range.
        """
        reach = 2.0 + terms.c_range[1] - terms.c_range[0]
        early = self.rate * self.rate / rounds if self.rate > 1 else 0.0
        return (reach / (self.rate * math.sqrt(rounds)) + reach * early) * terms.max_stake

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other) or not isinstance(other, StandardRegret):
            return False
        return bool(self._values[:3] == other._values[:3])  # the range is the forecaster's

    __hash__ = None

    def __repr__(self) -> str:
        return f"StandardRegret(rate={self.rate!r})"

    def state(self) -> dict[str, Any]:
        """Return the rate, λ, and the number of steps as plain data."""
        lam, steps, rate, _, _ = self._values
        return {"rate": rate, "lam": lam, "steps": steps}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Return a correction with the state that `state()` returned."""
        made = cls(state["rate"])
        lam, steps = arguments.numbers("state", [state["lam"], state["steps"]]).tolist()
        if steps < 0:
            raise ValueError(f"steps in the state must not be negative; got {steps}")
        made._values[:2] = min(max(lam, -_FAR), _FAR), steps
        return made
