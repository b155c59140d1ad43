"""An event loop whose clock is held: time passes only when nothing else can happen, and then at once."""

from __future__ import annotations

import asyncio
import selectors
from typing import Any

__all__ = ["HeldClockLoop"]


class _JumpingSelector(selectors.DefaultSelector):
    """Instead of sleeping until the next timer, moves the loop's clock there."""

    loop: HeldClockLoop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready: list[tuple[selectors.SelectorKey, int]] = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None or self.loop.threads_at_work:
            return list(super().select(None))  # no timer at all, or real work is awaited: only I/O can wake us
        self.loop.pass_time(timeout)
        return ready


class HeldClockLoop(asyncio.SelectorEventLoop):
    """For tests without real I/O: an hour of deadlines takes milliseconds, and no test sleeps.

    Work in threads (``run_in_executor``) takes no time: however slow the machine is, no deadline passes meanwhile.
    """

    def __init__(self) -> None:
        self._held = 1000.0
        self.threads_at_work = 0
        selector = _JumpingSelector()
        selector.loop = self
        super().__init__(selector)

    def time(self) -> float:
        return self._held

    def pass_time(self, seconds: float) -> None:
        """Move the clock."""
        self._held += seconds

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:  # type: ignore[override]
        """See ``asyncio``; the clock stands still until it is done."""
        work = super().run_in_executor(executor, func, *args)
        self.threads_at_work += 1
        work.add_done_callback(self._work_done)
        return work

    def _work_done(self, work: object) -> None:
        self.threads_at_work -= 1

    def __repr__(self) -> str:
        return f"<HeldClockLoop at {self._held:.3f}>"
