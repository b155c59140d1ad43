"""Too much memory is a MemoryError, or one process, and not the end of the sandbox."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from dayfly.boundaries.gvisor import GvisorBoundary
from dayfly.limits import MIB, Limits
from tests.agent.conftest import OpenRoom, open_room
from tests.agent.host import LIMITS, Host

pytestmark = [pytest.mark.gvisor, pytest.mark.asyncio(loop_scope="module")]


SMALL = {"caps": Limits(memory=384 * MIB), "limits": {**LIMITS, "data": 320 * MIB}}
"""A third of the default, with the same distance between the two: what takes all of it is through three times as soon."""


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def shared(gvisor: GvisorBoundary, agents: Path) -> AsyncIterator[Host]:
    async with open_room(gvisor, agents, "python", **SMALL) as host:
        yield host


async def execute(host: Host, code: str) -> dict[str, Any]:
    call = await host.open("execute", context="c", language="python", code=code, cpu_seconds=60, output=1 << 20)
    return {**await call.result(), "stdout": call.stdout}


async def still_there(host: Host, first: str = "") -> None:
    """The kernel has its state, and the memory to show it."""
    value = await execute(host, f"{first}print(kept + 1)")
    assert (value["stdout"], value["error"]) == (b"42\n", None), value


@pytest.mark.parametrize(
    "code",
    [
        "block = bytearray(3 << 30)",
        "text = 'a' * 10**10",
        "many = [0] * 10**9",
        "found = []\nwhile True: found.append(bytearray(10_000_000))",
        "found = []\nwhile True: found.append(bytes(400))",
    ],
)
async def test_a_kernel_that_wants_too_much_gets_a_memory_error_and_keeps_its_state(shared: Host, code: str) -> None:
    await execute(shared, "kept = 41")
    value = await execute(shared, code)
    assert value["error"]["name"] == "MemoryError", value
    assert (value["limit"], value["state_survived"]) == ("memory", True)
    await still_there(shared, "block = text = many = found = None; ")


async def test_a_kernel_goes_on_though_its_cell_has_left_it_no_memory_at_all(shared: Host) -> None:
    code = (
        "import resource as r\nfound, last = [], r.getrlimit(r.RLIMIT_AS)\n"
        "pages = int(open('/proc/self/statm').read().split()[0])\n"
        "r.setrlimit(r.RLIMIT_AS, (pages * 4096, last[1]))\n"
        "for size in (200_000, 60_000, 8_000, 400, 40):\n"
        "    try:\n        for _ in range(8_000_000 // size): found.append(bytes(size))\n"  # the guard may lift the limit
        "    except MemoryError: pass\n"
    )
    for _ in range(5):
        await execute(shared, "kept = 41")
        value = await execute(shared, code)
        assert value["status"] == "ok", value
        await still_there(shared, "found = None; ")


async def test_what_a_kernel_starts_does_not_inherit_its_limit(shared: Host) -> None:
    await execute(shared, "import time; time.sleep(0.3)")  # long enough to be looked at
    code = (
        "import os, resource, subprocess\nprint(resource.getrlimit(resource.RLIMIT_AS)[0] > 0)\n"
        "print(subprocess.run('ulimit -v', shell=True, capture_output=True, text=True).stdout.strip())\n"
        "print(os.popen('ulimit -v').read().strip()); os.system('ulimit -v > ~/limit'); print(open('limit').read().strip())\n"
        "print(resource.getrlimit(resource.RLIMIT_AS)[0] > 0)"
    )
    assert (await execute(shared, code))["stdout"] == b"True\nunlimited\nunlimited\nunlimited\nTrue\n"


async def test_a_hundred_threads_are_ordinary(rooms: OpenRoom) -> None:
    room = await rooms()
    code = (
        "import threading\ngo = threading.Event()\nthreads = [threading.Thread(target=go.wait) for _ in range(100)]\n"
        "for one in threads: one.start()\ngo.set()\nfor one in threads: one.join()\nprint('all')"
    )
    assert (await execute(room, code))["stdout"] == b"all\n"


async def test_a_command_that_takes_all_is_killed_and_says_why(shared: Host) -> None:
    await execute(shared, "kept = 41")
    value = await (await shared.python("found = []\nwhile True: found.append(bytearray(10_000_000))")).result()
    assert (value["signal"], value["limit"]) == (signal.SIGKILL, "memory")
    await still_there(shared)


async def test_only_the_largest_process_of_a_command_goes(shared: Host) -> None:
    call = await shared.shell("python3 -c 'bytearray(3 << 30)'; echo $?")
    value = await call.result()
    assert (value["exit_code"], value["limit"]) == (0, "memory")
    assert call.stdout == b"137\n"


async def test_fifty_processes_are_ordinary(shared: Host) -> None:
    call = await shared.shell("for i in $(seq 50); do sleep 0.2 & done; wait; echo all")
    assert (await call.result())["limit"] is None
    assert call.stdout == b"all\n"
