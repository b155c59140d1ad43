"""Reading a tar stream that nobody vouches for. No I/O: bytes in, members and their content out.

Python's tarfile is made for archives one trusts to be archives: it reads headers of any size into memory and knows a dozen
dialects. This reader knows what the agent writes (ustar, pax records, GNU long names) and refuses all else by name. It
holds at most one block and one extended header. Whatever the bytes, it raises ``UnsafeTree`` and nothing else.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from dayfly.errors import UnsafeTree

__all__ = ["BLOCK", "Kind", "Member", "TarReader", "shown"]

BLOCK = 512

MAX_EXTENDED = 64 * 1024
"""Bytes of one extended header: a path and a link target of 4096 bytes each, four times over."""

MAX_TRAILER = 1024 * 1024
"""Bytes of zeros after the end: writers pad to 10 KiB, and a stream that goes on for ever must end."""

MAX_TIME = 2.0**33
"""Seconds since the epoch, in the year 2242: beyond it some file systems fail."""


class Kind(StrEnum):
    FILE = "file"
    DIRECTORY = "directory"
    SYMLINK = "symbolic link"
    HARDLINK = "hard link"


_KINDS = {
    b"0": Kind.FILE,
    b"\0": Kind.FILE,
    b"7": Kind.FILE,
    b"5": Kind.DIRECTORY,
    b"2": Kind.SYMLINK,
    b"1": Kind.HARDLINK,
}
_EXTENDED = {b"x", b"L", b"K"}
_REFUSED = {
    b"3": "a character device",
    b"4": "a block device",
    b"6": "a FIFO",
    b"S": "a sparse file",
    b"g": "a global header",
}
_OCTAL = re.compile(rb"^ *([0-7]*)[ \0]*$")
_DECIMAL = re.compile(rb"^[0-9]{1,20}$")


@dataclass(frozen=True)
class Member:
    """One entry, as the stream claims it. ``name`` and ``target`` are raw bytes, not judged yet; ``modified`` is in range."""

    name: bytes
    kind: Kind
    size: int = 0
    mode: int = 0o644
    modified: float = 0.0
    target: bytes = b""


class TarReader:
    """Feed it bytes; it gives a ``Member``, then that member's content in pieces, then the next ``Member``."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._content = 0  # bytes of the current member that are still to come
        self._padding = 0
        self._extended: bytes | None = None  # the type of the extended header that is being read
        self._overrides: dict[str, bytes] = {}
        self._zeros = 0
        self._trailer = 0

    def feed(self, data: bytes) -> Iterator[Member | bytes]:
        """What the next bytes complete. Raises ``UnsafeTree``. The iterator must be used up before the next call."""
        view = memoryview(data)
        while view:
            if self._content and self._extended is None:
                piece = bytes(view[: self._content])
                self._content -= len(piece)
                view = view[len(piece) :]
                yield piece
            elif self._padding:
                view = self._skip(view)
            else:
                wanted = self._content if self._extended is not None else BLOCK
                part = view[: wanted - len(self._buffer)]
                self._buffer += part
                view = view[len(part) :]
                if len(self._buffer) == wanted:
                    member = self._complete(bytes(self._buffer))
                    self._buffer.clear()
                    if member is not None:
                        yield member

    def finish(self) -> None:
        """The stream is over. Raises ``UnsafeTree`` if the archive is not."""
        if self._zeros < 2 or self._content or self._padding or self._buffer:
            raise UnsafeTree("the archive is cut short")

    def _skip(self, view: memoryview) -> memoryview:
        skipped = min(self._padding, len(view))
        self._padding -= skipped
        return view[skipped:]

    def _complete(self, data: bytes) -> Member | None:
        if self._extended is not None:
            self._read_extended(self._extended, data)
            self._extended, self._content = None, 0
            return None
        if not any(data):
            self._read_zeros()
            return None
        if self._zeros:
            raise UnsafeTree("something follows the end of the archive")
        return self._read_header(data)

    def _read_zeros(self) -> None:
        self._zeros += 1
        self._trailer += BLOCK
        if self._overrides or self._trailer > MAX_TRAILER:
            raise UnsafeTree("the archive does not end as one")

    def _read_header(self, block: bytes) -> Member | None:
        stated = _number(block[148:156], "checksum")
        if stated != sum(block) - sum(block[148:156]) + 8 * 32 or block[257:262] != b"ustar":
            raise UnsafeTree("this is not a tar archive, or it is damaged")
        kind = block[156:157]
        size = self._size(block)
        if kind in _EXTENDED:
            self._begin_extended(kind, size)
            return None
        return self._member(block, kind, size)

    def _size(self, block: bytes) -> int:
        override = self._overrides.get("size")
        if override is None or block[156:157] in _EXTENDED:
            return _number(block[124:136], "size")
        if not _DECIMAL.match(override):
            raise UnsafeTree("an extended header with an unreadable size")
        return int(override)

    def _begin_extended(self, kind: bytes, size: int) -> None:
        if not 0 < size <= MAX_EXTENDED:
            raise UnsafeTree(f"an extended header of {size} bytes, {MAX_EXTENDED} allowed")
        self._extended, self._content = kind, size
        self._padding = 0

    def _read_extended(self, kind: bytes, data: bytes) -> None:
        found = _pax(data) if kind == b"x" else {"path" if kind == b"L" else "linkpath": data.rstrip(b"\0")}
        if found.keys() & self._overrides.keys():
            raise UnsafeTree("two extended headers say the same thing")
        self._overrides.update(found)
        self._padding = -len(data) % BLOCK

    def _member(self, block: bytes, kind: bytes, size: int) -> Member:
        overrides, self._overrides = self._overrides, {}
        name = overrides.get("path", _ustar_name(block))
        if kind not in _KINDS:
            raise UnsafeTree(f"{shown(name)} is {_REFUSED.get(kind, f'of the unknown type {kind!r}')}")
        found = _KINDS[kind]
        if found is Kind.FILE and name.endswith(b"/"):
            found = Kind.DIRECTORY  # as old archives write them
        if found is not Kind.FILE and size:
            raise UnsafeTree(f"{shown(name)} is a {found} with content")
        self._content, self._padding = size, -size % BLOCK
        return Member(
            name,
            found,
            size,
            _number(block[100:108], "mode") & 0o7777,
            _time(overrides.get("mtime"), block),
            overrides.get("linkpath", _text(block[157:257])),
        )


