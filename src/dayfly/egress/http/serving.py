"""The gateway as an HTTP/1.1 server for one connection of a sandbox: one request after another is read, answered and told of."""

from __future__ import annotations

import asyncio
import http.client
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

import h11

from dayfly.egress.dialling import Unreachable
from dayfly.egress.http import heads
from dayfly.egress.http.messages import Body, Refused, Request, Response, Service, Upstreams, closed, once
from dayfly.egress.http.stream import Pace, Stream
from dayfly.egress.verdict import Allowed, Denied

__all__ = ["Answered", "Serving"]

IDLE_SECONDS = 300.0
"""Between two requests. Clients keep connections for a minute or so."""

HEAD_SECONDS = 30.0
"""From a request's first byte to the end of its head."""

MOST_LEFT = 1024 * 1024
LEFT_SECONDS = 5.0
"""Of a body that nobody wanted: so much is still read, so that the next request can come on this connection."""

MOST_REASON = 1000
"""Characters after the status."""


@dataclass(frozen=True)
class Answered:
    """What is told of one request. ``status`` as the sandbox saw it."""

    method: str
    path: str
    status: int
    rule: int | None
    secret: str | None
    denied: Denied | None


Told = Callable[[Answered], Awaitable[None]]


class Serving:
    """``run`` once. Every request is told of before its answer begins."""

    def __init__(self, allowed: Allowed, stream: Stream, service: Service, upstreams: Upstreams, told: Told) -> None:
        self._allowed = allowed
        self._stream = stream
        self._service = service
        self._upstreams = upstreams
        self._told = told
        self._http = _parser()
        self._buffer = bytearray()
        self._bodiless = False  # the answer has no body, since the request's method is HEAD
        self._pace = Pace()

    async def run(self) -> None:
        """Until the client has no more to ask. Raises ``OSError``, ``Spent``, and ``EOFError`` where it breaks off."""
        while await self._one():
            self._begin_anew()
            await self._pace.step()

    def _begin_anew(self) -> None:
        """What came together with the end of a body is the beginning of a request, and looked at as one."""
        behind, _ = self._http.trailing_data
        self._buffer[:0] = behind
        self._http = _parser()
        self._bodiless = False

    async def _one(self) -> bool:
        """Whether another one may follow."""
        try:
            event = await self._head()
            if event is None:
                return False
            request = self._request(event)
        except (heads.BadHead, h11.RemoteProtocolError) as error:
            what = str(error) if isinstance(error, heads.BadHead) else "is no HTTP/1.1 request"
            await self._refuse("?", "?", self._bad(what), 400)
        except heads.WrongHost as error:
            await self._refuse("?", "?", self._other(str(error)), 403)
        else:
            await self._answer(request)
        return await self._is_done()

    # --- reading ------------------------------------------------------------------------------------------------------

    async def _head(self) -> h11.Request | None:
        if not self._buffer:
            async with asyncio.timeout(IDLE_SECONDS):
                self._buffer += await self._stream.read()
            if not self._buffer:
                return None
        async with asyncio.timeout(HEAD_SECONDS):
            seen = 0
            while (end := heads.end_of_head(self._buffer, seen)) is None:
                seen = len(self._buffer)
                self._buffer += await self._more()
        self._http.receive_data(bytes(self._buffer[:end]))
        del self._buffer[:end]
        event = self._http.next_event()
        if not isinstance(event, h11.Request):
            raise heads.BadHead("is no HTTP/1.1 request")
        self._bodiless = event.method == b"HEAD"
        return event

    async def _more(self) -> bytes:
        data = await self._stream.read()
        if not data:
            raise EOFError
        return data

    def _request(self, event: h11.Request) -> Request:
        heads.checked(event)
        path, query = heads.target_of(event, self._allowed)
        if not self._service.raw_paths:
            path = heads.one_spelling(path)
        length = dict(event.headers).get(b"content-length")
        chunked = b"transfer-encoding" in dict(event.headers)
        return Request(
            event.method.decode("ascii"),
            path,
            query,
            heads.end_to_end(event.headers),
            self._body(),
            None if chunked else int(length or 0),
        )

    async def _body(self) -> Body:
        """What the client sends. Raises ``EOFError``, ``OSError``, ``Spent``, ``h11.RemoteProtocolError``."""
        if self._http.they_are_waiting_for_100_continue:
            await self._send(h11.InformationalResponse(status_code=100, headers=[]))
        while True:
            event = self._http.next_event()
            if isinstance(event, h11.Data):
                yield bytes(event.data)
                await self._pace.step()
            elif isinstance(event, h11.EndOfMessage):
                return
            elif event is h11.NEED_DATA:
                await self._feed()
            else:
                raise EOFError

    async def _feed(self) -> None:
        data = bytes(self._buffer) or await self._more()
        self._buffer.clear()
        self._http.receive_data(data)

    # --- answering ----------------------------------------------------------------------------------------------------

    async def _answer(self, request: Request) -> None:
        try:
            response = await self._service.answer(request, self._upstreams)
        except Refused as refused:
            await self._refuse(request.method, request.path, refused.denied, 403)
        except Unreachable as error:
            await self._respond(request, _unreachable(str(error)), None)
        else:
            await self._respond(request, response, None)

    async def _refuse(self, method: str, path: str, denied: Denied, status: int) -> None:
        await self._respond(Request(method, path), self._service.refusal(denied, status), denied)

    async def _respond(self, request: Request, response: Response, denied: Denied | None) -> None:
        answered = Answered(request.method, request.path, response.status, response.rule, response.secret, denied)
        try:
            await self._told(answered)
            await self._send(_head_of(response, last=self._http.they_are_waiting_for_100_continue))
            has_body = not self._bodiless and response.status not in (204, 304)
            async for piece in response.body:
                if has_body:
                    await self._send(h11.Data(data=piece))
            await self._send(h11.EndOfMessage())
        finally:
            await closed(response.body)

    async def _send(self, event: h11.Event) -> None:
        data = self._http.send(event)
        if data:
            await self._stream.write(data)

    async def _is_done(self) -> bool:
        """Whether this request is over on both sides. What is left of a body that nobody wanted is read, as far as it is little:
        a client that still writes would not see the answer."""
        if self._http.our_state is not h11.DONE:
            return False
        with suppress(TimeoutError, h11.RemoteProtocolError, EOFError):
            async with asyncio.timeout(LEFT_SECONDS):
                await self._read_the_rest()
        return self._http.their_state is h11.DONE

    async def _read_the_rest(self) -> None:
        left = MOST_LEFT
        while left > 0 and self._http.their_state is h11.SEND_BODY and not self._http.they_are_waiting_for_100_continue:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                await self._feed()
            elif isinstance(event, h11.Data):
                left -= len(event.data)
                await self._pace.step()

    # --- what is denied -----------------------------------------------------------------------------------------------

    def _bad(self, what: str) -> Denied:
        one = self._allowed
        reason = f"The request to {one.host} was refused: it {what}."
        return Denied(one.host, one.port, "bad_request", reason, "Send it as common HTTP clients do.")

    def _other(self, named: str) -> Denied:
        one = self._allowed
        reason = f"The request on a connection to {one.host} names another host: {named}."
        return Denied(one.host, one.port, "host_mismatch", reason, "Ask each host on a connection of its own.")


