"""Ways out: addresses, names, families of sockets, and whatever listens."""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
from collections.abc import Sequence
from typing import Any

LATE = 0.5
"""Seconds after which a failure says that a packet may have left: here a kernel without routes answers at once."""


TRIES = 3
"""Of what fails late: on a busy machine a kernel that answers at once is heard late, now and then. Where packets leave, it is late each time."""

PATIENCE = 2.0
"""Seconds for a connection. A whole one without an answer needs no second try."""


def tcp(address: str, port: int, token: str, refused_counts: bool = True) -> tuple[int, list[str]]:
    """A connection, and the mark sent over it. Refused: something was there to refuse. ``refused_counts`` is false for loopback, which is
    this sandbox's own; then what counts is an answer, which is said: the host knows its own again."""
    for _ in range(TRIES):
        begun = time.monotonic()
        try:
            with socket.create_connection((address, port), PATIENCE) as made:
                made.sendall(token.encode())
                made.settimeout(1)
                said = answered(made)
            return 1, ["connected: " + said] if refused_counts or said else []
        except ConnectionRefusedError:
            return 1, ["refused"] if refused_counts else []
        except OSError as error:
            why, seconds = "failed late: %s" % error, time.monotonic() - begun
        if not refused_counts or seconds <= LATE:
            return 1, []
        if seconds >= PATIENCE:
            break
    return 1, [why]


def answered(made: socket.socket) -> str:
    try:
        return made.recv(200).decode("latin-1")
    except OSError:
        return ""


def many_tcp(places: list[tuple[str, int]], token: str, refused_counts: bool = True) -> tuple[int, list[str]]:
    found = []
    for address, port in places:
        found += ["%s port %d: %s" % (address, port, one) for one in tcp(address, port, token, refused_counts)[1]]
    return len(places), found


def udp(places: list[tuple[str, int]], token: str) -> tuple[int, list[str]]:
    """Sent, or not even that."""
    found = []
    for address, port in places:
        with socket.socket(family(address), socket.SOCK_DGRAM) as sender:
            try:
                sender.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
                sender.sendto(token.encode(), (address, port))
                found.append("sent to %s port %d" % (address, port))
            except OSError:
                pass
    return len(places), found


def udp_answered(address: str, port: int, token: str) -> tuple[int, list[str]]:
    """For loopback, where sending is this sandbox's own business."""
    with socket.socket(family(address), socket.SOCK_DGRAM) as sender:
        sender.settimeout(0.3)
        try:
            sender.sendto(token.encode(), (address, port))
            return 1, ["answered"] if token.encode() in sender.recv(200) else []
        except OSError:
            return 1, []


ECHO: dict[int, tuple[int, bytes]] = {
    socket.AF_INET: (1, b"\x08\0\xf7\xff" + bytes(4)),
    socket.AF_INET6: (58, b"\x80" + bytes(7)),
}
"""The protocol and a request of it (RFC 792, RFC 4443)."""


def echoed(addresses: list[str]) -> tuple[int, list[str]]:
    """Requests for an echo, by datagrams and by hand: sent, or not even that."""
    found = []
    for address in addresses:
        protocol, request = ECHO[family(address)]
        for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW):
            try:
                with socket.socket(family(address), kind, protocol) as sender:
                    sender.sendto(request, (address, 0))
                found.append("sent to %s" % address)
            except OSError:
                pass
    return 2 * len(addresses), found


def unix(names: list[str]) -> tuple[int, list[str]]:
    """Paths, or abstract names, which begin with ``@``."""
    found = []
    for name in names:
        with socket.socket(socket.AF_UNIX) as client:
            try:
                client.connect("\0" + name[1:] if name.startswith("@") else name)
                found.append(name)
            except OSError:
                pass
    return len(names), found


def families(kinds: dict[str, list[int]]) -> tuple[int, list[str]]:
    """Sockets of families that a program has no use for. ``kinds``: name to [family, type, protocol]."""
    found = []
    for name, (one, kind, protocol) in kinds.items():
        try:
            socket.socket(one, kind, protocol).close()
            found.append(name)
        except OSError:
            pass
    return len(kinds), found


def raw_with_namespaces(kinds: dict[str, list[int]]) -> tuple[int, list[str]]:
    """The same after making a user namespace, in which one has every capability. gVisor's is its own: it counts where there is a device."""
    import ctypes

    ctypes.CDLL(None, use_errno=True).unshare(0x10000000)
    tried, found = families(kinds)
    outward = [name for _, name in socket.if_nameindex() if name != "lo"]
    return tried + 1, found if outward else []


def interfaces(known: list[str]) -> tuple[int, list[str]]:
    names = [name for _, name in socket.if_nameindex()]
    return 1 + len(names), [name for name in names if name not in known]


