"""Naive best response: the λ that would have balanced the past."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from makewhole import arguments
from makewhole.corrections import _kernels
from makewhole.corrections.base import Stepped


class NaiveBestResponse(Stepped):
    """The constant λ that would have made the past loss zero, λ = Σwx / Σw.

    Here x is the target of a past forecast, the λ that would have balanced it, and w its weight, the gross
    stake divided by the cap. This works if the future is like the past. An agent that changes sides in phases
    whose length doubles (`makewhole.agents.PhaseDoubling`) keeps winning about 0.15 of the cap per forecast.

    Examples
    --------
    >>> import makewhole as mw
    >>> correction = mw.NaiveBestResponse()
    >>> for target in (0.5, 0.25):
    ...     correction.observe(correction.propose(), target, weight=1.0)
    >>> correction.propose().lam
    0.375
    """

    name = "naive"
    about = "the constant that would have balanced the past"
    against = "bettors who repeat themselves"
    variants: ClassVar = {"naive": {}}

    _propose = staticmethod(_kernels.mean_propose)
    _observe = staticmethod(_kernels.mean_observe)

    def __init__(self) -> None:
        self._values, self._marks = [0.0, 0.0, 0.0], []

    def __repr__(self) -> str:
        return "NaiveBestResponse()"

    def state(self) -> dict[str, Any]:
        """Return both sums as plain data."""
        return {"sum": self._values[0], "weight": self._values[1]}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Return a correction with the state that `state()` returned."""
        total, weight = arguments.numbers("state", [state["sum"], state["weight"]]).tolist()
        if weight < 0:
            raise ValueError(f"weight in the state must not be negative; got {weight}")
        arguments.within("sum", total, -1e200, 1e200)
        made = cls()
        best = 0.0 if not weight else total / weight if abs(total) < 1e300 * weight else 1e300
        made._values = [total, weight, arguments.within("sum / weight", best, -1e12, 1e12)]
        return made
