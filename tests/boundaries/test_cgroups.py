"""Cgroups of both versions: over trees of plain files where only arithmetic matters, and over the real kernel's."""

from __future__ import annotations

import os
import secrets
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from dayfly.boundaries.gvisor.cgroup_home import find_home, sweep_trials
from dayfly.boundaries.gvisor.cgroups import CellCgroup, CgroupHome, Settings
from dayfly.limits import MIB

SETTINGS = Settings(memory=100 * MIB + 1, cpus=0.25, pids=77)


def fake_group(tmp_path: Path, version: int) -> CellCgroup:
    controllers = ("memory", "cpu", "pids") if version == 2 else ("memory", "cpu", "cpuacct", "pids")
    directories = {name: tmp_path / ("all" if version == 2 else name) for name in controllers}
    for directory in directories.values():
        directory.mkdir(exist_ok=True)
    return CellCgroup(version, directories)


@pytest.mark.parametrize(
    ("version", "written"),
    [
        (1, {"memory/memory.limit_in_bytes": "104861696", "memory/memory.memsw.limit_in_bytes": "104861696",
             "cpu/cpu.cfs_period_us": "100000", "cpu/cpu.cfs_quota_us": "25000", "pids/pids.max": "77"}),
        (2, {"all/memory.max": "104861696", "all/memory.swap.max": "0", "all/memory.oom.group": "1",
             "all/cpu.max": "25000 100000", "all/pids.max": "77"}),
    ],
)  # fmt: skip
def test_caps_are_written_in_the_kernels_terms_and_read_back(
    tmp_path: Path, version: int, written: dict[str, str]
) -> None:
    group = fake_group(tmp_path, version)
    group.apply(SETTINGS)
    found = {str(path.relative_to(tmp_path)): path.read_text() for path in tmp_path.rglob("*") if path.is_file()}
    assert found == written
    assert group.differing(SETTINGS) == []
    next(path for path in tmp_path.rglob("pids.max")).write_text("max\n")
    assert group.differing(SETTINGS) == ["pids.max"]


def test_in_version_2_the_caps_are_below_a_cgroup_that_hands_the_controllers_on(tmp_path: Path) -> None:
    group = CgroupHome(2, dict.fromkeys(("cpu", "memory", "pids"), tmp_path)).make("c1", SETTINGS)
    assert (tmp_path / "dayfly-c1/cgroup.subtree_control").read_text() == "+cpu +memory +pids"
    assert (tmp_path / "dayfly-c1/cell/cpu.max").read_text() == "25000 100000"
    assert group.entrances == [tmp_path / "dayfly-c1/cell/cgroup.procs"]
    assert group.shields == [tmp_path / "dayfly-c1"]


def test_what_a_crash_left_of_a_version_2_cgroup_can_be_removed(tmp_path: Path) -> None:
    """Made, but not yet the one below; and the other way round: another's cgroup above is left alone."""
    (tmp_path / "dayfly-c1").mkdir()
    home = CgroupHome(2, dict.fromkeys(("cpu", "memory", "pids"), tmp_path))
    assert CellCgroup(2, home.paths("c1")).remove(0.0)
    assert CellCgroup(2, {"memory": tmp_path / "dayfly-c2"}).remove(0.0)
    assert list(tmp_path.iterdir()) == []


def test_what_version_1_counted_is_read(tmp_path: Path) -> None:
    group = fake_group(tmp_path, 1)
    (tmp_path / "cpuacct/cpuacct.usage").write_text("1500000000\n")
    (tmp_path / "memory/memory.max_usage_in_bytes").write_text("4096\n")
    (tmp_path / "memory/memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 2\n")
    (tmp_path / "pids/pids.events").write_text("max 3\n")
    found = group.counters()
    assert (found.cpu_seconds, found.memory_peak, found.oom_kills, found.pids_refused) == (1.5, 4096, 2, 3)


