"""When a sandbox is frozen: the scripted agent says whether something goes on inside."""

from __future__ import annotations

import asyncio

from dayfly.sandbox.life import BUSY_SECONDS
from dayfly.sandbox.rest import FREEZE_SECONDS, IDLE_SECONDS, MOST_SECONDS
from dayfly.testing.scripted import Asked
from tests.sandbox.living import DONE, living

LIMITS = {"idle_seconds": 3600, "lifetime_seconds": 7200}
SOON = FREEZE_SECONDS + 0.1


async def run(asked: Asked) -> None:
    await asked.finish(**DONE)


async def test_one_that_nobody_has_used_is_frozen_without_a_question_and_thawed_by_a_call() -> None:
    async with living(run, **LIMITS) as (life, cell):
        cell.agent.busy = None
        await asyncio.sleep(SOON)
        assert cell.frozen
        assert (await life.execute("1")).ok
        assert not cell.frozen


async def test_one_in_which_nothing_goes_on_is_frozen_after_each_call() -> None:
    async with living(run, **LIMITS) as (life, cell):
        cell.agent.busy = False
        for _ in range(3):
            await life.execute("1")
            await asyncio.sleep(IDLE_SECONDS / 2)
            assert not cell.frozen
            await asyncio.sleep(IDLE_SECONDS)
            assert cell.frozen


async def test_one_in_which_something_goes_on_is_left_alone_and_asked_again_less_and_less() -> None:
    async with living(run, **LIMITS) as (life, cell):
        await life.execute("1")
        await asyncio.sleep(3 * MOST_SECONDS)
        assert not cell.frozen
        cell.agent.busy = False
        await asyncio.sleep(MOST_SECONDS + 0.1)
        assert cell.frozen


async def test_while_one_call_is_under_way_the_end_of_another_freezes_nothing() -> None:
    async def script(asked: Asked) -> None:
        await asyncio.sleep(float(asked.params["code"]))
        await asked.finish(**DONE)

    async with living(script, **LIMITS) as (life, cell):
        cell.agent.busy = False
        slow = asyncio.ensure_future(life.execute("30"))
        assert (await life.execute("0")).ok
        await asyncio.sleep(SOON)
        assert not cell.frozen
        assert (await slow).ok


async def test_an_agent_that_does_not_say_is_left_running_and_still_answers() -> None:
    async with living(run, **LIMITS) as (life, cell):
        cell.agent.busy = None
        await life.execute("1")
        await asyncio.sleep(SOON + BUSY_SECONDS + MOST_SECONDS)
        assert not cell.frozen
        assert (await life.execute("1")).ok


async def test_a_call_while_the_agent_is_asked_comes_first() -> None:
    async with living(run, **LIMITS) as (life, cell):
        cell.agent.busy = None
        await life.execute("1")
        await asyncio.sleep(2 * IDLE_SECONDS)  # it is being asked
        cell.agent.busy = False
        assert (await life.execute("1")).ok
        assert not cell.frozen
        await asyncio.sleep(2 * IDLE_SECONDS)
        assert cell.frozen


async def test_asking_is_no_use_of_the_sandbox() -> None:
    async with living(run, idle_seconds=20, lifetime_seconds=7200) as (life, _):
        await life.execute("1")
        begun = asyncio.get_running_loop().time()
        await life.ended()
        assert asyncio.get_running_loop().time() - begun < 21
