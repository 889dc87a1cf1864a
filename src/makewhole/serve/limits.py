"""How often a caller may ask: each key, and without one each address."""

from __future__ import annotations

import ipaddress
import time
from functools import lru_cache

_MOST_CALLERS = 100_000


class RequestLimits:
    """Allow each key, or without one each address, `rate` requests a second and a burst of as many.

    A request of many lines is admitted like any other, but each line counts: its sender then waits longer.
    """

    def __init__(self, rate: float) -> None:
        self._rate, self._left = rate, dict[str, tuple[float, float]]()

    def allow(self, who: str) -> bool:
        """Whether this caller may send a request now."""
        return not self._rate or self.wait(who) == 0.0

    def wait(self, who: str) -> float:
        """Admit a request and return 0, or return how many seconds the caller must wait."""
        if not self._rate:
            return 0.0
        now = time.monotonic()
        if len(self._left) > _MOST_CALLERS:
            self._forget(now)
        left = self._now_left(who, now)
        allowed = left >= 1.0
        self._left[who] = (left - allowed, now)  # refused requests are not charged
        return 0.0 if allowed else (1.0 - left) / self._rate

    def count(self, who: str, more: int) -> float:
        """Charge further requests that came with an admitted one and return 0.

        If the caller already owes requests, from another body that came at the same time, charge nothing and
        return how many seconds she must wait.
        """
        if not self._rate or more <= 0:
            return 0.0
        now = time.monotonic()
        left = self._now_left(who, now)
        if left < 0.0:
            return (1.0 - left) / self._rate
        self._left[who] = (left - more, now)
        return 0.0

    @property
    def _most(self) -> float:
        return max(self._rate, 1.0)  # at a rate below 1, a single request must still be admitted

    def _now_left(self, who: str, now: float) -> float:
        left, last = self._left.get(who, (self._most, now))
        return min(self._most, left + (now - last) * self._rate)

    def _forget(self, now: float) -> None:
        """Forget callers who could send a burst again; then those who could send most, down to half."""
        left = {who: self._now_left(who, now) for who in self._left}
        kept = sorted((who for who in left if left[who] < self._most), key=left.__getitem__)
        self._left = {who: self._left[who] for who in kept[: _MOST_CALLERS // 2]}


@lru_cache(10_000)
def caller_at(address: str) -> str:
    """Return the name under which an address is counted: of IPv6, a customer has a whole network."""
    try:
        read = ipaddress.ip_address(address)
    except ValueError:
        return f"@{address}"
    if isinstance(read, ipaddress.IPv6Address) and read.ipv4_mapped is None:
        return f"@{ipaddress.ip_network((read, 64), strict=False)}"
    return f"@{address}"
