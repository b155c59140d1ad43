"""The sandbox's own /etc/hosts, where names stand that were asked for: whoever asks again reads it there, and waits for nobody.

Law: a line says what the resolver would say. It is written after somebody listens on the address, and is gone before anything else
is done once the name is. Only the file that a cell was made with is touched: another one is somebody's own, or another machine's.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

PATH = "/etc/hosts"

MAX_KNOWN = 64
"""Names in it. Everybody reads the whole file each time, some 50 us; further names are the resolver's alone."""

MADE = b"127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n127.0.1.1 "
"""How a cell's file begins; its own name follows, and nothing else."""

MAX_MADE = 512


class Hosts:
    """``path`` is the file of a sandbox of which this is the first process, or ``None``. What goes wrong leaves it as it was, or as it
    began: then there is the resolver."""

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._made = b""  # what it began as, once it is ours to write
        self._known: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"<Hosts {self._path} known={len(self._known)}>"

    def add(self, host: str, address: str) -> None:
        if self._path is None or host in self._known or len(self._known) >= MAX_KNOWN or not self._taken(self._path):
            return
        self._known[host] = address
        self._write(self._path, os.O_APPEND, _line(host, address))

    def keep(self, hosts: Iterable[str]) -> None:
        """Those, and no others."""
        kept = set(hosts)
        left = {host: address for host, address in self._known.items() if host in kept}
        if self._path is not None and len(left) < len(self._known):
            self._known = left
            self._write(self._path, os.O_TRUNC, self._made + b"".join(_line(*one) for one in left.items()))

    def _taken(self, path: str) -> bool:
        """Whether it is ours to write. Made by the host, it is nobody's inside."""
        if not self._made:
            try:
                self._made = _made(path)
                os.chown(path, os.geteuid(), os.getegid())
                os.chmod(path, 0o644)
            except OSError:
                self._path = None
        return self._path is not None

    def _write(self, path: str, how: int, data: bytes) -> None:
        try:
            _put(path, how, data)
        except OSError:  # a full disk
            self._path = None
            try:
                _put(path, os.O_TRUNC, b"")  # this takes no room; localhost is the resolver's as well
            except OSError:
                return


def _made(path: str) -> bytes:
    """Raises ``OSError`` for a file that is not as a cell's is made."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        found = os.read(fd, MAX_MADE + 1)
    finally:
        os.close(fd)
    if not found.startswith(MADE) or found.count(b"\n") != MADE.count(b"\n") + 1 or len(found) > MAX_MADE:
        raise OSError("not the file that a cell is made with")
    return found


def _put(path: str, how: int, data: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW | how)
    try:
        if os.write(fd, data) != len(data):
            raise OSError("written in part")
    finally:
        os.close(fd)


def _line(host: str, address: str) -> bytes:
    return f"{address} {host}\n".encode("ascii")
