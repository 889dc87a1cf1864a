"""The exceptions of an insured forecaster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


class Refusal(Exception):  # noqa: N818 - a refusal is expected, not an error
    """The request was refused, for a reason that callers should expect; nothing has changed."""


class StakeRefused(Refusal):
    """A stake over a cap, or of the wrong sign; `limit` is the size that would be taken.

    With classes, `limit` is what that cap leaves. Another cap may leave less: the next refusal says so.
    """

    def __init__(self, message: str, limit: Any) -> None:
        super().__init__(message)
        self.limit = limit


class PriceRefused(StakeRefused):
    """The price is above the most that the customer would pay; `limit` is the current price."""


class CapitalNeeded(Refusal):
    """The capital would be less than is needed; `limit` is the least."""

    def __init__(self, message: str, limit: float) -> None:
        super().__init__(message)
        self.limit = limit


def part_of(amounts: Sequence[float], now: float, then: float, most: float) -> float:
    """How much of a stake would still be taken: what it can lose grows no faster than in proportion."""
    return max(0.0, (most - now) / (then - now)) * sum(map(abs, amounts))


def find_limit(refused: StakeRefused, place: Callable[[float], Any]) -> None:
    """Lower the limit of a refusal until a stake of that size is taken; a price is left as it is.

    What a cap leaves is rounded, and another cap may leave less. `place` tries a size.
    """
    step = 2.0**-53
    while refused.limit > 0.0 and not isinstance(refused, PriceRefused):
        try:
            place(refused.limit)
        except StakeRefused as second:
            step *= 2.0
            refused.limit = min(second.limit, refused.limit * (1.0 - step))
        else:
            return


class ForecastClosed(Refusal):
    """The forecast has already been settled or voided."""


class ForecastOpen(Refusal):
    """The id belongs to a forecast that is open: settle or void it first, or choose another id."""


class UnknownForecast(Refusal):
    """No open forecast has this id: it was never made here, or was settled or voided before."""


def missing(forecast: Any, given: Any, absent: bool, next_id: int) -> Refusal:
    """The refusal for a forecast that is not found: `given` is its id; `absent` if no forecast has it."""
    if absent and type(given) is int and 0 <= given < next_id:
        return ForecastClosed(f"forecast {given} was settled or voided before")
    if absent and isinstance(given, str) and given is not forecast:
        return ForecastClosed(f"forecast {given!r} is not open here: it was settled or voided before")
    if absent and type(given) in (int, str):
        return UnknownForecast(
            f"no open forecast has the id {given!r}: it was settled or voided before, or never made here"
        )
    return UnknownForecast(f"no such forecast was made here; got {forecast!r}")


class ConservationError(RuntimeError):
    """The payments do not add up to the forecaster's loss: a bug, raised before anything is booked."""


class TeachingError(RuntimeError):
    """The forecast was settled, and then its base failed to learn from the outcome.

    `payments` is what `settle` would have returned (`settle_many`: the payments of every forecast, by id).
    Settling is not undone and must not be repeated. The base's own error is the `__cause__`.
    """

    def __init__(self, message: str, payments: Any) -> None:
        super().__init__(message)
        self.payments = payments
