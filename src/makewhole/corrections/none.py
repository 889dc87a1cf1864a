"""No correction: publish the base learner's own half-width."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from makewhole.corrections import _kernels
from makewhole.corrections.base import Stepped


class NoCorrection(Stepped):
    """Always λ = 0: the forecaster publishes c = ĉ.

    This is the baseline. Nothing protects the forecaster: a better informed agent wins on every forecast.

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
    why_no_bound = "no correction is used"
    variants: ClassVar = {"none": {}}

    _propose = staticmethod(_kernels.none_propose)
    _observe = staticmethod(_kernels.none_observe)

    def __init__(self) -> None:
        self._values, self._marks = [], []

    def __repr__(self) -> str:
        return "NoCorrection()"

    def state(self) -> dict[str, Any]:
        """Return an empty dict: there is nothing to remember."""
        return {}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Return a new one."""
        return cls()
