"""A kernel's stdout and stderr: text that leaves line by line, and that user code cannot take away from the next run."""

from __future__ import annotations

import _thread
import fcntl
import io
import os
import sys
import time

from dayfly.agent.kernels.pipe import MARK

BUFFER = 64 * 1024
"""Bytes: what a pipe takes at once. A bigger write goes through in one piece."""


PROMPT_LINES = 200
"""Lines of a run that leave at once, each for itself. What prints more is a flood, and may wait ``FLUSH_SECONDS``."""

FLUSH_SECONDS = 0.002
"""How long a line of a flood may wait for others. Ten times the throughput; a crash loses what waited."""


class Stream(io.TextIOWrapper):
    """Text on ``fd``, which stays open whatever happens to the stream. Never raises for odd characters."""

    def __init__(self, fd: int, name: str) -> None:
        raw = io.FileIO(fd, "wb", closefd=False)
        raw.name = name
        super().__init__(io.BufferedWriter(raw, BUFFER), encoding="utf-8", errors="backslashreplace")
        self._prompt = PROMPT_LINES
        self._flushed = 0.0
        self._flusher = False
        self._written = self._shared = False

    @property
    def buffer(self) -> io.BufferedWriter:
        """Who has it may write past this stream at any time."""
        self._shared = True
        return super().buffer  # type: ignore[return-value]

    def begin(self) -> None:
        """A new run, or a new process."""
        self._prompt = PROMPT_LINES
        self._flusher = False

    def write(self, text: str) -> int:
        self._written = True
        count = super().write(text)
        self._written = True  # again: another thread may have flushed in between
        if "\n" in text:
            self._line_ended()
        return count

    def send(self) -> None:
        """Flush, if there may be something: the lock of an empty buffer reads the clock, 20 us inside gVisor."""
        if self._written or self._shared:
            self._written = False  # before the flush: what another thread writes meanwhile is for the next
            try:
                self.flush()
            except BaseException:
                self._written = True
                raise

    def _line_ended(self) -> None:
        if self._prompt > 0:
            self._prompt -= 1
            self.send()
            return
        now = time.monotonic()
        if now - self._flushed >= FLUSH_SECONDS:
            self._flushed = now
            self.send()
        elif not self._flusher:
            self._flusher = True
            self._start_flusher()

    def _start_flusher(self) -> None:
        try:
            _thread.start_new_thread(self._flush_later, ())
        except RuntimeError:  # no more threads
            self._flusher = False
            self.flush()

    def _flush_later(self) -> None:
        time.sleep(FLUSH_SECONDS)
        self._flusher = False  # before the flush: who writes from now on starts another
        try:
            self.flush()
        except (OSError, ValueError):  # closed meanwhile; whoever writes next hears of it
            return


class Streams:
    """Descriptors 1 and 2 and ``sys.stdout``, ``sys.stderr``, put right before every run and flushed after it."""

    def __init__(self) -> None:
        self._saved = {fd: _keep(fd) for fd in (1, 2)}
        self._identity = {fd: _identity(fd) for fd in (1, 2)}
        self._healthy = os.O_WRONLY | MARK
        self._make()
        os.register_at_fork(before=self.flush, after_in_child=self._begin)

    def _begin(self) -> None:
        self.stdout.begin()
        self.stderr.begin()

    def _make(self) -> None:
        self.stdin = open(0, encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
        self.stdout = Stream(1, "<stdout>")
        self.stderr = Stream(2, "<stderr>")

    def restore(self) -> None:
        """Before a run: whatever the last one closed, replaced or redirected is as it was."""
        for fd in (1, 2):
            if _flags(fd) != self._healthy:
                self._put_right(fd)
        if not (_usable(self.stdout) and _usable(self.stderr) and _usable(self.stdin)):
            self._make()
        self._begin()
        vars(sys).update(
            stdin=self.stdin, __stdin__=self.stdin, stdout=self.stdout, __stdout__=self.stdout,
            stderr=self.stderr, __stderr__=self.stderr,
        )  # fmt: skip

    def _put_right(self, fd: int) -> None:
        if _identity(fd) != self._identity[fd]:
            os.dup2(self._saved[fd], fd)
        if not os.get_blocking(fd):
            os.set_blocking(fd, True)

    def flush(self) -> None:
        """After a run: everything that it printed is on its way, also through streams of its own."""
        mine = (self.stdout, self.stderr)
        for stream in (*mine, *(one for one in (sys.stdout, sys.stderr) if one not in mine)):
            flush(stream)


def flush(stream: object) -> None:
    """What was written to it is on its way. The user's own may be closed, or no stream at all: that is the user's."""
    try:
        if isinstance(stream, Stream):
            stream.send()
        else:
            stream.flush()  # type: ignore[attr-defined]
    except Exception:
        pass


def _usable(stream: io.TextIOWrapper) -> bool:
    try:
        return not stream.closed
    except ValueError:  # detached from its buffer
        return False


def _keep(fd: int) -> int:
    """A copy where user code does not find it by accident: shells and servers use low numbers."""
    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 200)


def _flags(fd: int) -> int:
    try:
        return fcntl.fcntl(fd, fcntl.F_GETFL)
    except OSError:
        return -1


def _identity(fd: int) -> tuple[int, int]:
    try:
        found = os.fstat(fd)
    except OSError:
        return (-1, -1)
    return (found.st_dev, found.st_ino)
