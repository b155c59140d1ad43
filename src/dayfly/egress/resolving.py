"""From a name that was allowed to addresses, by this machine's own resolver (its hosts file, nsswitch and resolv.conf).

The system's resolver and no library beside it: a machine's names are what its operator has configured, in files, in
systemd-resolved, in a container's own DNS, and a second resolver would see others. It blocks, so it has threads, of which
one sandbox can hold only a few, however slow the servers of its names are.
"""

from __future__ import annotations

import asyncio
import os
import socket
from concurrent.futures import ThreadPoolExecutor
from ipaddress import IPv4Address, IPv6Address, ip_address

__all__ = ["NoSuchName", "Resolver", "Turns"]

Address = IPv4Address | IPv6Address

SECONDS = 10.0
"""That anybody waits for an answer."""

MAX_THREADS = 256
"""Look-ups under way. A thread that waits costs some 50 KiB."""

MAX_AT_ONCE = 4
"""Look-ups of one sandbox under way; the next ones wait for their turn, within the same time."""

MAX_ADDRESSES = 16
"""Of one name that are looked at."""

_FAILED = "the name could not be looked up"


class NoSuchName(Exception):
    """It has no address, or nobody who knows it has answered. ``str()`` is one clause."""


class Turns:
    """Of one sandbox: its look-ups that have a thread."""

    def __init__(self) -> None:
        self._free = asyncio.Semaphore(MAX_AT_ONCE)

    async def take(self) -> None:
        await self._free.acquire()

    def give(self) -> None:
        self._free.release()


class Resolver:
    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="name")
        # resolv.conf(5): no query but for the very name (a search list would ask for others), and no waiting for minutes
        os.environ.update(LOCALDOMAIN=".", RES_OPTIONS="timeout:2 attempts:2")

    async def addresses(self, host: str, turns: Turns) -> list[Address]:
        """In the order to try them. ``host`` is canonical, and was judged. Raises ``NoSuchName``."""
        try:
            async with asyncio.timeout(SECONDS):
                await turns.take()
                found = await self._begin(host, turns)
        except TimeoutError:
            raise NoSuchName("no answer about the name in time") from None
        if isinstance(found, str):
            raise NoSuchName(found)
        return found

    def _begin(self, host: str, turns: Turns) -> asyncio.Future[list[Address] | str]:
        """The turn is given back when the thread is free, not when nobody waits any more."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[list[Address] | str] = loop.create_future()

        def settle(found: list[Address] | str) -> None:
            turns.give()
            if not answer.done():
                answer.set_result(found)

        def work() -> None:
            found: list[Address] | str = _FAILED
            try:
                found = _look_up(host)
            finally:
                loop.call_soon_threadsafe(
                    settle, found
                )  # and no future of the pool's, with its two more turns of the loop

        try:
            self._pool.submit(work)
        except RuntimeError:  # no thread can be started now
            turns.give()
            raise NoSuchName(_FAILED) from None
        return answer


def _look_up(host: str) -> list[Address] | str:
    """In a thread. As bytes, which are taken as they are: a text would be mapped once more."""
    try:
        entries = socket.getaddrinfo(host.encode("ascii"), None, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    except OSError as error:
        return _clause(error)
    unique = dict.fromkeys(str(entry[4][0]) for entry in entries)
    return [ip_address(text) for text in list(unique)[:MAX_ADDRESSES]]


def _clause(error: OSError) -> str:
    if isinstance(error, socket.gaierror) and error.errno in (socket.EAI_NONAME, socket.EAI_NODATA):
        return "the name does not exist, or has no address"
    return _FAILED
