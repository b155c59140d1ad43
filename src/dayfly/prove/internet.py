"""An internet of two network namespaces: in one the gateway lives, with a resolver of its own on 127.0.0.1:53; in the other are
servers under public and private addresses. What goes on in there is real, and never leaves this machine.

A small process holds the namespaces and hands out sockets in them, so the tests themselves stay where they are.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["Internet", "Names", "here"]

PUBLIC = ("93.184.216.34", "93.184.216.35", "2606:2800:220:1::34")
PRIVATE = ("10.1.2.3", "192.168.7.7", "169.254.169.254", "100.64.0.9")
SERVICES = "93.184.216.40"
"""Behind which are services that answer requests."""

NEAR, FAR = "172.30.0.1", "172.30.0.2"
"""The gateway's end of the link, and the other."""
NEIGHBOUR = "193.0.14.9"
"""On the same link as the gateway, under a public address."""


VISIT_SECONDS = 2.0
"""For a connection between two namespaces of this machine, which takes a millisecond."""


class Internet:
    """Raises ``OSError`` where namespaces cannot be made."""

    def __init__(self, directory: Path) -> None:
        for name, text in _FILES.items():
            (directory / name).write_text(text)
            (directory / name).chmod(0o644)
        directory.chmod(0o755)
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        as_user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
        with theirs:
            self._holder = subprocess.Popen(
                ["unshare", *as_user, "--net", "--mount", sys.executable, __file__, str(directory)],
                stdin=theirs.fileno(),
            )
        self._ours.settimeout(20)
        try:
            ready = self._ours.recv(100)
        except OSError:
            ready = b""
        if ready != b"ready":
            self.close()
            raise OSError("no namespaces can be made here")
        process = f"/proc/{self._holder.pid}/ns"
        spaces = ["net", "mnt", *(["user"] if as_user else [])]
        flags = {"net": "--net", "mnt": "--mount", "user": "--user"}
        keep = ["--preserve-credentials"] if as_user else []
        self.within = ("nsenter", *keep, *(f"{flags[one]}={process}/{one}" for one in spaces))

    @classmethod
    @contextmanager
    def made(cls) -> Iterator[Internet]:
        with tempfile.TemporaryDirectory() as directory, closing(cls(Path(directory))) as internet:
            yield internet

    def bind(self, side: str, kind: str, address: str, port: int) -> socket.socket:
        """``side``: near (where the gateway is) or far. ``kind``: tcp (listening), udp, or visit (connected to there over TCP). Raises
        ``OSError``."""
        self._ours.send(json.dumps([side, kind, address, port]).encode())
        data, numbers, _, _ = socket.recv_fds(self._ours, 1000, 1)
        if not numbers:
            raise OSError(data.decode())
        return socket.socket(fileno=numbers[0])

    def close(self) -> None:
        self._ours.close()
        self._holder.kill()
        self._holder.wait()


_FILES = {
    "resolv.conf": "nameserver 127.0.0.1\nsearch corp.example\n",
    "hosts": "127.0.0.1 localhost\n10.1.2.3 wiki.inside.example\n",
    "nsswitch.conf": "hosts: files dns\n",
}


