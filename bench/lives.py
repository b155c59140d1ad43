"""Measurements of many lives: warm claims, restores, and what the way over HTTP costs. Units are in the figures' names."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import httpx

from bench.apart import apart
from bench.measures import Samples
from dayfly import AsyncSandbox, Sandbox
from dayfly.limits import Limits
from dayfly.manager import Manager, Template, embedded
from dayfly.manager.recorded import RecordedLife
from dayfly.manager.spares import REFILL_PAUSE, Spares
from dayfly.paths import default_paths
from dayfly.policy import Policy

REST_SECONDS = 0.3
"""Before a claim: what the last one's end and the refill leave the machine to do is no part of it."""

PRELOAD = ("pandas", "matplotlib.pyplot")
CONFIG = """
[templates.data]
spares = {spares}
preload = ["pandas", "matplotlib.pyplot"]
policy = {{ image = "data" }}
"""


def lives(rounds: int, claimers: int = 16) -> Samples:
    """All of them, one after the other."""
    found: Samples = {}
    for part in (
        cold_and_import(rounds),
        asyncio.run(warm(rounds)),
        asyncio.run(crowd(rounds, claimers)),
        apart(_http, rounds),  # as a client of a server is
    ):
        found |= part
    return found


def _http(rounds: int) -> Samples:
    return asyncio.run(http(rounds))


def cold_and_import(rounds: int) -> Samples:
    """What a preloaded template saves."""
    samples = []
    for _ in range(rounds):
        begun = time.perf_counter()
        with Sandbox(image="data") as sandbox:
            assert sandbox.run_code("import pandas, matplotlib.pyplot; 1+1").text == "2"
            samples.append((time.perf_counter() - begun) * 1e3)
    return {"dayfly, data: cold start and import, ms": samples}


async def warm(rounds: int) -> Samples:
    """Claims of one at a time, personalised: environment, limits. And how long the next spare takes."""
    found: Samples = {}
    async with kept(2) as (manager, spares):
        for number in range(rounds + 1):
            await asyncio.sleep(REST_SECONDS)
            policy = Policy(image="data", limits=Limits(run_seconds=30 + number))
            begun = time.perf_counter()
            life = await manager.open(policy, env={"WHO": str(number)})
            done = await life.execute("import pandas, os; os.environ['WHO']")
            taken = (time.perf_counter() - begun) * 1e3
            assert done.text == repr(str(number)), done
            begun += REFILL_PAUSE  # before that it is not begun
            while len(spares) < 2:
                await asyncio.sleep(0.001)
            refilled = (time.perf_counter() - begun) * 1e3
            await life.close()
            if number:  # the first may pay for what all share
                found.setdefault("dayfly, data: warm claim to first result, ms", []).append(taken)
                found.setdefault("dayfly, data: next spare, from its beginning, ms", []).append(refilled)
    return found


async def crowd(rounds: int, count: int) -> Samples:
    """As many at once as there are spares: when half of them, and nine of ten, have their first result."""
    found: Samples = {}
    async with kept(count) as (manager, spares):

        async def claim(number: int) -> tuple[float, RecordedLife]:
            begun = time.perf_counter()
            life = await manager.open(Policy(image="data"), env={"WHO": str(number)})
            await life.execute("1+1")
            return (time.perf_counter() - begun) * 1e3, life

        for _ in range(min(rounds, 5)):
            await spares.full()
            await asyncio.sleep(REST_SECONDS)
            claimed = await asyncio.gather(*map(claim, range(count)))
            taken = sorted(one for one, _ in claimed)
            found.setdefault(f"dayfly, data: {count} warm claims at once, half of them, ms", []).append(
                taken[count // 2]
            )
            found.setdefault(f"dayfly, data: {count} warm claims at once, 90 %, ms", []).append(
                taken[-(-count * 9 // 10) - 1]
            )
            await asyncio.gather(*(life.close() for _, life in claimed))
    return found


async def http(rounds: int) -> Samples:
    """The same through ``dayfly serve`` on loopback."""
    found: Samples = {}
    with served(CONFIG.format(spares=2)) as (url, key):
        for number in range(rounds + 1):
            await ready(url, key, 2)
            await asyncio.sleep(REST_SECONDS)
            begun = time.perf_counter()
            async with AsyncSandbox(url=url, api_key=key, template="data", env={"WHO": str(number)}) as sandbox:
                assert (await sandbox.run_code("1+1")).text == "2"
                taken = (time.perf_counter() - begun) * 1e3
                await ready(url, key, 2)
                again = []
                for _ in range(30):
                    begun = time.perf_counter()
                    await sandbox.run_code("1+1")
                    again.append((time.perf_counter() - begun) * 1e3)
                bare = bare_socket(url, key, f"/v1/sandboxes/{sandbox.id}/executions", 30)
            if number:
                found.setdefault("dayfly over HTTP, data: warm claim to first result, ms", []).append(taken)
                found.setdefault("dayfly over HTTP, data: trivial execution, ms", []).append(sorted(again)[15])
                found.setdefault("a bare socket over HTTP, data: trivial execution, ms", []).append(sorted(bare)[15])
    return found


def bare_socket(url: str, key: str, path: str, count: int) -> list[float]:
    """The least that a client of the server can be: bytes that are made once, and an answer that is not looked into."""
    host, port = url.removeprefix("http://").split(":")
    body = b'{"code":"1+1"}'
    head = f"POST {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n"
    request = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
    samples = []
    with socket.create_connection((host, int(port))) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(count):
            begun = time.perf_counter()
            connection.sendall(request)
            answer = connection.recv(1 << 20)
            while not answer.endswith(b"}"):
                answer += connection.recv(1 << 20)
            samples.append((time.perf_counter() - begun) * 1e3)
            assert answer.startswith(b"HTTP/1.1 200"), answer
    return samples


async def ready(url: str, key: str, count: int) -> None:
    """Until so many spares wait at the server. It tells how many there are, but nobody of a change: so it is asked."""
    async with httpx.AsyncClient(base_url=url, headers={"authorization": f"Bearer {key}"}, trust_env=False) as client:
        while (await client.get("/v1/templates")).json()["templates"][0]["ready"] < count:
            await asyncio.sleep(0.02)


@asynccontextmanager
async def kept(count: int) -> AsyncIterator[tuple[Manager, Spares]]:
    """A manager with this many spares that are ready."""
    manager = embedded()
    try:
        spares = manager.keep(Template("data", Policy(image="data"), count, preload=PRELOAD))
        await spares.full()
        yield manager, spares
    finally:
        await manager.close()


@contextmanager
def served(config: str) -> Iterator[tuple[str, str]]:
    """The URL and a key of a server with a data directory of its own."""
    dayfly = [sys.executable, "-m", "dayfly"]
    with tempfile.TemporaryDirectory(prefix="bench-", dir="/var/tmp") as directory:
        data = Path(directory)
        data.chmod(0o755)
        for shared in (default_paths().bin, default_paths().images):
            (data / shared.name).symlink_to(shared)
        (data / "dayfly.toml").write_text(config)
        environment = {**os.environ, "DAYFLY_DATA": directory}
        key = subprocess.run(
            [*dayfly, "keys", "create", "bench"], env=environment, capture_output=True, text=True, check=True
        )
        command = [*dayfly, "serve", "--port", "0", "--config", str(data / "dayfly.toml")]
        with subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as server:
            try:
                assert server.stdout
                yield server.stdout.readline().removeprefix("listening on ").strip(), key.stdout.strip()
            finally:
                server.terminate()
                server.wait(60)
