"""An internet of the proof's own, for the gateway of its sandboxes: a name server and servers under public and private addresses, in network
namespaces. Whatever a gateway lets through arrives there, and nowhere else.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import socket
import ssl
import struct
import subprocess
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dayfly.egress.client import Gateway
from dayfly.errors import HostError
from dayfly.network import Rule
from dayfly.prove.internet import NEAR, PUBLIC, SERVICES, Internet, Names
from dayfly.prove.marks import tells
from dayfly.prove.probe import Expected, Probe
from dayfly.prove.services import API, HOSTS, Services

__all__ = [
    "DENIED",
    "INWARD",
    "LISTED",
    "PATHS",
    "PLAIN",
    "RAW",
    "RULES",
    "TCP",
    "TLS",
    "WILD",
    "World",
    "certificate",
    "world",
]

TCP = 7000
"""A port where the server speaks first."""

PLAIN = 8443
"""The same, where a rule says that TLS is spoken."""

LISTED, RAW, TLS, PATHS = "listed.example.com", "raw.example.com", "tls.example.com", "paths.example.com"
WILD, INWARD, DENIED = "wild.example.com", "inward.example.com", "denied.example.net"

RULES = (
    Rule(host=LISTED, ports=[80], protocol="http"),
    Rule(host=RAW, ports=[TCP], protocol="tcp"),
    Rule(host=TLS, ports=[443, PLAIN], protocol="tls"),
    Rule(host=PATHS, ports=[80], protocol="http", methods=["GET"], paths=["/allowed/*"]),
    Rule(host=f"*.{WILD}", ports=[TCP], protocol="tcp"),
    Rule(host=f"*.{INWARD}", ports=[TCP], protocol="tcp"),
)

_LEADS = {
    "loopback": "127.0.0.1",
    "metadata": "169.254.169.254",
    "private": "10.1.2.3",
    "shared": "100.64.0.9",
    "mapped": "::ffff:10.1.2.3",
    "unspecified": "0.0.0.0",  # noqa: S104 - an answer of a name server
    "own": NEAR,
    "v6": "::1",
}

NAMES: Mapping[str, list[list[str]]] = {
    **{name: [[PUBLIC[0]]] for name in (LISTED, RAW, TLS, PATHS, f"a.{WILD}", f"sub.{RAW}", "example.com")},
    **{f"{label}.{INWARD}": [[address]] for label, address in _LEADS.items()},
    DENIED: [[PUBLIC[1]]],
    **{name: [[SERVICES]] for name in HOSTS},
    "metadata.google.internal": [["169.254.169.254"]],
}

TOOLS = {"ip": "iproute2", "openssl": "openssl", "unshare": "util-linux", "nsenter": "util-linux"}
"""Programs, and the distribution's packages that have them."""

_PATH = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
"""Of an ordinary user, who may not have the system's programs in it."""

ADDRESSES = (*PUBLIC, "10.1.2.3", "169.254.169.254", "100.64.0.9")
SECRET_PORT = 443
"""Where TLS is spoken: a visitor is seen after the handshake."""

SERVERS = (
    *((address, port) for address in ADDRESSES for port in (53, 80, SECRET_PORT, TCP, PLAIN)),
    *((SERVICES, port) for port in (53, 80, TCP)),  # beside the services themselves, which are at 443
)

ALIVE_SECONDS = 20.0
"""For a visit to each of them, which takes a millisecond on a quiet machine."""

MOST_SAID = 4096
"""Bytes of a visitor's: a request is some hundred."""

PATIENCE_SECONDS = 2.0
"""For what a visitor says: it is in the first packet."""