def _parser() -> h11.Connection:
    """Of one request and its answer."""
    return h11.Connection(h11.SERVER, max_incomplete_event_size=heads.MOST_HEAD)


def _head_of(response: Response, *, last: bool) -> h11.Response:
    """Lengths are said anew. ``last``: nobody has asked for the request's body, which the client may send or not, so that what it
    sends next could be that or another request: there is no next one on this connection."""
    found = [(name, value) for name, value in response.headers if name not in ("content-length", "transfer-encoding")]
    if response.length is not None and response.status not in (204,):
        found.append(("content-length", str(response.length)))
    if last:
        found.append(("connection", "close"))
    return h11.Response(
        status_code=response.status,
        headers=[(name.encode("latin-1"), value.encode("latin-1")) for name, value in found],
        reason=(response.reason or _phrase(response.status)).encode("ascii", "replace")[:MOST_REASON],
    )


def _phrase(status: int) -> str:
    """The usual one: there are clients to which a line without one is no answer."""
    return http.client.responses.get(status, "Other")


def _unreachable(what: str) -> Response:
    text = what.encode("ascii", "replace") + b"\n"
    headers = (("content-type", "text/plain; charset=utf-8"), ("x-dayfly-unreachable", "1"))
    return Response(502, headers, once(text), len(text))
