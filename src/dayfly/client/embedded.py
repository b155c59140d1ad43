"""The manager that lives in this process: one for each event loop, made at first need, gone with the last sandbox.

That of dayfly's own loop stays until the interpreter ends: the next ``Sandbox`` is likely, and finds it ready. The manager is imported only here and only when a sandbox is opened: the client itself works on any system.
"""

from __future__ import annotations

import asyncio
import weakref

from dayfly.client.backend import Opener
from dayfly.client.bridge import bridge_here

__all__ = ["Lease", "close_all", "lease"]


class _Holder:
    """One loop's opener and how many hold it."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.opener: Opener | None = None
        self.count = 0


_holders: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Holder] = weakref.WeakKeyDictionary()


class Lease:
    """A hold on the running loop's opener. ``release`` is idempotent; the last one closes the opener."""

    def __init__(self, opener: Opener, holder: _Holder) -> None:
        self.opener = opener
        self._holder: _Holder | None = holder

    async def release(self) -> None:
        holder, self._holder = self._holder, None
        if holder is None:
            return
        async with holder.lock:
            holder.count -= 1
            if holder.count == 0:
                await _close(holder)


async def lease() -> Lease:
    """Take hold of the running loop's opener; makes it if there is none. Raises ``HostError``."""
    holder = _holders.setdefault(asyncio.get_running_loop(), _Holder())
    async with holder.lock:
        if holder.opener is None:
            await _fill(holder)
            _keep(holder)
        assert holder.opener is not None
        holder.count += 1
        return Lease(holder.opener, holder)


async def _fill(holder: _Holder) -> None:
    making = asyncio.ensure_future(asyncio.to_thread(_make))
    try:
        holder.opener = await asyncio.shield(making)
    except asyncio.CancelledError:  # the thread goes on: what it makes must not be lost
        await asyncio.wait({making})
        if making.exception() is None:
            await making.result().close()
        raise


def _keep(holder: _Holder) -> None:
    """On dayfly's own loop the manager stays, until the loop closes."""
    bridge = bridge_here()
    if bridge is not None:
        holder.count += 1
        bridge.at_close(close_all)


async def close_all() -> None:
    """Close the running loop's opener, and with it every sandbox that is left."""
    holder = _holders.get(asyncio.get_running_loop())
    if holder is not None:
        async with holder.lock:
            await _close(holder)


async def _close(holder: _Holder) -> None:
    opener, holder.opener, holder.count = holder.opener, None, 0
    if opener is not None:
        await opener.close()


def _make() -> Opener:
    from dayfly.manager import embedded  # lazily: Linux only, and heavy

    return embedded()
