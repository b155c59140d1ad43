"""All that one cell has on the host: processes, cgroup, directory, bound CPUs. It can be struck down and cleared away.

Nothing here needs an event loop, so it also works from the watcher's thread, at interpreter exit and in ``sweep``.
"""

from __future__ import annotations

import atexit
import errno
import os
import signal
import threading
from collections.abc import Iterable
from contextlib import ExitStack, suppress

from dayfly.boundaries import forks
from dayfly.boundaries.gvisor import cpus
from dayfly.boundaries.gvisor.cgroups import CellCgroup, Counters
from dayfly.boundaries.gvisor.directory import CellDirectory
from dayfly.boundaries.processes import Child, Held, children, start_ticks, wait_gone
from dayfly.boundaries.stderr import Stderr

__all__ = ["GONE_SECONDS", "Footprint", "remove_traces"]

GONE_SECONDS = 5.0
"""How long ended processes may take to disappear; it is some 10 ms. Beyond it, what is left stays for ``sweep``."""

NO_COUNTERS = Counters(None, None, 0, 0)


class Footprint:
    """Made piece by piece while a cell starts; ``clear`` copes with any of the pieces missing."""

    def __init__(self, directory: CellDirectory) -> None:
        self.directory = directory
        self.cgroup: CellCgroup | None = None
        self.cpus: frozenset[int] = frozenset()
        self.child: Child | None = None
        self.sentry: Held | None = None
        self.stderr = Stderr()
        self._family: dict[int, int] = {}  # runsc's own children: pid and start
        self._gofer: dict[int, int] = {}  # of them, all but the sentry
        self._guests = -1  # the user namespace in which guest code runs, where no cgroup lists its processes
        self.struck = False
        self._clearing = threading.RLock()
        self._owner = os.getpid()
        self._code: int | None = None
        self._counters = NO_COUNTERS
        self._said = b""
        self._cleared = False
        _live.add(self)

    def adopt(self, sentry: int) -> bool:
        """Hold the sentry, and remember its siblings by pid and start. Whether it still lives. Raises ``OSError``."""
        assert self.child is not None
        self._family = _identities(children(self.child.pid))
        started = self._family.get(sentry)
        held = _hold(sentry, started) if started is not None else None
        if held is None:
            return False
        self.sentry = held
        self._gofer = {pid: began for pid, began in self._family.items() if pid != sentry}
        if self.cgroup is None:
            self._guests = _hold_namespace(sentry)
        return True

    def move_gofer(self, target: Iterable[int]) -> None:
        """Bind the sentry's sibling, which serves files and runs no guest code, to these CPUs. Raises ``OSError``."""
        for pid, started in self._gofer.items():
            if start_ticks(pid) == started:
                cpus.move(pid, target)

    def strike(self) -> None:
        """SIGKILL everything, now, without waiting. Idempotent; any thread; needs nothing that may be used up."""
        self.struck = True
        if self.cgroup is not None:
            self.cgroup.step_behind(False)  # also its end takes CPU
        if self.child is not None:
            self.child.kill()
        self.signal_sentry(signal.SIGKILL)

    def signal_sentry(self, number: signal.Signals) -> None:
        """Nothing happens once it has ended. Any thread."""
        if self.sentry is not None:
            self.sentry.send(number)

    def reap(self) -> tuple[int, Counters, bytes]:
        """runsc's return code, what the kernel counted, and what was written to standard error, once it has ended."""
        with self._clearing:
            if self._code is None and self.child is not None:
                self._code = self.child.reap()
                self._counters = self.cgroup.counters() if self.cgroup else NO_COUNTERS
                self._said = self.stderr.text()
            return self._code or 0, self._counters, self._said

    def clear(self) -> None:
        """Strike, wait, and remove everything. Idempotent; blocks for some 10 ms; raises ``OSError`` on a sick disk."""
        with self._clearing:
            if self._cleared or os.getpid() != self._owner:
                return
            self._cleared = True
            with ExitStack() as steps:  # last things first: whatever fails, the others are still done
                steps.callback(
                    _live.discard, self
                )  # so late: at interpreter exit, another thread's clearing is awaited
                steps.callback(remove_traces, self.directory, self.cgroup)
                steps.callback(cpus.release, self.cpus)
                steps.callback(self.stderr.close)
                if self.sentry is not None:
                    steps.callback(self.sentry.close)
                self._end_processes()

    def _end_processes(self) -> None:
        try:
            if self.child is not None and self.sentry is None and self._code is None:
                self._family = _identities(children(self.child.pid))
        finally:
            self.strike()
        if self.child is not None and self.child.wait(GONE_SECONDS):
            self.reap()
        self._wait_for_stragglers()

    def _wait_for_stragglers(self) -> None:
        """What runs guest code ends a moment after the sentry."""
        if self.cgroup is not None:
            wait_gone(self.cgroup.members(), GONE_SECONDS)
            return
        wait_gone([pid for pid, started in self._family.items() if start_ticks(pid) == started], GONE_SECONDS)
        if self._guests >= 0:
            wait_gone(_living_in(os.fstat(self._guests).st_ino), GONE_SECONDS)
            forks.close(self._guests)


def remove_traces(directory: CellDirectory, cgroup: CellCgroup | None) -> None:
    """Remove a cell's cgroup, then its directory. If the cgroup cannot be, the directory stays for ``sweep``, with the
    record of it, and ``OSError`` is raised. The lease is given back in any case."""
    try:
        if cgroup is not None and not cgroup.remove(GONE_SECONDS):
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), str(cgroup.directories[0]))
        directory.remove()
    finally:
        directory.leave()


def _hold(pid: int, started: int) -> Held | None:
    try:
        held = Held(pid)
    except ProcessLookupError:
        return None
    if start_ticks(pid) == started:
        return held
    held.close()
    return None


def _identities(pids: list[int]) -> dict[int, int]:
    found = ((pid, start_ticks(pid)) for pid in pids)
    return {pid: started for pid, started in found if started is not None}


def _hold_namespace(pid: int) -> int:
    """A descriptor of the process's user namespace: while it is open, no other one can get the same inode number."""
    try:
        return forks.keep_from_children(os.open(f"/proc/{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC))
    except OSError:  # it has just ended
        return -1


def _living_in(namespace: int) -> set[int]:
    """Processes of the host in that user namespace. Those that run guest code have no name to find them by."""
    found: set[int] = set()
    for name in os.listdir("/proc"):  # noqa: PTH208 - plain strings are enough
        if name.isdigit():
            with suppress(OSError):  # gone, a zombie, or another user's
                if os.stat(f"/proc/{name}/ns/user").st_ino == namespace:  # noqa: PTH116 - for every process
                    found.add(int(name))
    return found


_live: set[Footprint] = set()


def _clear_all() -> None:
    """At interpreter exit: a cell that nobody closed. The kernel would end it anyway, but leave its directory."""
    for footprint in list(_live):
        with suppress(OSError):  # nothing can be told any more; ``sweep`` will try again
            footprint.clear()


atexit.register(_clear_all)
os.register_at_fork(after_in_child=_live.clear)
