"""What is asked of a store: a page of a listing, an object, an object to keep. One thing at a time on one connection."""

from __future__ import annotations

import hashlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import Self

from dayfly.bucket.exchange import Answer, Broken, Exchange, Wire
from dayfly.bucket.listing import Page, page_of
from dayfly.bucket.names import shown
from dayfly.egress.services.objects.documents import LONGEST_DOCUMENT, BadDocument, document
from dayfly.egress.services.objects.keys import escaped
from dayfly.errors import StoreFailed
from dayfly.network.objects import OBJECTS_HOST, BucketPrefix

__all__ = ["BucketClient", "Dial"]

Dial = Callable[[], Awaitable[Wire]]
"""Opens a connection to the gateway's object store. Raises ``StoreFailed``."""

LONGEST_ERROR = 64 * 1024
"""Bytes of what a store says is wrong."""

_LONGEST_MESSAGE = 500
_WORD = re.compile(r"[A-Za-z0-9.]{1,64}")


class BucketClient:
    """For one prefix. Everything raises ``StoreFailed``; a connection that is used up is replaced by another one."""

    def __init__(self, place: BucketPrefix, dial: Dial) -> None:
        self._place = place
        self._dial = dial
        self._exchange: Exchange | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self._leave()

    async def page(self, token: str) -> Page:
        """Of what is below the prefix; ``token`` is ``""`` for the first."""
        query = {"list-type": "2", "max-keys": "1000", "prefix": self._place.prefix}
        if token:
            query["continuation-token"] = token
        asked = "&".join(f"{name}={escaped(value)}" for name, value in sorted(query.items()))
        async with self._asked("GET", f"/{self._place.bucket}?{asked}", self._place.prefix) as answer:
            data = await answer.whole(LONGEST_DOCUMENT)
        try:
            return page_of(data)
        except BadDocument as error:
            raise self._failed(self._place.prefix, f"what it lists {error}") from None

    @asynccontextmanager
    async def object(self, key: str, size: int) -> AsyncIterator[AsyncIterator[bytes]]:
        """Its content in pieces, which are ``size`` bytes together."""
        async with self._asked("GET", self._target(key), key) as answer:
            yield self._exactly(answer, key, size)

    async def _exactly(self, answer: Answer, key: str, size: int) -> AsyncIterator[bytes]:
        left = size
        if answer.length not in (None, size):
            raise self._failed(key, f"it has {answer.length} bytes and was listed with {size}")
        async for piece in answer.pieces():
            left -= len(piece)
            if left < 0:
                raise self._failed(key, f"it has more than the {size} bytes that it was listed with")
            yield piece
        if left:
            raise self._failed(key, f"it has less than the {size} bytes that it was listed with")

    async def put(self, key: str, data: bytes) -> None:
        """Keep what is in memory: the store checks that it came as it was sent."""

        async def once() -> AsyncIterator[bytes]:
            yield data

        await self._put(key, once(), len(data), hashlib.sha256(data).hexdigest())

    async def put_stream(self, key: str, content: AsyncIterator[bytes], size: int) -> None:
        """Keep ``size`` bytes. What ``content`` raises is raised, and nothing is kept then."""
        await self._put(key, content, size, "UNSIGNED-PAYLOAD")

    async def _put(self, key: str, content: AsyncIterator[bytes], size: int, digest: str) -> None:
        headers = (("content-length", str(size)), ("x-amz-content-sha256", digest))
        async with self._asked("PUT", self._target(key), key, headers, content) as answer:
            await answer.whole(LONGEST_ERROR)

    def _target(self, key: str) -> str:
        return f"/{self._place.bucket}/{escaped(key, '/')}"

    @asynccontextmanager
    async def _asked(
        self,
        method: str,
        target: str,
        key: str,
        headers: tuple[tuple[str, str], ...] = (),
        body: AsyncIterator[bytes] | None = None,
    ) -> AsyncIterator[Answer]:
        try:
            exchange = await self._connected()
            answer = await exchange.ask(method, target, headers, body)
            if answer.status != 200:
                raise self._failed(key, await _reason(answer))
            yield answer
        except Broken as error:
            raise self._failed(key, str(error)) from None
        finally:
            if self._exchange is not None and not self._exchange.ready:
                self._leave()

    async def _connected(self) -> Exchange:
        if self._exchange is None:
            self._exchange = Exchange(await self._dial(), OBJECTS_HOST)
        return self._exchange

    def _leave(self) -> None:
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.close()

    def _failed(self, key: str, why: str) -> StoreFailed:
        place = shown(f"s3://{self._place.bucket}/{key}")
        return StoreFailed(f"the object store at {self._place.endpoint}: {place}: {why}", remedy=_REMEDY)


_REMEDY = "see that it is up, and what its credentials may do there; dayfly secrets list says for which host they are"


async def _reason(answer: Answer) -> str:
    """What the store, or the gateway, says is wrong."""
    found: dict[str, str] = {}
    with suppress(BadDocument):
        root = document(await answer.whole(LONGEST_ERROR), plain=False)
        found = {one.name: one.text.strip() for one in root.children}
    code = found.get("Code", "")
    code = code if _WORD.fullmatch(code) else ""
    message = ascii(found.get("Message", "")[:_LONGEST_MESSAGE])[1:-1]
    return ": ".join(one for one in (str(answer.status), code, message) if one)
