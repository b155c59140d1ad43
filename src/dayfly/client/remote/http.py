"""Requests to one server: the key goes along, answers are bounded, and what aiohttp raises becomes dayfly's own errors.

No redirect is followed: the key is for the URL that the caller named, and for nobody else.
"""

from __future__ import annotations

import json
import weakref
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import aclosing, contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from dayfly.client.remote.address import URL, Address
from dayfly.client.remote.failures import BadAnswer, ServerUnreachable, failure, foreign_failure
from dayfly.client.remote.values import Fields, load
from dayfly.errors import DayflyError, HostError, InputError

if TYPE_CHECKING:
    import ssl

    import aiohttp

__all__ = ["ANSWER_SECONDS", "SILENCE_SECONDS", "Answer", "Http"]

CONNECT_SECONDS = 10.0
"""To reach the server. Over the widest network a connection takes less than a second."""

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

READ_SIZE = 256 * 1024
"""Bytes of a body that wait to be taken; then the server is held up."""

Query = Mapping[str, str | bytes | int | bool | None]


class Answer:
    """An answer whose body has not been read. Close it; with ``aclosing``, for example."""

    def __init__(self, response: aiohttp.ClientResponse, url: str) -> None:
        self._response = response
        self._url = url
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
        with translated(self._url):
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
        """Idempotent. Before the end of the body it tells the server that nobody listens any more."""
        self._response.close()


class Http:
    """One server. Used on one event loop; closed with ``close``."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.tls = _tls(address)
        self._proxy = _proxy(address)
        self._made: aiohttp.ClientSession | None = None
        self._answers: weakref.WeakSet[Answer] = weakref.WeakSet()  # that somebody may still read

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
        seconds: float = SILENCE_SECONDS,  # that may pass without a byte
    ) -> Answer:
        """One request; returns when the answer begins. Raises ``ServerUnreachable``, ``BadAnswer`` or what the server names."""
        import aiohttp
        import yarl

        source = _Source(content) if content is not None and not isinstance(content, bytes) else None
        asking = self._session().request(
            method,
            yarl.URL(self.address.to(path, query), encoded=True),
            data=source.chunks() if source is not None else content if body is None else _json(body),
            headers={**(headers or {}), **({"content-type": "application/json"} if body is not None else {})},
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=seconds),
            allow_redirects=False,
            proxy=self._proxy,
        )
        try:
            with translated(self.address.url):
                answer = Answer(await asking, self.address.url)
        except DayflyError:
            if source is not None and source.error is not None:
                raise source.error from None  # what was to be sent could not be read: the caller's own error
            raise
        self._answers.add(answer)
        if answer.status >= 300:
            raise await self._refusal(answer)
        return answer

    async def _refusal(self, answer: Answer) -> DayflyError:
        async with aclosing(answer):
            body = await answer.whole(MAX_ERROR)
        return refusal(answer.status, body, answer.header, self.address.url)

    async def close(self) -> None:
        """Close every connection. Idempotent."""
        for answer in list(self._answers):  # a session alone would leave whoever reads one waiting for ever
            await answer.aclose()
        made, self._made = self._made, None
        if made is not None:
            await made.close()

    def _session(self) -> aiohttp.ClientSession:
        """Made on the loop that uses it."""
        if self._made is None:
            self._made = _session(self.address, self.tls)
        return self._made


class _Source:
    """Content that is sent, and the error that its source raised, if it did."""

    def __init__(self, chunks: AsyncIterator[bytes]) -> None:
        self._chunks = chunks
        self.error: Exception | None = None

    async def chunks(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._chunks:
                yield chunk
        except Exception as error:
            self.error = error
            raise


@contextmanager
def translated(url: str) -> Iterator[None]:
    """aiohttp's errors become ``ServerUnreachable``, without a trace of themselves: some of them show the key."""
    import aiohttp

    try:
        yield
        return
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
    raise problem


def refusal(status: int, body: bytes, header: Callable[[str], str | None], url: str) -> DayflyError:
    """The error that an answer of this status is, whatever the request was: in the server's words, if it has dayfly's."""
    if 300 <= status < 400:
        return BadAnswer(
            f"{url} answers with a redirect, which is not followed, to {header('location')!a:.200}",
            remedy="give that address as url=, if it is yours",
        )
    return failure(_object(body), status, header("retry-after")) or foreign_failure(status, url)


def _reason(error: Exception) -> str:
    first, *_ = str(error).splitlines() or [type(error).__name__]
    return first[:200]


def _tls(address: Address) -> ssl.SSLContext | None:
    try:
        import aiohttp  # noqa: F401 - loaded here, where it can be said that it is missing
    except ImportError as error:
        raise HostError(
            "a sandbox over a URL needs aiohttp, which is not installed", remedy="pip install 'dayfly[client]'"
        ) from error
    import ssl

    return None if address.is_plain else ssl.create_default_context()


def _proxy(address: Address) -> str | None:
    """Without TLS no proxy of the environment is used: it would see the key."""
    if address.is_plain or proxy_bypass(urlsplit(address.url).hostname or ""):
        return None
    proxies = getproxies()
    return proxies.get("https") or proxies.get("all")


def _session(address: Address, tls: ssl.SSLContext | None) -> aiohttp.ClientSession:
    import aiohttp

    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=IDLE_CONNECTION_SECONDS, ssl=tls or True),
        headers={"authorization": f"Bearer {address.key}", "accept-encoding": "identity"},
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        read_bufsize=READ_SIZE,
        trust_env=False,
    )


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
