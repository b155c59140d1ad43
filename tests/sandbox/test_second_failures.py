"""What goes wrong while something is going wrong already: a cancelled cancel, a refused stop, a start given up, lies in lists."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from dayfly.errors import InputError, SandboxEnded
from dayfly.sandbox.processes import RunningProcess
from dayfly.sandbox.runs import CONFIRM_SECONDS
from dayfly.spec import EndReason, Outcome
from dayfly.testing.scripted import Asked
from dayfly.wire.messages import Cancel, Event
from tests.sandbox.living import DONE, living

ENDED = {"exit_code": 0, "signal": None, "dropped": 0, "limit": None, "leftovers": 0}
PROCESS = {"pid": 7, "argv": ["x"], "cwd": "/", "running": True, "pty": False, "exit_code": None, "signal": None}
ENTRY = {"name": "a", "path": "a", "kind": "file", "size": 1, "mode": 0o644, "modified": 0.0, "target": None}


def now() -> float:
    return asyncio.get_running_loop().time()


async def test_a_deadline_holds_although_the_agent_takes_no_more_events() -> None:
    async def script(asked: Asked) -> None:
        asked.agent.connection.consume = lambda *_: None  # type: ignore[method-assign]
        await asked.event("started", pid=7)

    async with living(script, lifetime_seconds=1800) as (life, _):
        process = await life.start_process(["x"], timeout=30)
        begun = now()
        with pytest.raises(InputError) as caught:
            await _resize_for_ever(process)
        assert caught.value.retryable
        result = await process.wait()
        assert (result.outcome, result.end_reason) == (Outcome.TIMEOUT, EndReason.UNRESPONSIVE)
        assert now() - begun < 30 + CONFIRM_SECONDS + 1


async def _resize_for_ever(process: RunningProcess) -> None:
    while True:
        await process.resize(24, 80)


async def test_a_run_that_is_confirmed_costs_nothing_however_often_it_was_cancelled() -> None:
    async def script(asked: Asked) -> None:
        if asked.params["code"] == "long":
            await asked.wait_for(Event)
            await asyncio.sleep(1)
        await asked.finish(**{**DONE, "status": "interrupted"})

    async with living(script) as (life, _):
        run = asyncio.ensure_future(life.execute("long"))
        await asyncio.sleep(1)
        run.cancel()
        await asyncio.sleep(0.5)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        await asyncio.sleep(3 * CONFIRM_SECONDS)
        assert life.end_reason is None
        assert (await life.execute("short")).outcome is not Outcome.SANDBOX_ENDED


async def test_a_run_that_is_interrupted_says_what_became_of_it_and_a_deaf_one_is_not_left_alive() -> None:
    async def script(asked: Asked) -> None:
        event = await asked.wait_for(Event)
        assert isinstance(event, Event)
        if event.name == "interrupt" and asked.params["code"] == "hears":
            await asked.finish(**{**DONE, "status": "interrupted", "state_survived": False, "count": 3})

    async with living(script) as (life, _):
        stop = asyncio.get_running_loop().create_future()
        stop.set_result(None)
        done = await life.execute("hears", interrupted=stop)
        assert (done.outcome, done.state_survived, done.execution_count) == (Outcome.INTERRUPTED, False, 3)
        begun = now()
        done = await life.execute("is deaf", interrupted=stop)
        assert (done.outcome, done.end_reason) == (Outcome.SANDBOX_ENDED, EndReason.UNRESPONSIVE)
        assert now() - begun < CONFIRM_SECONDS + 1


async def test_a_command_whose_start_is_cancelled_is_stopped_and_keeps_nobody_awake() -> None:
    told: list[str] = []

    async def script(asked: Asked) -> None:
        event = await asked.wait_for(Event)
        assert isinstance(event, Event)
        told.append(event.name)
        await asked.finish(**ENDED)

    async with living(script, idle_seconds=30) as (life, _):
        for detached in (False, True):
            start = asyncio.ensure_future(life.start_process(["x"], detached=detached))
            await asyncio.sleep(1)
            start.cancel()
            with pytest.raises(asyncio.CancelledError):
                await start
        begun = now()
        assert (await life.ended()).reason is EndReason.IDLE_TIMEOUT
        assert round(now() - begun) == 30
    assert told == ["stop", "stop"]


async def test_a_connection_that_is_given_up_while_it_is_made_is_closed_inside() -> None:
    closed = asyncio.Event()

    async def script(asked: Asked) -> None:
        await asked.wait_for(Cancel)
        closed.set()
        await asked.finish()

    async with living(script, idle_seconds=30) as (life, _):
        connecting = asyncio.ensure_future(life.connect_port(80))
        await asyncio.sleep(1)
        connecting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await connecting
        await asyncio.wait_for(closed.wait(), 1)
        assert (await life.ended()).reason is EndReason.IDLE_TIMEOUT


async def test_a_sandbox_with_an_open_connection_is_not_idle() -> None:
    async def script(asked: Asked) -> None:
        await asked.event("connected")
        await asked.wait_for(Cancel)
        await asked.finish()

    async with living(script, idle_seconds=30) as (life, _):
        connection = await life.connect_port(80)
        await asyncio.sleep(100)
        assert life.end_reason is None
        await connection.close()
        await connection.close()
        begun = now()
        assert (await life.ended()).reason is EndReason.IDLE_TIMEOUT
        assert round(now() - begun) == 30


async def test_writing_to_what_has_ended_says_so() -> None:
    async def script(asked: Asked) -> None:
        await asked.event("started", pid=7)
        if asked.params["argv"] == ["short"]:
            await asked.finish(**ENDED)

    async with living(script) as (life, cell):
        short = await life.start_process(["short"], stdin=True)
        await short.wait()
        with pytest.raises(BrokenPipeError):
            await short.write_stdin(b"x")
        long = await life.start_process(["long"], stdin=True)
        await long.write_stdin(b"x")
        cell.die(EndReason.CRASHED)
        await life.ended()
        calls: list[Callable[[], Coroutine[Any, Any, None]]] = [
            lambda: long.write_stdin(b"x"),
            lambda: long.resize(1, 1),
            lambda: long.send_signal(15),
        ]
        for call in calls:
            with pytest.raises(SandboxEnded, match="crashed"):
                await call()


@pytest.mark.parametrize("key", [*ENTRY, "extra", None])
async def test_a_lie_in_a_listing_ends_the_sandbox(key: str | None) -> None:
    row = 7 if key is None else {**ENTRY, key: {}}

    async def script(asked: Asked) -> None:
        await asked.finish(entries=[ENTRY, row], more=False)

    async with living(script) as (life, _):
        with pytest.raises(SandboxEnded, match="protocol_violation"):
            await life.list_files(".")


@pytest.mark.parametrize("key", [*PROCESS, "extra", None])
async def test_a_lie_in_the_list_of_processes_ends_the_sandbox(key: str | None) -> None:
    row = 7 if key is None else {**PROCESS, key: {}}

    async def script(asked: Asked) -> None:
        await asked.finish(processes=[PROCESS, row])

    async with living(script) as (life, _):
        with pytest.raises(SandboxEnded, match="protocol_violation"):
            await life.list_processes()


async def test_a_detached_command_keeps_the_timeout_that_it_was_given() -> None:
    async def script(asked: Asked) -> None:
        await asked.event("started", pid=7)
        await asked.wait_for(Event)
        stopped.set_result(now())
        await asked.finish(**ENDED)

    stopped: asyncio.Future[float] = asyncio.get_running_loop().create_future()
    async with living(script) as (life, _):
        process = await life.start_process(["x"], detached=True, timeout=30)
        begun = now()
        await process.detach()
        assert round(await stopped - begun) == 30
