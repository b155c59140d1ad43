"""What a cell holds and has used, as the host sees it: by descriptor of the sentry (gVisor's kernel process).

Memory is the sentry's file for guest memory plus its own heap (where a flood of empty files goes). Resident sizes of
its processes would count pages twice or not at all.
"""

from __future__ import annotations

import errno
import os
import threading
from contextlib import suppress
from dataclasses import dataclass

from dayfly.boundaries import forks
from dayfly.boundaries.gvisor.cgroups import PAGE, CellCgroup
from dayfly.boundaries.processes import children

__all__ = ["Meter", "Sample", "SentryGone"]

_TICKS = os.sysconf("SC_CLK_TCK")
_MEMORY = "/memfd:runsc-memory"
_DISK = "/runsc-filestore-"


class SentryGone(Exception):
    """The sentry has ended; the cell is about to."""


@dataclass(frozen=True)
class Sample:
    """Bytes now, and CPU seconds so far of everything that belongs to the cell.

    ``oom_kills`` and ``pids_refused`` count what the kernel did at the cgroup's caps.
    """

    memory: int
    disk: int
    cpu_seconds: float
    oom_kills: int = 0
    pids_refused: int = 0


class Meter:
    """Reads one sentry. Its directory in /proc is kept open, so a later process with the same pid is never read."""

    def __init__(self, sentry: int, cgroup: CellCgroup | None) -> None:
        self.sentry = sentry
        self._cgroup = cgroup
        try:
            self._proc = forks.keep_from_children(
                os.open(f"/proc/{sentry}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            )
        except FileNotFoundError as error:
            raise SentryGone from error
        self._files: dict[str, tuple[str, int]] = {}  # path of a descriptor -> kind, and the file's inode number
        self._samples = 0
        self._ended_cpu = 0.0
        self._living_cpu: dict[int, float] = {}
        self._closed = False
        self._sampling = threading.Lock()  # the watcher's thread, and whoever asks for the usage

    def close(self) -> None:
        with self._sampling:
            if not self._closed:
                self._closed = True
                forks.close(self._proc)

    def sample(self) -> Sample:
        """Takes some 0.1 ms with a cgroup, 0.4 ms without. Raises ``SentryGone``, or ``OSError`` if it may not read."""
        with self._sampling:
            if self._closed:
                raise SentryGone
            try:
                return self._read()
            except (FileNotFoundError, ProcessLookupError) as error:
                raise SentryGone from error

    def _read(self) -> Sample:
        held = self._held()
        return Sample(
            memory=held[_MEMORY] + self._heap(),
            disk=held[_DISK],
            cpu_seconds=self._cpu_seconds(),
            oom_kills=self._cgroup.oom_kills() if self._cgroup else 0,
            pids_refused=self._cgroup.pids_refused() if self._cgroup else 0,
        )

    def _open(self, name: str) -> bytes:
        descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._proc)
        try:
            return os.read(descriptor, 4096)
        finally:
            os.close(descriptor)

    def _held(self) -> dict[str, int]:
        """Bytes in the sentry's files, by kind. They are looked for anew while a kind is missing, when a file is not what it
        was, and now and then."""
        self._samples += 1
        rarely = self._samples & (self._samples - 1) == 0  # the first, second, fourth, eighth, ... time
        known = {kind for kind, _ in self._files.values()}
        held = self._measure() if known == {_MEMORY, _DISK} and not rarely else None
        if held is None:
            self._files = self._find_files()
            held = self._measure()
        if held is None:
            raise OSError(errno.EAGAIN, "the files of the sentry change as they are looked at")
        return held

    def _measure(self) -> dict[str, int] | None:
        """``None`` if a descriptor is closed, or another file's by now."""
        held = {_MEMORY: 0, _DISK: 0}
        for path, (kind, inode) in self._files.items():
            try:
                found = os.stat(path, dir_fd=self._proc)
            except FileNotFoundError:  # or it has ended: what is read next says so
                return None
            if found.st_ino != inode:
                return None
            held[kind] += found.st_blocks * 512
        return held

    def _find_files(self) -> dict[str, tuple[str, int]]:
        """The sentry opens its files while it starts, and **a restore closes the first one for memory and opens another**."""
        files: dict[str, tuple[str, int]] = {}
        inodes: set[int] = set()
        descriptor = os.open("fd", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self._proc)
        try:
            for name in os.listdir(descriptor):  # noqa: PTH208 - by descriptor
                with suppress(FileNotFoundError):  # closed meanwhile
                    target = os.readlink(name, dir_fd=descriptor)
                    kind = next((kind for kind in (_MEMORY, _DISK) if kind in target), None)
                    inode = os.stat(name, dir_fd=descriptor).st_ino if kind else 0
                    if kind is not None and inode not in inodes:
                        inodes.add(inode)
                        files[f"fd/{name}"] = (kind, inode)
        finally:
            os.close(descriptor)
        return files

    def _heap(self) -> int:
        resident, shared = self._open("statm").split()[1:3]
        return (int(resident) - int(shared)) * PAGE

    def _cpu_seconds(self) -> float:
        counted = self._cgroup.cpu_seconds() if self._cgroup else None
        return self._processes_cpu() if counted is None else counted

    def _processes_cpu(self) -> float:
        """The sentry and the processes that run guest code for it; of those that have ended, what was last seen."""
        living = {pid: _cpu_of(f"/proc/{pid}/stat") for pid in _descendants(self.sentry)}
        self._ended_cpu += sum(cpu for pid, cpu in self._living_cpu.items() if living.get(pid, -1.0) < cpu)
        self._living_cpu = living
        return _cpu_of_stat(self._open("stat")) + self._ended_cpu + sum(living.values())


def _descendants(pid: int) -> list[int]:
    found = children(pid)
    for child in found:
        found.extend(children(child))
    return found


def _cpu_of(path: str) -> float:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - called for every process of the cell at every sample
            return _cpu_of_stat(file.read(4096))
    except (FileNotFoundError, ProcessLookupError):  # ended between listing and reading
        return 0.0


def _cpu_of_stat(stat: bytes) -> float:
    fields = stat.rpartition(b")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS
