"""What holds of a real sandbox holds of one that was restored: limits, mounts, identity, the writable layer."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from dayfly.boundaries.gvisor import GvisorBoundary
from dayfly.boundaries.gvisor.abilities import FIRST_UID, UIDS, Abilities
from dayfly.boundaries.snapshot import Snapshot
from dayfly.errors import HostError
from dayfly.limits import MIB, Limits
from dayfly.paths import Paths
from dayfly.runtime import Feature, find_runsc
from dayfly.spec import EndReason, Mount
from dayfly.testing.boundary_contract import Subject
from dayfly.testing.boundary_snapshot_clauses import restored_from, snapshot_of
from dayfly.testing.restoring import RestoringBoundary
from tests.boundaries import test_gvisor_inside as inside
from tests.boundaries.test_bound import (  # noqa: F401 - collected here too, over the fixture below
    test_only_the_gofer_has_more_cpus_and_only_until_the_cell_has_started,
)
from tests.boundaries.test_gvisor_limits import (  # noqa: F401 - collected here too, over the fixture below
    FLOOD_SECONDS,
    OFFERED,
    make_spec,
    offered,
    test_a_disk_flood_is_full_or_ends_the_cell,
    test_a_memory_flood_ends_the_cell_for_memory,
    test_a_process_flood_is_bounded,
    test_a_sandbox_sees_as_many_cpus_as_it_may_use,
    test_a_tmpfs_flood_is_full_at_its_size,
    test_cpu_time_is_counted_over_all_processes_and_ends_the_cell,
    test_kill_leaves_no_process_however_many_there_were,
    test_limits_are_read_back_from_the_kernel,
    test_memory_below_the_limit_is_not_punished,
    test_more_than_the_allowed_descriptors_are_refused,
    test_one_cpu_is_what_two_spinning_processes_get,
    test_strict_demands_that_every_limit_be_enforced,
    test_what_is_written_to_tmp_is_disk_and_not_memory,
)
from tests.turns import one_a_day

pytestmark = pytest.mark.gvisor

INSIDE = [
    inside.test_root_inside_is_an_unprivileged_user_on_the_host,
    inside.test_nothing_of_the_hosts_identity_is_inside,
    inside.test_memory_inside_is_the_limit_and_not_the_hosts,
    inside.test_the_agent_has_five_capabilities_and_what_it_starts_none,
    inside.test_there_is_no_network_but_loopback,
]


@pytest.fixture(params=one_a_day(OFFERED[::-1]))
def abilities(request: pytest.FixtureRequest, runsc: Path) -> Abilities:
    """In turn, and the other one than for cells that were started: both are tested each day."""
    return offered(request.param)


@pytest.fixture
def boundary(abilities: Abilities, data: Path, snapshots: Path) -> RestoringBoundary:
    return RestoringBoundary(GvisorBoundary(Paths(data, data / "run"), abilities), snapshots)


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A directory to be mounted, open to everybody as far as modes go."""
    directory = tmp_path / "shared"
    directory.mkdir()
    (directory / "file").write_text("from the host")
    directory.chmod(0o777)
    (directory / "file").chmod(0o666)
    return directory


@pytest.mark.parametrize("check", INSIDE, ids=lambda check: check.__name__)
async def test_inside_it_is_as_after_a_start(check: Any, restored: Subject) -> None:
    await check(restored)


async def test_mounts_are_as_read_only_as_after_a_start(restored: Subject, shared: Path) -> None:
    await inside.test_a_read_only_mount_refuses_root_inside(restored, shared)


async def test_what_was_written_before_counts_towards_the_disk_limit(gvisor: Subject) -> None:
    limits = Limits(memory=96 * MIB, disk=64 * MIB)
    before = "open('/tmp/old', 'wb').write(os.urandom(40 << 20))"
    flood = """
with open('/tmp/flood', 'wb') as file:
    try:
        for _ in range(40): file.write(os.urandom(1 << 20))
    except OSError as error: reply(error.errno)
"""
    async with (
        snapshot_of(gvisor, before, limits=limits) as snapshot,
        restored_from(gvisor, snapshot, limits=limits) as (cell, echo),
        asyncio.timeout(FLOOD_SECONDS),
    ):
        assert await echo.run("reply(os.stat('/tmp/old').st_size)") == [40 << 20]
        await echo.start(flood)
        if find_runsc().has(Feature.OVERLAY_SIZE):
            assert await echo.answer() == 28  # ENOSPC, and the cell lives on
        else:
            assert (await cell.wait()).reason is EndReason.DISK_LIMIT


