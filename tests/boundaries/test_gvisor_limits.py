"""Floods inside a real sandbox: each is bounded, and the end says which limit it was. With cgroups and without."""

from __future__ import annotations

import asyncio
import os
import resource
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from dayfly.boundaries.base import Cell, CellEnd
from dayfly.boundaries.gvisor import GvisorBoundary
from dayfly.boundaries.gvisor.abilities import Abilities, detect
from dayfly.boundaries.gvisor.enforcement import memory_cap
from dayfly.boundaries.gvisor.oci import AGENT_FILES
from dayfly.errors import LimitUnenforceable
from dayfly.limits import MIB, Limits
from dayfly.paths import Paths
from dayfly.spec import EndReason, Enforcement
from dayfly.testing.boundary_contract import MakeSpec, Subject
from dayfly.testing.boundary_subject import SOON, within
from dayfly.testing.echo import Echo
from dayfly.testing.traces import descendants, gone
from tests.boundaries.exhaustion import none_left
from tests.turns import one_a_day

pytestmark = pytest.mark.gvisor

SMALL = Limits(memory=96 * MIB, processes=16)

FLOOD_SECONDS = 120
"""Until a flood has met its limit. A second or two, and a minute on an emulated processor (``tests/hosts``)."""


OFFERED = ["cgroups as found", "no cgroups"] if os.geteuid() == 0 else ["cgroups as found"]
"""What this machine offers, and the same machine to an ordinary user without a delegated cgroup."""


def offered(what: str) -> Abilities:
    found = detect()
    return found if what == "cgroups as found" else replace(found, cgroups=None)


with_and_without_cgroups = pytest.mark.parametrize("abilities", OFFERED, indirect=True)
"""Where they differ in more than who counts."""


@pytest.fixture(params=one_a_day(OFFERED))
def abilities(request: pytest.FixtureRequest, runsc: Path) -> Abilities:
    """In turn, and the other one for cells that were restored: both are tested each day."""
    return offered(request.param)


@pytest.fixture
def boundary(abilities: Abilities, data: Path) -> GvisorBoundary:
    return GvisorBoundary(Paths(data, data / "run"), abilities)


@pytest.fixture
def make_spec(gvisor: Subject) -> MakeSpec:
    return gvisor.make_spec


@asynccontextmanager
async def room(boundary: GvisorBoundary, make_spec: MakeSpec, limits: Limits) -> AsyncIterator[tuple[Cell, Echo]]:
    cell = await boundary.open(make_spec(limits=limits))
    try:
        yield cell, Echo(cell.stream)
    finally:
        await cell.kill()


async def flood(
    boundary: GvisorBoundary, make_spec: MakeSpec, limits: Limits, code: str, before: str = "pass"
) -> tuple[CellEnd, Cell]:
    """How the cell ended in which ``code`` ran, after it had gone through ``before``."""
    async with room(boundary, make_spec, limits) as (cell, echo), asyncio.timeout(FLOOD_SECONDS):
        await echo.run(before)
        await echo.start(code)
        return await cell.wait(), cell


@pytest.mark.parametrize(
    ("before", "code"),
    [
        ("pass", "held = []\nwhile True: held.append(bytearray(b'x') * (1 << 20))"),
        (
            "pass",
            "import time\nfor _ in range(30):\n  if os.fork() == 0:\n    held = bytearray(b'x') * (16 << 20)\n"
            "    time.sleep(99)\ntime.sleep(99)",
        ),
        # Two KiB each: tens of thousands of calls would come before the end, if they did not find most of it taken.
        ("sys.held = bytearray(b'x') * (96 << 20)", "n = 0\nwhile True:\n  os.mknod(f'/tmp/{n}'); n += 1"),
    ],
    ids=["one process", "many processes", "empty files"],
)
async def test_a_memory_flood_ends_the_cell_for_memory(
    boundary: GvisorBoundary, make_spec: MakeSpec, before: str, code: str
) -> None:
    end, cell = await flood(boundary, make_spec, SMALL, code, before)
    assert end.reason is EndReason.MEMORY_LIMIT, end
    peak = cell.usage().memory_peak
    assert peak is not None
    assert peak < memory_cap(SMALL) + 128 * MIB, "the overshoot of one sample is bounded"


async def test_memory_below_the_limit_is_not_punished(boundary: GvisorBoundary, make_spec: MakeSpec) -> None:
    async with room(boundary, make_spec, SMALL) as (_, echo):
        held = await echo.run("held = bytearray(b'x') * (80 << 20)\nimport time\ntime.sleep(0.7)\nreply(len(held))")
    assert held == [80 << 20]


