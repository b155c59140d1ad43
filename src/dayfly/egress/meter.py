"""What one rule of one sandbox may move: so many bytes in all, and so many a second, both directions together."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

__all__ = ["Meter"]

BURST_SECONDS = 0.1
"""Of the rate that may go at once: what is imperceptible, and lets a message go as a whole."""

LEAST_BURST = 16 * 1024
"""Bytes: a record of TLS."""

QUANTUM_SECONDS = 0.02
"""Of the rate that is moved at once by whoever had to wait."""

LEAST_QUANTUM = 1024
"""Bytes, the same for slow rates."""

LEAST_WAIT = 0.005
"""Seconds between looks at the line."""


class Meter:
    """``spent`` and ``room`` before bytes are moved, ``move`` after. ``later`` calls a function after seconds.

    A token bucket on a monotonic clock. Whoever finds no room waits in a line, so that nobody waits for ever.
    """

    def __init__(
        self, later: Callable[[float, Callable[[], None]], object], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.moved = 0
        self._most: int | None = None
        self._rate: int | None = None
        self._tokens = 0.0
        self._filled = clock()
        self._later = later
        self._clock = clock
        self._line: OrderedDict[Callable[[], None], None] = OrderedDict()
        self._ticking = False

    def allow(self, most: int | None, rate: int | None) -> None:
        """From now on. What was moved before counts."""
        if rate != self._rate:
            self._rate, self._tokens, self._filled = rate, self._burst_of(rate), self._clock()
        self._most = most
        self._tick_if_needed()

    @property
    def spent(self) -> bool:
        return self._most is not None and self.moved >= self._most

    def beyond(self, count: int) -> bool:
        """Whether so many bytes more are too many for ever."""
        return self._most is not None and self.moved + count > self._most

    def room(self, most: int, *, waited: bool = False) -> int:
        """Bytes that may be moved now, at most ``most``. Zero rather than a few, and for whoever has not ``waited`` while others do."""
        if self._most is not None:
            most = min(most, self._most - self.moved)
        if self._rate is not None:
            if self._line and not waited:
                return 0
            self._fill()
            most = min(most, int(self._tokens)) if self._tokens >= self._quantum() else 0
        return max(most, 0)

    def move(self, count: int) -> None:
        self.moved += count
        if self._rate is not None:
            self._tokens -= count

    def wait(self, go_on: Callable[[], None]) -> None:
        """Call it when there may be room again: once, for which ``room`` then counts it as ``waited``."""
        self._line[go_on] = None
        self._tick_if_needed()

    def leave(self, go_on: Callable[[], None]) -> None:
        """It waits no more. Idempotent."""
        self._line.pop(go_on, None)

    def _fill(self) -> None:
        assert self._rate is not None
        now = self._clock()
        self._tokens = min(self._burst_of(self._rate), self._tokens + (now - self._filled) * self._rate)
        self._filled = now

    def _burst_of(self, rate: int | None) -> float:
        return max((rate or 0) * BURST_SECONDS, LEAST_BURST)

    def _tick_if_needed(self) -> None:
        if self._line and not self._ticking:
            self._ticking = True
            self._later(self._until_a_quantum(), self._tick)

    def _until_a_quantum(self) -> float:
        if self._rate is None:
            return 0.0
        self._fill()
        return max((self._quantum() - self._tokens) / self._rate, LEAST_WAIT)

    def _quantum(self) -> float:
        """What is waited for: small pieces would cost more than they carry."""
        return max((self._rate or 0) * QUANTUM_SECONDS, LEAST_QUANTUM)

    def _tick(self) -> None:
        self._ticking = False
        if self._rate is None:
            count = len(self._line)
        else:
            self._fill()
            count = min(len(self._line), int(max(self._tokens, 0) / self._quantum()))
        for _ in range(count):
            if self._line:  # whoever goes on may have others leave
                self._line.popitem(last=False)[0]()
        self._tick_if_needed()
