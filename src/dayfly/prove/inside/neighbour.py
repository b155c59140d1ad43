"""A sandbox beside others: it leaves files and shared memory, listens everywhere, and says its secret to whoever comes."""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import socket
import sys
import threading
import time

PLACES = ("~", "/tmp", "/var/tmp", "/dev/shm", "~/.cache", "~/.local/lib")


def main() -> None:
    asked = json.loads(sys.argv[2])
    for place in map(os.path.expanduser, PLACES):
        try:
            os.makedirs(place, exist_ok=True)
            with open(os.path.join(place, asked["nonce"]), "w") as file:
                file.write(asked["secret"])
        except OSError:
            pass
    share(asked["secret"])
    held = locked_all()
    for server in (socket.create_server(("0.0.0.0", asked["port"])), abstract(asked["nonce"])):
        threading.Thread(target=serve, args=(server, asked["secret"]), daemon=True).start()
    print("ready", flush=True)
    while held:
        time.sleep(3600)


def abstract(nonce: str) -> socket.socket:
    server = socket.socket(socket.AF_UNIX)
    server.bind("\0" + nonce)
    server.listen()
    return server


def serve(server: socket.socket, secret: str) -> None:
    while True:
        peer, _ = server.accept()
        with peer:
            peer.sendall(secret.encode())


KEY = 0x70726F6F


def share(secret: str) -> None:
    """System V shared memory under a key that everybody knows."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.shmat.restype = ctypes.c_void_p
    number = libc.shmget(KEY, 4096, 0o1666)
    at = libc.shmat(number, None, 0) if number >= 0 else None
    if at not in (None, ctypes.c_void_p(-1).value):
        ctypes.memmove(at, secret.encode(), len(secret))


def shared() -> tuple[int, list[str]]:
    """What another one has left under that key."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.shmat.restype = ctypes.c_void_p
    number = libc.shmget(KEY, 0, 0)
    if number < 0:
        return 1, []
    at = libc.shmat(number, None, 0)
    return 1, [ctypes.string_at(at, 32).decode("latin-1")]


SHARED = ("/etc/passwd", "/usr/bin/env", "/")
"""Of the image, which all sandboxes of it have."""


def locked_all() -> list[int]:
    """Descriptors that hold the locks."""
    held = [os.open(path, os.O_RDONLY) for path in SHARED]
    for one in held:
        fcntl.flock(one, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return held


def locked() -> tuple[int, list[str]]:
    """What another one holds: a bit that both can see."""
    found = []
    for path in SHARED:
        one = os.open(path, os.O_RDONLY)
        try:
            fcntl.flock(one, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            found.append(path)
        finally:
            os.close(one)
    return len(SHARED), found


def left(nonce: str) -> tuple[int, list[str]]:
    """Its files."""
    found = []
    for place in map(os.path.expanduser, PLACES):
        path = os.path.join(place, nonce)
        if os.path.exists(path):
            found.append(path)
    return len(PLACES), found
