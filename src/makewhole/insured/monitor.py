"""A confidence sequence for the mean loss: it tells losing from bad luck, however often one looks."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Self

from makewhole import arguments

# Howard et al.'s stitched boundary: epochs in which the variance grows by ETA, weights k^-S over the epochs.
_ETA, _S, _ZETA = 2.0, 1.4, 3.1055472779775810  # ζ(1.4)
_K1 = (_ETA**0.25 + _ETA**-0.25) / math.sqrt(2)
_K2 = (math.sqrt(_ETA) + 1) / 2


class Interval(NamedTuple):
    """Where the mean loss lies, with the monitor's confidence, now and at all times together."""

    low: float
    high: float


class Watched(NamedTuple):
    """What the confidence sequence remembers: how many losses, their sum, and their squared surprises."""

    losses: int = 0
    sum: float = 0.0
    variance: float = 0.0

    def add(self, loss: float) -> Watched:
        """The same after one more loss; its surprise is its distance from the mean of those before it."""
        losses, total, variance = self
        surprise = loss - total / losses if losses else loss
        return tuple.__new__(Watched, (losses + 1, total + loss, variance + surprise * surprise))

    def add_zeros(self, count: int) -> Watched:
        """The same after so many losses of 0, with the same bits as one by one."""
        if self.sum == 0.0:
            return self._replace(losses=self.losses + count)
        watched = self
        for _ in range(count):
            watched = watched.add(0.0)
        return watched

    def interval(self, range_: float, alpha: float) -> Interval:
        """Where the mean loss lies if no loss is larger than `range_`."""
        if not self.losses:
            return Interval(-range_, range_)
        mean = self.sum / self.losses
        half = boundary(self.variance, 2 * range_, alpha / 2) / self.losses
        return Interval(max(mean - half, -range_), min(mean + half, range_))


class LossMonitor:
    """A confidence sequence for the mean of bounded losses; it may be looked at after every loss.

    An ordinary confidence interval holds at one moment that is chosen beforehand. Looked at after every
    forecast, it will exclude the truth sooner or later. This one covers the mean of the conditional
    expectations of all losses so far, at every moment at once, with probability 1 − alpha, whatever the
    dependence between the losses. It is an empirical-Bernstein bound: its width depends on how much the
    losses vary, not on their range.

    Parameters
    ----------
    range_
        Losses lie in [−range_, range_].
    alpha
        The probability of ever being wrong.

    Examples
    --------
    >>> from makewhole.insured.monitor import LossMonitor
    >>> monitor = LossMonitor(range_=1.0, alpha=0.05)
    >>> for t in range(2000):
    ...     monitor.update(0.5 if t % 3 else -0.5)
    >>> low, high = monitor.interval()
    >>> low < 1 / 6 < high, monitor.alarm
    (True, True)

    References
    ----------
    Howard, Ramdas, McAuliffe & Sekhon (2021), "Time-uniform, nonparametric, nonasymptotic confidence
    sequences", Theorem 4 and equation (10).
    """

    def __init__(self, range_: float = 1.0, alpha: float = 0.05) -> None:
        self.range_ = arguments.positive("range_", range_)
        if not 0 < alpha < 1:
            raise ValueError(f"alpha must lie between 0 and 1; got {alpha!r}")
        self.alpha = float(alpha)
        self._watched = Watched()

    def update(self, loss: float) -> None:
        """Take one more loss."""
        if not -self.range_ <= loss <= self.range_:
            raise ValueError(f"loss must lie in [-{self.range_:g}, {self.range_:g}]; got {loss!r}")
        self._watched = self._watched.add(loss)

    @property
    def count(self) -> int:
        """How many losses it has seen."""
        return self._watched.losses

    def interval(self) -> Interval:
        """Where the mean loss lies."""
        return self._watched.interval(self.range_, self.alpha)

    @property
    def alarm(self) -> bool:
        """Whether the forecaster is losing, for all we can know: the whole interval lies above 0."""
        return self.interval().low > 0

    def state(self) -> dict[str, Any]:
        """Everything as plain data."""
        settings = {"range": self.range_, "alpha": self.alpha}
        return settings | plain_watched(self._watched)

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Continue where `state()` was taken."""
        made = cls(state["range"], state["alpha"])
        made._watched = read_watched(state)
        return made


def plain_watched(watched: Watched) -> dict[str, Any]:
    """What a monitor remembers, as plain data."""
    return {"count": watched.losses, "sum": watched.sum, "variance": watched.variance}


def read_watched(state: dict[str, Any]) -> Watched:
    """What a monitor remembers, from plain data."""
    count = arguments.whole("count", state["count"], least=0)
    total, variance = arguments.numbers("sums", [state["sum"], state["variance"]]).tolist()
    if variance < 0:
        raise ValueError(f"variance must not be negative; got {variance}")
    return Watched(count, total, variance)


def boundary(variance: float, scale: float, alpha: float) -> float:
    """How far a sum may stray from its expectation, at any time, but with probability alpha (one side).

    `variance` is Σ(x − prediction)², and no x strays from its prediction by more than `scale`.
    """
    unit = scale * scale  # the variance from which the epochs are counted
    v = max(variance, unit)
    level = _S * math.log(math.log(_ETA * v / unit)) + math.log(_ZETA / (alpha * math.log(_ETA) ** _S))
    return math.sqrt(_K1**2 * v * level + (_K2 * scale * level) ** 2) + _K2 * scale * level
