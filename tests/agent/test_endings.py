"""How the dead are taken in, and what is said of a command whose processes will not die; no process is needed for it."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest

from dayfly.agent import census
from dayfly.agent.commands import Command
from dayfly.agent.loop import Loop
from dayfly.agent.supervisor import MAX_REAPED, Supervisor, User

NOBODY = 1 << 29  # no pid


class Dead:
    """So many dead children that wait to be taken in."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.left = 0
        patch.setattr(os, "waitid", self._waitid)
        patch.setattr(os, "wait4", self._wait4)
        patch.setattr(census, "look", lambda pid: None)

    def _waitid(self, *unused: object) -> Any:
        return SimpleNamespace(si_pid=NOBODY) if self.left else None

    def _wait4(self, pid: int, options: int) -> tuple[int, int, Any]:
        if not self.left:
            return 0, 0, None
        self.left -= 1
        return NOBODY, 0, SimpleNamespace(ru_utime=0.0, ru_stime=0.0)


@pytest.fixture
def dead(monkeypatch: pytest.MonkeyPatch) -> Dead:
    return Dead(monkeypatch)


@pytest.fixture
def supervisor(loop: Loop) -> Supervisor:
    return Supervisor(loop, User(1000, 1000, "/home/user"), {}, {})


def test_as_many_dead_as_are_taken_in_at_once_are_no_storm(supervisor: Supervisor, dead: Dead) -> None:
    dead.left = MAX_REAPED
    supervisor.reap()
    assert (dead.left, supervisor._storm) == (0, 0)


def test_one_more_is_a_storm(supervisor: Supervisor, dead: Dead) -> None:
    dead.left = MAX_REAPED + 1
    supervisor.reap()
    assert (dead.left, supervisor._storm > 0) == (1, True)


class FakeTable:
    """An agent with one command; ``answer`` is called when the kill has come to its end."""

    def __init__(self, loop: Loop) -> None:
        self.agent = self.supervisor = self
        self.loop = loop
        self.home = "/home/user"
        self.commands: list[Command] = []
        self.memory_kills: dict[int, int] = {}
        self.tags = {7}
        self.answer: Any = None

    def new_tag(self) -> int:
        return 7

    def drop_tag(self, tag: int) -> None:
        self.tags.discard(tag)

    def kill(self, tag: int, answer: Any) -> None:
        self.answer = answer

    def runs(self, change: int) -> None:
        """The agent counts."""

    def remove(self, command: Command) -> None:
        self.commands.remove(command)


@pytest.mark.parametrize("left", [0, 1])
def test_a_command_whose_processes_will_not_die_has_not_ended(loop: Loop, left: int) -> None:
    table = FakeTable(loop)
    command = Command(table, {"argv": ["x"], "cwd": "", "detached": False, "cpu_seconds": 1.0})  # type: ignore[arg-type]
    table.commands.append(command)
    command._exited(0)
    table.answer(3, left)
    assert (command in table.commands, 7 in table.tags) == (bool(left), bool(left))
