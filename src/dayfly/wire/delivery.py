"""Delivery: every numbered frame arrives exactly once and in order, over any number of streams."""

from __future__ import annotations

from dayfly.wire import flow
from dayfly.wire.errors import RemoteProtocolError
from dayfly.wire.frames import Frame, header, with_ack
from dayfly.wire.messages import Row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections import deque
else:
    from _collections import deque  # the C part alone: importing all of collections costs 4 ms inside gVisor

JOINED = 4096
"""Bytes. Payloads below are joined with their header: copying them is cheaper than another buffer to write."""


class Ledger:
    """What was sent, how much of it the peer has, and what has arrived here.

    Kept frames are held until acknowledged: as (charge, channel or ``None``, buffers); the first buffer starts with the
    header. What waits to be written shares these buffers, so it is not held twice.
    """

    def __init__(self) -> None:
        self.sent = 0  # number of the last frame made here
        self.received = 0  # number of the last frame that arrived
        self.unacked = 0  # bytes kept, with frame costs
        self._handed = 0  # number of the last frame that left through take()
        self._kept: deque[tuple[int, flow.Channel | None, tuple[bytes | memoryview, ...]]] = deque()
        self._output: list[bytes | memoryview] = []
        self._ack_told = 0
        self._bytes_since_ack = 0

    def start_at(self, sent: int, received: int) -> None:
        """Go on, in a new ledger, where another one had nothing left to deliver."""
        self.sent = self._handed = sent
        self.received = self._ack_told = received

    def emit(
        self, row: Row, number: int, stream: int, payload: bytes | memoryview, channel: flow.Channel | None = None
    ) -> None:
        """Put a frame out. ``channel`` is given for data, whose unacknowledged bytes count per channel as well."""
        size = len(payload)
        seq = 0
        if row.numbered:
            seq = self.sent = self.sent + 1
        head = header(row.kind, number, seq, self.received, size, stream)
        buffers = (head + payload,) if size < JOINED else (head, payload)
        if row.numbered:
            charge = size + flow.FRAME_COST
            self._kept.append((charge, channel, buffers))
            self.unacked += charge
            if channel is not None:
                channel.unacked += charge
        self._put(buffers)

    def _put(self, buffers: tuple[bytes | memoryview, ...]) -> None:
        self._output.extend(buffers)
        self._ack_told = self.received
        self._bytes_since_ack = 0

    def arrive(self, row: Row, frame: Frame) -> int:
        """Account for a frame of the peer; returns how many frames it acknowledged.

        Raises ``RemoteProtocolError`` if it is not the next one.
        """
        acknowledged = self.acknowledge(frame.ack)
        if row.numbered:
            if frame.seq != self.received + 1:
                raise RemoteProtocolError(f"frame {frame.seq} after frame {self.received}")
            self.received = frame.seq
            self._bytes_since_ack += len(frame.payload)
        elif frame.seq:
            raise RemoteProtocolError(f"{row.cls.__name__} with a number")
        return acknowledged

    def acknowledge(self, ack: int) -> int:
        """Forget what the peer has, up to frame ``ack``; returns how many frames that were."""
        acked = self.sent - len(self._kept)
        if not acked <= ack <= self._handed:
            raise RemoteProtocolError(f"frame {ack} acknowledged, {acked} were and {self._handed} are written")
        for _ in range(ack - acked):
            charge, channel, _ = self._kept.popleft()
            self.unacked -= charge
            if channel is not None:
                channel.unacked -= charge
        return ack - acked

    @property
    def ack_due(self) -> bool:
        return self.received - self._ack_told >= flow.ACK_FRAMES or self._bytes_since_ack >= flow.ACK_BYTES

    @property
    def has_output(self) -> bool:
        return bool(self._output)

    def take(self) -> list[bytes | memoryview]:
        output, self._output = self._output, []
        self._handed = self.sent
        return output

    def stream_gone(self) -> None:
        """What was not written never will be; what is numbered is kept."""
        self._output.clear()

    def replay(self) -> None:
        """Put out again what the peer does not have."""
        for _, _, buffers in self._kept:
            self._put((with_ack(bytes(buffers[0]), self.received), *buffers[1:]))

    def clear(self) -> None:
        self._output.clear()
        self._kept.clear()
        self.unacked = 0
