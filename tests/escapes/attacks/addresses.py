"""Reach anything outside: private networks, the metadata service, documentation addresses, other families, multicast."""

import socket
import time

from verdict import CONTROL, tell

TCP = [
    ("169.254.169.254", 80),
    ("169.254.170.2", 80),
    ("100.100.100.200", 80),
    ("10.0.0.1", 443),
    ("172.17.0.1", 2375),
    ("192.168.0.1", 53),
    ("192.0.2.1", 443),
    ("198.51.100.1", 80),
    ("fd00:ec2::254", 80),
    ("2001:db8::1", 443),
]
UDP = [("169.254.169.254", 53), ("192.0.2.1", 443), ("255.255.255.255", 9), ("224.0.0.251", 5353), ("ff02::1", 9)]
if CONTROL:
    server = socket.create_server(("127.0.0.1", 0))
    TCP.append(server.getsockname())
found = []
for address in TCP:
    begun = time.monotonic()
    try:
        socket.create_connection(address, 2).close()
        found.append(f"connected to {address}")
    except ConnectionRefusedError:
        found.append(f"{address} refused: something is there")
    except OSError:
        if time.monotonic() - begun > 0.5:
            found.append(f"{address} failed late: a packet may have left")
for address in UDP:
    with socket.socket(socket.AF_INET6 if ":" in address[0] else socket.AF_INET, socket.SOCK_DGRAM) as sender:
        try:
            sender.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
            sender.sendto(b"x", address)
            found.append(f"sent to {address}")
        except OSError:
            pass
for family, address in ((40, (2, 1024)), (40, (1, 1024))):
    try:
        with socket.socket(family, socket.SOCK_STREAM) as vsock:
            vsock.settimeout(1)
            vsock.connect(address)
            found.append(f"vsock {address}")
    except OSError:
        pass
tell(found, len(TCP) + len(UDP) + 2)
