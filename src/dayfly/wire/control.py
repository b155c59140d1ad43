"""The connection's own messages that are answered or counted: greeting, pings, goodbye."""

from __future__ import annotations

from dayfly.wire.errors import LocalProtocolError, ProtocolError, RemoteProtocolError
from dayfly.wire.flow import MAX_PINGS
from dayfly.wire.messages import Goodbye, Hello, Message, Ping, Pong, Welcome

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections import deque
else:
    from _collections import deque  # the C part alone: importing all of collections costs 4 ms inside gVisor

PROTOCOL = 1


class Control:
    """What both sides remember about them. ``pongs`` are the tokens that this side has to answer."""

    def __init__(self) -> None:
        self.pongs: list[int] = []
        self.pings: deque[int] = deque()  # sent, not answered
        self._nonce = ""
        self._left = False
        self._peer_left = False

    def hear(self, message: Message) -> None:
        """Count a message of the peer. Raises ``RemoteProtocolError`` for what no honest one says."""
        if isinstance(message, Ping):
            if len(self.pongs) >= MAX_PINGS:
                raise RemoteProtocolError(f"more than {MAX_PINGS} Pings at once")
            self.pongs.append(message.token)
        elif isinstance(message, Pong):
            if not self.pings or self.pings.popleft() != message.token:
                raise RemoteProtocolError("a Pong for no Ping")
        elif isinstance(message, (Hello, Welcome)):
            self._greet(message, RemoteProtocolError)
        elif isinstance(message, Goodbye):
            if self._peer_left:
                raise RemoteProtocolError("a second Goodbye")
            self._peer_left = True

    def say(self, message: Message) -> None:
        """Count a message of this side. Raises ``LocalProtocolError`` for what the other would refuse."""
        if isinstance(message, (Hello, Welcome)):
            self._greet(message, LocalProtocolError)
        elif isinstance(message, Ping):
            if len(self.pings) >= MAX_PINGS:
                raise LocalProtocolError(f"{MAX_PINGS} Pings are not answered yet")
            self.pings.append(message.token)
        elif isinstance(message, Goodbye):
            if self._left:
                raise LocalProtocolError("Goodbye was said already")
            self._left = True

    def _greet(self, message: Hello | Welcome, error: type[ProtocolError]) -> None:
        """Hello sets the nonce, on both sides; Welcome repeats it."""
        if message.protocol != PROTOCOL:
            raise error(f"protocol {message.protocol}, this side speaks {PROTOCOL}")
        if isinstance(message, Hello):
            self._nonce = message.nonce
        elif message.nonce != self._nonce:
            raise error("Welcome does not repeat the nonce of Hello")
