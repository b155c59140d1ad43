"""The gateway: packets between it and the manager, the beginnings of connections, heads of requests, names, bodies in chunks."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from dayfly import hosts, urls
from dayfly.egress import heard, hello, openings, packets
from dayfly.egress.heard import address, check_connected, denied, requested
from dayfly.egress.hello import Hello, NotTls
from dayfly.egress.http import heads
from dayfly.egress.http.messages import Refused, Request
from dayfly.egress.openings import GSS_REQUEST, SSL_REQUEST, Opening, opening
from dayfly.egress.packets import TO_GATEWAY, TO_MANAGER, BadPacket, parse
from dayfly.egress.services.objects import asking, chunks, keys, operations
from dayfly.egress.services.objects.chunks import BadChunks, Unchunker
from dayfly.egress.verdict import Allowed, Denied
from dayfly.network.objects import OBJECTS_HOST
from tests.egress import client_hello as tls
from tests.fuzz.target import JSON_WORDS, MIB, Target, held, may_be_shown, pieces

HOST = "api.example.com"
NAME = HOST.encode()


# --- packets ----------------------------------------------------------------------------------------------------------


def packet(data: bytes) -> None:
    """Both tables; and what the manager makes of a packet is text that may be shown."""
    with suppress(BadPacket):
        assert parse(data, TO_GATEWAY)["op"] in TO_GATEWAY
    with suppress(BadPacket):
        _believed(parse(data, TO_MANAGER))


def _believed(found: dict[str, Any]) -> None:
    if found["op"] == "connected":
        check_connected(found, HOST, 3)
        assert _plain(address(found["address"]))
    elif found["op"] == "denied":
        _is_plain(denied(HOST, 443, found))
    elif found["op"] == "request":
        told = requested(found, HOST, 443, 3)
        assert all(map(_plain, (told.address, told.method, told.path, told.secret or "")))
        if told.denied is not None:
            _is_plain(told.denied)


def _is_plain(one: Denied) -> None:
    assert all(map(_plain, (one.host, one.code, one.reason, one.remedy)))


def _plain(text: str) -> bool:
    return text.isascii() and (text.isprintable())


def _example(shape: dict[str, object]) -> dict[str, object]:
    samples = {int: 1, str: "x\x1b[31m", bool: True}
    return {
        name: samples[next(one for one in (kinds if isinstance(kinds, tuple) else (kinds,)) if one in samples)]
        for name, kinds in shape.items()
    }


def _packets() -> tuple[bytes, ...]:
    rows = [{"op": op, **_example(shape)} for table in (TO_GATEWAY, TO_MANAGER) for op, shape in table.items()]
    for row in rows:
        if "address" in row:
            row["address"] = "fe80::1%2" if row["op"] == "connected" else "192.0.2.1"
        if "code" in row:
            row["code"] = "not_listed"
        if row["op"] == "connected":
            row["host"] = HOST
    return tuple(json.dumps(row).encode() for row in rows)


# --- the first bytes of a connection ----------------------------------------------------------------------------------


def client_hello(data: bytes) -> None:
    """The same name however it is cut; its end lies within what was fed."""
    sizes, said = data[:2], data[2:]
    with _quiet():
        assert _heard(said, b"") == _heard(said, sizes)


@contextmanager
def _quiet() -> Iterator[None]:
    """As the gateway itself: what Python's ssl writes of a name that is not ASCII is no news."""
    before, sys.unraisablehook = sys.unraisablehook, lambda _: None
    try:
        yield
    finally:
        sys.unraisablehook = before


def _heard(said: bytes, sizes: bytes) -> object:
    one = Hello()
    fed = 0
    try:
        for piece in pieces(said, sizes):
            one.feed(piece)
            fed += len(piece)
            if one.whole:
                break
    except NotTls:
        return "no TLS"
    if not one.whole:
        return "not whole"
    assert one.name is None or one.name.isascii()
    assert 0 <= one.size <= fed
    return one.name, one.size, one.hides_the_name


def first_bytes(data: bytes) -> None:
    """What goes on was judged, byte for byte, and is the same however it was cut."""
    protocol = PROTOCOLS[data[0] % len(PROTOCOLS)] if data else "tls"
    answer = ANSWERS[data[1] % len(ANSWERS)] if data[1:] else b""
    sizes, said = data[2:4], data[4:]
    with _quiet():
        whole, cut = (held(_opened(protocol, said, one, answer)) for one in (b"", sizes))
        _was_judged(protocol, whole[1])
        _was_judged(protocol, cut[1])
    # A client of PostgreSQL's waits after its request: what comes together with it is refused, and what comes later is the next one.
    assert protocol == "postgres" or whole == cut, "cut in another way it is judged in another way"


