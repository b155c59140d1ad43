"""The network is off: no device, no route, no neighbour, and nobody on this machine answers."""

from __future__ import annotations

from functools import partial

from dayfly.prove.probe import Probe, Property, Severity

__all__ = ["PROBES"]

_one = partial(Probe, property=Property.NETWORK, severity=Severity.CRITICAL)

_PORTS = (22, 80, 443, 2375, 6443)

_RANGES = {
    "10.0.0.0/8": ("private-10", ["10.0.0.1", "10.1.2.3", "10.255.255.254"]),
    "172.16.0.0/12": ("private-172", ["172.16.0.1", "172.17.0.1", "172.31.255.254"]),
    "192.168.0.0/16": ("private-192", ["192.168.0.1", "192.168.1.1", "192.168.255.254"]),
    "carriers' networks": ("shared", ["100.64.0.1", "100.127.255.254"]),
    "link-local addresses": ("link-local", ["169.254.1.1", "fe80::1"]),
    "public addresses": ("public", ["192.0.2.1", "198.51.100.1", "203.0.113.1"]),
    "IPv6": ("v6", ["2001:db8::1", "fd00::1", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1"]),
}

PROBES = (
    _one("network.interfaces", "See a network device", attempt="network.interfaces", arguments={"known": ["lo"]}, source="MSB"),
    _one("network.routes", "See routes and neighbours", attempt="network.routes",
         arguments={"tables": ["/proc/net/route", "/proc/net/arp", "/proc/net/ipv6_route"]}, source="MSB"),
    *(_one(f"network.tcp.{short}", f"Connect to {title}", attempt="network.many_tcp",
           arguments={"places": [[address, port] for address in addresses for port in _PORTS], "token": "{token}"}, source="RB, ASB",
           seconds=40)
      for title, (short, addresses) in _RANGES.items()),
    _one("network.udp.private", "Send datagrams to private networks", attempt="network.udp",
         arguments={"places": [["10.0.0.1", 9], ["172.17.0.1", 9], ["192.168.1.1", 9]], "token": "{token}"}, source="DUST"),
    _one("network.udp.public", "Send datagrams outside", attempt="network.udp",
         arguments={"places": [["192.0.2.1", 443], ["192.0.2.1", 4500], ["2001:db8::1", 443]], "token": "{token}"}, source="MSB585"),
    _one("network.udp.multicast", "Broadcast and multicast", attempt="network.udp",
         arguments={"places": [["255.255.255.255", 9], ["239.255.255.250", 1900], ["224.0.0.1", 9], ["ff02::1", 9]], "token": "{token}"},
         source="MSB585"),
    _one("network.icmp", "Send echoes (ping)", attempt="network.echoed",
         arguments={"addresses": ["10.0.0.1", "172.17.0.1", "192.168.1.1", "192.0.2.1", "2001:db8::1"]}, source="MSB"),
    _one("network.loopback.tcp", "Reach a server on this machine's loopback", attempt="network.many_tcp",
         arguments={"places": [[name, "{tcp_port}"] for name in ("127.0.0.1", "127.0.0.2", "localhost", "::1", "0.0.0.0")], "token": "{token}",
                    "refused_counts": False}, seen_by=("a TCP server",), source="RL, SRT"),
    _one("network.loopback.udp", "Reach a datagram server on this machine's loopback", attempt="network.udp_answered",
         arguments={"address": "127.0.0.1", "port": "{udp_port}", "token": "{token}"}, seen_by=("a UDP server",), source="RL"),
    _one("network.host.names", "Resolve this machine by the names that runtimes give it", attempt="network.resolved",
         arguments={"names": ["host.docker.internal", "host.containers.internal", "gateway.docker.internal", "host.lima.internal", "gateway"]},
         source="MSB545, ASB"),
    _one("network.listeners", "Speak to a server inside: the agent must not listen", attempt="network.listeners", severity=Severity.HIGH,
         source="RG"),
    _one("network.listeners.unix", "Speak to a Unix server inside", attempt="network.unix_listeners", severity=Severity.HIGH, source="RG"),
    _one("network.listeners.known", "Speak to ports that agents of sandboxes use", attempt="network.ports", severity=Severity.HIGH,
         arguments={"numbers": [22, 53, 80, 443, 1080, 3128, 8080, 8888, 9000, 44772, 49982, 49983, 49999]}, source="RG, OSB750"),
)  # fmt: skip
