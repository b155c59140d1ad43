"""A way to one prefix of a bucket for what a policy copies: through the gateway, as a guest of its own beside the sandbox.

Law: the sandbox knows nothing of it, and what it may itself reach is neither more nor less by it. The rule is the one that its own
requests would need, so everything that keeps those keeps these: who may use the credentials, which addresses, how many bytes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any

from dayfly.bucket.client import Dial
from dayfly.egress.client import Closed, EgressDenied, EgressUnreachable, Requested, Tunnel
from dayfly.errors import StoreFailed
from dayfly.manager.outlet import Outlet
from dayfly.network import ObjectsRule
from dayfly.network.objects import OBJECTS_HOST
from dayfly.owner import Owner

__all__ = ["AT_ONCE", "admitted", "all_of"]

AT_ONCE = 8
"""Objects that are under way together, each on a connection of its own: the way to a store takes longer than most of them."""

_PORT = 80


class _Way:
    """A tunnel. One that was cut by its rule, such as by its ``max_bytes``, says so."""

    def __init__(self, tunnel: Tunnel) -> None:
        self._tunnel = tunnel

    async def read(self, limit: int) -> bytes:
        try:
            return await self._tunnel.read(limit)
        except ConnectionError:
            if (denied := self._tunnel.denied) is not None:
                raise StoreFailed(denied.reason, remedy=denied.remedy) from None
            raise

    async def write(self, data: bytes) -> None:
        await self._tunnel.write(data)

    def close(self) -> None:
        self._tunnel.close()


@asynccontextmanager
async def admitted(
    outlet: Outlet, guest: str, rule: ObjectsRule, owner: Owner, told: Callable[[Closed | Requested], None]
) -> AsyncIterator[Dial]:
    """``guest``: under which name the gateway knows it, and counts its bytes. Raises ``PolicyError`` and ``HostError``."""
    await outlet.admit(guest, (rule,), told, owner)

    async def dial() -> _Way:
        try:
            return _Way(await outlet.connect(guest, OBJECTS_HOST, _PORT))
        except (EgressDenied, EgressUnreachable) as error:
            raise StoreFailed(f"the gateway leads to no object store: {error.message}", remedy=error.remedy) from error

    try:
        yield dial
    finally:
        await asyncio.shield(asyncio.ensure_future(outlet.withdraw(guest)))


async def all_of(workers: Sequence[Coroutine[Any, Any, None]]) -> None:
    """To their ends, or to the first failure of one, which ends the others and is raised."""
    tasks = [asyncio.ensure_future(worker) for worker in workers]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
