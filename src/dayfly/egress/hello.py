"""What a TLS client says first: whom it wants to talk to. OpenSSL reads it, as the strictest servers do.

No handshake ever comes about: OpenSSL calls back with the name as soon as it has read the whole ClientHello, however many
records that came in, and is stopped there. It has refused by then what two servers might read differently: two names, a
zero byte in one, an extension that is there twice, lengths that contradict each other.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from weakref import WeakKeyDictionary

__all__ = ["ANSWER", "Hello", "NotTls", "asks_again", "record_size"]

_HANDSHAKE = 0x16
_RECORD_HEADER = 5
_BEFORE_SESSION = 4 + 2 + 32  # the handshake's own header, a version, a random number
_ENCRYPTED_CLIENT_HELLO = 0xFE0D

ANSWER = _RECORD_HEADER + _BEFORE_SESSION
"""Bytes of a server's answer that tell what it is."""

_RETRY = sha256(b"HelloRetryRequest").digest()  # in the place of a random number

_said: WeakKeyDictionary[ssl.SSLObject, str | None] = WeakKeyDictionary()
"""The name that the client of each has named, once it has."""


class NotTls(Exception):
    """These bytes are no ClientHello, or one that OpenSSL refuses."""


class Hello:
    """``feed`` it with what arrives until ``whole``; then ``name`` is the name in it, if there is one."""

    def __init__(self) -> None:
        self._incoming = ssl.MemoryBIO()
        self._tls = _context().wrap_bio(self._incoming, ssl.MemoryBIO(), server_side=True)
        self._bytes = bytearray()

    def feed(self, data: bytes) -> None:
        """Raises ``NotTls``."""
        self._bytes += data
        self._incoming.write(data)
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return
        except (ssl.SSLError, ValueError):
            if self._tls not in _said:
                raise NotTls from None

    @property
    def whole(self) -> bool:
        return self._tls in _said

    @property
    def name(self) -> str | None:
        """ASCII, as it was said."""
        return _said.get(self._tls)

    @property
    def size(self) -> int:
        """Bytes of its records: what was fed beyond them is not of this message. Zero where its end is not a record's."""
        message, size = _message(self._bytes)
        return size if len(message) == _declared(message) else 0

    @property
    def hides_the_name(self) -> bool:
        """Whether another ClientHello is encrypted in this one (ECH), whose name is what counts; or noise like that."""
        try:
            return _ENCRYPTED_CLIENT_HELLO in _extensions(_message(self._bytes)[0])
        except IndexError:  # it was read by OpenSSL, so this does not come about; if it does, nothing is known
            return True


def _name_seen(tls: ssl.SSLSocket | ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> int:
    assert isinstance(tls, ssl.SSLObject)
    _said[tls] = name
    return int(ssl.AlertDescription.ALERT_DESCRIPTION_UNRECOGNIZED_NAME)  # go no further


@cache
def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)  # without a certificate: it would be needed after the name only
    context.sni_callback = _name_seen
    return context


def asks_again(answer: bytes) -> bool | None:
    """Whether a server that answers like that wants another ClientHello (RFC 8446, 4.1.4); ``None`` while that is not clear.

    An answer in smaller pieces than servers send is taken for that, too.
    """
    if answer and answer[0] != _HANDSHAKE:
        return False
    if len(answer) >= _RECORD_HEADER and _int(answer, 3, 2) < ANSWER - _RECORD_HEADER:
        return True
    return None if len(answer) < ANSWER else answer[-len(_RETRY) :] == _RETRY


def record_size(data: bytes) -> int:
    """Of the record that ``data`` begins with, whose header is in it."""
    return _RECORD_HEADER + _int(data, 3, 2)


def _message(data: bytes | bytearray) -> tuple[bytes, int]:
    """The handshake message out of its records, with all that is in them, and how long those are."""
    message, at = bytearray(), 0
    while at < len(data) and len(message) < _declared(message):
        length = _int(data, at + 3, 2)
        message += data[at + _RECORD_HEADER : at + _RECORD_HEADER + length]
        at += _RECORD_HEADER + length
    return bytes(message), at


def _declared(message: bytes | bytearray) -> int:
    return 4 + _int(message, 1, 3) if len(message) >= 4 else 4


def _extensions(message: bytes) -> Iterator[int]:
    """Their types. Only of a message that OpenSSL has accepted. Raises ``IndexError``."""
    at = _BEFORE_SESSION
    at += 1 + message[at]  # session
    at += 2 + _int(message, at, 2)  # ciphers
    at += 1 + message[at]  # compressions
    end = at + 2 + _int(message, at, 2) if at < len(message) else at
    at += 2
    while at < end:
        yield _int(message, at, 2)
        at += 4 + _int(message, at + 2, 2)


def _int(data: bytes | bytearray, at: int, size: int) -> int:
    if at + size > len(data):
        raise IndexError
    return int.from_bytes(data[at : at + size], "big")
