"""The floor: addresses that a gateway dials for nobody, whatever a rule says. Only globally routable unicast lies above it.

The ranges are listed here, each with its source, and not asked of ``ipaddress``, whose answers change from one Python to the
next; a test holds the two against each other. An IPv6 address that stands for an IPv4 address is judged by that one where a
translator would go there on its own (NAT64), and is refused where only a tunnel could (6to4, Teredo) or where it is another
spelling (IPv4-mapped).
"""

from __future__ import annotations

from collections.abc import Collection
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network

from dayfly.network import PRIVATE_RANGES, within

__all__ = ["refusal", "remedy"]

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_PRIVATE = "a private address"
_LOOPBACK = "a loopback address"

# The first range that holds the address gives the reason, so that narrower ones come first. IANA's registries of
# special-purpose addresses (RFC 6890) are the frame; what they do not have is marked.
_METADATA = tuple(
    (ip_network(cidr), f"the metadata service of {whose}")
    for cidr, whose in (
        ("169.254.169.254/32", "most clouds"),
        ("169.254.170.2/32", "Amazon's containers"),
        ("169.254.170.23/32", "Amazon's containers"),
        ("fd00:ec2::/32", "Amazon"),  # ::254 metadata, ::23 credentials of pods, ::253 DNS, ::123 time
        ("100.100.100.200/32", "Alibaba"),
        ("100.80.80.80/32", "UCloud"),
        ("100.96.0.96/32", "Volcano Engine"),
        ("168.63.129.16/32", "Azure"),  # the wire server: looks public, is the host under the machine
        ("192.0.0.192/32", "Oracle"),
        ("fd00:c1::a9fe:a9fe/128", "Oracle"),
        ("fd20:ce::254/128", "Google"),
        ("fd00:42::42/128", "Scaleway"),
    )
)
"""No rule lifts these, though some lie in ranges that can be lifted. From the clouds' own manuals and programs."""

_RANGES = tuple(
    (ip_network(cidr), what)
    for cidr, what in (
        ("0.0.0.0/8", "an address of this network (RFC 791)"),  # Linux takes 0.0.0.0 for itself
        ("10.0.0.0/8", f"{_PRIVATE} (RFC 1918)"),
        ("100.64.0.0/10", "a carrier's shared address (RFC 6598)"),
        ("127.0.0.0/8", f"{_LOOPBACK} (RFC 1122)"),
        ("169.254.0.0/16", "a link-local address (RFC 3927)"),
        ("172.16.0.0/12", f"{_PRIVATE} (RFC 1918)"),
        ("192.0.0.0/24", "an address of IETF protocols (RFC 6890)"),
        ("192.0.2.0/24", "an address for documentation (RFC 5737)"),
        ("192.88.99.0/24", "an address of 6to4 relays (RFC 7526)"),
        ("192.168.0.0/16", f"{_PRIVATE} (RFC 1918)"),
        ("198.18.0.0/15", "an address for benchmarks (RFC 2544)"),
        ("198.51.100.0/24", "an address for documentation (RFC 5737)"),
        ("203.0.113.0/24", "an address for documentation (RFC 5737)"),
        ("224.0.0.0/4", "a multicast address (RFC 5771)"),
        ("255.255.255.255/32", "the broadcast address (RFC 919)"),
        ("240.0.0.0/4", "a reserved address (RFC 1112)"),
        ("::/128", "the unspecified address (RFC 4291)"),
        ("::1/128", f"{_LOOPBACK} (RFC 4291)"),
        ("::ffff:0:0/96", "an IPv4 address spelt as IPv6 (RFC 4291)"),
        ("::ffff:0:0:0/96", "an IPv4 address of a translator (RFC 2765)"),
        ("::/96", "an IPv4 address spelt as IPv6 (RFC 4291)"),
        ("100::/64", "an address that discards (RFC 6666)"),
        ("100:0:0:1::/64", "a dummy prefix (RFC 9780)"),
        ("2001::/32", "a Teredo address (RFC 4380)"),
        ("2001:2::/48", "an address for benchmarks (RFC 5180)"),
        ("2001:10::/28", "an ORCHID, which is no address (RFC 4843)"),
        ("2001:20::/28", "an ORCHID, which is no address (RFC 7343)"),
        ("2001:30::/28", "a drone's tag, which is no address (RFC 9374)"),
        ("2001::/23", "an address of IETF protocols (RFC 2928)"),
        ("2001:db8::/32", "an address for documentation (RFC 3849)"),
        ("2002::/16", "a 6to4 address (RFC 3056)"),
        ("3fff::/20", "an address for documentation (RFC 9637)"),
        ("5f00::/16", "a segment's identifier (RFC 9602)"),
        ("fc00::/7", f"{_PRIVATE} (RFC 4193)"),
        ("fe80::/10", "a link-local address (RFC 4291)"),
        ("fec0::/10", "a site-local address (RFC 3879)"),
        ("ff00::/8", "a multicast address (RFC 4291)"),
    )
)

