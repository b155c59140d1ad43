"""Programs inside: run one, or start one and talk to it."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Literal, NamedTuple, Self

from dayfly.client.arguments import bytes_of, environment, whole_number
from dayfly.client.backend import Backend, ProcessHandle
from dayfly.client.callbacks import ProcessCallbacks
from dayfly.client.content import PIECE
from dayfly.client.names import SandboxPath, path_text
from dayfly.client.signals import SIGKILL, Signal, signal_number
from dayfly.client.worker import Worker
from dayfly.errors import InputError, SandboxEnded
from dayfly.limits import MIB
from dayfly.spec import ProcessInfo, ProcessResult

__all__ = ["AsyncCommands", "AsyncProcess", "Command", "Output"]

Command = str | Sequence[str]
"""A shell line for bash, or a program and its arguments, which no shell looks at."""

MAX_UNREAD = 8 * MIB
"""Bytes of a process's output that wait here for ``output()``; then the process is slowed down to its reader's pace."""


_MOST_CELLS = 65535  # what a terminal's size can hold, each way


_MOST_PID = 2**31 - 1  # Linux's pid_t


class Output(NamedTuple):
    stream: Literal["stdout", "stderr"]
    data: bytes


class AsyncCommands:
    """``sandbox.commands``. Raises ``SandboxEnded`` or ``InputError``; how a command ended is in its ``ProcessResult``."""

    def __init__(self, sandbox: object, current: Callable[[], Backend]) -> None:
        self._sandbox = sandbox  # kept, so that the sandbox lives as long as this is used
        self._current = current

    @property
    def _backend(self) -> Backend:
        return self._current()  # after a pause it is another one

    async def run(
        self,
        command: Command,
        *,
        env: Mapping[str, str] | None = None,
        cwd: SandboxPath | None = None,
        input: str | bytes | None = None,  # the name that subprocess.run gave it
        timeout: float | None = None,
        output: int | None = None,
        on_stdout: Callable[[bytes], object] | None = None,
        on_stderr: Callable[[bytes], object] | None = None,
    ) -> ProcessResult:
        """Run a command to its end. ``timeout`` and ``output`` as for ``run_code``; so are the callbacks, with bytes.

        ``cwd`` defaults to the home, ``input`` to no input at all. A non-zero exit is in the result, not raised.
        Cancelling stops the command and all that it started. Raises ``CannotStart`` if the program does not exist.
        """
        data = None if input is None else bytes_of("input", input)
        async with Worker("callbacks") as worker:
            sink = ProcessCallbacks(worker, on_stdout, on_stderr)
            handle = await self._backend.start_process(
                _argv(command),
                env=environment(env),
                cwd=_cwd(cwd),
                stdin=data is not None,
                timeout=timeout,
                output=output,
                sink=sink if sink else None,
            )
            try:
                return await _finish(handle, data)
            except asyncio.CancelledError:
                await _stop(handle)
                raise

    async def start(
        self,
        command: Command,
        *,
        env: Mapping[str, str] | None = None,
        cwd: SandboxPath | None = None,
        pty: tuple[int, int] | None = None,
        stdin: bool = True,
        detached: bool = False,
        timeout: float | None = None,
        output: int | None = None,
    ) -> AsyncProcess:
        """Start a command and return at once. ``pty`` are the rows and columns of a terminal for it.

        A ``detached`` one has no timeout unless one is given, may be left with ``detach`` and found again with
        ``connect``; another one is stopped when it is left. Raises ``CannotStart`` if the program does not exist.
        """
        follower = _Follower()
        handle = await self._backend.start_process(
            _argv(command),
            env=environment(env),
            cwd=_cwd(cwd),
            pty=None if pty is None else _terminal(pty),
            stdin=stdin,
            detached=detached,
            timeout=timeout,
            output=output,
            sink=follower,
        )
        return AsyncProcess(self._sandbox, handle, follower)

    async def connect(self, pid: int, *, output: int | None = None) -> AsyncProcess:
        """Attach to a process that was started before, running or ended; the last of its output is repeated.

        Raises ``NoSuchProcess``.
        """
        pid = whole_number("pid", pid, least=1, most=_MOST_PID)
        follower = _Follower()
        handle = await self._backend.connect_process(pid, output=output, sink=follower)
        return AsyncProcess(self._sandbox, handle, follower)

    async def list(self) -> Sequence[ProcessInfo]:
        """What was started here, running or ended. What it says are the sandbox's claims."""
        return await self._backend.list_processes()

    async def send_signal(self, pid: int, signal: Signal) -> None:
        """Send a signal to a process that was started here and to its group: ``"TERM"``, ``"SIGTERM"`` or a number.

        Raises ``NoSuchProcess``, or ``InputError`` for what is no signal.
        """
        await self._backend.signal_process(whole_number("pid", pid, least=1, most=_MOST_PID), signal_number(signal))


