"""What the way out costs: a request to a server on this machine through a sandbox's name, tunnel and gateway, and the same request
made on this machine without dayfly. The code that asks is the same on both sides."""

from __future__ import annotations

import json
import socket
import statistics
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from bench.measures import MIB, Samples
from dayfly import Sandbox

REQUESTS = 200
DOWNLOAD = 1024 * MIB
PARALLEL = 64

ASK = """
import json, socket, statistics, sys, threading, time
host, port, requests, size, parallel = {arguments!r}

def ask(path):
    with socket.create_connection((host, port)) as connection:
        connection.sendall(b"GET %s HTTP/1.1\\r\\nHost: %s:%d\\r\\nConnection: close\\r\\n\\r\\n" % (path, host.encode(), port))
        buffer, got = bytearray(1 << 20), 0
        while count := connection.recv_into(buffer):
            got += count
        return got

taken = []
for _ in range(requests):
    begun = time.perf_counter()
    ask(b"/small")
    taken.append((time.perf_counter() - begun) * 1e3)
begun = time.perf_counter()
got = ask(b"/big")
rate = got / (time.perf_counter() - begun) / 1e6
done = []
threads = [threading.Thread(target=lambda: done.append(ask(b"/small"))) for _ in range(parallel)]
begun = time.perf_counter()
for thread in threads: thread.start()
for thread in threads: thread.join()
print(json.dumps({{"ms": statistics.median(taken), "rate": rate, "got": got, "parallel": len(done), "all_ms": (time.perf_counter() - begun) * 1e3}}))
"""


def outward(rounds: int) -> Samples:
    """Latency of small requests, one connection each; one big download; so many at once."""
    found: Samples = {}
    host = _own_name()
    with canary() as port:
        rule = {"host": host, "ports": [port], "protocol": "http", "private": "127.0.0.0/8"}
        policy = {"image": "data", "network": [rule], "limits": {"cpus": 2, "run_seconds": 300, "run_cpu_seconds": 300}}
        code = ASK.format(arguments=(host, port, REQUESTS, DOWNLOAD, PARALLEL))
        for _ in range(rounds):
            with Sandbox(policy) as sandbox:
                done = sandbox.run_code(code)
                assert done.ok, done
                _note(found, "through a sandbox's network", json.loads(done.stdout))
            direct = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
            _note(found, "directly", json.loads(direct.stdout))
    return found


def _note(found: Samples, way: str, told: dict[str, float]) -> None:
    assert told["got"] >= DOWNLOAD, told
    assert told["parallel"] == PARALLEL, told
    found.setdefault(f"a request to this machine, {way}, ms", []).append(told["ms"])
    found.setdefault(f"1 GiB from this machine, {way}, MB/s", []).append(told["rate"])
    found.setdefault(f"64 requests at once, {way}, ms", []).append(told["all_ms"])


def _own_name() -> str:
    """A name of this machine that leads to its loopback and is not localhost, which sandboxes have one of their own of."""
    name = socket.gethostname()
    assert socket.gethostbyname(name).startswith("127."), f"{name} does not lead to 127.0.0.0/8 here"
    return name


@contextmanager
def canary() -> Iterator[int]:
    """The port of a server that answers /small with little and /big with much."""
    with socket.create_server(("127.0.0.1", 0), backlog=256) as server:
        threading.Thread(target=_serve, args=(server,), daemon=True).start()
        yield server.getsockname()[1]


def _serve(server: socket.socket) -> None:
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        threading.Thread(target=_answer, args=(connection,), daemon=True).start()


def _answer(connection: socket.socket) -> None:
    with connection:
        request = connection.recv(65536)
        size = DOWNLOAD if request.startswith(b"GET /big") else 100
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % size)
        piece = memoryview(bytes(min(size, 4 * MIB)))
        for _ in range(size // len(piece)):
            connection.sendall(piece)


if __name__ == "__main__":
    for name, samples in outward(3).items():
        print(f"{name}: {statistics.median(samples):.4g}")
