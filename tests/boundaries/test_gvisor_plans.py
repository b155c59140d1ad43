"""What is decided before anything is started: the OCI configuration, the command, limits and refusals. Nothing runs."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dayfly.boundaries.gvisor.abilities import Abilities, Tools
from dayfly.boundaries.gvisor.cgroups import CgroupHome, Counters
from dayfly.boundaries.gvisor.command import mount_table, quoted, read_only_flags, start_command
from dayfly.boundaries.gvisor.ending import natural_end
from dayfly.boundaries.gvisor.enforcement import cgroup_settings, memory_cap, refuse_unenforced, report
from dayfly.boundaries.gvisor.guard import GROWTH, LONGEST, SHORTEST, Caps, exceeded, next_look
from dayfly.boundaries.gvisor.layout import Layout, lay_out
from dayfly.boundaries.gvisor.meter import Sample
from dayfly.boundaries.gvisor.oci import oci_config
from dayfly.boundaries.gvisor.skeleton import resolve
from dayfly.errors import HostError, InputError, LimitUnenforceable
from dayfly.limits import GIB, MIB, Limits
from dayfly.runtime import Feature, Runsc
from dayfly.spec import EndReason, Enforcement, Image, Mount, ReadOnlyLayer, SandboxSpec

PARENTS = {name: Path("/cg", name) for name in ("memory", "cpu", "cpuacct", "pids")}
OLD = Runsc(Path("/r/runsc"), "0.0~20240729.0", None, frozenset(), frozenset())
NEW = replace(OLD, features=frozenset(Feature))
ROOT = Abilities(NEW, Tools("/bin/setpriv", "/bin/unshare"), True, CgroupHome(1, PARENTS), frozenset(range(8)))
USER = Abilities(OLD, Tools("/bin/setpriv", "/bin/unshare"), False, None, frozenset(range(8)))


@pytest.fixture
def spec(tmp_path: Path) -> SandboxSpec:
    rootfs = tmp_path / "rootfs"
    (rootfs / "usr/bin").mkdir(parents=True)
    (rootfs / "usr/bin/python3").touch()
    (tmp_path / "agent.pyz").touch()
    (tmp_path / "wheels").mkdir()
    image = Image("i", "sha256:0", "x86_64", rootfs, layers=(ReadOnlyLayer(tmp_path / "wheels", "/opt/wheels"),))
    return SandboxSpec("ab" * 16, image, Limits(), tmp_path / "agent.pyz")


def test_the_oci_configuration_is_this(spec: SandboxSpec) -> None:
    layout = Layout(Path("/cells/c"), {spec.image.layers[0].source: Path("/cells/c/binds/0")})
    mapping = [{"containerID": 0, "hostID": 1_900_000_007, "size": 1}]
    capabilities = ["CAP_CHOWN", "CAP_KILL", "CAP_SETGID", "CAP_SETUID", "CAP_SYS_RESOURCE"]

    def tmpfs(where: str, *options: str) -> dict[str, object]:
        return {"destination": where, "type": "tmpfs", "source": "tmpfs", "options": list(options)}

    assert oci_config(spec, layout, 1_900_000_007) == {
        "ociVersion": "1.0.2",
        "hostname": "sandbox",
        "process": {
            "user": {"uid": 0, "gid": 0},
            "args": ["/usr/bin/python3", "-I", "-S", "/.dayfly/boot.py", "/.dayfly/agent.pyz"],
            "env": ["PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", "HOME=/", "MALLOC_ARENA_MAX=4"],
            "cwd": "/",
            "capabilities": dict.fromkeys(("bounding", "effective", "permitted"), capabilities),
            "rlimits": [
                {"type": "RLIMIT_NOFILE", "soft": 4096, "hard": 4096},
                {"type": "RLIMIT_CORE", "soft": 0, "hard": 0},
            ],
            "noNewPrivileges": True,
            "oomScoreAdj": 500,
        },
        "root": {"path": "/cells/c/rootfs", "readonly": False},
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc", "options": ["nosuid", "noexec", "nodev"]},
            tmpfs("/dev", "mode=0755", "nosuid", "noexec", "size=65536"),
            tmpfs("/dev/shm", "mode=1777", "nosuid", "nodev", f"size={64 * MIB}"),
            tmpfs("/run", "mode=0755", "nosuid", "nodev", f"size={16 * MIB}"),
            {
                "destination": "/opt/wheels",
                "type": "bind",
                "source": "/cells/c/binds/0",
                "options": ["bind", "ro", "nosuid", "nodev"],
            },
        ],
        "linux": {
            "namespaces": [{"type": name} for name in ("pid", "ipc", "uts", "mount", "network", "user")],
            "uidMappings": mapping,
            "gidMappings": mapping,
            "maskedPaths": [
                "/proc/kcore",
                "/proc/keys",
                "/proc/sched_debug",
                "/proc/scsi",
                "/proc/timer_list",
                "/sys/firmware",
            ],
            "readonlyPaths": ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"],
        },
    }


def test_an_ordinary_users_cell_has_no_mapping_of_its_own(spec: SandboxSpec) -> None:
    layout = Layout(Path("/cells/c"), {spec.image.layers[0].source: Path("/cells/c/binds/0")})
    linux = oci_config(spec, layout, None)["linux"]
    assert "uidMappings" not in linux
    assert {"type": "user"} not in linux["namespaces"]


def test_the_command_of_root_is_this(spec: SandboxSpec) -> None:
    layout = lay_out(Path("/c"), spec, foreign=False)
    command = start_command(ROOT, layout, spec)
    cell = "/c/abababababababab"
    steps = " ".join(command).split(" -- ")
    assert steps[0] == "/bin/setpriv --pdeathsig KILL"
    assert steps[1] == "/bin/unshare --mount"
    assert steps[2].split()[1].endswith("/gvisor/launch.sh")
    assert [word for word in steps[2].split() if word.startswith("/cg/")] == [
        f"/cg/{name}/dayfly-abababababababab/tasks" for name in ("cpu", "cpuacct", "memory", "pids")
    ]
    assert steps[2].endswith(f"--mount {cell}/mounts")
    assert "--bound" not in steps[2]
    assert steps[3].split() == [
        "/r/runsc",
        f"--root={cell}/root",
        "--network=none",
        "--platform=systrap",
        "--ignore-cgroups",
        "--host-uds=none",
        "--host-fifo=none",
        f"--overlay2=root:dir={cell}/overlay,size={2 * GIB}",
        "--gofer-network-namespace=new",
        "--host-settings=ignore",
        "run",
        f"--bundle={cell}/bundle",
        "cell",
    ]


def test_the_mounts_are_these_in_this_order(spec: SandboxSpec) -> None:
    layout = lay_out(Path("/c"), spec, foreign=False)
    cell, source = "/c/abababababababab", spec.image.layers[0].source
    assert mount_table(layout, spec.image.rootfs).splitlines() == [
        f"{source} {cell}/binds/0 none bind,{read_only_flags(source)} 0 0",
        f"{cell}/meminfo /proc/meminfo none bind,ro 0 0",
        f"overlay {cell}/rootfs overlay ro,lowerdir={cell}/skeleton:{spec.image.rootfs} 0 0",
    ]


@given(st.binary(min_size=1, max_size=40).filter(lambda name: b"\0" not in name and b"/" not in name and name != b"."))
def test_any_name_of_a_file_is_one_field_of_the_table(name: bytes) -> None:
    field = quoted(Path("/t") / os.fsdecode(name))
    assert field.isascii()
    assert not re.search(r"[\s#]", field)
    assert re.sub(rb"\\([0-7]{3})", lambda found: bytes([int(found[1], 8)]), field.encode()) == b"/t/" + name


def test_cgroups_with_a_cpuset_may_unbind_what_joins_them(spec: SandboxSpec, tmp_path: Path) -> None:
    """Version 2 always has one somewhere above; in version 1, it may be mounted together with another controller."""
    plain = CgroupHome(1, {"cpu": tmp_path})
    assert not plain.may_unbind
    assert CgroupHome(2, {"cpu": tmp_path}).may_unbind
    (tmp_path / "cpuset.cpus").touch()
    assert plain.may_unbind
    layout = lay_out(Path("/c"), spec, foreign=False)
    assert "--bound" in start_command(replace(ROOT, cgroups=plain), layout, spec)


def test_an_ordinary_user_gets_a_user_namespace_and_only_flags_that_the_build_knows(spec: SandboxSpec) -> None:
    command = start_command(USER, lay_out(Path("/c"), spec, foreign=False), spec)
    assert command[command.index("/bin/unshare") + 1 :][:3] == ["--user", "--map-root-user", "--mount"]
    assert "--rootless" not in command
    assert not any("size=" in word or "gofer-network" in word or "host-settings" in word for word in command)


# --- limits -----------------------------------------------------------------------------------------------------------


def kept(limits: Limits, abilities: Abilities) -> dict[str, Enforcement]:
    return {limit.name: limit.enforcement for limit in report(limits, abilities)}


def test_root_with_cgroups_enforces_all_but_the_sum_of_cpu_time() -> None:
    assert {name for name, how in kept(Limits(), ROOT).items() if how is not Enforcement.ENFORCED} == {"cpu_seconds"}


def test_an_ordinary_user_has_memory_cpus_processes_and_disk_watched() -> None:
    watched = {name for name, how in kept(Limits(), USER).items() if how is Enforcement.WATCHED}
    assert watched == {"memory", "cpus", "processes", "disk", "cpu_seconds"}


@pytest.mark.parametrize("controller", ["memory", "cpu", "pids"])
def test_a_controller_that_is_missing_is_not_claimed(controller: str) -> None:
    parents = {name: path for name, path in PARENTS.items() if name != controller}
    abilities = replace(ROOT, cgroups=CgroupHome(1, parents))
    limit = {"memory": "memory", "cpu": "cpus", "pids": "processes"}[controller]
    assert kept(Limits(), abilities)[limit] is Enforcement.WATCHED


def test_strict_is_satisfied_by_exact_accounting_of_cpu_time_and_by_nothing_less(spec: SandboxSpec) -> None:
    strict = replace(spec, strict=True)
    refuse_unenforced(strict, report(spec.limits, ROOT), ROOT)
    uncounted = replace(ROOT, cgroups=CgroupHome(1, {k: v for k, v in PARENTS.items() if k != "cpuacct"}))
    for abilities in (USER, uncounted, replace(ROOT, runsc=OLD)):
        with pytest.raises(LimitUnenforceable) as refused:
            refuse_unenforced(strict, report(spec.limits, abilities), abilities)
        assert refused.value.remedy


def test_a_part_of_a_cpu_cannot_be_kept_by_binding(spec: SandboxSpec) -> None:
    half = replace(spec, limits=Limits(cpus=1.5))
    reports = report(half.limits, USER)
    with pytest.raises(LimitUnenforceable, match=r"cpus=1\.5"):
        refuse_unenforced(half, reports, USER)
    refuse_unenforced(replace(half, accept_unenforced=frozenset({"cpus"})), reports, USER)
    refuse_unenforced(half, report(half.limits, ROOT), ROOT)


def test_the_hosts_caps_lie_above_the_limits_inside() -> None:
    for limits in (Limits(), Limits(processes=32768), Limits(memory=96 * MIB, processes=16)):
        settings = cgroup_settings(limits)
        assert settings.memory == memory_cap(limits)
        assert settings.memory - limits.memory >= 64 * MIB + limits.processes * 200_000
        assert settings.pids >= 2 * limits.processes + 64
        assert settings.cpus == limits.cpus


# --- watching ---------------------------------------------------------------------------------------------------------

CAPS = Caps(memory=GIB, disk=GIB, cpu_seconds=100, cpus=2)


@pytest.mark.parametrize(
    ("sample", "reason"),
    [
        (Sample(GIB, GIB, 100), None),
        (Sample(GIB + 1, 0, 0), EndReason.MEMORY_LIMIT),
        (Sample(0, GIB + 1, 0), EndReason.DISK_LIMIT),
        (Sample(0, 0, 100.1), EndReason.CPU_LIMIT),
        (Sample(0, 0, 0, oom_kills=1), EndReason.MEMORY_LIMIT),
        (Sample(0, 0, 0, pids_refused=1), EndReason.PROCESS_LIMIT),
    ],
)
def test_what_is_exceeded_is_named(sample: Sample, reason: EndReason | None) -> None:
    found = exceeded(sample, CAPS)
    assert (found and found[0]) == reason


@pytest.mark.parametrize("used", [0.0, 0.3, 0.5, 0.9, 0.99, 1.0, 1.5])
def test_nothing_can_grow_from_a_look_past_its_cap_by_more_than_one_shortest_pause(used: float) -> None:
    for sample in (Sample(int(GIB * used), 0, 0), Sample(0, int(GIB * used), 0), Sample(0, 0, 100 * used)):
        pause = next_look(sample, CAPS)
        assert SHORTEST <= pause <= LONGEST
        grown = pause * GROWTH * CAPS.cpus
        assert max(sample.memory, sample.disk) + grown <= max(GIB, GIB * used) + SHORTEST * GROWTH * CAPS.cpus
        assert sample.cpu_seconds + pause * CAPS.cpus <= max(100, 100 * used) + SHORTEST * CAPS.cpus


def test_an_idle_cell_is_looked_at_rarely() -> None:
    caps = Caps.of(Limits(), memory_cap(Limits()), 1)
    assert next_look(Sample(20 * MIB, 0, 1.0), caps) > LONGEST / 2


# --- ends -------------------------------------------------------------------------------------------------------------

NOTHING = Counters(None, None, 0, 0)


@pytest.mark.parametrize(
    ("code", "counters", "reason", "detail"),
    [
        (0, NOTHING, EndReason.CRASHED, "exit code 0"),
        (3, NOTHING, EndReason.CRASHED, "exit code 3: last words"),
        (139, NOTHING, EndReason.CRASHED, "SIGSEGV"),
        (137, NOTHING, EndReason.BOUNDARY_LOST, "SIGKILL"),
        (-9, NOTHING, EndReason.BOUNDARY_LOST, "runsc was killed by SIGKILL"),
        (128, NOTHING, EndReason.BOUNDARY_LOST, "gVisor failed: last words"),
        (250, NOTHING, EndReason.CRASHED, "signal 122"),
        (137, Counters(1.0, GIB, 1, 0), EndReason.MEMORY_LIMIT, "out of memory"),
        (1, Counters(1.0, GIB, 1, 0), EndReason.MEMORY_LIMIT, "out of memory"),
        (137, Counters(1.0, None, 1, 0), EndReason.MEMORY_LIMIT, "out of memory"),
        (137, Counters(1.0, GIB // 4, 1, 0), EndReason.BOUNDARY_LOST, "the host itself ran out of memory"),
        (2, Counters(1.0, MIB, 0, 1), EndReason.PROCESS_LIMIT, "refused"),
    ],
)
def test_the_end_is_read_from_what_the_host_saw(code: int, counters: Counters, reason: EndReason, detail: str) -> None:
    end = natural_end(code, counters, GIB, "last words")
    assert end.reason is reason
    assert detail in end.detail


# --- paths ------------------------------------------------------------------------------------------------------------


def test_a_path_too_long_for_sockets_is_refused(spec: SandboxSpec) -> None:
    with pytest.raises(HostError) as refused:
        lay_out(Path("/" + "x" * 80), spec, foreign=False)
    assert refused.value.remedy == "set DAYFLY_DATA to a shorter path"


@pytest.mark.parametrize("name", ["a,b", "a:b", "a\\b", "a\nb"])
def test_a_path_that_mount_options_cannot_hold_is_refused(spec: SandboxSpec, name: str) -> None:
    with pytest.raises(HostError):
        lay_out(Path("/", name), spec, foreign=False)


@pytest.mark.parametrize("missing", ["agent", "rootfs", "layer", "mount", "python"])
def test_a_source_that_is_not_there_is_refused(spec: SandboxSpec, missing: str) -> None:
    nowhere = Path("/nonexistent")
    changed = {
        "agent": replace(spec, agent=nowhere),
        "rootfs": replace(spec, image=replace(spec.image, rootfs=nowhere)),
        "layer": replace(spec, image=replace(spec.image, layers=(ReadOnlyLayer(nowhere, "/x"),))),
        "mount": replace(spec, mounts=(Mount(nowhere, "/x"),)),
        "python": replace(spec, image=replace(spec.image, python="/usr/bin/pypy")),
    }[missing]
    with pytest.raises(InputError):
        lay_out(Path("/c"), changed, foreign=False)


def test_links_of_the_image_are_followed_inside_the_image_only(tmp_path: Path) -> None:
    (tmp_path / "usr/lib/deep").mkdir(parents=True)
    (tmp_path / "lib").symlink_to("usr/lib")
    (tmp_path / "up").symlink_to("../../../../etc")
    (tmp_path / "absolute").symlink_to("/usr/lib/deep")
    (tmp_path / "loop").symlink_to("loop")
    found = {name: str(resolve(tmp_path, name)) for name in ("/lib/x", "/up/x", "/absolute/../y", "/new/thing", "/")}
    assert found == {
        "/lib/x": "/usr/lib/x",
        "/up/x": "/etc/x",
        "/absolute/../y": "/usr/lib/y",
        "/new/thing": "/new/thing",
        "/": "/",
    }
    with pytest.raises(InputError, match="too many symbolic links"):
        resolve(tmp_path, "/loop/x")
