"""What is read of packets: whither, and nothing of what the kernel says by itself. Packets are hostile."""

from __future__ import annotations

import socket
import struct
from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as some

from dayfly.prove.targets.wire import told


def packet(target: str, protocol: int, port: int = 0, options: int = 0) -> bytes:
    address = ip_address(target).packed
    ports = struct.pack("!2H", 40000, port)
    if len(address) == 4:
        return bytes([0x45 + options]) + bytes(8) + bytes([protocol]) + bytes(6) + address + bytes(4 * options) + ports
    return bytes([0x60, 0, 0, 0, 0, 8, protocol, 64]) + bytes(16) + address + ports


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (packet("10.0.0.1", socket.IPPROTO_TCP, 22), "TCP to 10.0.0.1 port 22"),
        (packet("10.0.0.1", socket.IPPROTO_TCP, 22, options=3), "TCP to 10.0.0.1 port 22"),
        (packet("192.0.2.53", socket.IPPROTO_UDP, 53), "UDP to 192.0.2.53 port 53"),
        (packet("192.0.2.1", socket.IPPROTO_ICMP), "ICMP to 192.0.2.1"),
        (packet("192.0.2.1", 132, 7), "protocol 132 to 192.0.2.1 port 7"),
        (packet("2001:db8::1", socket.IPPROTO_UDP, 443), "UDP to 2001:db8::1 port 443"),
        (packet("ff02::16", 0), None),  # a multicast report, of a kernel that got a device
        (packet("ff02::2", 58), None),
        (packet("224.0.0.22", 2), None),
        (b"", None),
        (bytes(60), None),
        (packet("2001:db8::1", 17, 443)[:30], None),
    ],
)
def test_a_packet_is_told_by_whither_it_went(sent: bytes, said: str | None) -> None:
    assert told(sent) == said


@given(
    some.binary(max_size=200)
    | some.binary(max_size=100).map(lambda rest: b"\x45" + rest)
    | some.binary().map(lambda rest: b"\x60" + rest)
)
def test_whatever_a_packet_holds_it_is_read_or_not(sent: bytes) -> None:
    said = told(sent)
    assert said is None or len(said) < 100
