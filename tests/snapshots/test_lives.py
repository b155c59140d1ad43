"""A real sandbox goes on where it was: its state, its processes and their output, its clocks, its limits."""

from __future__ import annotations

import asyncio
import time

import pytest

from dayfly.errors import BusyError, SnapshotMismatch
from dayfly.limits import MIB
from dayfly.policy import Policy
from dayfly.sandbox import Life
from dayfly.sandbox.snapshot import Suspended
from dayfly.spec import EndReason, Outcome
from tests.snapshots.conftest import House

pytestmark = [pytest.mark.gvisor, pytest.mark.asyncio(loop_scope="module")]

TICKER = "i=0; while read -r _; do i=$((i+1)); echo $i; done < <(tail -f /tmp/lines)"


async def test_a_pause_keeps_the_kernel_the_files_and_what_runs_in_the_background(house: House) -> None:
    async with house.life() as life:
        await life.execute("x = 41\nimport threading\nturn = threading.Event()\nopen('/tmp/lines', 'w').close()")
        await life.execute("y=7; cd /tmp; f() { echo $((y * 6)); }", language="bash")
        ticker = await life.start_process(["/bin/bash", "-c", TICKER], detached=True)
        await ticker.detach()
        suspended = await life.suspend(house.new_directory())
        assert life.end_reason is EndReason.PAUSED
    suspended.save()
    async with house.restored(Suspended.load(suspended.snapshot.directory), keep_seeds=True) as other:
        assert (await other.execute("x + 1")).text == "42"
        assert (await other.execute("f; pwd", language="bash")).stdout == "42\n/tmp\n"
        assert (await other.execute("_ = open('/tmp/lines', 'a').write('a\\nb\\n')")).outcome is Outcome.OK
        again = await other.connect_process(ticker.pid)
        await other.signal_process(ticker.pid, 15)
        assert (await again.wait()).outcome is not Outcome.OK


async def test_output_of_the_background_that_nobody_had_read_is_not_lost(house: House) -> None:
    async with house.life() as life:
        await life.execute("import os; os.mkfifo('/tmp/go'); os.chmod('/tmp/go', 0o666)")
        process = await life.start_process(["/bin/bash", "-c", "seq 1 5000; read -r _ </tmp/go"], detached=True)
        await process.detach()
        suspended = await life.suspend(house.new_directory())
    async with house.restored(suspended, keep_seeds=True) as other:
        again = await other.connect_process(process.pid)
        assert (await other.execute("_ = open('/tmp/go', 'w').write('go\\n')")).ok
        done = await again.wait()
    assert done.stdout.split() == [b"%d" % number for number in range(1, 5001)]


async def test_megabytes_on_their_way_are_through_before_the_silence(house: House) -> None:
    async with house.life() as life:
        for turn in range(3):
            done = await life.execute("print('x' * 3_000_000)")
            assert len(done.stdout) == 3_000_001
            suspended = await life.snapshot(house.new_directory())
            suspended.discard()
            assert (await life.execute(f"{turn} + 1")).text == str(turn + 1)


async def test_a_snapshot_is_refused_while_code_runs_and_possible_after(house: House) -> None:
    async with house.life() as life:
        await life.execute("import os; os.mkfifo('/tmp/gate')")
        running = asyncio.ensure_future(life.execute("open('/tmp/gate').read()"))
        await asyncio.sleep(0)  # it begins
        with pytest.raises(BusyError):
            await life.snapshot(house.new_directory())
        await life.execute("_ = open('/tmp/gate', 'w').write('go')", context="other")
        assert (await running).text == "'go'"
        await life.snapshot(house.new_directory())


DRIFT = 2.0
"""Seconds by which a sandbox's wall clock may be off: it reckons by the CPU's counter between looks at the host's."""


async def test_a_run_after_a_restore_can_time_out_and_keeps_its_state(house: House) -> None:
    """And its wall clock is the host's, not that of the snapshot."""
    async with house.life() as life:
        await life.execute("import time; before = time.monotonic()")
        suspended = await life.suspend(house.new_directory())
    between = time.time()
    async with house.restored(suspended, keep_seeds=True) as other:
        said = float((await other.execute("print(time.time())")).stdout)
        assert between - DRIFT < said < time.time() + DRIFT
        done = await other.execute("while True: pass", timeout=0.5)
        assert done.outcome is Outcome.TIMEOUT
        assert done.state_survived
        assert (await other.execute("time.monotonic() > before")).text == "True"


async def test_limits_of_a_restored_life_hold(house: House) -> None:
    policy = Policy(image="data", limits={"memory": 256 * MIB})  # type: ignore[arg-type] - read as a policy's file is
    small = House(house.boundary, house.directory, policy)
    async with small.life() as life:
        suspended = await life.suspend(small.new_directory())
    with pytest.raises(SnapshotMismatch) as refused:
        async with house.restored(suspended):
            pass
    assert refused.value.changed == ("specification",)
    async with small.restored(suspended) as other:
        done = await other.execute("b = bytearray(b'x') * (400 << 20)")
        assert done.limit == "memory"


async def test_a_restore_can_be_snapshot_again(house: House) -> None:
    async with house.life() as life:
        await life.execute("trail = ['first']")
        suspended = await life.suspend(house.new_directory())
    for turn in range(3):
        async with house.restored(suspended, keep_seeds=True) as life:
            await life.execute(f"trail.append({turn})")
            suspended = await life.suspend(house.new_directory())
    async with house.restored(suspended) as life:
        assert (await life.execute("trail")).text == "['first', 0, 1, 2]"


async def test_forks_go_their_own_ways(house: House) -> None:
    async with house.life() as life:
        await life.execute("x = 0")
        suspended = await life.snapshot(house.new_directory())
        async with (
            house.restored(suspended, keep_seeds=True) as one,
            house.restored(suspended, keep_seeds=True) as other,
        ):
            lives: list[Life] = [life, one, other]
            for number, each in enumerate(lives):
                await each.execute(f"x += {number}; open('/tmp/own', 'w').write(str(x))")
            for number, each in enumerate(lives):
                assert (await each.execute("x, open('/tmp/own').read()")).text == f"({number}, '{number}')"
