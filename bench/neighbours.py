"""What a sandbox feels of those beside it: trivial runs over HTTP while others flood their callers with output, and others
burn CPU, memory and processes. The callers of the floods read as fast as they can, on the same machine."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import quantiles

import httpx

from bench.contenders import TWO_LOOP, BareRunsc, seconds
from bench.lives import served
from bench.measures import Samples
from dayfly.images import Store

CONFIG = """
[default_caps]
sandboxes = 40
"""

SMALL = {"image": "python", "limits": {"memory": "512MiB", "output": "64MiB"}}

FLOODS = ("for _ in range(60_000): print('x' * 1000)",) * 8
"""As much as one run may print; their callers run them again."""

HOGS = (
    "while True: pass",
    "while True: pass",
    "import hashlib\nwhile True: hashlib.sha256(bytes(1 << 20))",
    "while True: [bytearray(1 << 20) for _ in range(300)]",
    "while True: [bytearray(1 << 20) for _ in range(300)]",
    "import os\nwhile True:\n    if os.fork() == 0: os._exit(0)\n    os.wait()",
    "import os, time\nfor _ in range(100):\n    if os.fork() == 0:\n        while True: pass\nwhile True: time.sleep(1)",
    "import threading\nfor _ in range(50): threading.Thread(target=lambda: [0 for _ in iter(int, 1)], daemon=True).start()\nwhile True: pass",
)


SETTLE_SECONDS = 3.0
"""From the first word of each: what is measured is how they go on, and not how they start."""

KINDS = (
    ("alone", ()),
    ("beside 8 floods", FLOODS),
    ("beside 8 hogs", HOGS),
    ("beside 8 floods and 8 hogs", FLOODS + HOGS),
)


def neighbours(rounds: int, runs: int = 400) -> Samples:
    """The 99th percentile of trivial runs: alone, beside either kind, and beside all of them. They take turns, and so does
    a bare runsc, which no server and no client stands before: what the machine itself has left for a neighbour."""
    found: Samples = {}
    bare = BareRunsc("bare runsc", Store().resolve("python"), TWO_LOOP, one_cpu=False)
    with (
        started(bare),
        served(CONFIG) as (url, key),
        httpx.Client(base_url=url, headers={"authorization": f"Bearer {key}"}, timeout=120) as client,
    ):
        path = _opened(client)
        _trivial(client, path, 50)
        for _ in range(rounds):
            for name, others in KINDS:
                with busy(url, key, client, others):
                    samples = _trivial(client, path, runs)
                    floor = [seconds(bare.again) * 1e3 for _ in range(runs)]
                found.setdefault(f"a neighbour, {name}: p99 of a trivial execution, ms", []).append(_p99(samples))
                found.setdefault(f"a bare neighbour, {name}: p99 of a trivial execution, ms", []).append(_p99(floor))
    return found


@contextmanager
def started(bare: BareRunsc) -> Iterator[None]:
    bare.start()
    try:
        yield
    finally:
        bare.stop()


def _p99(samples: Sequence[float]) -> float:
    return quantiles(samples, n=100)[98]


def _trivial(client: httpx.Client, path: str, runs: int) -> list[float]:
    samples = []
    for _ in range(runs):
        begun = time.perf_counter()
        done = client.post(f"{path}/executions", json={"code": "1+1"})
        samples.append((time.perf_counter() - begun) * 1e3)
        assert done.json()["outcome"] == "ok", done.text
    return samples


def _opened(client: httpx.Client) -> str:
    made = client.post("/v1/sandboxes", json={"policy": SMALL})
    assert made.status_code == 201, made.text
    return f"/v1/sandboxes/{made.json()['id']}"


@contextmanager
def busy(url: str, key: str, client: httpx.Client, codes: Sequence[str]) -> Iterator[None]:
    """While as many sandboxes run these, each with a caller that reads whatever comes, in another process."""
    paths = [_opened(client) for _ in codes]
    words = [word for pair in zip(paths, codes, strict=True) for word in pair]
    callers = subprocess.Popen(
        [sys.executable, Path(__file__).with_name("callers.py"), url.rpartition(":")[2], key, *words],
        stdout=subprocess.PIPE,
    )
    try:
        assert callers.stdout
        assert callers.stdout.readline() == b"all of them run\n"
        time.sleep(SETTLE_SECONDS if codes else 0.0)
        yield
    finally:
        callers.terminate()
        callers.wait(60)
        for path in paths:
            client.delete(path)
