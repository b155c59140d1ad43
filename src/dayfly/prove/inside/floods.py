"""Takes as much as there is. Bounded: each stops by itself at a ceiling, where no wall stops it: what the host says, which is little more
than the sandbox may have, and never more than ``MOST``."""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import signal
import sys
import tempfile
import threading
import time

MOST = {"memory": 8 << 30, "disk": 24 << 30, "output": 256 << 20, "processes": 4000}
"""Bytes, and processes."""

MOST_FILES = 400000
PIECE = 1 << 20
CHILDREN = 64


def memory_of_many() -> None:
    """One child after another, each an equal part of what is taken at most."""
    number = max(1, min(CHILDREN, MOST["processes"] // 4))
    for _ in range(number):
        if os.fork() == 0:
            held = taken(MOST["memory"] // number)
            time.sleep(600 if held else 0)
            os._exit(0)
    time.sleep(600)


def memory_of_one() -> None:
    print(len(taken(MOST["memory"])), flush=True)
    time.sleep(1)


def taken(most: int) -> list[bytearray]:
    held: list[bytearray] = []
    try:
        while len(held) * PIECE < most:
            piece = bytearray(PIECE)
            piece[::4096] = b"x" * len(piece[::4096])
            held.append(piece)
    except MemoryError:
        pass
    return held


def shared_memory() -> None:
    fill("/dev/shm/flood", MOST["memory"])


def disk() -> None:
    fill(os.path.expanduser("~/flood"), MOST["disk"])


def many_files_full() -> None:
    for number in range(64):
        fill(os.path.expanduser("~/flood%d" % number), MOST["disk"] // 64)


def fill(path: str, most: int) -> None:
    piece = os.urandom(PIECE)
    try:
        with open(path, "wb", buffering=0) as file:
            while file.tell() < most:
                file.write(piece)
    except OSError:
        pass


def empty_files() -> None:
    home = os.path.expanduser("~/many")
    os.makedirs(home, exist_ok=True)
    try:
        for number in range(MOST_FILES):
            os.close(os.open(os.path.join(home, str(number)), os.O_CREAT | os.O_WRONLY))
    except OSError:
        pass


def descriptors() -> None:
    held: list[int] = []
    try:
        while len(held) < MOST_FILES:
            held += os.pipe()
    except OSError:
        pass


def spin() -> None:
    for _ in range(8):
        if os.fork() == 0:
            while True:
                pass
    time.sleep(600)


def output() -> None:
    piece = b"x" * 65535 + b"\n"
    for _ in range(MOST["output"] // len(piece)):
        os.write(1, piece)


def objects() -> None:
    """What the kernel keeps for whoever asks: no process's own memory, and somebody's all the same."""
    kinds = (pipes, segments, watches_and_timers)
    number = max(1, min(CHILDREN, MOST["processes"] // 4))
    for one in range(number):
        if os.fork() == 0:
            kinds[one % len(kinds)](MOST["memory"] // number)
            time.sleep(600)
            os._exit(0)
    time.sleep(600)


F_SETPIPE_SZ = 1031  # fcntl(2); Python has its name from 3.10 on


def pipes(most: int) -> None:
    """As large as they may be, and full."""
    try:
        for _ in range(most // PIECE):
            _, end = os.pipe()
            os.set_blocking(end, False)
            fcntl.fcntl(end, F_SETPIPE_SZ, PIECE)
            os.write(end, bytes(PIECE))
    except OSError:
        pass


def segments(most: int) -> None:
    """Shared memory of System V, written to."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.shmat.restype = ctypes.c_void_p
    for _ in range(most // PIECE):
        number = libc.shmget(0, PIECE, 0o1600)
        at = libc.shmat(number, None, 0) if number >= 0 else None
        if at in (None, ctypes.c_void_p(-1).value):
            return
        ctypes.memset(at, 1, PIECE)


MOST_SMALL = 20000
SIGEV_NONE = 1


def watches_and_timers(most: int) -> None:
    """Small ones, each a little of the kernel's memory."""
    libc = ctypes.CDLL(None, use_errno=True)
    watching, home = libc.inotify_init(), tempfile.mkdtemp()
    nothing = (ctypes.c_int * 16)(0, 0, 0, SIGEV_NONE)  # struct sigevent: value, signal, what to do
    for number in range(min(MOST_SMALL, most // 4096)):
        path = os.path.join(home, str(number))
        os.mkdir(path)
        libc.inotify_add_watch(watching, path.encode(), 0xFFF)
        libc.timer_create(1, nothing, ctypes.byref(ctypes.c_void_p()))


def processes() -> None:
    """Small ones: two hundred copies of this interpreter would be a flood of memory instead."""
    made = 0
    try:
        while made < MOST["processes"]:
            os.posix_spawn("/bin/sh", ["sh", "-c", "kill -STOP $$"], {})
            made += 1
    except OSError:
        pass
    print(made + 1, flush=True)
    os._exit(0)


def threads() -> None:
    made = 0
    try:
        while made < MOST["processes"]:
            threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
            made += 1
    except (RuntimeError, MemoryError):
        pass
    print(made + 1, flush=True)
    os._exit(0)


def deaf() -> None:
    for number in range(1, 65):
        try:
            signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError):
            pass
    while True:
        time.sleep(1)


def big_number() -> None:
    """Holds the interpreter's lock, and no signal is heard."""
    print(len(str(7 ** (7**9)))) if sys.version_info < (3, 9) else pow(7, 10**9)


def daemon() -> None:
    """Twice away from whoever started it, with the output still open."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            while True:
                time.sleep(1)
        os._exit(0)
    time.sleep(600)


def main() -> None:
    for name, most in json.loads(sys.argv[3]).items():
        MOST[name] = min(MOST[name], most)
    globals()[sys.argv[2].split(".")[1]]()
