"""A world to reach: real sandboxes of a manager whose gateway lives in the internet of namespaces, and servers there."""

from __future__ import annotations

import asyncio
import hashlib
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dayfly import AsyncSandbox
from dayfly.agent_bundle import agent_for
from dayfly.boundaries.gvisor import GvisorBoundary
from dayfly.egress.client import Gateway
from dayfly.images import Store
from dayfly.manager import Manager, Shelf
from dayfly.manager.outlet import Means, Outlet
from dayfly.network import AnyRule, Rule
from dayfly.paths import Paths, default_paths
from dayfly.policy import Policy
from dayfly.prove.internet import PUBLIC, Internet, Names
from dayfly.spec import Execution, ProcessResult
from tests.egress.canary import Canary, Visit, echo

__all__ = ["BIG", "EVIL", "HOSTS", "RULES", "World", "in_kernel", "python"]

TCP, COUNTING, UPGRADING = 7000, 7001, 7002
"""Ports: says everything back; reads to the end and then says a digest; speaks HTTP, to a rule that does not look into it."""

EVIL = "evil.example.net"
"""Exists, answers on every port, and is in nobody's rules."""

STORE = "store.example.com"
"""An object store, for the tests that start one."""

RULES = (
    Rule(host="web.example.com", ports=[80], protocol="http"),
    Rule(host="api.example.com"),
    Rule(host="raw.example.com", ports=[TCP, COUNTING, UPGRADING], protocol="tcp"),
    Rule(host="local.example.com", ports=[443, 8443, TCP], protocol="tcp"),
    Rule(host="*.wild.example.com", ports=[TCP], protocol="tcp"),
    Rule(host="flip.example.com", ports=[TCP], protocol="tcp"),
    Rule(host="inward.example.com", ports=[TCP], protocol="tcp"),
    Rule(host="wiki.example.com", ports=[TCP], protocol="tcp", private="10.1.2.0/24"),
)

HOSTS = {
    **{f"{name}.example.com": [[PUBLIC[0]]] for name in ("web", "api", "raw", "local", "a.wild")},
    "wiki.example.com": [["10.1.2.3"]],
    EVIL: [[PUBLIC[1]]],
}

