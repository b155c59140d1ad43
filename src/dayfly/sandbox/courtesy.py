"""Who uses much CPU lets those go first who use little.

A sandbox has a little CPU time in hand; it gets more with each call, and slowly with time. While it has some it is like any
other. When that is used up it runs only where nobody else wants to, until it has gained some again. So a run of a moment
does not wait for those that go on for minutes, and they get what is left: all of it, where nobody else is. Where a boundary
does not offer that, all of this counts for nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from dayfly.boundaries.base import Cell

__all__ = ["BURST", "PER_CALL", "SHARE", "Courtesy", "Credit"]

BURST = 0.25
"""CPU seconds in hand at most: some eighty trivial runs, or the start of a kernel."""

PER_CALL = 0.02
"""CPU seconds that a call brings. A trivial run uses 0.003."""

ENOUGH = PER_CALL / 2
"""CPU seconds in hand with which it comes forward: for three trivial runs."""

CALLS_SHARE, CALLS_BURST = 0.5, BURST + PER_CALL
"""CPU seconds that calls bring in a second at most, and at once: as many trivial runs as can be made one after the other use
less. Many calls that want nothing are not to buy a hog its place; a single one brings forward whoever has used too much."""

SHARE = 0.02
"""CPU seconds that a second brings: what a sandbox has of the machine at least, however many others want it."""

SHORTEST, LONGEST = 0.05, 1.0
"""Seconds between looks: a look takes 0.1 ms."""


class Credit:
    """CPU seconds in hand; a token bucket. Pure. ``now`` in seconds of one clock, ``used`` in CPU seconds so far."""

    def __init__(self) -> None:
        self.left = BURST
        self.behind = False
        """Whether the others go first."""
        self._seen: tuple[float, float] | None = None
        self._for_calls = CALLS_BURST
        self._called = 0.0

    def call(self, now: float) -> None:
        """Somebody wants something of it."""
        self._for_calls = min(CALLS_BURST, self._for_calls + CALLS_SHARE * max(0.0, now - self._called))
        self._called = now
        brought = min(PER_CALL - min(self.left, 0.0), self._for_calls)
        self._for_calls -= brought
        self._add(brought)

    def look(self, now: float, used: float) -> None:
        """So much has been used by now. Time brings nothing to one that uses its share meanwhile, also behind the others."""
        then, before = self._seen or (now, used)
        self._seen = (now, used)
        self._add(SHARE * (now - then) - (used - before))

    def _add(self, seconds: float) -> None:
        """What was used too much before it was noticed is owed. Behind the others nothing is."""
        least = min(self.left, 0.0) if self.behind else -BURST
        self.left = min(BURST, max(least, self.left + seconds))
        if self.left <= 0.0:
            self.behind = True
        elif self.left >= ENOUGH:
            self.behind = False


class Courtesy:
    """Has one cell step behind others and forward again, on the running loop. While it ``is_frozen`` it is not looked at."""

    def __init__(self, cell: Cell, cpus: float, is_frozen: Callable[[], bool]) -> None:
        self._cell = cell
        self._cpus = cpus
        self._is_frozen = is_frozen
        self._credit = Credit()
        self._behind = False  # really: not where that is not offered
        self._changed = float("-inf")
        self._timer: asyncio.TimerHandle | None = None
        self._over = False

    def was_behind(self, seconds: float) -> bool:
        """Whether others went first at some time in the last so many seconds."""
        return self._behind or asyncio.get_running_loop().time() - self._changed < seconds

    def called(self) -> None:
        """A call begins."""
        was = self._credit.behind
        self._credit.call(asyncio.get_running_loop().time())
        self._settle()
        if was != self._credit.behind or self._timer is None:
            self._look_soon()

    def end(self) -> None:
        """It is gone."""
        self._over = True
        self._calm()

    def _calm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look_soon(self) -> None:
        self._calm()
        if not self._over:
            self._timer = asyncio.get_running_loop().call_later(self._pause, self._look)

    def _look(self) -> None:
        if self._is_frozen():  # until somebody calls
            self._timer = None
            return
        self._credit.look(asyncio.get_running_loop().time(), self._cell.usage().cpu_seconds or 0.0)
        self._settle()
        self._look_soon()

    @property
    def _pause(self) -> float:
        """Seconds until it may have used up what it has."""
        return LONGEST if self._credit.behind else min(LONGEST, max(SHORTEST, self._credit.left / self._cpus))

    def _settle(self) -> None:
        """Tried again and again where it fails."""
        behind = self._credit.behind
        if behind != self._behind and self._cell.step_behind(behind):
            self._behind = behind
            self._changed = asyncio.get_running_loop().time()
