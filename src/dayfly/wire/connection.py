"""The state machine of one connection. No I/O, no clock: bytes in, messages out, and the other way round.

Laws: whatever the peer sends, ``receive`` returns messages or raises ``RemoteProtocolError``; it never blocks and never
holds more than one frame plus what the windows allow. After an error the connection is ``CLOSED`` for good.
"""

from __future__ import annotations

from dayfly.wire import flow
from dayfly.wire.errors import LocalProtocolError, ProtocolError, RemoteProtocolError
from dayfly.wire.frames import HEADER_SIZE, MAX_PAYLOAD, Frame, FrameReader, header
from dayfly.wire.messages import (
    ACCEPTOR,
    AGENT,
    BY_CLASS,
    BY_KIND,
    CONTROL,
    HOST,
    OPENER,
    Ack,
    Cancel,
    Credit,
    Data,
    Eof,
    Event,
    Fail,
    Finish,
    Goodbye,
    Hello,
    Message,
    Open,
    Ping,
    Pong,
    Quiesce,
    Quiesced,
    Resume,
    Row,
    Welcome,
    decode,
    encode,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections import deque
else:
    from _collections import deque  # the C part alone: importing all of collections costs 4 ms inside gVisor

PROTOCOL = 1

START = "start"  # nothing said yet
GREETING = "greeting"  # the host said Hello and waits for Welcome (it may open channels meanwhile)
LIVE = "live"
QUIESCING = "quiescing"  # Quiesce said or heard; Quiesced is still to come
QUIESCED = "quiesced"
DETACHED = "detached"  # the stream is gone; Resume on another one continues
RESUMING = "resuming"  # Resume said, the peer's is awaited
CLOSED = "closed"

# (role, state, message class, sent or received) -> next state. What is not here and not in _ORDINARY is refused.
_TRANSITIONS = {
    (HOST, START, Hello, "sent"): GREETING,
    (HOST, GREETING, Welcome, "received"): LIVE,
    (AGENT, START, Hello, "received"): GREETING,
    (AGENT, GREETING, Welcome, "sent"): LIVE,
    (HOST, LIVE, Quiesce, "sent"): QUIESCING,
    (AGENT, LIVE, Quiesce, "received"): QUIESCING,
    (AGENT, QUIESCING, Quiesced, "sent"): QUIESCED,
    (HOST, QUIESCING, Quiesced, "received"): QUIESCED,
    (HOST, QUIESCED, Resume, "sent"): RESUMING,
    (HOST, DETACHED, Resume, "sent"): RESUMING,
    (HOST, RESUMING, Resume, "received"): LIVE,
    (AGENT, QUIESCED, Resume, "received"): RESUMING,
    (AGENT, DETACHED, Resume, "received"): RESUMING,
    (AGENT, RESUMING, Resume, "sent"): LIVE,
}
# States in which ordinary messages may be (sent, received), by role.
_ORDINARY = {
    (HOST, "sent"): {GREETING, LIVE},
    (HOST, "received"): {LIVE, QUIESCING},
    (AGENT, "sent"): {LIVE, QUIESCING},
    (AGENT, "received"): {GREETING, LIVE},
}
_RESUMABLE = {LIVE, QUIESCING, QUIESCED, DETACHED, RESUMING}


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


def _cost(row: Row, frame: Frame) -> int:
    if row.cls is Data:
        return len(frame.payload) - 1
    return len(frame.payload) if row.cls is Event else 0


class _Kept:
    """A numbered frame that the peer has not acknowledged."""

    __slots__ = ("channel", "kind", "parts", "seq", "size")

    def __init__(self, seq: int, kind: int, channel: int, parts: tuple[bytes | memoryview, ...], size: int) -> None:
        self.seq = seq
        self.kind = kind
        self.channel = channel
        self.parts = parts
        self.size = size


class Connection:
    """One side of the protocol; ``role`` is ``HOST`` or ``AGENT``.

    Give arriving bytes to ``receive``; write what ``take_output`` returns. Buffers given to ``send_data`` must not change
    until acknowledged (they are kept, not copied).
    """

    def __init__(self, role: str) -> None:
        if role not in (HOST, AGENT):
            raise LocalProtocolError(f"no such role: {role!r}")
        self.role = role
        self.state = START
        self.epoch = 0
        self._reader = FrameReader()
        self._channels: dict[int, flow.Channel] = {}
        self._pool = flow.Pool()
        self._next_channel = 1 if role == HOST else 2
        self._last_peer_channel = 0
        self._output: list[bytes | memoryview] = []
        self._kept: deque[_Kept] = deque()
        self._unacked = 0
        self._seq = 0
        self._received = 0
        self._ack_told = 0
        self._bytes_since_ack = 0

    def __repr__(self) -> str:
        return (
            f"<Connection {self.role} {self.state} epoch={self.epoch} channels={len(self._channels)} "
            f"sent={self._seq} unacked={self._unacked} received={self._received}>"
        )

    # --- what the peer sent -------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> list[Received]:
        """Messages in the bytes that arrived, in order. Raises ``RemoteProtocolError``."""
        if self.state == CLOSED:
            raise RemoteProtocolError("bytes after the end of the connection")
        self._reader.feed(data)
        found: list[Received] = []
        try:
            while True:
                frame = self._reader.next_frame()
                if frame is None:
                    break
                self._admit(frame, found)
        except ProtocolError:
            self.state = CLOSED
            raise
        self._acknowledge_if_due()
        return found

    def _admit(self, frame: Frame, found: list[Received]) -> None:
        row = BY_KIND.get(frame.kind)
        if row is None:
            raise RemoteProtocolError(f"unknown kind {frame.kind}")
        self._check_sequence(row, frame)
        message = decode(row, frame.payload)
        self._check_state(row, message, "received", RemoteProtocolError)
        if row.control != (frame.channel == CONTROL):
            raise RemoteProtocolError(f"{row.cls.__name__} on channel {frame.channel}")
        if row.control:
            self._control(message, found)
        elif self._on_channel(row, frame, message):
            found.append(Received(frame.channel, message, _cost(row, frame)))

    def _check_sequence(self, row: Row, frame: Frame) -> None:
        if frame.ack > self._seq:
            raise RemoteProtocolError(f"frame {frame.ack} acknowledged, {self._seq} sent")
        self._forget(frame.ack)
        if not row.numbered:
            if frame.seq:
                raise RemoteProtocolError(f"{row.cls.__name__} with a number")
            return
        if frame.seq != self._received + 1:
            raise RemoteProtocolError(f"frame {frame.seq} after frame {self._received}")
        self._received = frame.seq
        self._bytes_since_ack += len(frame.payload)

    def _check_state(self, row: Row, message: Message, way: str, error: type[ProtocolError]) -> None:
        me, peer = (HOST, AGENT) if self.role == HOST else (AGENT, HOST)
        sender = me if way == "sent" else peer
        name = row.cls.__name__
        if row.sender in (HOST, AGENT) and row.sender != sender:
            raise error(f"{name} is not the {sender}'s to send")
        following = _TRANSITIONS.get((self.role, self.state, row.cls, way))
        if following is not None:
            self.state = following
        elif row.cls in _STEPS or (self.state not in _ORDINARY[self.role, way] and row.cls is not Ack):
            raise error(f"{name} {way} in state {self.state}")

    def _control(self, message: Message, found: list[Received]) -> None:
        if isinstance(message, Ack):
            return
        if isinstance(message, Ping):
            if self._may_send:
                self.send(Pong(message.token))
            return
        if isinstance(message, (Hello, Welcome)) and message.protocol != PROTOCOL:
            raise RemoteProtocolError(f"protocol {message.protocol}, this side speaks {PROTOCOL}")
        if isinstance(message, Resume):
            self._resumed(message)
        found.append(Received(CONTROL, message))

    def _on_channel(self, row: Row, frame: Frame, message: Message) -> bool:
        """Whether the message is still of interest. A channel this side has closed may get late ones from its opener."""
        if isinstance(message, Open):
            self._opened_by_peer(frame.channel)
            return True
        channel = self._channels.get(frame.channel)
        if channel is None:
            if self._mine(frame.channel) or not 0 < frame.channel <= self._last_peer_channel:
                raise RemoteProtocolError(f"{row.cls.__name__} on channel {frame.channel}, which is not open")
            return False
        if (row.sender == OPENER and channel.mine) or (row.sender == ACCEPTOR and not channel.mine):
            raise RemoteProtocolError(f"{row.cls.__name__} from the wrong side of channel {frame.channel}")
        self._account(channel, frame, message)
        return True

    def _account(self, channel: flow.Channel, frame: Frame, message: Message) -> None:
        if isinstance(message, Data):
            if not message.data:
                raise RemoteProtocolError(f"Data without bytes on channel {frame.channel}")
            if message.stream in channel.eof_received:
                raise RemoteProtocolError(f"data after end of stream {message.stream} on channel {frame.channel}")
            channel.arrive(len(message.data))
        elif isinstance(message, Event):
            channel.arrive(len(frame.payload))
        elif isinstance(message, Credit):
            channel.earn(message.amount)
        elif isinstance(message, Eof):
            if not 0 <= message.stream <= 255 or message.stream in channel.eof_received:
                raise RemoteProtocolError(f"end of stream {message.stream} on channel {frame.channel}")
            channel.eof_received.add(message.stream)
        elif isinstance(message, (Finish, Fail)):
            self._drop_channel(frame.channel)

    def _opened_by_peer(self, number: int) -> None:
        if self._mine(number) or number <= self._last_peer_channel:
            raise RemoteProtocolError(f"channel {number} cannot be opened by the peer now")
        if sum(not channel.mine for channel in self._channels.values()) >= flow.MAX_CHANNELS:
            raise RemoteProtocolError(f"more than {flow.MAX_CHANNELS} channels")
        self._last_peer_channel = number
        self._channels[number] = flow.Channel(mine=False)

    def _mine(self, number: int) -> bool:
        return (number % 2 == 1) == (self.role == HOST)

    def _drop_channel(self, number: int) -> None:
        self._pool.release(self._channels.pop(number))

    # --- what this side sends -----------------------------------------------------------------------------------

    def send(self, message: Message, channel: int = CONTROL) -> None:
        """Queue any message but ``Open`` and ``Data``. Raises ``LocalProtocolError`` if it is not allowed now."""
        row = BY_CLASS[type(message)]
        payload = encode(message)
        if row.control != (channel == CONTROL):
            raise LocalProtocolError(f"{row.cls.__name__} on channel {channel}")
        if not row.control:
            self._prepare(row, channel, message, len(payload))
        self._check_state(row, message, "sent", LocalProtocolError)
        self._queue(row, channel, (payload,), len(payload))
        if isinstance(message, (Finish, Fail)):
            self._drop_channel(channel)

    def _prepare(self, row: Row, number: int, message: Message, size: int) -> None:
        channel = self._channels.get(number)
        if channel is None:
            raise LocalProtocolError(f"channel {number} is not open")
        if (row.sender == OPENER and not channel.mine) or (row.sender == ACCEPTOR and channel.mine):
            raise LocalProtocolError(f"{row.cls.__name__} is not this side's to send on channel {number}")
        if isinstance(message, (Open, Data)):
            raise LocalProtocolError("use open() and send_data()")
        if isinstance(message, Event):
            channel.spend(size)
        elif isinstance(message, Eof):
            if message.stream in channel.eof_sent:
                raise LocalProtocolError(f"stream {message.stream} has ended already")
            channel.eof_sent.add(message.stream)

    def open(self, op: str, params: dict[str, object]) -> int:
        """Open a channel; returns its number. Raises ``LocalProtocolError`` when ``MAX_CHANNELS`` are open."""
        message = Open(op, params)
        row = BY_CLASS[Open]
        payload = encode(message)
        if not self.can_open:
            raise LocalProtocolError(f"{flow.MAX_CHANNELS} channels are open")
        self._check_state(row, message, "sent", LocalProtocolError)
        number = self._next_channel
        self._next_channel += 2
        self._channels[number] = flow.Channel(mine=True)
        self._queue(row, number, (payload,), len(payload))
        return number

    @property
    def _may_send(self) -> bool:
        """Whether ordinary messages may go out now; between Quiesced and Resume nothing does."""
        return self.state in _ORDINARY[self.role, "sent"]

    @property
    def can_open(self) -> bool:
        return sum(channel.mine for channel in self._channels.values()) < flow.MAX_CHANNELS

    def is_open(self, channel: int) -> bool:
        return channel in self._channels

    def sendable(self, channel: int) -> int:
        """Bytes that ``send_data`` takes now on this channel (0: wait for ``Credit`` or any arriving frame)."""
        state = self._channels.get(channel)
        if state is None or not self._may_send:
            return 0
        return max(0, min(state.credit, flow.MAX_UNACKED - self._unacked, MAX_PAYLOAD - 1))

    def send_data(self, channel: int, stream: int, data: bytes | memoryview) -> None:
        """Queue bytes; at most ``sendable(channel)`` of them. Raises ``LocalProtocolError``."""
        state = self._channels.get(channel)
        size = len(data)
        if state is None or stream in state.eof_sent:
            raise LocalProtocolError(f"stream {stream} of channel {channel} is not open for sending")
        if not 0 < size <= self.sendable(channel):
            raise LocalProtocolError(f"{size} bytes to send, {self.sendable(channel)} possible now")
        state.spend(size)
        self._queue(BY_CLASS[Data], channel, (bytes((stream,)), data), size + 1)

    def consume(self, channel: int, size: int) -> None:
        """The application is done with messages that cost ``size``: give the peer credit. Late calls are fine."""
        state = self._channels.get(channel)
        if state is None:
            return
        give = state.consume(size, give=self._may_send)
        if give:
            self._credit(channel, give)

    def raise_window(self, channel: int, target: int = flow.BULK_WINDOW) -> None:
        """Let the peer have up to ``target`` bytes under way on a channel that moves much data."""
        state = self._channels.get(channel)
        extra = self._pool.raise_window(state, target) if state is not None and self._may_send else 0
        if extra:
            self._credit(channel, extra)

    def _credit(self, channel: int, amount: int) -> None:
        self._queue(BY_CLASS[Credit], channel, (encode(Credit(amount)),), 4)

    def _queue(self, row: Row, channel: int, parts: tuple[bytes | memoryview, ...], size: int) -> None:
        seq = 0
        if row.numbered:
            if self._unacked > 2 * flow.MAX_UNACKED:
                self.state = CLOSED
                raise RemoteProtocolError("the peer acknowledges nothing")
            self._seq = seq = self._seq + 1
            self._kept.append(_Kept(seq, row.kind, channel, parts, size))
            self._unacked += size + HEADER_SIZE
        self._emit(row.kind, channel, seq, parts, size)

    def _emit(self, kind: int, channel: int, seq: int, parts: tuple[bytes | memoryview, ...], size: int) -> None:
        head = header(kind, channel, seq, self._received, size)
        if size < 4096 or len(parts) == 1:
            self._output.append(b"".join((head, *parts)))
        else:
            self._output.append(head + bytes(parts[0]))
            self._output.extend(parts[1:])
        self._ack_told = self._received
        self._bytes_since_ack = 0

    def _acknowledge_if_due(self) -> None:
        frames = self._received - self._ack_told
        if (frames >= flow.ACK_FRAMES or self._bytes_since_ack >= flow.ACK_BYTES) and self._may_send:
            self._emit(BY_CLASS[Ack].kind, CONTROL, 0, (b"",), 0)

    def _forget(self, ack: int) -> None:
        kept = self._kept
        while kept and kept[0].seq <= ack:
            self._unacked -= kept.popleft().size + HEADER_SIZE

    def take_output(self) -> list[bytes | memoryview]:
        """Buffers to write, in order; they are this side's no more."""
        output, self._output = self._output, []
        return output

    @property
    def has_output(self) -> bool:
        return bool(self._output)

    # --- a stream that is drained, cut, and taken up again ---------------------------------------------------------

    def detach(self) -> None:
        """The stream is gone, or about to be replaced. What was not acknowledged will be sent again after ``resume``."""
        if self.state not in _RESUMABLE:
            raise LocalProtocolError(f"cannot be resumed from state {self.state}")
        self._reader = FrameReader()
        self._output.clear()
        self.state = DETACHED

    def resume(self) -> None:
        """The host's call, on the new stream (or, after QUIESCED, on the same one). The agent answers by itself."""
        if self.role != HOST:
            raise LocalProtocolError("the agent answers a Resume by itself")
        self._say_resume(self.epoch + 1)

    def _say_resume(self, epoch: int) -> None:
        message = Resume(epoch, self._received)
        self._check_state(BY_CLASS[Resume], message, "sent", LocalProtocolError)
        self.epoch = epoch
        payload = encode(message)
        self._emit(BY_CLASS[Resume].kind, CONTROL, 0, (payload,), len(payload))

    def _resumed(self, message: Resume) -> None:
        expected = self.epoch if self.role == HOST else self.epoch + 1
        if message.epoch != expected:
            raise RemoteProtocolError(f"epoch {message.epoch}, {expected} expected")
        if not self._seq - len(self._kept) <= message.received <= self._seq:
            raise RemoteProtocolError(f"resume at frame {message.received}, which this side does not keep")
        self._forget(message.received)
        if self.role == AGENT:
            self._say_resume(message.epoch)
        for kept in self._kept:
            self._emit(kept.kind, kept.channel, kept.seq, kept.parts, kept.size)
        for channel in list(self._channels):
            self.consume(channel, 0)  # credit that was held back while nothing could be sent

    def close(self) -> None:
        """No more of this connection."""
        self.state = CLOSED
        self._output.clear()
        self._kept.clear()
        self._channels.clear()


_STEPS = {key[2] for key in _TRANSITIONS}
"""Messages that only make sense as a step from one state to another."""

__all__ = ["AGENT", "HOST", "PROTOCOL", "Cancel", "Connection", "Goodbye", "Received"]
