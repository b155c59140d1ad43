"""Frames: a fixed header and a payload of at most ``MAX_PAYLOAD`` bytes. Nothing larger is ever held for one frame."""

from __future__ import annotations

from _struct import Struct  # not struct, not collections: see the law of this package

from dayfly.wire.errors import RemoteProtocolError

MAX_PAYLOAD = 1 << 20
"""Bytes. Large enough that Python on both sides reaches GB/s, small enough that a hundred of them are nothing."""

_HEADER = Struct("!IIBBHQQ")
_ACK = Struct("!Q")
HEADER_SIZE = _HEADER.size
_ACK_AT = HEADER_SIZE - _ACK.size


class Frame:
    """One unit on the stream. ``seq`` is 0 for the kinds that are not numbered; ``ack`` is the highest number received."""

    __slots__ = ("ack", "channel", "kind", "payload", "seq", "stream")

    def __init__(self, kind: int, channel: int, stream: int, seq: int, ack: int, payload: bytes) -> None:
        self.kind = kind
        self.channel = channel
        self.stream = stream
        self.seq = seq
        self.ack = ack
        self.payload = payload


def header(kind: int, channel: int, seq: int, ack: int, length: int, stream: int = 0) -> bytes:
    """The 28 bytes before a payload of ``length`` bytes."""
    return _HEADER.pack(length, channel, kind, stream, 0, seq, ack)


def with_ack(start: bytes, ack: int) -> bytes:
    """The bytes of a frame (or only its header), to be sent once more with a newer acknowledgement."""
    return start[:_ACK_AT] + _ACK.pack(ack) + start[HEADER_SIZE:]


class FrameReader:
    """Cuts arriving bytes into frames. After ``settle`` it holds at most one incomplete frame.

    ``limits`` maps each kind there is to the longest payload it may have: a header that announces anything else is
    refused before a byte of its payload is waited for.
    """

    def __init__(self, limits: dict[int, int]) -> None:
        self._limits = limits
        self._buffer: bytes | bytearray = b""
        self._at = 0  # where the next frame starts

    def feed(self, data: bytes) -> None:
        if len(self._buffer):
            self._buffer += data  # a bytearray, see settle(): no quadratic copying when bytes come one by one
        else:
            self._buffer = bytes(data)

    def next_frame(self) -> Frame | None:
        """The next complete frame, or ``None``. Raises ``RemoteProtocolError`` as soon as a header is inadmissible."""
        buffer = self._buffer
        start = self._at + HEADER_SIZE
        if len(buffer) < start:
            return None
        length, channel, kind, stream, reserved, seq, ack = _HEADER.unpack_from(buffer, self._at)
        limit = self._limits.get(kind)
        if limit is None or reserved:
            raise RemoteProtocolError(f"no such kind of frame: {kind}, {reserved}")
        if length > limit:
            raise RemoteProtocolError(f"frame of {length} bytes announced, kind {kind} may have {limit}")
        end = start + length
        if len(buffer) < end:
            return None
        self._at = end
        return Frame(kind, channel, stream, seq, ack, bytes(memoryview(buffer)[start:end]))

    def settle(self) -> None:
        """Let go of all that was cut; keep the incomplete rest."""
        if self._at == len(self._buffer):
            self._buffer = b""
        elif isinstance(self._buffer, bytearray):
            del self._buffer[: self._at]
        else:
            self._buffer = bytearray(memoryview(self._buffer)[self._at :])
        self._at = 0

    def __len__(self) -> int:
        return len(self._buffer) - self._at
