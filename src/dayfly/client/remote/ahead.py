"""Reading a stream so that whoever waits for it may be cancelled, and handing on what it brings."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from typing import Any, Generic, TypeVar

from dayfly.client.streams import closing

__all__ = ["Ahead", "Handing"]

T = TypeVar("T")

LATE_SECONDS = 1.0
"""After the end of a run's time: until then the server has stopped it, and what a sink still holds up is given up."""


class Ahead(Generic[T]):
    """An async iterator, read in tasks of its own: a cancelled ``next`` loses nothing, and may be called again."""

    def __init__(self, source: AsyncIterator[T]) -> None:
        self._source = source
        self._coming: asyncio.Task[T | None] | None = None

    async def next(self) -> T | None:
        """The next item; ``None`` at the end. Raises what the source raises."""
        if self._coming is None:
            self._coming = asyncio.ensure_future(_next(self._source))
        coming = self._coming
        await asyncio.wait({coming})
        self._coming = None
        return coming.result()

    async def close(self) -> None:
        """Break the source off. Idempotent."""
        coming, self._coming = self._coming, None
        if coming is not None:
            coming.cancel()
            await asyncio.gather(coming, return_exceptions=True)
        async with closing(self._source):
            pass


async def _next(source: AsyncIterator[T]) -> T | None:
    return await anext(source, None)


class Handing:
    """Waits for a sink to take what is handed to it, up to a moment: a sink that hangs must not delay the end of a run."""

    def __init__(self, seconds: float | None) -> None:
        loop = asyncio.get_running_loop()
        self._until = None if seconds is None else loop.time() + seconds + LATE_SECONDS
        self._late = False

    async def over(self, taking: Coroutine[Any, Any, None]) -> None:
        """Raises what the sink raises."""
        if self._late:
            taking.close()
            return
        left = None if self._until is None else max(0.0, self._until - asyncio.get_running_loop().time())
        task = asyncio.ensure_future(taking)
        try:
            await asyncio.wait({task}, timeout=left)
        finally:
            if not task.done():
                task.cancel()
                task.add_done_callback(lambda late: late.cancelled() or late.exception())  # nobody asks any more
        if task.done():
            task.result()
        self._late = not task.done()
