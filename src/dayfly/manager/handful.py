"""Small files on their way in, as one tar stream: a call for each of them would take ten times as long as the file."""

from __future__ import annotations

import tarfile
import time
from collections.abc import AsyncIterator

from dayfly.limits import KIB, MIB

__all__ = ["LARGEST", "Handful"]

LARGEST = 64 * KIB
"""Bytes of a file that is small."""

MOST_BYTES = 1 * MIB
MOST_FILES = 256
"""Of one handful, all of which is held in memory."""


class Handful:
    """Modes and owners are those of any file that is written there."""

    def __init__(self) -> None:
        self._files: list[tuple[str, bytes]] = []
        self._size = 0

    def __len__(self) -> int:
        return len(self._files)

    @property
    def full(self) -> bool:
        return self._size >= MOST_BYTES or len(self) >= MOST_FILES

    def add(self, path: str, data: bytes) -> None:
        """``path``: below the directory that it is unpacked in."""
        self._files.append((path, data))
        self._size += len(data)

    async def taken(self) -> AsyncIterator[bytes]:
        """The archive; the handful is empty then."""
        files, self._files, self._size = self._files, [], 0
        for path, data in files:
            yield _header(path, len(data)) + data + bytes(-len(data) % tarfile.BLOCKSIZE)
        yield bytes(2 * tarfile.BLOCKSIZE)


def _header(path: str, size: int) -> bytes:
    member = tarfile.TarInfo(path)
    member.size, member.mtime, member.mode = size, int(time.time()), 0o644
    return member.tobuf(tarfile.PAX_FORMAT)
