"""Send a datagram to the host's loopback; the host counts what arrives."""

import os
import socket

from verdict import NONCE, tell

port = int(os.environ["CANARY_UDP_PORT"])
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
    sender.settimeout(0.5)
    try:
        sender.sendto(NONCE.encode(), ("127.0.0.1", port))
        answer = sender.recv(100)
    except OSError:
        answer = b""
tell([answer] if NONCE.encode() in answer else [], 1)
