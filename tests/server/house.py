"""A real server: uvicorn on a loopback port, in a thread with a loop of its own, over real gVisor."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from dayfly.agent_bundle import agent_for
from dayfly.boundaries.base import Boundary
from dayfly.images import Store
from dayfly.journal import Journal, Reader, Signer
from dayfly.manager import Admission, Allowance, Capacity, Manager, Shelf, Template, Tenants
from dayfly.policy import Policy
from dayfly.server import Configuration, Keys
from dayfly.server.app import create_app
from dayfly.server.paused import PausedRecords
from dayfly.server.services import Services
from dayfly.server.serving import Listener, serve
from tests.machine import NO_TLS

TINY: dict[str, Any] = {"image": "tiny", "limits": {"memory": "256MiB"}}
"""A policy as a client writes it."""

SPARE = Template("spare", Policy(image="python"), spares=0)

ALLOWANCE = Allowance(sandboxes=20)
POOR = Allowance(sandboxes=1)
"""Of the tenant ``poor``."""


@dataclass
class House:
    """A running server; ``client`` makes clients of it. ``wall`` is the wall clock: of keys, sandboxes and budgets."""

    url: str
    keys: Keys
    services: Services
    loop: asyncio.AbstractEventLoop
    journal: Path
    writer: Journal
    directory: Path
    wall: list[float] = field(default_factory=lambda: [0.0])
    clients: list[httpx.Client] = field(default_factory=list)

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def key(self, tenant: str = "t", *scopes: str, **options: Any) -> str:
        return self.keys.create(tenant, "test", scopes or ("run",), **options)[1]

    def client(self, tenant: str = "t", *scopes: str) -> httpx.Client:
        return self.with_secret(self.key(tenant, *scopes))

    def with_secret(self, secret: str | None) -> httpx.Client:
        headers = {"authorization": f"Bearer {secret}"} if secret else {}
        client = httpx.Client(base_url=self.url, headers=headers, timeout=60, trust_env=False, verify=NO_TLS)
        self.clients.append(client)
        return client

    def call(self, coroutine: Any) -> Any:
        """Run something in the server's loop."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(60)

    def entries(self, kind: str) -> list[Any]:
        """What the journal has of a kind."""
        return [one.entry for one in self.reader().entries() if one.entry.kind == kind]

    def reader(self) -> Reader:
        """Of the journal, when all that has happened is in it."""
        self.writer._do(lambda: 0).result(30)
        return Reader(self.journal)


def an_allowance(tenant: str) -> Allowance:
    return POOR if tenant == "poor" else ALLOWANCE


@contextmanager
def sandbox_of(client: httpx.Client, policy: dict[str, Any]) -> Iterator[str]:
    """The path of a live sandbox, which lives as long as somebody is here."""
    made = client.post("/v1/sandboxes", json={"policy": policy})
    assert made.status_code == 201, made.text
    path = f"/v1/sandboxes/{made.json()['id']}"
    yield path
    assert client.delete(path).status_code == 200


@contextmanager
def house(boundary: Boundary, directory: Path, **configured: Any) -> Iterator[House]:
    """From its start to the end of all of its sandboxes."""
    ready: list[House] = []
    started, stop = threading.Event(), asyncio.Event()
    thread = threading.Thread(
        target=lambda: asyncio.run(_live(boundary, directory, configured, ready, started, stop)), name="house"
    )
    thread.start()
    started.wait(30)
    try:
        yield ready[0]
    finally:
        for client in ready[0].clients:
            client.close()
        ready[0].loop.call_soon_threadsafe(stop.set)
        thread.join(60)
        assert not thread.is_alive()


async def _live(
    boundary: Boundary,
    directory: Path,
    configured: dict[str, Any],
    ready: list[House],
    started: threading.Event,
    stop: asyncio.Event,
) -> None:
    configuration = Configuration(port=0, drain_seconds=1, **configured)
    keys_file, journal_file = directory / "server" / "state.db", directory / "journal.db"
    wall = [1_800_000_000.0]
    keys = Keys(keys_file, now=lambda: wall[0])
    signer = Signer.load(directory / "key")
    journal = Journal(journal_file, signer)
    tenants = _tenants(boundary, directory, journal, lambda: wall[0])
    services = Services(
        tenants, keys, _always_ready, configuration, journal=journal_file, public_key=signer.verifier.public
    )
    listener = Listener.bind(configuration)
    loop = asyncio.get_running_loop()
    ready.append(
        House(
            listener.url, Keys(keys_file, now=lambda: wall[0]), services, loop, journal_file, journal, directory, wall
        )
    )
    started.set()  # it listens already: a client waits until it is served
    try:
        await serve(create_app(services), listener, configuration, stop, tenants.end_all)
    finally:
        await tenants.close()
        journal.close()
        keys.close()


def _tenants(boundary: Boundary, directory: Path, journal: Journal, now: Callable[[], float]) -> Tenants:
    capacity = Capacity.of_machine(64 << 30, 64, overcommit=10, sandboxes=1000)
    admission = Admission(capacity, an_allowance, free_memory=lambda: 64 << 30)
    manager = Manager(
        {"gvisor": boundary},
        Store(),
        lambda image: agent_for(image, directory / "agents"),
        admission=admission,
        shelf=Shelf(directory / "paused", lasting=True),
        records=PausedRecords(directory / "server" / "state.db", directory / "paused"),
        now=now,  # the same clock as the tenants': else what is paused is over at once
    )
    manager.keep(SPARE)
    return Tenants(manager, admission, an_allowance, journal=journal, now=now)


async def _always_ready() -> None:
    return None