def test_what_version_2_counted_is_read(tmp_path: Path) -> None:
    group = fake_group(tmp_path, 2)
    (tmp_path / "all/cpu.stat").write_text("usage_usec 1500000\nuser_usec 1\n")
    (tmp_path / "all/memory.peak").write_text("4096\n")
    (tmp_path / "all/memory.events").write_text("low 0\nhigh 0\nmax 9\noom 1\noom_kill 2\noom_group_kill 0\n")
    (tmp_path / "all/pids.events").write_text("max 3\n")
    found = group.counters()
    assert (found.cpu_seconds, found.memory_peak, found.oom_kills, found.pids_refused) == (1.5, 4096, 2, 3)


@pytest.mark.parametrize("version", [1, 2])
def test_what_the_kernel_does_not_count_is_unknown_and_not_zero(tmp_path: Path, version: int) -> None:
    found = fake_group(tmp_path, version).counters()
    assert (found.cpu_seconds, found.memory_peak, found.oom_kills, found.pids_refused) == (None, None, 0, 0)


def test_a_machine_without_cgroups_has_no_home(tmp_path: Path) -> None:
    (tmp_path / "mountinfo").write_text("22 1 8:1 / / rw - ext4 /dev/vda rw\n")
    (tmp_path / "cgroup").write_text("")
    assert find_home(tmp_path) is None


def test_a_cgroup_outside_of_what_is_mounted_is_no_home(tmp_path: Path) -> None:
    """As in a container that was given its own subtree only, and a process that entered it from outside."""
    mount = tmp_path / "memory"
    mount.mkdir()
    (tmp_path / "mountinfo").write_text(f"30 22 0:26 /docker/c1 {mount} rw - cgroup cgroup rw,memory\n")
    (tmp_path / "cgroup").write_text("4:memory:/elsewhere\n")
    assert find_home(tmp_path) is None


@pytest.fixture
def home() -> CgroupHome:
    """The real one, which root always has."""
    found = find_home()
    if found is None and os.geteuid() != 0:
        pytest.skip("no cgroup was delegated to this user")
    assert found is not None
    return found


@pytest.fixture
def home2(home: CgroupHome) -> CgroupHome:
    if home.version != 2:
        pytest.skip("this machine's cgroups are version 1, where there is no such switch")
    return home