def routes(tables: list[str]) -> tuple[int, list[str]]:
    lines = []
    for path in tables:
        try:
            with open(path) as file:
                lines += ["%s: %s" % (path, line.strip()) for line in file.read().splitlines()[1:]]
        except OSError:
            pass
    return len(tables), [line for line in lines if line.split()[-1] != "lo" and line.split()[1] != "lo"]


def listeners(allowed: Sequence[int] = ()) -> tuple[int, list[str]]:
    """What listens inside, by the tables: the agent must not. ``allowed``: ports."""
    found = []
    for name, listening in (("tcp", "0A"), ("tcp6", "0A"), ("udp", "07"), ("udp6", "07")):
        try:
            with open("/proc/net/" + name) as file:
                rows = [line.split() for line in file.read().splitlines()[1:]]
        except OSError:
            continue
        for row in rows:
            if row[3] == listening and int(row[1].rsplit(":", 1)[1], 16) not in allowed:
                found.append("%s %s" % (name, row[1]))
    return 4, found


def unix_listeners() -> tuple[int, list[str]]:
    try:
        with open("/proc/net/unix") as file:
            rows = [line.split() for line in file.read().splitlines()[1:]]
    except OSError:
        rows = []
    return 1, [" ".join(row) for row in rows if row[3:4] == ["00010000"]]


def ports(numbers: list[int]) -> tuple[int, list[str]]:
    found = []
    for port in numbers:
        try:
            socket.create_connection(("127.0.0.1", port), 0.3).close()
            found.append("port %d" % port)
        except OSError:
            pass
    return len(numbers), found


def resolved(names: list[str]) -> tuple[int, list[str]]:
    """By the library."""
    found = []
    for name in names:
        try:
            found.append("%s: %s" % (name, socket.getaddrinfo(name, 80)[0][4][0]))
        except OSError:
            pass
    return len(names), found


def queried(servers: list[tuple[str, int]], name: str) -> tuple[int, list[str]]:
    """By asking servers of names oneself, over UDP."""
    found = []
    for server, port in servers:
        with socket.socket(family(server), socket.SOCK_DGRAM) as asker:
            asker.settimeout(0.4)
            try:
                asker.sendto(query(name), (server, port))
                found.append("%s answered %d bytes" % (server, len(asker.recv(512))))
            except OSError:
                pass
    return len(servers), found


def asked_over_tcp(servers: list[tuple[str, int]]) -> tuple[int, list[str]]:
    found = []
    for server, port in servers:
        try:
            socket.create_connection((server, port), 0.5).close()
            found.append("%s port %d accepts" % (server, port))
        except OSError:
            pass
    return len(servers), found


def told_resolvers(paths: list[str]) -> tuple[int, list[str]]:
    """Names and addresses of the host's in the files that say whom to ask."""
    found = []
    for path in paths:
        for line in lines_of(path):
            words = line.split("#")[0].split()
            if words and not (set(words) <= HARMLESS or words[0].startswith(("127.", "::1", "options"))):
                found.append("%s: %s" % (path, line.strip()))
    return len(paths), found


def lines_of(path: str) -> list[str]:
    """None where there is no such file: it tells nothing."""
    try:
        with open(path) as file:
            return file.readlines()
    except FileNotFoundError:
        return []


HARMLESS = {"nameserver", "127.0.0.1", "localhost"}


def reversed_name(addresses: list[str]) -> tuple[int, list[str]]:
    found = []
    for address in addresses:
        try:
            found.append("%s: %s" % (address, socket.gethostbyaddr(address)[0]))
        except OSError:
            pass
    return len(addresses), found


def query(name: str) -> bytes:
    question = b"".join(bytes([len(part)]) + part.encode() for part in name.split("."))
    return struct.pack("!6H", 7, 256, 1, 0, 0, 0) + question + b"\0" + struct.pack("!2H", 1, 1)


def family(address: str) -> int:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def environment_pointing(names: list[str]) -> tuple[int, list[str]]:
    """Variables that lead to a service of credentials."""
    return len(names), [name for name in names if name in os.environ]


OWN = 18765
"""Where ``own_servers`` listens."""


def own_servers(attempt: str, arguments: dict[str, Any]) -> tuple[int, list[str]]:
    """An attempt where somebody answers: servers of one's own, over TCP, UDP and a Unix socket. The control of those above."""
    stream = socket.create_server(("127.0.0.1", OWN))
    abstract = socket.socket(socket.AF_UNIX)
    abstract.bind("\0own")
    abstract.listen()
    datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    datagrams.bind(("127.0.0.1", OWN))
    for serve, on in ((greet, stream), (greet, abstract), (send_back, datagrams)):
        threading.Thread(target=serve, args=(on,), daemon=True).start()
    found: tuple[int, list[str]] = globals()[attempt](**arguments)
    return found


def greet(server: socket.socket) -> None:
    while True:
        peer, _ = server.accept()
        peer.sendall(b"hello")
        peer.close()


def send_back(server: socket.socket) -> None:
    while True:
        data, peer = server.recvfrom(4096)
        server.sendto(data, peer)
