"""Kernels to run code in: in real gVisor, with the images that people get."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from dayfly.agent_bundle import agent_for
from dayfly.boundaries.gvisor import GvisorBoundary
from dayfly.errors import ImageNotFound
from dayfly.images import Store, build, load_recipe, recipe_names, shipped_recipe
from dayfly.limits import Limits
from dayfly.paths import Paths
from dayfly.runtime import find_runsc
from dayfly.spec import Image, SandboxSpec
from tests.agent.host import LIMITS, USER, Host
from tests.kernels.room import Room

RECIPES = Path(__file__).parent.parent / "recipes"

OpenRoom = Callable[..., Awaitable[Room]]


def runscs() -> list[str]:
    """The runsc of this machine, and those that ``DAYFLY_RUNSC_ALSO`` names (separated by colons)."""
    also = os.environ.get("DAYFLY_RUNSC_ALSO", "")
    return ["", *(path for path in also.split(":") if path)]


def image(name: str) -> Image:
    """A built image; built if it is not there."""
    try:
        return Store().resolve(name)
    except ImageNotFound:
        return build(shipped_recipe(name) if name in recipe_names() else load_recipe(RECIPES / f"{name}.toml"))


@pytest.fixture(scope="session")
def agents() -> Iterator[Path]:
    """A directory for bundles."""
    directory = Path(tempfile.mkdtemp(prefix="dfa"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


@pytest.fixture(scope="module", params=runscs(), ids=lambda path: Path(path).name or "runsc")
def gvisor(request: pytest.FixtureRequest) -> Iterator[GvisorBoundary]:
    """gVisor with each runsc in turn. A missing one fails."""
    data = Path(tempfile.mkdtemp(prefix="dft"))  # short: sockets lie in it
    data.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DAYFLY_RUNSC", request.param or str(find_runsc().path))
        yield GvisorBoundary(Paths(data, data / "run"))
    shutil.rmtree(data)


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
async def room(gvisor: GvisorBoundary, agents: Path) -> AsyncIterator[Room]:
    """One sandbox of the image ``data`` for a whole module; each test takes a context of its own or leaves no trace."""
    async with open_room(gvisor, agents, "data", prestart=["python"]) as opened:
        yield opened


@pytest_asyncio.fixture(loop_scope="module")
async def rooms(gvisor: GvisorBoundary, agents: Path) -> AsyncIterator[OpenRoom]:
    """Sandboxes of the test's own, with options of Hello."""
    async with AsyncExitStack() as stack:

        async def make(name: str = "python", **options: Any) -> Room:
            return await stack.enter_async_context(open_room(gvisor, agents, name, **options))

        yield make
