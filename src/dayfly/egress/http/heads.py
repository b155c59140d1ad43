"""Heads of requests: what is none, or could be two different ones, is refused; what is left is rebuilt from these values alone.

h11 parses; what it repairs quietly (a line that goes on in the next one, a bare line feed) is looked for before.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import h11

from dayfly.egress.http.messages import Headers
from dayfly.egress.verdict import Allowed
from dayfly.hosts import BadHost, canonical
from dayfly.urls import LONGEST_PATH, BadPath, canonical_path

__all__ = [
    "MOST_HEAD",
    "MOST_HEADERS",
    "BadHead",
    "Target",
    "WrongHost",
    "checked",
    "end_of_head",
    "end_to_end",
    "names",
    "one_spelling",
    "target_of",
]

MOST_HEAD = 32 * 1024
"""Bytes of a request's or response's head. Servers take 8 to 16 KiB."""

MOST_HEADERS = 200

Target = tuple[str, str]
"""The path and the query, as they came."""

_END = b"\r\n\r\n"
_BARE = re.compile(rb"(?<!\r)\n|\r(?!\n)")
_FOLDED = re.compile(rb"\r\n[ \t]")
_AUTHORITY = re.compile(r"(?P<host>[^:@/]{1,255})(?::(?P<port>[0-9]{1,5}))?")
_ABSOLUTE = re.compile(r"(?i:https?)://(?P<authority>[^/?#]*)(?P<rest>(?:[/?].*)?)", re.DOTALL)
_QUERY = re.compile(r"[!-\"$-~]*")  # printable ASCII, as servers take it, but no '#'

_OF_ONE_HOP = frozenset(
    {
        "connection", "keep-alive", "proxy-connection", "proxy-authorization", "proxy-authenticate", "te", "trailer",
        "transfer-encoding", "upgrade", "content-length", "host", "expect", "http2-settings",
    }
)  # fmt: skip
"""RFC 9110, 7.6.1, and what says how a body is carried: that is said anew."""


class BadHead(Exception):
    """``str()`` says what is wrong, as a phrase whose subject is the request."""


class WrongHost(Exception):
    """It is for another host than the connection is to. ``str()`` is what it names, in ASCII."""


def end_of_head(data: bytes | bytearray, seen: int = 0) -> int | None:
    """Where the body begins; ``None`` while there is no end yet. ``seen``: bytes that were looked at before, since a look at all of them
    for each new one would be the cheapest way to keep a gateway busy. Raises ``BadHead``."""
    begin = max(0, seen - len(_END) + 1)
    end = data.find(_END, begin)
    size = len(data) if end < 0 else end + len(_END)
    if size > MOST_HEAD:
        raise BadHead(f"has a head of more than {MOST_HEAD} bytes")
    if _BARE.search(data, begin, size - data.endswith(b"\r", 0, size)):  # of the last line the feed may still come
        raise BadHead("has a line that does not end with CR LF")
    if _FOLDED.search(data, begin, size):
        raise BadHead("has a header that goes on in the next line")
    return None if end < 0 else size


def checked(request: h11.Request) -> None:
    """Raises ``BadHead`` for what servers read in more than one way, and for what is not served here."""
    names = [name for name, _ in request.headers]
    if len(names) > MOST_HEADERS:
        raise BadHead(f"has more than {MOST_HEADERS} headers")
    if b"content-length" in names and b"transfer-encoding" in names:
        raise BadHead("has both a Content-Length and a Transfer-Encoding")
    for single in (b"content-length", b"transfer-encoding", b"host"):
        if names.count(single) > 1:
            raise BadHead(f"has two headers {single.decode()}")
    if request.http_version not in (b"1.0", b"1.1"):
        raise BadHead("is not HTTP/1.1")
    if request.method == b"CONNECT":
        raise BadHead("wants a tunnel, which a rule with methods, paths or inject does not give")
    if b"websocket" in dict(request.headers).get(b"upgrade", b"").lower():
        raise BadHead(
            "wants a WebSocket, which nobody can look into; a rule without methods, paths and inject passes it"
        )


def target_of(request: h11.Request, allowed: Allowed) -> Target:
    """What is asked for on the host of the connection, which every name in the request must be. Raises ``BadHead``, ``WrongHost``."""
    target = request.target.decode("latin-1")
    hosts = [value.decode("latin-1") for name, value in request.headers if name == b"host"]
    absolute = _ABSOLUTE.fullmatch(target)
    if absolute:
        hosts.append(absolute["authority"])
        target = absolute["rest"]
        if not target.startswith("/"):
            target = "/" + target
    if not hosts:
        raise BadHead("names no host")
    for host in hosts:
        if not names(host, allowed):
            raise WrongHost(ascii(host[:100]))
    if target == "*":
        raise BadHead("is for the server as a whole (OPTIONS *), which is no path")
    path, mark, query = target.partition("?")
    return path, _query(query) if mark else ""


def _query(query: str) -> str:
    if len(query) > LONGEST_PATH or not _QUERY.fullmatch(query):
        raise BadHead("has a query that is too long, or has a character that must be escaped in one")
    return query


def names(authority: str, allowed: Allowed) -> bool:
    """Whether a Host header, or the same part of a URL, is for the host and port of the connection."""
    match = _AUTHORITY.fullmatch(authority)
    try:
        return (
            match is not None
            and canonical(match["host"]) == allowed.host
            and int(match["port"] or allowed.port) == allowed.port
        )
    except BadHost:
        return False


def one_spelling(path: str) -> str:
    """Raises ``BadHead``."""
    try:
        return canonical_path(path)
    except BadPath as error:
        raise BadHead(f"has a path that {error}") from None


def end_to_end(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Those that are not about one hop, with names in lower case."""
    found = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in headers]
    named = {one.strip().lower() for name, value in found if name == "connection" for one in value.split(",")}
    return tuple((name, value) for name, value in found if _dashed(name) not in _OF_ONE_HOP and name not in named)


def _dashed(name: str) -> str:
    """As servers know it that make ``_`` of ``-`` for programs: ``content_length`` would be a second length to those."""
    return name.replace("_", "-")
