"""aws-chunked, in which newer SDKs send bodies: chunks with or without signatures, and a checksum behind them. A machine without I/O,
and the body without it."""

from __future__ import annotations

import base64
import hashlib
import re
import zlib
from collections.abc import Iterator
from typing import Protocol

from dayfly.egress.http.messages import Body

__all__ = ["BadChunks", "Unchunker", "unchunked"]

_LONGEST_LINE = 512  # a size and a signature are 90 characters, or 200 of the asymmetric kind
_MOST_TRAILERS = 4
_SIZE = re.compile(rb"([0-9A-Fa-f]{1,12})(?:;chunk-signature=[0-9A-Za-z*+/=]{1,256})?")
_TRAILER = re.compile(rb"(x-amz-checksum-[a-z0-9]{1,16}|x-amz-trailer-signature) ?: ?([\x21-\x7e]{1,300})")


class BadChunks(ValueError):
    """``str()`` says what is wrong, as a phrase whose subject is the body."""


class _Sum(Protocol):
    def update(self, data: bytes, /) -> None: ...
    def digest(self) -> bytes: ...


class _Crc32:
    def __init__(self) -> None:
        self._value = 0

    def update(self, data: bytes, /) -> None:
        self._value = zlib.crc32(data, self._value)

    def digest(self) -> bytes:
        return self._value.to_bytes(4, "big")


def _sum_for(trailer: str) -> _Sum | None:
    """``None``: of a kind that the standard library does not have. Then nobody has looked."""
    if trailer == "x-amz-checksum-crc32":
        return _Crc32()
    if trailer == "x-amz-checksum-sha1":
        return hashlib.sha1(usedforsecurity=False)
    return hashlib.sha256() if trailer == "x-amz-checksum-sha256" else None


class Unchunker:
    """``length``: bytes that there are without the chunks around them; ``trailer``: the name of the checksum that follows, or ``""``."""

    def __init__(self, length: int, trailer: str = "") -> None:
        self._left = length
        self._trailer = trailer
        self._sum = _sum_for(trailer)
        self._line = bytearray()  # what has come of a line
        self._chunk = 0  # bytes that are still to come of this chunk
        self._state = "size"  # size, data, crlf, trailers, end
        self._trailers: dict[str, str] = {}

    def feed(self, data: bytes) -> Iterator[bytes]:
        """What is in it. Raises ``BadChunks``."""
        at = 0
        while at < len(data):
            if self._state == "data":
                piece = data[at : at + self._chunk]
                at += len(piece)
                yield self._taken(piece)
            elif self._state == "end":
                raise BadChunks("goes on behind its end")
            else:
                at = self._read_line(data, at)

    def finish(self) -> None:
        """There is no more. Raises ``BadChunks`` where there should be, and where the checksum is another."""
        if self._state not in ("trailers", "end") or self._line:
            raise BadChunks("ends before its end")
        if self._left:
            raise BadChunks("is shorter than it says")
        if self._trailer and self._trailer not in self._trailers:
            raise BadChunks("has no checksum behind it, which it announces")
        if self._sum is not None:
            expected = base64.b64encode(self._sum.digest()).decode()
            if self._trailers[self._trailer] != expected:
                raise BadChunks("is not what its checksum says")

    def _taken(self, piece: bytes) -> bytes:
        self._chunk -= len(piece)
        if not self._chunk:
            self._state = "crlf"
        if self._sum is not None:
            self._sum.update(piece)
        return piece

    def _read_line(self, data: bytes, at: int) -> int:
        """Take what belongs to the line that is being read; the index behind it."""
        end = data.find(b"\n", at)
        part = data[at:] if end < 0 else data[at : end + 1]
        self._line += part
        if len(self._line) > _LONGEST_LINE:
            raise BadChunks("has a line without end in the place of a chunk's size")
        if end >= 0:
            line = bytes(self._line)
            self._line.clear()
            if not line.endswith(b"\r\n"):
                raise BadChunks("has a line that does not end with CR LF")
            self._lined(line[:-2])
        return at + len(part)

    def _lined(self, line: bytes) -> None:
        if self._state == "crlf":
            if line:
                raise BadChunks("has a chunk that is longer than it says")
            self._state = "size"
        elif self._state == "size":
            self._sized(line)
        elif line:
            self._trailed(line)
        else:
            self._state = "end"

    def _sized(self, line: bytes) -> None:
        size = _SIZE.fullmatch(line)
        if size is None:
            raise BadChunks("has something else in the place of a chunk's size")
        self._chunk = int(size[1], 16)
        if self._chunk > self._left:
            raise BadChunks("is longer than it says")
        self._left -= self._chunk
        self._state = "data" if self._chunk else "trailers"

    def _trailed(self, line: bytes) -> None:
        found = _TRAILER.fullmatch(line)
        if found is None or len(self._trailers) >= _MOST_TRAILERS:
            raise BadChunks("has something else than checksums behind it")
        self._trailers[found[1].decode()] = found[2].decode()


async def unchunked(body: Body, length: int, trailer: str = "") -> Body:
    """``body`` without its chunks. The last piece is kept back until the checksum has been seen, so that a store never has the whole
    of what was broken on its way. Raises ``BadChunks``."""
    machine = Unchunker(length, trailer)
    kept = b""
    async for data in body:
        for piece in machine.feed(data):
            if kept:
                yield kept
            kept = piece
    machine.finish()
    if kept:
        yield kept
