"""One world and one loop for the whole folder; sandboxes are shared where a test leaves them as they were."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from dayfly import AsyncSandbox
from dayfly.prove.internet import Internet, Names
from dayfly.prove.world import certificate
from tests.egress.objects.store import Store, running
from tests.machine import furnished_directory, image
from tests.network.world import EVIL, RULES, STORE, House, World


@pytest.fixture(scope="session")
def internet() -> Iterator[Internet]:
    with Internet.made() as made:
        yield made


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def earth(internet: Internet) -> AsyncIterator[World]:
    image("data")
    image("tiny")
    names = Names()
    await names.listen(internet.bind("near", "udp", "127.0.0.1", 53))
    with furnished_directory() as data, tempfile.TemporaryDirectory() as keys:
        made = World(internet, names, data, certificate(Path(keys), ("api.example.com", STORE, EVIL)))
        await made.furnish()
        yield made
        await made.close()
    names.close()


@pytest.fixture(scope="session")
def store(earth: World, internet: Internet) -> Iterator[Store]:
    """Where the gateway is, on its loopback."""
    with running(internet.within, earth.certificate) as made:
        yield made


@pytest.fixture
def world(earth: World) -> World:
    """As if nobody had been there before."""
    earth.calm()
    return earth


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def home(earth: World) -> AsyncIterator[House]:
    async with earth.house() as made:
        yield made


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def shared(home: House) -> AsyncIterator[AsyncSandbox]:
    """With all of ``RULES``, and the world's certificate in its home."""
    async with home.believing(*RULES, image="data") as made:
        yield made