async def test_a_disk_flood_is_full_or_ends_the_cell(
    boundary: GvisorBoundary, make_spec: MakeSpec, abilities: Abilities
) -> None:
    limits = Limits(memory=96 * MIB, disk=64 * MIB)
    code = """
with open('/tmp/flood', 'wb') as file:
    try:
        while True: file.write(bytes(1 << 20))
    except OSError as error: reply(error.errno)
"""
    async with room(boundary, make_spec, limits) as (cell, echo), asyncio.timeout(FLOOD_SECONDS):
        await echo.start(code)
        if abilities.sizes_disk:
            assert await echo.answer() == 28  # ENOSPC, and the cell lives on
            return
        end = await cell.wait()
    assert end.reason is EndReason.DISK_LIMIT, end
    assert (cell.usage().disk or 0) < limits.disk + 256 * MIB, "the overshoot of one sample is bounded"


async def test_what_is_written_to_tmp_is_disk_and_not_memory(boundary: GvisorBoundary, make_spec: MakeSpec) -> None:
    assert memory_cap(SMALL) < 200 * MIB, "as memory it would be too much"
    async with room(boundary, make_spec, Limits(memory=96 * MIB, processes=16, disk=512 * MIB)) as (cell, echo):
        before = cell.usage()
        await echo.run("with open('/tmp/big', 'wb') as file:\n  for _ in range(200): file.write(bytes(1 << 20))")
        after = cell.usage()
    assert after.disk is not None
    assert after.disk >= 200 * MIB
    assert after.memory is not None
    assert before.memory is not None
    assert after.memory - before.memory < 32 * MIB


@pytest.mark.parametrize("place", ["/dev/shm", "/run"])
async def test_a_tmpfs_flood_is_full_at_its_size(boundary: GvisorBoundary, make_spec: MakeSpec, place: str) -> None:
    limits = Limits(memory=256 * MIB, shm=16 * MIB)
    code = f"""
written = 0
with open('{place}/flood', 'wb', buffering=0) as file:
    try:
        while True: written += file.write(bytes(1 << 20))
    except OSError as error: reply([error.errno, written])
"""
    async with room(boundary, make_spec, limits) as (_, echo):
        ((errno, written),) = await echo.run(code)
    assert errno == 28
    assert 15 * MIB <= written <= 16 * MIB


async def test_cpu_time_is_counted_over_all_processes_and_ends_the_cell(
    boundary: GvisorBoundary, make_spec: MakeSpec
) -> None:
    code = "for _ in range(3): os.fork()\nwhile True: pass"
    end, cell = await flood(boundary, make_spec, Limits(cpu_seconds=1), code)
    assert end.reason is EndReason.CPU_LIMIT, end
    used = cell.usage().cpu_seconds
    assert used is not None
    assert 1 <= used < 2


async def test_one_cpu_is_what_two_spinning_processes_get(boundary: GvisorBoundary, make_spec: MakeSpec) -> None:
    async with room(boundary, make_spec, Limits(cpus=1)) as (cell, echo):
        assert await echo.run("reply([os.cpu_count(), len(os.sched_getaffinity(0))])") == [[1, 1]]
        before, began = cell.usage().cpu_seconds, time.monotonic()
        await echo.run(
            "import time\nchild = os.fork()\nend = time.monotonic() + 1\nwhile time.monotonic() < end: pass\n"
            "if child: os.waitpid(child, 0)"
        )
        used, passed = (cell.usage().cpu_seconds or 0) - (before or 0), time.monotonic() - began
    assert 0.05 < used < 1.1 * passed + 0.1


async def test_a_cell_steps_behind_others_only_where_the_boundary_is_courteous(
    abilities: Abilities, data: Path, make_spec: MakeSpec
) -> None:
    for courteous in (True, False):
        boundary = GvisorBoundary(Paths(data, data / "run"), abilities, courteous=courteous)
        async with room(boundary, make_spec, SMALL) as (cell, echo):
            behind = cell.step_behind(True)
            if abilities.has_cgroup("cpu"):
                group = cell._footprint.cgroup  # type: ignore[attr-defined]
                told = [*group.shields, group.paths["cpu"]][0] / "cpu.idle"
                assert behind is (courteous and told.exists())
                assert not told.exists() or told.read_text() == f"{behind:d}\n"
            assert await echo.run("reply(7)") == [7]
            cell.step_behind(False)
            assert await echo.run("reply(7)") == [7]


