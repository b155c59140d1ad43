"""What the host sees of a live sandbox's own processes: who they are, what they may, what they hold. Read in /proc; nothing inside is asked.

Each examination has the processes and what they must be; it returns how much it looked at and what is not as it must be.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from dayfly.spec import Enforcement, LimitReport

__all__ = ["EXAMINATIONS", "GOFER", "SENTRY", "Process", "Watched", "processes_of"]

Found = tuple[int, list[str]]

SENTRY, GOFER = "runsc-sandbox", "runsc-gofer"

ITS_FILES = re.compile(r"/root(/|$)|/dev/null$|/memfd:|/$")
"""What the sentry and the gofer hold: files of the image, seen from the root that they have given themselves, and their memory. Besides, those of
their own cell's directory."""

_QUOTA = r"cpu\.(cfs_quota_us|cfs_period_us|max)"
"""Of its own cgroup, to read how many CPUs it has: current builds of gVisor keep them open. Whoever could write them had no cap."""

ITS_OTHERS = ("anon_inode", "pipe", "socket")


@dataclass(frozen=True)
class Process:
    """One of the sandbox's on the host. ``status``: of /proc/PID/status; ``threads``: the same of each of its threads. ``files``: what its descriptors are; ``writes``: those of
    them that it may write to; ``cpus``: how many of this machine's it may use; ``cgroups``: of /proc/PID/cgroup."""

    pid: int
    name: str
    status: Mapping[str, str]
    namespaces: Mapping[str, str]
    cgroups: str
    files: Sequence[str]
    interfaces: Sequence[str]
    root: Sequence[str]
    writes: Sequence[str] = ()
    cpus: int = 0
    threads: Sequence[Mapping[str, str]] = ()

    def any_says(self, field: str, other_than: str) -> bool:
        """It or one of its threads, of which each has its own."""
        return any(one.get(field, "").split()[:1] != [other_than] for one in (self.status, *self.threads))


@dataclass(frozen=True)
class Watched:
    """A live sandbox as the host sees it. ``here``: the namespaces of whoever looks; ``mark``: the beginning of its id, by which its
    directories are called."""

    processes: Sequence[Process]
    limits: Sequence[LimitReport]
    here: Mapping[str, str]
    mark: str

    @property
    def cgroup_part(self) -> str:
        return f"dayfly-{self.mark}"


def processes_of(sandbox: str, limits: Sequence[LimitReport]) -> Watched:
    """Of the sandbox with that id. What cannot be read is not there, and then examinations have nothing to look at."""
    mark = sandbox[:16]
    found = [one for pid in os.listdir("/proc") if pid.isdigit() and (one := _process(int(pid), mark)) is not None]
    return Watched(found, limits, _namespaces(Path("/proc/self")), mark)


def _process(pid: int, mark: str) -> Process | None:
    home = Path(f"/proc/{pid}")
    try:
        words = (home / "cmdline").read_bytes().split(b"\0")
        if not any(mark.encode() in word for word in words) or b"runsc" not in words[0]:
            return None
        status, threads = _status(home), _of_threads(home)
        return Process(
            pid,
            words[0].decode("utf-8", "replace").rsplit("/", 1)[-1],
            status,
            _namespaces(home),
            (home / "cgroup").read_text(),
            [os.readlink(one) for one in (home / "fd").iterdir()],
            [line.split(":")[0].strip() for line in (home / "net/dev").read_text().splitlines()[2:]],
            os.listdir(home / "root/"),
            [os.readlink(one) for one in (home / "fd").iterdir() if _is_written(home / "fdinfo" / one.name)],
            len(os.sched_getaffinity(pid)),
            threads,
        )
    except (OSError, ValueError):  # it has ended meanwhile, or is not ours to look at
        return None


def _status(home: Path) -> dict[str, str]:
    return dict(line.split(":\t", 1) for line in (home / "status").read_text().splitlines() if ":\t" in line)


