"""The head of a request to an HTTP proxy: what it asks for, and what of it goes on (RFC 9110, 9112). No I/O.

Law: what two readers could read in two ways is refused and not repaired. What goes on is written anew: one line for the
request, ``Host`` from the target that is asked for, no header that is between two neighbours only, and one request to a
connection.
"""

from __future__ import annotations

from dayfly.agent.network.names import MAX_LENGTH

TYPE_CHECKING = False
if TYPE_CHECKING:
    Header = tuple[bytes, bytes]
    Headers = list[Header]

END = b"\r\n\r\n"

MAX_HEAD = 64 * 1024
MAX_HEADERS = 256

_LETTERS = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_DIGITS = b"0123456789"
_TOKEN = frozenset(_LETTERS + _DIGITS + b"!#$%&'*+-.^_`|~")
_VISIBLE = frozenset(range(0x21, 0x7F))
_HOST = frozenset(_LETTERS + _DIGITS + b"-._")
_LITERAL = frozenset(b"0123456789abcdefABCDEF:.")
_VALUE = frozenset(range(0x20, 0x100)) - {0x7F} | {9}

_NEIGHBOURS = frozenset(
    (b"connection", b"proxy-connection", b"keep-alive", b"proxy-authorization", b"proxy-authenticate", b"te", b"trailer",
     b"upgrade", b"host")
)  # fmt: skip
"""Headers that do not go on; ``Host`` is written anew."""

_FRAMING = frozenset((b"host", b"content-length", b"transfer-encoding"))


class Unfit(Exception):
    """What is answered instead: a status and a text."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Wanted:
    """``head`` goes on before ``body`` bytes of the client's; for a CONNECT there is none, and ``body`` is ``None``."""

    __slots__ = ("body", "head", "host", "port")

    def __init__(self, host: str, port: int, head: bytes = b"", body: int | None = None) -> None:
        self.host = host
        self.port = port
        self.head = head
        self.body = body


def read(head: bytes) -> Wanted:
    """``head`` ends with ``END``, which is nowhere else in it. Raises ``Unfit`` and nothing else."""
    line, *rest = head[: -len(END)].split(b"\r\n")
    method, target, version = _request_line(line)
    headers = [_header(one) for one in rest]
    if len(headers) > MAX_HEADERS:
        raise Unfit(431, f"more than {MAX_HEADERS} headers")
    if method == b"CONNECT":
        host, port = _authority(target, None)
        _require_host(headers, host, port, port, version)  # some leave the port away, which decides nothing here
        return Wanted(host, port)
    host, port, path = _absolute(target)
    _require_host(headers, host, port, 80, version)
    body = _body(headers)
    return Wanted(host, port, _written(method, path, version, host, port, headers), body)


def _request_line(line: bytes) -> tuple[bytes, bytes, bytes]:
    parts = line.split(b" ")
    if len(parts) != 3 or not parts[0] or not _TOKEN.issuperset(parts[0]) or not _VISIBLE.issuperset(parts[1]):
        raise Unfit(400, "not a request")
    method, target, version = parts
    if version not in (b"HTTP/1.1", b"HTTP/1.0"):
        raise Unfit(400, "this proxy speaks HTTP/1.1")
    if method == b"TRACE":
        raise Unfit(405, "this proxy takes no TRACE")
    return method, target, version


def _header(line: bytes) -> Header:
    name, colon, value = line.partition(b":")
    if not colon or not name or not _TOKEN.issuperset(name) or not _VALUE.issuperset(value):
        raise Unfit(400, "a header that cannot be read in one way only")
    return name, value.strip(b" \t")


def _absolute(target: bytes) -> tuple[str, int, bytes]:
    """Host, port and the rest of "http://host:port/rest"."""
    scheme, mark, rest = target.partition(b"://")
    if not mark or b"/" in scheme:
        raise Unfit(400, "this is a proxy: ask for http://host/path, or CONNECT host:port")
    if scheme.lower() != b"http":
        raise Unfit(400, "for anything but http, ask this proxy for CONNECT host:port")
    if b"#" in rest:
        raise Unfit(400, "a target has no fragment")
    end = min((rest.find(mark) for mark in (b"/", b"?") if mark in rest), default=len(rest))
    host, port = _authority(rest[:end], 80)
    path = rest[end:]
    return host, port, path if path.startswith(b"/") else b"/" + path


def _authority(text: bytes, default: int | None) -> tuple[str, int]:
    """Host and port. A literal address goes on in brackets or as it is: the host of the sandbox refuses it with a text."""
    if text.startswith(b"["):
        inside, bracket, rest = text[1:].partition(b"]")
        fit = bracket and inside and _LITERAL.issuperset(inside)
        host, colon, port = b"[" + inside + b"]", rest[:1], rest[1:]
        fit = fit and colon in (b"", b":")
    else:
        host, colon, port = text.partition(b":")
        fit = bool(host) and _HOST.issuperset(host) and not host.endswith(b"..")  # the host takes away a dot, too
    if not fit or len(host) > MAX_LENGTH:
        raise Unfit(400, "not a host")
    name = host.decode("ascii").lower()
    return name[:-1] if name.endswith(".") else name, _port(port) if colon else _default(default)


def _port(text: bytes) -> int:
    if not 1 <= len(text) <= 5 or not text.isdigit() or text.startswith(b"0") or int(text) > 65535:
        raise Unfit(400, "a port is a number from 1 to 65535")
    return int(text)


def _default(port: int | None) -> int:
    if port is None:
        raise Unfit(400, "CONNECT needs a port")
    return port


def _require_host(headers: Headers, host: str, port: int, default: int, version: bytes) -> None:
    """Exactly one Host, which is the target's; HTTP/1.0 may do without."""
    found = _values(headers, b"host")
    if len(found) > 1 or (not found and version == b"HTTP/1.1"):
        raise Unfit(400, "a request has one Host")
    for value in found:
        if _authority(value, default) != (host, port):
            raise Unfit(400, "Host is not the host that is asked for")


def _body(headers: Headers) -> int:
    """Bytes that follow the head."""
    if _values(headers, b"transfer-encoding"):
        if _values(headers, b"content-length"):
            raise Unfit(400, "Transfer-Encoding and Content-Length")
        raise Unfit(411, "this proxy needs a Content-Length; a CONNECT, or the name without a proxy, does not")
    lengths = _values(headers, b"content-length")
    if len(lengths) > 1 or not all(length.isdigit() and len(length) <= 18 for length in lengths):
        raise Unfit(400, "not a Content-Length")
    return int(lengths[0]) if lengths else 0


def _written(method: bytes, path: bytes, version: bytes, host: str, port: int, headers: Headers) -> bytes:
    named = {one.strip(b" \t").lower() for value in _values(headers, b"connection") for one in value.split(b",")}
    if named & _FRAMING:
        raise Unfit(400, "Connection names a header that must go on")
    dropped = _NEIGHBOURS | named
    place = host if port == 80 else f"{host}:{port}"
    lines = [method + b" " + path + b" " + version, b"Host: " + place.encode("ascii")]
    lines += [name + b": " + value for name, value in headers if name.lower() not in dropped]
    return b"\r\n".join([*lines, b"Connection: close"]) + END


def _values(headers: Headers, name: bytes) -> list[bytes]:
    return [value for known, value in headers if known.lower() == name]
