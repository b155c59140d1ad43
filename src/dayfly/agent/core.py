"""The agent as a whole: what its parts share, and which part serves which operation.

Parts are imported when first asked for: what is not needed costs nothing of a cold start.
"""

from __future__ import annotations

import os
import sys

from dayfly.agent.lent import Lent
from dayfly.agent.loop import Loop
from dayfly.agent.session import BadRequest, Channel, Session, Task
from dayfly.agent.supervisor import DEFAULT_PATH, Supervisor, User
from dayfly.wire import operations
from dayfly.wire.errors import RemoteProtocolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from dayfly.agent.loop import Timer
    from dayfly.agent.memory import Guard

HANDLERS = {
    "execute": "dayfly.agent.kernels.contexts:execute",
    "context.list": "dayfly.agent.kernels.contexts:list_contexts",
    "context.remove": "dayfly.agent.kernels.contexts:remove",
    "context.prepare": "dayfly.agent.kernels.contexts:prepare",
    "process.start": "dayfly.agent.processes:start",
    "process.connect": "dayfly.agent.processes:connect",
    "process.list": "dayfly.agent.processes:list_processes",
    "process.signal": "dayfly.agent.processes:signal_process",
    "file.read": "dayfly.agent.content:read",
    "file.write": "dayfly.agent.content:write",
    "file.stat": "dayfly.agent.content:stat_path",
    "file.list": "dayfly.agent.content:list_directory",
    "file.mkdir": "dayfly.agent.content:make_directory",
    "file.rename": "dayfly.agent.content:rename",
    "file.remove": "dayfly.agent.removal:remove",
    "file.watch": "dayfly.agent.watch:watch",
    "tree.pack": "dayfly.agent.trees:pack",
    "tree.unpack": "dayfly.agent.trees:unpack",
    "port.connect": "dayfly.agent.ports:connect",
    "network": "dayfly.agent.network.network:set_names",
    "configure": "dayfly.agent.settings:configure",
    "renew": "dayfly.agent.renewal:renew",
    "usage": "dayfly.agent.settings:usage",
}
"""Operation -> "module:function". The function gets (agent, channel, params) and returns a Task, or None if it answered."""

FIRST_LOOK = 0.01
"""Seconds after which memory is looked at for the first time: a short run then never pays for it."""

SPARE_DEVICES = ("/dev/fuse", "/dev/net/tun")
"""Devices of gVisor's own that nobody needs: less to attack in its kernel. Unprivileged code cannot make them again."""

LIMITS = ("data", "processes", "open_files", "file_size")
USER_FIELDS: dict[str, object] = {"uid": int, "gid": int, "home": str}


