"""Children: how they start, to whom they belong, what they used, how they die. Pid 1 inside, so it reaps everything.

A child that runs user code loses every descriptor of the agent *before* it becomes the user: from that moment on other
code of the user may inspect it.
"""

from __future__ import annotations

import os

from dayfly.agent import census
from dayfly.agent.census import FIRST_TAG, Process

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Mapping, Sequence

    from dayfly.agent.loop import Loop
else:
    import _signal as signal  # see loop.py

DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"

STOP_ROUNDS = 8
"""Scans in which everything found is stopped before it is killed: a stopped process forks no more."""

KILL_ROUNDS = 200
"""Scans after which a kill gives up and says how many are left; 20 ms apart, so 4 s."""

TIOCSCTTY = 0x540E  # Linux, x86 and arm; importing termios for it costs 8 ms inside gVisor
_EXEC_FAILED = 127


class StartFailed(Exception):
    """A child could not be started. ``errno`` says why."""

    def __init__(self, number: int, what: str) -> None:
        super().__init__(f"{what}: {os.strerror(number)}")
        self.errno = number


class User:
    """Who user code is. ``None`` in its place means: nobody else than the agent (the fake boundary)."""

    __slots__ = ("gid", "home", "uid")

    def __init__(self, uid: int, gid: int, home: str) -> None:
        self.uid = uid
        self.gid = gid
        self.home = home


class Child:
    """One direct child, leader of its own session and group. ``status`` is what waitpid gave, once it is dead."""

    __slots__ = ("on_exit", "pid", "status", "tag")

    def __init__(self, pid: int, tag: int, on_exit: Callable[[int], None]) -> None:
        self.pid = pid
        self.tag = tag
        self.on_exit = on_exit
        self.status: int | None = None

    @property
    def exit_fields(self) -> dict[str, int | None]:
        """``exit_code`` and ``signal``, of which exactly one is a number."""
        return exit_fields(self.status)


def exit_fields(status: int | None) -> dict[str, int | None]:
    if status is None:
        return {"exit_code": None, "signal": None}
    if os.WIFSIGNALED(status):
        return {"exit_code": None, "signal": os.WTERMSIG(status)}
    return {"exit_code": os.WEXITSTATUS(status), "signal": None}


