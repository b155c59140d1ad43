"""What an attempt could find on the host: marked, and counting who came. On the loop that opened it."""

from __future__ import annotations

import asyncio
import os
import platform
import secrets
import socket
import subprocess
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dayfly.prove.marks import tells, token_of
from dayfly.prove.probe import Probe

__all__ = ["Bait", "Visit", "bait", "resolvers"]

MOST_SAID = 4096
"""Bytes of a visitor's that are kept: a mark is some fifty."""

GREETING_SECONDS = 2.0
"""For the host's own visits, which take a millisecond."""


@dataclass
class Visit:
    """Somebody came to one of the host's servers. ``said``: how it began, once that is known."""

    where: str
    said: str = ""


@dataclass
class Bait:
    """``marks`` fill the arguments of probes. ``secrets`` are known to the host alone: who tells one has read it here. ``visits`` grows whenever
    something reaches one of the servers, and forgets nobody but the host itself."""

    marks: dict[str, Any] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)
    visits: list[Visit] = field(default_factory=list)
    _greet: list[Callable[[], None]] = field(default_factory=list)
    _came: asyncio.Event = field(default_factory=asyncio.Event)
    _watched: int = 0  # visits before this probe's
    _judged: int = 0  # visits before the last verdict
    _asked: set[str] = field(
        default_factory=set
    )  # marks of probes that were judged: theirs is what comes later with them

    def note(self, visit: Visit) -> None:
        self.visits.append(visit)
        self._came.set()

    async def alive(self) -> str:
        """Why the servers prove nothing; empty: each of them has seen the host itself just now."""
        begun = len(self.visits)
        for greet in self._greet:
            await asyncio.to_thread(greet)
        try:
            async with asyncio.timeout(GREETING_SECONDS):
                while len({visit.where for visit in self.visits[begun:]}) < len(self._greet):
                    self._came.clear()
                    await self._came.wait()
        except TimeoutError:
            return "one of the host's own servers does not see who comes"
        came = self.visits[begun:]
        if len(came) > len(self._greet):
            return f"somebody came besides the host itself: {', '.join(one.where for one in came)}"
        del self.visits[begun:]
        return ""

    def watch(self) -> None:
        self._watched = len(self.visits)

    def contacts(self, probe: Probe) -> tuple[str, ...]:
        """Who says whose attempt it is, is that one's. Anybody else is this one's, whatever he says."""
        mark = token_of(probe)
        earlier = self._asked - {mark}
        self._asked.add(mark)
        self._judged = len(self.visits)
        return tuple(
            one.where for one in self.visits[self._watched :] if not any(other in one.said for other in earlier)
        )

    def late(self, probe: Probe) -> tuple[str, ...]:
        return tuple(one.where for one in self.visits if token_of(probe) in one.said)

    def strays(self) -> tuple[str, ...]:
        return tuple(one.where for one in self.visits[self._judged :])

    def leaked(self, output: str) -> tuple[str, ...]:
        """What of the host's is in there."""
        return tuple(what for what, secret in self.secrets.items() if tells(output, secret))


@asynccontextmanager
async def bait(host_paths: tuple[str, ...] = ()) -> AsyncIterator[Bait]:
    """A file, a process, TCP, UDP and Unix servers on the host's loopback, and what must not be known inside. ``host_paths``: more
    of them."""
    found = Bait()
    found.secrets = {"the host's file": secrets.token_hex(16), "the host's server": secrets.token_hex(16)}
    nonce = f"proof{secrets.token_hex(10)}"
    async with AsyncExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dayfly-bait-")))
        _furnish(directory, found.secrets["the host's file"])
        process = _start(nonce)
        stack.callback(process.wait)
        stack.callback(process.kill)
        found.marks = {
            "nonce": nonce,
            "canary_file": str(directory / "canary"),
            "canary_socket": str(directory / "socket"),
            "tcp_port": await _tcp(stack, found),
            "udp_port": await _udp(stack, found),
            "host_pid": process.pid,
            "host_resolvers": [[one, 53] for one in resolvers()],
            "host_paths": [str(directory), *host_paths],
            **{f"host {name}": value for name, value in _identity().items()},
        }
        await _unix(stack, found, str(directory / "socket"), "Unix socket")
        await _unix(stack, found, f"\0{nonce}", "abstract socket")
        yield found


def _furnish(directory: Path, secret: str) -> None:
    directory.chmod(0o755)  # nothing but a wall is to be in the way
    (directory / "canary").write_text(secret)


def _start(nonce: str) -> subprocess.Popen[bytes]:
    """A process with the mark in its command line, which does nothing."""
    return subprocess.Popen(["sh", "-c", "read forever", nonce], stdin=subprocess.PIPE)


async def _tcp(stack: AsyncExitStack, found: Bait) -> int:
    server = await asyncio.start_server(_serve(found, "TCP on loopback"), "127.0.0.1", 0)
    stack.callback(server.close)
    port: int = server.sockets[0].getsockname()[1]
    found._greet.append(lambda: socket.create_connection(("127.0.0.1", port), GREETING_SECONDS).close())
    return port


async def _unix(stack: AsyncExitStack, found: Bait, name: str, what: str) -> None:
    server = await asyncio.start_unix_server(_serve(found, what), name)
    stack.callback(server.close)
    if name.startswith("/"):
        os.chmod(name, 0o777)  # noqa: PTH101, S103 - anybody may, but for the wall
    found._greet.append(lambda: _connect_unix(name))


def _connect_unix(name: str) -> None:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(GREETING_SECONDS)
        client.connect(name)


def _serve(found: Bait, what: str) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any]:
    async def visited(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        visit = Visit(what)
        found.note(visit)
        writer.write(found.secrets["the host's server"].encode())
        visit.said = await _beginning(reader)
        writer.close()

    return visited


async def _beginning(reader: asyncio.StreamReader) -> str:
    try:
        async with asyncio.timeout(GREETING_SECONDS):
            return (await reader.read(MOST_SAID)).decode("ascii", "replace")
    except (TimeoutError, OSError):
        return ""


class _Datagrams(asyncio.DatagramProtocol):
    def __init__(self, found: Bait) -> None:
        self._found = found

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport

    def datagram_received(self, data: bytes, peer: Any) -> None:
        self._found.note(Visit("UDP on loopback", data[:MOST_SAID].decode("ascii", "replace")))
        self._transport.sendto(data, peer)


async def _udp(stack: AsyncExitStack, found: Bait) -> int:
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(lambda: _Datagrams(found), ("127.0.0.1", 0))
    stack.callback(transport.close)
    port: int = transport.get_extra_info("sockname")[1]
    found._greet.append(lambda: _send(port))
    return port


def _send(port: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"the host itself", ("127.0.0.1", port))


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def _identity() -> dict[str, str]:
    memory = next((line.split()[1] for line in _read("/proc/meminfo").splitlines() if line.startswith("MemTotal")), "")
    return {
        "hostname": socket.gethostname(),
        "machine id": _read("/etc/machine-id"),
        "boot id": _read("/proc/sys/kernel/random/boot_id"),
        "kernel": platform.release() + platform.version(),
        "memory": memory,
        "product uuid": _read("/sys/class/dmi/id/product_uuid"),
        "command line": _read("/proc/cmdline"),
    }


def resolvers() -> list[str]:
    return [line.split()[1] for line in _read("/etc/resolv.conf").splitlines() if line.startswith("nameserver ")]
