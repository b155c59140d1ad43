"""What goes on in a run or a command, as numbered lines of JSON: none is missing, and the last one is the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

from dayfly.client.remote.ahead import Ahead
from dayfly.client.remote.failures import BadAnswer, ServerUnreachable
from dayfly.client.remote.held import Held
from dayfly.client.remote.http import Answer
from dayfly.client.remote.lines import Lines
from dayfly.client.remote.values import Fields
from dayfly.client.streams import closing
from dayfly.errors import DayflyError

__all__ = ["NDJSON", "Events"]

FINISH_SECONDS = 1.0
"""For an answer to end after its last event, which is known already."""

NDJSON = {"accept": "application/x-ndjson"}


class Events:
    """A request that is answered with events; ``how`` is that of ``Http.send``. Whoever waits for the next one may be
    cancelled: nothing is lost, not even the request."""

    def __init__(self, held: Held, method: str, rest: str, **how: Any) -> None:
        self._held = held
        self._answer: Answer | None = None
        self._pieces = Ahead(self._asked(method, rest, how))
        self._lines = Lines(held.line_cap)
        self._fresh: Iterator[bytes] = iter(())
        self._count = 0
        self._end: Fields | None = None
        self._over = False

    async def next(self) -> Fields | None:
        """The next event; ``None`` after the end, or an error. Raises the error that a line names, and whatever a request does."""
        if self._over:
            return None
        try:
            if self._end is None:
                one = await self._next()
                if one.text("type") != "end":
                    return one
                self._end = one
            await self._finish()
        except DayflyError:
            self._over = True
            raise
        self._over = True
        return self._end

    async def _next(self) -> Fields:
        line = await self._line()
        if line is None:
            raise await self._held.why(ServerUnreachable("the server broke a stream off", remedy="try again"))
        one = self._held.object(line)
        self._count += 1
        if one.whole("n") != self._count:
            raise BadAnswer(f"event {one.whole('n')} came where {self._count} should")
        return one

    async def _line(self) -> bytes | None:
        while (line := next(self._fresh, None)) is None:
            piece = await self._pieces.next()
            if piece is None:
                return None
            self._fresh = self._lines.feed(piece)
        return line

    async def _finish(self) -> None:
        """Read what comes after the end, which is nothing: only then can the connection be used again. All was said before."""
        assert self._answer is not None
        try:
            async with asyncio.timeout(FINISH_SECONDS):
                more = next(self._fresh, None) or (None if self._answer.read else await self._line())
        except BadAnswer:
            raise
        except (DayflyError, TimeoutError):
            return
        if more:
            raise BadAnswer("an event came after the end")

    async def _asked(self, method: str, rest: str, how: dict[str, Any]) -> AsyncIterator[bytes]:
        self._answer = await self._held.send(method, rest, headers=NDJSON, **how)
        async with closing(self._held.pieces(self._answer)) as pieces:
            async for piece in pieces:
                yield piece

    async def close(self) -> None:
        """Break it off. Idempotent."""
        await self._pieces.close()
