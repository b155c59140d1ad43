"""Tar headers, written and read: the plain ustar form, PAX records for what does not fit, GNU's long names when read.

Own code, because Python's tarfile takes 26-46 ms to import inside gVisor, and trusts what it reads.
"""

from __future__ import annotations

from dayfly.agent import problems
from dayfly.agent.problems import trouble

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Read = Callable[[int], bytes]

BLOCK = 512
END = bytes(2 * BLOCK)

FILE = b"0"
DIRECTORY = b"5"
SYMLINK = b"2"
PAX = b"x"
_GLOBAL = b"g"
_LONG_NAME = b"L"
_LONG_LINK = b"K"
_FILES = (FILE, b"\0", b"7")
_EXTENDED = (PAX, _GLOBAL, _LONG_NAME, _LONG_LINK)

MAX_EXTENDED = 64 * 1024
"""Bytes of one extended header: a path and a link target of 4096 bytes each, several times over."""

_MAX_FIELD = 0o77777777777  # of a size or a time in a ustar header


class Member:
    """One entry. ``name`` and ``target`` are bytes as they stand there, not judged."""

    __slots__ = ("kind", "mode", "modified", "name", "size", "target")

    def __init__(self, name: bytes, kind: bytes, mode: int, modified: int, size: int = 0, target: bytes = b"") -> None:
        self.name = name
        self.kind = kind
        self.mode = mode
        self.modified = modified
        self.size = size
        self.target = target


def header(member: Member) -> bytes:
    """The blocks before the member's content."""
    records = {}
    if not _fits(member.name):
        records[b"path"] = member.name
    if not _fits(member.target):
        records[b"linkpath"] = member.target
    if member.size > _MAX_FIELD:
        records[b"size"] = b"%d" % member.size
    return (_pax_header(records) if records else b"") + _block(member)


def padding(size: int) -> int:
    return -size % BLOCK


def _fits(text: bytes) -> bool:
    return len(text) <= 100 and text.isascii()


def _pax_header(records: dict[bytes, bytes]) -> bytes:
    try:
        b"".join(records.values()).decode("utf-8")
    except UnicodeDecodeError:  # PAX values are UTF-8, except when this record comes first
        records = {b"hdrcharset": b"BINARY", **records}
    data = b"".join(_pax_record(key, value) for key, value in records.items())
    return _block(Member(b"PaxHeaders/0", PAX, 0o644, 0, len(data))) + data + bytes(padding(len(data)))


def _pax_record(key: bytes, value: bytes) -> bytes:
    """ "LENGTH key=value", where the length counts its own digits."""
    rest = b" " + key + b"=" + value + b"\n"
    length = len(rest)
    while length != len(rest) + len(str(length)):
        length = len(rest) + len(str(length))
    return b"%d" % length + rest


def _block(member: Member) -> bytes:
    size = min(member.size, _MAX_FIELD)
    modified = min(max(0, member.modified), _MAX_FIELD)
    fields = (
        member.name[:100].ljust(100, b"\0"),
        b"%07o\0%07o\0%07o\0" % (member.mode & 0o777, 0, 0),
        b"%011o\0%011o\0" % (size, modified),
        b" " * 8,  # the checksum is computed over blanks
        member.kind,
        member.target[:100].ljust(100, b"\0"),
        b"ustar\x0000",
    )
    block = b"".join(fields).ljust(BLOCK, b"\0")
    return block[:148] + b"%06o\0 " % sum(block) + block[156:]


# --- reading ------------------------------------------------------------------------------------------------------


def next_member(read: Read) -> Member | None:
    """The next member, its content still to be read; ``None`` at the end. Raises ``Refused`` for what is no tar."""
    overrides: dict[bytes, bytes] = {}
    while True:
        block = read(BLOCK)
        if not any(block):
            if overrides or len(block) != BLOCK:  # also: no end before the end of the stream
                raise _damaged()
            return None
        member = _parsed(block)
        if member.kind not in _EXTENDED:
            return _overridden(member, overrides)
        if member.size > MAX_EXTENDED:
            raise trouble(problems.OTHER, f"an extended header of {member.size} bytes")
        data = read(member.size + padding(member.size))
        if len(data) != member.size + padding(member.size):
            raise _damaged()
        overrides.update(_extended(member.kind, data[: member.size]))


def _parsed(block: bytes) -> Member:
    if len(block) != BLOCK or _number(block[148:156]) != sum(block) - sum(block[148:156]) + 8 * 32:
        raise _damaged()
    name = _text(block[:100])
    prefix = _text(block[345:500]) if block[257:263] == b"ustar\0" else b""
    kind = FILE if block[156:157] in _FILES else block[156:157]
    if kind == FILE and name.endswith(b"/"):
        kind = DIRECTORY  # as old archives write them
    return Member(
        prefix + b"/" + name if prefix else name,
        kind,
        _number(block[100:108]) & 0o777,
        _number(block[136:148]),
        _number(block[124:136]),
        _text(block[157:257]),
    )


def _overridden(member: Member, overrides: dict[bytes, bytes]) -> Member:
    member.name = overrides.get(b"path", member.name)
    member.target = overrides.get(b"linkpath", member.target)
    size = overrides.get(b"size")
    if size is not None:
        if not size.isdigit() or len(size) > 19:
            raise _damaged()
        member.size = int(size)
    if member.kind != FILE and member.size:
        raise _damaged()
    return member


def _extended(kind: bytes, data: bytes) -> dict[bytes, bytes]:
    if kind == _LONG_NAME:
        return {b"path": data.rstrip(b"\0")}
    if kind == _LONG_LINK:
        return {b"linkpath": data.rstrip(b"\0")}
    return _pax(data) if kind == PAX else {}


def _pax(data: bytes) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = {}
    while data:
        digits, blank, _ = data[:8].partition(b" ")
        length = int(digits) if blank and digits.isdigit() else 0
        key, equals, value = data[len(digits) + 1 : length].partition(b"=")
        if not equals or not value.endswith(b"\n") or length > len(data):
            raise _damaged()
        found[key] = value[:-1]
        data = data[length:]
    return found


def _text(field: bytes) -> bytes:
    return field.split(b"\0", 1)[0]


def _number(field: bytes) -> int:
    if field[:1] == b"\x80":  # GNU's binary numbers
        return int.from_bytes(field[1:], "big")
    digits = field.strip(b" \0")
    if digits and (not digits.isdigit() or b"8" in digits or b"9" in digits):
        raise _damaged()
    return int(digits or b"0", 8)


def _damaged() -> Exception:
    return trouble(problems.OTHER, "not a tar archive, or a damaged one")
