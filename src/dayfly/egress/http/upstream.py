"""The gateway as an HTTP/1.1 client: one connection to a server at a time, verified, to an address that was judged."""

from __future__ import annotations

import asyncio
import ssl
from ipaddress import IPv4Address, IPv6Address

import h11

from dayfly.egress.dialling import Dialler, PrivateAddress, Unreachable
from dayfly.egress.http import heads
from dayfly.egress.http.messages import Body, Origin, Refused, Request, Response
from dayfly.egress.http.stream import PIECE, Pace, abort
from dayfly.egress.resolving import Turns

__all__ = ["Server", "Servers"]

CONNECT_SECONDS = 40.0
"""One look-up, three addresses, and a handshake."""

ANSWER_SECONDS = 600.0
"""From a request that is sent to the head of its answer. Models think for minutes."""

SILENT_SECONDS = 600.0
"""Between two pieces of an answer."""

MOST_INFORMATIONAL = 100
"""Answers before the answer (102, 103). Servers send one or two, or one each few seconds."""

_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


class Server:
    """One connection. After an answer that was read to its end it takes another request, if both sides want that."""

    def __init__(self, origin: Origin, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.origin = origin
        self.used = False  # it has been asked something
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=heads.MOST_HEAD)
        self._reader = reader
        self._writer = writer
        self._upload: asyncio.Task[None] | None = None
        self._pace = Pace()

    @property
    def idle(self) -> bool:
        """Whether it can be asked something: the answer before is over, and the server has not hung up."""
        fresh = self._http.our_state is h11.IDLE and self._http.their_state is h11.IDLE
        return fresh and not self._reader.at_eof() and not self._writer.transport.is_closing()

    async def ask(self, request: Request) -> Response:
        """Raises ``Unreachable``, and ``Refused`` or an ``OSError`` of the request's own body."""
        self.used = True
        self._upload = asyncio.ensure_future(self._send(request))
        self._upload.add_done_callback(self._uploaded)
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                event = await self._head()
        except (TimeoutError, OSError, EOFError, h11.ProtocolError) as error:
            await self.close()
            raise Unreachable(f"{self.origin.host}: {self._why(error)}.") from None
        return Response(event.status_code, heads.end_to_end(event.headers), self._body(), _length(event))

    def _uploaded(self, upload: asyncio.Task[None]) -> None:
        """Where the sandbox breaks off, no answer is waited for. A server that hangs up may have answered before."""
        if not upload.cancelled() and upload.exception() is not None and not isinstance(upload.exception(), OSError):
            abort(self._writer)

    def _why(self, error: Exception) -> str:
        """What has failed is often what is sent, and what is heard then follows from that. Raises what the request's body raised."""
        assert self._upload is not None
        if self._upload.done() and not self._upload.cancelled():
            failed = self._upload.exception()
            if failed is not None and not isinstance(failed, OSError | h11.ProtocolError):
                raise failed
        if isinstance(error, TimeoutError):
            return f"no answer within {ANSWER_SECONDS:.0f} s"
        return "its answer is no HTTP" if isinstance(error, h11.ProtocolError) else "it hung up without an answer"

    # --- asking -------------------------------------------------------------------------------------------------------

    async def _send(self, request: Request) -> None:
        pace = Pace()
        await self._write(self._request(request))
        async for piece in request.body:
            await self._write(h11.Data(data=piece))
            await pace.step()
        await self._write(h11.EndOfMessage())

    def _request(self, request: Request) -> h11.Request:
        found = [("host", _authority(self.origin)), *request.headers]
        if request.length is None:
            found.append(("transfer-encoding", "chunked"))
        elif request.length or request.method in ("POST", "PUT", "PATCH"):
            found.append(("content-length", str(request.length)))
        target = request.path + (f"?{request.query}" if request.query else "")
        return h11.Request(
            method=request.method,
            target=target,
            headers=[(name.encode("latin-1"), value.encode("latin-1")) for name, value in found],
        )

    async def _write(self, event: h11.Event) -> None:
        data = self._http.send(event)
        if data:
            self._writer.write(data)
            await self._writer.drain()

    # --- hearing ------------------------------------------------------------------------------------------------------

    async def _head(self) -> h11.Response:
        for _ in range(MOST_INFORMATIONAL + 1):
            event = await self._next(heads.MOST_HEAD)
            if isinstance(event, h11.Response):
                return event
            if not isinstance(event, h11.InformationalResponse) or event.status_code == 101:
                break
        raise EOFError

    async def _body(self) -> Body:
        over = False
        try:
            while not over:
                async with asyncio.timeout(SILENT_SECONDS):
                    event = await self._next()
                if isinstance(event, h11.Data):
                    yield bytes(event.data)
                elif isinstance(event, h11.EndOfMessage):
                    over = True
                else:
                    raise ConnectionResetError
        except (EOFError, TimeoutError, h11.ProtocolError):
            raise ConnectionResetError from None
        finally:
            await self._is_over(over)

    async def _next(self, most: int = PIECE) -> h11.Event:
        """``most``: bytes that are read at once. h11 bounds heads that have not ended yet, and not what it is given in one piece."""
        await self._pace.step()
        while (event := self._http.next_event()) is h11.NEED_DATA:
            self._http.receive_data(await self._reader.read(most))
        if not isinstance(event, h11.Event):
            raise EOFError
        return event

    async def _is_over(self, whole: bool) -> None:
        """Ready for the next request, or closed."""
        upload = self._upload
        sent = upload is not None and upload.done() and not upload.cancelled() and upload.exception() is None
        done = self._http.our_state is h11.DONE and self._http.their_state is h11.DONE
        unasked, _ = self._http.trailing_data  # it would be taken for the answer to the next request
        if whole and sent and done and not unasked:
            self._http.start_next_cycle()
        else:
            await self.close()

    async def close(self) -> None:
        """Idempotent."""
        if self._upload is not None and not self._upload.done():
            self._upload.cancel()
            await asyncio.wait({self._upload})
        if self._upload is not None and not self._upload.cancelled():
            self._upload.exception()  # seen
        abort(self._writer)


