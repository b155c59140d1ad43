"""A connection to a port inside, over a WebSocket: each binary message is the next bytes, an empty one is the end of input."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from dayfly.client.remote.failures import BadAnswer, ServerUnreachable
from dayfly.client.remote.held import Held
from dayfly.client.remote.http import CONNECT_SECONDS, MAX_ERROR, refusal
from dayfly.errors import HostError, InputError

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

__all__ = ["PortCalls", "RemotePort"]

MAX_MESSAGE = 4 * 1024 * 1024
"""Bytes of one message: four of the largest pieces that come out of a sandbox."""

WRITE_PIECE = 256 * 1024
"""Bytes of one message to the server."""

CLOSE_SECONDS = 2.0
"""For the server to take note of the end. Then the connection is cut."""


class RemotePort:
    """Bytes both ways."""

    def __init__(self, held: Held, connection: ClientConnection) -> None:
        self._held = held
        self._connection = connection
        self._saying_eof: asyncio.Task[None] | None = None

    async def read(self) -> bytes:
        """The next bytes; empty once the other side has closed."""
        from websockets.exceptions import ConnectionClosed, ConnectionClosedOK

        while True:
            try:
                data = await self._connection.recv()
            except ConnectionClosedOK:
                return b""
            except ConnectionClosed as error:
                raise await self._held.why(_lost(self._held, error)) from None
            if isinstance(data, str):
                raise BadAnswer("the server sends text where bytes belong")
            if data:
                return data

    async def write(self, data: bytes) -> None:
        """Send all of ``data``. Raises ``ConnectionResetError`` if the other side is gone."""
        from websockets.exceptions import ConnectionClosed

        view = memoryview(data).cast("B") if len(data) else memoryview(b"")
        try:
            for start in range(0, len(view), WRITE_PIECE):
                await self._connection.send(bytes(view[start : start + WRITE_PIECE]))
        except ConnectionClosed:
            raise ConnectionResetError("the connection inside is closed") from None

    def write_eof(self) -> None:
        """No more bytes from this side."""
        if self._saying_eof is None:
            self._saying_eof = asyncio.ensure_future(self._say_eof())

    async def _say_eof(self) -> None:
        from websockets.exceptions import ConnectionClosed

        with suppress(ConnectionClosed):
            await self._connection.send(b"")

    async def close(self) -> None:
        """Both directions, at once. Idempotent."""
        if self._saying_eof is not None:
            self._saying_eof.cancel()
        await self._connection.close()


class PortCalls:
    """Mixed into ``RemoteSandbox``."""

    _held: Held

    async def connect_port(self, port: int) -> RemotePort:
        """Connect to 127.0.0.1:``port`` inside. Raises ``PortRefused`` when nobody listens there."""
        if isinstance(port, bool) or not isinstance(port, int) or not 0 < port < 65536:
            raise InputError(f"not a port: {port!r}")
        return RemotePort(self._held, await _connect(self._held, f"/ports/{port}"))


async def _connect(held: Held, rest: str) -> ClientConnection:
    try:
        from websockets.asyncio.client import connect
        from websockets.exceptions import InvalidStatus, WebSocketException
    except ImportError as error:
        raise HostError(
            "a port over a URL needs websockets, which is not installed", remedy="pip install 'dayfly[client]'"
        ) from error

    class Straight(connect):
        """Follows no redirect: the key is for this URL only."""

        def process_redirect(self, exc: Exception) -> Exception | str:
            return exc

    address = held.http.address
    try:
        return await Straight(
            f"ws{address.to(held.path(rest)).removeprefix('http')}",
            additional_headers={"authorization": f"Bearer {address.key}"},
            compression=None,
            proxy=None if address.is_plain else True,
            ssl=held.http.tls,
            open_timeout=CONNECT_SECONDS,
            close_timeout=CLOSE_SECONDS,
            ping_interval=None,  # who reads slowly is not gone
            max_size=MAX_MESSAGE,
        )
    except InvalidStatus as refused:
        answer = refused.response
        raise held.noted(
            refusal(answer.status_code, bytes(answer.body)[:MAX_ERROR], answer.headers.get, address.url)
        ) from None
    except (OSError, TimeoutError, WebSocketException) as error:
        raise _lost(held, error) from error


def _lost(held: Held, error: Exception) -> ServerUnreachable:
    reason = f"{str(error) or type(error).__name__:.200}"
    return ServerUnreachable(f"the connection to {held.http.address.url} was lost: {reason}", remedy="connect again")
