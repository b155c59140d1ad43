"""Private addresses that a rule may lift the floor for."""

from __future__ import annotations

import ipaddress
from ipaddress import IPv4Network, IPv6Network

from dayfly.limits import Unfit

__all__ = ["PRIVATE_RANGES", "private_range", "within"]

PRIVATE_RANGES = tuple(
    ipaddress.ip_network(one)
    for one in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "127.0.0.0/8", "fc00::/7", "::1/128")
)
"""Inside of which ``private`` may lie. Link-local, multicast and the like have no services that a rule could mean."""


def private_range(value: object) -> IPv4Network | IPv6Network:
    """A range of private addresses, from text. Raises ``Unfit``."""
    try:
        network = ipaddress.ip_network(value if isinstance(value, (IPv4Network, IPv6Network)) else str(value))
    except ValueError:
        raise Unfit(
            f"not a network: {value!a:.80}", "write it as '10.1.2.0/24', with no bits behind the 24th"
        ) from None
    if not any(within(network, one) for one in PRIVATE_RANGES):
        ranges = ", ".join(str(one) for one in PRIVATE_RANGES)
        raise Unfit(
            f"{network} is not inside a private range",
            f"give a part of one of {ranges}; public addresses need no private",
        )
    return network


def within(network: IPv4Network | IPv6Network, other: IPv4Network | IPv6Network) -> bool:
    """Whether ``network`` is a part of ``other``."""
    if isinstance(network, IPv4Network):
        return isinstance(other, IPv4Network) and network.subnet_of(other)
    return isinstance(other, IPv6Network) and network.subnet_of(other)
