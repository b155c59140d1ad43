"""A connection to a server inside."""

from __future__ import annotations

import asyncio
import weakref
from contextlib import suppress
from typing import Any, Self

from dayfly.client.arguments import bytes_of
from dayfly.client.backend import Backend
from dayfly.errors import PortClosed

__all__ = ["AsyncPort"]


class AsyncPort:
    """Bytes both ways between the caller and a port inside. Made by ``sandbox.connect_port``; a context manager."""

    def __init__(self, sandbox: object, connection: Any) -> None:
        self._sandbox = sandbox  # kept, so that the sandbox lives as long as this is used
        self._connection = connection
        self._forgotten = weakref.finalize(self, _close_later, asyncio.get_running_loop(), connection)
        self._forgotten.atexit = False

    @classmethod
    async def connect(cls, sandbox: object, backend: Backend, port: int) -> AsyncPort:
        """See ``AsyncSandbox.connect_port``."""
        return cls(sandbox, await backend.connect_port(port))

    async def read(self) -> bytes:
        """The next bytes, as they come; empty once the other side has closed. Raises ``SandboxEnded``."""
        data: bytes = await self._connection.read()
        return data

    async def write(self, data: bytes) -> None:
        """Send all of it. Raises ``PortClosed`` if the other side is gone, ``InputError`` if it is not bytes."""
        try:
            await self._connection.write(bytes_of("data", data, text=False))
        except ConnectionError as error:
            raise PortClosed("the server inside has closed the connection", remedy="connect again") from error

    async def write_eof(self) -> None:
        """No more bytes from this side."""
        self._connection.write_eof()

    async def close(self) -> None:
        """Both directions at once. Idempotent."""
        self._forgotten.detach()
        await self._connection.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def _close_later(loop: asyncio.AbstractEventLoop, connection: Any) -> None:
    """One that nobody can close any more must not keep its place. Called on any thread."""
    with suppress(RuntimeError):  # the loop is closed, and the sandbox with it
        loop.call_soon_threadsafe(lambda: asyncio.ensure_future(connection.close()))
