"""A tunnel of which the gateway's end is closed before anybody has said why: as when it is killed in this moment."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator

import pytest

from dayfly.egress import tunnel as tunnels
from dayfly.egress.denials import gone
from dayfly.egress.tunnel import Closed, Tunnel

GONE = gone("host.example", 443)
CLOSED = Closed("host.example", 443, 0, "192.0.2.1", 0, 0, 1.0, "gateway_gone")


@pytest.fixture
def cut() -> Iterator[Tunnel]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    made = Tunnel(ours, "host.example", 443, "192.0.2.1", news=lambda: None, ended=lambda: None)
    theirs.close()
    yield made
    made.close()


async def test_who_writes_in_this_moment_hears_why(cut: Tunnel) -> None:
    writing = asyncio.ensure_future(cut.write(b"x"))
    await asyncio.sleep(0)
    cut.has_ended(CLOSED, GONE)
    with pytest.raises(BrokenPipeError, match="gateway_gone"):
        await writing
    assert cut.denied == GONE
    assert cut.sent == 0


async def test_who_reads_in_this_moment_hears_why(cut: Tunnel) -> None:
    reading = asyncio.ensure_future(cut.read(1))
    await asyncio.sleep(0)
    cut.has_ended(CLOSED, GONE)
    with pytest.raises(ConnectionResetError, match="gateway_gone"):
        await reading
    assert cut.denied == GONE


async def test_who_hears_nothing_does_not_wait_for_ever(cut: Tunnel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tunnels, "TOLD_SECONDS", 0.01)
    with pytest.raises(BrokenPipeError, match="the tunnel is closed"):
        await cut.write(b"x")
    with pytest.raises(ConnectionResetError, match="nobody says why"):
        await cut.read(1)
    assert cut.denied is None
