"""A SOCKS5 proxy (RFC 1928) to names: CONNECT without authentication, and nothing else.

A literal address is refused here, unless it is one that the resolver gave to a name: a client that resolves by itself.
"""

from __future__ import annotations

from _socket import inet_ntoa

from dayfly.agent.network.greetings import Greeting
from dayfly.agent.network.manners import Manners
from dayfly.agent.network.names import MAX_LENGTH
from dayfly.agent.network.sockets import say
from dayfly.wire.operations import DENIED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dayfly.agent.network.greetings import Door
    from dayfly.agent.network.sockets import socket

VERSION = 5
NO_AUTHENTICATION, NOTHING_ACCEPTABLE = 0, 0xFF
CONNECT = 1
IPV4, NAME, IPV6 = 1, 3, 4

SUCCEEDED, FAILED, NOT_ALLOWED, UNREACHABLE, NO_COMMAND, NO_ADDRESS = 0, 1, 2, 4, 7, 8

_MAX = 512
"""Bytes of all that a client says before the tunnel's own: 257 and 262 at most."""


def reply(code: int) -> bytes:
    return bytes((VERSION, code, 0, IPV4, 0, 0, 0, 0, 0, 0))


class Tunnelled(Manners):
    """Raw bytes follow."""

    greeting = reply(SUCCEEDED)

    def refused(self, connection: socket, code: str, text: str, said: bytes) -> bytes:
        return reply(NOT_ALLOWED if code == DENIED else UNREACHABLE)


class SocksGreeting(Greeting):
    """Two messages of the client's: how it may authenticate, and what it wants."""

    def __init__(self, door: Door, connection: socket) -> None:
        super().__init__(door, connection)
        self._greeted = False

    @property
    def wanted(self) -> int:
        return _MAX - len(self.heard)

    def hear(self, connection: socket) -> None:
        if self.heard[0] != VERSION:
            self.part(connection)
            return
        if not self._greeted and not self._greet(connection):
            return
        end = _end(self.heard)
        if end and len(self.heard) >= end:
            self._decide(connection, self.heard[:end], self.heard[end:])

    def _greet(self, connection: socket) -> bool:
        """Whether the request is next."""
        end = 2 + self.heard[1] if len(self.heard) > 1 else _MAX
        if len(self.heard) < end:
            return False
        methods, self.heard = self.heard[2:end], self.heard[end:]
        if NO_AUTHENTICATION not in methods:
            self.part(connection, bytes((VERSION, NOTHING_ACCEPTABLE)))
            return False
        self._greeted = True
        if not say(connection, bytes((VERSION, NO_AUTHENTICATION))):
            self.part(connection)
            return False
        return True

    def _decide(self, connection: socket, request: bytes, rest: bytes) -> None:
        host, problem = self._host(request)
        if problem or not host:
            self.part(connection, reply(problem or FAILED))
        elif self.door.too_many(host):
            self.part(connection, reply(NOT_ALLOWED))
        else:
            self.release()
            port = int.from_bytes(request[-2:], "big")
            self.door.tunnel(connection, (host, port), Tunnelled(), rest)

    def _host(self, request: bytes) -> tuple[str, int]:
        """The name, or why there is none."""
        version, command, _, kind = request[:4]
        if version != VERSION or not int.from_bytes(request[-2:], "big"):
            return "", FAILED
        if command != CONNECT:
            return "", NO_COMMAND
        if kind == NAME:
            return _name(request[5:-2])
        own = self.door.host(inet_ntoa(request[4:8])) if kind == IPV4 else None
        return (own, 0) if own else ("", NO_ADDRESS)


def _end(request: bytes) -> int:
    """Where the request ends; 0: that is not said yet. An unknown kind of address ends at once, to be refused."""
    if len(request) < 5:
        return 0
    return {IPV4: 10, NAME: 7 + request[4], IPV6: 22}.get(request[3], 5)


def _name(raw: bytes) -> tuple[str, int]:
    """What is printable goes to the host, which judges it, and takes away a dot at the end as is done here."""
    if (
        not raw.isascii()
        or not raw.decode("ascii").isprintable()
        or b" " in raw
        or len(raw) > MAX_LENGTH
        or raw.endswith(b"..")
    ):
        return "", FAILED
    name = raw.decode("ascii").lower()
    return name[:-1] if name.endswith(".") else name, 0
