"""Naive best response: the best constant in hindsight."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from makewhole import arguments
from makewhole.corrections import _kernels
from makewhole.corrections.base import Stepped


class NaiveBestResponse(Stepped):
    """λ = Σwx / Σw, the constant that would have zeroed the past loss (follow the leader).

    Good when nature repeats itself. An agent that flips its bets in phases of doubling length keeps the
    forecaster's mean loss at about 0.15 of the cap for ever.

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
        """Both sums."""
        return {"sum": self._values[0], "weight": self._values[1]}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Continue where `state()` was taken."""
        total, weight = arguments.numbers("state", [state["sum"], state["weight"]]).tolist()
        if weight < 0:
            raise ValueError(f"weight in the state must not be negative; got {weight}")
        made = cls()
        made._values = [total, weight, total / weight if weight else 0.0]
        return made
