"""Agents to talk to: in real gVisor (each runsc of this machine) and, for what is the same everywhere, in a plain process."""

from __future__ import annotations

import os
import secrets
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from dayfly.agent.loop import Loop
from dayfly.agent_bundle import agent_for
from dayfly.boundaries.base import Boundary
from dayfly.boundaries.fake import FakeBoundary
from dayfly.boundaries.gvisor import GvisorBoundary
from dayfly.limits import Limits
from dayfly.spec import Image, SandboxSpec
from tests.agent.host import LIMITS, USER, Host
from tests.agent.namespace import open_alone
from tests.machine import gvisor_with, image, named, runscs, short_directory

OpenRoom = Callable[..., Awaitable[Host]]


@pytest.fixture
def loop() -> Iterator[Loop]:
    """The agent's loop in this process, for its parts alone."""
    old = {number: signal.getsignal(number) for number in (signal.SIGCHLD, signal.SIGALRM)}
    made = Loop()
    yield made
    made.abandon()
    for number, handler in old.items():
        signal.signal(number, handler)
    made._poll.close()
    os.close(made._wake_read)
    os.close(made._wake_write)


@pytest.fixture(scope="session")
def agents() -> Iterator[Path]:
    """A directory for bundles."""
    with short_directory() as directory:
        yield directory


@pytest.fixture(scope="module", params=runscs(), ids=named)
def gvisor(request: pytest.FixtureRequest) -> Iterator[GvisorBoundary]:
    """gVisor with each runsc in turn."""
    with gvisor_with(request.param) as boundary:
        yield boundary


@asynccontextmanager
async def open_room(boundary: Boundary, agents: Path, name: str = "", **options: Any) -> AsyncIterator[Host]:
    """A cell with the real agent, which has been greeted. Image ``name`` (``python``), or this machine for the fake."""
    fake = isinstance(boundary, FakeBoundary)
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    chosen = Image("here", "sha256:0", os.uname().machine, Path("/"), python_version=version) if fake else image(name)
    spec = SandboxSpec(secrets.token_hex(16), chosen, options.pop("caps", Limits()), agent_for(chosen, agents))
    cell = await boundary.open(spec)
    try:
        host = Host(cell)
        await host.hello(**{"user": None if fake else USER, "limits": LIMITS, **options})
        yield host
    finally:
        await cell.kill()


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def shared(gvisor: GvisorBoundary, agents: Path) -> AsyncIterator[Host]:
    """One sandbox for the whole module: for what leaves it as it was."""
    async with open_room(gvisor, agents, "python") as host:
        yield host


@pytest_asyncio.fixture(loop_scope="module")
async def room(gvisor: GvisorBoundary, agents: Path) -> AsyncIterator[Host]:
    """A sandbox of the test's own."""
    async with open_room(gvisor, agents, "python") as host:
        yield host


@pytest_asyncio.fixture(loop_scope="module")
async def rooms(gvisor: GvisorBoundary, agents: Path) -> AsyncIterator[OpenRoom]:
    """Sandboxes of the test's own, with options of Hello."""
    async with AsyncExitStack() as stack:

        async def make(name: str = "python", **options: Any) -> Host:
            return await stack.enter_async_context(open_room(gvisor, agents, name, **options))

        yield make


@pytest_asyncio.fixture(loop_scope="module", scope="module", params=["fake", *runscs()], ids=named)
async def inside(
    request: pytest.FixtureRequest, agents: Path, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Host]:
    """The same agent as a plain process of this user and as pid 1 of a sandbox, for what must be the same in both.

    Only for tests whose every command is harmless: the fake boundary separates nothing.
    """
    with ExitStack() as stack:
        if request.param == "fake":
            boundary: Boundary = FakeBoundary(trusted_code=True, directory=tmp_path_factory.mktemp("fake"))
        else:
            boundary = stack.enter_context(gvisor_with(request.param))
        async with open_room(boundary, agents, "python") as host:
            yield host


@pytest_asyncio.fixture(loop_scope="module", scope="module", params=["alone", *runscs()], ids=named)
async def connected(request: pytest.FixtureRequest, agents: Path) -> AsyncIterator[Host]:
    """An agent whose loopback is its own: as a plain process in a network namespace, and as pid 1 of a sandbox."""
    if request.param == "alone":
        async with open_alone(agents) as host:
            yield host
        return
    with gvisor_with(request.param) as boundary:
        async with open_room(boundary, agents, "python") as host:
            yield host
