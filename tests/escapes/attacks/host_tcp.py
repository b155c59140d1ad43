"""Connect to a server that listens on the host's loopback."""

import os
import socket

from verdict import NONCE, tell

port = int(os.environ["CANARY_PORT"])
found = []
names = ("127.0.0.1", "localhost", "::1", "0.0.0.0", "host.docker.internal", "host.containers.internal", "gateway")
for name in names:
    try:
        with socket.create_connection((name, port), 1) as connection:
            if NONCE.encode() in connection.recv(200):
                found.append(name)
    except OSError:
        pass
tell(found, len(names))
