"""A server that writes down who came and what was said: what nobody was to reach is still empty at the end."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

__all__ = ["Canary", "Visit", "echo", "until"]


@dataclass
class Visit:
    """One connection. ``eof``: the visitor said that nothing follows; ``broken``: it was reset."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    said: bytearray = field(default_factory=bytearray)
    eof: bool = False
    broken: bool = False
    over: asyncio.Event = field(default_factory=asyncio.Event)

    async def read(self, most: int = 65536) -> bytes:
        data = await self.reader.read(most)
        self.said += data
        return data

    def reset(self) -> None:
        """End it as a crash does."""
        connection = self.writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    async def read_all(self) -> None:
        while await self.read():
            pass
        self.eof = True


Behave = Callable[[Visit], Awaitable[None]]


async def echo(visit: Visit) -> None:
    while data := await visit.read():
        visit.writer.write(data)
        await visit.writer.drain()
    visit.eof = True


class Canary:
    def __init__(self, behave: Behave = echo) -> None:
        self.visits: list[Visit] = []
        self.behave = behave
        self.port = 0
        self._server: asyncio.Server | None = None
        self._came = asyncio.Condition()

    async def listen(self, on: socket.socket | None = None, tls: ssl.SSLContext | None = None) -> Canary:
        """On a listening socket of somebody's, or on a port of 127.0.0.1."""
        on = on or socket.create_server(("127.0.0.1", 0))
        self._server = await asyncio.start_server(self._visited, sock=on, ssl=tls)
        self.port = on.getsockname()[1]
        return self

    async def _visited(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        visit = Visit(reader, writer)
        self.visits.append(visit)
        async with self._came:
            self._came.notify_all()
        try:
            await self.behave(visit)
        except ConnectionError:
            visit.broken = True
        finally:
            visit.over.set()
            writer.close()

    async def visit(self, number: int = 0) -> Visit:
        async with self._came:
            await asyncio.wait_for(self._came.wait_for(lambda: len(self.visits) > number), 10)
        return self.visits[number]

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for visit in self.visits:
            visit.writer.close()


async def until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    """For what no event tells: what the kernel lists of a process."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.005)
