"""Connect to a Unix socket of the host: by path, and by abstract name."""

import os
import socket

from verdict import CONTROL, NONCE, tell

names = [os.environ["CANARY_SOCKET"], "\0" + NONCE]
if CONTROL:
    server = socket.socket(socket.AF_UNIX)
    server.bind("\0" + NONCE)
    server.listen()
found = []
for name in names:
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(name)
            found.append(name)
        except OSError:
            pass
tell(found, len(names))
