"""A service over HTTP on loopback, and a way to servers outside: what the gateway does around it, as small as it can be."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace

import h11
import httpx

from dayfly.egress.http.messages import Headers, Origin, Refused, Request, Response, Service, Upstreams, nothing
from dayfly.egress.verdict import Denied
from dayfly.urls import BadPath, canonical_path
from tests.machine import NO_TLS

__all__ = ["Adapter", "Direct", "Script", "adapted", "read"]

_OF_CARRYING = {"host", "connection", "content-length", "transfer-encoding", "expect", "keep-alive", "te"}


async def read(response: Response) -> bytes:
    return b"".join([piece async for piece in response.body])


@dataclass
class Script(Upstreams):
    """Answers with what it was given, and keeps what was sent."""

    answers: list[Response] = field(default_factory=list)
    sent: list[tuple[Origin, Request, bytes]] = field(default_factory=list)

    async def send(self, origin: Origin, request: Request) -> Response:
        data = b"".join([piece async for piece in request.body])
        self.sent.append((origin, replace(request, body=nothing()), data))
        return self.answers.pop(0) if self.answers else Response(200)


class Direct(Upstreams):
    """To the server itself."""

    def __init__(self) -> None:
        self._client = httpx.AsyncClient(trust_env=False, timeout=30, verify=NO_TLS)
        self.sent: list[Request] = []

    async def send(self, origin: Origin, request: Request) -> Response:
        self.sent.append(request)
        target = request.path + (f"?{request.query}" if request.query else "")
        url = httpx.URL(scheme=origin.scheme, host=origin.host, port=origin.port, raw_path=target.encode())
        headers = [*request.headers, *([("content-length", str(request.length))] if request.length else [])]
        content = request.body if request.length else None
        made = httpx.Request(request.method, url, headers=headers, content=content)
        got = await self._client.send(made, stream=True)
        said = got.headers.get("content-length")
        found: Headers = tuple((k.decode().lower(), v.decode("latin-1")) for k, v in got.headers.raw)
        found = tuple((name, value) for name, value in found if name not in _OF_CARRYING)
        body = _closing(got)
        if request.method == "HEAD":
            await got.aclose()
            body = nothing()
        return Response(got.status_code, found, body, int(said) if said is not None else None)

    async def close(self) -> None:
        await self._client.aclose()


async def _closing(got: httpx.Response) -> AsyncIterator[bytes]:
    try:
        async for piece in got.aiter_raw():
            if piece:
                yield piece
    finally:
        await got.aclose()


Maker = Callable[[str], Service]


@dataclass
class Adapter:
    """``make``: a service for a host; ``denied``: what was refused."""

    make: Maker
    upstreams: Direct
    port: int = 0
    denied: list[Denied] = field(default_factory=list)
    answered: list[Response] = field(default_factory=list)
    asked: list[tuple[str, str, str]] = field(default_factory=list)

    @property
    def proxy(self) -> dict[str, str]:
        return {"http": f"http://127.0.0.1:{self.port}"}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, h11.RemoteProtocolError, EOFError):
            connection = h11.Connection(h11.SERVER)
            while await self._one(connection, reader, writer):
                connection.start_next_cycle()
        writer.close()

    async def _one(self, connection: h11.Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:  # fmt: skip
        head = await _event(connection, reader)
        if not isinstance(head, h11.Request):
            return False
        if connection.they_are_waiting_for_100_continue:
            writer.write(connection.send(h11.InformationalResponse(status_code=100, headers=[])) or b"")
        fields = [(name.decode(), value.decode("latin-1")) for name, value in head.headers]
        said = dict(fields)
        target = head.target.decode().removeprefix(f"http://{said['host']}")  # clients take it for a proxy
        path, _, query = target.partition("?")
        host = said["host"]
        body = _body(connection, reader)
        chunked = "transfer-encoding" in said
        length = None if chunked else int(said.get("content-length", 0))
        kept = tuple((name, value) for name, value in fields if name not in _OF_CARRYING)
        self.asked.append((head.method.decode(), host, f"{path}?{query}"))
        response = await self._answer(host, head.method.decode(), path, query, kept, body, length)
        await _respond(connection, writer, response, head.method == b"HEAD")
        async for _ in body:
            pass
        return connection.our_state is h11.DONE and connection.their_state is h11.DONE

    async def _answer(
        self, host: str, method: str, path: str, query: str, headers: Headers, body: AsyncIterator[bytes], length: int | None
    ) -> Response:  # fmt: skip
        service = self.make(host)
        try:
            request = Request(method, canonical_path(path), query, headers, body, length)
            response = await service.answer(request, self.upstreams)
        except BadPath as error:
            denied = Denied(host, 80, "bad_request", f"The path {error}.", "Send another.")
            self.denied.append(denied)
            return service.refusal(denied, 400)
        except Refused as refused:
            self.denied.append(refused.denied)
            return service.refusal(refused.denied, 400 if refused.denied.code == "bad_request" else 403)
        self.answered.append(response)
        return response


async def _event(connection: h11.Connection, reader: asyncio.StreamReader) -> object:
    while (event := connection.next_event()) is h11.NEED_DATA:
        connection.receive_data(await reader.read(65536))
    return event


async def _body(connection: h11.Connection, reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while connection.their_state is h11.SEND_BODY:
        event = await _event(connection, reader)
        if isinstance(event, h11.Data):
            yield bytes(event.data)


async def _respond(connection: h11.Connection, writer: asyncio.StreamWriter, response: Response, head: bool) -> None:
    headers = [*response.headers]
    if response.length is not None:
        headers.append(("content-length", str(response.length)))
    writer.write(connection.send(h11.Response(status_code=response.status, headers=headers)) or b"")
    if not head:
        async for piece in response.body:
            writer.write(connection.send(h11.Data(data=piece)) or b"")
            await writer.drain()
    writer.write(connection.send(h11.EndOfMessage()) or b"")
    await writer.drain()


@asynccontextmanager
async def adapted(make: Maker) -> AsyncIterator[Adapter]:
    made = Adapter(make, Direct())
    server = await asyncio.start_server(made.serve, sock=socket.create_server(("127.0.0.1", 0)))
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()
        await made.upstreams.close()
