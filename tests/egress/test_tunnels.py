"""Bytes through a real gateway to a real server, and how that ends."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress

import pytest
import pytest_asyncio

from dayfly.egress.client import MOST_EARLY, Closed, EgressDenied, EgressUnreachable, Gateway, Tunnel
from dayfly.egress.guests import MOST_CONNECTIONS
from dayfly.egress.terms import Terms
from dayfly.manager.outlet import Outlet
from tests.egress.canary import Canary, Visit, until
from tests.egress.conftest import emptied, local

pytestmark = pytest.mark.asyncio(loop_scope="module")


class Ends:
    """What the gateway tells of ended tunnels."""

    def __init__(self, gateway: Gateway) -> None:
        self.queue: asyncio.Queue[tuple[str, Closed]] = asyncio.Queue()
        gateway.on_closed = lambda sandbox, closed: self.queue.put_nowait((sandbox, closed))

    async def next(self) -> Closed:
        return (await asyncio.wait_for(self.queue.get(), 10))[1]


@pytest_asyncio.fixture(loop_scope="module")
async def gateway(kept: Gateway) -> AsyncIterator[Gateway]:
    async with emptied(kept) as empty:
        yield empty


@pytest_asyncio.fixture(loop_scope="module")
async def canary() -> AsyncIterator[Canary]:
    made = await Canary().listen()
    yield made
    await made.close()


@pytest.fixture
def ends(gateway: Gateway) -> Ends:
    return Ends(gateway)


async def read_all(tunnel: Tunnel) -> bytes:
    pieces = []
    while piece := await tunnel.read(1 << 20):
        pieces.append(piece)
    return b"".join(pieces)


async def test_what_is_said_early_is_judged_counted_and_passed_as_if_it_came_late(
    gateway: Gateway, canary: Canary, ends: Ends
) -> None:
    await gateway.admit("one", Terms(rules=local(canary.port)))
    tunnel = await gateway.connect("one", "localhost", canary.port, b"x" * (MOST_EARLY + 9))
    assert tunnel.sent == MOST_EARLY
    await tunnel.write(b"y" * 9)
    tunnel.write_eof()
    assert await read_all(tunnel) == b"x" * MOST_EARLY + b"y" * 9
    assert (await ends.next()).sent == tunnel.sent == MOST_EARLY + 9
    tunnel.close()
    with pytest.raises(EgressDenied):
        await gateway.connect("one", "other.example", canary.port, b"hello")
    await gateway.admit("one", Terms(rules=local(canary.port, "tls")))
    ended = await gateway.connect("one", "localhost", canary.port, b"hello")
    with pytest.raises(ConnectionResetError):
        await ended.read(100)
    assert (await ends.next()).why == "not_tls"
    ended.close()
    assert [bytes(visit.said) for visit in canary.visits] == [b"x" * MOST_EARLY + b"y" * 9, b""]


async def test_bytes_go_both_ways_and_the_end_is_told_with_counts(gateway: Gateway, canary: Canary, ends: Ends) -> None:
    await gateway.admit("one", Terms(rules=local(canary.port)))
    tunnel = await gateway.connect("one", "LocalHost.", canary.port)
    await tunnel.write(b"hello")
    assert await tunnel.read(100) == b"hello"
    tunnel.write_eof()
    assert await tunnel.read(100) == b""
    closed = await ends.next()
    assert (closed.host, closed.port, closed.rule, closed.address) == ("localhost", canary.port, 0, "127.0.0.1")
    assert (closed.sent, closed.received, closed.why) == (5, 5, "done")
    assert 0 < closed.seconds < 10
    assert tunnel.closed == closed
    assert tunnel.denied is None
    tunnel.close()
    tunnel.close()
    assert await tunnel.read(1) == b""
    with pytest.raises(BrokenPipeError):
        await tunnel.write(b"x")


@pytest.mark.usefixtures("descriptors")
async def test_much_arrives_whole_and_leaves_nothing(gateway: Gateway, canary: Canary, ends: Ends) -> None:
    await gateway.admit("one", Terms(rules=local(canary.port)))
    content = os.urandom(1 << 20) * 20
    tunnel = await gateway.connect("one", "localhost", canary.port)

    async def send() -> None:
        await tunnel.write(content)
        tunnel.write_eof()

    sending = asyncio.ensure_future(send())
    assert hashlib.sha256(await read_all(tunnel)).digest() == hashlib.sha256(content).digest()
    await sending
    tunnel.close()
    assert (await ends.next()).received == len(content)
    await canary.visits[0].over.wait()
    await until(lambda: canary.visits[0].writer.transport.is_closing())


async def test_a_half_closed_tunnel_goes_on_the_other_way(gateway: Gateway, canary: Canary) -> None:
    async def answer_at_the_end(visit: Visit) -> None:
        await visit.read_all()
        visit.writer.write(b"you said " + bytes(visit.said))

    canary.behave = answer_at_the_end
    await gateway.admit("one", Terms(rules=local(canary.port)))
    tunnel = await gateway.connect("one", "localhost", canary.port)
    await tunnel.write(b"all")
    tunnel.write_eof()
    assert await read_all(tunnel) == b"you said all"
    tunnel.close()


async def test_a_server_that_says_all_first_can_still_be_written_to(gateway: Gateway, canary: Canary) -> None:
    async def speak_then_listen(visit: Visit) -> None:
        visit.writer.write(b"banner")
        visit.writer.write_eof()
        await visit.read_all()

    canary.behave = speak_then_listen
    await gateway.admit("one", Terms(rules=local(canary.port)))
    tunnel = await gateway.connect("one", "localhost", canary.port)
    assert await read_all(tunnel) == b"banner"
    await tunnel.write(b"late")
    tunnel.write_eof()
    visit = await canary.visit()
    await visit.over.wait()
    assert (bytes(visit.said), visit.eof) == (b"late", True)
    tunnel.close()


async def test_half_an_answer_does_not_look_like_a_whole_one(gateway: Gateway, canary: Canary, ends: Ends) -> None:
    async def break_off(visit: Visit) -> None:
        visit.writer.write(b"half")
        await visit.read()
        visit.reset()

    canary.behave = break_off
    await gateway.admit("one", Terms(rules=local(canary.port)))
    tunnel = await gateway.connect("one", "localhost", canary.port)
    assert await tunnel.read(10) == b"half"
    await tunnel.write(b"x")
    with pytest.raises(ConnectionResetError, match="reset"):
        await tunnel.read(10)
    assert (await ends.next()).why == "reset"
    tunnel.close()


async def test_what_is_left_by_the_sandbox_is_broken_off_at_the_server(
    gateway: Gateway, canary: Canary, ends: Ends
) -> None:
    """Half an upload does not look like a whole one either."""
    await gateway.admit("one", Terms(rules=local(canary.port)))
    tunnel = await gateway.connect("one", "localhost", canary.port)
    await tunnel.write(b"half")
    visit = await canary.visit()
    assert await tunnel.read(10) == b"half"
    tunnel.close()
    assert (await ends.next()).why == "ended"
    await visit.over.wait()
    assert (visit.broken, visit.eof) == (True, False)


async def test_a_reader_that_stops_costs_a_bounded_buffer(gateway: Gateway, canary: Canary) -> None:
    sent = 0

    async def pour(visit: Visit) -> None:
        nonlocal sent
        visit.writer.transport.set_write_buffer_limits(high=1)
        while True:
            visit.writer.write(bytes(65536))
            await visit.writer.drain()
            sent += 65536

    canary.behave = pour
    await gateway.admit("one", Terms(rules=local(canary.port)))
    tunnel = await gateway.connect("one", "localhost", canary.port)
    before, still = -1, 0
    while still < 20:  # until nothing moves any more
        still = still + 1 if sent == before else 0
        before = sent
        await asyncio.sleep(0.01)
    assert sent < 16 << 20  # the kernel's buffers of three sockets, and 256 KiB
    assert await tunnel.read(10) == bytes(10)
    tunnel.close()


async def test_64_connections_at_once_are_the_most_of_one_sandbox(gateway: Gateway, canary: Canary, ends: Ends) -> None:
    await gateway.admit("one", Terms(rules=local(canary.port)))
    await gateway.admit("two", Terms(rules=local(canary.port)))
    tunnels = await asyncio.gather(*(gateway.connect("one", "localhost", canary.port) for _ in range(MOST_CONNECTIONS)))
    with pytest.raises(EgressUnreachable, match="64 connections"):
        await gateway.connect("one", "localhost", canary.port)
    tunnels.append(await gateway.connect("two", "localhost", canary.port))  # somebody else's are nobody's
    for number, tunnel in enumerate(tunnels):
        await tunnel.write(b"%d" % number)
    assert [await tunnel.read(10) for tunnel in tunnels] == [b"%d" % number for number in range(65)]
    tunnels[0].close()
    assert (await ends.next()).why == "ended"
    tunnels[0] = await gateway.connect("one", "localhost", canary.port)
    for tunnel in tunnels:
        tunnel.close()


async def test_one_sandbox_has_nothing_of_another_ones_rules(gateway: Gateway, canary: Canary) -> None:
    await gateway.admit("one", Terms(rules=local(canary.port)))
    await gateway.admit("two", Terms())
    with pytest.raises(EgressDenied) as caught:
        await gateway.connect("two", "localhost", canary.port)
    assert caught.value.denied.code == "not_listed"
    with pytest.raises(EgressUnreachable):
        await gateway.connect("three", "localhost", canary.port)
    assert canary.visits == []


@pytest.mark.parametrize("port", [-1, 0, 65536, 2**70, True, "443", 1.5])
async def test_no_port_of_an_agents_choice_costs_the_gateway(gateway: Gateway, canary: Canary, port: int) -> None:
    await gateway.admit("one", Terms(rules=local(canary.port)))
    with pytest.raises(EgressDenied) as caught:
        await gateway.connect("one", "localhost", port)
    assert caught.value.denied.code == "port_not_listed"
    assert not gateway.lost.is_set()


@pytest.mark.parametrize("host", ["", "\ud800", "\U0001f600" * 1024, "\0" * 1024, "x" * 10**6, '"\\' * 512, None])
async def test_no_host_of_an_agents_choice_costs_the_gateway(gateway: Gateway, canary: Canary, host: str) -> None:
    await gateway.admit("one", Terms(rules=local(canary.port)))
    with pytest.raises(EgressDenied) as caught:
        await gateway.connect("one", host, canary.port)
    assert caught.value.denied.code == "bad_name"
    assert caught.value.denied.reason.isprintable()
    (await gateway.connect("one", "localhost", canary.port)).close()


# --- rules that change --------------------------------------------------------------------------------------------------


async def test_a_change_of_the_rules_cuts_what_none_allows_any_more(
    gateway: Gateway, canary: Canary, ends: Ends
) -> None:
    other = await Canary().listen()
    await gateway.admit("one", Terms(rules=local(canary.port) + local(other.port)))
    gone = await gateway.connect("one", "localhost", canary.port)
    stays = await gateway.connect("one", "localhost", other.port)
    async with asyncio.timeout(1):
        await gateway.admit("one", Terms(rules=local(other.port)))
        assert (await ends.next()).why == "revoked"
        with pytest.raises(ConnectionResetError, match="revoked"):
            await gone.read(1)
    with pytest.raises(BrokenPipeError, match="revoked"):
        await gone.write(b"x")
    await stays.write(b"still here")
    assert await stays.read(100) == b"still here"
    with pytest.raises(EgressDenied):
        await gateway.connect("one", "localhost", canary.port)
    stays.close()
    gone.close()
    await other.close()


@pytest.mark.parametrize("change", [{"private": "127.0.0.2/32"}, {"protocol": "tls"}, {"max_bytes": 1024}])
async def test_what_the_new_rule_would_not_have_let_through_is_cut(
    gateway: Gateway, canary: Canary, ends: Ends, change: dict[str, object]
) -> None:
    await gateway.admit("one", Terms(rules=local(canary.port)))
    tunnel = await gateway.connect("one", "localhost", canary.port)
    await tunnel.write(bytes(2048))
    while tunnel.received < 2048:
        await tunnel.read(4096)
    (rule,) = local(canary.port)
    await gateway.admit("one", Terms(rules=(type(rule)(**{**rule.model_dump(), **change}),)))
    assert (await ends.next()).why == ("byte_cap" if "max_bytes" in change else "revoked")
    tunnel.close()


async def test_revocation_under_load(gateway: Gateway, canary: Canary) -> None:
    await gateway.admit("one", Terms(rules=local(canary.port)))
    tunnels = await asyncio.gather(*(gateway.connect("one", "localhost", canary.port) for _ in range(20)))

    async def use(tunnel: Tunnel) -> None:
        with suppress(ConnectionError):
            while True:
                await tunnel.write(bytes(65536))
                await tunnel.read(65536)

    using = [asyncio.ensure_future(use(tunnel)) for tunnel in tunnels]
    await until(lambda: all(tunnel.received > 1 << 18 for tunnel in tunnels))
    async with asyncio.timeout(1):
        await gateway.admit("one", Terms())
        await asyncio.gather(*using)
    for tunnel in tunnels:
        tunnel.close()


async def test_a_withdrawn_sandbox_has_no_tunnels(gateway: Gateway, canary: Canary, ends: Ends) -> None:
    await gateway.admit("one", Terms(rules=local(canary.port)))
    tunnel = await gateway.connect("one", "localhost", canary.port)
    await gateway.withdraw("one")
    assert (await ends.next()).why == "withdrawn"
    with pytest.raises(ConnectionResetError):
        await tunnel.read(1)
    with pytest.raises(EgressUnreachable):
        await gateway.connect("one", "localhost", canary.port)
    await gateway.withdraw("one")
    tunnel.close()


@pytest.mark.usefixtures("descriptors")
@pytest.mark.parametrize("through", ["the gateway", "an outlet"])
async def test_all_ends_are_told_before_a_withdrawal_is_over(gateway: Gateway, canary: Canary, through: str) -> None:
    """Also of those that were closed in the same moment: what they moved counts, and is written down."""
    told: list[Closed] = []
    outlet = Outlet(_ready(gateway))
    by = outlet if through == "an outlet" else gateway
    if isinstance(by, Outlet):
        await by.admit("one", local(canary.port), told.append)
    else:
        gateway.on_closed = lambda sandbox, closed: told.append(closed)
        await by.admit("one", Terms(rules=local(canary.port)))
    tunnels = await asyncio.gather(*(by.connect("one", "localhost", canary.port) for _ in range(60)))
    for tunnel in tunnels:
        await tunnel.write(b"hello")
        assert await tunnel.read(10) == b"hello"
    for tunnel in tunnels[:30]:
        tunnel.close()
    await by.withdraw("one")
    assert [(closed.sent, closed.received) for closed in told] == [(5, 5)] * 60
    assert {closed.why for closed in told} <= {"ended", "done", "withdrawn"}
    for tunnel in tunnels:
        tunnel.close()
    await until(lambda: all(visit.over.is_set() for visit in canary.visits))
    await asyncio.sleep(0)


def _ready(gateway: Gateway) -> Callable[[], Awaitable[Gateway]]:
    async def start() -> Gateway:
        return gateway

    return start


# --- caps ---------------------------------------------------------------------------------------------------------------


async def test_a_cap_counts_both_directions_and_is_kept_to_the_byte(
    gateway: Gateway, canary: Canary, ends: Ends
) -> None:
    await gateway.admit("one", Terms(rules=local(canary.port, max_bytes=4096)))
    tunnel = await gateway.connect("one", "localhost", canary.port)
    await tunnel.write(bytes(3000))
    with pytest.raises(ConnectionResetError, match="byte_cap"):
        await read_all(tunnel)
    closed = await ends.next()
    assert (closed.sent + closed.received, closed.why) == (4096, "byte_cap")
    assert tunnel.denied is not None
    assert tunnel.denied.code == "byte_cap"
    with pytest.raises(EgressDenied) as caught:
        await gateway.connect("one", "localhost", canary.port)
    assert caught.value.denied.code == "byte_cap"
    tunnel.close()


async def test_exactly_what_is_allowed_passes(gateway: Gateway, canary: Canary, ends: Ends) -> None:
    await gateway.admit("one", Terms(rules=local(canary.port, max_bytes=4096)))
    tunnel = await gateway.connect("one", "localhost", canary.port)
    await tunnel.write(bytes(2048))
    tunnel.write_eof()
    assert len(await read_all(tunnel)) == 2048
    assert (await ends.next()).why == "done"
    tunnel.close()


async def test_a_cap_is_not_renewed_by_taking_the_rule_away(gateway: Gateway, canary: Canary) -> None:
    await gateway.admit("one", Terms(rules=local(canary.port, max_bytes=4096)))
    tunnel = await gateway.connect("one", "localhost", canary.port)
    await tunnel.write(bytes(2048))
    while tunnel.received < 2048:
        await tunnel.read(4096)
    await gateway.admit("one", Terms())
    await gateway.admit("one", Terms(rules=local(canary.port, max_bytes=4096)))
    with pytest.raises(EgressDenied):
        await gateway.connect("one", "localhost", canary.port)
    tunnel.close()


async def test_a_rate_is_kept_by_all_tunnels_of_a_rule_together(gateway: Gateway, canary: Canary) -> None:
    await gateway.admit("one", Terms(rules=local(canary.port, rate=400_000)))
    tunnels = [await gateway.connect("one", "localhost", canary.port) for _ in range(4)]

    async def use(tunnel: Tunnel) -> None:
        await tunnel.write(bytes(25_000))
        while tunnel.received < 25_000:
            await tunnel.read(65536)

    begun = asyncio.get_running_loop().time()
    await asyncio.gather(*map(use, tunnels))
    seconds = asyncio.get_running_loop().time() - begun
    assert seconds > (200_000 - 40_000) / 400_000 * 0.9  # both directions, less what may go at once
    for tunnel in tunnels:
        tunnel.close()