class Agent:
    """What the parts share. ``supervisor`` exists from Hello on, which is before any operation."""

    supervisor: Supervisor

    def __init__(self, loop: Loop, read_fd: int, write_fd: int) -> None:
        self.loop = loop
        self.session = Session(loop, read_fd, write_fd)
        self.session.on_hello = self._hello
        self.session.on_welcomed = self._welcomed
        self.session.on_end = self.end
        self._parts: dict[object, object] = {}
        self._prestart: list[str] = []
        self.running = 0  # runs and commands under way
        self._waking: Timer | None = None  # that wakes the guard
        self._guard: Guard | None = None  # of memory; made when something runs longer than a moment
        for name, target in HANDLERS.items():
            self.session.handlers[name] = self._lazily(name, target)

    def _lazily(self, name: str, target: str) -> Callable[[Channel, dict[str, object]], Task | None]:
        loaded: dict[str, Callable[..., Any]] = {}

        def handle(channel: Channel, params: dict[str, object]) -> Task | None:
            if name == "execute":
                self.runs(1)
                channel.after = lambda: self.runs(-1)
            if name not in loaded:
                loaded[name] = load(target)
            return loaded[name](self, channel, params)  # type: ignore[no-any-return]

        return handle

    def part(self, make: Callable[[Agent], object]) -> object:
        """The one ``make(agent)`` of this agent, made on first use: a table of processes, of contexts."""
        if make not in self._parts:
            self._parts[make] = make(self)
        return self._parts[make]

    def runs(self, change: int) -> None:
        """A run or command begins (1) or has ended (-1): memory is guarded while there are any."""
        self.running += change
        if self.running == 1 and change > 0:
            self._guard_soon()
        elif change < 0 and self._guard is not None:
            self._guard.ended()

    def _guard_soon(self) -> None:
        if self._waking is not None or (self._guard is not None and self._guard.awake):
            return
        if self.supervisor.user is not None and "data" in self.supervisor.limits:
            self._waking = self.loop.call_later(FIRST_LOOK, self._wake_guard)

    def settle(self) -> None:
        """Do now what was put off: the sandbox may be frozen next, and whoever thaws it is not to wait for that."""
        if self._waking is not None:
            self._waking.cancel()
            self._wake_guard()

    def _wake_guard(self) -> None:
        self._waking = None
        if self._guard is None:
            from dayfly.agent.memory import Guard

            self._guard = Guard(self)
        self._guard.wake()

    # --- beginning and end ------------------------------------------------------------------------------------------

    def _hello(self, options: Mapping[str, object]) -> dict[str, object]:
        limits = checked_limits(options["limits"], RemoteProtocolError)
        env = checked_environment(options["env"], RemoteProtocolError)
        languages = load("dayfly.agent.kernels:languages")
        self.supervisor = Supervisor(self.loop, _user(options.get("user")), limits, {})
        self.supervisor.own_environment = self._first_environment(env)
        if options.get("lent"):
            self.supervisor.lent = Lent(checked_environment(options["lent"], RemoteProtocolError))
        self.supervisor.on_kernel = self._guard_soon
        if self.supervisor.user:
            _remove_devices()
        self._prestart = [name for name in options["prestart"] if isinstance(name, str)]  # type: ignore[attr-defined]
        return {"python": sys.version.split()[0], "languages": list(languages()), "pid": os.getpid()}

    def _first_environment(self, env: dict[str, str]) -> dict[str, str]:
        user = self.supervisor.user
        name = "user" if user else os.environ.get("USER", "user")
        base = {"PATH": DEFAULT_PATH, "HOME": self.supervisor.home, "USER": name, "LOGNAME": name, "LANG": "C.UTF-8"}
        return {**base, **env}

    def _welcomed(self) -> None:
        if self._prestart:
            load("dayfly.agent.kernels.contexts:prestart")(self, self._prestart)

    def end(self, why: str) -> None:
        """The host is gone or does not speak the protocol: nothing inside has a reason to live."""
        if hasattr(self, "supervisor"):
            self.supervisor.kill_everything()
        os._exit(0)


def _remove_devices() -> None:
    """Before anything of the user's runs. gVisor puts them into every /dev, and honours no masked paths."""
    for path in SPARE_DEVICES:
        try:
            os.unlink(path)
        except OSError:
            pass  # another boundary, which has none


def load(target: str) -> Callable[..., Any]:
    """The function that "module:function" names."""
    module, _, name = target.partition(":")
    __import__(module)
    found: Callable[..., Any] = getattr(sys.modules[module], name)
    return found


def checked_limits(value: object, error: type[Exception] = BadRequest) -> dict[str, int]:
    """Known rlimits with positive values, or ``error``."""
    if not isinstance(value, dict) or any(name not in LIMITS for name in value):
        raise error("limits has unknown fields")
    if any(type(number) is not int or not 0 < number < 1 << 62 for number in value.values()):
        raise error("a limit is not a positive number")
    return value


def checked_environment(value: object, error: type[Exception] = BadRequest) -> dict[str, str]:
    """Names and values that execve can take, or ``error``."""
    if not isinstance(value, dict):
        raise error("env is not an object")
    for name, text in value.items():
        if not isinstance(text, str) or not name or "=" in name or "\0" in name or "\0" in text:
            raise error(f"not an environment variable: {ascii(name)[:80]}")
        encoded(name + text, error)
    return value


def encoded(text: str, error: type[Exception] = BadRequest) -> bytes:
    """The bytes that ``text`` stands for (PEP 383), or ``error``."""
    try:
        return os.fsencode(text)
    except UnicodeEncodeError:
        raise error(f"not encodable: {ascii(text)[:80]}") from None


def _user(value: object) -> User | None:
    if value is None:
        return None
    fields = operations.check(value, USER_FIELDS, "user", RemoteProtocolError)
    return User(int(fields["uid"]), int(fields["gid"]), str(fields["home"]))  # type: ignore[call-overload]
