"""Long work on files, each in a process of its own like the file worker's: trees, removals, watching.

The process may block, be slow, and be killed at any moment; the agent only passes on what it says, at the pace of the
channel. It says it in messages, one byte of kind and then content ("D") or JSON, on a socket that keeps messages apart.
Content for it comes as plain bytes on a second socket, until end of file. Sockets, since pipes of a process with the
user's effective uid could be opened through /proc.
"""

from __future__ import annotations

import os
from _socket import AF_UNIX, SO_SNDBUF, SOCK_SEQPACKET, SOCK_STREAM, SOL_SOCKET, socketpair

from dayfly.agent import problems
from dayfly.agent.paths import Finder
from dayfly.agent.session import Refused, Task
from dayfly.agent.streams import Drain
from dayfly.agent.supervisor import StartFailed, send_signal
from dayfly.wire import operations
from dayfly.wire.messages import dump_json, load_json
from dayfly.wire.operations import STDIN, STDOUT

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable
    from typing import Any

    from dayfly.agent.core import Agent
    from dayfly.agent.session import Channel

    Work = Callable[["Report", Finder, dict[str, Any]], dict[str, object]]
else:
    import _signal as signal  # see loop.py

CONTENT = b"D"
EVENT = b"E"
FINISH = b"F"
FAIL = b"X"

MAX_MESSAGE = 128 * 1024
"""Bytes of one message: few enough for the socket, many enough for 300 MB/s. An event is much smaller."""

_BUFFER = 1 << 20  # bytes of the socket: the process works on while the agent writes


class Report:
    """The process's side: what it may say, and what it is given. Every call may block."""

    def __init__(self, says: int, hears: int) -> None:
        self._says = says
        self.hears = hears

    def content(self, data: bytes | memoryview) -> None:
        view = memoryview(data)
        while view:
            os.writev(self._says, (CONTENT, view[: MAX_MESSAGE - 1]))
            view = view[MAX_MESSAGE - 1 :]

    def event(self, name: str, fields: dict[str, object]) -> None:
        self._note(EVENT, {"name": name, "fields": fields})

    def finish(self, value: dict[str, object]) -> None:
        self._note(FINISH, value)

    def fail(self, refused: Refused) -> None:
        self._note(FAIL, {"code": refused.code, "message": str(refused)[:1000]})

    def read(self, size: int) -> bytes:
        """Exactly ``size`` bytes, or fewer at the end of what is sent."""
        parts: list[bytes] = []
        while size:
            part = os.read(self.hears, min(size, _BUFFER))
            if not part:
                break
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def _note(self, kind: bytes, value: dict[str, object]) -> None:
        os.writev(self._says, (kind, dump_json(value)))


class Errand(Task):
    """The agent's side: one process, one channel."""

    def __init__(self, agent: Agent, channel: Channel, work: Work, params: dict[str, Any]) -> None:
        self._loop = agent.loop
        self._channel = channel
        hears, its_says = socketpair(AF_UNIX, SOCK_SEQPACKET)
        says, its_hears = socketpair(AF_UNIX, SOCK_STREAM)
        its_says.setsockopt(SOL_SOCKET, SO_SNDBUF, _BUFFER)
        self._fd = hears.detach()
        self._left = memoryview(b"")  # of a message of content
        self._drain = Drain(agent.loop, says.detach(), channel)
        os.set_blocking(self._fd, False)
        its = (its_says.fileno(), its_hears.fileno())
        try:
            self._child = agent.supervisor.fork_trusted(
                _process(agent, work, params, *its), keep=its, on_exit=_ignore_status
            )
        except StartFailed as error:
            self._close()
            raise problems.trouble(problems.OTHER, str(error)) from None
        finally:
            its_says.close()
            its_hears.close()
        self._more = channel.guarded(self._read)
        self._loop.on_readable(self._fd, self._more)

    def on_data(self, stream: int, data: bytes) -> None:
        if stream == STDIN:
            self._drain.write(data)
        else:
            self._channel.consume(len(data))

    def on_eof(self, stream: int) -> None:
        if stream == STDIN:
            self._drain.end()

    def on_cancel(self) -> None:
        self._channel.fail(operations.CANCELLED, "cancelled")

    def on_close(self) -> None:
        self._close()
        if self._child.status is None:
            send_signal(self._child.pid, signal.SIGKILL)

    def _close(self) -> None:
        self._drain.close()
        fd, self._fd = self._fd, -1
        if fd >= 0:
            self._loop.forget(fd)
            os.close(fd)

    def _read(self) -> None:
        """One message, as far as there is room for it: what is left of it waits, and with it all that follows."""
        if self._fd < 0:
            return
        room = self._channel.room()
        if not room:
            self._loop.not_readable(self._fd)
            self._channel.when_room(self._go_on)
        elif self._left:
            self._pass_on(room)
        else:
            self._receive()

    def _receive(self) -> None:
        try:
            message = os.read(self._fd, MAX_MESSAGE)
        except BlockingIOError:
            return
        if not message:
            self._channel.fail(problems.OTHER, "the work on files ended without an answer")
        elif message[:1] == CONTENT:
            self._left = memoryview(message)[1:]
            self._pass_on(self._channel.room())
        else:
            self._take(message[:1], message[1:])

    def _pass_on(self, room: int) -> None:
        self._channel.data(STDOUT, self._left[:room])
        self._left = self._left[room:]

    def _go_on(self) -> None:
        """There is room again, and perhaps a piece of a message of which the socket tells nothing any more."""
        while self._left and self._channel.room():
            self._pass_on(self._channel.room())
        if self._left:
            self._channel.when_room(self._go_on)
        elif self._fd >= 0:
            self._loop.on_readable(self._fd, self._more)

    def _take(self, kind: bytes, data: bytes) -> None:
        value: Any = load_json(data)
        if kind == EVENT:
            self._channel.event(value["name"], value["fields"])
        elif kind == FINISH:
            self._channel.finish(value)
        else:
            self._channel.fail(value["code"], value["message"])


def _process(agent: Agent, work: Work, params: dict[str, Any], says: int, hears: int) -> Callable[[], None]:
    user = agent.supervisor.user
    uid, gid = (user.uid, user.gid) if user else (os.geteuid(), os.getegid())
    finder = Finder(uid, gid, agent.supervisor.home)

    def run() -> None:
        os.umask(0)  # modes are given exactly
        report = Report(says, hears)
        try:
            report.finish(work(report, finder, params))
        except BrokenPipeError:  # the agent has lost interest
            return
        except Refused as error:
            report.fail(error)
        except OSError as error:
            report.fail(problems.translated(error))
        except Exception as error:
            report.fail(problems.trouble(problems.OTHER, f"{type(error).__name__}: {error!s:.300}"))

    return run


def _ignore_status(status: int) -> None:
    """What it said, or that it said nothing, is all there is to know."""
