"""What makes sandboxes in this process, the manager or the client of a server: one for each event loop (and address), made
at first need, gone with the last sandbox.

Those of dayfly's own loop stay until the interpreter ends: the next ``Sandbox`` is likely, and finds them ready. They are
imported only here and only when a sandbox is opened: the client itself works on any system.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Generic, TypeVar

from dayfly.client.backend import Opener
from dayfly.client.bridge import bridge_here

if TYPE_CHECKING:
    from dayfly.client.remote.address import Address
    from dayfly.client.remote.server import Server

__all__ = ["Lease", "close_all", "lease", "lease_of"]

K = TypeVar("K", bound=Opener)


class _Holder(Generic[K]):
    """One loop's opener of one kind and how many hold it."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.opener: K | None = None
        self.count = 0


class _Holders:
    """Those of one loop: the embedded manager's, and each server's."""

    def __init__(self) -> None:
        self.embedded: _Holder[Opener] = _Holder()
        self.servers: dict[Address, _Holder[Server]] = {}


_all: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Holders] = weakref.WeakKeyDictionary()


class Lease(Generic[K]):
    """A hold on an opener of the running loop. ``release`` is idempotent; the last one closes the opener."""

    def __init__(self, opener: K, holder: _Holder[K]) -> None:
        self.opener = opener
        self._holder: _Holder[K] | None = holder

    async def release(self) -> None:
        holder, self._holder = self._holder, None
        if holder is None:
            return
        async with holder.lock:
            holder.count -= 1
            if holder.count == 0:
                await _close(holder)


async def lease() -> Lease[Opener]:
    """Take hold of the running loop's manager; makes it if there is none. Raises ``HostError``."""
    return await _hold(_here().embedded, _manager)


async def lease_of(address: Address) -> Lease[Server]:
    """Take hold of the running loop's client of that server. Raises ``HostError`` if what it needs is not installed."""
    from dayfly.client.remote.server import Server  # lazily: most sandboxes are embedded

    async def make() -> Server:
        return Server(address)

    return await _hold(_here().servers.setdefault(address, _Holder()), make)


def _here() -> _Holders:
    return _all.setdefault(asyncio.get_running_loop(), _Holders())


async def _hold(holder: _Holder[K], make: Callable[[], Awaitable[K]]) -> Lease[K]:
    async with holder.lock:
        if holder.opener is None:
            holder.opener = await make()
            _keep(holder)
        holder.count += 1
        return Lease(holder.opener, holder)


async def _manager() -> Opener:
    making = asyncio.ensure_future(asyncio.to_thread(_make))
    try:
        return await asyncio.shield(making)
    except asyncio.CancelledError:  # the thread goes on: what it makes must not be lost
        await asyncio.wait({making})
        if making.exception() is None:
            await making.result().close()
        raise


def _keep(holder: _Holder[K]) -> None:
    """On dayfly's own loop the opener stays, until the loop closes."""
    bridge = bridge_here()
    if bridge is not None:
        holder.count += 1
        bridge.at_close(close_all)


async def close_all() -> None:
    """Close the running loop's openers, and with them every sandbox that is left and was made here."""
    holders = _all.get(asyncio.get_running_loop())
    if holders is not None:
        await _close_locked(holders.embedded)
        for holder in list(holders.servers.values()):
            await _close_locked(holder)


async def _close_locked(holder: _Holder[K]) -> None:
    async with holder.lock:
        await _close(holder)


async def _close(holder: _Holder[K]) -> None:
    opener, holder.opener, holder.count = holder.opener, None, 0
    if opener is not None:
        await opener.close()


def _make() -> Opener:
    from dayfly.manager import embedded  # lazily: Linux only, and heavy

    return embedded()
