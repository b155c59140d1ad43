"""Requests to one server: the key goes along, answers are bounded, and what aiohttp raises becomes dayfly's own errors.

No redirect is followed: the key is for the URL that the caller named, and for nobody else.
"""

from __future__ import annotations

import asyncio
import json
import os
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from dayfly.client.remote.address import URL, Address
from dayfly.client.remote.ahead import Ahead
from dayfly.client.remote.failures import BadAnswer, ServerUnreachable, failure, foreign_failure
from dayfly.client.remote.values import Fields, load
from dayfly.errors import DayflyError, HostError, InputError

if TYPE_CHECKING:
    import ssl

    import aiohttp

__all__ = ["ANSWER_SECONDS", "SILENCE_SECONDS", "Answer", "Http"]

T = TypeVar("T")

CONNECT_SECONDS = 10.0
"""To reach the server, by name and through a proxy. Over the widest network a connection takes less than a second."""

SILENCE_SECONDS = 60.0
"""Without a byte from a stream. A server with nothing to say sends an empty line several times in this time."""

ANSWER_SECONDS = 180.0
"""For an answer that comes at once or not: the longest wait is in the queue for a new sandbox."""

IDLE_CONNECTION_SECONDS = 4.0
"""That an unused connection is kept: less than the five of the usual Python server, so that none is used while it closes it."""

MAX_ANSWER = 64 * 1024 * 1024
"""Bytes of an answer that is read whole. A page of 1,000 files with the longest names is 50 MB of JSON."""

MAX_ERROR = 64 * 1024
"""Bytes of an answer that is an error: its longest parts are a message, a remedy and a path, of some thousand characters each."""

SEND_PIECE = 256 * 1024
"""Bytes of content that are sent at a time: a network that takes one of these in time is slow, but not silent."""

Query = Mapping[str, str | bytes | int | bool | None]


class Answer:
    """An answer whose body has not been read, and which says nothing for ``silence`` seconds at most. Close it; with
    ``aclosing``, for example."""

    def __init__(
        self, response: aiohttp.ClientResponse, url: str, silence: float, source: _Source | None = None
    ) -> None:
        self._response = response
        self._url = url
        self._silence = silence
        self._source = source
        self.status = response.status

    def header(self, name: str) -> str | None:
        value: str | None = self._response.headers.get(name)
        return value

    @property
    def read(self) -> bool:
        """Whether the whole body has been."""
        return self._response.content.at_eof()

    async def piece(self) -> bytes:
        """More of the body; empty at its end. Raises ``ServerUnreachable`` if it breaks off."""
        return await translated(self._url, self._piece())

    async def _piece(self) -> bytes:
        """aiohttp's own time limit ends with a malformed piece, of which whoever reads hears nothing."""
        async with asyncio.timeout(self._silence):
            return await self._response.content.readany()

    async def pieces(self) -> AsyncIterator[bytes]:
        """The body as it comes; raises like ``piece``."""
        while piece := await self.piece():
            yield piece

    async def whole(self, cap: int) -> bytes:
        """The body. Raises ``BadAnswer`` if it has more than ``cap`` bytes."""
        found = bytearray()
        while piece := await self.piece():
            found += piece
            if len(found) > cap:
                raise BadAnswer(f"the server's answer has more than {cap} bytes")
        return bytes(found)

    async def aclose(self) -> None:
        """Idempotent. Before the end of the body it tells the server that nobody listens any more; what was still to be sent is
        given up."""
        self._response.close()
        if self._source is not None:
            await self._source.leave()