def _of_threads(home: Path) -> list[dict[str, str]]:
    """Of those that are there: they come and go."""
    found = []
    for one in (home / "task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):
            found.append(_status(one))
    return found


def _is_written(fdinfo: Path) -> bool:
    """Of a descriptor, by its flags, which are octal (proc(5))."""
    flags = next(line.split()[1] for line in fdinfo.read_text().splitlines() if line.startswith("flags:"))
    return int(flags, 8) & os.O_ACCMODE != os.O_RDONLY


def _namespaces(home: Path) -> dict[str, str]:
    return {name: os.readlink(home / "ns" / name) for name in ("net", "pid", "mnt", "user", "ipc", "uts")}


def examination(look: Callable[[Process, Watched], list[str]], names: tuple[str, ...]) -> Callable[[Watched], Found]:
    """The same look at each process of these names."""

    def examined(watched: Watched) -> Found:
        looked = [process for process in watched.processes if process.name in names]
        if {process.name for process in looked} != set(names):
            return 0, []  # of one that cannot be seen nothing is shown
        return len(looked), [f"{one.name}: {what}" for one in looked for what in look(one, watched)]

    return examined


def _superuser(process: Process, watched: Watched) -> list[str]:
    return ["it is root on this machine"] if any(_uid(one) == "0" for one in (process.status, *process.threads)) else []


def _uid(status: Mapping[str, str]) -> str:
    return status["Uid"].split()[0]


def _gains(process: Process, watched: Watched) -> list[str]:
    return ["it can gain privileges by exec"] if process.any_says("NoNewPrivs", "1") else []


def _unfiltered(process: Process, watched: Watched) -> list[str]:
    return ["its system calls are not filtered"] if process.any_says("Seccomp", "2") else []


def _shares(*kinds: str) -> Callable[[Process, Watched], list[str]]:
    def look(process: Process, watched: Watched) -> list[str]:
        return [
            f"it shares this machine's {kind} namespace"
            for kind in kinds
            if process.namespaces[kind] == watched.here[kind]
        ]

    return look


def _devices(process: Process, watched: Watched) -> list[str]:
    return [f"interface {name}" for name in process.interfaces if name != "lo"]


def _sees(process: Process, watched: Watched) -> list[str]:
    return [f"its root has {name}" for name in process.root if name not in ("proc", "etc")]


def _holds(process: Process, watched: Watched) -> list[str]:
    kept = [name.removesuffix(" (deleted)") for name in process.files]
    its_cell = re.compile(rf".*/cells/{re.escape(watched.mark)}/")
    its_quota = re.compile(rf"(/.*)?/{re.escape(watched.cgroup_part)}/{_QUOTA}$")
    others = [
        name
        for name in kept
        if not ITS_FILES.match(name)
        and not its_cell.match(name)
        and not (its_quota.match(name) and name not in process.writes)
    ]
    return [name for name in others if name.split(":")[0] not in ITS_OTHERS]


CONTROLLERS = {"memory": "memory", "cpus": "cpu", "processes": "pids"}
"""Which of the kernel's controllers keeps a limit."""


def _under_its_caps(watched: Watched) -> Found:
    """All of the sandbox's processes are in every cgroup that keeps a limit: what is not, is not counted. The kernel and its helper are
    bound to as many CPUs as they may use, whether a cgroup says so too or not."""
    kept = [one.name for one in watched.limits if "cgroup" in one.how and one.enforcement is Enforcement.ENFORCED]
    (cpus,) = [one.value for one in watched.limits if one.name == "cpus"] or (math.inf,)
    found = [
        f"{one.name} is not in the cgroup that keeps {name}"
        for one in watched.processes
        for name in kept
        if not any(watched.cgroup_part in path for path in _paths(one, CONTROLLERS[name]))
    ]
    bound = [one for one in watched.processes if one.name in (SENTRY, GOFER)]
    found += [f"{one.name} may use {one.cpus} CPUs" for one in bound if one.cpus > math.ceil(cpus)]
    return len(watched.processes) if SENTRY in {one.name for one in bound} else 0, found


def _paths(process: Process, controller: str) -> list[str]:
    """Where it is: in version 1 by that controller, in version 2 by all."""
    lines = [line.split(":", 2) for line in process.cgroups.splitlines()]
    return [path for _, names, path in lines if not names or controller in names.split(",")]


def _kept(watched: Watched) -> Found:
    """Every limit is enforced or watched, as was read back after the start."""
    loose = [one for one in watched.limits if one.enforcement not in (Enforcement.ENFORCED, Enforcement.WATCHED)]
    return len(watched.limits), [f"{one.name}: {one.enforcement}" for one in loose]


EXAMINATIONS: dict[str, Callable[[Watched], Found]] = {
    "superuser": examination(_superuser, (SENTRY, GOFER)),
    "gains": examination(_gains, (SENTRY, GOFER)),
    "unfiltered": examination(_unfiltered, (SENTRY, GOFER)),
    "shares_network": examination(_shares("net"), (SENTRY, GOFER)),
    "shares_users": examination(_shares("user", "mnt", "ipc", "uts"), (SENTRY, GOFER)),
    "devices": examination(_devices, (SENTRY, GOFER)),
    "sees": examination(_sees, (SENTRY,)),
    "holds": examination(_holds, (SENTRY, GOFER)),
    "under_its_caps": _under_its_caps,
    "kept": _kept,
}
"""By the name that probes give as their attempt. "reached" is what is not as it must be."""
