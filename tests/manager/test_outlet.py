"""The manager's hold on the gateway: what it tells it of a sandbox, and what it remembers of that when something fails."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dayfly.errors import HostError
from dayfly.manager.outlet import Outlet
from dayfly.network import Rule

BEFORE, AFTER = (Rule(host="a.example.com"),), (Rule(host="b.example.com"),)


class MemoryGateway:
    """Remembers rules. ``refuses`` them, or takes them never."""

    def __init__(self) -> None:
        self.rules: dict[str, tuple[Rule, ...]] = {}
        self.lost = asyncio.Event()
        self.refuses = self.hangs = False

    async def admit(self, sandbox: str, rules: tuple[Rule, ...]) -> None:
        if self.refuses:
            raise HostError("it is of another version")
        self.rules[sandbox] = rules
        if self.hangs:
            await asyncio.Event().wait()

    async def withdraw(self, sandbox: str) -> None:
        self.rules.pop(sandbox, None)

    async def close(self) -> None: ...


class Starter:
    """Starts gateways."""

    def __init__(self) -> None:
        self.started: list[MemoryGateway] = []

    async def __call__(self) -> Any:
        self.started.append(MemoryGateway())
        return self.started[-1]

    @property
    def now(self) -> MemoryGateway:
        return self.started[-1]


def heard(_: object) -> None: ...


async def test_a_gateway_that_died_is_followed_by_one_that_knows_the_latest_rules() -> None:
    start = Starter()
    outlet = Outlet(start)
    for rules in (BEFORE, AFTER):
        await outlet.admit("one", rules, heard)
    start.now.lost.set()
    await asyncio.sleep(2)
    await outlet.admit("two", BEFORE, heard)
    assert [one.rules for one in start.started] == [{"one": AFTER}, {"one": AFTER, "two": BEFORE}]


async def test_what_was_not_taken_is_not_remembered() -> None:
    start = Starter()
    outlet = Outlet(start)
    await outlet.admit("one", BEFORE, heard)
    start.now.refuses = True
    for sandbox in ("one", "two"):
        with pytest.raises(HostError, match="version"):
            await outlet.admit(sandbox, AFTER, heard)
    start.now.lost.set()
    await asyncio.sleep(2)
    await outlet.admit("three", AFTER, heard)
    assert start.now.rules == {"one": BEFORE, "three": AFTER}


async def test_whoever_is_cancelled_leaves_nothing_that_cannot_be_withdrawn() -> None:
    start = Starter()
    outlet = Outlet(start)
    await outlet.admit("zero", BEFORE, heard)
    start.now.hangs = True
    admitting = asyncio.ensure_future(outlet.admit("one", AFTER, heard))
    await asyncio.sleep(1)
    admitting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await admitting
    assert start.now.rules == {"zero": BEFORE, "one": AFTER}
    await outlet.withdraw("one")
    assert start.now.rules == {"zero": BEFORE}


async def test_an_end_during_a_change_is_the_last_word() -> None:
    start = Starter()
    outlet = Outlet(start)
    await outlet.admit("one", BEFORE, heard)
    start.now.hangs = True
    changing = asyncio.ensure_future(outlet.admit("one", AFTER, heard))
    await asyncio.sleep(1)
    await outlet.withdraw("one")
    changing.cancel()
    await asyncio.wait({changing})
    start.now.lost.set()
    await asyncio.sleep(2)
    await outlet.admit("two", BEFORE, heard)
    assert start.now.rules == {"two": BEFORE}
