"""Changes of files inside, as they happen."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import NamedTuple, Self

__all__ = ["AsyncWatch", "Change"]


class Change(NamedTuple):
    """``kind`` is created, modified, removed, renamed (``path`` is the new name) or overflow (some were lost)."""

    kind: str
    path: str


class AsyncWatch:
    """Changes as they happen: an async iterator of ``Change``, and a context manager that closes it."""

    def __init__(self, sandbox: object, source: AsyncIterator[tuple[str, str]]) -> None:
        self._sandbox = sandbox  # kept, so that the sandbox lives as long as this is used
        self._source = source
        self._waiting: asyncio.Future[tuple[str, str]] | None = None
        self._closed = False

    async def ready(self) -> None:
        """Wait until the sandbox watches. Called by ``files.watch``."""
        await anext(self._source, None)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Change:
        if self._closed:
            raise StopAsyncIteration
        waiting = self._waiting = asyncio.ensure_future(_next(self._source))
        try:
            return Change(*await waiting)
        except asyncio.CancelledError:
            if self._closed and waiting.cancelled():  # by ``close``, and not whoever waits here
                raise StopAsyncIteration from None
            raise
        finally:
            self._waiting = None

    async def next(self) -> Change | None:
        """The next change, or ``None`` once the watch is closed."""
        return await anext(self, None)

    async def close(self) -> None:
        """Stop watching; a ``next`` that is under way ends. Idempotent."""
        self._closed = True
        if self._waiting is not None:
            self._waiting.cancel()
            await asyncio.wait({self._waiting})
        close: Callable[[], object] | None = getattr(self._source, "aclose", None)
        if close is not None:
            await close()  # type: ignore[misc]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


async def _next(source: AsyncIterator[tuple[str, str]]) -> tuple[str, str]:
    return await anext(source)