async def _opened(protocol: str, said: bytes, sizes: bytes, answer: bytes) -> tuple[str, bytes]:
    """How it began, and what the server has heard by then."""
    sandbox, inside = socket.socketpair()
    server, upstream = socket.socketpair()
    with sandbox, inside, server, upstream:
        for end in (sandbox, inside, upstream, server):
            end.setblocking(False)
        server.send(answer)
        server.shutdown(socket.SHUT_WR)
        saying = asyncio.ensure_future(_say(sandbox, said, sizes))
        one = Opening(Allowed(HOST, 443, 0, protocol), inside, upstream, lambda count: None)
        try:
            await opening(one)
            how = "passes"
        except Refused as refused:
            _is_plain(refused.denied)
            how = refused.denied.code
        except (EOFError, OSError) as error:
            how = "ends" if isinstance(error, EOFError) else "breaks"
        saying.cancel()
        heard = server.recv(one.sent) if one.sent else b""
        assert len(heard) == one.sent
        return how, heard


async def _say(end: socket.socket, said: bytes, sizes: bytes) -> None:
    """A piece at a time: the clock is held, so it passes only when the last one was dealt with."""
    for piece in pieces(said, sizes):
        await asyncio.get_running_loop().sock_sendall(end, piece)
        await asyncio.sleep(1e-6)
    end.shutdown(socket.SHUT_WR)


def _was_judged(protocol: str, passed: bytes) -> None:
    """Nothing but a request for TLS and hellos to the one host."""
    assert protocol in ("tls", "postgres") or not passed
    if protocol == "postgres":
        passed = passed.removeprefix(SSL_REQUEST)
    while passed:
        one = Hello()
        one.feed(passed)
        assert one.whole
        assert one.name is not None
        assert one.name.lower() == HOST
        assert not one.hides_the_name
        assert one.size
        passed = passed[one.size :].removeprefix(openings.CHANGE_OF_CIPHER)


PROTOCOLS = ("tls", "http", "postgres", "tcp")
_HELLO = tls.hello(NAME, random=bytes(32))
_RETRY = tls.records(b"\x02" + tls.vector(b"\x03\x03" + hello._RETRY + bytes(8), 3), version=0x0303)
ANSWERS = (
    tls.records(b"\x02" + tls.vector(b"\x03\x03" + bytes(70), 3), version=0x0303),
    _RETRY,
    b"",
    b"S" + _RETRY,
    b"N",
    b"HTTP/1.1 400 Bad Request\r\n\r\n",
)
_HELLOS = (
    _HELLO.records(),
    _HELLO.records(size=40),
    tls.hello(NAME, more=[(tls.ECH, b"\0\0\1\0\1" + bytes(100))], random=bytes(32)).records(),
    tls.hello(b"other.example.net", random=bytes(32)).records(),
    tls.ClientHello([tls.server_name(NAME), *tls.usual()], random=bytes(32)).records(version=0x0303),
)
_FIRST = (
    *(b"\0\0\0\7" + one for one in _HELLOS),
    b"\0\1\0\7" + _HELLOS[0] + openings.CHANGE_OF_CIPHER + _HELLOS[0],
    b"\2\3\0\7" + SSL_REQUEST + _HELLOS[0] + _HELLOS[0],
    b"\2\0\0\7" + GSS_REQUEST,
    b"\2\0\0\7" + _HELLOS[0],
    b"\1\0\0\7GET / HTTP/1.1\r\nHost: api.example.com\r\n\r\n",
    b"\1\0\0\7GET http://api.example.com/ HTTP/1.0\r\nA: b\r\n\r\n",
    b"\3\0\0\0anything",
)


# --- names, paths, bodies in chunks -----------------------------------------------------------------------------------


def name(data: bytes) -> None:
    """A name that has a canonical form has one, which is its own; the same of a path."""
    text = data.decode("utf-8", "surrogatepass") if _decodes(data) else data.decode("latin-1")
    with suppress(hosts.BadHost):
        found = hosts.canonical(text)
        assert hosts.canonical(found) == found
        assert found.isascii()
        assert len(found) <= hosts.LONGEST_NAME
        assert not set(found) - set("abcdefghijklmnopqrstuvwxyz0123456789-.")
    with suppress(urls.BadPath):
        path = urls.canonical_path(text)
        assert urls.canonical_path(path) == path
        assert not {"", ".", ".."} & set(path.split("/")[1:-1])


