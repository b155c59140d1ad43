"""A name is judged, then resolved, its addresses judged, and exactly one of those is dialled: with a real resolver and real
packets, in namespaces where public and private addresses are ours."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from dayfly.egress.client import EgressDenied, EgressUnreachable, Gateway
from dayfly.egress.terms import Terms
from dayfly.network import Rule
from dayfly.prove.internet import NEAR, NEIGHBOUR, PRIVATE, PUBLIC, Internet, Names
from tests.egress.canary import Canary, until
from tests.egress.conftest import emptied

PORT = 7000


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def kept_there(internet: Internet) -> AsyncIterator[Gateway]:
    made = await Gateway.start(within=internet.within)
    yield made
    await made.close()


@pytest_asyncio.fixture(loop_scope="module")
async def outside(kept_there: Gateway) -> AsyncIterator[Gateway]:
    async with emptied(kept_there) as empty:
        yield empty


@pytest_asyncio.fixture(loop_scope="module")
async def names(internet: Internet) -> AsyncIterator[Names]:
    made = Names()
    await made.listen(internet.bind("near", "udp", "127.0.0.1", 53))
    yield made
    made.close()


@pytest_asyncio.fixture(loop_scope="module")
async def public(internet: Internet) -> AsyncIterator[Canary]:
    made = await Canary().listen(internet.bind("far", "tcp", PUBLIC[0], PORT))
    yield made
    await made.close()


def rule(host: str, **more: object) -> Rule:
    return Rule(host=host, ports=[PORT], protocol="tcp", **more)


async def refused(gateway: Gateway, host: str, port: int = PORT) -> str:
    with pytest.raises(EgressDenied) as caught:
        await gateway.connect("one", host, port)
    return caught.value.denied.code


async def said_through(gateway: Gateway, host: str) -> tuple[str, bytes]:
    tunnel = await gateway.connect("one", host, PORT)
    await tunnel.write(b"hello")
    answer = await tunnel.read(100)
    tunnel.close()
    return tunnel.address, answer


async def test_a_public_name_is_resolved_and_reached(outside: Gateway, names: Names, public: Canary) -> None:
    names.table["api.example.com"] = [[PUBLIC[0]]]
    await outside.admit("one", Terms(rules=(rule("api.example.com"),)))
    assert await said_through(outside, "API.example.com.") == (PUBLIC[0], b"hello")
    assert set(names.asked) == {"api.example.com"}  # nobody's search list


async def test_nobody_is_asked_for_a_name_that_no_rule_allows(outside: Gateway, names: Names, public: Canary) -> None:
    names.table["evil.example.net"] = [[PUBLIC[0]]]
    await outside.admit("one", Terms(rules=(rule("api.example.com"), rule("*.wild.example.com"))))
    for host in (
        "evil.example.net",
        "secret-data.evil.example.net",
        "example.com",
        "wild.example.com",
        "a.b.wild.example.com",
    ):
        assert await refused(outside, host) == "not_listed"
    assert await refused(outside, "api.example.com", 443) == "port_not_listed"
    for host in (PUBLIC[0], "0x5db8d822", "[::1]", "1572395042"):
        assert await refused(outside, host) == "literal_address"
    for host in ("", "a..b", "api.example.com\0.evil.example.net", "user@api.example.com", "x" * 5000):
        assert await refused(outside, host) == "bad_name"
    assert names.asked == []
    assert public.visits == []


@pytest.mark.parametrize(
    "address", [*PRIVATE, NEIGHBOUR, NEAR, "127.0.0.1", "0.0.0.0", "224.0.0.1", "::1", "::ffff:10.1.2.3", "fd00:7::1"]
)
async def test_no_name_leads_to_an_address_that_is_not_public(
    outside: Gateway, names: Names, internet: Internet, address: str
) -> None:
    reachable = address in (*PRIVATE, NEIGHBOUR)
    canary = await Canary().listen(
        internet.bind("far" if reachable else "near", "tcp", address if reachable else "0.0.0.0", PORT)
    )
    names.table["api.example.com"] = [[address]]
    await outside.admit("one", Terms(rules=(rule("api.example.com"),)))
    assert await refused(outside, "api.example.com") == "private_address"
    assert names.asked  # it was looked up, and not dialled
    assert canary.visits == []
    await canary.close()


async def test_a_private_rule_reaches_exactly_its_range(outside: Gateway, names: Names, internet: Internet) -> None:
    """The control of the test above: the same address can be reached when it may be."""
    canary = await Canary().listen(internet.bind("far", "tcp", "10.1.2.3", PORT))
    names.table["db.example.com"] = [["10.1.2.3"]]
    names.table["other.example.com"] = [["192.168.7.7"]]
    await outside.admit(
        "one", Terms(rules=tuple(rule(host, private="10.1.2.0/24") for host in ("db.example.com", "other.example.com")))
    )
    assert await said_through(outside, "db.example.com") == ("10.1.2.3", b"hello")
    assert await refused(outside, "other.example.com") == "private_address"
    await canary.close()


async def test_a_name_that_changes_its_mind_is_judged_each_time(
    outside: Gateway, names: Names, public: Canary, internet: Internet
) -> None:
    metadata = await Canary().listen(internet.bind("far", "tcp", "169.254.169.254", PORT))
    names.table["flip.example.com"] = [[PUBLIC[0]], ["169.254.169.254"], ["10.1.2.3"], [PUBLIC[0]]]
    await outside.admit("one", Terms(rules=(rule("flip.example.com"),)))
    assert (await said_through(outside, "flip.example.com"))[0] == PUBLIC[0]
    assert await refused(outside, "flip.example.com") == "private_address"
    assert await refused(outside, "flip.example.com") == "private_address"
    assert (await said_through(outside, "flip.example.com"))[0] == PUBLIC[0]
    assert metadata.visits == []
    await metadata.close()


async def test_what_was_judged_is_what_is_dialled(outside: Gateway, names: Names, public: Canary) -> None:
    """Between the answer and the connection there is no second look-up that could say something else."""
    names.table["api.example.com"] = [[PUBLIC[0]], ["10.1.2.3"]]
    await outside.admit("one", Terms(rules=(rule("api.example.com"),)))
    tunnel = await outside.connect("one", "api.example.com", PORT)
    assert tunnel.address == PUBLIC[0]
    assert names.asked == ["api.example.com"] * 2  # A and AAAA, once
    tunnel.close()


async def test_of_mixed_answers_only_the_public_ones_are_dialled(
    outside: Gateway, names: Names, public: Canary
) -> None:
    names.table["api.example.com"] = [["10.1.2.3", "127.0.0.1", PUBLIC[0], "169.254.169.254"]]
    await outside.admit("one", Terms(rules=(rule("api.example.com"),)))
    assert (await said_through(outside, "api.example.com"))[0] == PUBLIC[0]


async def test_addresses_are_tried_in_turn(outside: Gateway, names: Names, internet: Internet) -> None:
    second = await Canary().listen(internet.bind("far", "tcp", PUBLIC[1], PORT))
    names.table["api.example.com"] = [[PUBLIC[0], PUBLIC[1]]]
    await outside.admit("one", Terms(rules=(rule("api.example.com"),)))
    assert await said_through(outside, "api.example.com") == (PUBLIC[1], b"hello")
    await second.close()


async def test_ipv6_is_dialled_as_well(outside: Gateway, names: Names, internet: Internet) -> None:
    canary = await Canary().listen(internet.bind("far", "tcp", PUBLIC[2], PORT))
    names.table["six.example.com"] = [[PUBLIC[2]]]
    await outside.admit("one", Terms(rules=(rule("six.example.com"),)))
    assert await said_through(outside, "six.example.com") == (PUBLIC[2], b"hello")
    await canary.close()


async def test_a_name_of_the_hosts_file_needs_a_private_rule_too(outside: Gateway, names: Names) -> None:
    await outside.admit("one", Terms(rules=(rule("wiki.inside.example"),)))
    assert await refused(outside, "wiki.inside.example") == "private_address"


async def test_no_such_name_and_no_such_server_are_told_apart(outside: Gateway, names: Names) -> None:
    names.table["api.example.com"] = [[PUBLIC[0]]]
    await outside.admit("one", Terms(rules=(rule("api.example.com"), rule("gone.example.com"))))
    with pytest.raises(EgressUnreachable, match="does not exist"):
        await outside.connect("one", "gone.example.com", PORT)
    assert set(names.asked) == {"gone.example.com"}
    with pytest.raises(EgressUnreachable, match="refused"):
        await outside.connect("one", "api.example.com", PORT)


async def test_slow_names_of_one_sandbox_do_not_hold_up_another(outside: Gateway, names: Names, public: Canary) -> None:
    names.silent = "slow.example.com"
    await outside.admit("slow", Terms(rules=(rule("*.slow.example.com"),)))
    waiting = [asyncio.ensure_future(outside.connect("slow", f"n{n}.slow.example.com", PORT)) for n in range(40)]
    await until(lambda: len(names.asked) >= 4)
    names.table["api.example.com"] = [[PUBLIC[0]]]
    await outside.admit("one", Terms(rules=(rule("api.example.com"),)))
    assert (await said_through(outside, "api.example.com"))[0] == PUBLIC[0]
    assert len({name for name in names.asked if "slow" in name}) <= 4
    for one in waiting:
        one.cancel()
    await asyncio.wait(waiting)
