"""A service behind HTTP on loopback, as real clients meet it, and servers outside that are all on loopback."""

from __future__ import annotations

import asyncio
import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from dayfly.egress.dialling import Unreachable
from dayfly.egress.http.messages import Body, Origin, Refused, Request, Response, Service, once
from dayfly.egress.services.packages import node
from dayfly.network import PACKAGES_HOST

__all__ = ["Loopback", "content", "door"]


class Loopback:
    """``Upstreams``: names of hosts lead to ports of loopback. ``sent``: what was asked, and of whom."""

    def __init__(self, **ports: int) -> None:
        self.ports = {name.replace("_", "."): port for name, port in ports.items()}
        self.sent: list[tuple[Origin, Request]] = []

    async def send(self, origin: Origin, request: Request) -> Response:
        self.sent.append((origin, request))
        if origin.host not in self.ports:
            raise Unreachable(f"{origin.host}: no such name.")
        connection = http.client.HTTPConnection("127.0.0.1", self.ports[origin.host], timeout=20)
        target = request.path + (f"?{request.query}" if request.query else "")
        connection.request(request.method, target, headers=dict(request.headers))
        found = connection.getresponse()
        headers = tuple((name.lower(), value) for name, value in found.getheaders())
        length = found.getheader("content-length")
        return Response(found.status, headers, _pieces(connection, found), int(length) if length else None)


async def _pieces(connection: http.client.HTTPConnection, found: http.client.HTTPResponse) -> Body:
    try:
        while piece := found.read(1000):
            yield piece
    finally:
        connection.close()


async def content(response: Response) -> bytes:
    return b"".join([piece async for piece in response.body])


@contextmanager
def door(make: Any, upstreams: Loopback) -> Iterator[str]:
    """Where it listens, HOST:PORT, which stands for the name that it has inside. ``make``: a new service for every connection."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            super().setup()
            self.service: Service = make()

        def do_GET(self) -> None:
            path, _, query = self.path.partition("?")
            headers = tuple((name.lower(), value) for name, value in self.headers.items())
            asyncio.run(self._answer(Request(self.command, path, query, headers)))

        do_HEAD = do_PUT = do_POST = do_DELETE = do_GET  # noqa: N815 - http.server's names

        async def _answer(self, request: Request) -> None:
            try:
                response = await self.service.answer(request, upstreams)
            except Refused as refused:
                response = self.service.refusal(refused.denied, 403)
            if response.header("content-type") in (node.ABBREVIATED, "application/json"):
                here = (await content(response)).replace(PACKAGES_HOST.encode(), self.headers["host"].encode())
                response = replace(response, body=once(here), length=len(here))
            self.send_response(response.status, response.reason or None)
            for name, value in response.headers:
                self.send_header(name, value)
            if response.length is None:
                self.send_header("connection", "close")
            else:
                self.send_header("content-length", str(response.length))
            self.end_headers()
            try:
                async for piece in response.body:
                    if request.method != "HEAD":
                        self.wfile.write(piece)
            except OSError:
                self.close_connection = True
            self.close_connection |= response.length is None

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
