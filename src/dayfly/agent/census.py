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

from dayfly.agent.killing import freeze, thaw

FIRST_TAG = 100_000
"""Above every gid of an image."""

MAX_STATUS = 4096
"""Bytes read of one status file; the kernel's lines are some 1,500, and a name has 16."""

FEW = 16
"""Processes that are looked at while they run, however long it takes."""

PATIENCE = 0.1
"""Seconds for a look at more; it takes 10 ms for 200, unless they fight for the CPU."""

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
_DEAD = (b"Z", b"X")


class Process:
    """One process, as it was when /proc was read. What stands in its stat file is read when first asked for, since each
    file costs some 50 us inside gVisor and there may be hundreds of processes.
    """

    __slots__ = ("_stat", "alive", "pid", "tag", "uid")

    def __init__(self, pid: int, uid: int, tag: int, alive: bool, stat: list[bytes] | None = None) -> None:
        self.pid = pid
        self.uid = uid
        self.tag = tag
        self.alive = alive
        self._stat = stat

    def __repr__(self) -> str:
        return f"<Process {self.pid} tag={self.tag} uid={self.uid}>"

    @property
    def parent(self) -> int:
        return self._number(1)

    @property
    def cpu(self) -> float:
        """Seconds, with the children that it has waited for."""
        return sum(self._number(index) for index in range(11, 15)) / TICKS

    @property
    def rss(self) -> int:
        """Bytes."""
        return self._number(21) * PAGE

    @property
    def started(self) -> int:
        """In ticks (1/100 s) of ``in_ticks``."""
        return self._number(19)

    def load(self) -> None:
        """Read now what would be read when it is asked for."""
        if self._stat is None:
            self._stat = stat_fields(self.pid)

    def _number(self, index: int) -> int:
        self.load()
        return int(self._stat[index]) if self._stat else 0  # 0: it is gone


def stat_fields(pid: int) -> list[bytes]:
    """From the state on; none if there is no such process. The name before may hold anything, also ")"."""
    stat = read(f"/proc/{pid}/stat")
    fields = stat[stat.rfind(b")") + 1 :].split()
    return fields if len(fields) >= 22 else []


def in_ticks(moment: float) -> int:
    """A process that starts after ``moment``, a time of ``time.monotonic``, has ``started`` at or above this."""
    return int((time.clock_gettime(time.CLOCK_BOOTTIME) - time.monotonic() + moment) * TICKS)


def look(pid: int) -> Process | None:
    """The process with its uid and tag (0: none), or ``None`` if there is none (any more).

    The last lines count: a process may put lines of its own into its name.
    """
    status = read(f"/proc/{pid}/status")
    uids, state = line(status, b"Uid"), line(status, b"State")
    if not uids or not state:
        return None
    groups = [int(gid) for gid in line(status, b"Groups") if int(gid) >= FIRST_TAG]
    return Process(pid, int(uids[0]), groups[0] if groups else 0, state[0] not in _DEAD)


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


def everyone() -> list[Process]:
    """All processes but this one, zombies included. If there are many, and looking takes long, they stand still for it."""
    pids = _others()
    deadline = time.monotonic() + PATIENCE
    found: list[Process | None] = []
    for pid in pids:
        if len(pids) > FEW and time.monotonic() > deadline:
            return _standing_still()
        found.append(look(pid))
    return [process for process in found if process is not None]


def _standing_still() -> list[Process]:
    """In a fork bomb a system call waits behind 200 others for its turn: 20 ms each, and there are three to a process."""
    freeze()
    try:
        found = [process for process in map(look, _others()) if process is not None]
        for process in found:
            process.load()
        return found
    finally:
        thaw()


def _others() -> list[int]:
    me = os.getpid()
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != me]


def tagged_members(tag: int, uid: int) -> list[Process]:
    """Living processes with this tag, and strangers of ``uid``."""
    return [one for one in everyone() if one.alive and (one.tag == tag or (one.uid == uid and not one.tag))]


def descendants(roots: set[int], known: set[int]) -> list[Process]:
    """Living processes below ``roots``, and below children of ours that nobody knows (adopted orphans)."""
    me = os.getpid()
    stats = ((pid, stat_fields(pid)) for pid in _others())
    every = [Process(pid, -1, 0, stat[0] not in _DEAD, stat) for pid, stat in stats if stat]
    wanted = set(roots)
    wanted.update(one.pid for one in every if one.parent == me and one.pid not in known)
    grown = True
    while grown:
        more = {one.pid for one in every if one.parent in wanted} - wanted
        wanted |= more
        grown = bool(more)
    return [one for one in every if one.pid in wanted and one.alive]
