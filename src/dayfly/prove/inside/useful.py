"""What must work: a wall that lets nothing through proves nothing. Here reached is right."""

import os
import socket
import subprocess
import sys
import threading


def programs():
    done = subprocess.run([sys.executable, "-c", "print(6 * 7)"], capture_output=True, timeout=20)
    return 1, ["a program ran"] if done.stdout.strip() == b"42" else []


def threads():
    said = []
    made = [threading.Thread(target=said.append, args=(number,)) for number in range(8)]
    for one in made:
        one.start()
    for one in made:
        one.join(10)
    return 8, ["8 threads ran"] if sorted(said) == list(range(8)) else []


def files(places):
    found = []
    for place in map(os.path.expanduser, places):
        path = os.path.join(place, "proof-of-use")
        with open(path, "w") as file:
            file.write("kept")
        with open(path) as file:
            found += [place] if file.read() == "kept" else []
        os.unlink(path)
    return len(places), found if len(found) == len(places) else []


def loopback():
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname(), 5) as client:
        peer, _ = server.accept()
        with peer:
            client.sendall(b"hello")
            return 1, ["its own server answered"] if peer.recv(5) == b"hello" else []


def randomness():
    import ssl
    import uuid

    drawn = {os.urandom(16), os.urandom(16), uuid.uuid4().bytes, uuid.uuid4().bytes}
    return 4, ["all differ"] if len(drawn) == 4 and ssl.create_default_context() else []


def descriptors(number):
    held = [os.open("/dev/null", os.O_RDONLY) for _ in range(number)]
    return 1, ["%d open" % len(held)]


def memory(megabytes):
    held = bytearray(megabytes << 20)
    for at in range(0, len(held), 4096):
        held[at] = 1
    return 1, ["%d MiB used" % (len(held) >> 20)]


def processes(number):
    made = [subprocess.Popen(["/bin/sh", "-c", "read x"], stdin=subprocess.PIPE) for _ in range(number)]
    for one in made:
        one.stdin.close()
    return 1, ["%d ran" % sum(1 for one in made if one.wait(20) is not None)]


def drawn():
    """What is drawn at random here: told, so that the host can compare it with what was drawn elsewhere."""
    import random
    import secrets
    import tempfile
    import uuid

    values = [repr(random.random()), uuid.uuid4().hex, secrets.token_hex(16), os.urandom(16).hex(), next(tempfile._get_candidate_names()) * 2]
    return len(values), [], values
