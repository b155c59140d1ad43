"""The commands: which there are, who follows them, and what the host may ask about them."""

from __future__ import annotations

from dayfly.agent import pty
from dayfly.agent.commands import Command
from dayfly.agent.core import Agent
from dayfly.agent.observers import Observer
from dayfly.agent.session import Channel, Refused, Task
from dayfly.agent.streams import Drain
from dayfly.wire import operations
from dayfly.wire.operations import STDIN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_KNOWN = 64
"""Detached commands that are remembered, running or ended: with a ring each, 16 MiB at most. More: ``busy``."""


class Table:
    """Commands by pid: the running ones, and the detached ones that ended."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.commands: dict[int, Command] = {}

    def find(self, pid: object) -> Command:
        command = self.commands.get(pid) if isinstance(pid, int) else None
        if command is None:
            raise Refused(operations.NO_SUCH_PROCESS, f"no command with pid {pid} was started here")
        return command

    def add(self, command: Command) -> None:
        self.commands[command.pid] = command

    def remove(self, command: Command) -> None:
        if self.commands.get(command.pid) is command:
            del self.commands[command.pid]

    def make_room(self) -> None:
        """Forget the detached command that ended first, if too many are known."""
        detached = [command for command in self.commands.values() if command.detached]
        if len(detached) < MAX_KNOWN:
            return
        ended = [command for command in detached if not command.running]
        if not ended:
            raise Refused(operations.BUSY, f"{MAX_KNOWN} detached commands are running")
        self.remove(ended[0])
        ended[0].forget()


class Following(Task):
    """One channel's view of a command: the one that started it, or one that connected."""

    def __init__(self, command: Command, observer: Observer, drain: Drain | None, starter: bool) -> None:
        self._command = command
        self._observer = observer
        self._drain = drain
        self._starter = starter

    def on_event(self, name: str, fields: Mapping[str, object]) -> None:
        if name == "resize":
            self._command.resize(*pty.checked_size(fields))
        elif name == "signal":
            self._command.signal(int(fields["signal"]))  # type: ignore[call-overload]
        elif name == "stop":
            self._command.stop(float(fields["grace"]))  # type: ignore[arg-type]

    def on_data(self, stream: int, data: bytes) -> None:
        if self._drain is not None and stream == STDIN:
            self._drain.write(data)
        else:
            self._observer.channel.consume(len(data))

    def on_eof(self, stream: int) -> None:
        if self._drain is not None and stream == STDIN:
            self._drain.end(self._command.type_end if self._command.pty else None)

    def on_cancel(self) -> None:
        if self._starter and not self._command.detached:
            self._command.kill()
        else:
            self._observer.channel.fail(operations.CANCELLED, "no longer followed; the process goes on")

    def on_close(self) -> None:
        if self._drain is not None:
            self._drain.close()
        self._command.leave(self._observer)
        if self._starter and not self._command.detached:
            self._command.kill()  # nobody is left to hear of its end


# --- the operations -----------------------------------------------------------------------------------------------


def start(agent: Agent, channel: Channel, params: dict[str, object]) -> Task:
    table = _table(agent)
    if params["detached"]:
        table.make_room()
    command = Command(table, params)
    return Following(command, *command.start(channel, params), starter=True)


def connect(agent: Agent, channel: Channel, params: dict[str, object]) -> Task:
    command = _table(agent).find(params["pid"])
    observer = command.connect(channel, int(params["output"]))  # type: ignore[call-overload]
    return Following(command, observer, None, starter=False)


def list_processes(agent: Agent, channel: Channel, params: dict[str, object]) -> None:
    channel.finish({"processes": [command.describe() for command in _table(agent).commands.values()]})


def signal_process(agent: Agent, channel: Channel, params: dict[str, object]) -> None:
    _table(agent).find(params["pid"]).signal(int(params["signal"]))  # type: ignore[call-overload]
    channel.finish({})


def _table(agent: Agent) -> Table:
    table = agent.part(Table)
    assert isinstance(table, Table)
    return table
