"""What is looked at before anything else, the body included: names, pages, lengths, and who is asking. And what every answer
says to a browser that gets it.

A web page in a browser on this machine can reach loopback, also under a name of its own (DNS rebinding). So there the
Host header must be a name of loopback, and a request that says it comes from a page is refused.
"""

from __future__ import annotations

import re
from asyncio import get_running_loop
from time import perf_counter
from urllib.parse import urlsplit

from fastapi import HTTPException
from fastapi.requests import HTTPConnection

from dayfly.errors import DayflyError
from dayfly.limits import MIB
from dayfly.server.answers import Answer, error_answer
from dayfly.server.asgi import Asgi, Message, Receive, Scope, Send
from dayfly.server.auth import authenticate, remember
from dayfly.server.errors import (
    BodyTooLarge,
    HeadersTooLong,
    InternalError,
    RequestRefused,
    UriTooLong,
)
from dayfly.server.logs import log, log_request
from dayfly.server.revoked import Revocations
from dayfly.server.services import Services

__all__ = ["MAX_BODY", "Guard", "internal_error"]

MAX_PATH = 4096
"""Bytes of a request's path: a conversation's key of 256 characters, each of up to 12 bytes, and words around it."""

MAX_QUERY = 16 * 1024
"""Bytes: a path of PATH_MAX (4096) with every byte as %XX, and room for the rest."""

MAX_HEADERS = 16 * 1024
"""Bytes of all headers: a key has 83."""

MAX_BODY = 8 * MIB
"""Bytes of a JSON body: one frame of the wire (1 MiB) of code, even if every character of it needs an escape."""

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})

OPEN = frozenset({"/healthz", "/readyz", "/metrics", "/v1/openapi.json"})
"""Paths that want no key, or ask for it themselves."""

HEADERS = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; sandbox"),
    (b"x-content-type-options", b"nosniff"),
)
"""What comes out of a sandbox is hostile, also to a browser that somebody points here."""

CLOSING = ((b"connection", b"close"),)
"""Whoever is refused by what his request is (RFC 9112, 6.3: also by two lengths) is not listened to any further: what comes behind it
might be a part of it to others on the way."""


class Guard:
    """Around the whole application."""

    def __init__(self, app: Asgi, services: Services) -> None:
        self._app = app
        self._services = services
        self._revocations = Revocations(lambda key: services.keys.holds(key))  # tests of this alone have no keys
        configuration = services.configuration
        self._origins = configuration.origins
        local = configuration.is_loopback and not configuration.behind_proxy
        named = configuration.hosts | (LOOPBACK_NAMES | {configuration.host} if local else frozenset())
        self._hosts = named if local or configuration.hosts else None  # None: any

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            return
        watched, begun = _Watched(send), perf_counter()
        key: str | None = None
        try:
            self._check(scope)
            if scope["path"] not in OPEN:
                caller = authenticate(HTTPConnection(scope), self._services)
                remember(scope, caller)
                key = caller.key
        except DayflyError as error:
            watched.last = isinstance(error, RequestRefused)
            await error_answer(error)(scope, receive, watched)
        else:
            await self._passed(scope, receive if _is_upload(scope) else _limited(receive), watched, key)
        # The answer leaves with the next turn of the loop, and this comes after that: it wakes who writes the log.
        get_running_loop().call_soon(log_request, scope, watched.status, perf_counter() - begun)

    async def _passed(self, scope: Scope, receive: Receive, send: Send, key: str | None) -> None:
        if key is None:  # open to all, and never long
            return await self._guarded(scope, receive, send)
        with self._revocations.watched(scope, receive, key) as revocable:
            return await self._guarded(scope, revocable, send)

    async def _guarded(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._app(scope, receive, send)
        except Exception as error:  # noqa: BLE001 - ours; it has been answered, and the log gets no values, only where
            at = error.__traceback__
            while at is not None and at.tb_next is not None:
                at = at.tb_next
            place = f"{at.tb_frame.f_code.co_filename}:{at.tb_lineno}" if at else "nowhere"
            log.error("internal error", extra={"facts": {"error": type(error).__name__, "place": place}})

    def _check(self, scope: Scope) -> None:
        """Raises the ``DayflyError`` to answer with."""
        if len(scope.get("raw_path") or b"") > MAX_PATH or len(scope["query_string"]) > MAX_QUERY:
            raise UriTooLong("the path or the query is too long", remedy="put large content into the body")
        if sum(len(name) + len(value) for name, value in scope["headers"]) > MAX_HEADERS:
            raise HeadersTooLong("the headers are too long", remedy="send none that this API does not know")
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        if not _is_upload(scope) and _length(headers.get(b"content-length", "0")) > MAX_BODY:
            raise BodyTooLarge(f"the body has more than {MAX_BODY} bytes", remedy="upload large content as a file")
        if b"content-length" in headers and b"transfer-encoding" in headers:
            raise RequestRefused(
                "the body has two lengths", remedy="send Content-Length or Transfer-Encoding, not both"
            )
        self._check_host(headers.get(b"host", ""))
        self._check_page(headers.get(b"origin"), headers.get(b"sec-fetch-site", "none"))

    def _check_host(self, host: str) -> None:
        if self._hosts is not None and _host(host) not in self._hosts:
            raise RequestRefused(
                f"this server is not called {host!a:.80}",
                remedy="call it by its address, or add the name to hosts in its configuration",
            )

    def _check_page(self, origin: str | None, site: str) -> None:
        if origin is not None and origin not in self._origins:
            raise RequestRefused(
                f"a web page may not call this server: {origin!a:.80}",
                remedy="add the page to origins in the server's configuration",
            )
        if origin is None and site not in ("none", "same-origin"):
            raise RequestRefused("a web page may not call this server", remedy="call it from a program")


def _host(header: str) -> str | None:
    """The name without the port."""
    try:
        return urlsplit(f"//{header}").hostname
    except ValueError:
        return None


_UPLOADS = {
    "PUT": re.compile(r"/v1/sandboxes/[^/]+/(files|tree)"),
    "POST": re.compile(r"/v1/sandboxes/[^/]+/processes/[0-9]+/stdin"),
}
"""The routes that stream their body: no other is read without a cap, also not one whose last part is a name of the caller's."""


def _is_upload(scope: Scope) -> bool:
    """Whether the body is content, which is streamed, and which the sandbox's own limits bound."""
    if scope["type"] != "http":
        return False
    uploads = _UPLOADS.get(scope["method"])
    return uploads is not None and uploads.fullmatch(scope["path"]) is not None


def _length(header: str) -> int:
    return int(header) if header.isdecimal() else 0  # h11 has refused what is no number


def _limited(receive: Receive) -> Receive:
    """Whatever length was announced, if any was."""
    size = 0

    async def wrapped() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > MAX_BODY:
            raise HTTPException(413)
        return message

    return wrapped


class _Watched:
    """Adds what every answer says, and knows how it went; 0 if there was none. ``last``: of its connection."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = 0
        self.last = False

    async def __call__(self, message: Message) -> None:
        if message["type"] in ("http.response.start", "websocket.http.response.start"):
            self.status = message["status"]
            message["headers"] = [*message.get("headers", ()), *HEADERS, *(CLOSING if self.last else ())]
        elif message["type"] == "websocket.accept":
            self.status = 101
        await self._send(message)


def internal_error(_request: object, _error: Exception) -> Answer:
    """The answer to whatever should not have happened."""
    return error_answer(InternalError("internal error", remedy="try again; the server's log says where it was"))
