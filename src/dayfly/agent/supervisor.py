"""Children: to whom they belong, what they used, how they die. Pid 1 inside, so it reaps everything."""

from __future__ import annotations

import os
import time

from dayfly.agent import census
from dayfly.agent.census import FIRST_TAG, Process
from dayfly.agent.child import (
    DEFAULT_PATH,
    Child,
    Program,
    Start,
    StartFailed,
    User,
    Verdict,
    exit_fields,
)
from dayfly.agent.killing import Killing, send_signal
from dayfly.agent.lent import NOTHING

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Mapping, Sequence
    from resource import struct_rusage as Usage  # noqa: N812

    from dayfly.agent.loop import Loop
else:
    import _signal as signal  # see loop.py

__all__ = ["DEFAULT_PATH", "Child", "StartFailed", "Supervisor", "User", "exit_fields", "send_signal"]

EX_SOFTWARE = 70  # the exit code of a child of ours that failed before it was anything


MAX_REAPED = 4
"""Dead children that are taken in at once with a look at whose they were. If there are more it is a storm."""

MAX_REAPED_QUICKLY = 64
STORM_PAUSE = 0.05
CALM_ROUNDS = 10
"""In a storm (a fork bomb's processes die by the thousand, and a system call waits behind 200 others for its turn) the
dead are only counted, so many at a time and no sooner than after a pause; else the agent has no time to answer."""


