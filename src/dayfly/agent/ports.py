"""A port inside, reached from the host: bytes both ways between a channel and a loopback connection."""

from __future__ import annotations

import errno
import os
from _socket import AF_INET, AF_INET6, SHUT_WR, SO_ERROR, SOCK_STREAM, SOL_SOCKET, socket

from dayfly.agent.session import BadRequest, Refused, Task
from dayfly.agent.streams import Drain, Sink, Source
from dayfly.wire import operations
from dayfly.wire.operations import STDIN, STDOUT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dayfly.agent.core import Agent
    from dayfly.agent.session import Channel

LOOPBACK = ((AF_INET, "127.0.0.1"), (AF_INET6, "::1"))
"""Tried in this order: a server told to listen on "localhost" may have taken either."""

CONNECT_SECONDS = 10.0
"""A listener that accepts nothing (its queue is full) counts as nobody."""


def connect(agent: Agent, channel: Channel, params: dict[str, object]) -> Task:
    port = params["port"]
    if not isinstance(port, int) or not 1 <= port <= 65535:
        raise BadRequest("a port is a number from 1 to 65535")
    return Tunnel(agent, channel, port)


class Tunnel(Task, Sink):
    """One connection."""

    def __init__(self, agent: Agent, channel: Channel, port: int) -> None:
        self._loop = agent.loop
        self._channel = channel
        self._port = port
        self._left = list(LOOPBACK)
        self._socket: socket | None = None
        self._source: Source | None = None
        self._drain: Drain | None = None
        self._early: list[bytes] = []  # what came before the connection; bounded by the window
        self._input_over = False
        self._decide = channel.guarded(self._decided)
        self._timer = agent.loop.call_later(CONNECT_SECONDS, channel.guarded(self._too_late))
        self._try_next()

    # --- connecting -----------------------------------------------------------------------------------------------

    def _try_next(self) -> None:
        family, host = self._left.pop(0)
        self._socket = socket(family, SOCK_STREAM | os.O_NONBLOCK | os.O_CLOEXEC)
        problem = self._socket.connect_ex((host, self._port))
        if problem == errno.EINPROGRESS:
            self._loop.on_writable(self._socket.fileno(), self._decide)
        else:
            self._answered(problem)

    def _decided(self) -> None:
        if self._socket is not None and self._source is None:
            self._loop.not_writable(self._socket.fileno())
            self._answered(self._socket.getsockopt(SOL_SOCKET, SO_ERROR))

    def _answered(self, problem: int) -> None:
        if not problem:
            self._connected()
            return
        self._close_socket()
        if not self._left:
            raise Refused(operations.REFUSED, f"port {self._port}: {os.strerror(problem)}")
        self._try_next()

    def _too_late(self) -> None:
        if self._source is None:
            raise Refused(operations.REFUSED, f"port {self._port} did not answer in {CONNECT_SECONDS:.0f} s")

    def _connected(self) -> None:
        assert self._socket is not None
        self._timer.cancel()
        self._source = Source(self._loop, os.dup(self._socket.fileno()), STDOUT, self)
        self._drain = Drain(self._loop, os.dup(self._socket.fileno()), self._channel)
        self._channel.event("connected", {})
        self._channel.raise_window()
        early, self._early = self._early, []
        for data in early:
            self._drain.write(data)
        if self._input_over:
            self._drain.end(self._shut)
        self._source.resume()

    # --- bytes ----------------------------------------------------------------------------------------------------

    def room(self) -> int:
        room = self._channel.room()
        if not room and self._source is not None:
            self._channel.when_room(self._source.resume)
        return room

    def take(self, stream: int, data: bytes) -> None:
        self._channel.data(stream, data)

    def ended(self, source: Source) -> None:
        """The server has said all, or is gone."""
        if self._input_over:
            self._channel.finish({})
        else:
            self._channel.eof(STDOUT)

    def on_data(self, stream: int, data: bytes) -> None:
        if stream != STDIN:
            raise BadRequest("bytes for a port come on stream 0")
        if self._drain is None:
            self._early.append(data)
        else:
            self._drain.write(data)

    def on_eof(self, stream: int) -> None:
        self._input_over = True
        if self._drain is not None:
            self._drain.end(self._shut)

    def _shut(self) -> None:
        """The client has said all; the answer may still come."""
        if self._source is None or not self._source.open:
            self._channel.finish({})
        elif self._socket is not None:
            try:
                self._socket.shutdown(SHUT_WR)
            except OSError:  # reset meanwhile: the source will tell
                return

    def on_cancel(self) -> None:
        self._channel.fail(operations.CANCELLED, "cancelled")

    def on_close(self) -> None:
        self._timer.cancel()
        self._close_socket()
        if self._drain is not None:
            self._drain.close()
        if self._source is not None:
            self._source.close()

    def _close_socket(self) -> None:
        taken, self._socket = self._socket, None
        if taken is not None:
            self._loop.forget(taken.fileno())
            taken.close()
