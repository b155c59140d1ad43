"""However a sandbox ends, the end is typed and in time, and nothing of it is left."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress

import pytest

from dayfly import AsyncSandbox, EndReason, Outcome, Sandbox, SandboxEnded
from dayfly.paths import default_paths
from dayfly.testing.traces import Process, cgroups_named, descendants, gone, living, mounts_below


def short(sandbox_id: str) -> str:
    """What a cell's directory is called."""
    return sandbox_id[:16]


def cells() -> set[str]:
    """Cells that lie on this machine; other dayfly processes may have some too."""
    directory = default_paths().cells
    return {path.name for path in directory.iterdir()} if directory.is_dir() else set()


def left_of(ids: set[str]) -> list[str]:
    """What is left of these cells: directories, mounts, cgroups."""
    directory = default_paths().cells
    mounts = [point for name in ids for point in mounts_below(directory / name)]
    return [*sorted(ids & cells()), *mounts, *cgroups_named({f"dayfly-{name}" for name in ids})]


def test_killing_everything_one_may_kill_ends_the_run_and_not_the_sandbox(sandbox: Sandbox) -> None:
    done = sandbox.run_code("import os\nos.system('kill -9 -1')", timeout=10)
    assert done.outcome in (Outcome.KERNEL_DIED, Outcome.SANDBOX_ENDED)
    assert done.duration < 5
    assert not done.state_survived
    if done.end_reason is None:
        assert sandbox.run_code("6 * 7").text == "42"


def test_stopping_everything_one_may_stop_is_ended_by_the_deadline(sandbox: Sandbox) -> None:
    done = sandbox.run_code("import os\nos.system('kill -STOP -1')", timeout=1)
    assert done.outcome is Outcome.TIMEOUT
    assert done.duration < 1 + 5 + 1
    if done.end_reason is None:
        assert sandbox.run_code("6 * 7").text == "42"


FORGE = """
import os, struct
frame = struct.pack('!IIB3xQQ', 2, 1, 8, 2, 1) + b'{}'
junk = frame * 50 + b'\\xff' * 4096 + b'\\x00\\x00\\x00\\x02[]' * 50
for name in os.listdir('/proc/self/fd'):
    if int(name) > 2:
        for _ in range(20):
            try: os.write(int(name), junk)
            except OSError: break
for target in ['/proc/1/fd/0', '/proc/1/fd/1', '/dev/stdout', '/dev/console', '/proc/1/fd/3', '/proc/1/fd/4']:
    try:
        fd = os.open(target, os.O_WRONLY | os.O_NONBLOCK)
        os.write(fd, junk)
    except OSError: pass
"""


def test_forged_records_on_every_descriptor_reach_nobody_but_the_forger(sandbox: Sandbox) -> None:
    other = sandbox.run_code("x = 5", context="other")
    assert other.ok
    done = sandbox.run_code(FORGE, timeout=5)
    assert done.duration < 11
    assert done.outcome in (Outcome.OK, Outcome.ERROR, Outcome.KERNEL_DIED, Outcome.TIMEOUT), done
    assert done.end_reason is None, done
    assert sandbox.run_code("x", context="other").text == "5"
    assert sandbox.run_code("6 * 7").text == "42"


def test_a_crash_of_the_interpreter_is_told_with_its_signal(survivor: Sandbox) -> None:
    done = survivor.run_code("import ctypes\nctypes.string_at(0)")
    assert done.outcome is Outcome.KERNEL_DIED
    assert done.signal == signal.SIGSEGV
    assert survivor.run_code("6 * 7").text == "42"


def test_leaving_the_interpreter_is_told_with_its_code(survivor: Sandbox) -> None:
    done = survivor.run_code("import os\nos._exit(7)")
    assert (done.outcome, done.exit_code, done.state_survived) == (Outcome.KERNEL_DIED, 7, False)


def test_every_call_after_close_names_the_reason() -> None:
    sandbox = Sandbox()
    sandbox.close()
    assert sandbox.end_reason is EndReason.STOPPED
    for call in (
        lambda: sandbox.run_code("1"),
        lambda: sandbox.files.list().__iter__().__next__(),
        lambda: sandbox.commands.run("true"),
    ):
        with pytest.raises(SandboxEnded, match="stopped"):
            call()


