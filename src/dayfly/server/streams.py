"""Lines of JSON while something goes on, to a reader who may be slow or gone.

Laws: what is held for a reader is bounded, and awaited into the socket before more is made, so a slow one holds up what it
reads and nothing else. When the reader is gone, the work is cancelled, and its end is awaited.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any, Protocol, TypeVar

from fastapi import HTTPException
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

GATHER_SECONDS = 0.003
"""That a line waits for others: longer than a trivial run takes, shorter than anybody sees."""

MOST_HELD = 64 * 1024
"""Bytes of lines that wait, and one line more, which may be a picture: a whole piece of what is printed in bulk."""

T = TypeVar("T")


class Target(Protocol):
    """Takes the numbered events of one run."""

    async def write(self, event: Mapping[str, Any]) -> None: ...


class Lines:
    """The lines of one answer; ``numbered`` ones carry ``n`` from 1. ``start`` goes with the first, or without one soon.

    They are held for a moment, so that a short run's are one packet: ``begin`` before the first, ``end`` or ``cut`` after all.
    A task of its own sends them: who is cancelled while waiting for that takes no line along.
    """

    def __init__(self, send: Send, start: Message | None, *, numbered: bool = True) -> None:
        self._send = send
        self._start = start
        self._numbered = numbered
        self._count = 0
        self._held = bytearray()
        self._over = False
        self._timer: asyncio.TimerHandle | None = None
        self._sending: asyncio.Future[None] | None = None

    def begin(self) -> None:
        """The answer begins soon, with a line or without."""
        self._wake_in(START_SECONDS)

    async def write(self, event: Mapping[str, Any]) -> None:
        """One event. Waits while the reader is slow."""
        self._count += 1
        await self.write_encoded(json_bytes({"n": self._count, **event} if self._numbered else event))

    async def write_encoded(self, line: bytes) -> None:
        """A line that was made before."""
        if self._over:
            return
        if not self._held and self._sending is None:
            self._wake_in(GATHER_SECONDS)
        self._held += line
        self._held += b"\n"
        while len(self._held) >= MOST_HELD and not self._over:
            await self.flush()

    async def flush(self) -> None:
        """Have sent what is held, or what was held before that."""
        if self._over:
            return
        sending = self._sending = self._sending or asyncio.ensure_future(self._send_held())
        await asyncio.wait({sending})  # neither's cancellation is the other's
        if not sending.cancelled():
            sending.result()

    async def end(self) -> None:
        """No more lines."""
        while self._sending is not None:
            await self.flush()
        data, self._held, self._over = bytes(self._held), bytearray(), True
        self._calm()
        await self._begin()
        await self._send({"type": "http.response.body", "body": data, "more_body": False})

    async def cut(self) -> None:
        """Nobody reads any more. Idempotent, and harmless after ``end``."""
        self._over = True
        self._held.clear()
        self._calm()
        sending, self._sending = self._sending, None
        if sending is not None:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)

    async def _send_held(self) -> None:
        try:
            await self._begin()
            if self._held:
                data, self._held = bytes(self._held), bytearray()
                await self._send({"type": "http.response.body", "body": data, "more_body": True})
        finally:
            self._sending = None
            self._wake_in(GATHER_SECONDS if self._held else ALIVE_SECONDS)

    def _wake_in(self, seconds: float) -> None:
        self._calm()
        if not self._over:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._wake)

    def _calm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _wake(self) -> None:
        if self._sending is not None:  # a slow reader: what comes after that has its own time
            return
        if not self._held and self._start is None:
            self._held += b"\n"
        self._sending = asyncio.ensure_future(self._send_held())

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
        lines.begin()
        try:
            await unless_gone(receive, self._told(lines))
        except ClientGone:
            return
        finally:
            await lines.cut()

    async def _told(self, lines: Lines) -> None:
        try:
            await self._work(lines)
        except DayflyError as error:
            await lines.write({"type": "error", **error_body(error)})
        await lines.end()  # here, and not after this task, so that it goes with the last line


async def unless_gone(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """What ``work`` gives. When the client is gone first, ``work`` is cancelled, and ``ClientGone`` raised after its end."""
    task = asyncio.current_task()
    assert task is not None
    over = told = seen = False

    def stop(_: asyncio.Future[None]) -> None:
        nonlocal told
        if not over:
            told = task.cancel()

    gone = asyncio.ensure_future(_gone(receive))
    gone.add_done_callback(stop)
    try:
        return await work
    except asyncio.CancelledError:
        seen = told
        if told and task.uncancel() == 0:  # and nobody else cancels it
            raise ClientGone("the caller is gone") from None
        raise
    finally:
        over = True
        gone.cancel()
        if told and not seen:  # the work made something else of it
            task.uncancel()


async def _gone(receive: Receive) -> None:
    with suppress(HTTPException):  # more of a body than there may be
        while (await receive())["type"] != "http.disconnect":
            pass


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