class Http:
    """One server. Used on one event loop; closed with ``close``."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.tls = _tls(address)
        self._proxy = proxy_for(address)
        self._made: aiohttp.ClientSession | None = None
        self._answers: weakref.WeakSet[Answer] = weakref.WeakSet()  # that somebody may still read
        self._closed = False

    async def ask(self, method: str, path: str, **how: Any) -> Fields:
        """One request with a short answer; ``how`` is that of ``send``. Raises the error that the server names."""
        async with aclosing(await self.send(method, path, seconds=ANSWER_SECONDS, **how)) as answer:
            data = await answer.whole(MAX_ANSWER)
        return Fields(load(data) if data else {}, "the server's answer")

    async def send(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: Mapping[str, object] | None = None,  # sent as JSON
        content: AsyncIterator[bytes] | bytes | None = None,
        headers: Mapping[str, str] | None = None,
        seconds: float = SILENCE_SECONDS,  # that may pass without a byte in either direction
    ) -> Answer:
        """One request; returns when the answer begins. Raises ``ServerUnreachable``, ``BadAnswer`` or what the server names."""
        source = None if content is None else _Source(_in_pieces(content) if isinstance(content, bytes) else content)
        data = _json(body) if body is not None else None
        kind = {"content-type": "application/json"} if body is not None else {}
        url, named = self.address.to(path, query), {**(headers or {}), **kind}
        try:
            if source is not None:
                await source.begin()
            response = await translated(self.address.url, self._asked(method, url, data, source, named, seconds))
            answer = Answer(response, self.address.url, seconds, source)
            self._answers.add(answer)
            if answer.status >= 300:
                raise await self._refusal(answer)
        except BaseException as error:
            if source is not None:
                await source.leave()
                if source.error is not None and isinstance(error, DayflyError):
                    raise source.error from None  # what was to be sent could not be read: the caller's own error
            raise
        return answer

    async def _asked(
        self,
        method: str,
        url: str,
        data: bytes | None,
        source: _Source | None,
        headers: Mapping[str, str],
        seconds: float,
    ) -> aiohttp.ClientResponse:
        """The key goes with the request, and not with the session, which would show it to a proxy."""
        import aiohttp
        import yarl

        async with asyncio.timeout(CONNECT_SECONDS + seconds) as patience:
            return await self._session().request(
                method,
                yarl.URL(url, encoded=True),
                data=data if source is None else source.chunks(patience, seconds),
                headers={**headers, "authorization": f"Bearer {self.address.key}"},
                timeout=aiohttp.ClientTimeout(total=None, connect=CONNECT_SECONDS),
                allow_redirects=False,
                proxy=self._proxy,
            )

    async def _refusal(self, answer: Answer) -> DayflyError:
        async with aclosing(answer):
            body = await answer.whole(MAX_ERROR)
        return refusal(answer.status, body, answer.header, self.address.url)

    async def close(self) -> None:
        """Close every connection. Idempotent."""
        self._closed = True
        for answer in list(self._answers):  # a session alone would leave whoever reads one waiting for ever
            await answer.aclose()
        made, self._made = self._made, None
        if made is not None:
            await made.close()

    def _session(self) -> aiohttp.ClientSession:
        """Made on the loop that uses it. Raises ``ServerUnreachable`` after ``close``."""
        if self._closed:
            raise ServerUnreachable("this client is closed", remedy="make another one")
        if self._made is None:
            self._made = _session(self.tls)
        return self._made


class _Source:
    """Content that is sent, and the error that its source raised, if it did. Read in tasks of its own: it can be left at any
    moment, whoever sends it."""

    def __init__(self, source: AsyncIterator[bytes]) -> None:
        self._source = Ahead(source)
        self._first: bytes | None = None
        self.error: Exception | None = None

    async def begin(self) -> None:
        """Before anything is asked: a connection is not to look idle while the first piece is made. Raises what the source does."""
        self._first = await self._read()

    async def chunks(self, patience: asyncio.Timeout, seconds: float) -> AsyncIterator[bytes]:
        """As long as one is taken every so many seconds, ``patience`` lasts. The time that the source takes is its own."""
        chunk = self._first
        while chunk is not None:
            _reschedule(patience, seconds)
            yield chunk
            _reschedule(patience, None)
            chunk = await self._read()
        _reschedule(patience, seconds)

    async def _read(self) -> bytes | None:
        try:
            return await self._source.next()
        except Exception as error:
            self.error = error
            raise

    async def leave(self) -> None:
        """Read no more; the source is closed when this returns. Idempotent."""
        await self._source.close()


def _reschedule(patience: asyncio.Timeout, seconds: float | None) -> None:
    with suppress(RuntimeError):  # the answer has begun before all was sent
        patience.reschedule(None if seconds is None else asyncio.get_running_loop().time() + seconds)


async def _in_pieces(content: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(content), SEND_PIECE):
        yield content[start : start + SEND_PIECE]


async def translated(url: str, asking: Awaitable[T]) -> T:
    """aiohttp's errors become ``ServerUnreachable``, without a trace of themselves: some of them show the key."""
    import aiohttp

    try:
        return await asking
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
        problem = ServerUnreachable(
            f"no server answers at {url}: {_reason(error)}",
            remedy=f"is `dayfly serve` running there? The address is that of url= or {URL}",
        )
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        problem = ServerUnreachable(
            f"the connection to {url} was lost: {_reason(error)}",
            remedy="try again; a sandbox that still lives is found again with Sandbox.connect(id)",
        )
    raise problem  # here, where the other one is not its context any more


