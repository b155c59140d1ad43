"""Those who follow a command's output: each with its own cap, its own pace and what it has missed."""

from __future__ import annotations

from dayfly.agent.session import Channel
from dayfly.agent.streams import UNLIMITED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

RING = 256 * 1024
"""Bytes of output that stay for whoever connects later: more than a screen's history."""


MAX_CHUNKS = 4096
"""Pieces of a ring: tiny ones on changing streams cost more than their bytes."""


class Ring:
    """The last ``RING`` bytes of output, with the streams they came on."""

    __slots__ = ("_chunks", "_size")

    def __init__(self) -> None:
        self._chunks: list[tuple[int, bytes]] = []
        self._size = 0

    def keep(self, stream: int, data: bytes) -> None:
        data = data[-RING:]
        self._chunks.append((stream, data))
        self._size += len(data)
        if self._size > 2 * RING or len(self._chunks) > MAX_CHUNKS:
            self._compact()

    def replay(self) -> list[tuple[int, bytes]]:
        self._compact()
        return list(self._chunks)

    def _compact(self) -> None:
        joined: list[tuple[int, list[bytes]]] = []
        for stream, data in self._chunks:
            if joined and joined[-1][0] == stream:
                joined[-1][1].append(data)
            else:
                joined.append((stream, [data]))
        chunks = [(stream, b"".join(parts)) for stream, parts in joined]
        excess = sum(len(data) for _, data in chunks) - RING
        while chunks and excess > 0:
            stream, data = chunks.pop(0)
            if len(data) > excess:
                chunks.insert(0, (stream, data[excess:]))
            excess -= len(data)
        self._chunks = chunks = chunks[-MAX_CHUNKS // 2 :]  # half, so that it is some time until the next compaction
        self._size = sum(len(data) for _, data in chunks)


class Observer:
    """One channel that gets a command's output. ``on_room``: it takes more again."""

    def __init__(
        self, channel: Channel, output: int, missed: list[tuple[int, bytes]], on_room: Callable[[], None]
    ) -> None:
        self.channel = channel
        self.dropped = 0
        self._left = max(0, output)
        self._missed = missed
        self._on_room = on_room

    @property
    def idle(self) -> bool:
        """Nothing of the past is still to be sent."""
        return not self._missed

    def room(self) -> int:
        """Bytes that it takes now; beyond its cap it takes any number, to drop them."""
        if self._missed:
            return 0
        if not self._left or not self.channel.open:
            return UNLIMITED
        room = self.channel.room()
        if not room:
            self.channel.when_room(self._on_room)
        return room if room < self._left else UNLIMITED

    def take(self, stream: int, data: bytes) -> None:
        if len(data) > self._left:
            self.dropped += len(data) - self._left
            data = data[: self._left]
        self._left -= len(data)
        self.channel.data(stream, data)

    def replay(self) -> None:
        """Send what it missed, as far as there is room."""
        while self._missed and self.channel.open:
            stream, data = self._missed[0]
            room = min(self.channel.room(), len(data)) if self._left else len(data)
            if not room:
                self.channel.when_room(self._on_room)
                return
            self.take(stream, data[:room])
            if room < len(data):
                self._missed[0] = (stream, data[room:])
            else:
                del self._missed[0]
