"""Requests of a sandbox as the gateway reads them, and answers of servers: heads, bodies, and what is made of them for the other side."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import h11

from dayfly.egress.dialling import Unreachable
from dayfly.egress.http import heads, serving, upstream
from dayfly.egress.http.messages import Origin, Request, Response, Upstreams, once
from dayfly.egress.http.serving import Answered, Serving
from dayfly.egress.http.stream import Spent, Stream
from dayfly.egress.http.upstream import Server
from dayfly.egress.meter import Meter
from dayfly.egress.verdict import Allowed, Denied
from tests.fuzz.target import MIB, Target, held, may_be_shown, pieces

HOST = "api.example.com"
ALLOWED = Allowed(HOST, 443, 0, "tls")
ORIGIN = Origin("https", HOST, 443)
GOOD = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
_HOP = {
    "connection",
    "transfer-encoding",
    "upgrade",
    "keep-alive",
    "te",
    "trailer",
    "proxy-connection",
    "proxy-authorization",
}

Seen = list[tuple[object, ...]]


class Writer:
    """Keeps what is written; there is always room."""

    def __init__(self) -> None:
        self.data = b""
        self.transport = self
        self._closed = False

    def write(self, data: bytes) -> None:
        self.data += data

    async def drain(self) -> None: ...

    def abort(self) -> None:
        self._closed = True

    def is_closing(self) -> bool:
        return self._closed


class Patient:
    """A server that answers when it has heard all that there is to hear."""

    server: Server

    def __init__(self) -> None:
        self._waiting = [GOOD]

    async def read(self, _: int) -> bytes:
        assert self.server._upload is not None
        await asyncio.wait({self.server._upload})
        return self._waiting.pop() if self._waiting else b""

    def at_eof(self) -> bool:
        return not self._waiting


class Recording:
    """A service that sends each request on as it came, and keeps what the server behind it was sent."""

    raw_paths = False

    def __init__(self) -> None:
        self.seen: Seen = []

    async def answer(self, request: Request, _: Upstreams) -> Response:
        writer, reader = Writer(), Patient()
        server = reader.server = Server(ORIGIN, reader, writer)  # type: ignore[arg-type]
        try:
            response = await server.ask(request)
            found = b"".join([piece async for piece in response.body])
        finally:
            await server.close()
            self.seen.append(_one_request(writer.data))
        return Response(200, (), once(found), len(found))

    def refusal(self, denied: Denied, status: int) -> Response:
        assert (denied.reason + denied.remedy).isascii()
        assert (denied.reason + denied.remedy).isprintable()
        return Response(status, (("x-dayfly-denied", denied.code),), once(b"no"), 2)


def _one_request(data: bytes) -> tuple[object, ...]:
    """What a server reads, who takes one request to the judged host and nothing behind it, or the beginning of one."""
    parser = h11.Connection(h11.SERVER)
    parser.receive_data(data)
    request, body = parser.next_event(), b""
    if not isinstance(request, h11.Request):
        assert not data
        return ("nothing",)
    names = [name.decode("ascii").lower() for name, _ in request.headers]
    assert [value for name, value in request.headers if name == b"host"] == [HOST.encode()]
    assert not set(names) & (_HOP - {"transfer-encoding"})
    assert names.count("transfer-encoding") + names.count("content-length") <= 1
    assert request.target.startswith(b"/")
    while isinstance(event := parser.next_event(), h11.Data):
        body += event.data
    assert parser.trailing_data[0] == b""
    return request.method, request.target, tuple(request.headers), body, type(event).__name__


def requests(data: bytes) -> None:
    """The same requests go on, and the same is answered, however the bytes are cut."""
    sizes, said = data[:2], data[2:]
    whole = held(_served(said, b""))
    assert whole == held(_served(said, sizes)), "cut in another way it is served in another way"


async def _served(said: bytes, sizes: bytes) -> tuple[Seen, list[tuple[str, str, int]], str]:
    reader, writer, service, told = asyncio.StreamReader(), Writer(), Recording(), list[tuple[str, str, int]]()
    stream = Stream(reader, writer, Meter(asyncio.get_running_loop().call_later, asyncio.get_running_loop().time))  # type: ignore[arg-type]

    async def tell(one: Answered) -> None:
        assert one.method.isascii()
        assert one.path.isascii()
        told.append((one.method, one.path, one.status))

    saying = asyncio.ensure_future(_say(reader, said, sizes))
    how = "over"
    try:
        await Serving(ALLOWED, stream, service, None, tell).run()  # type: ignore[arg-type]
    except (EOFError, OSError, Spent, h11.RemoteProtocolError, TimeoutError) as error:
        how = "broken" if isinstance(error, EOFError | h11.RemoteProtocolError) else type(error).__name__
    finally:
        saying.cancel()
    _is_http(writer.data, [method for method, _, _ in told])
    return service.seen, told, how


async def _say(reader: asyncio.StreamReader, said: bytes, sizes: bytes) -> None:
    for piece in pieces(said, sizes):
        reader.feed_data(piece)
        await asyncio.sleep(1e-6)
    reader.feed_eof()


def _is_http(data: bytes, methods: list[str]) -> None:
    """What a client reads: answers, one after another, of which the last may be cut."""
    for method in methods:
        parser = h11.Connection(h11.CLIENT)
        parser.send(h11.Request(method="HEAD" if method == "HEAD" else "GET", target="/", headers=[("host", HOST)]))
        parser.send(h11.EndOfMessage())
        parser.receive_data(data)
        while not isinstance(event := parser.next_event(), h11.EndOfMessage):
            if not isinstance(event, h11.Event):
                return
        data = parser.trailing_data[0]


def answer(data: bytes) -> None:
    """What a server says, however it is cut, is one answer to what was asked, or none."""
    asked, sizes, said = data[:1], data[1:3], data[3:]
    method = ("GET", "HEAD", "POST")[(asked or b"\0")[0] % 3]
    assert held(_answered(method, said, b"")) == held(_answered(method, said, sizes))


async def _answered(method: str, said: bytes, sizes: bytes) -> tuple[object, ...]:
    reader, writer = asyncio.StreamReader(), Writer()
    server = Server(ORIGIN, reader, writer)  # type: ignore[arg-type]
    saying = asyncio.ensure_future(_say(reader, said, sizes))
    try:
        response = await server.ask(Request(method, "/"))
        assert 200 <= response.status < 1000
        assert not {name for name, _ in response.headers} & _HOP
        body = b""
        with suppress(ConnectionResetError):
            async for piece in response.body:
                body += piece
            return response.status, response.headers, body, response.length, "whole"
        return response.status, response.headers, response.length, "broken"
    except Unreachable as error:
        may_be_shown(str(error))
        return ("unreachable",)
    finally:
        saying.cancel()
        await server.close()


_REQUESTS = tuple(
    b"\0\x07" + one
    for one in (
        b"GET /a?b=c HTTP/1.1\r\nHost: api.example.com\r\n\r\nGET /b HTTP/1.1\r\nHost: api.example.com\r\nConnection: close, x-y\r\nX-Y: 1\r\n\r\n",
        b"POST /a HTTP/1.1\r\nHost: api.example.com\r\nContent-Length: 5\r\n\r\nhelloGET / HTTP/1.1\r\nHost: api.example.com\r\n\r\n",
        b"POST /a HTTP/1.1\r\nHost: api.example.com:443\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nTrailer: x\r\n\r\n",
        b"PUT https://api.example.com/x HTTP/1.1\r\nHost: api.example.com\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nok",
        b"HEAD /%41/%2F HTTP/1.0\r\nHost: other\r\nConnection: close, x-y\r\nX-Y: 1\r\n\r\n",
        b"CONNECT api.example.com:443 HTTP/1.1\r\nHost: api.example.com\r\nUpgrade: websocket\r\n\r\n",
    )
)
_ANSWERS = tuple(
    b"\0\0\x07" + one
    for one in (
        GOOD,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n",
        b"HTTP/1.0 302 Found\r\nLocation: /\r\nSet-Cookie: a\r\n\r\nuntil the end",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
    )
)
WORDS = (
    b"\r\n", b"\n", b"\r", b": ", b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n", b"Host: evil.example\r\n", b" HTTP/1.1", b"\r\n ",
    b"Connection: host, content-length\r\n", b"content_length: 9\r\n", b"0\r\n\r\n", b"HTTP/1.1 200 OK\r\n", b"%2e%2e/", b"//", b"\x0b", b"\0",
    b"Transfer-Encoding : chunked\r\n", b"Expect: 100-continue\r\n", b"GET / HTTP/1.1\r\nHost: api.example.com\r\n\r\n",
)  # fmt: skip

TARGETS = (
    Target("request", requests, (heads, serving), _REQUESTS, memory=4 * MIB, longest=4096, examples=150, words=WORDS),
    Target("answer", answer, (heads, upstream), _ANSWERS, memory=4 * MIB, longest=4096, examples=150, words=WORDS),
)
