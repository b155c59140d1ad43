"""Who uses much CPU lets those go first who use little.

A sandbox has a little CPU time in hand; it gets more with each call, and slowly with time. While it has some it is like any
other. When that is used up it runs only where nobody else wants to, until it has gained some again. So a run of a moment
does not wait for those that go on for minutes, and they get what is left: all of it, where nobody else is.
"""

from __future__ import annotations

import asyncio

from dayfly.boundaries.base import Cell

__all__ = ["BURST", "PER_CALL", "SHARE", "Courtesy", "Credit"]

BURST = 0.25
"""CPU seconds in hand at most: some eighty trivial runs, or the start of a kernel."""

PER_CALL = 0.02
"""CPU seconds that a call brings. A trivial run uses 0.003."""

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

    def call(self) -> None:
        """Somebody wants something of it."""
        self._add(PER_CALL)

    def look(self, now: float, used: float) -> None:
        """So much has been used by now. One that got its share while others went first gains nothing by it."""
        then, before = self._seen or (now, used)
        self._seen = (now, used)
        self._add(SHARE * (now - then) - (used - before))

    def _add(self, seconds: float) -> None:
        self.left = min(BURST, max(0.0, self.left + seconds))
        if self.left == 0.0:
            self.behind = True
        elif self.left >= PER_CALL:
            self.behind = False


class Courtesy:
    """Has one cell step behind others and forward again, on the running loop. One that is frozen is not looked at."""

    def __init__(self, cell: Cell, cpus: float) -> None:
        self._cell = cell
        self._cpus = cpus
        self._credit = Credit()
        self._used = -1.0  # at the last look
        self._forward_since = float("-inf")
        self._timer: asyncio.TimerHandle | None = None

    def was_behind(self, seconds: float) -> bool:
        """Whether others went first at some time in the last so many seconds."""
        return self._credit.behind or asyncio.get_running_loop().time() - self._forward_since < seconds

    def called(self) -> None:
        """A call begins."""
        was = self._credit.behind
        self._credit.call()
        self._settle(was)
        if was or self._timer is None:
            self._look_in(max(SHORTEST, self._credit.left / self._cpus))

    def end(self) -> None:
        """It is gone."""
        if self._timer is not None:
            self._timer.cancel()

    def _look_in(self, seconds: float) -> None:
        self.end()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._look)

    def _look(self) -> None:
        was, before = self._credit.behind, self._used
        self._used = used = self._cell.usage().cpu_seconds or 0.0
        self._credit.look(asyncio.get_running_loop().time(), used)
        self._settle(was)
        if used == before:  # it is frozen, until somebody calls
            self._timer = None
        else:
            self._look_in(LONGEST if self._credit.behind else max(SHORTEST, self._credit.left / self._cpus))

    def _settle(self, was: bool) -> None:
        if self._credit.behind != was:
            self._cell.step_behind(not was)
            self._forward_since = asyncio.get_running_loop().time()
