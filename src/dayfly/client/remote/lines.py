"""NDJSON, cut into its lines. No I/O."""

from __future__ import annotations

from collections.abc import Iterator

from dayfly.client.remote.failures import BadAnswer

__all__ = ["Lines"]


class Lines:
    """Takes bytes as they come and gives whole lines; empty ones only keep the connection alive and are left out.

    Never holds more than ``cap`` bytes and the piece that it is given.
    """

    def __init__(self, cap: int) -> None:
        self._cap = cap
        self._parts: list[bytes] = []  # of a line whose end has not come
        self._size = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Raises ``BadAnswer`` for a line of more than ``cap`` bytes."""
        *ends, rest = data.split(b"\n")
        for end in ends:
            self._keep(end)
            line = b"".join(self._parts).strip()
            self._parts, self._size = [], 0
            if line:
                yield line
        self._keep(rest)

    def _keep(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self._cap:
            raise BadAnswer(f"the server sent a line of more than {self._cap} bytes")
        if part:
            self._parts.append(part)
