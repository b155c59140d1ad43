"""The life of one cell on an event loop: its reason, its end, and that everything is cleared away exactly once.

What a boundary knows about its own cells stays behind ``Body``; none of that needs a loop.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Protocol

from dayfly.boundaries.base import CellEnd
from dayfly.boundaries.pipes import PipeStream
from dayfly.boundaries.processes import Child
from dayfly.spec import EndReason

__all__ = ["Body", "CellLife"]


class Body(Protocol):
    """What a cell has on the host. Any thread may call ``strike``; the others are called when the child has ended."""

    @property
    def process(self) -> Child:
        """The process whose end is the cell's."""
        ...

    def strike(self) -> None:
        """SIGKILL everything, without waiting. Idempotent."""
        ...

    def natural_end(self) -> CellEnd:
        """Why it ended if nobody here ended it."""
        ...

    def clear(self) -> None:
        """Remove whatever is left. Idempotent; may block for some 10 ms."""
        ...


class CellLife:
    """``wait``, ``kill`` and ``close`` of a ``Cell``. Make it on the loop that will use it."""

    def __init__(self, body: Body, stream: PipeStream) -> None:
        self._body = body
        self._stream = stream
        self._deciding = threading.Lock()
        self._decided: CellEnd | None = None
        self._end = asyncio.ensure_future(self._supervise())

    @property
    def state(self) -> str:
        """``running``, or the reason of the end."""
        if not self._end.done() or self._end.cancelled() or self._end.exception():
            return "running" if not self._end.done() else "lost"
        return self._end.result().reason.value

    async def wait(self) -> CellEnd:
        return await asyncio.shield(self._end)

    async def kill(self, reason: EndReason = EndReason.STOPPED, detail: str = "") -> CellEnd:
        self.end(reason, detail)
        self._stream.close()
        return await self.wait()

    async def close(self, grace: float) -> CellEnd:
        self._decide(EndReason.STOPPED, "")
        self._stream.close()
        try:
            async with asyncio.timeout(grace):
                return await self.wait()
        except TimeoutError:
            return await self.kill()

    def end(self, reason: EndReason, detail: str) -> None:
        """Strike it down for ``reason``, from any thread. The first reason wins."""
        self._decide(reason, detail)
        self._body.strike()

    def _decide(self, reason: EndReason, detail: str) -> None:
        """Unless that is settled: by an earlier reason, or because it has ended by itself."""
        with self._deciding:
            if self._decided is None and not self._body.process.wait(0):
                self._decided = CellEnd(reason, detail)

    async def _supervise(self) -> CellEnd:
        try:
            await self._body.process.ended()
            end = self._decided or self._body.natural_end()
            try:
                await self._clear()
            except OSError as error:  # the cell is gone all the same; ``sweep`` will try again
                return CellEnd(end.reason, f"{end.detail}; not everything could be removed: {error}".lstrip("; "))
            return end
        except asyncio.CancelledError:  # the loop is shutting down: there will be no other moment
            self._stream.close()
            self._body.clear()
            raise

    async def _clear(self) -> None:
        try:
            await asyncio.to_thread(self._body.clear)
        except RuntimeError:  # no thread can be started
            self._body.clear()
        except OSError:
            self._body.clear()  # if it was not even begun: the first thread of a loop loads modules
            raise
