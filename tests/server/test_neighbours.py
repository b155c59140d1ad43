"""Those who flood, burn and hoard in their sandboxes, through one server: whoever is beside them is answered all the same.

How fast, ``make bench`` says; here the bounds are generous.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx

from dayfly.boundaries.gvisor.cgroup_home import find_home
from dayfly.boundaries.gvisor.cgroups import cgroup_name
from tests.server.house import TINY
from tests.server.remains import Remains
from tests.server.test_serve import environment, here, new_key, serving, with_key

__all__ = ["environment"]

BOUND = 15.0
"""Seconds for a trivial run on a machine that is full, with other tests beside these."""

FLOOD = "for _ in range(3000): print('x' * 1000)"
"""Within the default cap on output, so that all of it goes through the server."""

HOGS = (
    "while True: pass",
    "while True: [bytearray(1 << 20) for _ in range(100)]",
    "import os\nwhile True:\n    if os.fork() == 0: os._exit(0)\n    os.wait()",
    "import os\nfor _ in range(30):\n    if os.fork() == 0:\n        while True: pass\nwhile True: pass",
)


class Caller(threading.Thread):
    """Runs code in a sandbox again and again. ``taken`` counts what came; one that does not ``read`` leaves it all lying."""

    def __init__(self, url: str, key: str, path: str, code: str, *, read: bool = True) -> None:
        super().__init__(daemon=True)
        self._port = int(url.rpartition(":")[2])
        self.sandbox = path.rpartition("/")[2]
        body = json.dumps({"code": code, "timeout": 600})
        head = f"POST {path}/executions HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key.strip()}\r\n"
        head += "accept: application/x-ndjson\r\ncontent-type: application/json\r\nconnection: close\r\n"
        self._request = f"{head}content-length: {len(body)}\r\n\r\n{body}".encode()
        self._read = read
        self._stopped = threading.Event()
        self.taken = 0
        self.answered = threading.Event()

    def run(self) -> None:
        while not self._stopped.is_set():
            with socket.create_connection(("127.0.0.1", self._port)) as connection:
                connection.sendall(self._request)
                self._take(connection)

    def _take(self, connection: socket.socket) -> None:
        while not self._stopped.is_set() and (data := connection.recv(1 << 20)):
            self.taken += len(data)
            if b'"started"' in data:
                self.answered.set()
            if not self._read and self.answered.is_set():
                self._stopped.wait()

    def stop(self) -> None:
        self._stopped.set()


@contextmanager
def calling(url: str, key: str, client: httpx.Client, code: str, *, read: bool = True) -> Iterator[Caller]:
    """Such a caller of a sandbox of its own, from when its first run has begun."""
    made = client.post("/v1/sandboxes", json={"policy": TINY})
    assert made.status_code == 201, made.text
    path = f"/v1/sandboxes/{made.json()['id']}"
    caller = Caller(url, key, path, code, read=read)
    caller.start()
    try:
        assert caller.answered.wait(60)
        yield caller
    finally:
        caller.stop()
        assert client.delete(path).status_code == 200
        caller.join(60)


def test_whoever_is_beside_floods_and_hogs_is_answered(environment: dict[str, str]) -> None:
    data = Path(environment["DAYFLY_DATA"])
    key = new_key(environment)
    with (
        (data / "log").open("w") as log,
        serving(environment, errors=log) as (process, url),
        httpx.Client(base_url=url, headers=with_key(key), timeout=BOUND) as client,
        ExitStack() as busy,
    ):
        path = f"/v1/sandboxes/{client.post('/v1/sandboxes', json={'policy': TINY}).json()['id']}"
        floods = [busy.enter_context(calling(url, key, client, FLOOD)) for _ in range(4)]
        idler = busy.enter_context(calling(url, key, client, FLOOD, read=False))
        hogs = [busy.enter_context(calling(url, key, client, code)) for code in HOGS]
        before, left, resident = [one.taken for one in floods], idler.taken, Remains.of(process.pid, data, ()).resident
        for number in range(20):
            done = client.post(f"{path}/executions", json={"code": f"kept = {number}\nprint(kept * 2)"}).json()
            assert (done["outcome"], done["stdout"]) == ("ok", f"{number * 2}\n")
        behind, deadline = set[str](), time.monotonic() + 60
        while len(behind) < len(hogs):
            assert time.monotonic() < deadline, f"only {behind} stepped behind"
            assert client.get("/healthz").status_code == 200
            behind |= {one.sandbox for one in hogs if _is_behind(one)}
        while any(one.taken - taken < 1 << 20 for one, taken in zip(floods, before, strict=True)):
            assert client.get("/healthz").status_code == 200  # the floods go on, every one of them
        assert idler.taken == left
        assert Remains.of(process.pid, data, ()).resident < resident + (100 << 20)
    assert here(environment, "ps").stdout == ""


def _is_behind(caller: Caller) -> bool:
    """Whether the kernel lets others go before its sandbox; where it cannot be told so, it need not be."""
    home = find_home()
    if home is None or "cpu" not in home.parents:
        return True
    told = home.parents["cpu"] / cgroup_name(caller.sandbox[:16]) / "cpu.idle"
    assert told.parent.is_dir()
    return not told.exists() or told.read_text() == "1\n"