@dataclass
class Names:
    """A DNS server for every name there is, which writes down who was asked for. ``table``: a name to the answers that it gives, one
    after another; the last one stays."""

    table: dict[str, list[list[str]]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    came: asyncio.Event = field(default_factory=asyncio.Event)
    silent: str = "-"  # for names that end so there is no answer, as if packets were lost
    everything: str = ""  # what all names have that are not in the table

    async def listen(self, on: socket.socket) -> None:
        self.transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(lambda: _Dns(self), sock=on)

    def close(self) -> None:
        self.transport.close()

    def addresses(self, name: str, version: int) -> list[str] | None:
        answers = self.table.get(name)
        if answers is None:
            return ([self.everything] if version == 4 else []) if self.everything else None
        found = answers.pop(0) if len(answers) > 1 and version == 4 else answers[0]
        return [one for one in found if (":" in one) == (version == 6)]


class _Dns(asyncio.DatagramProtocol):
    def __init__(self, names: Names) -> None:
        self._names = names

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport

    def datagram_received(self, data: bytes, peer: tuple[str, int]) -> None:
        """Anybody may send anything."""
        with suppress(IndexError, UnicodeDecodeError):
            self._asked(data, peer)

    def _asked(self, data: bytes, peer: tuple[str, int]) -> None:
        labels, at = [], 12
        while data[at]:
            labels.append(data[at + 1 : at + 1 + data[at]].decode("ascii"))
            at += 1 + data[at]
        name, kind = ".".join(labels).lower(), int.from_bytes(data[at + 1 : at + 3], "big")
        self._names.asked.append(name)
        self._names.came.set()
        if name.endswith(self._names.silent):
            return
        found = self._names.addresses(name, 4 if kind == 1 else 6)
        flags = b"\x85\x80" if found is not None else b"\x85\x83"
        records = b"".join(_record(kind, one) for one in found or [])
        counts = b"\0\1" + len(found or []).to_bytes(2, "big") + bytes(4)
        self._transport.sendto(data[:2] + flags + counts + data[12 : at + 5] + records, peer)


def _record(kind: int, address: str) -> bytes:
    packed = socket.inet_pton(socket.AF_INET6 if ":" in address else socket.AF_INET, address)
    return b"\xc0\x0c" + kind.to_bytes(2, "big") + b"\0\1" + bytes(4) + len(packed).to_bytes(2, "big") + packed


# --- the process that holds the namespaces ----------------------------------------------------------------------------


def here() -> None:
    directory = Path(sys.argv[1])
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    near = socket.socket(fileno=os.dup(0))
    far = subprocess.Popen(["unshare", "--net", sys.executable, __file__, "far"], stdin=theirs.fileno())
    theirs.close()
    ours.recv(100)  # it has a network of its own by now
    _ip("link set lo up", "link add near type veth peer name far", f"link set far netns {far.pid}")
    _ip(
        f"addr add {NEAR}/30 dev near",
        "addr add 193.0.14.1/24 dev near",
        "link set near up",
        f"route add default via {FAR}",
    )
    _ip("-6 addr add fd00:7::1/64 dev near nodad", "-6 route add default via fd00:7::2")
    for name in _FILES:
        subprocess.run(["mount", "--bind", directory / name, f"/etc/{name}"], check=True)
    ours.send(b"go on")
    ours.recv(100)
    near.send(b"ready")
    while request := near.recv(1000):
        if json.loads(request)[0] == "near":
            _serve(near, request)
        else:
            ours.send(request)
            data, numbers, _, _ = socket.recv_fds(ours, 1000, 1)
            socket.send_fds(near, [data], numbers)
            for number in numbers:
                os.close(number)


def _far() -> None:
    asked = socket.socket(fileno=os.dup(0))
    asked.send(b"here")
    asked.recv(100)
    _ip(
        "link set lo up",
        f"addr add {FAR}/30 dev far",
        f"addr add {NEIGHBOUR}/24 dev far",
        "link set far up",
        "-6 addr add fd00:7::2/64 dev far nodad",
    )
    _ip(*(f"addr add {one} dev lo" for one in (*PUBLIC, SERVICES, *PRIVATE)))
    asked.send(b"ready")
    while request := asked.recv(1000):
        _serve(asked, request)


def _serve(asked: socket.socket, request: bytes) -> None:
    _, kind, address, port = json.loads(request)
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM if kind == "udp" else socket.SOCK_STREAM) as made:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if kind == "visit":
                made.settimeout(VISIT_SECONDS)
                made.connect((address, port))
            else:
                made.bind((address, port))
            if kind == "tcp":
                made.listen(128)
            socket.send_fds(asked, [b"made"], [made.fileno()])
    except OSError as error:
        asked.send(str(error).encode())


def _ip(*lines: str) -> None:
    program = shutil.which("ip") or "/usr/sbin/ip"
    for line in lines:
        subprocess.run([program, *line.split()], check=True)


if __name__ == "__main__":
    _far() if sys.argv[1] == "far" else here()
