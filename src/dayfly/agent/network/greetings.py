"""A client that has not said yet where it wants to: it is listened to for a while, and holds up nobody."""

from __future__ import annotations

from dayfly.agent.streams import UNLIMITED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dayfly.agent.loop import Loop
    from dayfly.agent.network.manners import Manners
    from dayfly.agent.network.sockets import socket

SECONDS = 10.0
"""In which a client says all that is needed."""


class Door:
    """What a client can be given to. Each takes the connection over."""

    loop: Loop

    def tunnel(
        self, connection: socket, place: tuple[str, int], manners: Manners, early: bytes = b"", limit: int = UNLIMITED
    ) -> None:
        """To a name, or whatever the host makes of it."""
        raise NotImplementedError

    def part(self, connection: socket, words: bytes = b"") -> None:
        """With these words."""
        raise NotImplementedError

    def met(self) -> None:
        """A greeting is over."""
        raise NotImplementedError

    def too_many(self, host: str) -> str:
        """Why there can be no further name now; empty: there can, or it is known, or not ours to say."""
        raise NotImplementedError

    def host(self, address: str) -> str | None:
        """The name whose address this is."""
        raise NotImplementedError


class Greeting:
    """Gathers what one client says. Subclasses say what is enough."""

    def __init__(self, door: Door, connection: socket) -> None:
        self.door = door
        self.heard = b""
        self._socket: socket | None = connection
        self._timer = door.loop.call_later(SECONDS, self._too_late)
        door.loop.on_readable(connection.fileno(), self._readable)

    @property
    def wanted(self) -> int:
        """Bytes that may be read now, at least one."""
        raise NotImplementedError

    def hear(self, connection: socket) -> None:
        """There is more in ``heard``. ``release`` before giving the connection away."""
        raise NotImplementedError

    def late(self) -> bytes:
        """What is said to a client that takes too long."""
        return b""

    def release(self) -> None:
        """Listen no more."""
        taken, self._socket = self._socket, None
        if taken is not None:
            self._timer.cancel()
            self.door.loop.forget(taken.fileno())
            self.door.met()

    def part(self, connection: socket, words: bytes = b"") -> None:
        self.release()
        self.door.part(connection, words)

    def _readable(self) -> None:
        connection = self._socket
        if connection is None:
            return
        try:
            data = connection.recv(self.wanted)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self.heard += data
        if data:
            self.hear(connection)
        else:
            self.part(connection)

    def _too_late(self) -> None:
        if self._socket is not None:
            self.part(self._socket, self.late())
