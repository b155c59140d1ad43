"""How often each address has shown a wrong secret lately. Whoever shows a right one is never held up by it: behind a proxy
many share an address, and a stranger must not lock them out."""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Callable

__all__ = ["Failures"]

BURST = 20
"""Failures in a row before an address has to wait: a client with an old key in a loop finds out by then."""

INTERVAL = 3.0
"""Seconds in which one failure is forgiven."""

MAX_ADDRESSES = 10_000
"""That are remembered; the first ones go first."""


class Failures:
    """``clock`` is monotonic, in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._forgiven_at: dict[str, float] = {}

    def note(self, address: str) -> float:
        """Count a failure. How many seconds this address has to wait: 0 while there were not too many."""
        now = self._clock()
        name = _network(address)
        owed = max(0.0, self._forgiven_at.pop(name, now) - now)
        if owed + INTERVAL > BURST * INTERVAL:
            self._remember(name, now, owed)
            return owed + INTERVAL - BURST * INTERVAL
        self._remember(name, now, owed + INTERVAL)
        return 0.0

    def _remember(self, name: str, now: float, owed: float) -> None:
        if len(self._forgiven_at) >= MAX_ADDRESSES:
            self._forgiven_at = {one: at for one, at in self._forgiven_at.items() if at > now}
        if len(self._forgiven_at) >= MAX_ADDRESSES:
            del self._forgiven_at[next(iter(self._forgiven_at))]
        self._forgiven_at[name] = now + owed


def _network(address: str) -> str:
    """An IPv6 customer has a whole /64 to fail from."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    return str(ipaddress.ip_network((parsed, 64), strict=False)) if parsed.version == 6 else str(parsed)
