"""Ending everything that belongs to a tag, however fast it forks."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable

    from dayfly.agent.supervisor import Supervisor
else:
    import _signal as signal  # see loop.py

ROUNDS_BEFORE_STOPPING = 5
"""Scans after which what still forks is stopped before it is killed, however little it is. Not at once: in gVisor, where
a stopped process's group loses a member, the whole group gets SIGHUP, also those who are to stay."""

KILL_ROUNDS = 200
"""Scans after which a kill gives up and says how many are left; 20 ms apart, so 4 s."""

NOT_PROCESSES = 20
"""Entries of /proc that are no processes, roughly."""

MANY = 32
"""Processes above which everything of the user's is stopped at once, by one system call, before anything is read about
them: 200 processes that fork leave the agent no time to find them one by one (20 s and more, measured, against 1 s)."""

FIRST_PAUSE = 0.001
MAX_PAUSE = 0.02
"""Seconds between two scans: the first is soon, since one process is dead at once."""


def send_signal(pid: int, number: int) -> bool:
    """Whether it was delivered; that nobody is there any more is no error."""
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def crowded() -> bool:
    """Whether there are so many processes that reading about them is to be done while they are stopped."""
    return os.getpid() == 1 and len(os.listdir("/proc")) > MANY + NOT_PROCESSES


def freeze() -> None:
    """Stop everything but the agent. Only for pid 1: elsewhere -1 means everybody's processes."""
    if os.getpid() == 1:
        send_signal(-1, signal.SIGSTOP)


def thaw() -> None:
    """Let go on who is there (also who had been stopped before: that cannot be told any more)."""
    if os.getpid() == 1:
        send_signal(-1, signal.SIGCONT)


class Killing:
    """One kill in progress."""

    def __init__(
        self, supervisor: Supervisor, tag: int, on_dead: Callable[[int, int], None], spare: int, since: int
    ) -> None:
        self._supervisor = supervisor
        self._tag = tag
        self._on_dead = on_dead
        self._spare = spare
        self._since = since
        self._seen: set[int] = set()
        self._rounds = 0
        self._frozen = False

    def round(self) -> None:
        self._rounds += 1
        self._freeze()
        self._supervisor.reap()
        found = self._members()
        if not found or self._rounds > KILL_ROUNDS:
            self._thaw()
            self._on_dead(len(self._seen), len(found))
            return
        for pid in found:
            send_signal(pid, signal.SIGKILL)
        self._seen |= found
        self._supervisor.loop.call_later(min(FIRST_PAUSE * 2 ** min(self._rounds, 8), MAX_PAUSE), self.round)

    def _freeze(self) -> None:
        if self._frozen or self._rounds > ROUNDS_BEFORE_STOPPING or crowded():
            self._frozen = True
            freeze()

    def _thaw(self) -> None:
        if self._frozen:
            thaw()

    def _members(self) -> set[int]:
        found = self._supervisor.members(self._tag)
        return {one.pid for one in found if not self._since or one.started >= self._since} - {self._spare}
