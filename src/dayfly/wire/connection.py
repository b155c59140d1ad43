"""The state machine of one connection. No I/O, no clock: bytes in, messages out, and the other way round.

Laws: whatever the peer sends, ``receive`` returns messages or raises ``RemoteProtocolError``; it never blocks and never
holds more than one frame plus what the windows allow. After an error the connection is ``CLOSED`` for good. A call that
raises ``LocalProtocolError`` has changed nothing.
"""

from __future__ import annotations

from dayfly.wire import channels, flow
from dayfly.wire.control import PROTOCOL, Control
from dayfly.wire.delivery import Ledger
from dayfly.wire.errors import LocalProtocolError, ProtocolError, RemoteProtocolError
from dayfly.wire.frames import MAX_PAYLOAD, Frame, FrameReader
from dayfly.wire.messages import (
    ACCEPTOR,
    AGENT,
    BY_CLASS,
    BY_KIND,
    CONTROL,
    HOST,
    LIMITS,
    MAX_STREAM,
    SEND,
    Ack,
    Cancel,
    Credit,
    Data,
    Eof,
    Event,
    Fail,
    Finish,
    Goodbye,
    Message,
    Open,
    Ping,
    Pong,
    Quiesced,
    Resume,
    Row,
    decode,
    encode,
)
from dayfly.wire.states import (
    CLOSED,
    DETACHED,
    GREETING,
    LIVE,
    ORDINARY,
    QUIESCED,
    QUIESCING,
    RECEIVED,
    RESUMABLE,
    RESUMING,
    RULES,
    SENT,
    START,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dayfly.wire.bookmark import Bookmark

MAX_HELD = flow.MAX_UNACKED_ALL + 2 * (MAX_PAYLOAD + flow.FRAME_COST)
"""Bytes that a connection itself holds at most between two calls, whatever the peer does: what is kept for a resume, the
last frame of it, and one incomplete frame. What was delivered and not consumed is the application's: at most
``flow.MAX_UNCONSUMED``."""


class Received:
    """One message that arrived, and the channel it belongs to (0 for the connection's own).

    ``cost`` is what it took of the channel's window (``Data`` and ``Event``): give it to ``consume`` when the application
    is done with the message, so that a flood of either is held back.
    """

    __slots__ = ("channel", "cost", "message")

    def __init__(self, channel: int, message: Message, cost: int = 0) -> None:
        self.channel = channel
        self.message = message
        self.cost = cost

    def __repr__(self) -> str:
        return f"Received({self.channel}, {self.message!r})"


class Connection:
    """One side of the protocol; ``role`` is ``HOST`` or ``AGENT``.

    Give arriving bytes to ``receive``; write what ``take_output`` returns, and take again when that is written. Buffers
    given to ``send_data`` must not change until acknowledged (large ones are kept, not copied).
    """

    def __init__(self, role: str) -> None:
        if role not in (HOST, AGENT):
            raise LocalProtocolError(f"no such role: {role!r}")
        self.role = role
        self.state = START
        self.epoch = 0
        self._reader = FrameReader(LIMITS)
        self._ledger = Ledger()
        self._control = Control()
        self._channels = channels.Channels(odd_is_mine=role == HOST)
        self._grants: dict[int, flow.Channel] = {}  # channels that are owed credit, in order
        self._broken: str | None = None

    def __repr__(self) -> str:
        ledger = self._ledger
        return (
            f"<Connection {self.role} {self.state} epoch={self.epoch} channels={len(self._channels)} "
            f"sent={ledger.sent} unacked={ledger.unacked} received={ledger.received}>"
        )

    @property
    def held(self) -> int:
        """Bytes held here: an incomplete frame, and what was sent and not acknowledged. Never above ``MAX_HELD``."""
        return len(self._reader) + self._ledger.unacked

    @property
    def unfinished(self) -> int:
        """Bytes of a frame whose end has not come."""
        return len(self._reader)

    def bookmark(self) -> Bookmark:
        """Where it stands, between Quiesced and Resume. Raises ``LocalProtocolError`` while a channel is open: what is under
        way on one cannot be written down."""
        if self.state != QUIESCED or self.role != HOST:
            raise LocalProtocolError(f"no bookmark of the {self.role} in state {self.state}")
        if len(self._channels) or self._ledger.unacked or self._control.pings:
            raise LocalProtocolError(f"{len(self._channels)} channels are open, or something is not acknowledged")
        from dayfly.wire.bookmark import Bookmark  # the host's alone: the agent need not load it

        channels = self._channels
        return Bookmark(self.epoch, self._ledger.sent, self._ledger.received, channels.following, channels.opened)

    @classmethod
    def continued(cls, bookmark: Bookmark) -> Connection:
        """The host's side, detached at ``bookmark``: ``resume`` takes it up on a new stream."""
        connection = cls(HOST)
        connection.state = DETACHED
        connection.epoch = bookmark.epoch
        connection._ledger.start_at(bookmark.sent, bookmark.received)
        connection._channels.start_at(bookmark.channel, bookmark.opened)
        return connection

    # --- what the peer sent -------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> list[Received]:
        """Messages in the bytes that arrived, in order; none after ``close``. Raises ``RemoteProtocolError``."""
        if self._broken is not None:
            raise RemoteProtocolError(self._broken)
        found: list[Received] = []
        if self.state == CLOSED:
            return found
        self._reader.feed(data)
        try:
            while (frame := self._reader.next_frame()) is not None:
                self._admit(frame, found)
        except ProtocolError as error:
            self._break(str(error))
            raise
        self._reader.settle()
        return found

    def _admit(self, frame: Frame, found: list[Received]) -> None:
        row = BY_KIND[frame.kind]
        state = self._state_after(row, RECEIVED, RemoteProtocolError)
        if row.control != (frame.channel == CONTROL):
            raise RemoteProtocolError(f"{row.cls.__name__} on channel {frame.channel}")
        acknowledged = self._ledger.arrive(row, frame)
        message = decode(row, frame.payload, frame.stream)
        self.state = state
        if not row.control:
            self._on_channel(row, frame, message, found)
        elif row.cls is not Ack:
            self._on_control(message, found)
        elif not acknowledged:
            raise RemoteProtocolError("an acknowledgement of nothing new")

    def _state_after(self, row: Row, way: str, error: type[ProtocolError]) -> str:
        state = RULES[self.role, way].get((self.state, row.cls))
        if state is None:
            raise error(f"{row.cls.__name__} {way} by the {self.role} in state {self.state}")
        return state

    def _on_control(self, message: Message, found: list[Received]) -> None:
        self._control.hear(message)
        if isinstance(message, Resume):
            self._resumed(message)
        if not isinstance(message, Ping):  # the machine answers it by itself
            found.append(Received(CONTROL, message))

    def _on_channel(self, row: Row, frame: Frame, message: Message, found: list[Received]) -> None:
        number = frame.channel
        if isinstance(message, Open):
            self._channels.opened_by_peer(number)
            found.append(Received(number, message))
            return
        channel = self._channels.get(number)
        late = None if channel else self._channels.closed_here(number)
        known = channel or late
        if known is None or (late and row.sender == ACCEPTOR):
            raise RemoteProtocolError(f"{row.cls.__name__} on channel {number}, which is not open")
        channels.require_side(row, known, spoken_here=False, error=RemoteProtocolError)
        cost = channels.hear(known, message, len(frame.payload))
        if late:
            return  # counted, so that there is an end to it, but of no interest any more
        found.append(Received(number, message, cost))
        if isinstance(message, (Finish, Fail)):
            self._drop(number)

    def _drop(self, number: int) -> None:
        self._channels.drop(number)
        self._grants.pop(number, None)

    def _break(self, why: str) -> None:
        self.close()
        self._broken = why

    # --- what this side sends -----------------------------------------------------------------------------------

    def send(self, message: Message, channel: int = CONTROL) -> None:
        """Queue a message that is the application's to say. Raises ``LocalProtocolError`` if it is not allowed now.

        An ``Event`` is refused when its window is full: nobody over there takes them. A second ``Cancel`` of a channel is
        not sent: it says nothing. Raises ``RemoteProtocolError`` when the peer acknowledges nothing, whatever it is sent.
        """
        row = BY_CLASS.get(type(message))
        if row is None or row.said_by != SEND:
            raise LocalProtocolError(f"{type(message).__name__} is not said by send()")
        state = self._state_after(row, SENT, LocalProtocolError)
        if row.control != (channel == CONTROL):
            raise LocalProtocolError(f"{row.cls.__name__} on channel {channel}")
        payload = encode(message)
        if row.cls is Quiesced:
            self._say_what_is_due()  # so that the host has nothing to wait for
        if self._count(row, message, channel, len(payload)):
            self.state = state
            self._ledger.emit(row, channel, message.stream if isinstance(message, Eof) else 0, payload)
        if isinstance(message, (Finish, Fail)):
            self._drop(channel)

    def _count(self, row: Row, message: Message, number: int, size: int) -> bool:
        """Whether the message is to be sent; what it may not be is raised before anything changes."""
        if row.control:
            self._require_room(row)
            self._control.say(message)
            return True
        channel = self._channels.get(number)
        if channel is None:
            raise LocalProtocolError(f"channel {number} is not open")
        channels.require_side(row, channel, spoken_here=True, error=LocalProtocolError)
        self._require_room(row)
        return channels.say(channel, message, size)

    def _require_room(self, row: Row) -> None:
        unacked = self._ledger.unacked
        if row.cls in (Open, Event) and unacked >= flow.MAX_UNACKED_CALLS:
            raise LocalProtocolError(f"{unacked} bytes are not acknowledged yet")
        if row.numbered and unacked >= flow.MAX_UNACKED_ALL:
            self._break("the peer acknowledges nothing")
            raise RemoteProtocolError("the peer acknowledges nothing")

    def open(self, op: str, params: dict[str, object]) -> int:
        """Open a channel; returns its number. Raises ``LocalProtocolError`` when ``can_open`` is false."""
        row = BY_CLASS[Open]
        payload = encode(Open(op, params))
        self._state_after(row, SENT, LocalProtocolError)
        self._require_room(row)
        if not self._channels.may_open:
            raise LocalProtocolError(f"{flow.MAX_CHANNELS} channels are open, or all numbers are used up")
        number = self._channels.open()
        self._ledger.emit(row, number, 0, payload)
        return number

    @property
    def _may_send(self) -> bool:
        """Whether ordinary messages may go out now; between Quiesced and Resume nothing does."""
        return self.state in ORDINARY[self.role, SENT]

    @property
    def can_open(self) -> bool:
        """Whether ``open`` would be accepted now."""
        return self._may_send and self._channels.may_open and self._ledger.unacked < flow.MAX_UNACKED_CALLS

    def is_open(self, channel: int) -> bool:
        return self._channels.get(channel) is not None

    def sendable(self, channel: int) -> int:
        """Bytes that ``send_data`` takes now on this channel (0: ask again after any ``receive``)."""
        state = self._channels.get(channel)
        unacked = self._ledger.unacked
        if state is None or not self._may_send or unacked >= flow.MAX_UNACKED_CALLS:
            return 0
        share = max(flow.MAX_UNACKED - unacked, flow.FAIR_SHARE - state.unacked) - flow.FRAME_COST
        return max(0, min(state.room, share, MAX_PAYLOAD))

    def send_data(self, channel: int, stream: int, data: bytes | bytearray | memoryview) -> None:
        """Queue bytes; at least one and at most ``sendable(channel)`` of them. Raises ``LocalProtocolError``."""
        state = self._channels.get(channel)
        if state is None or not 0 <= stream <= MAX_STREAM or state.eof_sent >> stream & 1:
            raise LocalProtocolError(f"stream {stream} of channel {channel} is not open for sending")
        if type(data) is not bytes:
            data = memoryview(data).cast("B")
        size = len(data)
        if not 0 < size <= self.sendable(channel):
            raise LocalProtocolError(f"{size} bytes to send, {self.sendable(channel)} possible now")
        state.spend(size)
        self._ledger.emit(BY_CLASS[Data], channel, stream, data, state)

    def consume(self, channel: int, size: int) -> None:
        """The application is done with messages that cost ``size``: give the peer credit. Late calls are fine."""
        state = self._channels.get(channel)
        if state is not None:
            state.consume(size)
            if state.due:
                self._grants[channel] = state

    def raise_window(self, channel: int, target: int = flow.BULK_WINDOW) -> None:
        """Let the peer have up to ``target`` bytes under way on a channel that moves much data."""
        state = self._channels.get(channel)
        if state is not None:
            self._channels.raise_window(state, target)
            if state.due:
                self._grants[channel] = state

    def take_output(self) -> list[bytes | memoryview]:
        """Buffers to write, in order; they are this side's no more. Take again only when these are written.

        What the machine says by itself (credit, pongs, acknowledgements) is made here and not before: a peer that does
        not read is told nothing, so it cannot make answers pile up.
        """
        if self._may_send:
            self._say_what_is_due()
        return self._ledger.take()

    @property
    def has_output(self) -> bool:
        """Whether ``take_output`` would return anything."""
        if self._ledger.has_output or not self._may_send:
            return self._ledger.has_output
        return self._ledger.ack_due or bool((self._grants or self._control.pongs) and self._may_answer)

    @property
    def _may_answer(self) -> bool:
        return self._ledger.unacked < flow.MAX_UNACKED_CALLS

    def _say_what_is_due(self) -> None:
        if (self._control.pongs or self._grants) and self._may_answer:
            for token in self._control.pongs:
                self._ledger.emit(BY_CLASS[Pong], CONTROL, 0, encode(Pong(token)))
            for number, channel in self._grants.items():
                self._ledger.emit(BY_CLASS[Credit], number, 0, encode(Credit(channel.give())))
            self._control.pongs.clear()
            self._grants.clear()
        if self._ledger.ack_due:
            self._ledger.emit(BY_CLASS[Ack], CONTROL, 0, b"")

    # --- a stream that is drained, cut, and taken up again ---------------------------------------------------------

    def detach(self) -> None:
        """The stream is gone, or about to be replaced. What was not acknowledged will be sent again after ``resume``.

        Nothing of the old stream may be given to ``receive`` afterwards, and nothing that was taken for it may be written to
        the new one. A quiesce under way is cancelled.
        """
        if self.state not in RESUMABLE:
            raise LocalProtocolError(f"cannot be resumed from state {self.state}")
        self._reader = FrameReader(LIMITS)
        self._ledger.stream_gone()
        self.state = DETACHED

    def resume(self) -> None:
        """The host's call, on the new stream (or, after QUIESCED, on the same one). The agent answers by itself."""
        if self.role != HOST:
            raise LocalProtocolError("the agent answers a Resume by itself")
        self._say_resume(self.epoch + 1)

    def _say_resume(self, epoch: int) -> None:
        row = BY_CLASS[Resume]
        self.state = self._state_after(row, SENT, LocalProtocolError)
        self.epoch = epoch
        self._ledger.emit(row, CONTROL, 0, encode(Resume(epoch, self._ledger.received)))

    def _resumed(self, message: Resume) -> None:
        """The host's epoch only grows, also by attempts that never arrived; the agent repeats it."""
        known = message.epoch == self.epoch if self.role == HOST else message.epoch > self.epoch
        if not known:
            raise RemoteProtocolError(f"Resume of epoch {message.epoch} in epoch {self.epoch}")
        self._ledger.acknowledge(message.received)
        if self.role == AGENT:
            self._say_resume(message.epoch)
        self._ledger.replay()

    def close(self) -> None:
        """No more of this connection: nothing is sent, what arrives is ignored."""
        self.state = CLOSED
        self._reader = FrameReader(LIMITS)
        self._ledger.clear()
        self._channels.clear()
        self._grants.clear()
        self._control.pongs.clear()


__all__ = [
    "AGENT", "CLOSED", "DETACHED", "GREETING", "HOST", "LIVE", "MAX_HELD", "PROTOCOL", "QUIESCED", "QUIESCING", "RESUMING",
    "START", "Cancel", "Connection", "Goodbye", "Received",
]  # fmt: skip
