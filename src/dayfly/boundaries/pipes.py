"""The one byte stream of a cell, over a pair of pipes, for a running asyncio loop."""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context, copy_context
from dataclasses import dataclass
from typing import Any

from dayfly.boundaries import forks

__all__ = ["ChildEnds", "PipeStream", "open_stream"]

PIPE_SIZE = 1 << 20
"""Bytes that the kernel buffers in each direction: what it allows without privilege. 64 KiB would halve transfers."""

SMALL_READ = 64 * 1024
"""Bytes asked of a quiet stream. Asking for a megabyte each time makes Python map and unmap one for every message."""

FAIR_BYTES = 4 << 20
"""Bytes moved without waiting after which other tasks get their turn: some 2 ms at the speed of a pipe."""

MAX_BUFFERS = 64
"""Buffers handed to the kernel in one call; it takes 1024 at most, and the pipe is full long before."""


@dataclass(frozen=True)
class ChildEnds:
    """The ends that the cell's first process gets as its standard input and output."""

    stdin: int
    stdout: int

    def close(self) -> None:
        forks.close(self.stdin)
        forks.close(self.stdout)


def open_stream() -> tuple[PipeStream, ChildEnds]:
    """A stream and the descriptors to give to the child. Raises ``OSError`` when the process has no descriptors left."""
    child_in, ours_out = _pipe()
    try:
        ours_in, child_out = _pipe()
    except OSError:
        forks.close(child_in)
        forks.close(ours_out)
        raise
    return PipeStream(ours_in, ours_out), ChildEnds(child_in, child_out)


def _pipe() -> tuple[int, int]:
    read, write = os.pipe()
    with suppress(OSError):  # an ordinary user's share of pipe memory is used up: the default size works, slower
        fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, PIPE_SIZE)
    return forks.keep_from_children(read), forks.keep_from_children(write)


class PipeStream:
    """A ``CellStream`` that owns two descriptors. One reader and one writer task at a time, on one loop."""

    def __init__(self, read_fd: int, write_fd: int) -> None:
        os.set_blocking(read_fd, False)
        os.set_blocking(write_fd, False)
        self._reading = _End(read_fd, writing=False)
        self._writing = _End(write_fd, writing=True)
        self._size = SMALL_READ
        self._drained = False  # the last read took all that there was

    def __repr__(self) -> str:
        return f"<PipeStream {'closed' if self._reading.closed else 'open'}>"

    async def read(self, limit: int) -> bytes:
        if limit < 1:
            raise ValueError(f"limit must be positive: {limit}")
        end = self._reading
        await end.be_fair()
        while not end.closed:
            size = min(limit, self._size)
            if self._drained:
                self._drained = False
                await end.ready()
                continue
            try:
                data = os.read(end.fd, size)
            except BlockingIOError:
                self._drained = True
                continue
            self._drained = 0 < len(data) < size
            self._size = PIPE_SIZE if len(data) == size else SMALL_READ
            end.moved += len(data)
            return data
        return b""

    async def write(self, *buffers: bytes | bytearray | memoryview) -> None:
        end = self._writing
        views = [memoryview(buffer).cast("B") for buffer in buffers if len(buffer)]
        first = 0
        while first < len(views):
            await end.be_fair()
            if end.closed:
                raise BrokenPipeError("the stream is closed")
            try:
                done = os.writev(end.fd, views[first : first + MAX_BUFFERS])
            except BlockingIOError:
                await end.ready()
                continue
            end.moved += done
            while first < len(views) and done >= len(views[first]):
                done -= len(views[first])
                first += 1
            if done:
                views[first] = views[first][done:]

    def write_now(self, *buffers: bytes | bytearray | memoryview) -> int:
        end = self._writing
        if end.closed:
            raise BrokenPipeError("the stream is closed")
        try:
            return os.writev(end.fd, buffers[:MAX_BUFFERS])
        except BlockingIOError:
            return 0

    def close(self) -> None:
        self._writing.close()
        self._reading.close()


class _Prompt(asyncio.Future[None]):
    """Whoever waits for it can go on in the very turn of the loop in which it is set, and not in the next one, 20 us later."""

    _waiter: tuple[Callable[[asyncio.Future[None]], object], Context | None] | None = None

    def add_done_callback(self, fn: Callable[[Any], object], /, *, context: Context | None = None) -> None:
        self._waiter = fn, context
        super().add_done_callback(fn, context=context)

    def go_on(self) -> None:
        """Set it. Between tasks only: the one that waits takes its next step here. Harmless when it is set or cancelled."""
        if self.done():
            return
        waiter, self._waiter = self._waiter, None
        if waiter is None:
            self.set_result(None)
            return
        step, context = waiter
        self.remove_done_callback(step)
        self.set_result(None)
        (copy_context() if context is None else context).run(step, self)


class _End:
    """One descriptor: who waits for it, and how much it moved without waiting. Used on one loop."""

    def __init__(self, fd: int, *, writing: bool) -> None:
        self.fd = fd
        self.moved = 0
        self._writing = writing
        self._waiting: _Prompt | None = None
        self._loop: asyncio.AbstractEventLoop | None = None  # that watches the descriptor

    @property
    def closed(self) -> bool:
        return self.fd < 0

    async def be_fair(self) -> None:
        if self.moved >= FAIR_BYTES:
            self.moved = 0
            await asyncio.sleep(0)

    async def ready(self) -> None:
        """Wait until the descriptor can be used, or is closed by us."""
        self.moved = 0
        self._waiting = waiting = _Prompt(loop=asyncio.get_running_loop())
        if self._loop is None:
            self._loop = waiting.get_loop()
            (self._loop.add_writer if self._writing else self._loop.add_reader)(self.fd, self._can_be_used)
        try:
            await waiting
        finally:
            if self._waiting is waiting:
                self._waiting = None

    def _can_be_used(self) -> None:
        """The descriptor stays watched for who waits next, which spares two system calls for every message."""
        if self._waiting is None:
            self._forget()
        else:
            self._waiting.go_on()

    def _forget(self) -> None:
        loop, self._loop = self._loop, None
        if loop is not None and not loop.is_closed():
            (loop.remove_writer if self._writing else loop.remove_reader)(self.fd)

    def close(self) -> None:
        if self.closed:
            return
        self._forget()
        if self._waiting is not None:
            _wake(self._waiting)
        fd, self.fd = self.fd, -1
        forks.close(fd)


def _wake(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)
