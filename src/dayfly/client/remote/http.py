"""Requests to one server: the key goes along, answers are bounded, and what httpx raises becomes dayfly's own errors.

No redirect is followed: the key is for the URL that the caller named, and for nobody else.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import aclosing, contextmanager
from typing import TYPE_CHECKING, Any

from dayfly.client.remote.address import URL, Address
from dayfly.client.remote.failures import BadAnswer, ServerUnreachable, failure, foreign_failure
from dayfly.client.remote.values import Fields, load
from dayfly.client.streams import closing
from dayfly.errors import DayflyError, HostError, InputError

if TYPE_CHECKING:
    import ssl

    import httpx

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

Query = Mapping[str, str | bytes | int | bool | None]


class Answer:
    """An answer whose body has not been read. Close it; with ``aclosing``, for example."""

    def __init__(self, response: httpx.Response, url: str) -> None:
        self._response = response
        self._url = url
        self.status = response.status_code

    def header(self, name: str) -> str | None:
        value: str | None = self._response.headers.get(name)
        return value

    async def pieces(self) -> AsyncIterator[bytes]:
        """The body as it comes. Raises ``ServerUnreachable`` if it breaks off."""
        async with closing(self._response.aiter_raw()) as source:
            while True:
                with translated(self._url):
                    piece = await anext(source, None)
                if piece is None:
                    return
                yield piece

    async def whole(self, cap: int) -> bytes:
        """The body. Raises ``BadAnswer`` if it has more than ``cap`` bytes."""
        found = bytearray()
        async with closing(self.pieces()) as pieces:
            async for piece in pieces:
                found += piece
                if len(found) > cap:
                    raise BadAnswer(f"the server's answer has more than {cap} bytes")
        return bytes(found)

    async def aclose(self) -> None:
        """Idempotent. Before the end of the body it tells the server that nobody listens any more."""
        with translated(self._url):
            await self._response.aclose()


class Http:
    """One server. Used on one event loop; closed with ``close``."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.tls = _tls(address)
        self._client = _client(address, self.tls)

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
        import httpx

        source = _Source(content) if content is not None and not isinstance(content, bytes) else None
        request = self._client.build_request(
            method,
            self.address.to(path, query),
            content=source if source is not None else content if body is None else _json(body),
            headers={**(headers or {}), **({"content-type": "application/json"} if body is not None else {})},
            timeout=httpx.Timeout(seconds, connect=CONNECT_SECONDS, pool=None),
        )
        try:
            with translated(self.address.url):
                answer = Answer(await self._client.send(request, stream=True), self.address.url)
        except DayflyError:
            if source is not None and source.error is not None:
                raise source.error from None  # what was to be sent could not be read: the caller's own error
            raise
        if answer.status >= 300:
            raise await self._refusal(answer)
        return answer

    async def _refusal(self, answer: Answer) -> DayflyError:
        async with aclosing(answer):
            body = await answer.whole(MAX_ERROR)
        return refusal(answer.status, body, answer.header, self.address.url)

    async def close(self) -> None:
        """Close every connection. Idempotent."""
        await self._client.aclose()


class _Source:
    """Content that is sent, and the error that its source raised, if it did."""

    def __init__(self, chunks: AsyncIterator[bytes]) -> None:
        self._chunks = chunks
        self.error: Exception | None = None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._chunks:
                yield chunk
        except Exception as error:
            self.error = error
            raise


@contextmanager
def translated(url: str) -> Iterator[None]:
    """httpx's errors become ``ServerUnreachable``."""
    import httpx

    try:
        yield
    except (httpx.ConnectError, httpx.ConnectTimeout) as error:
        raise ServerUnreachable(
            f"no server answers at {url}: {_reason(error)}",
            remedy=f"is `dayfly serve` running there? The address is that of url= or {URL}",
        ) from error
    except (httpx.TransportError, httpx.InvalidURL) as error:
        raise ServerUnreachable(
            f"the connection to {url} was lost: {_reason(error)}",
            remedy="try again; a sandbox that still lives is found again with Sandbox.connect(id)",
        ) from error


def refusal(status: int, body: bytes, header: Callable[[str], str | None], url: str) -> DayflyError:
    """The error that an answer of this status is, whatever the request was: in the server's words, if it has dayfly's."""
    if 300 <= status < 400:
        return BadAnswer(
            f"{url} answers with a redirect, which is not followed, to {header('location')!a:.200}",
            remedy="give that address as url=, if it is yours",
        )
    return failure(_object(body), status, header("retry-after")) or foreign_failure(status, url)


def _reason(error: Exception) -> str:
    return f"{str(error) or type(error).__name__:.200}"


def _tls(address: Address) -> ssl.SSLContext | None:
    try:
        import httpx
    except ImportError as error:
        raise HostError(
            "a sandbox over a URL needs httpx, which is not installed", remedy="pip install 'dayfly[client]'"
        ) from error
    return None if address.is_plain else httpx.create_ssl_context()


def _client(address: Address, tls: ssl.SSLContext | None) -> httpx.AsyncClient:
    """Without TLS no proxy of the environment is used: it would see the key."""
    import httpx

    return httpx.AsyncClient(
        headers={"authorization": f"Bearer {address.key}", "accept-encoding": "identity"},
        verify=tls or False,
        trust_env=tls is not None,
        follow_redirects=False,
        limits=httpx.Limits(
            max_connections=None, max_keepalive_connections=20, keepalive_expiry=IDLE_CONNECTION_SECONDS
        ),
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
