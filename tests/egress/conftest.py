"""Real gateways, real sockets: on loopback, or in an internet of namespaces."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
import pytest_asyncio

from dayfly.egress.client import Gateway
from dayfly.network import Rule
from dayfly.prove.internet import Internet
from tests.egress.canary import Canary


@pytest.fixture
async def gateway() -> AsyncIterator[Gateway]:
    made = await Gateway.start()
    try:
        yield made
    finally:
        await made.close()


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def kept() -> AsyncIterator[Gateway]:
    """One for the tests of a module, which are on one loop."""
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


@asynccontextmanager
async def emptied(gateway: Gateway) -> AsyncIterator[Gateway]:
    """For one of the tests of a module that shares it: nobody's rules, tunnels or caps are left of it afterwards."""
    yield gateway
    assert not gateway.lost.is_set()
    for sandbox in [*gateway._admitted]:
        await gateway.withdraw(sandbox)
    gateway.on_closed = lambda sandbox, closed: None


@pytest.fixture
def descriptors() -> Iterator[int]:
    """The test leaves as many as it found: so many."""
    before = len(os.listdir("/proc/self/fd"))
    yield before
    assert len(os.listdir("/proc/self/fd")) <= before


def local(port: int, protocol: str = "tcp", **more: object) -> tuple[Rule, ...]:
    """Rules for ``localhost`` on one port of this machine."""
    return (Rule(host="localhost", ports=[port], protocol=protocol, private="127.0.0.0/8", **more),)
