"""Pid 1's side of the file worker when the worker dies: the test is the worker, and ends when it likes."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dayfly.agent.clerk import Clerk
from dayfly.agent.content import Writing
from dayfly.agent.files import Files
from dayfly.agent.loop import Loop
from dayfly.agent.paths import Finder
from dayfly.agent.worker import MAX_MESSAGE, answered
from dayfly.wire.messages import dump_json, load_json


class Worker:
    """Serves a request when it is told to."""

    def __init__(self, control: socket.socket, home: Path) -> None:
        self.files = Files(Finder(os.getuid(), os.getgid(), str(home)))
        self.control = control

    def serve(self) -> None:
        answer, handle = answered(self.files, load_json(self.control.recv(MAX_MESSAGE)))
        if handle < 0:
            self.control.sendall(dump_json(answer))
        else:
            socket.send_fds(self.control, [dump_json(answer)], [handle])
            os.close(handle)


class Agent:
    """As much of one as a clerk and a write need. ``workers`` are those that were started."""

    def __init__(self, loop: Loop, home: Path) -> None:
        self.loop = loop
        self.user = None
        self.home = str(home)
        self.supervisor = self
        self.workers: list[Worker] = []
        self.clerk = Clerk(self)  # type: ignore[arg-type]

    def part(self, kind: object) -> Clerk:
        return self.clerk

    def fork_trusted(self, work: object, *, keep: tuple[int], on_exit: object) -> None:
        self.workers.append(Worker(socket.socket(fileno=os.dup(keep[0])), Path(self.home)))

    def serve(self) -> None:
        """The worker of the moment serves one request, and the clerk hears of it."""
        self.workers[-1].serve()
        self.loop.step()

    def kill_worker(self) -> None:
        self.workers[-1].control.close()
        self.loop.step()


class FakeChannel:
    def __init__(self) -> None:
        self.open = True
        self.task: Any = None
        self.failure = ""

    def guarded(self, callback: Any) -> Any:
        return callback

    def raise_window(self) -> None:
        """There is none."""

    def finish(self, value: object) -> None:
        self._end("")

    def fail(self, code: str, message: str) -> None:
        self._end(message)

    def _end(self, failure: str) -> None:
        if self.open:
            self.open, self.failure = False, failure
            self.task.on_close()


@pytest.fixture
def agent(loop: Loop, tmp_path: Path) -> Iterator[Agent]:
    made = Agent(loop, tmp_path)
    yield made
    made.clerk._forget_worker()
    for worker in made.workers:
        worker.control.close()


def write(agent: Agent, name: str) -> FakeChannel:
    channel = FakeChannel()
    channel.task = task = Writing(agent, channel)  # type: ignore[arg-type]
    params = {"path": name, "how": "replace", "mode": 0o644, "parents": False, "write": agent.clerk.new_write()}
    agent.clerk.ask("write", params, task.opened)
    return channel


def look(agent: Agent) -> SimpleNamespace:
    """Something for the worker to do."""
    found = SimpleNamespace(refused=None)
    agent.clerk.ask("stat", {"path": "", "follow": False}, lambda _, refused, __: setattr(found, "refused", refused))
    return found


def test_a_write_that_is_open_when_the_worker_dies_fails_at_once(agent: Agent) -> None:
    channel = write(agent, "f")
    agent.serve()
    assert channel.open
    agent.kill_worker()
    assert (channel.open, channel.failure) == (False, "the file worker ended")


def test_a_commit_that_outlives_its_worker_commits_nothing_of_another_channel(agent: Agent) -> None:
    first = write(agent, "first")
    agent.serve()
    other = look(agent)  # under way when the worker dies, and the commit waits behind it
    first.task.on_eof(0)
    second = write(agent, "second")
    agent.kill_worker()
    assert other.refused is not None
    agent.serve()
    assert "gone" in first.failure
    agent.serve()
    assert (second.open, os.path.exists(f"{agent.home}/second")) == (True, False)
    third = write(agent, "third")
    agent.serve()
    for channel in (second, third):
        channel.task.on_eof(0)
        agent.serve()
        assert (channel.open, channel.failure) == (False, "")
    assert sorted(os.listdir(agent.home))[-2:] == ["second", "third"]


def test_the_worker_of_an_unfinished_write_stays_also_after_another_one_died(agent: Agent) -> None:
    lost = write(agent, "lost")
    agent.serve()
    agent.kill_worker()
    kept = write(agent, "kept")
    agent.serve()
    agent.clerk._rested(agent.clerk._used)
    assert (lost.open, kept.open) == (False, True)
    kept.task.on_eof(0)
    agent.serve()
    assert kept.failure == ""
