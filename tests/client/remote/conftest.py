from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

import pytest

from dayfly import AsyncSandbox, Sandbox
from dayfly.manager import Registration
from tests.machine import image
from tests.server.house import House


@dataclass(frozen=True)
class Tenant:
    """A tenant of the server, and how its clients reach it."""

    server: House
    name: str
    key: str

    @property
    def at(self) -> dict[str, str]:
        """What a client is told."""
        return {"url": self.server.url, "api_key": self.key}

    def held(self, sandbox: str) -> Registration:
        """A sandbox as the server holds it."""
        return self.server.services.tenants.find(self.name, sandbox)

    @property
    def live(self) -> list[str]:
        """The ids of its sandboxes that live."""
        found = self.server.services.tenants.registrations(self.name)
        return [one.id for one in found if one.end_reason is None]


@pytest.fixture
def tenant(server: House) -> Tenant:
    return Tenant(server, "mine", server.key("mine"))


@pytest.fixture
def stranger(server: House) -> Tenant:
    return Tenant(server, "theirs", server.key("theirs"))


@pytest.fixture(scope="package", autouse=True)
def smallest() -> None:
    image("tiny")


@pytest.fixture
async def sandbox(tenant: Tenant) -> AsyncIterator[AsyncSandbox]:
    """Of a test's own."""
    async with AsyncSandbox(image="tiny", **tenant.at) as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def shared(server: House) -> Iterator[tuple[Tenant, str]]:
    """One sandbox for the tests of a module that leave nothing running in it, and whose it is: nobody's of the others."""
    everybody = Tenant(server, "everybody", server.key("everybody"))
    with Sandbox(image="tiny", **everybody.at) as made:
        yield everybody, made.id


@pytest.fixture
async def room(shared: tuple[Tenant, str]) -> AsyncIterator[AsyncSandbox]:
    """That sandbox."""
    everybody, ident = shared
    async with await AsyncSandbox.connect(ident, **everybody.at) as sandbox:
        yield sandbox
