"""What runs inside and what it sees: the OCI configuration of a cell, as a pure function of its specification.

Everything on the host that appears inside is the root (image and skeleton) and what ``mounts`` lists, all read-only. All
that is written inside goes to gVisor's layer over the root, on disk, except for small tmpfs that count as memory.
"""

from __future__ import annotations

from typing import Any

from dayfly.boundaries.gvisor.layout import Layout
from dayfly.boundaries.gvisor.skeleton import AGENT_TARGET, BOOT_TARGET, mount_targets
from dayfly.limits import KIB, MIB
from dayfly.spec import SandboxSpec

__all__ = ["AGENT_FILES", "CAPABILITIES", "PYTHON_FLAGS", "oci_config"]

PYTHON_FLAGS = ("-I", "-S")
"""Isolated (no environment, no user site, no working directory on the path), and without the ``site`` module: the agent
needs the standard library only, and starts faster."""

CAPABILITIES = ("CAP_CHOWN", "CAP_KILL", "CAP_SETGID", "CAP_SETUID", "CAP_SYS_RESOURCE")
"""Of the agent alone, inside: to start, end, own and limit for the unprivileged user. That user's processes have none."""

RUN_SIZE = 16 * MIB
"""Bytes of /run, counted as memory: sockets and pid files, nothing big."""

AGENT_FILES = 3072
"""Descriptors that the agent may have beyond ``limits.open_files``, which it sets for everything it starts: 1,024 for the
ports of names, 768 for connections to them, the rest for commands, files and kernels."""

OOM_SCORE_ADJ = 500
"""When the *host* runs out of memory, cells go before the services that serve them."""

ENVIRONMENT = ("PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", "HOME=/", "MALLOC_ARENA_MAX=4")
"""Of the agent. Any user inside can read it in /proc/1/environ, so there is nothing of the host's in it. Few arenas, for
the kernels that are forked from it: each reserves 64 MiB of address space, which the agent's guard of memory counts."""

MASKED = ("/proc/kcore", "/proc/keys", "/proc/sched_debug", "/proc/scsi", "/proc/timer_list", "/sys/firmware")
READ_ONLY = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")
# gVisor's /proc and /sys are its own and have none of the host's in them; these lists say so in OCI's words.


def oci_config(spec: SandboxSpec, layout: Layout, host_uid: int | None) -> dict[str, Any]:
    """The content of ``config.json``. ``host_uid`` is what root inside is on the host; ``None`` for ordinary users,
    whose cells run in a user namespace made around runsc."""
    return {
        "ociVersion": "1.0.2",
        "hostname": spec.hostname,
        "process": _process(spec),
        "root": {"path": str(layout.rootfs), "readonly": False},  # gVisor's own layer above it takes the writes
        "mounts": _mounts(spec, layout),
        "linux": _linux(host_uid),
    }


def _process(spec: SandboxSpec) -> dict[str, Any]:
    files = spec.limits.open_files + AGENT_FILES
    return {
        "user": {"uid": 0, "gid": 0},
        "args": [spec.image.python, *PYTHON_FLAGS, BOOT_TARGET, AGENT_TARGET],
        "env": list(ENVIRONMENT),
        "cwd": "/",
        "capabilities": {kind: list(CAPABILITIES) for kind in ("bounding", "effective", "permitted")},
        "rlimits": [
            {"type": "RLIMIT_NOFILE", "soft": files, "hard": files},
            {"type": "RLIMIT_CORE", "soft": 0, "hard": 0},
        ],
        "noNewPrivileges": True,
        "oomScoreAdj": OOM_SCORE_ADJ,
    }


def _linux(host_uid: int | None) -> dict[str, Any]:
    namespaces = ["pid", "ipc", "uts", "mount", "network"]
    if host_uid is None:
        return {"namespaces": _typed(namespaces), "maskedPaths": list(MASKED), "readonlyPaths": list(READ_ONLY)}
    mapping = [{"containerID": 0, "hostID": host_uid, "size": 1}]
    return {
        "namespaces": _typed([*namespaces, "user"]),
        "uidMappings": mapping,
        "gidMappings": mapping,
        "maskedPaths": list(MASKED),
        "readonlyPaths": list(READ_ONLY),
    }


def _typed(namespaces: list[str]) -> list[dict[str, str]]:
    return [{"type": name} for name in namespaces]


def _mounts(spec: SandboxSpec, layout: Layout) -> list[dict[str, Any]]:
    binds = [_bind(layout.places[source], target) for target, source in mount_targets(spec).items()]
    return [*_own_filesystems(spec), *binds]


def _own_filesystems(spec: SandboxSpec) -> list[dict[str, Any]]:
    return [
        {"destination": "/proc", "type": "proc", "source": "proc", "options": ["nosuid", "noexec", "nodev"]},
        _tmpfs("/dev", 64 * KIB, "mode=0755", "nosuid", "noexec"),
        _tmpfs("/dev/shm", spec.limits.shm, "mode=1777", "nosuid", "nodev"),  # noqa: S108 - inside the sandbox
        _tmpfs("/run", RUN_SIZE, "mode=0755", "nosuid", "nodev"),
    ]


def _tmpfs(target: str, size: int, *options: str) -> dict[str, Any]:
    return {"destination": target, "type": "tmpfs", "source": "tmpfs", "options": [*options, f"size={size}"]}


def _bind(source: object, target: str) -> dict[str, Any]:
    return {"destination": target, "type": "bind", "source": str(source), "options": ["bind", "ro", "nosuid", "nodev"]}
