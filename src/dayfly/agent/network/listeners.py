"""Who listens on the addresses of names, and on which ports: nobody, before a name is asked for."""

from __future__ import annotations

from dayfly.agent.network.sockets import SOCK_STREAM, Listener, Taken, bound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from dayfly.agent.loop import Loop
    from dayfly.agent.network.names import Names
    from dayfly.agent.network.sockets import socket

MAX_LISTENERS = 1024
"""Ports of all names together that are listened on; the agent may have that many descriptors for them."""


class Listeners:
    """``on_connection`` gets each connection with the name and the port that it is for."""

    def __init__(self, loop: Loop, names: Names, on_connection: Callable[[socket, str, int], None]) -> None:
        self._loop = loop
        self._names = names
        self._on_connection = on_connection
        self._open: dict[tuple[str, int], Listener] = {}  # by name and port

    def __len__(self) -> int:
        return len(self._open)

    def listen(self, host: str, address: str) -> bool:
        """On all ports of ``host`` that can be had; false if that is none.

        Inside gVisor a server of the code's own on all addresses goes beside it, if it set SO_REUSEADDR, as most do; what
        is for a name's address comes here. Else whoever came first has the port; it is tried again the next time.
        """
        ports = self._names.ports(host)
        if self._names.learning:
            self._make_room(len(ports))
        tried = [self._try(host, address, port) for port in ports]
        return any(tried)

    def follow(self) -> list[str]:
        """The table has changed: stop where nothing is any more, and listen for what is back. Returns the names that are listened for."""
        for host, port in list(self._open):
            if port not in self._names.ports(host):
                self._open.pop((host, port)).close()
        if self._names.learning:
            return []  # each when it is asked for again: there may be more of them than there is room
        return [host for host, address in self._names.addressed() if self.listen(host, address)]

    def close(self) -> None:
        """All of them."""
        for key in list(self._open):
            self._open.pop(key).close()

    def _make_room(self, count: int) -> None:
        """Where every name exists with many ports, those that were asked for first make room."""
        for key in list(self._open)[: max(0, len(self._open) + count - MAX_LISTENERS)]:
            self._open.pop(key).close()

    def _try(self, host: str, address: str, port: int) -> bool:
        if (host, port) in self._open:
            return True
        if len(self._open) >= MAX_LISTENERS:
            return False
        try:
            listening = bound(SOCK_STREAM, address, port)
        except Taken:
            return False
        self._open[host, port] = Listener(self._loop, listening, self._to(host, port))
        return True

    def _to(self, host: str, port: int) -> Callable[[socket], None]:
        return lambda connection: self._on_connection(connection, host, port)
