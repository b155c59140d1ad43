"""The floor: what is dialled for nobody, and what exactly a rule lifts."""

from __future__ import annotations

import ipaddress
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dayfly.egress import addresses
from dayfly.egress.addresses import refusal, remedy
from dayfly.network import PRIVATE_RANGES
from tests.egress import vectors

CONFINED = [network for network in PRIVATE_RANGES if network.num_addresses > 1]


@pytest.mark.parametrize("text", vectors.BELOW_THE_FLOOR)
def test_below_the_floor_nobody_is_dialled(text: str) -> None:
    assert refusal(ip_address(text), private=None, own=())


@pytest.mark.parametrize("text", vectors.ABOVE_THE_FLOOR)
def test_what_is_public_may_be_dialled(text: str) -> None:
    assert refusal(ip_address(text), private=None, own=()) is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("10.1.2.3", "a private address (RFC 1918)"),
        ("127.0.0.1", "a loopback address (RFC 1122)"),
        ("169.254.169.254", "the metadata service of most clouds"),
        ("169.254.1.1", "a link-local address (RFC 3927)"),
        ("64:ff9b::a01:203", "a private address (RFC 1918)"),
        ("64:ff9b::a9fe:a9fe", "the metadata service of most clouds"),
        ("::ffff:8.8.8.8", "an IPv4 address spelt as IPv6 (RFC 4291)"),
        ("2001::1", "a Teredo address (RFC 4380)"),
        ("4000::1", "not a global unicast address (RFC 4291)"),
        ("fe80::1%eth0", "an address with a zone, of one link only (RFC 4007)"),
    ],
)
def test_it_says_which_floor(text: str, why: str) -> None:
    assert refusal(ip_address(text), private=None, own=()) == why


