"""What a new child does to itself between fork and its own program, and how its exec's verdict comes back.

Law: a child that runs user code loses every descriptor of the agent *before* it becomes the user: from that moment on
other code of the user may inspect it.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Mapping, Sequence

    from dayfly.agent.loop import Loop
else:
    import _signal as signal  # see loop.py

DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"

TIOCSCTTY = 0x540E  # Linux, x86 and arm; importing termios for it costs 8 ms inside gVisor
_EXEC_FAILED = 127
_AGAIN = (2, 20)  # ENOENT, ENOTDIR: perhaps in the next directory of PATH


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
    """One direct child, leader of its own session and group. ``status`` is what waitpid gave, once it is dead.

    ``forked``: it runs Python of ours and no program, so its address space may be limited (see memory.py).
    """

    __slots__ = ("forked", "on_exit", "pid", "status", "tag")

    def __init__(self, pid: int, tag: int, on_exit: Callable[[int], None], forked: bool) -> None:
        self.pid = pid
        self.tag = tag
        self.on_exit = on_exit
        self.forked = forked
        self.status: int | None = None


def exit_fields(status: int | None) -> dict[str, int | None]:
    """``exit_code`` and ``signal`` of a wait status, of which exactly one is a number."""
    if status is None:
        return {"exit_code": None, "signal": None}
    if os.WIFSIGNALED(status):
        return {"exit_code": None, "signal": os.WTERMSIG(status)}
    return {"exit_code": os.WEXITSTATUS(status), "signal": None}


class Start:
    """How one child is to begin. ``tag`` 0: code of the agent's own, with the user's rights on files (see worker.py)."""

    __slots__ = ("keep", "rlimits", "stdio", "tag", "terminal", "user")

    def __init__(
        self,
        user: User | None,
        tag: int,
        stdio: tuple[int, int, int],
        keep: Sequence[int],
        rlimits: list[tuple[int, int]],
        terminal: bool,
    ) -> None:
        self.user = user
        self.tag = tag
        self.stdio = stdio
        self.keep = keep
        self.rlimits = rlimits
        self.terminal = terminal

    def become(self) -> None:
        """In the child."""
        for target, source in enumerate(self.stdio):
            os.dup2(source, target)
        _close_all_but({0, 1, 2, *self.keep})
        os.setsid()
        if self.terminal:
            import fcntl

            fcntl.ioctl(0, TIOCSCTTY, 0)
        _apply(self.rlimits)
        os.umask(0o022)
        if self.user is not None:
            self._change_user(self.user)

    def _change_user(self, user: User) -> None:
        if self.tag:
            os.setgroups([self.tag])
            os.setresgid(user.gid, user.gid, user.gid)
            os.setresuid(user.uid, user.uid, user.uid)
        else:
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


class Program:
    """A command line to be executed, prepared before the fork. ``verdict`` is the descriptor that takes an errno."""

    def __init__(
        self, argv: Sequence[str], env: Mapping[str, str], cwd: str, keep: Sequence[int], verdict: int
    ) -> None:
        self._argv = [os.fsencode(argument) for argument in argv]
        self._env = {os.fsencode(name): os.fsencode(value) for name, value in env.items()}
        self._cwd = os.fsencode(cwd)
        self._keep = keep
        self._verdict = verdict

    def execute(self) -> None:
        """In the child. Does not return."""
        for fd in self._keep:
            os.set_inheritable(fd, True)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them; programs expect the default
            signal.signal(number, signal.SIG_DFL)
        try:
            os.chdir(self._cwd)
        except OSError as error:
            self._give_up(b"cwd", error.errno or 0)
        failure = 2  # ENOENT
        for path in self._candidates():
            try:
                os.execve(path, self._argv, self._env)
            except OSError as error:
                if error.errno not in _AGAIN:
                    failure = error.errno or failure
        self._give_up(b"exec", failure)

    def _candidates(self) -> list[bytes]:
        program = self._argv[0]
        if b"/" in program:
            return [program]
        path = self._env.get(b"PATH") or DEFAULT_PATH.encode()
        return [directory + b"/" + program for directory in path.split(b":") if directory]

    def _give_up(self, where: bytes, number: int) -> None:
        os.write(self._verdict, b"%s:%d" % (where, number))
        os._exit(_EXEC_FAILED)


class Verdict:
    """Waits for exec's answer: nothing (it happened) or an errno. Everything on this pipe may be forged by the child."""

    def __init__(
        self, loop: Loop, child: Child, fd: int, program: str, on_started: Callable[[StartFailed | None], None]
    ) -> None:
        self._loop = loop
        self._fd = fd
        self._program = program
        self._on_started = on_started
        self._child = child
        self._on_exit = child.on_exit
        child.on_exit = self._exited
        os.set_blocking(fd, False)
        loop.on_readable(fd, self._readable)

    def _readable(self) -> None:
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
