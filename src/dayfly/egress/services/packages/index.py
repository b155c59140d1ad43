"""The host's index: which servers it is, what credentials it takes, and how what it names is fetched.

Nothing that a sandbox says becomes a URL: it chooses among what the index has named.
"""

from __future__ import annotations

import asyncio
import re
from base64 import b64encode
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network
from typing import Literal, cast
from urllib.parse import SplitResult, quote, unquote, urljoin, urlsplit
from weakref import WeakKeyDictionary

from dayfly.egress.dialling import Unreachable
from dayfly.egress.http.messages import USUAL_PORTS, Body, Headers, Origin, Request, Response, Upstreams, closed
from dayfly.hosts import BadHost, canonical

__all__ = ["MOST_PAGE", "BadUrl", "Index", "NotThere", "joined", "turn"]

MOST_PAGE = 32 * 1024 * 1024
"""Bytes of a list of files, or of an npm package's document. The largest of both are some 20 MiB."""

PAGE_SECONDS = 60.0
"""For all of one."""

MOST_REDIRECTS = 5

MOST_AT_ONCE = 4
"""Pages that are read and made into others, of all sandboxes together: each may take some hundred MiB for a moment."""

LONGEST_URL = 4096
"""Characters. Signed ones of object stores have 1,500."""

_PATH = re.compile(r"/[!-~]*")


class BadUrl(Exception):
    """``str()`` says what is wrong, as a clause; nothing of the URL is in it."""


class NotThere(Exception):
    """The index says that there is no such thing."""


@dataclass(frozen=True)
class Index:
    """``base`` ends with a slash and has no credentials; those are ``authorization``, for that very origin only."""

    base: str
    origin: Origin
    authorization: str | None = field(default=None, repr=False)

    @classmethod
    def of(cls, url: str, private: IPv4Network | IPv6Network | None = None) -> Index:
        """``https://user:password@host/simple/``; ``https://:token@host/`` for a bearer. Raises ``BadUrl``."""
        parts = _split(url)
        origin = _origin(parts, private)
        authorization = None
        if parts.username or parts.password:
            user, password = unquote(parts.username or ""), unquote(parts.password or "")
            basic = "Basic " + b64encode(f"{user}:{password}".encode()).decode("ascii")
            authorization = basic if user else f"Bearer {password}"
            if not authorization.isprintable() or not authorization.isascii():
                raise BadUrl("its credentials have characters that no header may have")
        path = parts.path if parts.path.endswith("/") else parts.path + "/"
        host = origin.host if parts.port is None else f"{origin.host}:{parts.port}"
        return cls(f"{origin.scheme}://{host}{path}", origin, authorization)

    def below(self, *segments: str) -> str:
        """The URL of something of the index. A segment's slashes are escaped."""
        return self.base + "/".join(quote(one, safe="@") for one in segments)

    def destination(self, url: str) -> tuple[Origin, str, str]:
        """Of a URL that the index has named: where to, path, query. Raises ``BadUrl``."""
        parts = _split(url)
        private = self.origin.private if parts.hostname and parts.hostname.lower() == self.origin.host else None
        origin = _origin(parts, private)
        if origin.scheme == "http" and self.origin.scheme == "https":
            raise BadUrl("it is plain http, and the index is https")
        return origin, parts.path or "/", parts.query

    async def get(self, upstreams: Upstreams, url: str, accept: str = "*/*") -> tuple[str, Response]:
        """Where it was found after redirects, and what is there. Its body is the caller's. Raises ``Unreachable``, ``Refused``, ``NotThere``."""
        for _ in range(MOST_REDIRECTS + 1):
            try:
                origin, path, query = self.destination(url)
            except BadUrl as error:
                raise Unreachable(f"The package index names a place that is not fetched: {error}.") from None
            response = await upstreams.send(origin, Request("GET", path, query, self._headers(origin, accept)))
            location = response.header("location")
            if response.status not in (301, 302, 303, 307, 308) or location is None:
                return url, await _good(response)
            await closed(response.body)
            url = joined(url, location)
        raise Unreachable("The package index redirects without an end.")

    def _headers(self, origin: Origin, accept: str) -> Headers:
        found = [("accept", accept), ("accept-encoding", "identity"), ("user-agent", "dayfly")]
        if self.authorization is not None and _same(origin, self.origin):
            found.append(("authorization", self.authorization))
        return tuple(found)

    async def page(self, upstreams: Upstreams, url: str, accept: str) -> tuple[str, str, bytes]:
        """The URL that it was found at, its content type, and all of it. Raises as ``get`` does."""
        try:
            async with asyncio.timeout(PAGE_SECONDS):
                found, response = await self.get(upstreams, url, accept)
                return found, response.header("content-type") or "", await _whole(response.body)
        except TimeoutError:
            raise Unreachable(f"The package index did not answer within {PAGE_SECONDS:.0f} s.") from None
        except (EOFError, OSError):
            raise Unreachable("The package index broke off in the middle of its answer.") from None


_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()


def turn() -> asyncio.Semaphore:
    """To be held while a page is read and made into another one."""
    return _turns.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(MOST_AT_ONCE))


async def _good(response: Response) -> Response:
    encoded = response.header("content-encoding") or "identity"
    if response.status == 200 and encoded == "identity":
        return response
    await closed(response.body)
    if response.status in (404, 410):
        raise NotThere
    if response.status == 200:
        raise Unreachable("The package index sends something compressed that was not asked for.")
    raise Unreachable(f"The package index answered {response.status} to the machine that the sandbox is on.")


async def _whole(body: Body) -> bytes:
    found, size = [], 0
    try:
        async for piece in body:
            found.append(piece)
            size += len(piece)
            if size > MOST_PAGE:
                raise Unreachable(f"The package index answers with more than {MOST_PAGE} bytes.")
    finally:
        await closed(body)
    return b"".join(found)


def joined(base: str, url: str) -> str:
    """``""`` where it is none: urljoin would take line ends out of it."""
    try:
        return urljoin(base, url) if url.isprintable() else ""
    except ValueError:
        return ""


def _split(url: str) -> SplitResult:
    try:
        if len(url) > LONGEST_URL or not url.isascii() or not url.isprintable() or " " in url:
            raise ValueError
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise BadUrl("it is no URL") from None
    if not _PATH.fullmatch(parts.path or "/"):
        raise BadUrl("its path has characters that none may have")
    return parts


def _origin(parts: SplitResult, private: IPv4Network | IPv6Network | None) -> Origin:
    if parts.scheme not in ("https", "http"):
        raise BadUrl("it is neither https nor http")
    scheme = cast("Literal['https', 'http']", parts.scheme)
    try:
        host = canonical(parts.hostname or "")
    except BadHost:
        raise BadUrl("it names no host, or an address instead of one") from None
    return Origin(scheme, host, parts.port or USUAL_PORTS[scheme], private)


def _same(one: Origin, other: Origin) -> bool:
    return (one.scheme, one.host, one.port) == (other.scheme, other.host, other.port)
