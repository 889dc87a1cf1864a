"""No correction: the base learner's own c."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from makewhole.corrections import _kernels
from makewhole.corrections.base import Stepped


class NoCorrection(Stepped):
    """λ = 0 for ever.

    The baseline. Nothing protects the forecaster: whoever knows better wins at every forecast.

    Examples
    --------
    >>> import makewhole as mw
    >>> correction = mw.NoCorrection()
    >>> correction.observe(correction.propose(), target=0.5, weight=1.0)
    >>> correction.propose().lam
    0.0
    """

    name = "none"
    about = "always 0"
    against = "nobody"
    why_no_bound = "nothing is corrected"
    variants: ClassVar = {"none": {}}

    _propose = staticmethod(_kernels.none_propose)
    _observe = staticmethod(_kernels.none_observe)

    def __init__(self) -> None:
        self._values, self._marks = [], []

    def __repr__(self) -> str:
        return "NoCorrection()"

    def state(self) -> dict[str, Any]:
        """Nothing."""
        return {}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Make another one."""
        return cls()
