"""A tunnel's bytes, between the agent's channel and the gateway's end, both ways."""

from __future__ import annotations

import asyncio

from dayfly.egress.client import Tunnel
from dayfly.sandbox.accepted import Accepted
from dayfly.wire import operations as ops
from dayfly.wire.messages import Data, Eof

__all__ = ["Connected", "both_ways"]

READ = 256 * 1024
"""Bytes taken from a tunnel at once: what a frame to the agent carries."""


class Connected:
    """The word that there is a connection. Who has begun to speak does not wait for it, and gets it with the first answer: to wake
    somebody inside takes longer than to carry a request."""

    def __init__(self, asked: Accepted) -> None:
        self._asked: Accepted | None = asked

    def tell(self) -> None:
        """Once; what is sent next may go with it."""
        asked, self._asked = self._asked, None
        if asked is not None:
            asked.send_event("connected", {})


async def both_ways(asked: Accepted, tunnel: Tunnel, rest: bytes, connected: Connected) -> None:
    """Until both sides have said all, or either is gone. ``rest`` is what the sandbox has said and the tunnel does not have."""
    ways = [asyncio.ensure_future(way) for way in (_outward(asked, tunnel, rest), _inward(asked, tunnel, connected))]
    try:
        await asyncio.gather(*ways)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.wait(ways)


async def _outward(asked: Accepted, tunnel: Tunnel, rest: bytes) -> None:
    if rest:
        await tunnel.write(rest)
    while isinstance(message := await asked.next(), Data):
        await tunnel.write(message.data)
    if isinstance(message, Eof):
        tunnel.write_eof()


async def _inward(asked: Accepted, tunnel: Tunnel, connected: Connected) -> None:
    while data := await tunnel.read(READ):
        connected.tell()
        if not await asked.send_data(ops.STDOUT, data):
            return
    connected.tell()
    asked.send_eof(ops.STDOUT)