_GLOBAL_UNICAST = IPv6Network("2000::/3")
"""All that IANA gives out of IPv6 (RFC 4291, 3587). What lies outside is refused even where no line above names it."""

_NAT64 = IPv6Network("64:ff9b::/96")
"""The well-known prefix of translators (RFC 6052): the last 32 bits are the IPv4 address."""

_NAT64_LOCAL = IPv6Network("64:ff9b:1::/48")
"""For translators inside a site (RFC 8215), with a prefix of any length from 48. Unless ``nat64`` tells it, every reading that
the address allows has to be a good one; in practice that leaves prefixes of 96 bits."""

_NAT64_LENGTHS = (48, 56, 64, 96)


def refusal(
    address: Address,
    *,
    private: Network | None,
    own: Collection[Address],
    links: Collection[Network] = (),
    nat64: Collection[IPv6Network] = (),
) -> str | None:
    """Why ``address`` is not dialled, as a noun phrase ("a private address (RFC 1918)"), or ``None``: it may be.

    ``private`` is the rule's: addresses that are allowed although they are private. It lifts RFC 1918, shared, unique local and
    loopback addresses, and nothing else of the floor. ``own``: the addresses of this machine's interfaces, refused but for
    loopback that ``private`` lifts. ``links``: the networks that those are in. Whoever is there is the operator's neighbour, and
    often lets in who comes from beside it, also under a public address: refused, but for what ``private`` lifts. ``nat64``:
    prefixes of translators around here (RFC 6052: of 32, 40, 48, 56, 64 or 96 bits), beside the well-known one, as the host's
    operator says: behind them the IPv4 address counts, so a prefix that somebody else could tell would open what lies below
    the floor. Raises nothing.
    """
    if isinstance(address, IPv6Address) and address.scope_id is not None:
        return "an address with a zone, of one link only (RFC 4007)"
    for network, what in _METADATA:
        if address in network:
            return what
    if address in own and not address.is_loopback:
        return _OWN
    embedded = _embedded(address, nat64)
    if embedded:
        return next(filter(None, (refusal(one, private=private, own=own, links=links) for one in embedded)), None)
    if _lifted(address, private):
        return None
    return _below_the_floor(address) or (_NEIGHBOUR if any(address in link for link in links) else None)


_OWN = "an address of the machine that the gateway runs on"
_NEIGHBOUR = "an address in a network that the gateway's machine is itself in"


_LIFTABLE = frozenset(what for network, what in _RANGES if any(within(network, one) for one in PRIVATE_RANGES))


def remedy(why: str) -> str:
    """What to do about what ``refusal`` has said."""
    if why in _LIFTABLE:
        return "Use a public name, or ask for a rule with private = 'CIDR' for this host."
    return "Use a name that leads to a public address: no rule allows this one."


def _lifted(address: Address, private: Network | None) -> bool:
    """Where both lie in the same private range: a wide network (0.0.0.0/0) lifts nothing, and one that names loopback only
    lifts loopback."""
    if private is None or address not in private:
        return False
    return any(address in one and within(private, one) for one in PRIVATE_RANGES)


def _below_the_floor(address: Address) -> str | None:
    for network, what in _RANGES:
        if address in network:
            return what
    if isinstance(address, IPv6Address) and address not in _GLOBAL_UNICAST:
        return "not a global unicast address (RFC 4291)"
    return None


def _embedded(address: Address, nat64: Collection[IPv6Network]) -> list[IPv4Address]:
    """The IPv4 addresses that a translator would make of it, if it is a translator's: more than one where its prefix may
    be of more than one length."""
    if isinstance(address, IPv4Address):
        return []
    for prefix in (*nat64, _NAT64):
        if address in prefix:
            return [_read(address, prefix.prefixlen)]
    if address in _NAT64_LOCAL:
        return [_read(address, length) for length in _NAT64_LENGTHS if _well_formed(address, length)]
    return []


def _read(address: IPv6Address, length: int) -> IPv4Address:
    """RFC 6052, 2.2: behind the prefix, around the ninth byte, which is zero."""
    raw = address.packed
    if length == 96:
        return IPv4Address(raw[12:])
    begin = length // 8
    return IPv4Address((raw[begin:8] + raw[9:])[:4])


def _well_formed(address: IPv6Address, length: int) -> bool:
    """Whether the ninth byte, and what would lie behind the IPv4 address, is zero."""
    raw = address.packed
    behind = b"" if length == 96 else (raw[length // 8 : 8] + raw[9:])[4:]
    return raw[8] == 0 and not any(behind)