def test_its_lifetime_ends_it_under_a_run() -> None:
    with Sandbox({"limits": {"lifetime_seconds": 1}}) as sandbox:
        done = sandbox.run_code("import time\ntime.sleep(30)")
        assert (done.outcome, done.end_reason) == (Outcome.SANDBOX_ENDED, EndReason.MAX_LIFETIME)


@pytest.mark.parametrize("rounds", [pytest.param(100, marks=pytest.mark.soak, id="100"), pytest.param(16, id="short")])
async def test_sandboxes_made_and_broken_at_random_moments_leave_nothing(rounds: int) -> None:
    chance = random.Random(7)
    own = descendants()
    seen: set[str] = set()

    async def live() -> None:
        sandbox = AsyncSandbox(image="python")
        await sandbox.open()
        seen.add(short(sandbox.id))
        try:
            await sandbox.run_code(chance.choice(["1+1", "while True: pass", "import os; os.kill(-1, 9)"]), timeout=1)
        finally:
            await sandbox.close()

    async def one() -> None:
        task = asyncio.ensure_future(live())
        with suppress(TimeoutError, asyncio.CancelledError, SandboxEnded):
            await asyncio.wait_for(task, chance.choice([0.01, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4]))

    for _ in range(rounds // 4):
        await asyncio.gather(*(one() for _ in range(4)))
    assert len(seen) > rounds / 8, "too few lived for the test to mean anything"
    assert left_of(seen) == []
    assert not await gone(descendants() - own, 5)


HOLDER = """
import sys, threading
from dayfly import Sandbox
sandbox = Sandbox(image="python")
code = sys.argv[1]
print(sandbox.id, flush=True)
sandbox.run_code(code, timeout=600)
"""

REST = "import time; time.sleep(600)"
HANG = "import os\nfor _ in range(3): os.fork()\nwhile True: pass"


@pytest.fixture
def holder(request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[str]]:
    """Another dayfly process with one busy sandbox, or what the parameter says; its first line is the sandbox's id."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, getattr(request, "param", HANG)],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    yield process
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _begun(holder: subprocess.Popen[str]) -> tuple[str, frozenset[Process]]:
    assert holder.stdout is not None
    name = short(holder.stdout.readline().strip())
    inside = descendants(holder.pid)
    assert inside, "nothing runs: the test would prove nothing"
    return name, inside


NEXT = "from dayfly import Sandbox\nwith Sandbox(image='python') as s: print(s.run_code('1').ok)"


def _start_another_dayfly() -> None:
    done = subprocess.run([sys.executable, "-c", NEXT], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "True\n"


async def test_a_killed_host_process_takes_its_sandboxes_along_and_the_next_one_clears_up(
    holder: subprocess.Popen[str],
) -> None:
    name, inside = _begun(holder)
    holder.kill()
    holder.wait()
    assert not await gone(inside, 5)
    assert left_of({name}), "nothing was left: that the next start clears it would prove nothing"
    _start_another_dayfly()
    assert left_of({name}) == []


@pytest.mark.parametrize("holder", [REST], ids=["at rest"], indirect=True)
async def test_clearing_up_never_touches_what_a_live_process_holds(holder: subprocess.Popen[str]) -> None:
    name, inside = _begun(holder)
    _start_another_dayfly()
    assert name in cells()
    assert living(inside) == inside


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_to_the_host_process_leaves_nothing(
    number: signal.Signals, holder: subprocess.Popen[str]
) -> None:
    name, inside = _begun(holder)
    holder.send_signal(number)
    holder.wait(15)
    assert not await gone(inside, 5)
    if number == signal.SIGINT:  # an orderly end; after SIGTERM's default action files wait for the next start
        assert left_of({name}) == []


def test_the_directory_of_a_live_sandbox_is_nobody_elses(shared: Sandbox) -> None:
    directory = default_paths().cells / short(shared.id)
    assert directory.is_dir()
    mode = directory.stat().st_mode & 0o777
    assert mode & 0o066 == 0, f"{mode:o}"
