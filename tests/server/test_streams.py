"""Lines on their way to a reader, and readers that go: over a clock that is held, and a socket that takes what it is told to."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from dayfly.server.errors import ClientGone
from dayfly.server.streams import ALIVE_SECONDS, GATHER_SECONDS, MOST_HELD, START_SECONDS, Lines, unless_gone
from dayfly.testing.clock import HeldClockLoop

START = {"type": "http.response.start", "status": 200, "headers": []}


class Reader:
    """Takes messages while it ``reads``."""

    def __init__(self) -> None:
        self.messages: list[Any] = []
        self.reads = asyncio.Event()
        self.reads.set()
        self.lines = Lines(self._take, dict(START))

    async def _take(self, message: Any) -> None:
        await self.reads.wait()
        self.messages.append(message)

    @property
    def bodies(self) -> list[bytes]:
        return [message["body"] for message in self.messages if "body" in message]


def held(test: Callable[[Reader], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Run the test on a loop whose clock is held."""

    def run() -> None:
        async def main() -> None:
            reader = Reader()
            reader.lines.begin()
            try:
                await test(reader)
            finally:
                await reader.lines.cut()

        with asyncio.Runner(loop_factory=HeldClockLoop) as runner:
            runner.run(main())

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


@held
async def test_a_short_run_is_one_message(reader: Reader) -> None:
    for number in range(3):
        await reader.lines.write({"x": number})
    await reader.lines.end()
    assert [message["type"] for message in reader.messages] == ["http.response.start", "http.response.body"]
    assert [json.loads(line) for line in reader.bodies[0].splitlines()] == [{"n": n + 1, "x": n} for n in range(3)]
    assert reader.messages[-1]["more_body"] is False


@held
async def test_a_line_that_no_other_follows_goes_soon(reader: Reader) -> None:
    await reader.lines.write({})
    await asyncio.sleep(GATHER_SECONDS / 2)
    assert reader.messages == []
    await asyncio.sleep(GATHER_SECONDS)
    assert reader.bodies == [b'{"n":1}\n']
    await reader.lines.write({})
    await reader.lines.flush()
    assert reader.bodies == [b'{"n":1}\n', b'{"n":2}\n']


@held
async def test_an_answer_begins_without_a_line_and_silence_is_filled(reader: Reader) -> None:
    await asyncio.sleep(START_SECONDS * 1.5)
    assert reader.messages == [START]
    await asyncio.sleep(3 * ALIVE_SECONDS)
    assert reader.bodies == [b"\n"] * 3
    await reader.lines.end()
    await asyncio.sleep(3 * ALIVE_SECONDS)
    assert reader.bodies == [b"\n"] * 3 + [b""]


@held
async def test_a_slow_reader_holds_up_who_writes_and_nothing_is_added(reader: Reader) -> None:
    reader.reads.clear()
    line = {"x": "y" * (MOST_HELD // 4)}

    async def flood() -> None:
        for _ in range(40):
            await reader.lines.write(line)

    flooding = asyncio.ensure_future(flood())
    await asyncio.sleep(10 * ALIVE_SECONDS)
    assert len(reader.lines._held) < 2 * MOST_HELD
    assert not flooding.done()
    reader.reads.set()
    await flooding
    await reader.lines.end()
    numbers = [json.loads(one)["n"] for one in b"".join(reader.bodies).splitlines()]
    assert numbers == list(range(1, 41)), "none is missing, and none is empty"


@held
async def test_what_comes_while_a_reader_is_slow_goes_soon_after_it_has_caught_up(reader: Reader) -> None:
    await asyncio.sleep(1.5 * START_SECONDS)
    reader.reads.clear()
    await reader.lines.write({})
    await asyncio.sleep(1)
    await reader.lines.write({})
    await asyncio.sleep(1)
    reader.reads.set()
    await asyncio.sleep(2 * GATHER_SECONDS)
    assert reader.bodies == [b'{"n":1}\n', b'{"n":2}\n']


@held
async def test_who_is_cancelled_while_a_reader_is_slow_takes_no_line_along(reader: Reader) -> None:
    reader.reads.clear()
    line = {"x": "y" * MOST_HELD}
    writing = asyncio.ensure_future(reader.lines.write(line))
    await asyncio.sleep(1)
    writing.cancel()
    await asyncio.wait({writing})
    assert writing.cancelled()
    reader.reads.set()
    await reader.lines.write({})
    await reader.lines.end()
    assert [json.loads(one)["n"] for one in b"".join(reader.bodies).splitlines()] == [1, 2]


@held
async def test_whoever_writes_while_it_is_cut_is_not_cancelled(reader: Reader) -> None:
    reader.reads.clear()
    writing = asyncio.ensure_future(reader.lines.write({"x": "y" * MOST_HELD}))
    await asyncio.sleep(1)
    await reader.lines.cut()
    await asyncio.wait({writing}, timeout=1)
    assert writing.done()
    assert not writing.cancelled()


@held
async def test_what_is_said_after_the_end_goes_nowhere_and_wakes_nobody(reader: Reader) -> None:
    await reader.lines.end()
    await reader.lines.write({})
    await reader.lines.flush()
    await asyncio.sleep(3 * ALIVE_SECONDS)
    assert reader.bodies == [b""]
    assert asyncio.all_tasks() == {asyncio.current_task()}


@held
async def test_when_nobody_reads_any_more_nothing_is_left_behind(reader: Reader) -> None:
    reader.reads.clear()
    await reader.lines.write({})
    await asyncio.sleep(1)
    await reader.lines.cut()
    assert asyncio.all_tasks() == {asyncio.current_task()}
    await asyncio.sleep(3 * ALIVE_SECONDS)
    assert reader.messages == []


async def _never() -> Any:
    await asyncio.Event().wait()


async def _at_once() -> Any:
    return {"type": "http.disconnect"}


async def test_work_is_cancelled_and_has_ended_before_it_is_said_that_the_caller_is_gone() -> None:
    ended = asyncio.Event()

    async def work() -> None:
        try:
            await _never()
        finally:
            await asyncio.sleep(0)
            ended.set()

    with pytest.raises(ClientGone):
        await unless_gone(_at_once, work())
    assert ended.is_set()
    await asyncio.sleep(0)  # nothing of it is left in this task


async def test_work_that_is_done_in_time_is_what_counts() -> None:
    async def work() -> int:
        return 7

    assert await unless_gone(_never, work()) == 7
    assert await unless_gone(_at_once, work()) == 7
    await asyncio.sleep(0)


async def test_work_that_makes_something_else_of_it_leaves_no_cancellation_behind() -> None:
    async def work() -> int:
        try:
            return int(await _never())
        except asyncio.CancelledError:
            return 7

    assert await unless_gone(_at_once, work()) == 7
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_whoever_is_cancelled_stays_cancelled() -> None:
    waiting = asyncio.ensure_future(unless_gone(_never, _never()))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