class Supervisor:
    """Starts, counts and kills children. ``limits`` are rlimits: data, processes, open_files, file_size."""

    def __init__(
        self, loop: Loop, user: User | None, limits: Mapping[str, int], environment: Mapping[str, str]
    ) -> None:
        self.loop = loop
        self.user = user
        self.limits = dict(limits)
        self.own_environment = dict(environment)  # what the user has set
        self.lent = NOTHING
        self.children: dict[int, Child] = {}
        self._next_tag = FIRST_TAG
        self._spent: dict[int, float] = {}  # CPU seconds of the dead, by tag
        self.spent = 0.0  # of all of them
        self._storm = 0  # calm rounds that are still to come
        self._cpu: dict[int, tuple[float, float, float]] = {}  # by tag: counted, when, and what it really can have been
        self._born = time.monotonic()
        self._cores = len(os.sched_getaffinity(0))
        self.memory_kills: dict[int, int] = {}  # processes that memory.py killed, by tag
        self.on_kernel: Callable[[], None] = _nothing  # after each ``fork``
        self._null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        loop.on_child = self.reap
        if user is None and os.getpid() != 1:
            _adopt_orphans()

    @property
    def environment(self) -> dict[str, str]:
        """Of everything that is started from now on."""
        return {**self.lent.variables, **self.own_environment}

    @property
    def null(self) -> int:
        """/dev/null, for a child's stdin."""
        return self._null

    @property
    def home(self) -> str:
        return self.user.home if self.user else os.environ.get("HOME", "/")

    def new_tag(self) -> int:
        """A tag that was never used before."""
        self._next_tag += 1
        self._spent[self._next_tag] = 0.0
        self._cpu[self._next_tag] = (0.0, time.monotonic(), 0.0)
        return self._next_tag

    def drop_tag(self, tag: int) -> None:
        """Nothing with this tag is alive or of interest any more."""
        self._spent.pop(tag, None)
        self._cpu.pop(tag, None)
        self.memory_kills.pop(tag, None)

    # --- starting -------------------------------------------------------------------------------------------------

    def start(
        self,
        argv: Sequence[str],
        *,
        tag: int,
        stdio: tuple[int, int, int],
        env: Mapping[str, str],
        cwd: str,
        on_started: Callable[[StartFailed | None], None],
        on_exit: Callable[[int], None],
        terminal: bool = False,
        keep: Sequence[int] = (),
    ) -> Child:
        """Fork and exec. ``on_started`` tells whether exec happened; it comes before ``on_exit``.

        ``terminal``: stdio[0] is a terminal and becomes the controlling one. ``keep``: descriptors that stay open, with
        their numbers. ``env`` is all of the environment. Raises ``StartFailed`` if there can be no child at all.
        """
        read_end, write_end = os.pipe2(os.O_CLOEXEC)
        try:
            program = Program(argv, env, cwd, keep, write_end)
            start = Start(self.user, tag, stdio, (*keep, write_end), self._rlimits(), terminal)
            child = self._fork(program.execute, start, on_exit, forked=False)
        except BaseException:
            os.close(read_end)
            raise
        finally:
            os.close(write_end)
        Verdict(self.loop, child, read_end, argv[0], on_started)
        return child

    def fork(
        self,
        function: Callable[[], None],
        *,
        tag: int,
        stdio: tuple[int, int, int],
        keep: Sequence[int] = (),
        on_exit: Callable[[int], None],
    ) -> Child:
        """Fork; the child becomes the user, keeps stdio and ``keep`` only, and calls ``function``. Its return is exit 0.

        Raises ``StartFailed``.
        """

        def live() -> None:
            if self.user is not None:
                from dayfly.agent.unlimited import start_unlimited

                start_unlimited()
            function()

        start = Start(self.user, tag, stdio, keep, self._rlimits(), terminal=False)
        child = self._fork(live, start, on_exit, forked=True)
        self.on_kernel()
        return child

    def fork_trusted(
        self, function: Callable[[], None], *, keep: Sequence[int], on_exit: Callable[[int], None]
    ) -> Child:
        """Fork for the agent's own code: the user's rights on files, and out of reach of the user's code (worker.py)."""
        start = Start(self.user, 0, (self._null, self._null, self._null), keep, [], terminal=False)
        return self._fork(function, start, on_exit, forked=False)

    def _fork(
        self, function: Callable[[], None], start: Start, on_exit: Callable[[int], None], *, forked: bool
    ) -> Child:
        try:
            pid = os.fork()
        except OSError as error:
            raise StartFailed(error.errno or 11, "fork") from None
        if pid == 0:
            self._live(function, start)
        child = self.children[pid] = Child(pid, start.tag, on_exit, forked)
        return child

    def _live(self, function: Callable[[], None], start: Start) -> None:
        """All of the child's life. Does not return."""
        code = EX_SOFTWARE
        try:
            self.loop.abandon()
            start.become()
            function()
            code = 0
        except SystemExit as request:
            code = request.code if isinstance(request.code, int) else 1
        except BaseException as error:
            os.write(2, f"dayfly: {type(error).__name__}: {error!s:.500}\n".encode("ascii", "backslashreplace"))
        finally:
            os._exit(code & 0xFF)

    def _rlimits(self) -> list[tuple[int, int]]:
        import resource  # 1-12 ms inside gVisor: paid by the first child, not by the handshake

        table = {
            "data": resource.RLIMIT_DATA,
            "open_files": resource.RLIMIT_NOFILE,
            "file_size": resource.RLIMIT_FSIZE,
        }
        if self.user is not None:  # else it would count all processes of the person who runs the fake boundary
            table["processes"] = resource.RLIMIT_NPROC
        chosen = [(table[name], value) for name, value in self.limits.items() if name in table]
        return [*chosen, (resource.RLIMIT_CORE, 0)]

    # --- death ----------------------------------------------------------------------------------------------------

    def reap(self) -> None:
        """Take in the dead children. Known ones are told to their owner; the CPU of orphans goes to their tag."""
        if self._storm:
            self._reap_quickly()
            return
        for _ in range(MAX_REAPED):
            pid = _next_dead()
            if not pid:
                return
            dead = None if pid in self.children else census.look(pid)
            spent = dead.cpu if dead is not None else 0.0
            self._bury(*os.wait4(pid, 0), dead.tag if dead is not None else 0, spent)
        if _next_dead():
            self._begin_storm()

    def _begin_storm(self) -> None:
        self._storm = CALM_ROUNDS
        self.loop.hear_children(False)
        self.loop.call_later(STORM_PAUSE, self._weather_storm)

    def _weather_storm(self) -> None:
        """A round of counting; the storm is over after some in which few had died."""
        self._storm = self._storm - 1 if self._reap_quickly() <= MAX_REAPED else CALM_ROUNDS
        if self._storm:
            self.loop.call_later(STORM_PAUSE, self._weather_storm)
        else:
            self.loop.hear_children(True)
            self.reap()  # who died just before it was heard again

    def _reap_quickly(self) -> int:
        """One system call for each of the dead, who can be thousands a second: nobody asks to whom orphans belonged."""
        for count in range(MAX_REAPED_QUICKLY):
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return count
            if not pid:
                return count
            self._bury(pid, status, usage)
        return MAX_REAPED_QUICKLY

    def _bury(self, pid: int, status: int, usage: Usage, tag: int = 0, orphan_spent: float = 0.0) -> None:
        child = self.children.pop(pid, None)
        spent = usage.ru_utime + usage.ru_stime if child is not None else orphan_spent
        tag = child.tag if child is not None else tag
        if tag in self._spent:
            self._spent[tag] += spent
            self.spent += spent
        if child is None:
            return
        child.status = status
        try:
            child.on_exit(status)
        except Exception as error:  # the other dead must be taken in all the same
            self.loop.on_error(error)

    def members(self, tag: int) -> list[Process]:
        """Everything alive that belongs to ``tag``, strangers included."""
        if self.user is not None:
            return census.tagged_members(tag, self.user.uid)
        roots = {child.pid for child in self.children.values() if child.tag == tag}
        return census.descendants(roots, set(self.children))

    def cpu_seconds(self, tag: int) -> float:
        """CPU that ``tag`` used so far, the dead included.

        gVisor counts every process that could run as running: ten on one core seem to use ten. So between two looks there
        is never more than what the cores had.
        """
        counted = self._spent.get(tag, 0.0) + sum(one.cpu for one in self.members(tag))
        now = time.monotonic()
        before, since, total = self._cpu.get(tag, (counted, now, 0.0))
        total += min(max(0.0, counted - before), (now - since) * self._cores)
        self._cpu[tag] = (counted, now, total)
        return total

    def possible_cpu(self, counted: float) -> float:
        """``counted`` seconds, but no more than all cores had since the start."""
        return min(counted, (time.monotonic() - self._born) * self._cores)

    def roots(self) -> set[int]:
        """All direct children."""
        return set(self.children)

    def signal(self, child: Child, number: int) -> bool:
        """Send to the child's group; whether there was one to receive it."""
        return send_signal(-child.pid, number) if child.status is None else False

    def kill(self, tag: int, on_dead: Callable[[int, int], None], *, spare: int = 0, since: int = 0) -> None:
        """SIGKILL everything of ``tag``, again and again until nothing is left; then ``on_dead(killed, left)``.

        ``spare`` is a process that stays (the kernel whose run is being cleared away); ``since`` spares what is older, in
        ticks of ``census.in_ticks``.
        """
        Killing(self, tag, on_dead, spare, since).round()

    def kill_everything(self) -> None:
        """At the end: all children and all that is left of the user. Does not wait."""
        if self.user is not None:
            for one in census.everyone():
                if one.tag or one.uid == self.user.uid:
                    send_signal(one.pid, signal.SIGKILL)
            return
        for one in census.descendants(set(self.children), set(self.children)):
            send_signal(one.pid, signal.SIGKILL)


def _next_dead() -> int:
    """A dead child, which stays to be waited for; 0: there is none."""
    try:
        found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return 0
    return found.si_pid if found is not None else 0


def _nothing() -> None:
    pass


def _adopt_orphans() -> None:
    """Outside of a sandbox, daemons of a command become our children and not init's: only so can they be found."""
    import ctypes

    pr_set_child_subreaper = 36
    ctypes.CDLL(None).prctl(pr_set_child_subreaper, 1, 0, 0, 0)