def _decodes(data: bytes) -> bool:
    with suppress(UnicodeDecodeError):
        data.decode("utf-8", "surrogatepass")
        return True
    return False


def body_in_chunks(data: bytes) -> None:
    """The same body however it comes, of the length that was announced, or refused both times."""
    length, kind, sizes, said = data[:1], data[1:2], data[2:4], data[4:]
    trailer = ("", "x-amz-checksum-crc32", "x-amz-checksum-sha256", "x-amz-checksum-crc64nvme")[(kind or b"\0")[0] % 4]
    whole = _unchunked((length or b"\0")[0], trailer, said, b"")
    assert whole == _unchunked((length or b"\0")[0], trailer, said, sizes)


def _unchunked(length: int, trailer: str, said: bytes, sizes: bytes) -> bytes | None:
    machine, found = Unchunker(length, trailer), b""
    try:
        for piece in pieces(said, sizes):
            found += b"".join(machine.feed(piece))
            assert len(found) <= length
        machine.finish()
    except BadChunks:
        return None
    assert len(found) == length
    return found


_CHUNKS = (
    b"\5\0\0\3" + b"5\r\nhello\r\n0\r\n\r\n",
    b"\5\1\0\3" + b"5\r\nhello\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\r\n\r\n",
    b"\5\3\0\3" + b"5;chunk-signature=" + b"a" * 64 + b"\r\nhello\r\n0\r\nx-amz-trailer-signature:x\r\n\r\n",
)


def object_request(data: bytes) -> None:
    """What is asked for reads as the same when it is asked anew from what was understood, which is all that goes on."""
    head, *fields = data.decode("latin-1").split("\n")
    method, _, target = head.partition(" ")
    path, _, query = target.partition("?")
    headers = tuple((name.lower(), value) for name, _, value in (field.partition(": ") for field in fields))
    try:
        found = asking.asked(OBJECTS_HOST, Request(method, "/" + path, query, headers))
    except (asking.Unlisted, asking.BadRequest) as error:
        return may_be_shown(str(error))
    made = found.request()
    assert asking.asked(OBJECTS_HOST, made) == found
    assert made.path.isascii()
    assert made.path.isprintable()
    assert not {".", ".."} & set(found.key.split("/"))
    return None


_OBJECTS = (
    b"GET lake/a/b%20c?versionId=x", b"GET lake?list-type=2&prefix=a%2F&max-keys=5&x-id=ListObjectsV2", b"PUT lake/a\nx-amz-meta-b: c\ncontent-type: text/plain",
    b"PUT lake/a\nx-amz-copy-source: /lake/b%2Fc", b"POST lake/a?uploads", b"PUT lake/a?partNumber=1&uploadId=u", b"DELETE lake/a", b"POST lake?delete",
    b"GET ", b"HEAD lake",
)  # fmt: skip

TARGETS = (
    Target(
        "objects",
        object_request,
        (asking, keys, operations),
        _OBJECTS,
        memory=2 * MIB,
        longest=2048,
        examples=600,
        words=(
            b"%2F",
            b"%2e",
            b"%00",
            b"&",
            b"=",
            b"?",
            b"/",
            b"lake",
            b"\nx-amz-copy-source: ",
            b"\nx-amz-meta-a: ",
            b"%C3%A4",
        ),
    ),
    Target("packet", packet, (packets, heard), _packets(), memory=2 * MIB, examples=4000, words=JSON_WORDS),
    Target("hello", client_hello, (hello,), tuple(b"\0\7" + one for one in _HELLOS), memory=1 * MIB, examples=500),
    Target("opening", first_bytes, (openings, hello, heads), _FIRST, memory=2 * MIB, longest=4096, examples=120),
    Target(
        "name",
        name,
        (hosts, urls),
        (NAME, b"b\xc3\xbccher.example.", b"xn--bcher-kva.example", b"[::1]", b"127.1", b"/a/%2e%2E/b;c", b"/a/%41%c3"),
        memory=2 * MIB,
        longest=2048,
        examples=600,
    ),
    Target("chunks", body_in_chunks, (chunks,), _CHUNKS, memory=1 * MIB, examples=400),
)
