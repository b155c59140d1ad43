"""What the way out costs: a request to a server on this machine through a sandbox's name, tunnel and gateway, and the same request
made on this machine without dayfly. The code that asks is the same on both sides. The floor is the same code in a sandbox that has
no network, with a resolver and a server of a few lines beside it, or a relay of a few lines between them: what gVisor and two
processes of Python take before anything leaves the sandbox."""

from __future__ import annotations

import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.apart import apart
from bench.canary import BIG
from bench.measures import Samples
from dayfly import Sandbox

REQUESTS = 200
PARALLEL = 64

CLIENT = """
import json, os, signal, socket, statistics, struct, sys, threading, time

def ask(host, port, path):
    with socket.create_connection((host, port)) as connection:
        connection.sendall(b"GET %s HTTP/1.1\\r\\nHost: %s:%d\\r\\nConnection: close\\r\\n\\r\\n" % (path, host.encode(), port))
        buffer, got = bytearray(1 << 20), 0
        while count := connection.recv_into(buffer):
            got += count
        return got

def ms(work):
    begun = time.perf_counter()
    work()
    return (time.perf_counter() - begun) * 1e3

def median(work, times):
    return statistics.median(ms(work) for _ in range(times))

def kept(host, port, times):
    request = b"GET /small HTTP/1.1\\r\\nHost: %s:%d\\r\\n\\r\\n" % (host.encode(), port)
    with socket.create_connection((host, port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        def again():
            connection.sendall(request)
            while b"\\r\\n\\r\\n" not in connection.recv(65536):
                pass
        return median(again, times)
"""

ASK = (
    CLIENT
    + """
host, port, requests, parallel = {arguments!r}
told = {{"first": ms(lambda: ask(host, port, b"/small"))}}
told["again"] = median(lambda: ask(host, port, b"/small"), requests)
told["kept"] = kept(host, port, requests)
begun = time.perf_counter()
told["got"] = ask(host, port, b"/big")
told["rate"] = told["got"] / (time.perf_counter() - begun) / 1e6
done = []
threads = [threading.Thread(target=lambda: done.append(ask(host, port, b"/small"))) for _ in range(parallel)]
def all_at_once():
    for thread in threads: thread.start()
    for thread in threads: thread.join()
told["all"] = ms(all_at_once)
told["parallel"] = len(done)
print(json.dumps(told))
"""
)

FLOOR = (
    CLIENT
    + """
(requests,) = {arguments!r}

def resolver():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as mine:
        mine.bind(("127.0.0.1", 53))
        ready()
        while True:
            query, sender = mine.recvfrom(4096)
            end = query.index(0, 12) + 5
            found = query[end - 4 : end - 2] == b"\\0\\1"
            record = b"\\xc0\\x0c\\0\\1\\0\\1\\0\\0\\0\\x3c\\0\\4" + socket.inet_aton("127.64.0.1") if found else b""
            mine.sendto(query[:2] + b"\\x85\\x80\\0\\1\\0" + bytes([found]) + bytes(4) + query[12:end] + record, sender)

ANSWER = b"HTTP/1.1 200 OK\\r\\nContent-Length: 100\\r\\n\\r\\n" + bytes(100)

def server(port):
    with socket.create_server(("127.64.0.1", port), backlog=64) as mine:
        ready()
        while True:
            connection, _ = mine.accept()
            with connection:
                while request := connection.recv(65536):
                    connection.sendall(ANSWER)
                    if b"close" in request:
                        break

def relay(port, to):
    with socket.create_server(("127.64.0.1", port), backlog=64) as mine:
        ready()
        while True:
            one, _ = mine.accept()
            with one, socket.create_connection(("127.64.0.1", to)) as other:
                while request := one.recv(65536):
                    other.sendall(request)
                    while answer := other.recv(65536):
                        one.sendall(answer)
                        if b"close" not in request:
                            break
                    else:
                        break

children, (listening, told) = [], os.pipe()
def ready():
    os.write(told, b"x")
def beside(*work):
    child = os.fork()
    if not child:
        try: work[0](*work[1:])
        finally: os._exit(1)
    children.append(child)
    os.read(listening, 1)

beside(resolver); beside(server, 8001); beside(relay, 8002, 8001)
print(json.dumps({{
    "server": median(lambda: ask("floor.example", 8001, b"/small"), requests), "server kept": kept("floor.example", 8001, requests),
    "relay": median(lambda: ask("floor.example", 8002, b"/small"), requests), "relay kept": kept("floor.example", 8002, requests),
}}))
for child in children:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
"""
)

FETCH = """
import json, socket, ssl, time
host, port = {arguments!r}
context = ssl.create_default_context({roots})
request = b"GET /big HTTP/1.1\\r\\nHost: %s:%d\\r\\nConnection: close\\r\\n\\r\\n" % (host.encode(), port)
begun = time.perf_counter()
with socket.create_connection((host, port)) as plain, context.wrap_socket(plain, server_hostname=host) as connection:
    connection.sendall(request)
    buffer, got = bytearray(1 << 20), 0
    while count := connection.recv_into(buffer):
        got += count
print(json.dumps({{"got": got, "rate": got / (time.perf_counter() - begun) / 1e6}}))
"""