BIG = b"".join(hashlib.sha512(b"%d" % number).digest() for number in range(20 * 2**20 // 64))
"""20 MiB that nothing can guess."""


async def count(visit: Visit) -> None:
    digest = hashlib.sha256()
    while data := await visit.reader.read(65536):
        digest.update(data)
    visit.writer.write(digest.hexdigest().encode())
    await visit.writer.drain()


async def site(visit: Visit) -> None:
    """A little HTTP: pages, what is uploaded as its digest, the refs of a repository, an upgrade to an echo."""
    while head := await visit.reader.readuntil(b"\r\n\r\n"):
        visit.said += head
        lines = head.decode("latin-1").split("\r\n")
        method, path, _ = lines[0].split(" ")
        fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        if "upgrade" in fields:
            visit.writer.write(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
            await echo(visit)
            break
        if fields.get("expect"):
            visit.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = await visit.reader.readexactly(int(fields.get("content-length", 0)))
        answer = hashlib.sha256(body).hexdigest().encode() if method in ("PUT", "POST") else page(path, fields)
        status = b"403 Forbidden\r\nX-Dayfly-Denied: forged" if path.endswith("/forbidden") else b"200 OK"
        head = b"HTTP/1.1 %s\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n" % (status, len(answer))
        visit.writer.write(head)
        visit.writer.write(answer)
        await visit.writer.drain()
        if fields.get("connection") == "close":
            break


def page(path: str, fields: dict[str, str]) -> bytes:
    if path == "/big":
        return BIG
    if path.startswith("/repo.git/info/refs"):
        return b"%s\trefs/heads/main\n" % (b"1" * 40)
    if path == "/v1/sent-back":  # as sites for debugging do
        return str(fields).encode()
    if path == "/repo.git/HEAD":
        return b"ref: refs/heads/main\n"
    return f"{fields.get('host')} {path}".encode()


@dataclass
class World:
    """``canaries``: by (address, port)."""

    internet: Internet
    names: Names
    data: Path
    certificate: Path
    canaries: dict[tuple[str, int], Canary] = field(default_factory=dict)

    async def furnish(self) -> None:
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(self.certificate, self.certificate.with_name("key"))
        for address in (PUBLIC[0], PUBLIC[1], PUBLIC[2], "10.1.2.3", "169.254.169.254"):
            for port, behave in ((80, site), (443, site), (TCP, echo), (COUNTING, count), (UPGRADING, site)):
                made = Canary(_patient(behave))
                await made.listen(self.internet.bind("far", "tcp", address, port), tls if port == 443 else None)
                self.canaries[address, port] = made

    def calm(self) -> None:
        """Before a test: nobody has asked for anything yet."""
        self.names.asked.clear()
        self.names.table = {name: list(answers) for name, answers in HOSTS.items()}
        for canary in self.canaries.values():
            canary.visits.clear()

    def visited(self) -> set[tuple[str, int]]:
        return {place for place, canary in self.canaries.items() if canary.visits}

    def heard(self, port: int = 443) -> str:
        """All that the server there was told."""
        return "".join(visit.said.decode("latin-1") for visit in self.canaries[PUBLIC[0], port].visits)

    @asynccontextmanager
    async def house(self, **more: Any) -> AsyncIterator[House]:
        """A manager with a way out of its own."""
        made = House(self, **more)
        try:
            yield made
        finally:
            await made.manager.close()
            assert not any(Path(f"/proc/{gateway.pid}").exists() for gateway in made.gateways)

    async def close(self) -> None:
        for canary in self.canaries.values():
            await canary.close()


class House:
    """``gateways``: those that were started; the last one is in use. ``means``: what rules need beside themselves."""

    def __init__(self, world: World, means: Means | None = None) -> None:
        paths = Paths(world.data, world.data / "run")
        self.world = world
        self.gateways: list[Gateway] = []
        self.outlet = Outlet(self.start, means)
        self.manager = Manager(
            {"gvisor": GvisorBoundary(paths)},
            Store(paths),
            lambda image: agent_for(image, default_paths().data / "agents"),
            snapshots=paths.data / "snapshots",
            shelf=Shelf(paths.data / "paused", lasting=False),
            outlet=self.outlet,
        )

    async def start(self) -> Gateway:
        self.gateways.append(await Gateway.start(within=self.world.internet.within, roots=self.world.certificate))
        return self.gateways[-1]

    def sandbox(self, *rules: AnyRule, image: str = "tiny") -> AsyncSandbox:
        return AsyncSandbox(Policy(image=image, network=rules or "none"), opener=self.manager)

    @asynccontextmanager
    async def believing(self, *rules: AnyRule, image: str) -> AsyncIterator[AsyncSandbox]:
        """With the world's certificate in its home, as ``ca.pem``."""
        async with self.sandbox(*rules, image=image) as made:
            await made.files.write("ca.pem", self.world.certificate.read_bytes())
            yield made


def _patient(behave: Callable[[Visit], Any]) -> Callable[[Visit], Any]:
    async def behaving(visit: Visit) -> None:
        try:
            await behave(visit)
        except asyncio.IncompleteReadError:
            visit.eof = True

    return behaving


PRELUDE = """
import os, socket, sys
def connect(host, port, seconds=10):
    return socket.create_connection((host, port), timeout=seconds)
def echoed(peer, data=b"hello"):
    peer.sendall(data)
    found = b""
    while len(found) < len(data) and (more := peer.recv(65536)):
        found += more
    return found == data
"""


async def python(sandbox: AsyncSandbox, code: str, *arguments: str, **more: Any) -> ProcessResult:
    """Run code inside; it is to be done in 30 s."""
    return await sandbox.commands.run(["python3", "-c", PRELUDE + code, *arguments], **{"timeout": 30, **more})


async def in_kernel(sandbox: AsyncSandbox, code: str, *arguments: str) -> Execution:
    """The same in the interpreter that runs already, with names of its own: a new one takes a tenth of a second."""
    run = f"import sys\nsys.argv = ['-c', *{arguments!r}]\nexec({PRELUDE + code!r}, {{'__name__': '__main__'}})"
    return await sandbox.run_code(run, timeout=30)
