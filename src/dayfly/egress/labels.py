"""Names under a star: who invents one sends its label to whoever serves the domain's DNS. So new ones are counted, here, whatever
the agent inside has done about it."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["MOST", "PER_MINUTE", "Labels"]

MOST = 1024
"""Of one sandbox. A label carries 40 bytes or so: 40 KB in a life."""

PER_MINUTE = 60
"""At once, and then as many a minute: no faster than a typist."""


class Labels:
    """``clock`` tells seconds that only grow."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: set[str] = set()
        self._left = float(PER_MINUTE)
        self._since = clock()

    def admit(self, name: str) -> bool:
        """Whether the name is known already, or may become so now."""
        if name in self._known:
            return True
        now = self._clock()
        self._left = min(float(PER_MINUTE), self._left + (now - self._since) * PER_MINUTE / 60)
        self._since = now
        if self._left < 1 or len(self._known) >= MOST:
            return False
        self._left -= 1
        self._known.add(name)
        return True