THROUGH, DIRECTLY = "through a sandbox's network", "directly"
FIGURES = {
    "again": "a request to this machine, {}, ms",
    "first": "the first request to a name of this machine, {}, ms",
    "kept": "a request on a kept connection to this machine, {}, ms",
    "rate": "1 GiB from this machine, {}, MB/s",
    "all": f"{PARALLEL} requests at once, {{}}, ms",
}
LOOKED_INTO = "1 GiB over TLS that the gateway looks into, {}, MB/s"
FLOORS = {
    "server": "floor: a request inside a sandbox, to a server there, ms",
    "relay": "floor: a request inside a sandbox, through a relay there, ms",
    "server kept": "floor: a request on a kept connection inside a sandbox, to a server there, ms",
    "relay kept": "floor: a request on a kept connection inside a sandbox, through a relay there, ms",
}


def outward(rounds: int) -> Samples:
    """Latency of small requests, one connection each or on one that is kept; one big download; so many at once; and the floor."""
    found: Samples = {}
    host = _own_name()
    with canary() as port:
        rule = {"host": host, "ports": [port], "protocol": "http", "private": "127.0.0.0/8"}
        code = ASK.format(arguments=(host, port, REQUESTS, PARALLEL))
        for _ in range(rounds):
            _note(found, THROUGH, _inside(code, network=[rule]))
            _note(found, DIRECTLY, _here(code))
            for key, value in _inside(FLOOR.format(arguments=(REQUESTS,))).items():
                found.setdefault(FLOORS[key], []).append(value)
    return found | apart(looked_into, rounds, host)  # whose gateway is not there yet, and believes what it finds then


def looked_into(rounds: int, host: str) -> Samples:
    """A download of which the gateway ends the TLS, and opens its own."""
    found: Samples = {}
    with certificate(host) as file, canary(file) as port:
        rule = {"host": host, "ports": [port], "private": "127.0.0.0/8", "methods": ["GET"]}
        ways = {
            THROUGH: lambda: _inside(FETCH.format(arguments=(host, port), roots=""), network=[rule]),
            DIRECTLY: lambda: _here(FETCH.format(arguments=(host, port), roots=f"cafile={str(file)!r}")),
        }
        for _ in range(rounds):
            for way, fetch in ways.items():
                told = fetch()
                assert told["got"] >= BIG, told
                found.setdefault(LOOKED_INTO.format(way), []).append(told["rate"])
    return found


@contextmanager
def certificate(host: str) -> Iterator[Path]:
    """Of a server, by itself; a gateway that is started meanwhile believes it. Its key is in ``key`` beside it."""
    before = os.environ.get("SSL_CERT_FILE")
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "certificate"
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "9",
             "-subj", "/CN=bench", "-addext", f"subjectAltName=DNS:{host}",
             "-keyout", f"{directory}/key", "-out", str(file)],
            check=True, capture_output=True,
        )  # fmt: skip
        os.environ["SSL_CERT_FILE"] = str(file)
        try:
            yield file
        finally:
            os.environ.pop("SSL_CERT_FILE") if before is None else os.environ.update(SSL_CERT_FILE=before)


def _here(code: str) -> dict[str, float]:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    told: dict[str, float] = json.loads(done.stdout)
    return told


def _inside(code: str, **more: object) -> dict[str, float]:
    policy = {"image": "data", "limits": {"cpus": 2, "run_seconds": 300, "run_cpu_seconds": 300}, **more}
    with Sandbox(policy) as sandbox:
        done = sandbox.run_code(code)
        assert done.ok, done
        told: dict[str, float] = json.loads(done.stdout)
        return told


def _note(found: Samples, way: str, told: dict[str, float]) -> None:
    assert told["got"] >= BIG, told
    assert told["parallel"] == PARALLEL, told
    for key, figure in FIGURES.items():
        found.setdefault(figure.format(way), []).append(told[key])


def _own_name() -> str:
    """A name of this machine that leads to its loopback and is not localhost, which sandboxes have one of their own of."""
    name = socket.gethostname()
    assert socket.gethostbyname(name).startswith("127."), f"{name} does not lead to 127.0.0.0/8 here"
    return name


@contextmanager
def canary(certificate: Path | None = None) -> Iterator[int]:
    """The port of a server that answers /small with little and /big with much, over TLS where it has a ``certificate``. It has a
    process to itself: in this one it would wait for dayfly's loop to let go of the interpreter."""
    tls = [str(certificate)] if certificate else []
    command = [sys.executable, str(Path(__file__).with_name("canary.py")), *tls]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin
        assert server.stdout
        yield int(server.stdout.readline())
        server.stdin.close()


if __name__ == "__main__":
    for name, samples in outward(3).items():
        print(f"{name}: {statistics.median(samples):.4g}")