@dataclass
class World:
    """``visits``: who came; ``names`` and ``services``: what those were asked for. ``secret``: what all servers say; the host alone knows it."""

    internet: Internet
    names: Names
    secret: str
    certificate: Path
    services: Services
    visits: list[str] = field(default_factory=list)
    servers: list[asyncio.Server] = field(default_factory=list)
    _aside: list[str] = field(
        default_factory=list
    )  # what came while no probe was tried, or one that is allowed, and was not its own
    _judged: tuple[int, int, int] = (0, 0, 0)  # visits, queries and requests at the last verdict

    @property
    def marks(self) -> Mapping[str, Any]:
        return {"api_key_reversed": self.services.api_key[::-1], "store_key_reversed": self.services.key[::-1]}

    async def alive(self) -> str:
        """Each of the servers, and the name server, has seen a visitor from where the gateway lives just now."""
        visits, queries, requests = self._counts()
        try:
            async with asyncio.timeout(ALIVE_SECONDS):
                for address, port in (*SERVERS, (NEAR, TCP)):
                    await self._seen_at(address, port)
                await self._seen_by_names()
                await self._seen_by_services()
        except (OSError, TimeoutError) as error:
            return f"the proof's own internet does not see who comes: {type(error).__name__}"
        del self.visits[visits:], self.names.asked[queries:], self.services.asked[requests:]
        return ""

    def _counts(self) -> tuple[int, int, int]:
        return len(self.visits), len(self.names.asked), len(self.services.asked)

    async def _seen_at(self, address: str, port: int) -> None:
        where, before = _place(address, port), len(self.visits)
        with await asyncio.to_thread(self.internet.bind, "near", "visit", address, port) as visitor:
            if port == SECRET_PORT:
                return  # without a handshake it says nothing
            visitor.setblocking(False)
            visitor.shutdown(socket.SHUT_WR)
            while await asyncio.get_running_loop().sock_recv(visitor, MOST_SAID):
                pass
        if where not in self.visits[before:]:
            raise OSError(f"{where} has not seen who came")

    async def _seen_by_names(self) -> None:
        name, before = f"alive-{secrets.token_hex(8)}.invalid", len(self.names.asked)
        with self.internet.bind("near", "udp", "127.0.0.1", 0) as asker:
            asker.setblocking(False)
            asker.sendto(_question(name), ("127.0.0.1", 53))
            await asyncio.get_running_loop().sock_recv(asker, MOST_SAID)
        if name not in self.names.asked[before:]:
            raise OSError("the name server has not seen who asked")

    async def _seen_by_services(self) -> None:
        """By one that no rule lists."""
        before, visitor = len(self.services.asked), self.internet.bind("near", "visit", SERVICES, SECRET_PORT)
        visitor.setblocking(False)
        context = ssl.create_default_context(cafile=str(self.certificate))
        reader, writer = await asyncio.open_connection(sock=visitor, ssl=context, server_hostname=API)
        writer.write(f"GET /alive HTTP/1.1\r\nHost: {API}\r\n\r\n".encode())
        said = await reader.read(MOST_SAID)
        writer.close()
        if not self.services.beyond(self.services.asked[before:]) or self.secret.encode() not in said:
            raise OSError("the services have not seen who asked")

    def watch(self) -> None:
        self._aside = [*self.strays()]
        self.visits.clear()
        self.names.asked.clear()
        self.services.asked.clear()
        self._judged = 0, 0, 0
        self.names.table = {name: [list(one) for one in answers] for name, answers in NAMES.items()}

    def contacts(self, probe: Probe) -> tuple[str, ...]:
        self._judged = self._counts()
        listed = tuple(where for where in self.visits if where.startswith(f"{PUBLIC[0]} "))
        elsewhere = tuple(where for where in self.visits if where not in listed)
        asked = tuple(f"a query for {name}" for name in sorted({*self.names.asked} - {*probe.asks}))
        beyond = self.services.beyond(self.services.asked)
        if probe.expected is Expected.ALLOWED:
            self._aside += (*elsewhere, *asked, *beyond)
            return listed + tuple(str(one) for one in self.services.asked if self.services.fits(one))
        return elsewhere + (listed if len(listed) > probe.comes else ()) + asked + beyond

    def late(self, probe: Probe) -> tuple[str, ...]:
        """Nothing: visits have no marks here. Who comes late is the next one's, or a stray."""
        return ()

    def strays(self) -> tuple[str, ...]:
        visits, queries, requests = self._judged
        asked = (f"a query for {name}" for name in self.names.asked[queries:])
        return (*self._aside, *self.visits[visits:], *asked, *map(str, self.services.asked[requests:]))

    def leaked(self, output: str) -> tuple[str, ...]:
        held = {"what only a server outside says": (self.secret,), "a secret of a rule": self.services.credentials}
        return tuple(what for what, values in held.items() if any(tells(output, one) for one in values))

    async def start(self) -> Gateway:
        """A gateway that lives there."""
        return await Gateway.start(within=self.internet.within, roots=self.certificate)


