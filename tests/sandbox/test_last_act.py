"""What a sandbox does before it ends in good order: once, and only then."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from dayfly.sandbox import Life
from dayfly.spec import EndReason
from tests.sandbox.living import living


class Act:
    """Goes on until ``done`` is set. ``seen``: how the sandbox was when it began; ``cut``: it was cancelled."""

    def __init__(self, life: Life) -> None:
        self.life = life
        self.began = asyncio.Event()
        self.done = asyncio.Event()
        self.seen: list[EndReason | None] = []
        self.cut = False

    async def __call__(self) -> None:
        self.seen.append(self.life.end_reason)
        self.began.set()
        try:
            await self.done.wait()
        except asyncio.CancelledError:
            self.cut = True
            raise


async def test_it_is_done_before_a_close_and_once() -> None:
    async with living(None) as (life, _):
        act = life.last_act = Act(life)
        closing = [asyncio.ensure_future(life.close()) for _ in range(3)]
        await act.began.wait()
        assert life.end_reason is None, "calls still have a sandbox"
        act.done.set()
        await asyncio.gather(*closing)
        assert (act.seen, act.cut, life.end_reason) == ([None], False, EndReason.STOPPED)


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        ({"idle_seconds": 30, "lifetime_seconds": 1000}, EndReason.IDLE_TIMEOUT),
        ({"idle_seconds": 1000, "lifetime_seconds": 30}, EndReason.MAX_LIFETIME),
    ],
)
async def test_it_is_done_when_a_clock_ends_it(limits: dict[str, float], reason: EndReason) -> None:
    async with living(None, **limits) as (life, _):
        act = life.last_act = Act(life)
        await act.began.wait()
        act.done.set()
        assert (await life.ended()).reason is reason
        assert (act.seen, act.cut) == ([None], False)


async def test_a_cancelled_close_goes_on_with_it() -> None:
    async with living(None) as (life, _):
        act = life.last_act = Act(life)
        closing = asyncio.ensure_future(life.close())
        await act.began.wait()
        closing.cancel()
        act.done.set()
        assert (await life.ended()).reason is EndReason.STOPPED
        assert not act.cut


BadEnd = Callable[[Life], Awaitable[object]]

BAD: dict[str, BadEnd] = {
    "quarantined": lambda life: life.kill(EndReason.QUARANTINED, "not trusted"),
    "paused": lambda life: life.kill(EndReason.PAUSED, ""),
    "out of cpu": lambda life: life.kill(EndReason.CPU_LIMIT, ""),
    "crashed": lambda life: life._cell.kill(EndReason.CRASHED, "by itself"),
}


@pytest.mark.parametrize("bad", BAD)
async def test_a_bad_end_is_without_it(bad: str) -> None:
    async with living(None) as (life, _):
        act = life.last_act = Act(life)
        await BAD[bad](life)
        await life.ended()
        await life.close()
        assert act.seen == []


@pytest.mark.parametrize("bad", BAD)
async def test_a_bad_end_cuts_it_short(bad: str) -> None:
    async with living(None) as (life, _):
        act = life.last_act = Act(life)
        closing = asyncio.ensure_future(life.close())
        await act.began.wait()
        await BAD[bad](life)
        await closing
        assert act.cut


async def test_one_that_fails_is_no_reason_to_live_on() -> None:
    async def fails() -> None:
        raise LookupError("a mistake of its own")

    async with living(None) as (life, _):
        life.last_act = fails
        await life.close()
        assert life.end_reason is EndReason.STOPPED