def test_a_real_cgroup_holds_kills_and_goes(home: CgroupHome) -> None:
    name = f"test-{secrets.token_hex(4)}"
    group = home.make(name, SETTINGS)
    assert group.differing(SETTINGS) == []
    script = 'for f; do echo 0 >"$f"; done; echo in; exec sleep 1000'
    process = subprocess.Popen(["/bin/sh", "-c", script, "sh", *group.entrances], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"in\n"
    assert group.holds(process.pid)
    assert not group.holds(os.getpid())
    assert group.members() == {process.pid}
    assert not group.remove(0.0), "it was removed with a member in it"
    group.kill()
    assert process.wait(5) == -signal.SIGKILL
    process.stdout.close()
    assert group.remove(5.0)
    assert not any(directory.exists() for directory in (*group.directories, *group.shields))
    assert group.members() == set()
    assert group.remove(0.0), "removing is idempotent"


@pytest.mark.parametrize("version", [1, 2])
def test_the_kernel_is_told_who_steps_behind_and_one_that_knows_no_such_thing_is_left_alone(
    tmp_path: Path, version: int
) -> None:
    group = CgroupHome(version, dict.fromkeys(("cpu", "memory", "pids"), tmp_path)).make("c1", SETTINGS)
    assert not group.step_behind(True), "there is no such file, and none is made"
    told = tmp_path / "dayfly-c1/cpu.idle"
    assert not told.exists()
    told.touch()
    assert group.step_behind(True)
    assert told.read_text() == "1"
    assert group.step_behind(False)
    assert told.read_text() == "0"


SPINNING = """
import os, sys
os.sched_setaffinity(0, {int(sys.argv[1])})
for entrance in sys.argv[2:]:
    with open(entrance, "w") as file: file.write("0")
print("in", flush=True)
while True: pass
"""


def test_whoever_steps_behind_leaves_the_cpu_to_another(home: CgroupHome) -> None:
    """And shares it alike before, and after it has come forward again."""
    groups = [home.make(f"test-{secrets.token_hex(4)}", replace(SETTINGS, cpus=2)) for _ in range(2)]
    cpu = str(min(os.sched_getaffinity(0)))
    spinning = [
        subprocess.Popen([sys.executable, "-c", SPINNING, cpu, *map(str, group.entrances)], stdout=subprocess.PIPE)
        for group in groups
    ]
    try:
        for process in spinning:
            assert process.stdout is not None
            assert process.stdout.readline() == b"in\n"
        assert 0.25 < _share(groups) < 0.75
        groups[0].step_behind(True)
        assert _share(groups) < 0.15
        groups[0].step_behind(False)
        assert 0.25 < _share(groups) < 0.75
    finally:
        for process, group in zip(spinning, groups, strict=True):
            process.kill()
            process.communicate()
            assert group.remove(5.0)


def _share(groups: Sequence[CellCgroup]) -> float:
    """What the first gets of the next half second of CPU time of all."""
    before = [group.cpu_seconds() or 0.0 for group in groups]
    while sum(used := [(group.cpu_seconds() or 0.0) - was for group, was in zip(groups, before, strict=True)]) < 0.5:
        select.select((), (), (), 0.01)  # whoever looks on takes no part
    return used[0] / sum(used)


def test_nobody_can_take_a_cells_caps_away_by_taking_the_controllers_from_its_parent(home2: CgroupHome) -> None:
    """As systemd does when no unit needs the CPU controller any more."""
    group = home2.make(f"test-{secrets.token_hex(4)}", SETTINGS)
    try:
        with pytest.raises(OSError, match="busy"):
            (home2.parents["cpu"] / "cgroup.subtree_control").write_text("-cpu")
        assert group.differing(SETTINGS) == []
    finally:
        assert group.remove(1.0)


def test_a_cgroup_can_be_made_where_the_controllers_were_taken_back_meanwhile(home2: CgroupHome) -> None:
    """While no cell is there, nothing keeps systemd from it."""
    slice_ = home2.parents["cpu"] / f"dayfly-test-{secrets.token_hex(4)}"
    below = slice_ / "below"
    below.mkdir(parents=True)
    try:
        group = CgroupHome(2, dict.fromkeys(home2.parents, below)).make("c1", SETTINGS)
        assert group.differing(SETTINGS) == []
        assert group.remove(1.0)
    finally:
        below.rmdir()
        slice_.rmdir()


@pytest.mark.parametrize("version", [1, 2])
def test_what_a_killed_trial_left_is_removed_and_nothing_else(tmp_path: Path, version: int) -> None:
    parents = {name: tmp_path / ("all" if version == 2 else name) for name in ("memory", "pids")}
    home = CgroupHome(version, parents)
    ages = {"trial-old": 3600, "trial-now": 0, "trial-populated": 3600, "0123456789abcdef": 3600}
    for name, age in ages.items():
        for path in set(home.paths(name).values()):
            path.mkdir(parents=True)
            if name == "trial-populated":
                (path / "child").mkdir()  # what keeps a directory of the kernel's from being removed is a member
            above = path if version == 1 else path.parent
            os.utime(above, (time.time() - age,) * 2)
    sweep_trials(home)
    for parent in parents.values():
        left = {path.name.removeprefix("dayfly-") for path in parent.iterdir()}
        assert left == set(ages) - {"trial-old"}


def test_finding_a_home_sweeps_trials(home: CgroupHome) -> None:
    left = [parent / f"dayfly-trial-{secrets.token_hex(4)}" for parent in set(home.parents.values())]
    for path in left:
        path.mkdir()
        os.utime(path, (0, 0))
    assert find_home() == home
    assert not any(path.exists() for path in left)


def test_making_one_that_exists_leaves_the_existing_one(home: CgroupHome) -> None:
    name = f"test-{secrets.token_hex(4)}"
    group = home.make(name, SETTINGS)
    try:
        with pytest.raises(FileExistsError):
            home.make(name, SETTINGS)
        assert group.differing(SETTINGS) == []
    finally:
        group.remove(1.0)
