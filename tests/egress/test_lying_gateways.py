"""A gateway in foreign hands costs its manager the gateway, and nothing else."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from dayfly.egress import client, tunnel
from dayfly.egress.client import Closed, EgressDenied, Gateway
from dayfly.errors import HostError
from tests.egress import liar

HONEST = {"screen", "leaves", "only connects"}


async def lying(lie: str) -> Gateway:
    return await Gateway.start(within=(sys.executable, liar.__file__, lie))


@pytest.mark.usefixtures("descriptors")
@pytest.mark.parametrize("lie", [one for one in liar.LIES if one not in HONEST])
async def test_a_packet_that_does_not_fit_ends_the_gateway(lie: str) -> None:
    gateway = await lying(lie)
    pid = gateway.pid
    told: list[Closed] = []
    gateway.on_closed = lambda sandbox, closed: told.append(closed)
    await gateway.admit("one", ())
    with suppress(EgressDenied):  # or the lie comes after a connection
        (await gateway.connect("one", "a.example", 443)).close()
    await asyncio.wait_for(gateway.lost.wait(), 10)
    with pytest.raises(EgressDenied) as caught:
        await gateway.connect("one", "a.example", 443)
    assert caught.value.denied.code == "gateway_gone"
    await gateway.close()
    await asyncio.sleep(0)
    assert all(closed.why in ("gateway_gone", "done") for closed in told)
    assert not Path(f"/proc/{pid}").exists()


async def test_what_it_says_is_printable() -> None:
    gateway = await lying("screen")
    with pytest.raises(EgressDenied) as caught:
        await gateway.connect("one", "a.example", 443)
    denied = caught.value.denied
    assert (denied.host, denied.port, denied.reason, denied.remedy) == ("?]0;x?", 443, "?[2Jr??", "?r")
    await gateway.close()


async def test_an_end_that_nobody_explains_is_no_whole_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tunnel, "TOLD_SECONDS", 0.05)
    gateway = await lying("leaves")
    made = await gateway.connect("one", "a.example", 443)
    with pytest.raises(ConnectionResetError):
        await made.read(10)
    with pytest.raises(BrokenPipeError):
        await made.write(b"x")
    made.close()
    await gateway.close()


async def test_one_that_never_ends_a_tunnel_is_ended_with_it() -> None:
    gateway = await lying("only connects")
    told = []
    gateway.on_closed = lambda sandbox, closed: told.append(closed.why)
    made = await gateway.connect("one", "a.example", 443)
    made.close()
    await gateway.withdraw("one")
    await gateway.close()
    await asyncio.sleep(0)
    assert told == ["gateway_gone"]


@pytest.mark.usefixtures("descriptors")
async def test_one_that_is_never_ready_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "START_SECONDS", 0.3)
    with pytest.raises(HostError, match="did not start"):
        await lying("never ready")
