"""The addresses that this machine has itself, as the kernel lists them now (rtnetlink(7))."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address

__all__ = ["own_addresses"]

_NLMSG_DONE = 3
_NLMSG_ERROR = 2
_RTM_GETADDR = 22
_RTM_NEWADDR = 20
_REQUEST_DUMP = 0x301  # NLM_F_REQUEST | NLM_F_ROOT | NLM_F_MATCH
_IFA_ADDRESS = 1
_IFA_LOCAL = 2  # ours, where IFA_ADDRESS is the other end of a point-to-point link
_HEADER = struct.Struct("=IHHII")
_IFADDRMSG = struct.Struct("=BBBBI")
_ATTRIBUTE = struct.Struct("=HH")


def own_addresses() -> frozenset[IPv4Address | IPv6Address]:
    """Of all interfaces, some 50 us. Raises ``OSError``."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0) as kernel:
        kernel.settimeout(1)
        kernel.sendto(_HEADER.pack(_HEADER.size + 8, _RTM_GETADDR, _REQUEST_DUMP, 1, 0) + bytes(8), (0, 0))
        found: set[IPv4Address | IPv6Address] = set()
        while True:
            for kind, body in _messages(kernel.recv(64 * 1024)):
                if kind == _NLMSG_ERROR:
                    raise OSError("the kernel does not list this machine's addresses")
                if kind == _NLMSG_DONE:
                    return frozenset(found)
                if kind == _RTM_NEWADDR:
                    found.update(_addresses(body))


def _messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    while len(data) >= _HEADER.size:
        length, kind, *_ = _HEADER.unpack_from(data)
        yield kind, data[_HEADER.size : length]
        data = data[max(_aligned(length), _HEADER.size) :]


def _addresses(body: bytes) -> Iterator[IPv4Address | IPv6Address]:
    """Both ends of a link that has two: the other end is as little public."""
    data = body[_IFADDRMSG.size :]
    while len(data) >= _ATTRIBUTE.size:
        length, kind = _ATTRIBUTE.unpack_from(data)
        value = data[_ATTRIBUTE.size : length]
        if kind in (_IFA_ADDRESS, _IFA_LOCAL) and len(value) in (4, 16):
            yield ip_address(value)
        data = data[max(_aligned(length), _ATTRIBUTE.size) :]


def _aligned(length: int) -> int:
    return (length + 3) & ~3
