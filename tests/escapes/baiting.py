"""What an attack could find on the host: marked with a nonce, and counting who came."""

from __future__ import annotations

import contextlib
import json
import platform
import secrets
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from dayfly.paths import default_paths


@dataclass
class Bait:
    """``visits`` grows whenever something reaches one of the host's servers."""

    nonce: str
    directory: Path
    env: dict[str, str]
    visits: list[str] = field(default_factory=list)


@contextmanager
def bait() -> Iterator[Bait]:
    """A file, a process, TCP, UDP and Unix servers on the host's loopback, and the names of what must not be known."""
    nonce = f"nonce{secrets.token_hex(12)}"
    with tempfile.TemporaryDirectory(prefix="bait-") as name, contextlib.ExitStack() as stack:
        directory = Path(name)
        directory.chmod(0o755)
        (directory / "canary").write_text(nonce)
        process = subprocess.Popen(["sh", "-c", "read forever", nonce], stdin=subprocess.PIPE)
        stack.callback(process.wait)
        stack.callback(process.kill)
        found = Bait(nonce, directory, {})
        found.env = {
            "NONCE": nonce,
            "CANARY_FILE": str(directory / "canary"),
            "CANARY_SOCKET": str(directory / "socket"),
            "CANARY_PORT": str(stack.enter_context(_tcp(found))),
            "CANARY_UDP_PORT": str(stack.enter_context(_udp(found))),
            "HOST_PID": str(process.pid),
            "HOST_IDENTITY": json.dumps(_identity()),
            "HOST_RESOLVERS": " ".join(_resolvers()),
            "HOST_PATHS": ":".join(
                (str(default_paths().data), str(Path.home()), "/var/lib", "lowerdir", str(directory))
            ),
        }
        stack.enter_context(_unix(found, str(directory / "socket")))
        stack.enter_context(_unix(found, "\0" + nonce))
        yield found


@contextmanager
def _tcp(found: Bait) -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server, _accepting(server, found, "tcp"):
        yield server.getsockname()[1]


@contextmanager
def _unix(found: Bait, name: str) -> Iterator[None]:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(name)
        if name.startswith("/"):
            Path(name).chmod(0o777)
        server.listen()
        with _accepting(server, found, "unix"):
            yield


@contextmanager
def _accepting(server: socket.socket, found: Bait, what: str) -> Iterator[None]:
    def serve() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            found.visits.append(what)
            with connection, contextlib.suppress(OSError):
                connection.sendall(found.nonce.encode())

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown(socket.SHUT_RDWR)
        thread.join(5)


@contextmanager
def _udp(found: Bait) -> Iterator[int]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        port = server.getsockname()[1]

        def serve() -> None:
            while True:
                data, peer = server.recvfrom(1000)
                if data == b"stop":
                    return
                found.visits.append("udp")
                server.sendto(data, peer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield port
        finally:
            server.sendto(b"stop", ("127.0.0.1", port))
            thread.join(5)


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def _identity() -> dict[str, str]:
    memory = next(line.split()[1] for line in _read("/proc/meminfo").splitlines() if line.startswith("MemTotal"))
    return {
        "hostname": socket.gethostname(),
        "machine id": _read("/etc/machine-id"),
        "boot id": _read("/proc/sys/kernel/random/boot_id"),
        "kernel": platform.release() + platform.version(),
        "memory": memory,
        "product uuid": _read("/sys/class/dmi/id/product_uuid"),
        "command line": _read("/proc/cmdline"),
    }


def _resolvers() -> list[str]:
    return [line.split()[1] for line in _read("/etc/resolv.conf").splitlines() if line.startswith("nameserver ")]
