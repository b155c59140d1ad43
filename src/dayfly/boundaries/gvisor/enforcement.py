"""How each limit is kept on this machine, and whether that is good enough for a policy. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from dayfly.boundaries.gvisor.abilities import Abilities
from dayfly.boundaries.gvisor.cgroups import Settings
from dayfly.errors import LimitUnenforceable
from dayfly.limits import KIB, MIB, Limits
from dayfly.spec import Enforcement, LimitReport, SandboxSpec

__all__ = ["cgroup_settings", "memory_cap", "refuse_unenforced", "remedy", "report"]

OVERHEAD = 64 * MIB
PROCESS_OVERHEAD = 256 * KIB
"""Bytes that the host's cap lies above ``limits.memory``, at all and per allowed process inside: gVisor's own processes
(20-35 MiB when idle) and what they and the host's kernel keep per process (110 MiB were measured at 250 processes). So
what acts first is the limit inside, as a ``MemoryError``."""

_THREADS_PER_PROCESS = 4
_SPARE_THREADS = 256
"""The host counts gVisor's threads: two per process inside, and some dozens. Reaching this cap kills the cell, so
it lies well above what RLIMIT_NPROC inside allows, which gives the code a plain error."""

_EXACT_TIME = frozenset({"cpu_seconds"})
"""Sums over time. No kernel caps them for a group of processes; where a cgroup counts them exactly, and the host ends
the cell at the sum, ``strict`` accepts that."""

_CGROUP_REMEDY = "run dayfly as root, or in a systemd user unit with Delegate=yes, so that it may make cgroups"

_DISK_REMEDY = "use a runsc whose --overlay2 knows size= (dayfly setup --from release)"


def memory_cap(limits: Limits) -> int:
    """Bytes at which the host ends the cell."""
    return limits.memory + OVERHEAD + limits.processes * PROCESS_OVERHEAD


def cgroup_settings(limits: Limits) -> Settings:
    pids = limits.processes * _THREADS_PER_PROCESS + _SPARE_THREADS
    return Settings(memory=memory_cap(limits), cpus=limits.cpus, pids=pids)


def report(limits: Limits, abilities: Abilities) -> tuple[LimitReport, ...]:
    """Every limit that the boundary keeps, and how it would be kept here."""
    return tuple(
        LimitReport(name, float(getattr(limits, name)), enforcement, how)
        for name, enforcement, how in _decide(limits, abilities)
    )


def _decide(limits: Limits, abilities: Abilities) -> Iterator[tuple[str, Enforcement, str]]:
    version = f"cgroup v{abilities.cgroups.version}" if abilities.cgroups else ""
    above = (memory_cap(limits) - limits.memory) // MIB
    if abilities.has_cgroup("memory"):
        yield "memory", Enforcement.ENFORCED, f"{version} memory, with {above} MiB for gVisor itself"
    else:
        yield "memory", Enforcement.WATCHED, "the host samples what the sandbox holds and ends it"
    yield ("cpus", *_cpus(limits, abilities, version))
    if abilities.has_cgroup("pids"):
        yield "processes", Enforcement.ENFORCED, f"RLIMIT_NPROC inside, {version} pids as a backstop"
    else:
        yield "processes", Enforcement.WATCHED, "RLIMIT_NPROC inside"
    if abilities.sizes_disk:
        yield "disk", Enforcement.ENFORCED, "size of the writable layer, kept by gVisor"
    else:
        yield "disk", Enforcement.WATCHED, "the host samples the writable layer and ends the sandbox"
    yield "shm", Enforcement.ENFORCED, "size of the tmpfs at /dev/shm, kept by gVisor"
    counted = f"{version} accounting" if _counts_cpu(abilities) else "its processes' CPU times"
    yield "cpu_seconds", Enforcement.WATCHED, f"the host samples {counted} and ends the sandbox"
    yield "open_files", Enforcement.ENFORCED, "RLIMIT_NOFILE inside, kept by gVisor"


def _cpus(limits: Limits, abilities: Abilities, version: str) -> tuple[Enforcement, str]:
    pinned = f"bound to {abilities.visible_cpus(limits.cpus)} CPU(s) of the host"
    if abilities.has_cgroup("cpu"):
        return Enforcement.ENFORCED, f"{version} CPU quota, and {pinned}"
    if limits.cpus == int(limits.cpus):
        return Enforcement.WATCHED, pinned
    return Enforcement.UNENFORCED, f"{pinned}, which is more than was asked"


def _counts_cpu(abilities: Abilities) -> bool:
    home = abilities.cgroups
    return home is not None and ("cpuacct" in home.parents or home.version == 2)


def remedy(limit: LimitReport) -> str:
    """What would have this limit enforced."""
    if limit.name == "disk":
        return _DISK_REMEDY
    if limit.enforcement is Enforcement.UNENFORCED:
        return f"ask for a whole number of {limit.name}, or {_CGROUP_REMEDY}"
    return _CGROUP_REMEDY


def refuse_unenforced(spec: SandboxSpec, reports: tuple[LimitReport, ...], abilities: Abilities) -> None:
    """Raise ``LimitUnenforceable`` for the first limit that is kept worse than ``spec`` demands."""
    for limit in reports:
        if limit.enforcement is Enforcement.UNENFORCED and limit.name not in spec.accept_unenforced:
            raise LimitUnenforceable(
                f"the limit {limit.name}={limit.value:g} cannot be kept here ({limit.how})",
                remedy=f"{remedy(limit)}, or accept_unenforced={{'{limit.name}'}}",
            )
        exact = limit.name in _EXACT_TIME and _counts_cpu(abilities)
        if spec.strict and limit.enforcement is not Enforcement.ENFORCED and not exact:
            raise LimitUnenforceable(
                f"the policy is strict, and the limit {limit.name} is only {limit.enforcement} here ({limit.how})",
                remedy=remedy(limit),
            )
