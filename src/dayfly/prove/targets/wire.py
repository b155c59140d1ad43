"""What comes out of a box: every packet on its only link, heard at the other end."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from ipaddress import IPv4Address, IPv6Address

__all__ = ["Wire", "told"]

MOST_HEARD = 200
"""Bytes of a packet: its addresses and ports are in the first ones."""

MOST_NOTED = 1000
"""Packets of one attempt: an attempt sends some forty."""

CONTROL_ADDRESS = ("198.51.100.99", 9)
"""Where the judge itself sends, to know that packets are heard. Reserved for documentation."""

HEARD_SECONDS = 2.0
"""For its own packet, which takes a millisecond."""

_PROTOCOLS = {1: "ICMP", 6: "TCP", 17: "UDP"}
_KERNELS_OWN = {0, 2, 58}
"""IPv6's hop-by-hop options, IGMP and ICMPv6: a kernel says them by itself when it gets a device."""

_OUTGOING = 4  # PACKET_OUTGOING: the other end's own answers


def told(packet: bytes) -> str | None:
    """Whither it was sent, for people; ``None``: nothing that code inside has sent."""
    if len(packet) < 20:
        return None
    if packet[0] >> 4 == 4:
        protocol, target, rest = packet[9], str(IPv4Address(packet[16:20])), packet[(packet[0] & 15) * 4 :]
    elif packet[0] >> 4 == 6 and len(packet) >= 40:
        protocol, target, rest = packet[6], str(IPv6Address(packet[24:40])), packet[40:]
    else:
        return None
    if protocol in _KERNELS_OWN:
        return None
    name = _PROTOCOLS.get(protocol, f"protocol {protocol}")
    if name == "ICMP" or len(rest) < 4:
        return f"{name} to {target}"
    return f"{name} to {target} port {struct.unpack('!H', rest[2:4])[0]}"


class Wire:
    """``hearing``: a packet socket at the other end of the link."""

    def __init__(self, hearing: socket.socket) -> None:
        hearing.setblocking(False)
        self._hearing = hearing
        self._since: dict[str, None] = {}

    async def alive(self) -> str:
        """Why it proves nothing; empty: it has heard the judge itself just now."""
        address, port = CONTROL_ADDRESS
        with contextlib.suppress(OSError, TimeoutError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.sendto(b"the judge itself", CONTROL_ADDRESS)
            async with asyncio.timeout(HEARD_SECONDS):
                while f"UDP to {address} port {port}" not in self.heard():
                    await self._more()
            self.watch()
            return ""
        return "nobody hears what comes out of the box"

    async def _more(self) -> None:
        """Until there is a packet."""
        came, loop = asyncio.Event(), asyncio.get_running_loop()
        loop.add_reader(self._hearing, came.set)
        try:
            await came.wait()
        finally:
            loop.remove_reader(self._hearing)

    def watch(self) -> None:
        """From now on."""
        self.heard()
        self._since.clear()

    def heard(self) -> tuple[str, ...]:
        """What came out since, each once, in its order. The link is synchronous: whatever was sent is here."""
        with contextlib.suppress(BlockingIOError):
            while True:
                packet, address = self._hearing.recvfrom(MOST_HEARD)
                said = None if address[2] == _OUTGOING else told(packet)
                if said is not None and len(self._since) < MOST_NOTED:
                    self._since[said] = None
        return tuple(self._since)