class AsyncProcess:
    """A command under way: write to it, read from it, wait for it. Leaving its ``async with`` block kills it."""

    def __init__(self, sandbox: object, handle: ProcessHandle, follower: _Follower) -> None:
        self._sandbox = sandbox
        self._handle = handle
        self._follower = follower
        self._detached = False
        self._ending = asyncio.ensure_future(self._end())
        self._ending.add_done_callback(_look)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} pid={self.pid} {'ended' if self._ending.done() else 'running'}>"

    @property
    def pid(self) -> int:
        """Its number inside."""
        return self._handle.pid

    async def write_stdin(self, data: str | bytes) -> None:
        """Returns when the sandbox has taken it all, or the process has ended."""
        content = bytes_of("data", data)
        with contextlib.suppress(BrokenPipeError):  # it has ended; how is told by wait()
            await _write(self._handle, content)

    async def close_stdin(self) -> None:
        """End of file for the process. Idempotent."""
        await self._handle.close_stdin()

    async def resize(self, rows: int, columns: int) -> None:
        """A new size for its terminal."""
        await self._handle.resize(*_terminal((rows, columns)))

    async def send_signal(self, signal: Signal) -> None:
        """Send a signal to it and its group: ``"TERM"``, ``"SIGTERM"`` or a number."""
        await self._handle.send_signal(signal_number(signal))

    async def kill(self) -> None:
        """SIGKILL for it and its group."""
        await self._handle.send_signal(SIGKILL)

    async def detach(self) -> None:
        """Leave it. One that was started ``detached`` goes on; any other is stopped."""
        self._detached = True
        self._follower.discard()
        await self._handle.detach()

    async def output(self) -> AsyncIterator[Output]:
        """What it prints, as it comes, until it ends. For one reader."""
        while (item := await self._follower.next()) is not None:
            yield item

    async def wait(self) -> ProcessResult:
        """How it ended. Output that nobody is reading is no longer kept for ``output()``; the result has it, capped.

        Cancelling the wait leaves the process alone.
        """
        if not self._follower.read_by_somebody:
            self._follower.discard()
        return await asyncio.shield(self._ending)

    async def _end(self) -> ProcessResult:
        try:
            return await self._handle.wait()
        except asyncio.CancelledError:
            if self._detached:
                raise InputError(
                    "the process was left with detach", remedy=f"commands.connect({self.pid}) finds it again"
                ) from None
            raise
        finally:
            await self._follower.end()

    async def close(self) -> None:
        """Kill it if it still runs, and wait for its end. A ``detached`` one is left with ``detach`` instead."""
        self._follower.discard()
        if not self._ending.done():
            with contextlib.suppress(SandboxEnded):
                await self.kill()
            await asyncio.wait({self._ending})

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class _Follower:
    """A ``ProcessSink`` that keeps output for one reader."""

    def __init__(self) -> None:
        self.read_by_somebody = False
        self._items: deque[Output] = deque()
        self._size = 0
        self._over = False
        self._discarding = False
        self._changed = asyncio.Condition()

    async def stdout(self, data: bytes) -> None:
        await self._put(Output("stdout", data))

    async def stderr(self, data: bytes) -> None:
        await self._put(Output("stderr", data))

    async def _put(self, item: Output) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: self._discarding or self._size < MAX_UNREAD)
            if not self._discarding:
                self._items.append(item)
                self._size += len(item.data)
                self._changed.notify_all()

    async def next(self) -> Output | None:
        self.read_by_somebody = True
        async with self._changed:
            await self._changed.wait_for(lambda: self._items or self._over or self._discarding)
            if not self._items:
                return None
            item = self._items.popleft()
            self._size -= len(item.data)
            self._changed.notify_all()
            return item

    async def end(self) -> None:
        async with self._changed:
            self._over = True
            self._changed.notify_all()

    def discard(self) -> None:
        """Keep nothing any more, so that a process never waits for a reader who does not come."""
        self._discarding = True
        self._items.clear()
        self._size = 0
        _notify(self._changed)


def _notify(condition: asyncio.Condition) -> None:
    async def notify() -> None:
        async with condition:
            condition.notify_all()

    task = asyncio.ensure_future(notify())
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)


_tasks: set[asyncio.Future[None]] = set()  # asyncio itself keeps only weak references


def _look(ending: asyncio.Future[ProcessResult]) -> None:
    """An end that nobody waits for is not a mistake that asyncio should complain of."""
    if not ending.cancelled():
        ending.exception()


_Bytes = bytes | bytearray | memoryview


async def _finish(handle: ProcessHandle, data: _Bytes | None) -> ProcessResult:
    """Write the input beside waiting: a command that prints before it reads must not block both sides."""
    if data is None:
        return await handle.wait()
    writing = asyncio.ensure_future(_feed(handle, data))
    try:
        return await handle.wait()
    finally:
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)


async def _feed(handle: ProcessHandle, data: _Bytes) -> None:
    with contextlib.suppress(BrokenPipeError, SandboxEnded):  # it does not want it all; the result says how it ended
        await _write(handle, data)
        await handle.close_stdin()


async def _write(handle: ProcessHandle, data: _Bytes) -> None:
    view = memoryview(data).cast("B") if len(data) else memoryview(b"")
    for start in range(0, len(view), PIECE):
        await handle.write_stdin(bytes(view[start : start + PIECE]))


async def _stop(handle: ProcessHandle) -> None:
    with contextlib.suppress(SandboxEnded):
        await handle.send_signal(SIGKILL)
        await handle.wait()


def _argv(command: Command) -> list[str]:
    if isinstance(command, str):
        return ["/bin/bash", "-c", command]
    if isinstance(command, (bytes, bytearray)) or not isinstance(command, Sequence):
        raise InputError(f"a command is a shell line or a sequence of texts, not {type(command).__name__}")
    return list(command)


def _terminal(size: tuple[int, int]) -> tuple[int, int]:
    if not isinstance(size, Sequence) or isinstance(size, (str, bytes)) or len(size) != 2:
        raise InputError(f"a terminal's size is (rows, columns), not {size!r:.60}")
    rows, columns = size
    return whole_number("rows", rows, least=1, most=_MOST_CELLS), whole_number(
        "columns", columns, least=1, most=_MOST_CELLS
    )


def _cwd(cwd: SandboxPath | None) -> str | None:
    return None if cwd is None else path_text(cwd)