async def test_a_cell_that_is_nearly_full_can_be_snapshot_and_restored(gvisor: Subject) -> None:
    """The image's pages in the host's cache count as the cell's too, but give way."""
    limits = Limits(memory=200 * MIB, processes=16)
    hold = "sys.held = bytearray(os.urandom(1 << 20)) * 180"
    async with (
        snapshot_of(gvisor, hold, limits=limits) as snapshot,
        restored_from(gvisor, snapshot, limits=limits) as (cell, echo),
    ):
        assert await echo.run("reply(len(sys.held))") == [180 << 20]
        assert await echo.run("reply(len(bytes(sys.held[:1000])))") == [1000]
        assert (cell.usage().memory or 0) < 250 * MIB


async def test_a_mounted_file_that_was_open_stays_open_and_read_only(gvisor: Subject, shared: Path) -> None:
    mounts = (Mount(shared, "/mnt/shared"),)
    async with (
        snapshot_of(gvisor, "sys.file = open('/mnt/shared/file')", mounts=mounts) as snapshot,
        restored_from(gvisor, snapshot, mounts=mounts) as (_, echo),
    ):
        assert await echo.run("reply(sys.file.read())") == ["from the host"]
        (refused,) = await echo.run("try: open('/mnt/shared/file', 'w')\nexcept OSError as error: reply(error.errno)")
    assert refused in (1, 13, 30)


async def test_restores_are_other_machines_and_other_users(gvisor: Subject) -> None:
    files = "[open(f'/etc/{name}').read() for name in ('machine-id', 'hostname', 'hosts')]"
    warm = f"sys.held = open('/etc/machine-id')\nsys.before = {files}"
    seen: list[tuple[str, int]] = []
    async with snapshot_of(gvisor, warm, hostname="template") as snapshot:
        for name in ("one", "another-name"):
            async with restored_from(gvisor, snapshot, hostname=name) as (cell, echo):
                before, now, node = await echo.run(f"reply(sys.before)\nreply({files})\nreply(os.uname().nodename)")
                assert before[1:] == ["template\n", before[2]]
                assert now[0] != before[0], "the machine id is its own, although the snapshot had read another"
                assert now[1] == f"{name}\n"
                assert name in now[2]
                expected = name if find_runsc().has(Feature.RESTORE_VALIDATION) else "template"
                assert node == expected, "the kernel's own name: docs/hosts.md says which build takes it over"
                seen.append((now[0], cell.explain()["host_uid"]))
    assert len({machine for machine, _ in seen}) == 2
    if os.geteuid() == 0:
        uids = {uid for _, uid in seen}
        assert len(uids) == 2
        assert all(FIRST_UID <= uid < FIRST_UID + UIDS for uid in uids)


async def test_nobody_else_can_read_a_snapshot(gvisor: Subject) -> None:
    async with snapshot_of(gvisor, "pass") as snapshot:
        found = snapshot.directory.stat()
    assert (found.st_mode & 0o777, found.st_uid) == (0o700, os.geteuid())


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 1, "identity": {"image": 1}}', '{"version": 99}'])
def test_what_is_no_manifest_is_no_snapshot(tmp_path: Path, text: str) -> None:
    with pytest.raises(HostError):
        Snapshot.load(tmp_path)
    (tmp_path / "snapshot.json").write_text(text)
    with pytest.raises(HostError):
        Snapshot.load(tmp_path)
    Snapshot(tmp_path, {"image": "sha256:0"}).save()
    assert Snapshot.load(tmp_path).identity == {"image": "sha256:0"}, "the control"
