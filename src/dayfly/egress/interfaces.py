"""The addresses that this machine has itself, and the networks that it is in, as the kernel lists them now (rtnetlink(7))."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

__all__ = ["Interfaces", "Watch", "interfaces"]

_NLMSG_DONE = 3
_NLMSG_ERROR = 2
_RTM_GETADDR = 22
_RTM_NEWADDR = 20
_REQUEST_DUMP = 0x301  # NLM_F_REQUEST | NLM_F_ROOT | NLM_F_MATCH
_IFA_ADDRESS = 1
_IFA_LOCAL = 2  # ours, where IFA_ADDRESS is the other end of a point-to-point link
_NEWS = 0x10 | 0x100 | 0x400
"""RTMGRP_IPV4_IFADDR, RTMGRP_IPV6_IFADDR, and RTMGRP_IPV6_ROUTE: of an address that the kernel still looks for twins of, only the
network is told of at first."""
_NEWS_AT_ONCE = 64

_HEADER = struct.Struct("=IHHII")
_IFADDRMSG = struct.Struct("=BBBBI")
_ATTRIBUTE = struct.Struct("=HH")


@dataclass
class Interfaces:
    """``addresses``: of this machine, and of the other end of links that have two. ``links``: the networks behind which no router
    stands, as far as their addresses tell; none that is everything."""

    addresses: set[IPv4Address | IPv6Address] = field(default_factory=set)
    links: set[IPv4Network | IPv6Network] = field(default_factory=set)


class Watch:
    """What the kernel would list now. It is asked again only when it has told that something has changed, which takes a fiftieth of
    the time; one that has told more than was listened to has told that."""

    def __init__(self) -> None:
        self._news: socket.socket | None = None
        self._known: Interfaces | None = None

    def now(self) -> Interfaces:
        """Not to be changed. Raises ``OSError``."""
        if self._news is None:
            self._news = _subscribed()  # before the first list, so that nothing falls between
        if self._changed(self._news):
            self._known = None
        if self._known is None:
            self._known = interfaces()
        return self._known

    def close(self) -> None:
        if self._news is not None:
            self._news.close()
            self._news = None
            self._known = None

    def _changed(self, news: socket.socket) -> bool:
        for count in range(_NEWS_AT_ONCE):
            try:
                news.recv(1)
            except BlockingIOError:
                return count > 0
            except OSError:  # ENOBUFS: some of it is lost
                return True
        return True


def _subscribed() -> socket.socket:
    news = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK, 0)
    try:
        news.bind((0, _NEWS))
    except BaseException:
        news.close()
        raise
    return news


def interfaces() -> Interfaces:
    """All of them, some 100 us. Raises ``OSError``."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0) as kernel:
        kernel.settimeout(1)
        kernel.sendto(_HEADER.pack(_HEADER.size + 8, _RTM_GETADDR, _REQUEST_DUMP, 1, 0) + bytes(8), (0, 0))
        found = Interfaces()
        while True:
            for kind, body in _messages(kernel.recv(64 * 1024)):
                if kind == _NLMSG_ERROR:
                    raise OSError("the kernel does not list this machine's addresses")
                if kind == _NLMSG_DONE:
                    return found
                if kind == _RTM_NEWADDR:
                    _add(found, body)


def _messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    while len(data) >= _HEADER.size:
        length, kind, *_ = _HEADER.unpack_from(data)
        yield kind, data[_HEADER.size : length]
        data = data[max(_aligned(length), _HEADER.size) :]


def _add(found: Interfaces, body: bytes) -> None:
    """Both ends of a link that has two: the other end is as little public."""
    _, length, *_ = _IFADDRMSG.unpack_from(body)
    for kind, address in _addresses(body[_IFADDRMSG.size :]):
        found.addresses.add(address)
        if kind == _IFA_ADDRESS and length:
            found.links.add(ip_network((address, length), strict=False))


def _addresses(data: bytes) -> Iterator[tuple[int, IPv4Address | IPv6Address]]:
    while len(data) >= _ATTRIBUTE.size:
        length, kind = _ATTRIBUTE.unpack_from(data)
        value = data[_ATTRIBUTE.size : length]
        if kind in (_IFA_ADDRESS, _IFA_LOCAL) and len(value) in (4, 16):
            yield kind, ip_address(value)
        data = data[max(_aligned(length), _ATTRIBUTE.size) :]


def _aligned(length: int) -> int:
    return (length + 3) & ~3
