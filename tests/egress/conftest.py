"""Real gateways, real sockets: on loopback, or in an internet of namespaces."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator

import pytest

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


@pytest.fixture
async def canary() -> AsyncIterator[Canary]:
    made = await Canary().listen()
    yield made
    await made.close()


@pytest.fixture(scope="session")
def internet() -> Iterator[Internet]:
    with Internet.made() as made:
        yield made


async def forget(gateway: Gateway) -> None:
    """After a test, where a module shares one: nobody's rules, tunnels or caps are left of it."""
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
