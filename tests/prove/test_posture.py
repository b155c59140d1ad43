"""What is looked at in /proc: each examination finds what it is there for, and nothing where all is well."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dayfly.prove.posture import EXAMINATIONS, GOFER, SENTRY, Process, Watched, _is_written, processes_of
from dayfly.spec import Enforcement, LimitReport

HERE = {name: f"{name}:[1]" for name in ("net", "pid", "mnt", "user", "ipc", "uts")}
THERE = {name: f"{name}:[2]" for name in HERE}
STATUS = {"Uid": "4711\t4711\t4711\t4711", "NoNewPrivs": "1", "Seccomp": "2"}
LIMIT = LimitReport("memory", 1.0, Enforcement.ENFORCED, "cgroup v1 memory.limit_in_bytes, read back")
LIMITS = [
    LIMIT,
    LimitReport("cpus", 1.5, Enforcement.ENFORCED, "cgroup v1 CPU quota"),
    LimitReport("processes", 256.0, Enforcement.ENFORCED, "RLIMIT_NPROC inside, cgroup v1 pids as a backstop"),
]
IN_ALL = (
    "8:pids:/dayfly-0123456789abcdef\n4:memory:/dayfly-0123456789abcdef\n1:cpu,cpuacct:/dayfly-0123456789abcdef\n0::/\n"
)

GOOD = Process(
    7,
    SENTRY,
    STATUS,
    THERE,
    IN_ALL,
    ["/dev/null", "pipe:[1]", "/root/usr/bin/python3", "/run/dayfly/cells/0123456789abcdef/upper/x"],
    ["lo"],
    ["proc", "etc"],
    cpus=2,
)

QUOTA = "/sys/fs/cgroup/cpu/dayfly-0123456789abcdef/cpu.cfs_quota_us"


def watched(**changes: Any) -> Watched:
    sentry = replace(GOOD, **changes)
    gofer = replace(GOOD, name=GOFER, root=["usr"])
    return Watched([sentry, gofer], LIMITS, HERE, "0123456789abcdef")


@pytest.mark.parametrize("name", sorted(EXAMINATIONS))
def test_where_all_is_well_nothing_is_found_and_something_was_looked_at(name: str) -> None:
    tried, found = EXAMINATIONS[name](watched())
    assert tried > 0
    assert found == []


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("superuser", {"status": {**STATUS, "Uid": "0\t0\t0\t0"}}),
        ("superuser", {"threads": [STATUS, {**STATUS, "Uid": "0\t0\t0\t0"}]}),
        ("gains", {"status": {**STATUS, "NoNewPrivs": "0"}}),
        ("gains", {"threads": [{**STATUS, "NoNewPrivs": "0"}]}),
        ("unfiltered", {"threads": [STATUS, {**STATUS, "Seccomp": "0"}]}),
        ("unfiltered", {"status": {**STATUS, "Seccomp": "0"}}),
        ("shares_network", {"namespaces": {**THERE, "net": HERE["net"]}}),
        ("shares_users", {"namespaces": {**THERE, "user": HERE["user"]}}),
        ("shares_users", {"namespaces": {**THERE, "mnt": HERE["mnt"]}}),
        ("devices", {"interfaces": ["lo", "eth0"]}),
        ("sees", {"root": ["proc", "etc", "home"]}),
        ("holds", {"files": ["/etc/shadow"]}),
        ("holds", {"files": ["/home/me/.ssh/id_ed25519 (deleted)"]}),
        ("holds", {"files": ["/run/dayfly/cells/fedcba9876543210/upper/another's"]}),
        ("holds", {"files": [QUOTA], "writes": [QUOTA]}),
        ("holds", {"files": [QUOTA.replace("0123456789abcdef", "fedcba9876543210")]}),
        ("holds", {"files": [QUOTA.replace("cpu.cfs_quota_us", "cgroup.procs")]}),
        ("under_its_caps", {"cgroups": "4:memory:/"}),
        ("under_its_caps", {"cgroups": IN_ALL.replace("8:pids:/dayfly-0123456789abcdef", "8:pids:/")}),
        ("under_its_caps", {"cgroups": IN_ALL.replace("cpu,cpuacct:/dayfly-0123456789abcdef", "cpu,cpuacct:/")}),
        (
            "under_its_caps",
            {"cgroups": IN_ALL.replace("4:memory:/dayfly-0123456789abcdef", "4:memory:/dayfly-fedcba9876543210")},
        ),
        ("under_its_caps", {"cgroups": "0::/dayfly-fedcba9876543210/cell"}),
        ("under_its_caps", {"cpus": 3}),
    ],
)
def test_what_is_not_as_it_must_be_is_found(name: str, changes: dict[str, Any]) -> None:
    assert EXAMINATIONS[name](watched(**changes))[1] != []


@pytest.mark.parametrize("quota", [QUOTA, "/dayfly-0123456789abcdef/cpu.max"])
def test_its_own_quota_of_cpus_may_be_read(quota: str) -> None:
    assert EXAMINATIONS["holds"](watched(files=[quota]))[1] == []


def test_a_descriptor_tells_whether_it_is_written(tmp_path: Path) -> None:
    with (tmp_path / "file").open("w") as written, (tmp_path / "file").open() as read:
        for file, expected in ((written, True), (read, False)):
            assert _is_written(Path(f"/proc/self/fdinfo/{file.fileno()}")) is expected


def test_a_limit_that_nobody_keeps_is_found() -> None:
    loose = replace(watched(), limits=[*LIMITS, replace(LIMIT, name="disk", enforcement=Enforcement.UNENFORCED)])
    assert EXAMINATIONS["kept"](loose)[1] == ["disk: unenforced"]


def test_without_limits_by_a_cgroup_nothing_has_to_be_in_one() -> None:
    """An ordinary user's host may have none: the caps are watched then."""
    limits = [replace(one, how="sampled", enforcement=Enforcement.WATCHED) for one in LIMITS]
    free = replace(watched(), limits=limits)
    free = replace(free, processes=[replace(one, cgroups="0::/") for one in free.processes])
    assert EXAMINATIONS["under_its_caps"](free) == (2, [])
    loose = replace(free, processes=[replace(one, cpus=3) for one in free.processes])
    assert len(EXAMINATIONS["under_its_caps"](loose)[1]) == 2, "what it is bound to is looked at all the same"


def test_in_version_2_one_path_is_that_of_all_controllers() -> None:
    assert EXAMINATIONS["under_its_caps"](watched(cgroups="0::/user.slice/dayfly-0123456789abcdef/cell\n"))[1] == []


@pytest.mark.parametrize("name", sorted(set(EXAMINATIONS) - {"kept"}))
def test_of_processes_that_are_not_there_nothing_is_shown(name: str) -> None:
    assert EXAMINATIONS[name](Watched([], [LIMIT], HERE, "x"))[0] == 0


@pytest.mark.parametrize("name", sorted(set(EXAMINATIONS) - {"kept"}))
def test_where_the_kernel_cannot_be_seen_nothing_is_shown_by_its_helper(name: str) -> None:
    whole = watched()
    gofer_alone = replace(whole, processes=[one for one in whole.processes if one.name == GOFER])
    assert EXAMINATIONS[name](gofer_alone)[0] == 0


def test_nobodys_processes_are_none() -> None:
    assert processes_of("0" * 32, []).processes == []
    assert processes_of("0" * 32, []).here["net"] == os.readlink("/proc/self/ns/net")