class Servers:
    """The ``Upstreams`` of one connection of a sandbox."""

    def __init__(self, dialler: Dialler, turns: Turns, verified: ssl.SSLContext) -> None:
        self.address: IPv4Address | IPv6Address | None = None
        self._dialler = dialler
        self._turns = turns
        self._verified = verified
        self._server: Server | None = None

    async def send(self, origin: Origin, request: Request) -> Response:
        """See ``Upstreams``. A connection that was kept and ends in this moment is replaced once, where nothing is sent twice that
        may not be."""
        server = await self._ready(origin)
        kept = server.used
        try:
            return await server.ask(request)
        except Unreachable:
            if not (kept and request.method in _SAFE and request.length == 0):
                raise
        return await (await self._ready(origin)).ask(request)

    async def _ready(self, origin: Origin) -> Server:
        if self._server is not None:
            if self._server.origin == origin and self._server.idle:
                return self._server
            await self._server.close()
        self._server = await self._connected(origin)
        return self._server

    async def _connected(self, origin: Origin) -> Server:
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                self.address, end = await self._dialler.dial(origin.host, origin.port, origin.private, self._turns)
                context = self._verified if origin.scheme == "https" else None
                name = origin.host if context else None
                return Server(
                    origin, *await asyncio.open_connection(sock=end, ssl=context, server_hostname=name, limit=PIECE)
                )
        except PrivateAddress as error:
            raise Refused(error.denied(origin.host, origin.port)) from None
        except ssl.SSLCertVerificationError as error:
            raise Unreachable(_not_valid(origin.host, error)) from None
        except TimeoutError:
            raise Unreachable(f"{origin.host}, port {origin.port}: no connection in time.") from None
        except OSError:
            raise Unreachable(f"{origin.host}, port {origin.port}: the TLS handshake failed.") from None

    async def close(self) -> None:
        if self._server is not None:
            await self._server.close()


def _authority(origin: Origin) -> str:
    usual = {"https": 443, "http": 80}[origin.scheme]
    return origin.host if origin.port == usual else f"{origin.host}:{origin.port}"


def _not_valid(host: str, error: ssl.SSLCertVerificationError) -> str:
    text = f"{host}: its certificate is not valid ({error.verify_message})."
    if error.verify_code in _NO_ROOT:
        text += " If an authority of your own has signed it, whoever runs dayfly can set SSL_CERT_FILE to a file with its roots."
    return text


_NO_ROOT = frozenset({18, 19, 20, 21})
"""OpenSSL's codes for a certificate that no root of ours has signed."""


def _length(event: h11.Response) -> int | None:
    """Where chunks come as well, they are right (RFC 9112, 6.3), as h11 has it."""
    fields = dict(event.headers)
    found = fields.get(b"content-length") if b"transfer-encoding" not in fields else None
    return int(found) if found is not None else None
