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
"""Between two starts: one that dies of what it is asked to do is not to keep the machine busy."""

WITHDRAW_SECONDS = 2.0
"""For the last words about a sandbox's tunnels."""

Told = Callable[[Closed], None]


class Outlet:
    """On one loop. ``start`` starts a gateway."""

    def __init__(self, start: Callable[[], Awaitable[Gateway]] = Gateway.start) -> None:
        self._start = start
        self._gateway: Gateway | None = None
        self._starting = asyncio.Lock()
        self._started_at = -RESTART_SECONDS
        self._known: dict[str, tuple[tuple[Rule, ...], Told]] = {}

    def __repr__(self) -> str:
        state = "off" if self._gateway is None else "lost" if self._gateway.lost.is_set() else "up"
        return f"<Outlet {state}: {len(self._known)} sandboxes>"

    async def admit(self, sandbox: str, rules: tuple[Rule, ...], told: Told) -> None:
        """From now on the sandbox may reach what ``rules`` name, and nothing else. ``told`` hears of every connection that has
        ended. Raises ``HostError``."""
        gateway = await self._running()
        before = self._known.get(sandbox)
        self._known[sandbox] = (rules, told)  # first: ``withdraw`` must find it whatever becomes of this
        try:
            await gateway.admit(sandbox, rules)
        except HostError:
            if before is None:
                self._known.pop(sandbox, None)
            elif sandbox in self._known:  # it has not been withdrawn meanwhile
                self._known[sandbox] = before
            raise

    async def withdraw(self, sandbox: str) -> None:
        """Its connections end, and are told of before this returns."""
        if sandbox not in self._known:
            return
        with suppress(HostError, TimeoutError, EgressDenied):
            if self._gateway is not None and not self._gateway.lost.is_set():
                async with asyncio.timeout(WITHDRAW_SECONDS):
                    await self._gateway.withdraw(sandbox)
        self._known.pop(sandbox, None)

    async def connect(self, sandbox: str, host: str, port: int) -> Tunnel:
        """Raises ``EgressDenied`` and ``EgressUnreachable``."""
        try:
            gateway = await self._running()
        except HostError as error:
            raise EgressDenied(_gone(host, port)) from error
        return await gateway.connect(sandbox, host, port)

    async def close(self) -> None:
        """Idempotent."""
        async with self._starting:
            gateway, self._gateway = self._gateway, None
        if gateway is not None:
            await gateway.close()

    async def _running(self) -> Gateway:
        """Raises ``HostError`` where none can be started now."""
        async with self._starting:
            if self._gateway is None or self._gateway.lost.is_set():
                self._gateway = await self._anew()
            return self._gateway

    async def _anew(self) -> Gateway:
        now = asyncio.get_running_loop().time()
        if now - self._started_at < RESTART_SECONDS:
            raise HostError("the gateway ended a moment ago", remedy="try again in a second")
        self._started_at = now
        if self._gateway is not None:
            await self._gateway.close()
        gateway = await self._start()
        gateway.on_closed = self._closed
        for sandbox, (rules, _) in self._known.items():
            await gateway.admit(sandbox, rules)
        return gateway

    def _closed(self, sandbox: str, closed: Closed) -> None:
        known = self._known.get(sandbox)
        if known is not None:
            known[1](closed)


def _gone(host: str, port: int) -> Denied:
    reason = "the gateway that all traffic passes is not running"
    return Denied(ascii(host[:253])[1:-1], port, "gateway_gone", reason, "try again in a few seconds")