def refusal(status: int, body: bytes, header: Callable[[str], str | None], url: str) -> DayflyError:
    """The error that an answer of this status is, whatever the request was: in the server's words, if it has dayfly's."""
    if 300 <= status < 400:
        return BadAnswer(
            f"{url} answers with a redirect, which is not followed, to {header('location')!a:.200}",
            remedy="give that address as url=, if it is yours",
        )
    return failure(_object(body), status, header("retry-after")) or foreign_failure(status, url)


def _reason(error: Exception) -> str:
    """Nothing of the request, which has the key, nor of a proxy's address, which may have a password."""
    import aiohttp

    if isinstance(error, aiohttp.ClientConnectorError) and error.os_error.strerror:
        told = _cause(error.os_error)
    elif isinstance(error, aiohttp.ClientResponseError):
        told = f"{error.status} {error.message}"
    else:
        told = "" if isinstance(error, aiohttp.InvalidURL) else str(error)
    first, *_ = told.splitlines() or [type(error).__name__]
    return first[:200]


def _cause(error: OSError) -> str:
    """In the system's words where it has some: asyncio's have the address once more."""
    return os.strerror(error.errno) if isinstance(error, ConnectionError) and error.errno else str(error.strerror)


def _tls(address: Address) -> ssl.SSLContext | None:
    try:
        import aiohttp  # noqa: F401 - loaded here, where it can be said that it is missing
    except ImportError as error:
        raise HostError(
            "a sandbox over a URL needs aiohttp, which is not installed", remedy="pip install 'dayfly[client]'"
        ) from error
    import ssl

    return None if address.is_plain else ssl.create_default_context()


def proxy_for(address: Address) -> str | None:
    """The environment's proxy. Without TLS none is used: it would see the key. Raises ``InputError`` for one that is no
    HTTP proxy."""
    parts = urlsplit(address.url)
    if address.is_plain or proxy_bypass(parts.netloc):
        return None
    proxies = getproxies()
    proxy = proxies.get("https") or proxies.get("all")
    if proxy is None or proxy.startswith(("http://", "https://")):
        return proxy
    if "://" in proxy:
        raise InputError(
            f"the environment's proxy for {parts.hostname} is no HTTP proxy", remedy="set no_proxy, or HTTPS_PROXY"
        )
    return f"http://{proxy}"


def _session(tls: ssl.SSLContext | None) -> aiohttp.ClientSession:
    import aiohttp

    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=IDLE_CONNECTION_SECONDS, ssl=tls or True),
        headers={"accept-encoding": "identity"},
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        trust_env=False,
    )
    session._retry_connection = False  # it would ask twice what may have been done once; there is no other switch
    return session


def _json(body: Mapping[str, object]) -> bytes:
    try:
        return json.dumps(body, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"an argument cannot be sent as JSON: {error!s:.200}") from None


def _object(data: bytes) -> object:
    try:
        return load(data)
    except BadAnswer:
        return None
