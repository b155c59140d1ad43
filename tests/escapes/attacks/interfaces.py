"""See a network: interfaces, routes, neighbours."""

import socket

from verdict import CONTROL, tell

expected = set() if CONTROL else {"lo"}
found = [name for _, name in socket.if_nameindex() if name not in expected]
for path in ("/proc/net/route", "/proc/net/arp", "/proc/net/ipv6_route"):
    try:
        lines = open(path).read().splitlines()
    except OSError:
        continue
    found += [
        f"{path}: {line}"
        for line in lines[1:]
        if not line.split() or line.split()[-1] != "lo" and line.split()[0] != "lo"
    ]
tell(found, 1 + len(socket.if_nameindex()))
