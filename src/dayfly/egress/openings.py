"""What a connection has to begin with, by the protocol of its rule. Until that was seen nothing of the sandbox's bytes goes on.

``tls``: a ClientHello that names the judged host. ``http``: a first request to it. ``postgres``: the request for TLS, which
goes on as the eight bytes that it always is, and then as ``tls``; or ``tls`` at once. ``tcp``: anything.

A server may ask for a second ClientHello; that one is held to the same name, and goes on alone, as the first does.

What remains open here: what is said inside of TLS (another Host than the name), and every request on an ``http`` connection
after the first. Rules that look at requests have a service for that, and do not begin here.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable

import h11

from dayfly.egress.hello import ANSWER, Hello, NotTls, asks_again, record_size
from dayfly.egress.http.heads import names
from dayfly.egress.http.messages import Refused
from dayfly.egress.verdict import Allowed

__all__ = ["MOST", "Opening", "opening"]

MOST = 16 * 1024
"""Bytes that a connection may begin with until it is clear what it is. Real ones take 200 to 2,000."""

SSL_REQUEST = bytes([0, 0, 0, 8, 4, 210, 22, 47])
GSS_REQUEST = bytes([0, 0, 0, 8, 4, 210, 22, 48])
CHANGE_OF_CIPHER = b"\x14\x03\x03\x00\x01\x01"
_HANDSHAKE = b"\x16"


class Opening:
    """The two ends of a tunnel before it is one. ``sandbox`` and ``upstream`` are non-blocking sockets; ``take`` is told of every
    byte before it goes on, and may raise ``Refused``."""

    def __init__(
        self, allowed: Allowed, sandbox: socket.socket, upstream: socket.socket, take: Callable[[int], None]
    ) -> None:
        self.allowed = allowed
        self.head = b""  # read from the sandbox and not passed on: whoever goes on with this does that first
        self.sent = 0
        self.received = 0
        self._sandbox = sandbox
        self._upstream = upstream
        self._take = take

    async def more(self) -> bytes:
        """What the sandbox says next, added to ``head``. Raises ``EOFError``, ``Refused``, ``OSError``."""
        if len(self.head) >= MOST:
            raise self.refused("not_tls", f"it is not clear what it is after {MOST} bytes")
        data = await asyncio.get_running_loop().sock_recv(self._sandbox, MOST - len(self.head))
        if not data:
            raise EOFError
        self.head += data
        return data

    async def send(self, count: int) -> None:
        """So many bytes of ``head`` to the server. Raises ``Refused``, ``OSError``."""
        data, self.head = self.head[:count], self.head[count:]
        self._take(len(data))
        await asyncio.get_running_loop().sock_sendall(self._upstream, data)
        self.sent += len(data)

    async def hear(self, most: int) -> bytes:
        """What the server says next, which the sandbox hears too. Raises ``EOFError``, ``Refused``, ``OSError``."""
        data = await asyncio.get_running_loop().sock_recv(self._upstream, most)
        if not data:
            raise EOFError
        self._take(len(data))
        await self.answer(data)
        self.received += len(data)
        return data

    async def answer(self, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self._sandbox, data)

    def refused(self, code: str, what: str, remedy: str = "") -> Refused:
        usual = f"Speak {_SPOKEN[self.allowed.protocol]} to this name, or ask for a rule with protocol tcp."
        return Refused(self.allowed.ended(code, what, remedy or usual))


_SPOKEN = {
    "tls": "TLS with its server name",
    "http": "HTTP/1.1",
    "postgres": "PostgreSQL with sslmode=require",
    "tcp": "",
}


async def opening(one: Opening) -> None:
    """Return when the bytes may pass, ``one.head`` first. Raises ``Refused``, ``EOFError``, ``OSError``."""
    await _BY_PROTOCOL[one.allowed.protocol](one)


async def _tcp(one: Opening) -> None:
    """Anything goes."""


async def _tls(one: Opening) -> None:
    await _hello(one)
    answer = b""
    while (again := asks_again(answer)) is None:
        answer += await one.hear(ANSWER - len(answer))
    if again:
        for_client = record_size(answer) - len(answer)
        while for_client > 0:
            for_client -= len(await one.hear(for_client))
        await _change_of_cipher(one)
        await _hello(one)


async def _hello(one: Opening) -> None:
    """Exactly the ClientHello goes on: what is behind it might be the second one, before it is asked for."""
    hello = Hello()
    try:
        hello.feed(one.head or await one.more())
        while not hello.whole:
            hello.feed(await one.more())
    except NotTls:
        raise one.refused("not_tls", "it does not begin with a TLS handshake (1.2 or newer)") from None
    _judge_hello(one, hello)
    if not hello.size:
        raise one.refused("not_tls", "its TLS handshake does not end where a record does")
    await one.send(hello.size)


async def _change_of_cipher(one: Opening) -> None:
    """It means nothing, and is there so that middle boxes of old are content (RFC 8446, D.4)."""
    while not one.head or (CHANGE_OF_CIPHER.startswith(one.head) and len(one.head) < len(CHANGE_OF_CIPHER)):
        await one.more()
    if one.head.startswith(CHANGE_OF_CIPHER):
        await one.send(len(CHANGE_OF_CIPHER))


def _judge_hello(one: Opening, hello: Hello) -> None:
    if hello.name is None:
        raise one.refused("sni_mismatch", "its TLS handshake has no server name")
    if hello.name.lower() != one.allowed.host:
        raise one.refused("sni_mismatch", f"its TLS handshake names {hello.name[:100]!a}")
    if hello.hides_the_name:
        raise one.refused(
            "sni_mismatch",
            "its TLS handshake has an encrypted server name (ECH)",
            "Switch Encrypted Client Hello off in the client.",
        )


async def _http(one: Opening) -> None:
    parser = h11.Connection(h11.SERVER, max_incomplete_event_size=MOST)
    try:
        while (request := _next(parser, await one.more())) is None:
            pass
    except h11.RemoteProtocolError:
        raise one.refused("not_tls", "its first bytes are no HTTP/1.1 request") from None
    found = _names(request)
    if not found or not all(names(name, one.allowed) for name in found):
        shown = ascii(", ".join(found)[:100]) if found else "no host"
        raise one.refused("sni_mismatch", f"its first request names {shown}")


def _next(parser: h11.Connection, data: bytes) -> h11.Request | None:
    parser.receive_data(data)
    event = parser.next_event()
    if event is h11.NEED_DATA:
        return None
    if not isinstance(event, h11.Request) or event.http_version not in (b"1.0", b"1.1"):
        raise h11.RemoteProtocolError("no request of HTTP/1")
    return event


def _names(request: h11.Request) -> list[str]:
    """Every host that the request names, in its target and in its header."""
    target = request.target.decode("latin-1")
    names = [value.decode("latin-1") for name, value in request.headers if name == b"host"]
    if request.method == b"CONNECT":
        names.append(target)
    elif not target.startswith("/") and target != "*":
        scheme, mark, rest = target.partition("://")
        names.append(rest.partition("/")[0].partition("?")[0] if mark and scheme.lower() == "http" else target)
    return names


async def _postgres(one: Opening) -> None:
    """TLS only: a name in the clear is not to be seen in this protocol, and a password in the clear is nobody's wish.

    A request to cancel (16 bytes in the clear, on a connection of its own) is refused with the rest.
    """
    if await _begins_with_tls(one):
        return await _tls(one)
    request = await _eight(one)
    if request == GSS_REQUEST:  # libpq asks for that first where it has a Kerberos ticket; "N" is a polite no
        await one.answer(b"N")
        one.head = b""
        request = await _eight(one)
    if request != SSL_REQUEST:
        raise one.refused("not_tls", "it does not begin with PostgreSQL's request for TLS")
    await one.send(len(request))
    if await one.hear(1) != b"S":
        raise one.refused("not_tls", "the server offers no TLS", "Ask for a rule with protocol tcp.")
    return await _tls(one)


async def _begins_with_tls(one: Opening) -> bool:
    return (one.head or await one.more()).startswith(_HANDSHAKE)


async def _eight(one: Opening) -> bytes:
    """The request, after which the client waits: what is behind it would have been sent before TLS (CVE-2021-23222)."""
    while len(one.head) < len(SSL_REQUEST):
        await one.more()
    return one.head


_BY_PROTOCOL: dict[str, Callable[[Opening], Awaitable[None]]] = {
    "tcp": _tcp,
    "tls": _tls,
    "http": _http,
    "postgres": _postgres,
}
