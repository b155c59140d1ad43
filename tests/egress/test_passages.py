"""One connection in the gateway, without the process around it: what of its timing no packet can bring about."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from dayfly.egress import passage
from dayfly.egress.dialling import Dialler
from dayfly.egress.guests import Guest
from dayfly.egress.passage import Passage
from dayfly.egress.resolving import Resolver
from dayfly.egress.terms import Terms
from tests.egress.canary import Canary, Visit
from tests.egress.client_hello import hello
from tests.egress.conftest import local
from tests.egress.http.desk import Said


class One:
    def __init__(self, port: int, protocol: str) -> None:
        self.guest, self.said = Guest(), Said()
        self.guest.admit(Terms(rules=local(port, protocol)))
        self.sandbox, theirs = socket.socketpair()
        made = Passage(1, self.guest, Dialler(Resolver()), self.said, theirs)
        self.run = asyncio.ensure_future(made.run("localhost", port))

    async def last(self) -> dict[str, Any]:
        await asyncio.wait_for(self.run, 10)
        self.sandbox.close()
        return self.said.packets[-1]


async def silent(visit: Visit) -> None:
    await visit.read_all()


async def test_rules_that_change_a_moment_after_the_verdict_are_no_mistake(canary: Canary) -> None:
    one = One(canary.port, "tcp")
    await asyncio.sleep(0)
    one.guest.admit(Terms())
    last = await one.last()
    assert (last["op"], last.get("code")) == ("denied", "not_listed")


@pytest.mark.parametrize(
    ("protocol", "begins", "why"),
    [
        ("tls", b"", "done"),
        ("http", b"", "done"),
        ("tls", hello(b"localhost").records(), "reset"),  # it is the server that says nothing
        ("tls", b"\x16\x03\x01", "not_tls"),
    ],
)
async def test_a_silent_client_and_a_slow_server_break_no_rule(
    canary: Canary, monkeypatch: pytest.MonkeyPatch, protocol: str, begins: bytes, why: str
) -> None:
    monkeypatch.setattr(passage, "OPENING_SECONDS", 0.1)
    canary.behave = silent
    one = One(canary.port, protocol)
    one.sandbox.sendall(begins)
    last = await one.last()
    assert (last["op"], last["why"]) == ("closed", why)
    assert last["code"] == (why if why == "not_tls" else None)


async def test_making_a_connection_has_an_end(canary: Canary, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passage, "MAKING_SECONDS", 0.0)
    last = await One(canary.port, "tcp").last()
    assert (last["op"], "in time" in last["text"]) == ("unreachable", True)


async def test_a_mistake_of_ours_costs_one_connection_and_is_answered(canary: Canary) -> None:
    one = One(canary.port, "tcp")
    one.guest.judge = None  # type: ignore[assignment]
    last = await one.last()
    assert (last["op"], last["text"]) == ("unreachable", "The gateway failed (TypeError).")
