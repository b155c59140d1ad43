"""The cgroup of one cell, in version 1 and version 2: made, filled, read back, counted, emptied, removed.

Values are read back after they are written; what the kernel rounds is rounded before. A controller that is not there,
or may not be used, is simply absent from ``CgroupHome.parents``.

In version 2 a cell's processes are one level further down, in a cgroup of their own below one that only hands the
controllers on. Without it, whoever else writes to the parent (systemd does, when the last unit that needed the CPU
controller stops) would take a controller away and the cell's caps with it, silently; so the kernel refuses with EBUSY.
"""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from dayfly.boundaries.processes import wait_gone

__all__ = ["CONTROLLERS", "PREFIX", "CellCgroup", "CgroupHome", "Counters", "Settings", "cgroup_name", "hand_on"]

CONTROLLERS = ("memory", "cpu", "cpuacct", "pids")
"""What a cell is put under. ``cpuacct`` only counts; version 2 counts without it."""

PREFIX = "dayfly-"

CPU_PERIOD_US = 100_000
"""The kernel's default: long enough that a cell is not woken for a sliver, short enough not to be felt."""

PAGE = os.sysconf("SC_PAGE_SIZE")


_SHIELDED = "cell"
"""In version 2, the cgroup with the processes and the caps, below the one with the cell's name."""


def cgroup_name(cell: str) -> str:
    return PREFIX + cell


@dataclass(frozen=True)
class Settings:
    """Caps for one cell, in the kernel's terms: bytes, cores, host processes and threads."""

    memory: int
    cpus: float
    pids: int


@dataclass(frozen=True)
class Counters:
    """What the kernel counted. ``None`` where it does not."""

    cpu_seconds: float | None
    memory_peak: int | None
    oom_kills: int
    pids_refused: int


@dataclass(frozen=True)
class CgroupHome:
    """Where cells' cgroups may be made. ``parents`` maps each usable controller to a directory.

    In version 2 all directories are the same one.
    """

    version: int
    parents: Mapping[str, Path]

    def paths(self, cell: str) -> dict[str, Path]:
        """Where the cell's processes and caps are, by controller."""
        below = Path(cgroup_name(cell), _SHIELDED) if self.version == 2 else Path(cgroup_name(cell))
        return {controller: parent / below for controller, parent in self.parents.items()}

    @property
    def may_unbind(self) -> bool:
        """Whether joining a cell's cgroup may change the CPUs that a process is bound to."""
        return self.version == 2 or any((parent / "cpuset.cpus").exists() for parent in self.parents.values())

    def make(self, cell: str, settings: Settings) -> CellCgroup:
        """Raises ``OSError`` and leaves nothing if the kernel refuses."""
        group = CellCgroup(self.version, self.paths(cell))
        made: list[Path] = []
        try:
            for directory in (*group.shields, *group.directories):
                directory.mkdir(mode=0o755)
                made.append(directory)
                if directory in group.shields:
                    hand_on(directory, self.parents)
            group.apply(settings)
        except BaseException:
            for directory in reversed(made):
                directory.rmdir()
            raise
        return group


def hand_on(directory: Path, controllers: Iterable[str]) -> None:
    """Give the cgroups below ``directory`` (version 2) these controllers, and nobody can take them from it any more.

    Switches them on above as well, where they are off: the one who switched them on may have taken them back since. Raises ``OSError``.
    """
    switch = directory / "cgroup.subtree_control"
    wanted = " ".join(f"+{name}" for name in sorted(controllers))
    try:
        switch.write_text(wanted, "ascii")
    except FileNotFoundError:  # what the kernel says for a controller that ``directory`` was not given
        if not (directory.parent / switch.name).is_file():
            raise
        hand_on(directory.parent, controllers)
        switch.write_text(wanted, "ascii")


def entrances(version: int, directories: Iterable[Path]) -> list[Path]:
    """Files into which a process of one thread writes 0 to join these cgroups.

    In version 1, ``tasks``: a thread that moves itself need not wait until no process of the whole machine is forking,
    which takes the kernel 9 to 30 ms (0.3 ms instead, on Linux 6.18). Version 2 has no such entrance.
    """
    name = "tasks" if version == 1 else "cgroup.procs"
    return [directory / name for directory in directories]


