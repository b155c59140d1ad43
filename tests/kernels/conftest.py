"""Kernels to run code in: in real gVisor, with the images that people get."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from dayfly.agent_bundle import agent_for
from dayfly.boundaries.gvisor import GvisorBoundary
from dayfly.limits import Limits
from dayfly.spec import SandboxSpec
from tests.agent.host import LIMITS, USER, Host
from tests.kernels.room import Room
from tests.machine import gvisor_with, image, named, runscs, short_directory

OpenRoom = Callable[..., Awaitable[Room]]


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
async def open_room(boundary: GvisorBoundary, agents: Path, name: str, **options: Any) -> AsyncIterator[Room]:
    chosen = image(name)
    spec = SandboxSpec(secrets.token_hex(16), chosen, options.pop("caps", Limits()), agent_for(chosen, agents))
    cell = await boundary.open(spec)
    try:
        host = Host(cell)
        await host.hello(**{"user": USER, "limits": LIMITS, **options})
        yield Room(host)
    finally:
        await cell.kill()


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def room(request: pytest.FixtureRequest, gvisor: GvisorBoundary, agents: Path) -> AsyncIterator[Room]:
    """One sandbox of the image ``data`` for a whole module; each test takes a context of its own or leaves no trace.

    Its ``PRESTART`` says which kernels the module has use for.
    """
    async with open_room(gvisor, agents, "data", prestart=getattr(request.module, "PRESTART", ["python"])) as opened:
        yield opened


@pytest_asyncio.fixture(loop_scope="module")
async def rooms(gvisor: GvisorBoundary, agents: Path) -> AsyncIterator[OpenRoom]:
    """Sandboxes of the test's own, with options of Hello."""
    async with AsyncExitStack() as stack:

        async def make(name: str = "python", **options: Any) -> Room:
            return await stack.enter_async_context(open_room(gvisor, agents, name, **options))

        yield make