def shown(name: bytes) -> str:
    """A name from outside, for a message: bounded and without control characters."""
    return ascii(name[:200].decode("utf-8", "surrogateescape"))


def _text(field: bytes) -> bytes:
    return field.split(b"\0", 1)[0]


def _ustar_name(block: bytes) -> bytes:
    name, prefix = _text(block[:100]), _text(block[345:500])
    return prefix + b"/" + name if prefix and block[257:263] == b"ustar\0" else name


def _number(field: bytes, what: str) -> int:
    if field[0] == 0x80:  # GNU's binary numbers
        return int.from_bytes(field[1:], "big")
    match = _OCTAL.match(field)
    if match is None:
        raise UnsafeTree(f"an unreadable {what} in a header")
    return int(match[1] or b"0", 8)


def _time(override: bytes | None, block: bytes) -> float:
    try:
        value = float(override) if override is not None else float(_number(block[136:148], "time"))
    except ValueError:
        raise UnsafeTree("an unreadable time in a header") from None
    return min(max(value, 0.0), MAX_TIME) if math.isfinite(value) else 0.0


def _pax(data: bytes) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    position = 0
    while position < len(data):
        length, _, rest = data[position : position + 24].partition(b" ")
        if not rest or not _DECIMAL.match(length) or len(length) > 6:
            raise UnsafeTree("an extended header that cannot be read")
        record = data[position + len(length) + 1 : position + int(length)]
        key, equals, value = record.partition(b"=")
        if not equals or not value.endswith(b"\n") or position + int(length) > len(data):
            raise UnsafeTree("an extended header that cannot be read")
        name = key.decode("ascii", "replace")
        if name.startswith("GNU.sparse"):
            raise UnsafeTree("a sparse file")
        if name in ("path", "linkpath", "size", "mtime"):
            found[name] = value[:-1]
        position += int(length)
    return found
