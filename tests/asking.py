"""Asks for a fork that is a command, waits for its end and ends alike. See ``forks``.

A program of its own, quick to start: what it was given, streams and all, is what the command gets.
"""

from __future__ import annotations

import json
import os
import socket
import sys

LARGEST = 1 << 20
"""Bytes of a request: arguments and environment."""


def main() -> None:
    door, *arguments = sys.argv[1:]
    request = {"arguments": arguments, "environment": dict(os.environ), "directory": os.getcwd()}
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(door)
        socket.send_fds(connection, [json.dumps(request).encode()], [0, 1, 2])
        for descriptor in (0, 1, 2):  # the command's alone from here on
            os.close(descriptor)
        code = int(connection.recv(16))
    if code < 0:
        os.kill(os.getpid(), -code)
    os._exit(code)


if __name__ == "__main__":
    main()
