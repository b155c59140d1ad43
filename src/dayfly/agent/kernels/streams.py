"""A kernel's stdout and stderr: text that leaves line by line, and that user code cannot take away from the next run."""

from __future__ import annotations

import io
import os
import sys

BUFFER = 64 * 1024
"""Bytes: what a pipe takes at once. A bigger write goes through in one piece."""


def open_stream(fd: int, name: str) -> io.TextIOWrapper:
    """A new text stream on ``fd``, which stays open whatever happens to the stream. Never raises for odd characters."""
    raw = io.FileIO(fd, "wb", closefd=False)
    raw.name = name
    return io.TextIOWrapper(
        io.BufferedWriter(raw, BUFFER), encoding="utf-8", errors="backslashreplace", line_buffering=True
    )


class Streams:
    """Descriptors 1 and 2 and ``sys.stdout``, ``sys.stderr``, put right before every run and flushed after it."""

    def __init__(self) -> None:
        self._saved = {fd: _keep(fd) for fd in (1, 2)}
        self._identity = {fd: _identity(fd) for fd in (1, 2)}
        self._make()

    def _make(self) -> None:
        self.stdin = open(0, encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
        self.stdout = open_stream(1, "<stdout>")
        self.stderr = open_stream(2, "<stderr>")

    def restore(self) -> None:
        """Before a run: whatever the last one closed, replaced or redirected is as it was."""
        for fd in (1, 2):
            if _identity(fd) != self._identity[fd]:
                os.dup2(self._saved[fd], fd)
        if not os.get_blocking(1):
            os.set_blocking(1, True)
        if not (_usable(self.stdout) and _usable(self.stderr) and _usable(self.stdin)):
            self._make()
        vars(sys).update(
            stdin=self.stdin, __stdin__=self.stdin, stdout=self.stdout, __stdout__=self.stdout,
            stderr=self.stderr, __stderr__=self.stderr,
        )  # fmt: skip

    def flush(self) -> None:
        """After a run: everything that it printed is on its way, also through streams of its own."""
        for stream in (sys.stdout, sys.stderr, self.stdout, self.stderr):
            try:
                stream.flush()
            except Exception:  # closed, or not a stream at all: the user's own, and the run is over
                continue


def _usable(stream: io.TextIOWrapper) -> bool:
    try:
        return not stream.closed
    except ValueError:  # detached from its buffer
        return False


def _keep(fd: int) -> int:
    """A copy where user code does not find it by accident: shells and servers use low numbers."""
    import fcntl

    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 200)


def _identity(fd: int) -> tuple[int, int]:
    try:
        found = os.fstat(fd)
    except OSError:
        return (-1, -1)
    return (found.st_dev, found.st_ino)
