"""Who is alive inside, and to which tag each process belongs: read from /proc, whatever the processes did to hide.

Every child that runs user code carries a supplementary gid of its own, its *tag*. A process without privileges cannot
take one on or off, and a daemon that forked twice and made its own session still has it. One way out is known: in the
2024 gVisor, ``unshare(CLONE_NEWUSER)`` and ``setgroups`` drop it. So a process of the user without any tag is a
*stranger*, and belongs to whatever is being killed.

Without the right to change users (the fake boundary) descent stands in for tags.
"""

from __future__ import annotations

import os
import time

FIRST_TAG = 100_000
"""Above every gid of an image."""

MAX_STATUS = 4096
"""Bytes read of one status file; the kernel's lines are some 1,500, and a name has 16."""

TICKS = os.sysconf("SC_CLK_TCK")
_DEAD = (b"Z", b"X")


class Process:
    """One process as /proc shows it now.

    ``cpu`` is seconds, with the children that it has waited for. ``started`` is in ticks (1/100 s) of ``now_in_ticks``.
    """

    __slots__ = ("alive", "cpu", "parent", "pid", "rss", "started", "tag", "uid")

    def __init__(
        self, pid: int, parent: int, alive: bool, cpu: float, rss: int, uid: int, tag: int, started: int
    ) -> None:
        self.pid = pid
        self.parent = parent
        self.alive = alive
        self.cpu = cpu
        self.rss = rss
        self.uid = uid
        self.tag = tag
        self.started = started

    def __repr__(self) -> str:
        return f"<Process {self.pid} parent={self.parent} tag={self.tag} uid={self.uid}>"


def now_in_ticks() -> int:
    """A process that starts from now on has ``started`` at or above this."""
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * TICKS)


def look(pid: int, tagged: bool) -> Process | None:
    """The process, or ``None`` if there is none (any more)."""
    stat = read(f"/proc/{pid}/stat")
    fields = stat[stat.rfind(b")") + 1 :].split()  # the name may hold anything, also ")"
    if len(fields) < 22:
        return None
    cpu = sum(map(int, fields[11:15])) / TICKS
    uid, tag = _identity(read(f"/proc/{pid}/status")) if tagged else (-1, 0)
    return Process(pid, int(fields[1]), fields[0] not in _DEAD, cpu, int(fields[21]) * 4096, uid, tag, int(fields[19]))


def _identity(status: bytes) -> tuple[int, int]:
    """Real uid and tag (0: none). The last lines count: a process may put lines of its own into its name."""
    groups = [int(gid) for gid in line(status, b"Groups") if int(gid) >= FIRST_TAG]
    uids = line(status, b"Uid")
    return (int(uids[0]) if uids else -1), (groups[0] if groups else 0)


def line(status: bytes, name: bytes) -> list[bytes]:
    start = status.rfind(b"\n" + name + b":")
    if start < 0:
        return []
    return status[start + len(name) + 2 :].split(b"\n", 1)[0].split()


def read(path: str) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:  # gone meanwhile
        return b""
    try:
        return os.read(fd, MAX_STATUS)
    except OSError:
        return b""
    finally:
        os.close(fd)


def everyone(tagged: bool) -> list[Process]:
    """All processes but this one, zombies included."""
    me = os.getpid()
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return [process for process in (look(pid, tagged) for pid in pids if pid != me) if process is not None]


def tagged_members(tag: int, uid: int) -> list[Process]:
    """Living processes with this tag, and strangers of ``uid``."""
    return [one for one in everyone(True) if one.alive and (one.tag == tag or (one.uid == uid and not one.tag))]


def descendants(roots: set[int], known: set[int]) -> list[Process]:
    """Living processes below ``roots``, and below children of ours that nobody knows (adopted orphans)."""
    me = os.getpid()
    every = everyone(False)
    wanted = set(roots)
    wanted.update(one.pid for one in every if one.parent == me and one.pid not in known)
    grown = True
    while grown:
        more = {one.pid for one in every if one.parent in wanted} - wanted
        wanted |= more
        grown = bool(more)
    return [one for one in every if one.pid in wanted and one.alive]
