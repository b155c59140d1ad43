"""File operations as tasks. The worker finds, opens and renames; the bytes of content go straight between the stream and
the descriptor that it handed over, so there is no copy in between.
"""

from __future__ import annotations

import os
import stat

from dayfly.agent import problems
from dayfly.agent.clerk import Clerk
from dayfly.agent.core import Agent
from dayfly.agent.session import BadRequest, Channel, Refused, Task
from dayfly.agent.streams import MAX_CHUNK
from dayfly.wire import operations
from dayfly.wire.operations import STDIN, STDOUT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Params = dict[str, Any]

HOW = ("replace", "append", "create")


def stat_path(agent: Agent, channel: Channel, params: Params) -> Task:
    return asked(agent, channel, "stat", params)


def list_directory(agent: Agent, channel: Channel, params: Params) -> Task:
    _count(params["limit"])
    return asked(agent, channel, "list", params)


def make_directory(agent: Agent, channel: Channel, params: Params) -> Task:
    return asked(agent, channel, "mkdir", params)


def rename(agent: Agent, channel: Channel, params: Params) -> Task:
    return asked(agent, channel, "rename", params)


def read(agent: Agent, channel: Channel, params: Params) -> Task:
    _count(params["offset"])
    if params.get("length") is not None:
        _count(params["length"])
    task = Reading(agent, channel, params["offset"], params.get("length"))
    _clerk(agent).ask("read", {"path": params["path"]}, task.opened)
    return task


def write(agent: Agent, channel: Channel, params: Params) -> Task:
    if params["how"] not in HOW:
        raise BadRequest(f"how is one of {', '.join(HOW)}")
    task = Writing(agent, channel)
    _clerk(agent).ask("write", {**params, "write": _clerk(agent).new_write()}, task.opened)
    return task


def asked(agent: Agent, channel: Channel, op: str, params: Params) -> Task:
    def answer(value: dict[str, Any] | None, refused: Refused | None, handle: int) -> None:
        if refused is not None:
            channel.fail(refused.code, str(refused))
        else:
            channel.finish(value or {})

    _clerk(agent).ask(op, params, answer)
    return Task()


def _clerk(agent: Agent) -> Clerk:
    clerk = agent.part(Clerk)
    assert isinstance(clerk, Clerk)
    return clerk


def _count(value: object) -> None:
    if not isinstance(value, int) or value < 0 or value >= 1 << 62:
        raise BadRequest("not a number of bytes or entries")


class Reading(Task):
    """Sends a file's content: what there was when it was opened, so that one that keeps growing comes to an end."""

    def __init__(self, agent: Agent, channel: Channel, offset: int, length: int | None) -> None:
        self._loop = agent.loop
        self._channel = channel
        self._offset = offset
        self._length = length
        self._left = 0
        self._sent = 0
        self._handle = -1

    def opened(self, value: dict[str, Any] | None, refused: Refused | None, handle: int) -> None:
        if refused is not None:
            self._channel.fail(refused.code, str(refused))
            return
        self._handle = handle
        if not self._channel.open:
            self.on_close()
        elif not _is_regular(handle):
            self._channel.fail(problems.NOT_REGULAR, "not a regular file")
        else:
            there = max(0, os.fstat(handle).st_size - self._offset)
            self._left = there if self._length is None else min(there, self._length)
            self._more = self._channel.guarded(self._send)
            self._more()

    def _send(self) -> None:
        if self._handle < 0:
            return
        room = min(self._channel.room(), MAX_CHUNK, self._left)
        if not room and self._left:
            self._channel.when_room(self._more)
            return
        data = _content(self._handle, room, self._offset)
        if not data:
            self._channel.finish({"size": self._sent})
            return
        self._channel.data(STDOUT, data)
        self._offset += len(data)
        self._sent += len(data)
        self._left -= len(data)
        self._loop.call_soon(self._more)

    def on_cancel(self) -> None:
        self._channel.fail(operations.CANCELLED, "cancelled")

    def on_close(self) -> None:
        handle, self._handle = self._handle, -1
        if handle >= 0:
            os.close(handle)


class Writing(Task):
    """Takes a file's content. Until the worker has committed, nothing shows under the file's name."""

    def __init__(self, agent: Agent, channel: Channel) -> None:
        self._clerk = _clerk(agent)
        self._channel = channel
        self._handle = -1
        self._number = 0  # of the write in the worker; 0: none
        self._early: list[bytes] = []  # what came before the file was open; bounded by the window
        self._size = 0
        self._ended = False

    def opened(self, value: dict[str, Any] | None, refused: Refused | None, handle: int) -> None:
        if refused is not None or value is None:
            if refused is not None:
                self._channel.fail(refused.code, str(refused))
            return
        self._handle = handle
        self._number = value["write"]
        self._clerk.write_opened(self._number, self._lost)
        if not self._channel.open:
            self.on_close()
            return
        self._channel.guarded(self._begin)()

    def _lost(self, refused: Refused) -> None:
        """The worker died, and with it what it knew of this write."""
        self._number = 0
        self._channel.fail(refused.code, str(refused))

    def _begin(self) -> None:
        if not _is_regular(self._handle):
            raise problems.trouble(problems.NOT_REGULAR)
        self._channel.raise_window()
        early, self._early = self._early, []
        for data in early:
            self._put(data)
        if self._ended:
            self._commit()

    def on_data(self, stream: int, data: bytes) -> None:
        if stream != STDIN:
            raise BadRequest("content comes on stream 0")
        if self._handle < 0:
            self._early.append(data)
        else:
            self._put(data)

    def _put(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._handle, view) :]
        except OSError as error:
            raise problems.translated(error) from None
        self._size += len(data)
        self._channel.consume(len(data))

    def on_eof(self, stream: int) -> None:
        self._ended = True
        if self._handle >= 0:
            self._commit()

    def _commit(self) -> None:
        number, self._number = self._number, 0
        self._clerk.write_ends(number)
        self._clerk.ask("commit", {"write": number}, self._committed)

    def _committed(self, value: dict[str, Any] | None, refused: Refused | None, handle: int) -> None:
        if refused is not None:
            self._channel.fail(refused.code, str(refused))
        else:
            self._channel.finish({"size": self._size})

    def on_cancel(self) -> None:
        if not self._ended:  # a write that is being committed has its answer in a moment
            self._channel.fail(operations.CANCELLED, "cancelled")

    def on_close(self) -> None:
        handle, self._handle = self._handle, -1
        number, self._number = self._number, 0
        if handle >= 0:
            os.close(handle)
        if number:
            self._clerk.write_ends(number)
            self._clerk.ask("abort", {"write": number}, _ignore_answer)


def _content(handle: int, size: int, offset: int) -> bytes:
    try:
        return os.pread(handle, size, offset) if size else b""
    except OSError as error:
        raise problems.translated(error) from None


def _is_regular(handle: int) -> bool:
    return handle >= 0 and stat.S_ISREG(os.fstat(handle).st_mode)


def _ignore_answer(value: dict[str, Any] | None, refused: Refused | None, handle: int) -> None:
    """Given up: nobody waits."""
