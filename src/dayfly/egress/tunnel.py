"""One connection of a sandbox, as the manager sees it: bytes both ways, and how it ended."""

from __future__ import annotations

import asyncio
import os
import select
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from dayfly.boundaries import forks
from dayfly.boundaries.pipes import PipeStream
from dayfly.egress.verdict import Denied

__all__ = ["ENDS", "Closed", "Requested", "Tunnel"]

ENDS = frozenset(
    {
        "done",  # both sides have said all they had to say
        "ended",  # by the sandbox, or whoever acts for it
        "reset",  # by the server, or on the way to it
        "revoked",  # the rules have changed, and none allows it any more
        "withdrawn",  # the sandbox has no rules any more
        "sni_mismatch",  # codes of Denied
        "not_tls",
        "not_trusted",
        "byte_cap",
        "gateway_gone",
        "failed",  # a mistake of the gateway's own
    }
)
"""Why a tunnel is closed."""


TOLD_SECONDS = 1.0
"""From the end of a tunnel to the packet that says why, which is on its way by then."""


@dataclass(frozen=True)
class Closed:
    """A tunnel that was connected and has ended. ``sent`` and ``received`` are bytes as the server saw them, and never less than this
    side has handed over and got: what was on its way when it was cut counts as sent. ``seconds`` is from connected to closed,
    ``address`` what was dialled, ``why`` one of ``ENDS``."""

    host: str
    port: int
    rule: int
    address: str
    sent: int
    received: int
    seconds: float
    why: str


@dataclass(frozen=True)
class Requested:
    """A request that the gateway has answered itself. ``rule``: the index of the one that allowed it; ``address``: what was dialled
    last on that connection, or ``""``; ``status`` as the sandbox saw it; ``secret``: the name of the one that the request was given."""

    host: str
    port: int
    rule: int | None
    address: str
    method: str
    path: str
    status: int
    secret: str | None
    denied: Denied | None


class Tunnel:
    """One reader and one writer at a time, on the loop of its ``Gateway``. Whoever has it closes it.

    ``host`` is in canonical form. ``closed`` is how it ended, when it has.
    """

    def __init__(
        self,
        end: socket.socket,
        host: str,
        port: int,
        address: str,
        news: Callable[[], None],
        ended: Callable[[], None],
        sent: int = 0,
    ) -> None:
        self.host = host
        self.port = port
        self.address = address
        self.denied: Denied | None = None
        self.closed: Closed | None = None
        self.sent = sent
        self.received = 0
        self._over = asyncio.Event()
        self._news = news
        self._ended = ended
        self._stream, self._writing = _stream(end)

    def __repr__(self) -> str:
        state = self.closed.why if self.closed else "open" if self._writing >= 0 else "left"
        return f"<Tunnel to {self.host}:{self.port}, {state}>"

    async def read(self, limit: int) -> bytes:
        """What the server sends; ``b""`` when it has said all, and after ``close``.

        Raises ``ConnectionResetError`` when the tunnel was cut before that: half an answer is not to look like a whole one.
        ``denied`` is set by then, if a rule is why.
        """
        try:
            data = await self._stream.read(limit)
        except OSError:
            data = b""
        if data:
            self.received += len(data)
            return data
        if self._writing >= 0:
            await self._learn_why()
            if self.closed is not None and self.closed.why != "done":
                raise ConnectionResetError(self.closed.why)
        return b""

    async def _learn_why(self) -> None:
        """What was sent before the end that was just seen is there already, unless the gateway ends in this moment: then that
        is heard in the next one. A gateway that tells nobody is no reason to wait."""
        self._news()
        if self.closed is None and self._nobody_there():
            try:
                async with asyncio.timeout(TOLD_SECONDS):
                    await self._over.wait()
            except TimeoutError:
                raise ConnectionResetError("nobody says why") from None

    def _nobody_there(self) -> bool:
        """Both directions have ended: the other end is closed, or shut as ours is."""
        poll = select.poll()
        poll.register(self._writing, 0)
        return any(event & select.POLLHUP for _, event in poll.poll(0))

    def has_ended(self, closed: Closed, denied: Denied | None) -> None:
        """For the ``Gateway``."""
        self.closed, self.denied = closed, denied
        self._over.set()

    async def write(self, data: bytes | bytearray | memoryview) -> None:
        """Waits while the server does not read. Raises ``ConnectionError`` when the tunnel has ended; ``denied`` is as after
        ``read``."""
        try:
            await self._stream.write(data)
        except OSError as error:
            if self._writing >= 0:
                with suppress(ConnectionResetError):
                    await self._learn_why()
            raise BrokenPipeError(self.closed.why if self.closed else "the tunnel is closed") from error
        self.sent += len(data)

    def write_eof(self) -> None:
        """The server is told that nothing follows. Idempotent."""
        if self._writing >= 0:
            end = socket.socket(fileno=self._writing)
            with suppress(OSError):
                end.shutdown(socket.SHUT_WR)
            end.detach()

    def close(self) -> None:
        """Whoever reads gets ``b""``. What the server has not said by now, it need not say. Idempotent."""
        if self._writing >= 0:
            self._ended()
            self._stream.close()
            self._writing = -1


def _stream(end: socket.socket) -> tuple[PipeStream, int]:
    """It owns the socket's descriptor and a second one, for writing, whose number is returned. Raises ``OSError``."""
    writing = forks.keep_from_children(os.dup(end.fileno()))
    return PipeStream(end.detach(), writing), writing
