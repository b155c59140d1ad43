"""The ways out that there are where a policy names destinations: names, the two proxies, and what is said over them."""

from __future__ import annotations

import socket
import ssl
import struct

HTTP, SOCKS = ("127.0.0.1", 3128), ("127.0.0.1", 1080)


def fetched(
    hosts: list[str],
    port: int = 80,
    path: str = "/",
    method: str = "GET",
    door: str = "name",
    host_field: str | None = None,
    fields: str = "",
) -> tuple[int, list[str]]:
    """An HTTP request by one door to each of the hosts. What is said with status 200 is reached."""
    found = []
    for host in hosts:
        try:
            with DOORS[door](host, port) as made:
                target = "http://%s:%d%s" % (host, port, path) if door == "absolute" else path
                made.sendall(request(method, target, host_field or host, fields))
                found += told(host, whole(made))
        except (OSError, ValueError) as error:
            del error
    return len(hosts), found


def request(method: str, target: str, host: str, fields: str) -> bytes:
    return ("%s %s HTTP/1.1\r\nHost: %s\r\n%sConnection: close\r\n\r\n" % (method, target, host, fields)).encode(
        "latin-1", "replace"
    )


def told(host: str, said: bytes) -> list[str]:
    head, _, body = said.partition(b"\r\n\r\n")
    words = head.split(b" ")
    return ["%s: %s" % (host, body[:100].decode("latin-1"))] if len(words) > 1 and words[1] == b"200" else []


def whole(made: socket.socket) -> bytes:
    said = b""
    while len(said) < 65536:
        more = made.recv(65536)
        if not more:
            break
        said += more
    return said


def spoken(
    hosts: list[str], port: int, door: str = "name", say: str = "hello", wait: bool = True
) -> tuple[int, list[str]]:
    """Bytes to each, by one door. Any answer is reached."""
    found = []
    for host in hosts:
        try:
            with DOORS[door](host, port) as made:
                made.sendall(say.encode("latin-1"))
                said = made.recv(200) if wait else b""
                found += ["%s: %s" % (host, said.decode("latin-1"))] if said else []
        except (OSError, ValueError) as error:
            del error
    return len(hosts), found


def connected(hosts: list[str], port: int, door: str = "name") -> tuple[int, list[str]]:
    """A server that speaks first."""
    return spoken(hosts, port, door, say="")


def by_name(host: str, port: int) -> socket.socket:
    return patient(socket.create_connection((host, port), 5))


def patient(made: socket.socket) -> socket.socket:
    made.settimeout(5)
    return made


def by_proxy(host: str, port: int, line: str = "CONNECT %s:%d HTTP/1.1\r\nHost: %s:%d\r\n\r\n") -> socket.socket:
    made = by_name(*HTTP)
    made.sendall((line % (host, port, host, port)).encode("latin-1", "replace"))
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        more = made.recv(1)
        if not more:
            raise OSError("the proxy has ended")
        head += more
    if head.split(b" ")[1] != b"200":
        raise OSError("refused")
    return made


def by_lower_case(host: str, port: int) -> socket.socket:
    return by_proxy(host, port, "connect %s:%d HTTP/1.1\r\nHost: %s:%d\r\n\r\n")


def by_old_proxy(host: str, port: int) -> socket.socket:
    return by_proxy(host, port, "CONNECT %s:%d HTTP/1.0\r\nHost: %s:%d\r\n\r\n")


def by_other_host(host: str, port: int) -> socket.socket:
    """The one in the first line, and a listed one in the field."""
    made = by_name(*HTTP)
    made.sendall(
        ("CONNECT %s:%d HTTP/1.1\r\nHost: raw.example.com:7000\r\n\r\n" % (host, port)).encode("latin-1", "replace")
    )
    if b" 200" not in made.recv(200):
        raise OSError("refused")
    return made


def absolute(host: str, port: int) -> socket.socket:
    return by_name(*HTTP)


def by_socks(host: str, port: int, command: int = 1) -> socket.socket:
    made = by_name(*SOCKS)
    made.sendall(b"\5\1\0")
    if made.recv(2) != b"\5\0":
        raise OSError("refused")
    name = host.encode("latin-1", "replace")
    made.sendall(b"\5" + bytes([command]) + b"\0\3" + bytes([len(name)]) + name + struct.pack("!H", port))
    if made.recv(10)[1:2] != b"\0":
        raise OSError("refused")
    return made


def by_socks_address(host: str, port: int) -> socket.socket:
    """A literal, as the four bytes that it is."""
    made = by_name(*SOCKS)
    made.sendall(b"\5\1\0")
    made.recv(2)
    made.sendall(b"\5\1\0\1" + socket.inet_aton(host) + struct.pack("!H", port))
    if made.recv(10)[1:2] != b"\0":
        raise OSError("refused")
    return made


def by_old_socks(host: str, port: int) -> socket.socket:
    """SOCKS4a."""
    made = by_name(*SOCKS)
    made.sendall(b"\4\1" + struct.pack("!H", port) + b"\0\0\0\1" + b"\0" + host.encode("latin-1", "replace") + b"\0")
    if made.recv(8)[1:2] != b"\x5a":
        raise OSError("refused")
    return made


