"""DNS messages (RFC 1035, and RFC 6891 as far as it must be): a hostile packet in, an answer out. No I/O.

Law: ``answer`` never raises, whatever the packet holds, looks at each byte once, and what it returns is shorter than 600
bytes: no answer is ever truncated.

What is not known does not exist (NXDOMAIN): that is final for every client. After REFUSED or SERVFAIL they ask again, or
say that it is a temporary failure. What exists has an IPv4 address and nothing else: for AAAA, HTTPS and all the rest the
answer is empty, since clients that ask for several wait for each, 5 s or more. There is no SOA, so nothing that is not
there is remembered: a name that is added resolves at once.
"""

from __future__ import annotations

from _struct import Struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Look = Callable[[str, int], "tuple[int, bytes | None]"]

A, PTR, AAAA, OPT, ANY = 1, 12, 28, 41, 255
NOERROR, FORMERR, SERVFAIL, NXDOMAIN, NOTIMP, REFUSED, BADVERS = 0, 1, 2, 3, 4, 5, 16

TTL = 60
"""Seconds. An address is its name's for ever, so nothing depends on it."""

MAX_NAME = 255
MAX_LABEL = 63
UDP_SIZE = 1232
"""Bytes that a client may send over UDP, as it is told: what DNS Flag Day 2020 agreed on."""

IN = 1
_HEADER = Struct("!HBBHHHH")
_TWO = Struct("!HH")
_RECORD = Struct("!HHIH")  # what follows its name
_QUERY, _AUTHORITATIVE, _RECURSION, _AVAILABLE = 0x80, 0x04, 0x01, 0x80
_POINTER = b"\xc0\x0c"  # to the question's name
_ROOT = b"\0"


class _Malformed(Exception):
    """Not a question."""


class _Question:
    __slots__ = ("group", "kind", "labels", "raw", "version")

    def __init__(self, labels: list[bytes], kind: int, group: int, raw: bytes, version: int | None) -> None:
        self.labels = labels
        self.kind = kind
        self.group = group
        self.raw = raw
        self.version = version  # of EDNS; None: not spoken


def answer(packet: bytes, look: Look) -> bytes:
    """What to send back; nothing: it was no query.

    ``look`` gets a name, as ``text`` writes it, and the kind of record that is asked for; it returns a response code and
    the record's content, or ``None`` where there is none of that kind.
    """
    if len(packet) < _HEADER.size or packet[2] & _QUERY:
        return b""
    if packet[2] & 0x78:  # an opcode other than QUERY
        return _response(packet, NOTIMP, None, None)
    try:
        question = _parse(packet)
    except (_Malformed, IndexError):
        return _response(packet, FORMERR, None, None)
    if question.version:
        return _response(packet, BADVERS, question, None)
    if question.group not in (IN, ANY) or not question.labels:
        return _response(packet, REFUSED, question, None)
    return _response(packet, *_found(question, look))


def _found(question: _Question, look: Look) -> tuple[int, _Question, bytes | None]:
    try:
        code, content = look(text(question.labels), question.kind)
    except Exception:  # the law; whoever looks has its own
        code, content = SERVFAIL, None
    return code, question, content


def text(labels: list[bytes]) -> str:
    """In lower case and printable ASCII: any other byte is written as \\DDD (RFC 1035, 5.1), and so are dots in labels."""
    return ".".join("".join(_WRITTEN[byte] for byte in label) for label in labels)


def name(host: str) -> bytes:
    """A host in canonical form, as it stands in a message."""
    return b"".join(len(label).to_bytes(1, "big") + label.encode("ascii") for label in host.split(".")) + _ROOT


def _written(byte: int) -> str:
    character = chr(byte)
    return character.lower() if 0x20 < byte < 0x7F and character not in ".\\" else f"\\{byte:03d}"


_WRITTEN = tuple(_written(byte) for byte in range(256))


def _parse(packet: bytes) -> _Question:
    _, _, _, questions, answers, authorities, additional = _HEADER.unpack_from(packet)
    if (questions, answers, authorities) != (1, 0, 0):
        raise _Malformed
    labels, end = _labels(packet, _HEADER.size)
    if end + _TWO.size > len(packet):
        raise _Malformed
    kind, group = _TWO.unpack_from(packet, end)
    end += _TWO.size
    return _Question(labels, kind, group, packet[_HEADER.size : end], _edns(packet, end) if additional else None)


def _labels(packet: bytes, at: int) -> tuple[list[bytes], int]:
    """The name at ``at``, without pointers, and where it ends. Raises ``_Malformed`` or ``IndexError``."""
    labels, start = [], at
    while packet[at]:
        size = packet[at]
        at += 1 + size
        if size > MAX_LABEL or at >= len(packet) or at - start >= MAX_NAME:
            raise _Malformed
        labels.append(packet[at - size : at])
    return labels, at + 1


def _edns(packet: bytes, at: int) -> int | None:
    """The version that the first additional record speaks, if it is an OPT; others are signatures that nobody checks."""
    record = packet[at : at + 11]
    if len(record) < 11 or record[:1] != _ROOT or int.from_bytes(record[1:3], "big") != OPT:
        return None
    return record[6]


def _response(packet: bytes, code: int, question: _Question | None, content: bytes | None) -> bytes:
    first = _QUERY | _AUTHORITATIVE | packet[2] & (0x78 | _RECURSION)
    edns = question is not None and question.version is not None
    counts = (int(question is not None), int(content is not None), 0, int(edns))
    identity = int.from_bytes(packet[:2], "big")
    parts = [_HEADER.pack(identity, first, _AVAILABLE | code & 0xF, *counts)]
    if question is not None:
        parts.append(question.raw)
        if content is not None:
            kind = A if question.kind == ANY else question.kind
            parts += [_POINTER, _RECORD.pack(kind, IN, TTL, len(content)), content]
    if edns:
        parts += [_ROOT, _RECORD.pack(OPT, UDP_SIZE, code >> 4 << 24, 0)]
    return b"".join(parts)
