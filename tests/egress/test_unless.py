"""What is interrupted has ended when that is known, and an interruption is nobody else's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from dayfly.egress.unless import Interrupted, unless


@pytest.fixture
async def over() -> asyncio.Future[str]:
    return asyncio.get_running_loop().create_future()


async def soon(act: Callable[[], object]) -> None:
    asyncio.get_running_loop().call_soon(act)


async def test_what_the_work_returns_or_raises_is_what_there_is(over: asyncio.Future[str]) -> None:
    async def work(fails: bool) -> int:
        await asyncio.sleep(0)
        if fails:
            raise OSError("broken")
        return 7

    assert await unless(over, work(False)) == 7
    with pytest.raises(OSError, match="broken"):
        await unless(over, work(True))
    over.set_result("late")
    await asyncio.sleep(0)  # and nobody is interrupted by that any more
    await asyncio.sleep(0)


async def test_work_is_interrupted_and_has_ended(over: asyncio.Future[str]) -> None:
    ended = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.set()

    await soon(lambda: over.set_result("now"))
    with pytest.raises(Interrupted):
        await unless(over, work())
    assert ended.is_set()
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await asyncio.Event().wait()


@pytest.mark.parametrize("fails", [False, True])
async def test_in_the_same_moment_the_interruption_counts(over: asyncio.Future[str], fails: bool) -> None:
    async def work() -> int:
        over.set_result("now")
        if fails:
            raise OSError("broken")
        return 7

    with pytest.raises(Interrupted):
        await unless(over, work())
    await asyncio.sleep(0)
    await asyncio.sleep(0)  # what is on its way to interrupt finds nothing to interrupt


async def test_work_never_begins_when_it_is_over_already(over: asyncio.Future[str]) -> None:
    begun = asyncio.Event()

    async def work() -> None:
        begun.set()

    over.set_result("before")
    with pytest.raises(Interrupted):
        await unless(over, work())
    assert not begun.is_set()


async def test_a_time_limit_of_the_work_is_its_own(over: asyncio.Future[str]) -> None:
    async def work() -> None:
        async with asyncio.timeout(0):
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        await unless(over, work())


async def test_whoever_cancels_the_task_cancels_it(over: asyncio.Future[str]) -> None:
    async def work() -> None:
        await asyncio.Event().wait()

    both = asyncio.ensure_future(unless(over, work()))
    only = asyncio.ensure_future(unless(asyncio.get_running_loop().create_future(), work()))
    await asyncio.sleep(0)
    over.set_result("now")
    both.cancel()
    only.cancel()
    await asyncio.wait({both, only})
    assert only.cancelled()
    assert both.cancelled()
