"""Pid 1's side of the file worker: asks it one thing at a time, starts it when needed, lets it go when idle."""

from __future__ import annotations

import os
from _socket import AF_UNIX, MSG_CMSG_CLOEXEC, SCM_RIGHTS, SO_SNDBUF, SOCK_SEQPACKET, SOL_SOCKET, socketpair

from dayfly.agent import problems
from dayfly.agent.core import Agent
from dayfly.agent.session import Refused
from dayfly.agent.supervisor import StartFailed
from dayfly.agent.worker import MAX_MESSAGE, finder_for, serve
from dayfly.wire.messages import dump_json, load_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Callable
    from typing import Any

    Answer = Callable[["dict[str, Any] | None", "Refused | None", int], None]

IDLE_SECONDS = 10.0
"""How long the worker stays without work: it costs some 2 MB, and 10 ms to start again."""

_RIGHTS_SPACE = 64  # bytes of ancillary data: one descriptor and its header


class Clerk:
    """Requests in order, one under way at a time."""

    def __init__(self, agent: Agent) -> None:
        self._loop = agent.loop
        self._supervisor = agent.supervisor
        self._control: socket | None = None
        self._queue: list[tuple[bytes, Answer]] = []
        self._under_way: Answer | None = None
        self._writes: dict[int, Callable[[Refused], None]] = {}  # unfinished, by number: whom to tell of their loss
        self._last_write = 0
        self._used = 0  # requests so far
        self._resting = False  # a timer runs

    def ask(self, op: str, params: dict[str, Any], answer: Answer) -> None:
        """``answer(value, None, descriptor or -1)`` or ``answer(None, refused, -1)`` comes later. It owns the descriptor."""
        self._queue.append((dump_json({"op": op, "params": params}), answer))
        self._used += 1
        self._next()

    def _next(self) -> None:
        if self._under_way is not None or not self._queue:
            return
        try:
            control = self._control or self._start()
        except (StartFailed, OSError) as error:
            self._refuse_all(str(error))
            return
        request, self._under_way = self._queue.pop(0)
        try:
            control.send(request)  # never blocks: the worker has read all that came before
        except OSError as error:
            self._lost(str(error))

    def _start(self) -> socket:
        ours, theirs = socketpair(AF_UNIX, SOCK_SEQPACKET)
        for end in (ours, theirs):
            end.setsockopt(SOL_SOCKET, SO_SNDBUF, MAX_MESSAGE)
        user = self._supervisor.user
        uid, gid = (user.uid, user.gid) if user else (os.geteuid(), os.getegid())
        home = self._supervisor.home

        def work() -> None:
            from dayfly.agent.files import Files

            serve(Files(finder_for(uid, gid, home)), theirs)

        try:
            self._supervisor.fork_trusted(work, keep=(theirs.fileno(),), on_exit=_ignore_status)
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        ours.setblocking(False)
        self._control = ours
        self._loop.on_readable(ours.fileno(), self._readable)
        return ours

    def _readable(self) -> None:
        assert self._control is not None
        try:
            data, rights, _, _ = self._control.recvmsg(MAX_MESSAGE, _RIGHTS_SPACE, MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            return
        except OSError as error:
            self._lost(str(error))
            return
        handle = _descriptor(rights)
        if not data:
            self._lost("the file worker ended")
            return
        answer, self._under_way = self._under_way, None
        message: Any = load_json(data)
        if answer is None:
            _close(handle)
        elif "value" in message:
            answer(message["value"], None, handle)
        else:
            answer(None, Refused(message["problem"], message["detail"]), -1)
        self._next()
        self._rest()

    def _rest(self) -> None:
        if self._under_way is None and not self._resting:
            self._resting = True
            used = self._used
            self._loop.call_later(IDLE_SECONDS, lambda: self._rested(used))

    def _rested(self, used: int) -> None:
        """Nothing asked meanwhile? At the end of its socket the worker leaves."""
        self._resting = False
        if used != self._used or self._writes or self._under_way is not None:
            self._rest()
        else:
            self._forget_worker()

    def _forget_worker(self) -> None:
        control, self._control = self._control, None
        if control is not None:
            self._loop.forget(control.fileno())
            control.close()

    def _lost(self, why: str) -> None:
        self._forget_worker()
        answer, self._under_way = self._under_way, None
        writes, self._writes = self._writes, {}
        refused = problems.trouble(problems.OTHER, why)
        if answer is not None:
            answer(None, refused, -1)
        for lost in writes.values():
            lost(refused)
        self._next()

    def _refuse_all(self, why: str) -> None:
        queue, self._queue = self._queue, []
        for _, answer in queue:
            answer(None, problems.trouble(problems.OTHER, f"no file worker: {why}"), -1)

    def new_write(self) -> int:
        """A number for a write, used once: so none of a worker that died is taken for one of the next."""
        self._last_write += 1
        return self._last_write

    def write_opened(self, number: int, lost: Callable[[Refused], None]) -> None:
        """Unfinished writes live in the worker: it stays while there are any, and ``lost`` is called if it dies."""
        self._writes[number] = lost

    def write_ends(self, number: int) -> None:
        """Its commit or abort is asked for next."""
        self._writes.pop(number, None)


def _descriptor(rights: list[tuple[int, int, bytes]]) -> int:
    for level, kind, data in rights:
        if level == SOL_SOCKET and kind == SCM_RIGHTS and len(data) >= 4:
            return int.from_bytes(data[:4], "little")
    return -1


def _close(handle: int) -> None:
    if handle >= 0:
        os.close(handle)


def _ignore_status(status: int) -> None:
    """The end of its socket says it all."""
