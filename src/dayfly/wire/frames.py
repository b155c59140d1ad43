"""Frames: a fixed header and a payload of at most ``MAX_PAYLOAD`` bytes. Nothing larger is ever held for one frame."""

from __future__ import annotations

from _struct import Struct

from dayfly.wire.errors import RemoteProtocolError

MAX_PAYLOAD = 1 << 20
"""Bytes. Large enough that Python on both sides reaches GB/s, small enough that a hundred of them are nothing."""

_HEADER = Struct("!IIB3xQQ")
HEADER_SIZE = _HEADER.size


class Frame:
    """One unit on the stream. ``seq`` is 0 for the kinds that are not numbered; ``ack`` is the highest number received."""

    __slots__ = ("ack", "channel", "kind", "payload", "seq")

    def __init__(self, kind: int, channel: int, seq: int, ack: int, payload: bytes) -> None:
        self.kind = kind
        self.channel = channel
        self.seq = seq
        self.ack = ack
        self.payload = payload


def header(kind: int, channel: int, seq: int, ack: int, length: int) -> bytes:
    """The 28 bytes before a payload of ``length`` bytes."""
    return _HEADER.pack(length, channel, kind, seq, ack)


class FrameReader:
    """Cuts arriving bytes into frames. Holds at most one incomplete frame."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> None:
        self._buffer += data

    def next_frame(self) -> Frame | None:
        """The next complete frame, or ``None``. Raises ``RemoteProtocolError`` as soon as a header is inadmissible."""
        buffer = self._buffer
        if len(buffer) < HEADER_SIZE:
            return None
        length, channel, kind, seq, ack = _HEADER.unpack_from(buffer)
        if length > MAX_PAYLOAD:
            raise RemoteProtocolError(f"frame of {length} bytes announced, {MAX_PAYLOAD} allowed")
        end = HEADER_SIZE + length
        if len(buffer) < end:
            return None
        payload = bytes(memoryview(buffer)[HEADER_SIZE:end])
        del buffer[:end]
        return Frame(kind, channel, seq, ack, payload)

    def __len__(self) -> int:
        return len(self._buffer)
