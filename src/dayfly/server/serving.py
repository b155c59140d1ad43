"""The application on a socket, until it is told to stop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from dayfly.errors import HostError
from dayfly.server.asgi import Asgi
from dayfly.server.config import Configuration

__all__ = ["Listener", "serve"]

MAX_HEAD = 32 * 1024
"""Bytes of a request's line and headers together: more than any client of this API sends."""

HEAD_SECONDS = 10.0
"""For the head of a request to arrive; a slow network takes one."""

IDLE_SECONDS = 75
"""For the next request on an open connection: longer than callers keep idle ones (dayfly's 4 s, httpx 5 s, nginx 60 s). Were the server the
first to close, requests would cross that on a busy machine, and fail with nobody knowing whether they were begun."""

MAX_MESSAGE = 1024 * 1024
"""Bytes of one WebSocket message: a frame of the wire."""

MOST_HELD = 64 * 1024
"""Bytes that wait for the end of a turn of the loop: more than one packet of loopback."""

BACKLOG = 1024
"""Connections that wait to be accepted, as after a pause of the machine."""


LAST_SECONDS = 10
"""For requests to hear that their sandbox has ended, and for callers to read that; then their connections are cut."""


@dataclass(frozen=True)
class Listener:
    """A socket that listens."""

    socket: socket.socket
    url: str

    @classmethod
    def bind(cls, configuration: Configuration) -> Listener:
        """Raises ``HostError``."""
        where = (configuration.host, configuration.port)
        try:
            family, kind, protocol, _, address = socket.getaddrinfo(*where, type=socket.SOCK_STREAM)[0]
            bound = socket.socket(family, kind, protocol)
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind(address)
            bound.listen(BACKLOG)  # from now on clients wait, and are not refused
        except OSError as error:
            raise HostError(
                f"cannot listen on {configuration.host} port {configuration.port}: {error.strerror or error}",
                remedy="choose another --port, or end who has it",
            ) from error
        name = f"[{configuration.host}]" if family == socket.AF_INET6 else configuration.host
        scheme = "https" if configuration.tls else "http"
        return cls(bound, f"{scheme}://{name}:{bound.getsockname()[1]}")


async def serve(
    app: Asgi,
    listener: Listener,
    configuration: Configuration,
    stop: asyncio.Event,
    end: Callable[[], Coroutine[Any, Any, None]],
) -> None:
    """Answer until ``stop`` is set; then accept nothing more and let requests end for a while. ``end`` is called when that
    is over and ends what the others wait for, so that they are told so. Raises ``HostError``."""
    try:
        settings = _settings(app, configuration)
        settings.load()
    except OSError as error:
        raise HostError(f"cannot use the files of TLS: {error}", remedy="see tls.certificate and tls.key") from error
    server = _Server(settings)
    stopping = asyncio.ensure_future(_stop(server, stop, configuration.drain_seconds, end))
    try:
        await server.serve([listener.socket])
    finally:
        stopping.cancel()


async def _stop(
    server: uvicorn.Server, stop: asyncio.Event, seconds: float, end: Callable[[], Coroutine[Any, Any, None]]
) -> None:
    await stop.wait()
    server.should_exit = True
    await asyncio.sleep(seconds)
    await asyncio.shield(asyncio.ensure_future(end()))  # it goes on when the last request has ended


class _Server(uvicorn.Server):
    """Leaves signals alone: whoever serves has more to end than this."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _Gathering:
    """A transport that writes once in a turn of its loop: the pieces of a short answer make one packet, not five."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._held: list[bytes] = []
        self._size = 0

    def write(self, data: bytes) -> None:
        if not self._held:
            self._loop.call_soon(self._flush)
        self._held.append(data)
        self._size += len(data)
        if self._size > MOST_HELD:  # whoever writes much is to hear when the other side is slow
            self._flush()

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._held:
            data, self._held, self._size = b"".join(self._held), [], 0
            self._transport.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class _Patient(H11Protocol):
    """Waits for a request's head, but not for ever: open connections are limited in number, and wanting one needs no key."""

    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(cast(asyncio.Transport, _Gathering(transport, self.loop)))
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.conn.trailing_data[0]:  # half of the next head has come already
            self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._calm()
        super().connection_lost(exc)

    def _watch(self) -> None:
        mine = self.transport.get_protocol() is self  # a WebSocket has one of its own
        if mine and (self.cycle is None or self.cycle.response_complete):
            self._late = self._late or self.loop.call_later(HEAD_SECONDS, self.transport.close)
        else:
            self._calm()

    def _calm(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None


def _settings(app: Asgi, configuration: Configuration) -> uvicorn.Config:
    tls = configuration.tls
    return uvicorn.Config(
        app,
        http=_Patient,
        ws="websockets-sansio",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=configuration.behind_proxy,
        forwarded_allow_ips="127.0.0.1,::1",  # whatever the environment says
        limit_concurrency=configuration.connections,
        backlog=BACKLOG,
        timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=configuration.drain_seconds + LAST_SECONDS,
        h11_max_incomplete_event_size=MAX_HEAD,
        ws_max_size=MAX_MESSAGE,
        ws_ping_interval=None,  # who reads slowly is not gone; the sandbox's own lifetime bounds it
        ws_per_message_deflate=False,
        ssl_certfile=tls.certificate if tls else None,
        ssl_keyfile=tls.key if tls else None,
    )
