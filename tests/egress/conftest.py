"""Real gateways, real sockets: on loopback, or in an internet of namespaces."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator

import pytest

from dayfly.egress.client import Gateway
from dayfly.network import Rule
from dayfly.prove.internet import Internet, Names
from tests.egress.canary import Canary


@pytest.fixture
async def gateway() -> AsyncIterator[Gateway]:
    made = await Gateway.start()
    try:
        yield made
    finally:
        await made.close()


@pytest.fixture
async def canary() -> AsyncIterator[Canary]:
    made = await Canary().listen()
    yield made
    await made.close()


@pytest.fixture(scope="session")
def internet() -> Iterator[Internet]:
    with Internet.made() as made:
        yield made


@pytest.fixture
async def names(internet: Internet) -> AsyncIterator[Names]:
    made = Names()
    await made.listen(internet.bind("near", "udp", "127.0.0.1", 53))
    yield made
    made.close()


@pytest.fixture
async def outside(internet: Internet) -> AsyncIterator[Gateway]:
    """A gateway in the internet of namespaces."""
    made = await Gateway.start(within=internet.within)
    yield made
    await made.close()


@pytest.fixture
def descriptors() -> Iterator[int]:
    """The test leaves as many as it found: so many."""
    before = len(os.listdir("/proc/self/fd"))
    yield before
    assert len(os.listdir("/proc/self/fd")) <= before


def local(port: int, protocol: str = "tcp", **more: object) -> tuple[Rule, ...]:
    """Rules for ``localhost`` on one port of this machine."""
    return (Rule(host="localhost", ports=[port], protocol=protocol, private="127.0.0.0/8", **more),)
