"""A TLS ClientHello byte by byte (RFC 8446, 4.1.2), so that every part of it can be wrong in its own way."""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

SERVER_NAME, GROUPS, SIGNATURES, VERSIONS, KEY_SHARE, ALPN, PADDING, ECH = 0, 10, 13, 43, 51, 16, 21, 0xFE0D
GREASE = 0x8A8A  # RFC 8701: values that mean nothing and must be passed over
HANDSHAKE, CHANGE_CIPHER_SPEC, ALERT, APPLICATION = 22, 20, 21, 23

Extension = tuple[int, bytes]


def short(value: int) -> bytes:
    return struct.pack(">H", value)


def vector(data: bytes, size: int) -> bytes:
    """``data`` behind its length in ``size`` bytes."""
    return len(data).to_bytes(size, "big") + data


def shorts(*values: int) -> bytes:
    return b"".join(map(short, values))


def server_name(*names: bytes, kind: int = 0) -> Extension:
    return SERVER_NAME, vector(b"".join(bytes([kind]) + vector(name, 2) for name in names), 2)


def padding(size: int) -> Extension:
    return PADDING, bytes(size)


def tls13(shares: Sequence[tuple[int, bytes]] = ((29, bytes(range(32))),)) -> list[Extension]:
    listed = b"".join(short(group) + vector(key, 2) for group, key in shares)
    return [(VERSIONS, vector(shorts(0x0304, 0x0303), 1)), (KEY_SHARE, vector(listed, 2))]


def usual() -> list[Extension]:
    return [
        (GROUPS, vector(shorts(29, 23), 2)),
        (SIGNATURES, vector(shorts(0x0403, 0x0804, 0x0401), 2)),
        (ALPN, vector(vector(b"h2", 1) + vector(b"http/1.1", 1), 2)),
    ]


@dataclass
class ClientHello:
    extensions: list[Extension]
    version: int = 0x0303
    random: bytes = field(default_factory=lambda: os.urandom(32))
    session: bytes = b""
    ciphers: tuple[int, ...] = (0x1301, 0x1302, 0xC02F, 0xC030, 0x009C)
    compressions: bytes = b"\0"

    def message(self) -> bytes:
        """Without records."""
        extensions = b"".join(short(kind) + vector(data, 2) for kind, data in self.extensions)
        body = b"".join(
            [
                short(self.version),
                self.random,
                vector(self.session, 1),
                vector(shorts(*self.ciphers), 2),
                vector(self.compressions, 1),
                vector(extensions, 2),
            ]
        )
        return b"\x01" + vector(body, 3)

    def records(self, size: int = 16384, version: int = 0x0301) -> bytes:
        return records(self.message(), size, version)


def records(message: bytes, size: int = 16384, version: int = 0x0301) -> bytes:
    """A handshake message in records of at most ``size`` bytes each."""
    pieces = [message[at : at + size] for at in range(0, len(message), size)]
    return b"".join(bytes([HANDSHAKE]) + short(version) + vector(piece, 2) for piece in pieces)


def hello(*names: bytes, more: Sequence[Extension] = (), **fields: object) -> ClientHello:
    """As a client of today sends it, with these names in one list."""
    named = [server_name(*names)] if names else []
    return ClientHello([*named, *usual(), *tls13(), *more], **fields)  # type: ignore[arg-type]
