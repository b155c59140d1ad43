"""What is left of cells on this host, counted without asking the boundary."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path

__all__ = ["Process", "cgroups_named", "descendants", "gone", "living", "mounts_below"]

Process = tuple[int, int]
"""A process by pid and start in clock ticks since boot, so that a later one with the same pid is another."""


def descendants(pid: int | None = None) -> frozenset[Process]:
    """All processes below ``pid`` (this one), whichever thread started them."""
    found: set[Process] = set()
    waiting = [os.getpid() if pid is None else pid]
    while waiting:
        for child in _children(waiting.pop()):
            started = _started(child)
            if started is not None:
                found.add((child, started))
                waiting.append(child)
    return frozenset(found)


def living(processes: Iterable[Process]) -> frozenset[Process]:
    """Those that still run; one that has ended and waits to be reaped by init does not."""
    return frozenset(one for one in processes if _started(one[0]) == one[1])


async def gone(processes: Iterable[Process], seconds: float) -> frozenset[Process]:
    """Wait until all have ended; those that have not within ``seconds``."""
    left = living(processes)
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            for pid, _ in left:
                await _ended(pid)
    return living(left)


async def _ended(pid: int) -> None:
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:  # there is none, or the number is a thread's by now
        return
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(pidfd, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(pidfd)
        os.close(pidfd)


def mounts_below(directory: Path) -> list[str]:
    """Mount points of this process's mount namespace under ``directory``."""
    lines = Path("/proc/self/mountinfo").read_text("utf-8", "surrogateescape").splitlines()
    points = [line.split()[4] for line in lines]
    return [point for point in points if Path(point).is_relative_to(directory)]


def cgroups_named(names: Collection[str]) -> list[str]:
    """Directories of any cgroup hierarchy that have one of these names."""
    lines = (line.partition(" - ") for line in Path("/proc/self/mountinfo").read_text("utf-8").splitlines())
    roots = [left.split()[4] for left, _, right in lines if right.split()[0] in ("cgroup", "cgroup2")]
    return [path for root in roots for path, _, _ in os.walk(root) if Path(path).name in names]


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with suppress(FileNotFoundError, ProcessLookupError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with suppress(FileNotFoundError, ProcessLookupError):
                found += map(int, (thread / "children").read_text("ascii").split())
    return found


def _started(pid: int) -> int | None:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" else int(fields[19])