@dataclass(frozen=True)
class CellCgroup:
    """The cgroup of one cell: one directory per controller in version 1, one in all (and a shield) in version 2."""

    version: int
    paths: Mapping[str, Path]

    @property
    def directories(self) -> list[Path]:
        return sorted(set(self.paths.values()))

    @property
    def shields(self) -> list[Path]:
        """In version 2, the cgroup above, which has the cell's name and no processes."""
        above = {path.parent for path in self.paths.values()}
        return sorted(path for path in above if self.version == 2 and path.name.startswith(PREFIX))

    @property
    def entrances(self) -> list[Path]:
        """Files into which a process of one thread writes 0 to join."""
        return entrances(self.version, self.directories)

    @property
    def _processes(self) -> list[Path]:
        """Files that list the processes in it."""
        return [directory / "cgroup.procs" for directory in self.directories]

    # --- caps ---------------------------------------------------------------------------------------------------------

    def apply(self, settings: Settings) -> None:
        for path, value in self._values(settings):
            path.write_text(value, "ascii")
        for path, value in self._extras(settings):
            with suppress(OSError):  # swap accounting may be compiled out: then there is none to cap
                path.write_text(value, "ascii")

    def differing(self, settings: Settings) -> list[str]:
        """Names of the caps that do not read back as they were set."""
        return [path.name for path, value in self._values(settings) if path.read_text("ascii").strip() != value]

    def _values(self, settings: Settings) -> Iterator[tuple[Path, str]]:
        quota = str(round(settings.cpus * CPU_PERIOD_US))
        memory = str(-(-settings.memory // PAGE) * PAGE)
        if self.version == 2:
            wanted = {
                "memory": {"memory.max": memory},
                "cpu": {"cpu.max": f"{quota} {CPU_PERIOD_US}"},
                "pids": {"pids.max": str(settings.pids)},
            }
        else:
            wanted = {
                "memory": {"memory.limit_in_bytes": memory},
                "cpu": {"cpu.cfs_period_us": str(CPU_PERIOD_US), "cpu.cfs_quota_us": quota},
                "pids": {"pids.max": str(settings.pids)},
            }
        for controller, files in wanted.items():
            if controller in self.paths:
                yield from ((self.paths[controller] / name, value) for name, value in files.items())

    def _extras(self, settings: Settings) -> Iterator[tuple[Path, str]]:
        if "memory" not in self.paths:
            return
        directory = self.paths["memory"]
        if self.version == 2:
            yield directory / "memory.swap.max", "0"
            yield directory / "memory.oom.group", "1"  # all or nothing: half a cell would hang
        else:
            yield directory / "memory.memsw.limit_in_bytes", str(-(-settings.memory // PAGE) * PAGE)

    def step_behind(self, behind: bool) -> bool:
        """Have the kernel run it only where nothing else wants to (its SCHED_IDLE), or not. Whether that is so: not before
        Linux 5.15, and not once it is gone."""
        if "cpu" not in self.paths:
            return False
        directory = self.shields[0] if self.shields else self.paths["cpu"]
        try:
            descriptor = os.open(directory / "cpu.idle", os.O_WRONLY | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            return os.write(descriptor, b"1" if behind else b"0") == 1
        except OSError:
            return False
        finally:
            os.close(descriptor)

    # --- members ------------------------------------------------------------------------------------------------------

    def members(self) -> set[int]:
        found: set[int] = set()
        for entrance in self._processes:
            with suppress(FileNotFoundError, OSError):  # removed: no members; ENODEV while it is being removed
                found.update(map(int, entrance.read_text("ascii").split()))
        return found

    def holds(self, pid: int) -> bool:
        """Whether the process is in every directory of this cgroup."""
        return all(str(pid) in entrance.read_text("ascii").split() for entrance in self._processes)

    def kill(self) -> None:
        """SIGKILL everything in it, once."""
        for directory in self.directories:
            try:
                (directory / "cgroup.kill").write_text("1", "ascii")
            except OSError:  # version 1, or Linux before 5.14
                for pid in self.members():
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)

    def remove(self, seconds: float = 0.0) -> bool:
        """Whether it is gone, waiting for ending members for up to ``seconds``. Blocks for as long."""
        deadline = time.monotonic() + seconds
        for directory in (*self.directories, *self.shields):
            while not _removed(directory):
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                self.kill()
                wait_gone(self.members(), left)
                _wait_released(directory, min(left, 0.05))
        return True

    # --- counters -----------------------------------------------------------------------------------------------------

    def cpu_seconds(self) -> float | None:
        if self.version == 2:
            usec = _keyed(self.paths.get("cpu"), "cpu.stat").get("usage_usec")
            return None if usec is None else usec / 1e6
        nanoseconds = _number(self.paths.get("cpuacct"), "cpuacct.usage")
        return None if nanoseconds is None else nanoseconds / 1e9

    def oom_kills(self) -> int:
        name = "memory.events" if self.version == 2 else "memory.oom_control"
        return _keyed(self.paths.get("memory"), name).get("oom_kill", 0)

    def pids_refused(self) -> int:
        return _keyed(self.paths.get("pids"), "pids.events").get("max", 0)

    def counters(self) -> Counters:
        peak = "memory.peak" if self.version == 2 else "memory.max_usage_in_bytes"
        return Counters(
            cpu_seconds=self.cpu_seconds(),
            memory_peak=_number(self.paths.get("memory"), peak),
            oom_kills=self.oom_kills(),
            pids_refused=self.pids_refused(),
        )


def _removed(directory: Path) -> bool:
    try:
        directory.rmdir()
    except FileNotFoundError:
        return True
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        return False
    return True


def _wait_released(directory: Path, seconds: float) -> None:
    """A member leaves a moment after it can be seen to have ended; the kernel has no event for that moment."""
    if directory.exists():
        time.sleep(min(seconds, 0.002))


def _number(directory: Path | None, name: str) -> int | None:
    try:
        return int((directory / name).read_text("ascii")) if directory else None
    except (OSError, ValueError):  # this kernel does not count it, or the cgroup is gone
        return None


def _keyed(directory: Path | None, name: str) -> dict[str, int]:
    try:
        lines = (directory / name).read_text("ascii").splitlines() if directory else []
    except OSError:  # as above
        return {}
    pairs = (line.split() for line in lines)
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}
