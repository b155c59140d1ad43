"""Commands as forks of one process that has imported all of dayfly already: half a second less of a core for each.

A fork is a process of its own, with the arguments, the environment, the directory and the streams of who asked for it; it runs
``python -m dayfly`` from there on. That a Python of its own finds and loads a command is for the tests that start one
(``test_loading``, ``test_shell``, ``test_leaving``).
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from dayfly.cli.commands import COMMANDS
from tests import asking
from tests.machine import short_directory

ROOT = Path(__file__).parents[1]

BEGUN_BY_COMMANDS = ("asyncio", "rich.console", "dayfly.client.sandbox", "dayfly.cli.app")
"""What a command imports only once it runs."""


@cache
def ready() -> list[str]:
    """What to write where ``python -m dayfly`` would stand, for who waits for its end and sends no signals. One for all tests of this process."""
    held = ExitStack()
    atexit.register(held.close)
    return held.enter_context(_serving())


@contextmanager
def _serving() -> Iterator[list[str]]:
    with short_directory() as directory:
        door = directory / "door"
        command = [sys.executable, "-m", "tests.forks", str(door)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT) as process:
            assert process.stdin
            assert process.stdout
            assert process.stdout.readline() == b"ready\n"
            yield [sys.executable, "-IS", asking.__file__, str(door)]
            process.stdin.close()


def _serve(door: str) -> None:
    for name in (*(f"dayfly.cli.{home}" for home in COMMANDS.values()), *BEGUN_BY_COMMANDS):
        import_module(name)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(door)
        listener.listen()
        os.write(1, b"ready\n")
        gc.freeze()  # else a collection in a fork would write to every page, and each be copied
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for who attends to one command
        while 0 not in select.select([0, listener], [], [])[0]:
            connection, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                _attend(connection)
            connection.close()


def _attend(connection: socket.socket) -> None:
    """Tells the exit code at the end. Who asked may go away before: then so does the command."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    request, descriptors, _, _ = socket.recv_fds(connection, asking.LARGEST, 3)
    pid = os.fork()
    if pid == 0:
        connection.close()
        _become(json.loads(request), descriptors)
        return
    ended = os.pidfd_open(pid)
    if ended not in select.select([ended, connection], [], [])[0]:
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    connection.send(str(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


def _become(request: dict[str, Any], descriptors: list[int]) -> None:
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(request["directory"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv[1:] = request["arguments"]
    runpy.run_module("dayfly", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _serve(sys.argv[1])
