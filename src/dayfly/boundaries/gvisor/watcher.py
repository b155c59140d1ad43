"""One thread that looks at every live cell of this process when it is due.

A thread, and not a task: a caller that blocks its event loop must not thereby lift the limits of its sandboxes.
"""

from __future__ import annotations

import heapq
import itertools
import os
import threading
import time
from collections.abc import Callable

__all__ = ["watch"]

AGAIN = 0.05
"""Seconds until the next look after one that failed: the cell is not thereby free of its limits."""

Look = Callable[[], float | None]
"""Looks once; returns the seconds until the next look, or ``None`` when there is nothing left to look at."""


class _Watcher:
    def __init__(self) -> None:
        self._due: list[tuple[float, int, Look]] = []
        self._order = itertools.count()
        self._changed = threading.Condition()
        self._running = False

    def add(self, look: Look) -> None:
        with self._changed:
            heapq.heappush(self._due, (time.monotonic(), next(self._order), look))
            if not self._running:
                self._running = True
                threading.Thread(target=self._run, name="dayfly-watcher", daemon=True).start()
            self._changed.notify()

    def _run(self) -> None:
        while (look := self._next()) is not None:
            try:
                pause = look()
            except Exception:  # noqa: BLE001 - nobody else would keep the limits of all the other cells
                pause = AGAIN
            if pause is not None:
                with self._changed:
                    heapq.heappush(self._due, (time.monotonic() + pause, next(self._order), look))

    def _next(self) -> Look | None:
        """Waits for the next look that is due; ``None`` when no cell is left, and the thread ends."""
        with self._changed:
            while self._due:
                left = self._due[0][0] - time.monotonic()
                if left <= 0:
                    return heapq.heappop(self._due)[2]
                self._changed.wait(left)
            self._running = False
            return None


_watcher = _Watcher()


def watch(look: Look) -> None:
    """Call ``look`` from the watcher's thread now and then whenever it says. It must not block."""
    _watcher.add(look)


def _forget() -> None:
    """In a forked child: its parent's cells are not its own to watch."""
    global _watcher
    _watcher = _Watcher()


os.register_at_fork(after_in_child=_forget)