def by_bind(host: str, port: int) -> socket.socket:
    return by_socks(host, port, 2)


def by_associate(host: str, port: int) -> socket.socket:
    return by_socks(host, port, 3)


DOORS = {
    "name": by_name,
    "connect": by_proxy,
    "lower case": by_lower_case,
    "old connect": by_old_proxy,
    "other host": by_other_host,
    "absolute": absolute,
    "socks": by_socks,
    "socks address": by_socks_address,
    "old socks": by_old_socks,
    "bind": by_bind,
    "associate": by_associate,
}


def requested(
    host: str, requests: list[list[str]], port: int = 80, door: str = "name", tls: bool = False
) -> tuple[int, list[str]]:
    """Each ``[method, target, fields, body]`` on a connection of its own. What is answered with success is reached."""
    found, context = [], ssl.create_default_context() if tls else None
    for method, target, *rest in requests:
        fields, body = (*rest, "", "")[:2]
        try:
            status, _ = answered(host, port, door, context, asking(method, target, host, fields, body))
        except (OSError, ValueError):
            continue
        if 200 <= status < 300:
            found.append("%s %s: %d" % (method, target, status))
    return len(requests), found


def asking(method: str, target: str, host: str, fields: str, body: str) -> bytes:
    lines = ["%s %s HTTP/1.1" % (method, target)]
    if "host:" not in fields.lower():
        lines.append("Host: " + host)
    lines += [line for line in fields.split("\n") if line]
    if method in ("PUT", "POST"):
        lines.append("Content-Length: %d" % len(body))
    return ("\r\n".join([*lines, "Connection: close", "", ""]) + body).encode("latin-1", "replace")


def answered(host: str, port: int, door: str, tls: ssl.SSLContext | None, said: bytes) -> tuple[int, bytes]:
    """The status and what came besides. Raises ``OSError`` and ``ValueError``."""
    with DOORS[door](host, port) as made:
        spoken: socket.socket = made if tls is None else tls.wrap_socket(made, server_hostname=host)
        spoken.sendall(said)
        answer = whole(spoken)
    return int(answer.split(b" ", 2)[1]), answer


def sent_back(
    host: str, target: str, fields: str = "", port: int = 443, tls: bool = True, behind: str = ""
) -> tuple[int, list[str], str]:
    """All that an allowed request is answered: whoever looks for a secret looks there. Raises where it is not answered with success.
    ``behind``: what is sent after it on the same connection."""
    context = ssl.create_default_context() if tls else None
    status, answer = answered(host, port, "name", context, asking("GET", target, host, fields, behind))
    if status != 200:
        raise OSError("answered with %d" % status)
    return 1, [], answer[:20000].decode("latin-1")


def after_an_allowed_one(allowed: str, host: str, path: str = "/", least: int = 2) -> tuple[int, list[str]]:
    """Two requests on one connection of the proxy: an allowed one, and one for another host. ``least``: answers that count as reached."""
    with by_name(*HTTP) as made:
        first = "GET http://%s/ HTTP/1.1\r\nHost: %s\r\n\r\n" % (allowed, allowed)
        second = "GET http://%s%s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n" % (host, path, host)
        made.sendall((first + second).encode())
        try:
            said = whole(made)
        except OSError:
            said = b""
    return 1, [said.split(b"\r\n\r\n", 2)[-1][:100].decode("latin-1")] if said.count(b"HTTP/1.1 200") >= least else []


def handshakes(names: list[str], host: str = "tls.example.com", port: int = 443) -> tuple[int, list[str]]:
    """A TLS handshake with a listed host that names another one. A certificate that comes back is reached."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    found = []
    for name in names:
        try:
            with by_name(host, port) as made, context.wrap_socket(made, server_hostname=name or None) as spoken_to:
                found.append(
                    "%s: %d bytes of certificate" % (name or "no name", len(spoken_to.getpeercert(True) or b""))
                )
        except (OSError, ValueError):
            pass
    return len(names), found


def looked_up(names: list[str]) -> tuple[int, list[str]]:
    """By the library and by asking the resolver here, of every kind that could carry an answer."""
    found = []
    for name in names:
        try:
            found.append("%s: %s" % (name, socket.getaddrinfo(name, 80)[0][4][0]))
        except (OSError, UnicodeError):
            pass
        for kind in KINDS:
            if records(name, kind):
                found.append("%s has records of kind %d" % (name, kind))
    return len(names) * (1 + len(KINDS)), found


KINDS = (1, 2, 5, 10, 12, 15, 16, 28, 33, 65, 255)


def records(name: str, kind: int) -> int:
    """How many the resolver gives."""
    question = b"".join(bytes([len(part)]) + part.encode("latin-1") for part in name.split(".") if 0 < len(part) < 64)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
        asker.settimeout(1)
        try:
            asker.sendto(
                bytes([0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0]) + question + b"\0" + struct.pack("!2H", kind, 1),
                ("127.0.0.1", 53),
            )
            answer = asker.recv(4096)
        except OSError:
            return 0
    return int.from_bytes(answer[6:8], "big") if len(answer) > 11 else 0