async def test_a_sandbox_sees_as_many_cpus_as_it_may_use(
    boundary: GvisorBoundary, make_spec: MakeSpec, abilities: Abilities
) -> None:
    async with room(boundary, make_spec, Limits(cpus=2)) as (_, echo):
        assert await echo.run("reply(os.cpu_count())") == [min(2, len(abilities.cpus))]


async def test_a_process_flood_is_bounded(boundary: GvisorBoundary, make_spec: MakeSpec, abilities: Abilities) -> None:
    counted = abilities.has_cgroup("pids")
    limits = Limits(memory=(1024 if counted else 256) * MIB, processes=16)
    end, _ = await flood(boundary, make_spec, limits, "import time\nwhile True:\n  if os.fork() == 0: time.sleep(99)")
    expected = EndReason.PROCESS_LIMIT if counted else EndReason.MEMORY_LIMIT
    assert end.reason is expected, end


async def test_more_than_the_allowed_descriptors_are_refused(boundary: GvisorBoundary, make_spec: MakeSpec) -> None:
    async with room(boundary, make_spec, Limits(open_files=64)) as (_, echo):
        code = "import resource\nreply(resource.getrlimit(resource.RLIMIT_NOFILE))\nreply(resource.getrlimit(resource.RLIMIT_CORE))"
        assert await echo.run(code) == [[64 + AGENT_FILES] * 2, [0, 0]]


async def test_kill_leaves_no_process_however_many_there_were(boundary: GvisorBoundary, make_spec: MakeSpec) -> None:
    async with room(boundary, make_spec, Limits()) as (cell, echo):
        await echo.run("import time\nfor _ in range(40):\n  if os.fork() == 0:\n    while True: time.sleep(1000)")
        processes = descendants()
        assert len(processes) > 10
        await cell.kill()
        assert not await gone(processes, 0.0)


@with_and_without_cgroups
async def test_limits_are_read_back_from_the_kernel(
    boundary: GvisorBoundary, make_spec: MakeSpec, abilities: Abilities
) -> None:
    async with room(boundary, make_spec, SMALL) as (cell, _):
        how = {limit.name: limit for limit in cell.limits}
    if abilities.has_cgroup("memory"):
        assert how["memory"].enforcement is Enforcement.ENFORCED
    else:
        assert how["memory"].enforcement is Enforcement.WATCHED
        assert how["cpus"].enforcement is Enforcement.WATCHED
        assert how["processes"].enforcement is Enforcement.WATCHED


@with_and_without_cgroups
async def test_a_part_of_a_cpu_without_a_cgroup_is_refused_unless_accepted_by_name(
    boundary: GvisorBoundary, make_spec: MakeSpec, abilities: Abilities
) -> None:
    spec = make_spec(limits=Limits(cpus=0.5))
    if abilities.has_cgroup("cpu"):
        await (await boundary.open(spec)).kill()
        return
    with pytest.raises(LimitUnenforceable) as refused:
        await boundary.open(spec)
    assert refused.value.remedy
    assert "accept_unenforced" in refused.value.remedy
    cell = await boundary.open(replace(spec, accept_unenforced=frozenset({"cpus"})))
    await cell.kill()


@with_and_without_cgroups
async def test_strict_demands_that_every_limit_be_enforced(
    boundary: GvisorBoundary, make_spec: MakeSpec, abilities: Abilities
) -> None:
    if abilities.cgroups and abilities.sizes_disk:
        await (await boundary.open(make_spec(strict=True))).kill()
        return
    with pytest.raises(LimitUnenforceable) as refused:
        await boundary.open(make_spec(strict=True))
    assert refused.value.remedy


async def test_a_cell_that_can_no_longer_be_read_is_ended_and_swept(
    boundary: GvisorBoundary, make_spec: MakeSpec, gvisor: Subject
) -> None:
    """Where no descriptor is free, nobody could say whether it keeps its limits; ending it needs none."""
    async with room(boundary, make_spec, SMALL) as (cell, echo):
        await echo.run("pass")
        processes, traces = descendants(), gvisor.traces()
        assert traces
        with none_left(resource.RLIMIT_NOFILE):
            end = await within(SOON, cell.wait())
        assert end.reason is EndReason.BOUNDARY_LOST
        assert "Too many open files" in end.detail
    assert not await gone(processes, SOON)
    assert boundary.sweep() == 1
    assert not gvisor.traces()
