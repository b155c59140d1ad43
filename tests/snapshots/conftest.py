"""Real sandboxes whose lives are stopped, copied and gone on with."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from dayfly.agent_bundle import agent_for
from dayfly.boundaries.gvisor import GvisorBoundary
from dayfly.policy import Policy
from dayfly.sandbox import Life
from dayfly.sandbox.snapshot import Suspended
from dayfly.spec import SandboxSpec
from tests.machine import gvisor_with, image, named, runscs, short_directory


@dataclass(frozen=True)
class House:
    """Opens lives of one image and restores them; ``directory`` is for snapshots."""

    boundary: GvisorBoundary
    directory: Path
    policy: Policy

    def spec(self, hostname: str = "sandbox") -> SandboxSpec:
        chosen = image(self.policy.image)
        agent = agent_for(chosen, self.directory / "agents")
        return SandboxSpec(secrets.token_hex(16), chosen, self.policy.limits, agent, hostname=hostname)

    @asynccontextmanager
    async def life(self, prestart: Sequence[str] = ("python",)) -> AsyncIterator[Life]:
        life = await Life.open(self.boundary, self.spec("template"), self.policy, env={}, prestart=prestart)
        try:
            yield life
        finally:
            await life.close()

    @asynccontextmanager
    async def restored(
        self, suspended: Suspended, hostname: str = "restored", *, keep_seeds: bool = False
    ) -> AsyncIterator[Life]:
        spec = self.spec(hostname)
        life = await Life.restore(self.boundary, suspended, spec, self.policy, keep_seeds=keep_seeds)
        try:
            yield life
        finally:
            await life.close()

    def new_directory(self) -> Path:
        return self.directory / secrets.token_hex(4)


@pytest.fixture(scope="module", params=runscs(), ids=named)
def house(request: pytest.FixtureRequest) -> Iterator[House]:
    """With each runsc in turn."""
    with gvisor_with(request.param) as boundary, short_directory() as directory:
        yield House(boundary, directory, Policy(image="data"))
