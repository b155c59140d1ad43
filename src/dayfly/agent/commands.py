"""One command, from exec to the last byte of its output.

It has ended when its main process has: what is in its pipes at that moment is delivered, and nobody waits for a grandchild
that holds stdout. What a command that is not detached leaves behind is killed by its tag, and counted.
"""

from __future__ import annotations

import os
import time

from dayfly.agent import pty
from dayfly.agent.core import checked_environment, encoded
from dayfly.agent.observers import Observer, Ring
from dayfly.agent.session import BadRequest, Channel, Refused
from dayfly.agent.streams import UNLIMITED, Drain, Sink, Source, pipe
from dayfly.agent.supervisor import Child, StartFailed, exit_fields, send_signal
from dayfly.wire import operations
from dayfly.wire.operations import STDERR, STDOUT

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Mapping

    from dayfly.agent.processes import Table
else:
    import _signal as signal  # see loop.py

CPU_LOOK = 0.1
"""Seconds between two looks at a command's CPU time."""

CPU_LOOK_SHARE = 20
"""A look may take a 20th of the time between two: with hundreds of processes they become rarer by themselves."""


class Command(Sink):
    """One command, from exec to the last byte of its output."""

    def __init__(self, table: Table, params: Mapping[str, object]) -> None:
        self.pid = 0
        self.argv = _argv(params["argv"])
        self.cwd = os.path.join(table.agent.supervisor.home, _path(params["cwd"]))
        self.pty = params.get("pty") is not None
        self.detached = bool(params["detached"])
        self.status: int | None = None
        self.limit: str | None = None
        self._table = table
        self._agent = table.agent
        self._supervisor = table.agent.supervisor
        self._loop = table.agent.loop
        self._tag = self._supervisor.new_tag()
        self._cpu_cap = float(params["cpu_seconds"])  # type: ignore[arg-type]
        self._ring = Ring()
        self._observers: list[Observer] = []
        self._sources: list[Source] = []
        self._terminal = -1
        self._child: Child | None = None
        self._leftovers = 0
        self._cleared = False  # what was left behind is dead, or is to stay
        self._stopping = False

    # --- start ----------------------------------------------------------------------------------------------------

    def start(self, channel: Channel, params: Mapping[str, object]) -> tuple[Observer, Drain | None]:
        """Fork and exec; the channel becomes the first observer, with a drain if there is a stdin. Raises ``Refused``."""
        observer = self._observe(channel, int(params["output"]), [])  # type: ignore[call-overload]
        env = {**self._supervisor.environment, **checked_environment(params["env"])}
        try:
            drain = self._launch(channel, env, params)
        except (StartFailed, OSError) as error:
            self._abandon()
            raise Refused(operations.CANNOT_START, f"{self.argv[0]}: {error}") from None
        return observer, drain

    def _launch(self, channel: Channel, env: dict[str, str], params: Mapping[str, object]) -> Drain | None:
        size = params.get("pty")
        if size is not None:
            env.setdefault("TERM", "xterm-256color")
            return self._launch_on_terminal(channel, env, size)
        stdin_read, stdin_write = pipe() if params["stdin"] else (os.dup(self._supervisor.null), -1)
        ends = [stdin_read]
        try:
            for stream in (STDOUT, STDERR):
                read_end, write_end = pipe()
                ends.append(write_end)
                self._sources.append(Source(self._loop, read_end, stream, self))
            self._spawn((ends[0], ends[1], ends[2]), env)
        except BaseException:
            if stdin_write >= 0:
                os.close(stdin_write)
            raise
        finally:
            for fd in ends:
                os.close(fd)
        return Drain(self._loop, stdin_write, channel) if stdin_write >= 0 else None

    def _launch_on_terminal(self, channel: Channel, env: dict[str, str], size: object) -> Drain:
        rows, cols = pty.checked_size(size)
        self._terminal, slave = pty.open_terminal(rows, cols, self._supervisor.user)
        self._sources.append(Source(self._loop, self._terminal, STDOUT, self))
        try:
            self._spawn((slave, slave, slave), env, terminal=True)
        finally:
            os.close(slave)
        return Drain(self._loop, os.dup(self._terminal), channel)

    def _spawn(self, stdio: tuple[int, int, int], env: dict[str, str], terminal: bool = False) -> None:
        self._child = self._supervisor.start(
            self.argv,
            tag=self._tag,
            stdio=stdio,
            env=env,
            cwd=self.cwd,
            on_started=self._started,
            on_exit=self._exited,
            terminal=terminal,
        )
        self.pid = self._child.pid

    def _started(self, failure: StartFailed | None) -> None:
        if failure is not None:
            self._fail(operations.CANNOT_START, str(failure))
            return
        self._table.add(self)
        self._agent.runs(1)
        for observer in self._observers:
            observer.channel.event("started", {"pid": self.pid})
        self.resume()
        self._loop.call_later(CPU_LOOK, self._look_at_cpu)

    def _fail(self, code: str, message: str) -> None:
        observers = self._observers
        self._abandon()
        for observer in observers:
            observer.channel.fail(code, message)

    def _abandon(self) -> None:
        """There is no process: nothing to end and nobody to tell, only things to close."""
        self._observers = []
        self.status = self.status or 0
        self._cleared = True
        for source in list(self._sources):
            source.close()
        self._supervisor.drop_tag(self._tag)

    # --- output ---------------------------------------------------------------------------------------------------

    def room(self) -> int:
        return min([UNLIMITED, *(observer.room() for observer in self._observers)])

    def take(self, stream: int, data: bytes) -> None:
        self._ring.keep(stream, data)
        for observer in self._observers:
            observer.take(stream, data)

    def ended(self, source: Source) -> None:
        self._sources.remove(source)
        self._end_if_over()

    def resume(self) -> None:
        """Somebody takes output again."""
        for observer in self._observers:
            observer.replay()
        for source in list(self._sources):
            source.resume()
        self._end_if_over()

    def _observe(self, channel: Channel, output: int, missed: list[tuple[int, bytes]]) -> Observer:
        observer = Observer(channel, output, missed, self.resume)
        self._observers.append(observer)
        return observer

    def connect(self, channel: Channel, output: int) -> Observer:
        """Replay what is kept, then follow."""
        observer = self._observe(channel, output, self._ring.replay())
        channel.event("started", {"pid": self.pid})
        self._loop.call_soon(channel.guarded(self.resume))
        return observer

    def leave(self, observer: Observer) -> None:
        """An observer is gone, and with it what held the output back."""
        if observer in self._observers:
            self._observers.remove(observer)
            self.resume()

    # --- orders ---------------------------------------------------------------------------------------------------

    @property
    def running(self) -> bool:
        return self.status is None

    def signal(self, number: int) -> None:
        """To the process group. Raises ``BadRequest`` or ``Refused``."""
        if not 1 <= number <= 64:
            raise BadRequest(f"no signal has number {number}")
        if not self.running or not send_signal(-self.pid, number):
            raise Refused(operations.NO_SUCH_PROCESS, f"process {self.pid} has ended")

    def resize(self, rows: int, cols: int) -> None:
        if self._terminal >= 0 and self._sources:
            pty.resize(self._terminal, rows, cols)
            send_signal(-(pty.foreground(self._terminal) or self.pid), signal.SIGWINCH)  # gVisor of 2024 does not

    def stop(self, grace: float) -> None:
        """SIGTERM to the group, and after ``grace`` seconds SIGKILL to everything that belongs to the command."""
        self._stopping = True
        if not self.running:
            return
        send_signal(-self.pid, signal.SIGTERM)
        send_signal(-self.pid, signal.SIGCONT)  # a stopped process takes no SIGTERM
        self._loop.call_later(max(0.0, min(grace, 3600.0)), self.kill)

    def type_end(self) -> None:
        """What a person types at a terminal to end the input; it stays open for the answer."""
        if self._terminal >= 0 and self._sources:
            pty.type_end(self._terminal)

    def kill(self) -> None:
        """SIGKILL everything that belongs to the command."""
        self._stopping = True
        if self.running:
            self._supervisor.kill(self._tag, _ignore_count)

    def limit_reached(self, name: str) -> None:
        """A limit ends the command; the answer will name it."""
        if self.running:
            self.limit = self.limit or name
            self.kill()

    def _look_at_cpu(self) -> None:
        if not self.running:
            return
        before = time.monotonic()
        if self._supervisor.cpu_seconds(self._tag) > self._cpu_cap:
            self.limit_reached("run_cpu_seconds")
            return
        self._loop.call_later(max(CPU_LOOK, CPU_LOOK_SHARE * (time.monotonic() - before)), self._look_at_cpu)

    # --- end ------------------------------------------------------------------------------------------------------

    def _exited(self, status: int) -> None:
        self.status = status
        self._agent.runs(-1)
        if self._supervisor.memory_kills.get(self._tag):
            self.limit = self.limit or "memory"
        for source in list(self._sources):
            source.settle()
        if self.detached and not self._stopping:
            self._cleared = True
            self._end_if_over()
        else:
            self._supervisor.kill(self._tag, self._cleaned)

    def _cleaned(self, killed: int, left: int) -> None:
        if left:  # no answer then: what cannot be killed is the host's to end
            return
        self._leftovers = killed
        self._cleared = True
        self._supervisor.drop_tag(self._tag)
        self._end_if_over()

    def _end_if_over(self) -> None:
        if self.running or self._sources or not self._cleared:
            return
        if not self.detached:
            self._table.remove(self)
        for observer in [one for one in self._observers if one.idle]:
            self._observers.remove(observer)
            fields = {"dropped": observer.dropped, "limit": self.limit, "leftovers": self._leftovers}
            observer.channel.finish({**exit_fields(self.status), **fields})

    def forget(self) -> None:
        """Nobody will ask for it any more."""
        self._supervisor.drop_tag(self._tag)

    def describe(self) -> dict[str, object]:
        shape = {"pid": self.pid, "argv": self.argv, "cwd": self.cwd, "running": self.running, "pty": self.pty}
        return {**shape, **exit_fields(self.status)}


def _argv(value: object) -> list[str]:
    if not isinstance(value, list) or not value or not all(isinstance(part, str) for part in value) or not value[0]:
        raise BadRequest("argv is not a list of text that begins with a program")
    for part in value:
        encoded(part)
        if "\0" in part:
            raise BadRequest("NUL in an argument")
    return value


def _path(value: object) -> str:
    path = str(value)
    encoded(path)
    if "\0" in path:
        raise BadRequest("NUL in a path")
    return path


def _ignore_count(killed: int, left: int) -> None:
    """The exit of the main process, which follows, tells what was left."""
