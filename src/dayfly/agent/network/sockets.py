"""Sockets on loopback, and the end of a connection."""

from __future__ import annotations

import os
from _socket import (
    AF_INET,
    IPPROTO_TCP,
    MSG_DONTWAIT,
    MSG_NOSIGNAL,
    SHUT_WR,
    SO_LINGER,
    SO_REUSEADDR,
    SOCK_DGRAM,
    SOCK_STREAM,
    SOL_SOCKET,
    socket,
)
from _struct import Struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from dayfly.agent.loop import Loop

BACKLOG = 128
"""Connections that wait to be accepted, on each port."""

PAUSE = 0.2
"""Seconds without accepting when there are no descriptors left."""

FAREWELL_SECONDS = 2.0
FAREWELL_BYTES = 1 << 20
"""How long, and how much, a client may go on sending that has got its answer. To close on unread bytes is to reset the
connection, and then the client may never read the answer."""

CHUNK = 64 * 1024

_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC
_LINGER = Struct("ii")


class Taken(Exception):
    """Somebody inside has the port. The text says which."""


def bound(kind: int, address: str, port: int) -> socket:
    """A socket of ``SOCK_STREAM``, which listens, or of ``SOCK_DGRAM``. Raises ``Taken``."""
    made = socket(AF_INET, kind | _FLAGS)
    try:
        if kind == SOCK_STREAM:
            made.setsockopt(SOL_SOCKET, SO_REUSEADDR, 1)
        made.bind((address, port))
        if kind == SOCK_STREAM:
            made.listen(BACKLOG)
    except OSError as error:
        made.close()
        raise Taken(f"{address}:{port} cannot be listened on: {os.strerror(error.errno or 0)}") from None
    return made


class Listener:
    """Gives connections to ``on_connection``, non-blocking, until it is closed: one in a round of the loop, since others want to be
    served too, and to ask in vain for a second one takes as long as another round. The socket is its own."""

    def __init__(self, loop: Loop, listening: socket, on_connection: Callable[[socket], None]) -> None:
        self._loop = loop
        self._socket: socket | None = listening
        self._on_connection = on_connection
        loop.on_readable(listening.fileno(), self._readable)

    def close(self) -> None:
        """Idempotent. Connections that were accepted live on."""
        gone, self._socket = self._socket, None
        if gone is not None:
            self._loop.forget(gone.fileno())
            gone.close()

    def _readable(self) -> None:
        if self._socket is None:
            return
        try:
            fd, _ = self._socket._accept()  # type: ignore[attr-defined]  # what socket.accept is made of
        except (BlockingIOError, ConnectionAbortedError):
            return
        except OSError:  # EMFILE, ENOBUFS: else it would be tried again at once
            self._pause(self._socket)
            return
        connection = socket(AF_INET, SOCK_STREAM, IPPROTO_TCP, fd)  # whose kind the kernel need not be asked for
        connection.setblocking(False)
        self._on_connection(connection)

    def _pause(self, listening: socket) -> None:
        def again() -> None:
            if self._socket is listening:
                self._loop.on_readable(listening.fileno(), self._readable)

        self._loop.not_readable(listening.fileno())
        self._loop.call_later(PAUSE, again)


def reset(connection: socket) -> None:
    """Close at once; the other side gets an error and not an end."""
    try:
        connection.setsockopt(SOL_SOCKET, SO_LINGER, _LINGER.pack(1, 0))
    except OSError:
        pass
    connection.close()


def gone(connection: socket) -> bool:
    """Whether the other side has reset it. Only while it may be written to: after both ends it is gone as well."""
    try:
        connection.getpeername()
    except OSError:
        return True
    return False


def say(connection: socket, data: bytes) -> bool:
    """Send a few bytes, the first ones of a connection; false: it is of no use any more."""
    try:
        return not data or connection.send(data, MSG_DONTWAIT | MSG_NOSIGNAL) == len(data)
    except OSError:
        return False


class Farewell:
    """The last words on a connection, which it owns; ``on_gone`` is called when it is closed."""

    def __init__(self, loop: Loop, connection: socket, words: bytes, on_gone: Callable[[], None]) -> None:
        self._loop = loop
        self._socket: socket | None = connection
        self._on_gone = on_gone
        self._left = FAREWELL_BYTES
        self._timer = loop.call_later(FAREWELL_SECONDS, self._close)
        loop.on_readable(connection.fileno(), self._readable)
        if words and not say(connection, words):
            self._close()
            return
        try:
            connection.shutdown(SHUT_WR)
        except OSError:
            self._close()

    def _readable(self) -> None:
        if self._socket is None:
            return
        try:
            data = self._socket.recv(CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self._left -= len(data)
        if not data or self._left <= 0:
            self._close()

    def _close(self) -> None:
        gone, self._socket = self._socket, None
        if gone is not None:
            self._timer.cancel()
            self._loop.forget(gone.fileno())
            gone.close()
            self._on_gone()


__all__ = ["SOCK_DGRAM", "SOCK_STREAM", "Farewell", "Listener", "Taken", "bound", "gone", "reset", "say", "socket"]
