"""Memory that runs out shall be a MemoryError, or one process, and not the end of the sandbox.

gVisor has no limit that does this: RLIMIT_DATA counts only brk there (2024 and current), and a fixed RLIMIT_AS breaks
node, thread stacks and large libraries. So while something runs the guard looks at what is left of the sandbox's memory,
many times a second when little is:

- A forked Python kernel gets a soft RLIMIT_AS of what it has mapped plus what is left, renewed at each look. What cannot
  fit is refused to it at once, and Python says MemoryError. While much is left it may map nearly twice that, because not
  all that is mapped is used: a hundred threads map more than a GiB. What the kernel starts does not inherit the limit
  (unlimited.py).
- When nothing is left all the same, the largest process of the user is killed, as a kernel would, and its tag remembered.

The host's own limit on the cell stays behind all this. The soft limits need CAP_SYS_RESOURCE; without it the second part
still holds.
"""

from __future__ import annotations

import time

from dayfly.agent import census
from dayfly.agent.census import Process
from dayfly.agent.killing import send_signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal

    from dayfly.agent.child import Child
    from dayfly.agent.core import Agent
    from dayfly.agent.loop import Timer
else:
    import _signal as signal  # see loop.py

GROWTH = 1.5e9
"""Bytes a second that code can take inside gVisor, measured at 1.3e9: the next look comes when half is left at most."""

MIN_PAUSE = 0.01
MAX_PAUSE = 0.1
"""Seconds between two looks while something runs. A look takes 0.3-1 ms."""

REST = 1.0
"""Seconds after the last run in which limits are not renewed again, so that many short runs cost nothing."""

FREEING = 0.15
"""Seconds that freed memory may take to show: a last look after a run that had used much gives it back to the kernel."""

NEAR_THE_END = 128 * 1024 * 1024
"""Bytes left below which a kernel may map what is left and no more: then even a guard that is starved of CPU is in time."""

GRANT = 4 * 1024 * 1024
"""Bytes beyond the end that a kernel may have for the run after one that took all. Some such runs more, and it is killed."""

OVERDRAFT = 16 * 1024 * 1024
"""Bytes beyond the limit before anything is killed, so that a kernel that was refused memory can say so and go on. The
host keeps 64 MiB more than ``limits["data"]`` for this and for the sandbox's own kernel."""

WORTH_KILLING = 16 * 1024 * 1024
"""Bytes of a process below which killing it would not help."""

CAP_SYS_RESOURCE = 24

AFTER_KILL = 3.0
"""Seconds that a killed process may take to die and its memory to come back, on a busy machine: until then a further one
is only chosen if more memory yet is taken."""


