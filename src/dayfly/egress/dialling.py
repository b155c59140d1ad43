"""From an allowed name to a connection: resolved, its addresses judged, and exactly one of those dialled."""

from __future__ import annotations

import asyncio
import os
import socket
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from dayfly.egress.addresses import refusal, remedy
from dayfly.egress.interfaces import Interfaces, Watch
from dayfly.egress.resolving import NoSuchName, Resolver, Turns
from dayfly.egress.verdict import Denied

__all__ = ["Dialler", "Network", "PrivateAddress", "Unreachable"]

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

SECONDS = 10.0
"""For one address to answer: three attempts of the kernel."""

MAX_TRIED = 3
"""Addresses of one name that are dialled, one after another."""


class Unreachable(Exception):
    """``str()`` is one sentence for the agent."""


class PrivateAddress(Exception):
    """No address of the name may be dialled. ``str()`` is why, as a clause."""

    def denied(self, host: str, port: int) -> Denied:
        reason = f"{host} leads to {self}, and those are not connected to."
        return Denied(host, port, "private_address", reason, remedy(str(self)))


class Dialler:
    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver
        self._own = Watch()

    async def dial(self, host: str, port: int, private: Network | None, turns: Turns) -> tuple[Address, socket.socket]:
        """A connection, and the address that it goes to. Raises ``Unreachable``, ``PrivateAddress``."""
        try:
            found = await self._resolver.addresses(host, turns)
        except NoSuchName as error:
            raise Unreachable(f"{host}: {error}.") from None
        last = "no answer"
        for address in _admitted(found, private, self._own.now())[:MAX_TRIED]:
            try:
                return address, await _connected(address, port)
            except OSError as error:  # also a time-out
                last = _clause(error)
        raise Unreachable(f"{host}, port {port}: {last}.")


def _admitted(found: list[Address], private: Network | None, own: Interfaces) -> list[Address]:
    refused = {address: refusal(address, private=private, own=own.addresses, links=own.links) for address in found}
    admitted = [address for address, why in refused.items() if why is None]
    if not admitted:
        raise PrivateAddress(next((why for why in refused.values() if why), "it has no address"))
    return admitted


async def _connected(address: Address, port: int) -> socket.socket:
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    upstream = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        upstream.setblocking(False)
        upstream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        upstream.setsockopt(
            socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1
        )  # an idle tunnel ends when the other side is gone
        async with asyncio.timeout(SECONDS):
            # Text of an address, never a name: there is nothing left to resolve.
            await asyncio.get_running_loop().sock_connect(upstream, (str(address), port))
        return upstream
    except BaseException:
        upstream.close()
        raise


def _clause(error: OSError) -> str:
    if isinstance(error, TimeoutError) or error.errno is None:
        return f"no answer within {SECONDS:.0f} s"
    return os.strerror(error.errno).lower()