@asynccontextmanager
async def world(secret: str) -> AsyncIterator[World]:
    """Raises ``HostError`` where a program for it is not installed, ``OSError`` where namespaces cannot be made."""
    missing = [package for program, package in TOOLS.items() if shutil.which(program, path=_PATH) is None]
    if missing:
        raise HostError(
            f"the proof's own internet needs what is not installed: {', '.join(missing)}",
            remedy=f"apt-get install {' '.join(missing)}",
        )
    with tempfile.TemporaryDirectory(prefix="dayfly-world-") as name, Internet.made() as internet:
        own = await asyncio.to_thread(certificate, Path(name), (TLS, DENIED, *HOSTS))
        made = World(internet, Names(), secret, own, Services(secret))
        await made.names.listen(internet.bind("near", "udp", "127.0.0.1", 53))
        made.servers = await _furnish(made)
        try:
            yield made
        finally:
            for server in made.servers:
                server.close()
            made.names.close()


async def _furnish(made: World) -> list[asyncio.Server]:
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(made.certificate, made.certificate.with_name("key"))
    servers = []
    for address, port in SERVERS:
        on = made.internet.bind("far", "tcp", address, port)
        serve = _Visitors(made, address, port)
        servers.append(await asyncio.start_server(serve.visited, sock=on, ssl=tls if port == SECRET_PORT else None))
    at = made.internet.bind("far", "tcp", SERVICES, SECRET_PORT)
    servers.append(await asyncio.start_server(made.services.served, sock=at, ssl=tls))
    near = made.internet.bind("near", "tcp", NEAR, TCP)
    servers.append(await asyncio.start_server(_Visitors(made, NEAR, TCP).visited, sock=near))
    return servers


class _Visitors:
    """Those of one server. It says its secret: on ``TCP`` at once, elsewhere as the body of an answer."""

    def __init__(self, made: World, address: str, port: int) -> None:
        self._made, self._address, self._port = made, address, port

    async def visited(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        where, body = _place(self._address, self._port), self._made.secret.encode()
        self._made.visits.append(where)
        if self._port in (TCP, PLAIN):
            writer.write(body)
            await self._beginning(reader)
        else:
            while (said := await self._beginning(reader)) and b"close" not in said:
                writer.write(_ANSWER % (len(body), body))
            writer.write(_ANSWER % (len(body), body))
        writer.close()

    async def _beginning(self, reader: asyncio.StreamReader) -> bytes:
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                return await reader.read(MOST_SAID)
        except (TimeoutError, OSError):
            return b""


def _place(address: str, port: int) -> str:
    return f"{address} port {port}"


def _question(name: str) -> bytes:
    """A DNS query for its IPv4 address."""
    labels = b"".join(bytes([len(part)]) + part.encode() for part in name.split("."))
    return struct.pack("!6H", 7, 256, 1, 0, 0, 0) + labels + b"\0" + struct.pack("!2H", 1, 1)


_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s"


def certificate(directory: Path, hosts: Sequence[str]) -> Path:
    """Its own authority, for the hosts that are spoken to over TLS. Its ``key`` is beside it. Raises ``HostError``."""
    made_at = directory / "certificate"
    names = ",".join(f"DNS:{host}" for host in hosts)
    made = subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", "/CN=proof", "-addext", f"subjectAltName={names}",
         "-keyout", str(directory / "key"), "-out", str(made_at)],
        check=False, capture_output=True, env={**os.environ, "PATH": _PATH},
    )  # fmt: skip
    if made.returncode:
        said = made.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        raise HostError(f"openssl makes no certificate: {' '.join(said)}", remedy="update openssl to 1.1.1 or later")
    return made_at
