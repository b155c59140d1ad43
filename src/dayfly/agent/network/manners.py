"""How one talks with the client of a tunnel before the tunnel's own bytes, in each way to ask for one."""

from __future__ import annotations

from _socket import MSG_DONTWAIT, MSG_PEEK

from dayfly.agent.network import answers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dayfly.agent.network.sockets import socket

HTTP_PORT = 80

_METHODS = (b"GET ", b"HEAD ", b"POST ", b"PUT ", b"DELETE ", b"OPTIONS ", b"PATCH ", b"PROPFIND ")


class Manners:
    """``greeting`` is said when there is a tunnel."""

    greeting = b""

    def refused(self, connection: socket, code: str, text: str, said: bytes) -> bytes:
        """What is said when there is none; nothing: a reset. ``said`` is how the client began, as far as it was read."""
        raise NotImplementedError


class Plain(Manners):
    """A connection to a name's own address. Whoever speaks HTTP can be told why; everybody else gets a reset, since a
    connection that was accepted cannot be refused any more."""

    def __init__(self, port: int) -> None:
        self._port = port

    def refused(self, connection: socket, code: str, text: str, said: bytes) -> bytes:
        if self._port == HTTP_PORT or said.startswith(_METHODS) or (not said and _speaks_http(connection)):
            return answers.refusal(code, text)
        return b""


def _speaks_http(connection: socket) -> bool:
    try:
        return connection.recv(16, MSG_PEEK | MSG_DONTWAIT).startswith(_METHODS)
    except OSError:
        return False
