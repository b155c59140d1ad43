"""A port inside over a WebSocket: each binary message is the next bytes, an empty one says that no more will come."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Annotated, Any, Protocol

from fastapi import APIRouter, Path
from fastapi.websockets import WebSocket, WebSocketDisconnect

from dayfly.errors import DayflyError
from dayfly.server.auth import Used
from dayfly.server.sandboxes import ensure_live

__all__ = ["routes"]

routes = APIRouter(prefix="/v1/sandboxes/{sandbox}")

OVER = 1000
"""Both have said all; or one side is gone, and the other knows."""

NOT_BYTES = 1003
BROKEN = 1011
"""The sandbox has ended, or failed: asking for it says why."""


GONE = (RuntimeError, WebSocketDisconnect)
"""What sending raises once the client has gone: the first where that was noticed before."""


class Connection(Protocol):
    async def read(self) -> bytes: ...
    async def write(self, data: bytes) -> None: ...
    def write_eof(self) -> None: ...
    async def close(self) -> None: ...


@routes.websocket("/ports/{port}")
async def connect(socket: WebSocket, registration: Used, port: Annotated[int, Path(ge=1, le=65535)]) -> None:
    """Bytes to and from 127.0.0.1:port inside. Refused before it is accepted where nobody listens."""
    connection = await ensure_live(registration).life.connect_port(port)
    try:
        await socket.accept()
        code = await _carry(socket, connection)
        with suppress(*GONE):  # the client was first
            await socket.close(code)
    finally:
        await connection.close()


async def _carry(socket: WebSocket, connection: Connection) -> int:
    """Until the server inside has closed, or the client has. The code to close with."""
    out = asyncio.ensure_future(_out(socket, connection))
    into = asyncio.ensure_future(_into(socket, connection))
    try:
        await asyncio.wait({out, into}, return_when=asyncio.FIRST_COMPLETED)
        return next(task.result() for task in (out, into) if task.done())
    finally:
        for task in (out, into):
            task.cancel()
        await asyncio.gather(out, into, return_exceptions=True)


async def _out(socket: WebSocket, connection: Connection) -> int:
    try:
        while data := await connection.read():
            await socket.send_bytes(data)
    except DayflyError:
        return BROKEN
    except GONE:  # nobody is there to send to
        pass
    return OVER


async def _into(socket: WebSocket, connection: Connection) -> int:
    """Returns when the client is gone, or has broken the rules."""
    while (message := await socket.receive())["type"] == "websocket.receive":
        data: Any = message.get("bytes")
        if data is None:
            return NOT_BYTES
        try:
            if data:
                await connection.write(data)
            else:
                connection.write_eof()
        except ConnectionResetError:  # the reader of the other direction finds the end
            await asyncio.Event().wait()
        except DayflyError:
            return BROKEN
    return OVER