@pytest.mark.parametrize("network", [one for one, _ in addresses._RANGES], ids=str)
def test_every_range_of_the_table_is_refused_from_end_to_end(network: ipaddress.IPv4Network) -> None:
    for address in (network[0], network[-1], network[network.num_addresses // 2]):
        assert refusal(address, private=None, own=())


def test_the_narrower_range_comes_first_so_that_its_reason_is_told() -> None:
    seen: list[ipaddress.IPv4Network] = []
    for network, _ in addresses._RANGES:
        assert not any(one.version == network.version and network.subnet_of(one) for one in seen), network
        seen.append(network)


# --- against the library ----------------------------------------------------------------------------------------------

STRICTER = [
    ip_network(one)
    for one in (
        "168.63.129.16/32",  # Azure's
        "192.0.0.0/24",  # two of it are anycast services of IETF protocols
        "192.88.99.0/24",  # 6to4 relays, deprecated since
        "224.0.0.0/4",  # multicast may be global
        "::/3",  # the library calls global what is not special: nobody has been given anything of it
        "2001::/23",  # the same as 192.0.0.0/24
        "2002::/16",
        "3fff::/20",  # of 2024: new to older Pythons
        "4000::/2",
        "8000::/1",
    )
]
"""Where dayfly refuses what some ``ipaddress`` calls global."""


@given(
    st.ip_addresses()
    | st.ip_addresses(network="2000::/3")
    | st.sampled_from([one for one, _ in addresses._RANGES]).flatmap(lambda one: st.ip_addresses(network=one))
)
def test_nothing_is_dialled_that_the_library_calls_special(address: IPv4Address | IPv6Address) -> None:
    refused = refusal(address, private=None, own=()) is not None
    if not refused:
        assert _global(address) or _translated(address)
    elif _global(address):
        assert any(address in one for one in STRICTER if one.version == address.version), address


def _global(address: IPv4Address | IPv6Address) -> bool:
    return address.is_global and not (address.is_multicast or address.is_reserved or address.is_unspecified)


def _translated(address: IPv4Address | IPv6Address) -> bool:
    return any(address in ip_network(one) for one in ("64:ff9b::/96", "64:ff9b:1::/48") if address.version == 6)


# --- what a rule lifts ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("network", CONFINED, ids=str)
def test_private_lifts_exactly_its_range(network: ipaddress.IPv4Network) -> None:
    half, other = network.subnets()
    inside, outside = half[3], other[3]
    assert refusal(inside, private=half, own=()) is None
    assert refusal(outside, private=half, own=())
    assert refusal(inside, private=None, own=())


@pytest.mark.parametrize(
    "private", ["0.0.0.0/0", "0.0.0.0/1", "8.0.0.0/5", "64.0.0.0/2", "126.0.0.0/7", "::/0", "f000::/4"]
)
def test_a_network_that_is_wider_than_a_private_range_lifts_nothing(private: str) -> None:
    for text in vectors.BELOW_THE_FLOOR:
        assert refusal(ip_address(text), private=ip_network(private), own=())


@pytest.mark.parametrize(
    "private",
    ["169.254.0.0/16", "224.0.0.0/4", "198.18.0.0/15", "0.0.0.0/8", "fe80::/10", "ff00::/8", "::ffff:0:0/96", "::/128"],
)
def test_link_local_multicast_and_the_like_are_lifted_by_nothing(private: str) -> None:
    network = ip_network(private)
    assert refusal(network[0], private=network, own=())
    assert refusal(network[-1], private=network, own=())


@pytest.mark.parametrize("text", vectors.METADATA)
def test_metadata_is_lifted_by_nothing(text: str) -> None:
    address = ip_address(text)
    around = [one for one in PRIVATE_RANGES if one.version == address.version]
    for private in (None, ip_network(text), *around):
        assert "metadata" in str(refusal(address, private=private, own=()))


def test_loopback_is_lifted_where_it_is_named() -> None:
    own = {ip_address("127.0.0.1"), ip_address("::1")}
    assert refusal(ip_address("127.0.0.1"), private=ip_network("127.0.0.0/8"), own=own) is None
    assert refusal(ip_address("127.9.9.9"), private=ip_network("127.9.9.0/24"), own=own) is None
    assert refusal(ip_address("::1"), private=ip_network("::1/128"), own=own) is None
    assert refusal(ip_address("127.0.0.1"), private=ip_network("127.9.9.0/24"), own=own)
    assert refusal(ip_address("::1"), private=ip_network("127.0.0.0/8"), own=own)


@pytest.mark.parametrize("text", ["10.0.0.5", "93.184.216.34", "2606:4700::1", "fd00::5", "100.64.0.9"])
def test_the_machines_own_addresses_are_lifted_by_nothing(text: str) -> None:
    address = ip_address(text)
    for private in (None, *[one for one in PRIVATE_RANGES if one.version == address.version]):
        assert refusal(address, private=private, own=[address]) == addresses._OWN


@pytest.mark.parametrize(
    ("text", "link"),
    [
        ("93.184.216.35", "93.184.216.0/24"),
        ("2606:4700::7", "2606:4700::/64"),
        ("64:ff9b::5db8:d823", "93.184.216.0/24"),
    ],
)
def test_neighbours_of_the_machine_are_refused_under_public_addresses_too(text: str, link: str) -> None:
    address, links = ip_address(text), [ip_network(link), ip_network("10.0.0.0/24"), ip_network("127.0.0.0/8")]
    assert refusal(address, private=None, own=(), links=links) == addresses._NEIGHBOUR
    assert refusal(address, private=None, own=(), links=links[1:]) is None
    lifted = refusal(ip_address("10.0.0.9"), private=ip_network("10.0.0.0/8"), own=(), links=links)
    assert lifted is None, "the rule names it"


def test_behind_a_translator_the_embedded_address_counts() -> None:
    private, own = ip_network("10.0.0.0/8"), [ip_address("10.0.0.5"), ip_address("93.184.216.34")]
    assert refusal(ip_address("64:ff9b::a01:203"), private=private, own=own) is None
    assert refusal(ip_address("64:ff9b::a00:5"), private=private, own=own) == addresses._OWN
    assert refusal(ip_address("64:ff9b::5db8:d822"), private=None, own=own) == addresses._OWN
    assert refusal(ip_address("64:ff9b::7f00:1"), private=ip_network("::/0"), own=()) == "a loopback address (RFC 1122)"


def test_a_translators_prefix_hides_neither_metadata_nor_the_machine_itself() -> None:
    own, around = [ip_address("fd00:ec3::808:808")], [IPv6Network("fd00:ec2::/96"), IPv6Network("fd00:ec3::/96")]
    assert (
        refusal(ip_address("fd00:ec2::808:808"), private=None, own=own, nat64=around)
        == "the metadata service of Amazon"
    )
    assert refusal(ip_address("fd00:ec3::808:808"), private=None, own=own, nat64=around) == addresses._OWN
    assert refusal(ip_address("fd00:ec3::808:809"), private=None, own=own, nat64=around) is None


@pytest.mark.parametrize(
    ("prefix", "good", "bad"),
    [  # 192.0.2.33 of RFC 6052's own table, made public and private
        ("2001:4860::/32", "2001:4860:808:808::", "2001:4860:a00:1::"),
        ("2001:4860:100::/40", "2001:4860:108:808:8::", "2001:4860:10a:0:1::"),
        ("2001:4860:122::/48", "2001:4860:122:808:8:800::", "2001:4860:122:a00:0:100::"),
        ("2001:4860:122:300::/56", "2001:4860:122:308:8:808::", "2001:4860:122:30a:0:1::"),
        ("2001:4860:122:344::/64", "2001:4860:122:344:8:808:800::", "2001:4860:122:344:a:0:100::"),
        ("2001:4860:122:344::/96", "2001:4860:122:344::808:808", "2001:4860:122:344::a00:1"),
        ("64:ff9b:1::/48", "64:ff9b:1:808:8:800::", "64:ff9b:1:a00:0:100::"),
    ],
)
def test_the_hosts_own_translator_is_judged_by_its_prefix(prefix: str, good: str, bad: str) -> None:
    around = [IPv6Network(prefix)]
    assert refusal(ip_address(good), private=None, own=(), nat64=around) is None
    assert refusal(ip_address(bad), private=None, own=(), nat64=around) == "a private address (RFC 1918)"


@given(st.ip_addresses(v=4), st.sampled_from([48, 56, 64, 96]), st.integers(0, 2**16 - 1))
def test_no_reading_behind_the_local_prefix_reaches_below_the_floor(v4: IPv4Address, length: int, subnet: int) -> None:
    raw = bytearray(IPv6Address("64:ff9b:1::").packed)
    raw[6:8] = subnet.to_bytes(2, "big")
    places = range(12, 16) if length == 96 else [at for at in range(length // 8, length // 8 + 5) if at != 8]
    for at, byte in zip(places, v4.packed, strict=False):
        raw[at] = byte
    if refusal(v4, private=None, own=()):
        assert refusal(IPv6Address(bytes(raw)), private=None, own=())


@pytest.mark.parametrize("one", PRIVATE_RANGES, ids=str)
def test_what_a_policy_takes_the_floor_lets_be_lifted(one: IPv4Network | IPv6Network) -> None:
    inside = one[-2] if one.num_addresses > 1 else one[0]
    assert refusal(inside, private=None, own=()) is not None
    assert refusal(inside, private=one, own=()) is None


@pytest.mark.parametrize(
    "text", ["10.1.2.3", "127.0.0.1", "100.64.0.1", "fd00::1", "192.0.2.1", "169.254.1.1", "169.254.169.254"]
)
def test_a_rule_is_advised_only_where_one_helps(text: str) -> None:
    address = ip_address(text)
    why = refusal(address, private=None, own=())
    lifting = next((one for one in PRIVATE_RANGES if address in one), None)
    helps = lifting is not None and refusal(address, private=lifting, own=()) is None
    assert why
    assert ("private = 'CIDR'" in remedy(why)) == helps
