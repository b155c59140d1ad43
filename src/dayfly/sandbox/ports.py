"""A connection to a port inside, opened from the host over the one stream."""

from __future__ import annotations

from contextlib import ExitStack

from dayfly.errors import InputError
from dayfly.sandbox.call import Call
from dayfly.sandbox.inside import FAILURES, Inside
from dayfly.wire import operations as ops
from dayfly.wire.messages import Data, Eof, Event

__all__ = ["PortCalls", "PortConnection"]


class PortConnection:
    """Bytes both ways. Close it, or use it as an asynchronous context manager."""

    def __init__(self, inside: Inside, call: Call) -> None:
        self._inside = inside
        self._call = call
        self._counted = ExitStack()
        self._counted.enter_context(inside.call())  # a sandbox with an open connection is not idle

    async def __aenter__(self) -> PortConnection:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def connected(self) -> None:
        """Wait until the server inside has accepted. Raises ``PortRefused``; then nothing of the connection is left."""
        try:
            while (message := await self._call.next()) is not None:
                if isinstance(message, Event) and message.name == "connected":
                    return
        except FAILURES as caught:
            await self.close()
            raise await self._inside.error(caught) from None
        except BaseException:
            await self.close()
            raise

    async def read(self) -> bytes:
        """The next bytes; empty once the other side has closed."""
        try:
            while (message := await self._call.next()) is not None:
                if isinstance(message, Data):
                    return message.data
                if isinstance(message, Eof):
                    return b""
        except FAILURES as caught:
            await self.close()
            raise await self._inside.error(caught) from None
        await self.close()
        return b""

    async def write(self, data: bytes) -> None:
        """Send all of ``data``. Raises ``ConnectionResetError`` if the other side is gone."""
        if not await self._inside.send(self._call, data):
            raise ConnectionResetError("the connection inside is closed")

    def write_eof(self) -> None:
        """No more bytes from this side."""
        self._call.send_eof(ops.STDIN)

    async def close(self) -> None:
        """Both directions, at once. Idempotent."""
        self._counted.close()
        if not self._call.over:
            self._call.abandon()


class PortCalls:
    """Mixed into ``Life``."""

    _inside: Inside

    async def connect_port(self, port: int) -> PortConnection:
        """Connect to 127.0.0.1:``port`` inside. Raises ``PortRefused`` when nobody listens there."""
        if isinstance(port, bool) or not isinstance(port, int) or not 0 < port < 65536:
            raise InputError(f"not a port: {port!r}")
        with self._inside.call():
            try:
                call = await self._inside.link.open(ops.PORT_CONNECT, {"port": port}, bulk=True, long=True)
            except FAILURES as caught:
                raise await self._inside.error(caught) from None
            connection = PortConnection(self._inside, call)
            await connection.connected()
            return connection