class Supervisor:
    """Starts, counts and kills children. ``limits`` are rlimits: data, processes, open_files, file_size."""

    def __init__(
        self, loop: Loop, user: User | None, limits: Mapping[str, int], environment: Mapping[str, str]
    ) -> None:
        self.loop = loop
        self.user = user
        self.limits = dict(limits)
        self.environment = dict(environment)
        self._children: dict[int, Child] = {}
        self._next_tag = FIRST_TAG
        self._spent: dict[int, float] = {}  # CPU seconds of the dead, by tag
        self.spent = 0.0  # of all of them
        self._null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        loop.on_child = self.reap
        if user is None and os.getpid() != 1:
            _adopt_orphans()

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
        return self._next_tag

    def drop_tag(self, tag: int) -> None:
        """Nothing with this tag is alive or of interest any more."""
        self._spent.pop(tag, None)

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
        environment = {os.fsencode(name): os.fsencode(value) for name, value in env.items()}
        command = [os.fsencode(argument) for argument in argv]

        def become() -> None:
            for fd in keep:
                os.set_inheritable(fd, True)
            _exec(command, environment, os.fsencode(cwd), write_end)

        try:
            child = self._fork(become, tag, stdio, (*keep, write_end), on_exit, terminal)
        except StartFailed:
            os.close(read_end)
            raise
        finally:
            os.close(write_end)
        os.set_blocking(read_end, False)
        verdict = _Verdict(self, child, read_end, argv[0], on_started)
        self.loop.on_readable(read_end, verdict.readable)
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
        return self._fork(function, tag, stdio, keep, on_exit, False)

    def fork_trusted(
        self, function: Callable[[], None], *, keep: Sequence[int], on_exit: Callable[[int], None]
    ) -> Child:
        """Fork for the agent's own code: the user's rights on files, and out of reach of the user's code (worker.py)."""
        return self._fork(function, 0, (self._null, self._null, self._null), keep, on_exit, False)

    def _fork(
        self,
        function: Callable[[], None],
        tag: int,
        stdio: tuple[int, int, int],
        keep: Sequence[int],
        on_exit: Callable[[int], None],
        terminal: bool,
    ) -> Child:
        rlimits = self._rlimits() if tag else []
        try:
            pid = os.fork()
        except OSError as error:
            raise StartFailed(error.errno or 11, "fork") from None
        if pid == 0:
            code = 70
            try:
                self.loop.abandon()
                _be_child(self.user, tag, stdio, keep, rlimits, terminal)
                function()
                code = 0
            except SystemExit as request:
                code = request.code if isinstance(request.code, int) else 1
            except BaseException as error:
                os.write(2, f"dayfly: {type(error).__name__}: {error!s:.500}\n".encode("ascii", "backslashreplace"))
            finally:
                os._exit(code & 0xFF)
        child = self._children[pid] = Child(pid, tag, on_exit)
        return child

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
        """Take in every dead child. Known ones are told to their owner; the CPU of orphans goes to their tag."""
        while True:
            try:
                found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if found is None or not found.si_pid:
                return
            self._bury(found.si_pid)

    def _bury(self, pid: int) -> None:
        child = self._children.get(pid)
        dead = census.look(pid, self.user is not None)
        tag = child.tag if child is not None else dead.tag if dead is not None else 0
        if dead is not None and tag in self._spent:
            self._spent[tag] += dead.cpu
            self.spent += dead.cpu
        _, status = os.waitpid(pid, 0)
        if child is None:
            return
        del self._children[pid]
        child.status = status
        child.on_exit(status)

    def members(self, tag: int) -> list[Process]:
        """Everything alive that belongs to ``tag``, strangers included."""
        if self.user is not None:
            return census.tagged_members(tag, self.user.uid)
        roots = {child.pid for child in self._children.values() if child.tag == tag}
        return census.descendants(roots, set(self._children))

    def cpu_seconds(self, tag: int) -> float:
        """CPU that ``tag`` used so far, the dead included."""
        return self._spent.get(tag, 0.0) + sum(one.cpu for one in self.members(tag))

    def roots(self) -> set[int]:
        """All direct children."""
        return set(self._children)

    def signal(self, child: Child, number: int) -> bool:
        """Send to the child's group; whether there was one to receive it."""
        return send_signal(-child.pid, number) if child.status is None else False

    def kill(self, tag: int, on_dead: Callable[[int, int], None], *, spare: int = 0, since: int = 0) -> None:
        """SIGKILL everything of ``tag``, again and again until nothing is left; then ``on_dead(killed, left)``.

        ``spare`` is a process that stays (the kernel whose run is being cleared away); ``since`` spares what is older, in
        ticks of ``census.now_in_ticks``.
        """
        _Killing(self, tag, on_dead, spare, since).round()

    def kill_everything(self) -> None:
        """At the end: all children and all that is left of the user. Does not wait."""
        if self.user is not None:
            for one in census.everyone(True):
                if one.tag or one.uid == self.user.uid:
                    send_signal(one.pid, signal.SIGKILL)
            return
        for one in census.descendants(set(self._children), set(self._children)):
            send_signal(one.pid, signal.SIGKILL)


def _adopt_orphans() -> None:
    """Outside of a sandbox, daemons of a command become our children and not init's: only so can they be found."""
    import ctypes

    pr_set_child_subreaper = 36
    ctypes.CDLL(None).prctl(pr_set_child_subreaper, 1, 0, 0, 0)


def send_signal(pid: int, number: int) -> bool:
    """Whether it was delivered; that nobody is there any more is no error."""
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


class _Killing:
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

    def round(self) -> None:
        self._rounds += 1
        self._supervisor.reap()
        found = self._members()
        if not found or self._rounds > KILL_ROUNDS:
            self._on_dead(len(self._seen), len(found))
            return
        if len(found) > 1:
            found = self._stopped(found)
        for pid in found:
            send_signal(pid, signal.SIGKILL)
        self._seen |= found
        self._supervisor.loop.call_later(min(0.0005 * 2**self._rounds, 0.02), self.round)

    def _stopped(self, found: set[int]) -> set[int]:
        """Stop all before killing one: else a fork bomb grows back in the room that each kill makes."""
        stopped: set[int] = set()
        for _ in range(STOP_ROUNDS):
            fresh = found - stopped
            if not fresh:
                break
            for pid in fresh:
                send_signal(pid, signal.SIGSTOP)
            stopped |= fresh
            found = self._members()
        return stopped | found

    def _members(self) -> set[int]:
        found = self._supervisor.members(self._tag)
        return {one.pid for one in found if one.started >= self._since} - {self._spare}


