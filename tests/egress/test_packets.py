"""What the two sides say to each other, and what neither believes."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from ipaddress import ip_address, ip_network
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dayfly.egress.heard import address
from dayfly.egress.interfaces import interfaces
from dayfly.egress.packets import MAX_PACKET, MAX_PART, TO_GATEWAY, TO_MANAGER, BadPacket, Packets, pair, parse
from dayfly.egress.process import Process, close_private

GOOD = {"op": "connect", "id": 7, "sandbox": "one", "host": "a.example", "port": 443}
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(st.binary(max_size=200))
def test_no_bytes_are_a_packet_by_chance(data: bytes) -> None:
    with pytest.raises(BadPacket):
        parse(data, TO_GATEWAY)


@given(st.sampled_from(sorted(GOOD)), ANYTHING)
def test_a_field_is_what_the_table_says_or_the_packet_is_bad(name: str, value: Any) -> None:
    packet = {**GOOD, name: value}
    try:
        got = parse(json.dumps(packet).encode(), TO_GATEWAY)
    except BadPacket:
        return
    assert {one: type(got[one]) for one in GOOD} == {one: type(GOOD[one]) for one in GOOD}


@given(st.text(max_size=MAX_PART))
def test_a_part_of_any_rules_fits_a_packet(text: str) -> None:
    part = json.dumps(text)[:MAX_PART]
    packet = {"op": "admit", "id": 2**60, "sandbox": "x" * 100, "part": part, "last": False}
    assert len(json.dumps(packet)) < MAX_PACKET


def test_no_packet_of_one_direction_is_one_of_the_other() -> None:
    assert not TO_GATEWAY.keys() & TO_MANAGER.keys()


async def test_packets_that_the_socket_has_no_room_for_go_in_their_turn() -> None:
    ours, theirs = pair()
    sender, receiver = Packets(ours, {}, gifts=False), Packets(theirs, TO_MANAGER, gifts=False)
    sent = [sender.post({"op": "refused", "id": number, "text": "x" * 1000}) for number in range(2000)]
    assert not sent[-1].done()
    for number in range(2000):
        while (received := receiver.receive()) is None:
            await sent[number]
        assert received[0]["id"] == number
    assert all(one.done() for one in sent)
    sender.close()
    with pytest.raises(EOFError):
        receiver.receive()
    receiver.close()


async def test_what_was_not_sent_when_it_is_closed_is_never_sent_and_leaks_nothing() -> None:
    ours, theirs = pair()
    sender = Packets(ours, {}, gifts=False)
    sent = [sender.post({"op": "x", "text": "x" * 10_000}) for _ in range(100)]
    gift, other = socket.socketpair()
    sent.append(sender.post({"op": "x"}, gift))
    sender.close()
    sender.close()
    with pytest.raises(BrokenPipeError):
        await sent[-1]
    assert gift.fileno() == -1
    other.close()
    theirs.close()


@pytest.mark.parametrize(
    "said",
    [
        b"{}",
        b"[" * 20_000,
        b"x" * 100_000,
        json.dumps({**GOOD, "port": "443"}).encode(),
        json.dumps({**GOOD, "more": 1}).encode(),
    ],
)
async def test_the_gateway_ends_at_the_first_packet_that_does_not_fit(said: bytes) -> None:
    process = await Process.start()
    process.end.settimeout(20)
    assert json.loads(process.end.recv(1000)) == {"op": "ready"}
    process.end.send(said)
    assert process.end.recv(1000) == b""
    close_private(process.end)
    assert await process.end_now() in (1, -9)


async def test_a_connection_without_its_descriptor_is_answered() -> None:
    process = await Process.start()
    process.end.settimeout(20)
    process.end.recv(1000)
    process.end.send(json.dumps(GOOD).encode())
    answer = json.loads(process.end.recv(1000))
    assert (answer["op"], answer["id"]) == ("unreachable", 7)
    close_private(process.end)
    await process.end_now()


def test_the_machines_own_addresses_are_what_the_kernel_lists() -> None:
    listed = subprocess.run(
        ["ip", "-json", "address"], capture_output=True, check=True, env={"PATH": os.defpath + ":/usr/sbin:/sbin"}
    )
    expected = {
        ip_address(one["local"]) for link in json.loads(listed.stdout) for one in link["addr_info"] if "local" in one
    }
    found = interfaces()
    assert expected <= found.addresses
    assert ip_address("127.0.0.1") in found.addresses
    assert ip_network("127.0.0.0/8") in found.links
    links = {
        ip_network(f"{one.get('address', one['local'])}/{one['prefixlen']}", strict=False)
        for link in json.loads(listed.stdout)
        for one in link["addr_info"]
        if "local" in one
    }
    assert links <= found.links


@pytest.mark.parametrize("number", ["9" * 400, "-1", "1e999", "NaN", "9223372036854775808", "1.5"])
def test_a_number_that_counts_nothing_is_a_bad_packet(number: str) -> None:
    """Found by the fuzzer: one of 400 digits is no float, and asking whether it was finite raised something else."""
    with pytest.raises(BadPacket):
        parse(b'{"op":"end","id":%s}' % number.encode(), TO_GATEWAY)


@pytest.mark.parametrize("text", ["fe80::1%\x1b[2J", "fe80::1%eth0", "::1%", "1.2.3.4%x", "nowhere"])
def test_an_address_that_could_say_anything_is_none(text: str) -> None:
    """Found while its fuzzer was written: the zone of an address may be any text, and what is believed of a gateway is printable."""
    with pytest.raises(BadPacket):
        address(text)
    assert address("fe80::1") == "fe80::1"
    assert address("") == ""
