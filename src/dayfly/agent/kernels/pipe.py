"""What a kernel prints, on its way from a pipe to its context."""

from __future__ import annotations

import fcntl
import os
import select
import time

from dayfly.agent.streams import UNLIMITED, waiting_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dayfly.agent.kernels.kernel import Kernel
    from dayfly.agent.loop import Loop

READ_SIZE = 256 * 1024
"""Bytes taken from a pipe at once: what it holds."""

DROP = 16 * 1024
"""Bytes below which a read is small."""

PATIENT_DROPS = 50
"""Small reads in a row, each less than ``REST_SECONDS`` after the other, that are taken as they come."""

REST_SECONDS = 0.002
"""For small writes to gather, and what a flood may be late. A full pipe then still passes 128 MB/s."""


MARK = os.O_NOATIME
"""A flag of the pipes that kernels print to: it means nothing for a pipe, and nothing else that is put in the place of one has
it. So one system call tells a kernel that a descriptor is its pipe still, and blocks."""


class Glance:
    """Which of a kernel's pipes hold something, in one system call. It never waits: ``null``, an open /dev/null, is always ready.
    (Asked not to wait, Python reads the clock first.)"""

    __slots__ = ("_fds", "_null", "_poll")

    def __init__(self, null: int) -> None:
        self._null = null
        self._fds: list[int] = []
        self._poll = select.poll()

    def at(self, pipes: list[Pipe]) -> None:
        """Note in each whether it is empty."""
        fds = [one.fd for one in pipes]
        if fds != self._fds:
            self._watch(fds)
        found = {fd for fd, _ in self._poll.poll()}
        for one in pipes:
            one.empty = one.fd not in found

    def _watch(self, fds: list[int]) -> None:
        """Those that are closed have no number any more."""
        self._fds = fds
        self._poll = select.poll()
        for fd in (self._null, *fds):
            if fd >= 0:
                self._poll.register(fd, select.POLLIN)


def mark(fd: int) -> None:
    """By the agent, who has made the pipe: nobody else may. Where it is refused, ``Streams`` ask more every time."""
    try:
        fcntl.fcntl(fd, fcntl.F_SETFL, os.O_WRONLY | MARK)
    except OSError:
        return


class Pipe:
    """One of the kernel's outputs. Other processes hold its writing end too, so that its end says nothing."""

    __slots__ = (
        "_drops",
        "_last",
        "_loop",
        "_readable",
        "_resting",
        "_sink",
        "_stream",
        "_watching",
        "empty",
        "fd",
        "left",
    )

    def __init__(self, kernel: Kernel, loop: Loop, fd: int, stream: int) -> None:
        self.fd = fd
        self.empty = False  # of all that was printed before the kernel said the last thing
        self.left = UNLIMITED  # bytes to read before it counts as settled
        self._loop = loop
        self._stream = stream
        self._sink = kernel.sink
        self._readable = kernel.guarded(self.read)
        self._watching = False
        self._resting = False
        self._drops = 0  # reads in a row that brought little
        self._last = 0.0
        os.set_blocking(fd, False)
        self.resume()

    @property
    def settled(self) -> bool:
        return self.fd < 0 or self.left == 0

    def settle(self) -> None:
        """From now on only what is in the pipe already."""
        self._resting = False
        if self.fd >= 0:
            self.left = 0 if self.empty else waiting_bytes(self.fd)
            self.resume()

    def unsettle(self) -> None:
        self.left = UNLIMITED
        self.resume()

    def resume(self) -> None:
        if self.fd >= 0 and not self._watching and not self._resting and self.left and self._sink.room():
            self._watching = True
            self._loop.on_readable(self.fd, self._readable)

    def read(self) -> None:
        """What is there and wanted."""
        room = min(self._sink.room(), self.left, READ_SIZE)
        data = self._data(room) if room else None
        if data == b"":
            self.close()
        elif data is not None:
            self.left = self.left if self.left == UNLIMITED else self.left - len(data)
            self._sink.take(self._stream, data)
            self._rest_if_it_drips(len(data))
        if self.fd >= 0 and (not self.left or not self._sink.room()):
            self._pause()
        if self.settled:
            self._sink.on_settled()

    def _rest_if_it_drips(self, size: int) -> None:
        """Thousands of small writes are left to gather: each read costs more than ten of them."""
        now = time.monotonic()
        self._drops = self._drops + 1 if size < DROP and now - self._last < REST_SECONDS else 0
        self._last = now
        if self._drops > PATIENT_DROPS and self.left == UNLIMITED:
            self._pause()
            self._resting = True
            self._loop.call_later(REST_SECONDS, self._rested)

    def _rested(self) -> None:
        self._resting = False
        self._last = time.monotonic()
        self.resume()

    def _data(self, size: int) -> bytes | None:
        try:
            return os.read(self.fd, size)
        except BlockingIOError:
            self.empty = True
            return None

    def _pause(self) -> None:
        if self._watching:
            self._watching = False
            self._loop.not_readable(self.fd)

    def close(self) -> None:
        if self.fd >= 0:
            fd, self.fd = self.fd, -1
            self._loop.forget(fd)
            os.close(fd)
