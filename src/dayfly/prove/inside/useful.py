"""What must work: a wall that lets nothing through proves nothing. Here reached is right."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading


def programs() -> tuple[int, list[str]]:
    done = subprocess.run([sys.executable, "-c", "print(6 * 7)"], capture_output=True, timeout=20)
    return 1, ["a program ran"] if done.stdout.strip() == b"42" else []


def threads() -> tuple[int, list[str]]:
    said: list[int] = []
    made = [threading.Thread(target=said.append, args=(number,)) for number in range(8)]
    for one in made:
        one.start()
    for one in made:
        one.join(10)
    return 8, ["8 threads ran"] if sorted(said) == list(range(8)) else []


def files(places: list[str]) -> tuple[int, list[str]]:
    found = []
    for place in map(os.path.expanduser, places):
        path = os.path.join(place, "proof-of-use")
        with open(path, "w") as file:
            file.write("kept")
        with open(path) as file:
            found += [place] if file.read() == "kept" else []
        os.unlink(path)
    return len(places), found if len(found) == len(places) else []


def loopback() -> tuple[int, list[str]]:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname(), 5) as client:
        peer, _ = server.accept()
        with peer:
            client.sendall(b"hello")
            return 1, ["its own server answered"] if peer.recv(5) == b"hello" else []


def randomness() -> tuple[int, list[str]]:
    import ssl
    import uuid

    drawn = {os.urandom(16), os.urandom(16), uuid.uuid4().bytes, uuid.uuid4().bytes}
    return 4, ["all differ"] if len(drawn) == 4 and ssl.create_default_context() else []


def descriptors(number: int) -> tuple[int, list[str]]:
    held = [os.open("/dev/null", os.O_RDONLY) for _ in range(number)]
    return 1, ["%d open" % len(held)]


def memory(megabytes: int) -> tuple[int, list[str]]:
    held = bytearray(megabytes << 20)
    for at in range(0, len(held), 4096):
        held[at] = 1
    return 1, ["%d MiB used" % (len(held) >> 20)]


def processes(number: int) -> tuple[int, list[str]]:
    made = [subprocess.Popen(["/bin/sh", "-c", "read x"], stdin=subprocess.PIPE) for _ in range(number)]
    for one in made:
        one.communicate()
    return 1, ["%d ran" % sum(1 for one in made if one.wait(20) is not None)]


def drawn() -> tuple[int, list[str], list[str]]:
    """What is drawn at random here: told, so that the host can compare it with what was drawn elsewhere."""
    import random
    import secrets
    import tempfile
    import uuid

    values = [
        repr(random.random()),
        uuid.uuid4().hex,
        secrets.token_hex(16),
        os.urandom(16).hex(),
        tempfile.mktemp(dir=""),
    ]
    return len(values), [], values
