"""Contexts: names, languages, queues, kernels that are prepared, and how they go."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from dayfly.agent.kernels.contexts import MAX_CONTEXTS, MAX_QUEUE
from dayfly.boundaries.gvisor import GvisorBoundary
from tests.agent.host import Failed
from tests.kernels.conftest import OpenRoom, open_room
from tests.kernels.room import Room

pytestmark = [pytest.mark.gvisor, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def small(gvisor: GvisorBoundary, agents: Path) -> AsyncIterator[Room]:
    """One sandbox of the smallest image, for contexts that are removed again."""
    async with open_room(gvisor, agents, "python39") as opened:
        yield opened


async def listed(room: Room) -> dict[str, dict[str, object]]:
    return {one["name"]: one for one in (await room.host.ask("context.list"))["contexts"]}


async def test_contexts_share_nothing(room: Room) -> None:
    await room.run("x = 1", context="one")
    await room.run("x = 2", context="two")
    assert await room.value("x", context="one") == "1"


async def test_runs_in_one_context_come_one_after_the_other(room: Room) -> None:
    calls = [
        await room.start(f"import time; time.sleep(0.05); order = globals().get('order', []) + [{n}]") for n in range(4)
    ]
    for call in calls:
        await room.end(call)
    assert await room.value("order") == "[0, 1, 2, 3]"


async def test_runs_in_different_contexts_do_not_wait_for_each_other(room: Room) -> None:
    slow = await room.start("print('go'); input_needed = True\nimport time; time.sleep(600)", context="slow")
    await slow.output(b"go")
    assert await room.value("6 * 7", context="fast") == "42"
    await slow.cancel()
    await slow.result()


async def test_runs_are_numbered_over_the_life_of_a_context(room: Room) -> None:
    numbers = [(await room.run("1", context="numbered")).count for _ in range(3)]
    await room.run("import os; os._exit(1)", context="numbered")
    assert [*numbers, (await room.run("1", context="numbered")).count] == [1, 2, 3, 5]


async def test_a_context_keeps_its_language(room: Room) -> None:
    await room.run("1", context="fixed")
    assert await (await room.start("1", "bash", context="fixed")).refusal() == "bad_request"


async def test_an_unknown_language_is_refused(room: Room) -> None:
    assert await (await room.start("1", "cobol")).refusal() == "unknown_language"


async def test_a_language_that_the_image_lacks_is_refused(small: Room) -> None:
    assert small.host.welcome is not None
    assert small.host.welcome.facts["languages"] == ["python", "bash"]
    assert await (await small.start("1", "javascript")).refusal() == "unknown_language"


async def test_a_removed_context_is_gone_with_all_it_started(room: Room) -> None:
    await room.run("import subprocess\nsubprocess.Popen(['sleep', '602'], start_new_session=True)", context="going")
    await room.host.ask("context.remove", context="going")
    assert "going" not in await listed(room)
    assert await room.value("'subprocess' in globals()", context="going") == "False"
    with pytest.raises(Failed, match="no_such_context"):
        await room.host.ask("context.remove", context="never-was")


async def test_a_context_can_be_removed_under_a_run_and_those_that_wait(room: Room) -> None:
    running = await room.start("print('go'); import time; time.sleep(600)", context="busy")
    await running.output(b"go")
    waiting = await room.start("1", context="busy")
    await room.host.ask("context.remove", context="busy")
    assert await waiting.refusal() == "no_such_context"
    assert (await room.end(running)).status == "died"


async def test_a_prepared_context_has_a_kernel(room: Room) -> None:
    pid = (await room.host.ask("context.prepare", context="ready", language="python"))["pid"]
    found = (await listed(room))["ready"]
    assert found == {"name": "ready", "language": "python", "busy": False, "pid": pid}
    assert await room.value("import os; os.getpid()", context="ready") == str(pid)


async def test_a_busy_context_is_listed_as_busy(room: Room) -> None:
    call = await room.start("print('go'); import time; time.sleep(600)", context="occupied")
    await call.output(b"go")
    assert (await listed(room))["occupied"]["busy"] is True
    await call.cancel()
    await call.result()
    assert (await listed(room))["occupied"]["busy"] is False


async def test_the_number_of_contexts_is_bounded(small: Room) -> None:
    for number in range(MAX_CONTEXTS):
        await small.run("true", "bash", context=f"c{number}")
    assert await (await small.start("true", "bash", context="one-more")).refusal() == "busy"
    await small.host.ask("context.remove", context="c0")
    assert (await small.run("true", "bash", context="one-more")).status == "ok"
    for name in await listed(small):
        await small.host.ask("context.remove", context=name)


async def test_the_number_of_waiting_runs_is_bounded(room: Room) -> None:
    running = await room.start("echo go; sleep 600", "bash", context="full")
    await running.output(b"go")
    waiting = [await room.start("true", "bash", context="full") for _ in range(MAX_QUEUE)]
    assert await (await room.start("true", "bash", context="full")).refusal() == "busy"
    await running.cancel()
    assert {(await room.end(call)).status for call in waiting} == {"ok"}


@pytest.mark.parametrize("name", ["", "x" * 129])
async def test_a_name_has_a_sensible_length(room: Room, name: str) -> None:
    call = await room.host.open("execute", context=name, language="python", code="1", cpu_seconds=1, output=1)
    assert await call.refusal() == "bad_request"


async def test_a_kernel_that_cannot_start_is_a_refusal_and_the_others_go_on(rooms: OpenRoom) -> None:
    room = await rooms("python39")
    code = "import os\nos.mkdir('bin')\nopen('bin/bash', 'w').write('#!/no/such/program')\nos.chmod('bin/bash', 0o755)"
    await room.run(code)
    await room.host.ask("configure", env={"PATH": "/home/user/bin"}, limits={}, hostname=None)
    for _ in range(2):
        assert await (await room.start("true", "bash")).refusal() == "cannot_start"
    call = await room.host.open("context.prepare", context="bash", language="bash")
    assert await call.refusal() == "cannot_start"
    assert await room.value("6 * 7") == "42"


async def test_prestarted_kernels_take_an_environment_that_comes_later(rooms: OpenRoom) -> None:
    early = await rooms("data", prestart=["python", "bash"], env={"COLOUR": "red"})
    await early.host.ask("context.prepare", context="python", language="python")
    await early.host.ask("configure", env={"COLOUR": "blue"}, limits={}, hostname=None)
    assert await early.value("import os; os.environ['COLOUR']") == "'blue'"
    assert (await early.run("echo $COLOUR", "bash")).stdout == "blue\n"


async def test_a_kernel_that_was_used_keeps_its_environment(small: Room) -> None:
    await small.host.ask("configure", env={"COLOUR": "red"}, limits={}, hostname=None)
    await small.run("mine=1", "bash")
    await small.host.ask("configure", env={"COLOUR": "blue"}, limits={}, hostname=None)
    assert (await small.run("echo $mine $COLOUR", "bash")).stdout == "1 red\n"
    assert (await small.run("echo $COLOUR", "bash", context="new")).stdout == "blue\n"


async def test_many_runs_at_once_in_many_contexts_all_end(room: Room) -> None:
    async def some(context: str) -> list[str | None]:
        calls = [await room.start(f"{n}", context=context) for n in range(5)]
        return [(await room.end(call)).text for call in calls]

    for context in ("m1", "m2", "m3"):
        assert await some(context) == ["0", "1", "2", "3", "4"]
    await asyncio.sleep(0)
