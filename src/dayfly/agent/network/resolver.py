"""The resolver's sockets: port 53 of loopback, UDP and TCP. It forwards nothing: there is nobody to forward to."""

from __future__ import annotations

from dayfly.agent.network import dns
from dayfly.agent.network.sockets import SOCK_DGRAM, SOCK_STREAM, Listener, bound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dayfly.agent.loop import Loop
    from dayfly.agent.network.dns import Look
    from dayfly.agent.network.sockets import socket

ADDRESS = "127.0.0.1"

MAX_PACKET = 4096
"""Bytes of a query that are read: honest ones have less than 600."""

PACKETS_AT_ONCE = 32
"""Answered in one round of the loop."""

MAX_CLIENTS = 16
CLIENT_SECONDS = 5.0
"""Connections over TCP, and how long one may say nothing."""


class Resolver:
    """Answers until it is closed. Raises ``Taken``."""

    def __init__(self, loop: Loop, look: Look, port: int) -> None:
        self._loop = loop
        self._look = look
        self._clients: list[_Client] = []
        self._socket: socket | None = bound(SOCK_DGRAM, ADDRESS, port)
        try:
            self._listener = Listener(loop, bound(SOCK_STREAM, ADDRESS, port), self._connected)
        except BaseException:
            self._socket.close()
            raise
        loop.on_readable(self._socket.fileno(), self._readable)

    def close(self) -> None:
        """Idempotent."""
        gone, self._socket = self._socket, None
        if gone is not None:
            self._loop.forget(gone.fileno())
            gone.close()
        self._listener.close()
        for client in list(self._clients):
            client.close()

    def _readable(self) -> None:
        for _ in range(PACKETS_AT_ONCE):
            if self._socket is None:
                return
            try:
                packet, sender = self._socket.recvfrom(MAX_PACKET)
                said = dns.answer(packet, self._look)
                if said:
                    self._socket.sendto(said, sender)
            except OSError:  # nothing is there; or the one who asked is gone, who may ask again
                return

    def _connected(self, connection: socket) -> None:
        if len(self._clients) >= MAX_CLIENTS:
            self._clients[0].close()  # has been there longest
        self._clients.append(_Client(self._loop, connection, self._look, self._clients))


class _Client:
    """One connection: messages with two bytes of length before each, one after the other."""

    def __init__(self, loop: Loop, connection: socket, look: Look, crowd: list[_Client]) -> None:
        self._loop = loop
        self._socket: socket | None = connection
        self._look = look
        self._crowd = crowd
        self._asked = b""
        self._timer = loop.call_later(CLIENT_SECONDS, self.close)
        loop.on_readable(connection.fileno(), self._readable)

    def close(self) -> None:
        gone, self._socket = self._socket, None
        if gone is not None:
            self._timer.cancel()
            self._loop.forget(gone.fileno())
            gone.close()
            self._crowd.remove(self)

    def _readable(self) -> None:
        assert self._socket is not None
        try:
            data = self._socket.recv(MAX_PACKET)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self._asked += data
        if not data or not self._served():
            self.close()

    def _served(self) -> bool:
        """Answer all whole messages; false: the connection is of no use any more."""
        assert self._socket is not None
        while len(self._asked) > 2:
            end = 2 + int.from_bytes(self._asked[:2], "big")
            if end > MAX_PACKET:
                return False
            if len(self._asked) < end:
                break
            said = dns.answer(self._asked[2:end], self._look)
            self._asked = self._asked[end:]
            if not said or not self._say(len(said).to_bytes(2, "big") + said):
                return False
        return True

    def _say(self, data: bytes) -> bool:
        """Whoever does not read its answers gets no more of them."""
        assert self._socket is not None
        try:
            sent = self._socket.send(data)
        except OSError:
            return False
        self._timer.cancel()
        self._timer = self._loop.call_later(CLIENT_SECONDS, self.close)
        return sent == len(data)
