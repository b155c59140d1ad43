"""HTTP/1.1 over one connection that somebody else has opened: one request after another, bodies in pieces both ways."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

import h11

__all__ = ["Answer", "Broken", "Exchange", "Wire"]

MOST_HEAD = 32 * 1024
"""Bytes of an answer's head: what the gateway itself takes from servers."""

_PIECE = 256 * 1024

Headers = Sequence[tuple[str, str]]


class Broken(Exception):
    """The connection is good for nothing any more. ``str()`` says how it ended."""


class Wire(Protocol):
    """Bytes both ways, such as an ``egress.tunnel.Tunnel``."""

    async def read(self, limit: int) -> bytes: ...
    async def write(self, data: bytes) -> None: ...
    def close(self) -> None: ...


class Answer:
    """A status and a body, which is read to its end before anything else is asked, or left with its connection."""

    def __init__(self, exchange: Exchange, head: h11.Response) -> None:
        self._exchange = exchange
        self.status = head.status_code
        lengths = [value for name, value in head.headers if name == b"content-length"]
        self.length = int(lengths[0]) if lengths else None

    async def pieces(self) -> AsyncIterator[bytes]:
        """Raises ``Broken``, also where it ends too early."""
        while (piece := await self._exchange.piece()) is not None:
            yield piece

    async def whole(self, most: int) -> bytes:
        """What is beyond ``most`` bytes is not read. Raises ``Broken``."""
        found = bytearray()
        async for piece in self.pieces():
            found += piece
            if len(found) > most:
                raise Broken(f"more than {most} bytes came where few are due")
        return bytes(found)


class Exchange:
    def __init__(self, wire: Wire, host: str) -> None:
        self._wire = wire
        self._host = host
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=MOST_HEAD)

    @property
    def ready(self) -> bool:
        """Whether something may be asked."""
        return self._http.states == {h11.CLIENT: h11.IDLE, h11.SERVER: h11.IDLE}

    async def ask(
        self, method: str, target: str, headers: Headers = (), body: AsyncIterator[bytes] | None = None
    ) -> Answer:
        """``headers`` say how long the body is, if there is one. An answer before its end is an answer. Raises ``Broken``, and what
        ``body`` raises, after which nothing more can be asked."""
        head = h11.Request(method=method, target=target, headers=[("host", self._host), *headers])
        try:
            await self._wire.write(self._http.send(head) or b"")
            async for piece in body if body is not None else _nothing():
                if piece:
                    await self._wire.write(self._http.send(h11.Data(data=piece)) or b"")
            self._http.send(h11.EndOfMessage())
        except h11.LocalProtocolError as error:
            raise Broken(f"the request was not what it said: {error}") from None
        except OSError:  # whoever does not want to hear more may have said why
            pass
        return Answer(self, await self._head())

    async def _head(self) -> h11.Response:
        while True:
            event = await self._next()
            if isinstance(event, h11.Response):
                return event
            if not isinstance(event, h11.InformationalResponse):
                raise Broken("it ended before an answer")

    async def piece(self) -> bytes | None:
        """Of the answer's body; ``None`` at its end. Raises ``Broken``."""
        event = await self._next()
        if isinstance(event, h11.Data):
            return bytes(event.data)
        if not isinstance(event, h11.EndOfMessage):
            raise Broken("it ended in the middle of an answer")
        if self._http.states == {h11.CLIENT: h11.DONE, h11.SERVER: h11.DONE}:
            self._http.start_next_cycle()
        return None

    async def _next(self) -> object:
        try:
            while (event := self._http.next_event()) is h11.NEED_DATA:
                self._http.receive_data(await self._wire.read(_PIECE))
            return event
        except (h11.RemoteProtocolError, OSError) as error:
            raise Broken(f"it broke off: {error}") from None

    def close(self) -> None:
        """Idempotent."""
        self._wire.close()


async def _nothing() -> AsyncIterator[bytes]:
    return
    yield b""
