"""Lines of JSON while something goes on, to a reader who may be slow or gone.

Laws: each line is awaited into the socket before the next is made, so a slow reader holds up what it reads and nothing
else. When the reader is gone, the work is cancelled, and its end is awaited.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any, Protocol, TypeVar

from fastapi.responses import Response

from dayfly.errors import DayflyError
from dayfly.server.answers import json_bytes
from dayfly.server.asgi import Message, Receive, Scope, Send
from dayfly.server.errors import ClientGone, error_body

__all__ = [
    "BINARY",
    "BYTES",
    "EVENTS",
    "NDJSON",
    "Lines",
    "Stream",
    "Target",
    "body_of",
    "described_body",
    "unless_gone",
]

BYTES = "application/octet-stream"
BINARY = {"schema": {"type": "string", "format": "binary"}}

NDJSON = "application/x-ndjson"

EVENTS: dict[int | str, dict[str, Any]] = {200: {"content": {NDJSON: {}}, "description": "Events, one a line."}}
"""For the OpenAPI document: how an answer with a ``Stream`` looks."""

ALIVE_SECONDS = 15.0
"""Of silence until an empty line: proxies cut connections that are silent for a minute."""

START_SECONDS = 0.02
"""Until an answer without a line begins all the same: its reader wants to know that it is being answered."""

T = TypeVar("T")


class Target(Protocol):
    """Takes the numbered events of one run."""

    async def write(self, event: Mapping[str, Any]) -> None: ...


class Lines:
    """The lines of one answer; ``numbered`` ones carry ``n`` from 1. ``start`` goes with the first, or without one soon."""

    def __init__(self, send: Send, start: Message | None, *, numbered: bool = True) -> None:
        self._send = send
        self._start = start
        self._numbered = numbered
        self._count = 0
        self._busy = asyncio.Lock()

    async def write(self, event: Mapping[str, Any]) -> None:
        """One event. Waits while the reader is slow."""
        async with self._busy:
            self._count += 1
            await self._put(json_bytes({"n": self._count, **event} if self._numbered else event))

    async def write_encoded(self, line: bytes) -> None:
        """A line that was made before."""
        async with self._busy:
            await self._put(line)

    async def keep_alive(self) -> None:
        """Until cancelled. While a line waits for its reader nothing is added."""
        await asyncio.sleep(START_SECONDS)
        async with self._busy:
            await self._begin()
        while True:
            await asyncio.sleep(ALIVE_SECONDS)
            if not self._busy.locked():
                await self.write_encoded(b"")

    async def end(self) -> None:
        """No more lines."""
        async with self._busy:  # the beginning may be on its way
            await self._begin()
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _put(self, line: bytes) -> None:
        await self._begin()
        await self._send({"type": "http.response.body", "body": line + b"\n", "more_body": True})

    async def _begin(self) -> None:
        if self._start is not None:
            start, self._start = self._start, None
            await self._send(start)


class Stream(Response):
    """An answer that ``work`` writes, line by line. Its errors become the last line."""

    media_type = NDJSON

    def __init__(self, work: Callable[[Lines], Coroutine[Any, Any, None]], *, numbered: bool = True) -> None:
        super().__init__(None, headers={"x-accel-buffering": "no", "content-type": NDJSON})
        self._work = work
        self._numbered = numbered

    def init_headers(self, headers: Mapping[str, str] | None = None) -> None:
        """Without a length, which nobody knows yet."""
        super().init_headers(headers)
        self.raw_headers = [(name, value) for name, value in self.raw_headers if name != b"content-length"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        start = {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        lines = Lines(send, start, numbered=self._numbered)
        alive = asyncio.ensure_future(lines.keep_alive())
        try:
            await unless_gone(receive, self._told(lines))
        except ClientGone:
            return
        finally:
            alive.cancel()

    async def _told(self, lines: Lines) -> None:
        try:
            await self._work(lines)
        except DayflyError as error:
            await lines.write({"type": "error", **error_body(error)})
        await lines.end()  # here, and not after this task, so that it goes with the last line


async def unless_gone(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """What ``work`` gives. When the client is gone first, ``work`` is cancelled, and ``ClientGone`` raised after its end."""
    working = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_gone(receive))
    try:
        await asyncio.wait({working, gone}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise ClientGone("the caller is gone")
    finally:
        gone.cancel()
        await _cancelled(working)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _cancelled(task: asyncio.Future[Any]) -> None:
    """Cancel it, and wait until it has ended; a caller who is cancelled meanwhile waits no longer, and it ends by itself."""
    if task.done():
        return
    task.cancel()
    with suppress(asyncio.CancelledError):
        await asyncio.wait({task})


def described_body(kind: str = BYTES) -> dict[str, Any]:
    """For the OpenAPI document: a body that ``body_of`` reads."""
    return {"requestBody": {"required": True, "content": {kind: BINARY}}}


async def body_of(receive: Receive) -> AsyncIterator[bytes]:
    """The request's body in pieces. Raises ``ClientGone`` if it breaks off."""
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone("the body broke off")
        if piece := message.get("body", b""):
            yield piece
        more = message.get("more_body", False)
