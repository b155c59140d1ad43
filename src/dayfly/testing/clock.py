"""An event loop whose clock is held: time passes only when nothing else can happen, and then at once."""

from __future__ import annotations

import asyncio
import selectors

__all__ = ["HeldClockLoop"]


class _JumpingSelector(selectors.DefaultSelector):
    """Instead of sleeping until the next timer, moves the loop's clock there."""

    loop: HeldClockLoop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready: list[tuple[selectors.SelectorKey, int]] = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None:
            return list(super().select(None))  # no timer at all: only I/O can wake us
        self.loop.pass_time(timeout)
        return ready


class HeldClockLoop(asyncio.SelectorEventLoop):
    """For tests without real I/O: an hour of deadlines takes milliseconds, and no test sleeps."""

    def __init__(self) -> None:
        self._held = 1000.0
        selector = _JumpingSelector()
        selector.loop = self
        super().__init__(selector)

    def time(self) -> float:
        return self._held

    def pass_time(self, seconds: float) -> None:
        """Move the clock."""
        self._held += seconds

    def __repr__(self) -> str:
        return f"<HeldClockLoop at {self._held:.3f}>"