class _Verdict:
    """Waits for exec's answer: nothing (it happened) or an errno. Everything on this pipe may be forged by the child."""

    def __init__(
        self,
        supervisor: Supervisor,
        child: Child,
        fd: int,
        program: str,
        on_started: Callable[[StartFailed | None], None],
    ) -> None:
        self._loop = supervisor.loop
        self._fd = fd
        self._program = program
        self._on_started = on_started
        self._child = child
        self._on_exit = child.on_exit
        child.on_exit = self._exited

    def readable(self) -> None:
        try:
            answer = os.read(self._fd, 16)
        except BlockingIOError:
            return
        self._decide(answer)

    def _decide(self, answer: bytes) -> None:
        if self._fd < 0:
            return
        self._loop.forget(self._fd)
        os.close(self._fd)
        self._fd = -1
        where, _, number = answer.partition(b":")
        if number.isdigit():
            what = "the working directory" if where == b"cwd" else self._program
            self._child.on_exit = _ignore_status
            self._on_started(StartFailed(int(number) & 0xFF, what))
        else:
            self._child.on_exit = self._on_exit
            self._on_started(None)

    def _exited(self, status: int) -> None:
        """Dead before the verdict was read: it is in the pipe, or there will be none."""
        try:
            self._decide(os.read(self._fd, 16))
        except BlockingIOError:  # a copy of the pipe lives on in somebody's hands
            self._decide(b"")
        self._child.on_exit(status)


def _ignore_status(status: int) -> None:
    """Of a child that never became its program."""


# --- in the child -------------------------------------------------------------------------------------------------


def _be_child(
    user: User | None,
    tag: int,
    stdio: tuple[int, int, int],
    keep: Sequence[int],
    rlimits: list[tuple[int, int]],
    terminal: bool,
) -> None:
    for target, source in enumerate(stdio):
        os.dup2(source, target)
    _close_all_but({0, 1, 2, *keep})
    os.setsid()
    if terminal:
        import fcntl

        fcntl.ioctl(0, TIOCSCTTY, 0)
    _apply(rlimits)
    os.umask(0o022)
    if user is not None and tag:
        os.setgroups([tag])
        os.setresgid(user.gid, user.gid, user.gid)
        os.setresuid(user.uid, user.uid, user.uid)
    elif user is not None:
        os.setgroups([])
        os.setresgid(-1, user.gid, -1)
        os.setresuid(-1, user.uid, -1)


def _close_all_but(keep: set[int]) -> None:
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in keep:
            try:
                os.close(int(name))
            except OSError:  # the listing's own descriptor
                continue


def _apply(rlimits: list[tuple[int, int]]) -> None:
    import resource

    for which, value in rlimits:
        _, hard = resource.getrlimit(which)
        if hard != resource.RLIM_INFINITY:
            value = min(value, hard)
        resource.setrlimit(which, (value, value))


def _exec(command: list[bytes], environment: dict[bytes, bytes], cwd: bytes, verdict: int) -> None:
    """Does not return."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them; programs expect the default
        signal.signal(number, signal.SIG_DFL)
    try:
        os.chdir(cwd)
    except OSError as error:
        os.write(verdict, b"cwd:%d" % (error.errno or 0))
        os._exit(_EXEC_FAILED)
    failure = 2  # ENOENT
    for path in _candidates(command[0], environment):
        try:
            os.execve(path, command, environment)
        except OSError as error:
            if error.errno not in (2, 20):  # ENOENT, ENOTDIR: perhaps in the next directory
                failure = error.errno or failure
    os.write(verdict, b"exec:%d" % failure)
    os._exit(_EXEC_FAILED)


def _candidates(program: bytes, environment: dict[bytes, bytes]) -> list[bytes]:
    if b"/" in program:
        return [program]
    path = environment.get(b"PATH") or DEFAULT_PATH.encode()
    return [directory + b"/" + program for directory in path.split(b":") if directory]
