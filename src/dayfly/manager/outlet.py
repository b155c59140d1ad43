"""The manager's hold on the gateway: started when the first sandbox needs it, and anew if it dies.

Law: a gateway that is gone stops traffic. Whoever then connects has another one started, which learns the rules of all that
live before it does anything for one of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from dayfly.egress.client import Closed, EgressDenied, Gateway, Tunnel
from dayfly.egress.verdict import Denied
from dayfly.errors import HostError
from dayfly.network import Rule

__all__ = ["Outlet"]

RESTART_SECONDS = 1.0
"""Between two starts, for which whoever wants one waits: one that dies of what it is asked to do is not to keep the machine busy."""

WITHDRAW_SECONDS = 2.0
"""For the last words about a sandbox's tunnels."""

Told = Callable[[Closed], None]


class Outlet:
    """On one loop. ``start`` starts a gateway."""

    def __init__(self, start: Callable[[], Awaitable[Gateway]] = Gateway.start) -> None:
        self._start = start
        self._gateway: Gateway | None = None
        self._starting: asyncio.Task[Gateway] | None = None  # nobody's own: who waits for it may go
        self._started_at = float("-inf")
        self._known: dict[str, tuple[tuple[Rule, ...], Told]] = {}
        self._closed = False

    def __repr__(self) -> str:
        state = "off" if self._gateway is None else "lost" if self._gateway.lost.is_set() else "up"
        return f"<Outlet {state}: {len(self._known)} sandboxes>"

    async def admit(self, sandbox: str, rules: tuple[Rule, ...], told: Told) -> None:
        """From now on the sandbox may reach what ``rules`` name, and nothing else. ``told`` hears of every connection that has
        ended. Raises ``HostError``: no gateway allows it anything else then either, and it is still to be withdrawn."""
        self._known[sandbox] = (rules, told)
        gateway = await self._running()
        try:
            await gateway.admit(sandbox, rules)
        except HostError:
            if not gateway.lost.is_set():
                raise
            gateway = await self._running()  # the next one knows it already
        if sandbox not in self._known:  # withdrawn meanwhile
            await gateway.withdraw(sandbox)

    async def withdraw(self, sandbox: str) -> None:
        """Its connections end, and are told of before this returns."""
        known, gateway = self._known.get(sandbox), self._gateway
        if known is None:
            return
        try:
            if gateway is not None:
                with suppress(HostError, TimeoutError):
                    async with asyncio.timeout(WITHDRAW_SECONDS):
                        await gateway.withdraw(sandbox)
        finally:
            if self._known.get(sandbox) is known:
                del self._known[sandbox]

    async def connect(self, sandbox: str, host: str, port: int) -> Tunnel:
        """Raises ``EgressDenied`` and ``EgressUnreachable``."""
        try:
            gateway = await self._running()
        except HostError as error:
            raise EgressDenied(_gone(host, port)) from error
        return await gateway.connect(sandbox, host, port)

    async def close(self) -> None:
        """There is no gateway when this returns, and never one again. Idempotent."""
        self._closed = True
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.wait({self._starting})
        if self._gateway is not None:
            await self._gateway.close()

    async def _running(self) -> Gateway:
        """Raises ``HostError`` where none can be started now."""
        if self._closed:
            raise HostError("there is no way out any more: its manager is closed", remedy="make another manager")
        if self._gateway is not None and not self._gateway.lost.is_set():
            return self._gateway
        if self._starting is None:
            self._starting = asyncio.ensure_future(self._anew())
            self._starting.add_done_callback(self._has_started)
        try:
            return await asyncio.shield(self._starting)
        except asyncio.CancelledError:
            if self._closed:
                raise HostError("there is no way out any more: its manager is closed") from None
            raise

    def _has_started(self, starting: asyncio.Task[Gateway]) -> None:
        self._starting = None
        if not starting.cancelled():
            starting.exception()  # seen: nobody may be waiting

    async def _anew(self) -> Gateway:
        loop = asyncio.get_running_loop()
        if (wait := self._started_at + RESTART_SECONDS - loop.time()) > 0:
            await asyncio.sleep(wait)
        self._started_at = loop.time()
        if self._gateway is not None:
            await self._gateway.close()
        gateway = await self._start()
        try:
            gateway.on_closed = self._ended
            await self._introduce(gateway)
        except BaseException:
            await asyncio.shield(asyncio.ensure_future(gateway.close()))
            raise
        self._gateway = gateway
        return gateway

    async def _introduce(self, gateway: Gateway) -> None:
        """It knows all that live, and nobody else; they come and go meanwhile."""
        told: set[str] = set()
        while more := self._known.keys() ^ told:
            sandbox = more.pop()
            if sandbox in self._known:
                await gateway.admit(sandbox, self._known[sandbox][0])
                told.add(sandbox)
            else:
                await gateway.withdraw(sandbox)
                told.discard(sandbox)

    def _ended(self, sandbox: str, closed: Closed) -> None:
        known = self._known.get(sandbox)
        if known is not None:
            known[1](closed)


def _gone(host: str, port: int) -> Denied:
    reason = "the gateway that all traffic passes is not running"
    return Denied(ascii(host[:253])[1:-1], port, "gateway_gone", reason, "try again in a few seconds")
