"""A connection that the gateway answers itself, in this process: a sandbox's end, a guest's terms, and servers on loopback."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import Mapping
from ipaddress import IPv4Address, IPv4Network
from typing import Any

from dayfly.egress.authority import make_authority
from dayfly.egress.certificates import Certificates
from dayfly.egress.dialling import Dialler
from dayfly.egress.guests import Guest
from dayfly.egress.http.messages import Headers, Origin, Request, Response, Upstreams, once
from dayfly.egress.packets import TO_MANAGER, parse
from dayfly.egress.passage import Passage
from dayfly.egress.terms import Terms
from dayfly.egress.verdict import Denied
from dayfly.network import Rule

LOOPBACK = IPv4Network("127.0.0.0/8")
HOST = "api.example.com"
OUTSIDE = make_authority()
"""Whose certificates the servers outside have, and the gateway verifies."""


class Local:
    """A resolver to which every name is this machine."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def addresses(self, host: str, turns: object) -> list[IPv4Address]:
        self.asked.append(host)
        return [IPv4Address("127.0.0.1")]


class Passing:
    """A service that sends everything on, to one port of this machine."""

    raw_paths = False

    def __init__(self, port: int, scheme: Any = "https", host: str = HOST, private: Any = LOOPBACK) -> None:
        self.origin = Origin(scheme, host, port, private)
        self.requests: list[Request] = []

    async def answer(self, request: Request, upstreams: Upstreams) -> Response:
        self.requests.append(request)
        return await upstreams.send(self.origin, request)

    def refusal(self, denied: Denied, status: int) -> Response:
        text = denied.reason.encode()
        return Response(status, (("x-dayfly-denied", denied.code),), once(text), len(text))


class Said:
    """What a passage tells the manager, as that takes it."""

    def __init__(self) -> None:
        self.packets: list[dict[str, Any]] = []

    def post(self, packet: Mapping[str, object]) -> asyncio.Future[None]:
        self.packets.append(parse(json.dumps(packet).encode("ascii"), TO_MANAGER))
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done

    def of(self, op: str) -> list[dict[str, Any]]:
        return [packet for packet in self.packets if packet["op"] == op]


def server_context(host: str = HOST, authority: Any = OUTSIDE) -> ssl.SSLContext:
    return Certificates(authority).context(host)


def client_context(authority: Any) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=authority.certificate)


class Desk:
    """``terms`` are the guest's. ``run`` is the passage, and ``end`` the sandbox's end of it."""

    def __init__(self, port: int = 443, **rule: Any) -> None:
        self.authority = make_authority()
        self.rule = Rule(
            host=HOST, ports=[port], private="127.0.0.0/8", **{"methods": ["GET", "POST", "PUT", "HEAD"], **rule}
        )
        self.guest, self.said, self.resolver = Guest(), Said(), Local()
        self.guest.admit(Terms(rules=(self.rule,), authority=self.authority))
        self.end, theirs = socket.socketpair()
        self.end.setblocking(False)
        self.passage = Passage(1, self.guest, Dialler(self.resolver), self.said, theirs, client_context(OUTSIDE))  # type: ignore[arg-type]
        self.run = asyncio.ensure_future(self.passage.run(HOST, port))

    async def tls(self, name: str = HOST, authority: Any = None) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        context = client_context(authority or self.authority)
        return await asyncio.open_connection(sock=self.end, ssl=context, server_hostname=name)

    async def over(self) -> dict[str, Any]:
        """The last packet of the passage."""
        await asyncio.wait_for(self.run, 20)
        return self.said.packets[-1]


async def asked(desk: Desk, *requests: bytes) -> list[tuple[int, Headers, bytes]]:
    """What is answered on one connection, which is over then."""
    reader, writer = await desk.tls()
    found = []
    for request in requests:
        writer.write(request)
        found.append(await response(reader, head=request.startswith(b"HEAD")))
    writer.close()
    await desk.over()
    return found


async def response(reader: asyncio.StreamReader, *, head: bool = False) -> tuple[int, Headers, bytes]:
    """One whole response, as its status, headers and body."""
    lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    status = int(lines[0].split(" ")[1])
    assert lines[0].split(" ", 2)[2]  # there are clients to which a line without a phrase is no answer
    fields = tuple(
        (name.lower(), value.strip()) for name, _, value in (line.partition(":") for line in lines[1:] if line)
    )
    return status, fields, b"" if head or status in (204, 304) else await _body(reader, dict(fields))


async def _body(reader: asyncio.StreamReader, fields: dict[str, str]) -> bytes:
    if "content-length" in fields:
        return await reader.readexactly(int(fields["content-length"]))
    found = b""
    while size := int((await reader.readuntil(b"\r\n")).strip(), 16):
        found += await reader.readexactly(size)
        await reader.readexactly(2)
    await reader.readexactly(2)
    return found
