"""A gateway in foreign hands costs its manager the gateway, and nothing else."""

from __future__ import annotations

import asyncio
import errno
import socket
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from dayfly.egress import client, tunnel
from dayfly.egress.client import Closed, EgressDenied, EgressUnreachable, Gateway
from dayfly.egress.terms import Terms
from dayfly.errors import HostError
from dayfly.network import Rule
from tests.egress import liar
from tests.egress.canary import until

HONEST = {"screen", "leaves", "only connects", "counts nothing", "no answer to a connect", "no answer"}
RULES = (Rule(host="a.example"),)


async def lying(lie: str) -> Gateway:
    return await Gateway.start(within=(sys.executable, liar.__file__, lie))


@pytest.mark.usefixtures("descriptors")
@pytest.mark.parametrize("lie", [one for one in liar.LIES if one not in HONEST])
async def test_a_packet_that_does_not_fit_ends_the_gateway(lie: str) -> None:
    gateway = await lying(lie)
    pid = gateway.pid
    told: list[Closed] = []
    gateway.on_closed = lambda sandbox, closed: told.append(closed)
    await gateway.admit("one", Terms(rules=RULES))
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
    assert (denied.host, denied.port, denied.reason, denied.remedy) == ("a.example", 443, "?[2Jr??", "?r")
    await gateway.close()


async def test_an_end_that_nobody_explains_is_no_whole_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tunnel, "TOLD_SECONDS", 0.05)
    gateway = await lying("leaves")
    await gateway.admit("one", Terms(rules=RULES))
    made = await gateway.connect("one", "a.example", 443)
    with pytest.raises(ConnectionResetError):
        await made.read(10)
    with pytest.raises(BrokenPipeError):
        await made.write(b"x")
    made.close()
    await gateway.close()


async def test_one_that_never_ends_a_tunnel_is_ended_with_it() -> None:
    gateway = await lying("only connects")
    await gateway.admit("one", Terms(rules=RULES))
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


async def test_what_was_handed_over_is_told_whatever_it_says() -> None:
    gateway = await lying("counts nothing")
    told = []
    gateway.on_closed = lambda sandbox, closed: told.append((closed.sent, closed.received))
    await gateway.admit("one", Terms(rules=RULES))
    made = await gateway.connect("one", "a.example", 443)
    await made.write(b"hello")
    assert await made.read(10) == b"answer"
    made.close()
    await until(lambda: bool(told))
    assert told == [(5, 6)]
    await gateway.close()


@pytest.mark.usefixtures("descriptors")
@pytest.mark.parametrize("what", ["admit", "withdraw", "connect"])
async def test_one_that_does_not_answer_in_time_is_lost_and_ended(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    monkeypatch.setattr(client, "ANSWER_SECONDS", 0.1)
    monkeypatch.setattr(client, "CONNECT_SECONDS", 0.1)
    gateway = await lying("no answer")
    pid = gateway.pid
    async with asyncio.timeout(10):
        if what == "withdraw":
            await gateway.withdraw("one")  # nothing of it is left
        elif what == "admit":
            with pytest.raises(HostError):
                await gateway.admit("one", Terms(rules=RULES))
        else:
            with pytest.raises(EgressDenied, match="has ended") as caught:
                await gateway.connect("one", "A.example", 443)
            assert (caught.value.denied.host, caught.value.denied.port) == ("a.example", 443)
    assert gateway.lost.is_set()
    await gateway.close()
    assert not Path(f"/proc/{pid}").exists()


async def test_one_that_dies_during_a_connect_is_told_with_the_host_that_was_asked_for() -> None:
    gateway = await lying("no answer to a connect")
    await gateway.admit("one", Terms(rules=RULES))
    asked = [
        asyncio.ensure_future(gateway.connect("one", host, 443)) for host in ("A.example.", "evil\n\x1b" * 100, "::1")
    ]
    await asyncio.sleep(0)
    await gateway.close()
    for one, host in zip(asked, ("a.example", "evil\\n\\x1b", "::1"), strict=True):
        with pytest.raises(EgressDenied) as caught:
            await one
        denied = caught.value.denied
        assert denied.code == "gateway_gone"
        assert denied.host.startswith(host)
        assert denied.host.isprintable()
        assert len(denied.host) < 400


@pytest.mark.parametrize("port", [-1, 0, 65536, 2**70, True, "443"])
async def test_what_is_no_port_is_zero_wherever_it_is_told(port: int) -> None:
    gateway = await lying("only connects")
    with pytest.raises(EgressDenied) as too_long:
        await gateway.connect("one", "x" * 5000, port)
    await gateway.close()
    with pytest.raises(EgressDenied) as gone:
        await gateway.connect("one", "a.example", port)
    assert (too_long.value.denied.port, gone.value.denied.port) == (0, 0)


@pytest.mark.usefixtures("descriptors")
async def test_a_connect_that_the_kernel_does_not_send_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    gateway = await lying("only connects")
    await gateway.admit("one", Terms(rules=RULES))

    def refuse(*_: object) -> int:
        raise OSError(errno.ETOOMANYREFS, "too many")

    with monkeypatch.context() as patched:
        patched.setattr(socket, "send_fds", refuse)
        with pytest.raises(EgressUnreachable):
            await asyncio.wait_for(gateway.connect("one", "a.example", 443), 10)
    (await gateway.connect("one", "a.example", 443)).close()
    await gateway.close()
