"""A connection of the code inside and a channel to the host, which connects it to a name: bytes both ways.

Who cannot take stops who gives, in both directions, and each direction ends by itself. A tunnel that the host cuts ends
with a reset, so that nobody takes what came for all there is.
"""

from __future__ import annotations

from _socket import SHUT_WR

from dayfly.agent.network import sockets
from dayfly.agent.openings import Full
from dayfly.agent.session import BadRequest, Task
from dayfly.agent.streams import UNLIMITED, Drain, Sink, Source
from dayfly.wire.operations import STDIN, STDOUT, TUNNEL, UNREACHABLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from dayfly.agent.loop import Loop
    from dayfly.agent.network.manners import Manners
    from dayfly.agent.openings import Openings
    from dayfly.agent.session import Fields

BULK = 96 * 1024
"""Bytes received after which a tunnel counts as a transfer and asks for a window to match: the pool of windows is small."""

FIRST = 16
"""Bytes that tell who speaks HTTP."""

CROWDED = "too many connections of this sandbox are waiting for one to end"


class Tunnel(Task, Sink):
    """Takes over ``connection``. ``early`` are bytes of the client's that were read already; of those that follow, no
    more than ``limit`` are for the destination."""

    def __init__(
        self,
        loop: Loop,
        openings: Openings,
        connection: sockets.socket,
        place: tuple[str, int],
        manners: Manners,
        on_gone: Callable[[], None],
        early: bytes = b"",
        limit: int = UNLIMITED,
    ) -> None:
        self._loop = loop
        self._socket: sockets.socket | None = connection
        self._manners = manners
        self._on_gone = on_gone
        self._early = early
        self._limit = limit
        self._source: Source | None = None
        self._drain: Drain | None = None
        self._said = b""  # how the client began
        self._received = 0
        self._connected = False
        self._shut_down = False
        self._at_end = False  # of what the client has to say
        self._finished = False
        host, port = place
        try:
            self._channel = openings.open(TUNNEL, {"host": host, "port": port}, self)
        except Full:
            self._refuse(UNREACHABLE, CROWDED)
        else:
            if not manners.greeting:  # nobody waits for a word first, so what the client says may be on its way already
                self._listen()

    # --- from the host ----------------------------------------------------------------------------------------------

    def on_event(self, name: str, fields: Fields) -> None:
        """``connected``."""
        if self._socket is None or self._connected:
            raise BadRequest("connected twice")
        self._connected = True
        if not sockets.say(self._socket, self._manners.greeting):
            self._channel.cancel()
            return
        self._drain = Drain(self._loop, self._socket.fileno(), self._channel, self._lost, lent=True)
        self._listen()

    def on_data(self, stream: int, data: bytes) -> None:
        if stream != STDOUT or self._drain is None:
            raise BadRequest("bytes of a tunnel come on stream 1, after it is connected")
        if self._received <= BULK < self._received + len(data):
            self._channel.raise_window()
        self._received += len(data)
        self._drain.write(data)

    def on_eof(self, stream: int) -> None:
        """The destination has said all; the client may still have something to say."""
        if self._drain is not None:
            self._drain.end(self._shut)

    def on_finish(self, value: Fields) -> None:
        if self._drain is None:
            self._refuse(UNREACHABLE, "the connection ended before it began")
        else:
            self._finished = True
            self._drain.end(self._part)

    def on_fail(self, code: str, message: str) -> None:
        if self._drain is None:
            self._refuse(code, message)
        else:
            self._cut()

    def on_close(self) -> None:
        """Cancelled, unless the host has finished: then what has come is still being written."""
        if not self._finished:
            self._cut()

    # --- from the client --------------------------------------------------------------------------------------------

    def room(self) -> int:
        if not self._limit:
            return sockets.CHUNK  # read to be thrown away: so the client's end is seen
        room = self._channel.room()
        if not room and self._source is not None:
            self._channel.when_room(self._source.resume)
        return room

    def take(self, stream: int, data: bytes) -> None:
        data = data[: self._limit]
        self._limit -= len(data)
        self._said = self._said or data[:FIRST]
        self._channel.data(STDIN, data)

    def ended(self, source: Source) -> None:
        """The client has said all, or is gone."""
        if self._socket is None:
            return
        if not self._shut_down and sockets.gone(self._socket):
            self._lost()
        else:
            self._at_end = True
            self._channel.eof(STDIN)

    def _listen(self) -> None:
        """To the client."""
        if self._source is None and self._socket is not None:
            self._source = Source(self._loop, self._socket.fileno(), STDIN, self, lent=True)
            self._send_early()

    def _send_early(self) -> None:
        """What was read before there was a tunnel, then what comes: a client's first bytes are often there by now, and then leave
        together with the word that it wants a tunnel."""
        while self._early:
            room = self._channel.room()
            if not room:
                self._channel.when_room(self._send_early)
                return
            self._channel.data(STDIN, self._early[:room])
            self._early = self._early[room:]
        if self._source is not None:
            self._channel.guarded(self._source.begin)()

    # --- ends -------------------------------------------------------------------------------------------------------

    def _shut(self) -> None:
        if self._socket is not None:
            self._shut_down = True
            try:
                self._socket.shutdown(SHUT_WR)
            except OSError:  # reset meanwhile: the source will tell
                return

    def _lost(self) -> None:
        """The client is gone, whatever it was still to get."""
        self._channel.cancel()
        self._cut()

    def _part(self) -> None:
        """All is said and written, and perhaps heard."""
        connection = self._release()
        if connection is not None and self._at_end:
            connection.close()
            self._on_gone()
        elif connection is not None:
            sockets.Farewell(self._loop, connection, b"", self._on_gone)

    def _refuse(self, code: str, text: str) -> None:
        connection = self._release()
        if connection is None:
            return
        words = self._manners.refused(connection, code, text, self._said)
        if words:
            sockets.Farewell(self._loop, connection, words, self._on_gone)
        else:
            sockets.reset(connection)
            self._on_gone()

    def _cut(self) -> None:
        connection = self._release()
        if connection is not None:
            sockets.reset(connection)
            self._on_gone()

    def _release(self) -> sockets.socket | None:
        """The connection, of which nothing else here has a descriptor any more."""
        connection, self._socket = self._socket, None
        if connection is not None and self._drain is not None:
            self._drain.close()
        if connection is not None and self._source is not None:
            self._source.close()
        return connection
