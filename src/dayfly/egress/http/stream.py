"""The sandbox's side of a connection that the gateway itself answers: bytes both ways, counted and held to the rule's caps."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from contextlib import suppress

from dayfly.egress.meter import Meter

__all__ = ["PIECE", "Pace", "Spent", "Stream", "abort", "accepted"]

PIECE = 256 * 1024
"""Bytes that are read at once, and that wait for a client who does not read."""

TAKEN_SECONDS = 600.0
"""For a client to take a piece that was written: as long as a server may be silent between two. One that has stopped reading would
hold its connection, and megabytes of an answer, for ever."""

LEAVE_SECONDS = 2.0
"""For a client to take the last bytes and to say that it has understood the end of TLS."""

TURN_SECONDS = 0.001
"""Of work on what is there already, until everybody else has a turn."""


class Pace:
    """Of whoever goes through what was read in small pieces, which waits for nothing: a quarter of a megabyte of the smallest ones
    takes seconds, in which no other sandbox would hear anything."""

    def __init__(self) -> None:
        self._since = time.perf_counter()

    async def step(self) -> None:
        """Between two pieces."""
        if time.perf_counter() - self._since >= TURN_SECONDS:
            await asyncio.sleep(0)
            self._since = time.perf_counter()


class Spent(Exception):
    """No byte more may be moved: ``max_bytes`` are used up."""


class Stream:
    """``sent`` and ``received`` are bytes of HTTP, as the sandbox sees them: from it, and to it. ``meter`` may be changed."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, meter: Meter) -> None:
        self.meter = meter
        self.sent = 0
        self.received = 0
        self._reader = reader
        self._writer = writer
        self._held = b""  # read, and not yet anybody's: who waits for the meter may be cancelled

    async def read(self) -> bytes:
        """``b""`` at the end. Raises ``OSError``, ``Spent``."""
        self._held = self._held or await self._reader.read(PIECE)
        await self._pass(len(self._held))
        data, self._held = self._held, b""
        self.sent += len(data)
        return data

    async def write(self, data: bytes) -> None:
        """Raises ``OSError``, ``Spent``, and ``EOFError`` for a client that does not take it."""
        await self._pass(len(data))
        self._writer.write(data)
        try:
            async with asyncio.timeout(TAKEN_SECONDS):
                await self._writer.drain()
        except TimeoutError:
            raise EOFError from None
        self.received += len(data)

    async def close(self) -> None:
        """What was written has gone, or the client does not take it."""
        with suppress(OSError):  # which those of TLS and of time are as well
            async with asyncio.timeout(LEAVE_SECONDS):
                self._writer.close()
                await self._writer.wait_closed()
        self.abort()

    def abort(self) -> None:
        """Idempotent."""
        abort(self._writer)

    async def _pass(self, count: int) -> None:
        if self.meter.beyond(count):
            raise Spent
        waited = False
        while count:
            room = self.meter.room(count, waited=waited)
            self.meter.move(room)
            count -= room
            if count and self.meter.spent:
                raise Spent
            if count:
                await self._turn()
                waited = True

    async def _turn(self) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def go_on() -> None:
            if not turn.done():
                turn.set_result(None)

        meter = self.meter
        meter.wait(go_on)
        try:
            await turn
        finally:
            meter.leave(go_on)


def abort(writer: asyncio.StreamWriter) -> None:
    """Idempotent."""
    _abort(writer.transport)


def _abort(transport: asyncio.WriteTransport) -> None:
    with suppress(AttributeError):  # of Python 3.11, for TLS that has ended already
        transport.abort()


class _Client(asyncio.StreamReaderProtocol):
    """``made``: what it is connected by, after the handshake."""

    made: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self.made = transport
        super().connection_made(transport)


async def accepted(
    end: socket.socket, context: ssl.SSLContext | None, seconds: float
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """The client at ``end``, which is the stream's from now on; with ``context`` after a handshake. Raises ``OSError``, which
    ``ssl.SSLError`` is one of."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(PIECE, loop)
    protocol = _Client(reader, loop=loop)
    options = {"ssl": context, "ssl_handshake_timeout": seconds} if context else {}
    try:
        transport, _ = await loop.connect_accepted_socket(lambda: protocol, end, **options)  # type: ignore[arg-type]
    except BaseException:
        if protocol.made is not None:  # given up in this moment, which asyncio would tell the client, and wait
            _abort(protocol.made)  # the loop is to know nothing of a number that may be somebody else's next
        raise
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)
