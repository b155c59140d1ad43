"""Pid 1 inside: takes the stream off stdin and stdout, and serves until the host is gone."""

from __future__ import annotations

import os
import stat

from dayfly.agent.core import Agent
from dayfly.agent.loop import Loop


def take_stream() -> tuple[int, int]:
    """Copies of stdin and stdout that no child inherits; what stays at 0 and 1 is /dev/null, so no stray print harms."""
    read_fd, write_fd = os.dup(0), os.dup(1)
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.close(null)
    return read_fd, write_fd


def shut_stderr() -> None:
    """Inside, if it is a file: in the gVisor of 2024, anybody opens through /proc/1/fd what the file's mode allows."""
    try:
        if os.getpid() == 1 and stat.S_ISREG(os.fstat(2).st_mode):
            os.fchmod(2, 0o600)
    except OSError:  # there is none, or it is not ours to shut: what is written there is not trusted by the host either
        return


def main() -> None:
    read_fd, write_fd = take_stream()
    shut_stderr()
    loop = Loop()
    Agent(loop, read_fd, write_fd)
    loop.run()


if __name__ == "__main__":
    main()