class Guard:
    """Looks while the agent's ``running`` is not 0, and once after."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._loop = agent.loop
        self._supervisor = agent.supervisor
        self._timer: Timer | None = None
        self._looked = 0.0
        self._tight = False  # less than half was left at the last look
        self._last = False  # the next look is the last one after a run
        self._used_at_kill = 0
        self._victim = 0  # its pid
        self._killed = -AFTER_KILL  # when
        self._may_limit = _may_limit_others()
        self._floor: dict[int, int] = {}  # what they may have mapped in any case
        self._untouched: dict[int, int] = {}  # bytes that they had mapped and not used, when much was left

    @property
    def awake(self) -> bool:
        """Whether it looks by itself, so that to ``wake`` it does nothing."""
        return self._timer is not None

    def wake(self) -> None:
        """Something runs, or is about to."""
        if self._timer is None:
            self._due()

    def _due(self) -> None:
        self._timer = None
        last, self._last = self._last, False
        recent = time.monotonic() - self._looked < REST
        if recent and not (self._agent.running or self._tight or last):
            return
        pause = self._look()
        if self._agent.running:
            self._timer = self._loop.call_later(pause, self._due)
        elif self._tight and not last:
            self._last = True
            self._timer = self._loop.call_later(FREEING, self._due)

    def _look(self) -> float:
        """Do what is to be done; returns when to look again, in seconds."""
        self._looked = time.monotonic()
        used = used_memory()
        limit = self._supervisor.limits["data"]
        left = limit - used
        self._tight = left < limit // 2
        if left < -OVERDRAFT:
            self._kill_for(used)
            return MIN_PAUSE
        if left >= 0:
            self._killed = -AFTER_KILL
        if self._may_limit:
            for child in self._kernels():
                self._limit_to(child, left)
        return min(MAX_PAUSE, max(MIN_PAUSE, left / GROWTH / 2))

    # --- the kernels' limits --------------------------------------------------------------------------------------

    def _limit_to(self, child: Child, left: int) -> None:
        import resource

        mapped, used = _mapped_and_used(child.pid)
        limit = self._limit(child.pid, left, mapped, mapped - used)
        try:
            soft, hard = resource.prlimit(child.pid, resource.RLIMIT_AS)
            if soft == resource.RLIM_INFINITY:
                return  # it is starting something at this moment, or is being started itself
            resource.prlimit(child.pid, resource.RLIMIT_AS, (limit, hard))
        except ProcessLookupError:
            self._untouched.pop(child.pid, None)
            self._floor.pop(child.pid, None)

    def _limit(self, pid: int, left: int, mapped: int, untouched: int) -> int:
        """Bytes that a kernel may have mapped when ``left`` are left in all. ``untouched``: mapped and not used.

        Near the end this makes a fixed ceiling: what is mapped more is left less. What was mapped since much was left, and
        not used yet, is sure to be used (the slack of a growing list), so it has taken its part already.
        """
        if left >= NEAR_THE_END:
            self._floor.pop(pid, None)
            self._untouched[pid] = untouched
            return mapped + 2 * left - NEAR_THE_END
        slack = untouched - self._untouched.get(pid, untouched)
        return max(mapped + max(0, left - max(0, slack)), self._floor.get(pid, 0))

    def ended(self) -> None:
        """A run or command has ended. If it took all, the next run gets a little all the same: it may be the one that frees
        memory, or that of another kernel."""
        if self._tight and self._may_limit:
            for child in self._kernels():
                self._floor[child.pid] = _mapped_and_used(child.pid)[0] + GRANT
            self._look()

    def _kernels(self) -> list[Child]:
        return [child for child in self._supervisor.children.values() if child.forked]

    # --- the last resort ------------------------------------------------------------------------------------------

    def _kill_for(self, used: int) -> None:
        if self._looked < self._killed + AFTER_KILL:
            victim = census.look(self._victim)
            if victim is not None and victim.alive:  # it may still take more, until it notices
                self._used_at_kill = used
            if used < self._used_at_kill + WORTH_KILLING:
                return
        self._killed = self._looked
        self._used_at_kill = used
        self._kill_largest()

    def _kill_largest(self) -> None:
        user = self._supervisor.user
        mine = [one for one in census.everyone() if user is not None and one.uid == user.uid and one.alive]
        largest = max(mine, key=_size, default=None)
        if largest is not None and largest.rss >= WORTH_KILLING and send_signal(largest.pid, signal.SIGKILL):
            kills = self._supervisor.memory_kills
            kills[largest.tag] = kills.get(largest.tag, 0) + 1
            self._victim = largest.pid


def _may_limit_others() -> bool:
    """Whether this process has CAP_SYS_RESOURCE. (A try would mislead: a child that is still root may be limited.)"""
    capabilities = census.line(census.read("/proc/self/status"), b"CapEff")
    return bool(capabilities and int(capabilities[0], 16) >> CAP_SYS_RESOURCE & 1)


def _size(process: Process) -> int:
    return process.rss


def used_memory() -> int:
    """Bytes used inside, tmpfs included. What the sandbox's own kernel needs is not in it."""
    found = {}
    for line in census.read("/proc/meminfo").split(b"\n")[:2]:
        name, _, rest = line.partition(b":")
        found[name] = int(rest.split()[0]) * 1024 if rest.split() else 0
    return found.get(b"MemTotal", 0) - found.get(b"MemFree", 0)


def _mapped_and_used(pid: int) -> tuple[int, int]:
    """Bytes of address space, and of it in memory; zeros if there is no such process."""
    fields = census.read(f"/proc/{pid}/statm").split()
    return (int(fields[0]) * census.PAGE, int(fields[1]) * census.PAGE) if len(fields) > 1 else (0, 0)
