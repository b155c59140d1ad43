"""Nouns: what a sandbox asks, what it is answered, and who serves that.

``egress.http.serving`` reads requests and writes responses; a ``Service`` stands between it and the servers outside. Nothing of a request
goes on that is not in these values.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network
from typing import Literal, Protocol

from dayfly.egress.verdict import Denied

__all__ = [
    "USUAL_PORTS",
    "Body",
    "Headers",
    "Origin",
    "Refused",
    "Request",
    "Response",
    "Service",
    "Upstreams",
    "closed",
    "nothing",
    "once",
]

Headers = tuple[tuple[str, str], ...]
"""Names in lower case, values as Latin-1, in their order. Nothing of how a message is carried is among them: no Host, Connection,
Content-Length, Transfer-Encoding, nor what Connection names."""

USUAL_PORTS = {"https": 443, "http": 80}

Body = AsyncIterator[bytes]
"""Pieces of any size but zero. Read once."""


async def nothing() -> Body:
    """No body."""
    if False:
        yield b""


async def once(*pieces: bytes) -> Body:
    for piece in pieces:
        if piece:
            yield piece


async def closed(body: Body) -> None:
    """Nobody takes the rest. An iterator that is no generator has nothing to close."""
    close = getattr(body, "aclose", None)
    if close is not None:
        await close()


@dataclass(frozen=True)
class Request:
    """``path`` is canonical (``dayfly.urls``) unless the service wants raw ones, ``query`` as it came, without its question mark.
    ``length`` of the body in bytes; ``None``: it is in chunks."""

    method: str
    path: str
    query: str = field(default="", repr=False)  # a secret may be in it, and in a header
    headers: Headers = field(default=(), repr=False)
    body: Body = field(default_factory=nothing)
    length: int | None = 0

    def header(self, name: str) -> str | None:
        """The first of that name, which is given in lower case."""
        return next((value for key, value in self.headers if key == name), None)


@dataclass(frozen=True)
class Response:
    """``rule``: the index of the one that allowed the request; ``secret``: the name of the one that was used for it. ``reason``: the
    phrase after the status, printable ASCII; ``""``: the usual one. It is what some clients show of a refusal."""

    status: int
    headers: Headers = field(default=(), repr=False)  # a server may have sent the secret back
    body: Body = field(default_factory=nothing)
    length: int | None = 0
    rule: int | None = None
    secret: str | None = None
    reason: str = ""

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key == name), None)


@dataclass(frozen=True)
class Origin:
    """Where a request goes: ``host`` in canonical form, which is resolved, judged by the floor, dialled, and for https verified."""

    scheme: Literal["https", "http"]
    host: str
    port: int
    private: IPv4Network | IPv6Network | None = None

    @property
    def authority(self) -> str:
        """As a Host header has it: without the port that its scheme has anyway."""
        return self.host if self.port == USUAL_PORTS[self.scheme] else f"{self.host}:{self.port}"


class Refused(Exception):
    """What was asked for is denied. The sandbox gets ``Service.refusal``."""

    def __init__(self, denied: Denied) -> None:
        super().__init__(denied.code)
        self.denied = denied


class Upstreams(Protocol):
    async def send(self, origin: Origin, request: Request) -> Response:
        """Its head is there when this returns; its body is read from the server as somebody takes it, and is to be read to its end or
        closed with ``aclose`` before the next ``send``. Raises ``Refused``, and ``Unreachable`` of ``egress.dialling``."""
        ...


class Service(Protocol):
    """Of one connection of a sandbox, one request after another."""

    raw_paths: bool
    """Whether paths are to come as they were written: printable ASCII that begins with ``/``. It has a spelling of its own then."""

    async def answer(self, request: Request, upstreams: Upstreams) -> Response:
        """Raises ``Refused``, ``Unreachable``, and ``EOFError`` or ``OSError`` where the sandbox's body breaks off."""
        ...

    def refusal(self, denied: Denied, status: int) -> Response:
        """How ``denied`` is said to clients of this service. ``status``: 403, or what fits better (429, 400)."""
        ...
