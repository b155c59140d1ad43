"""The rules of the memory guard, with numbers in place of a machine."""

from __future__ import annotations

from typing import Any

import pytest

from dayfly.agent import memory
from dayfly.agent.census import Process
from dayfly.agent.loop import Timer
from dayfly.agent.memory import AFTER_KILL, GRANT, NEAR_THE_END, OVERDRAFT, WORTH_KILLING, Guard

MIB = 1 << 20
LIMIT = 960 * MIB


class Clock:
    now = 100.0

    def monotonic(self) -> float:
        return self.now


class FakeLoop:
    def __init__(self) -> None:
        self.pauses: list[float] = []

    def call_later(self, seconds: float, callback: Any) -> Timer:
        self.pauses.append(seconds)
        return Timer(seconds, callback)


class Machine:
    """One user, some processes with (tag, rss), and how much memory is used in all."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.used = 0
        self.processes: dict[int, tuple[int, int]] = {}
        self.killed: list[int] = []
        self.running = 1
        self.loop = FakeLoop()
        self.clock = Clock()
        self.supervisor = self
        self.user = self
        self.uid = 1000
        self.children: dict[int, Any] = {}
        self.limits = {"data": LIMIT}
        self.memory_kills: dict[int, int] = {}
        patch.setattr(memory, "used_memory", lambda: self.used)
        patch.setattr(memory, "_may_limit_others", lambda: False)
        patch.setattr(memory, "send_signal", self._kill)
        patch.setattr(memory.census, "everyone", lambda: [self._process(pid) for pid in self.processes])
        patch.setattr(memory.census, "look", lambda pid: self._process(pid) if pid in self.processes else None)
        patch.setattr(memory.time, "monotonic", self.clock.monotonic)
        self.guard = Guard(self)  # type: ignore[arg-type]

    def _process(self, pid: int) -> Process:
        tag, rss = self.processes[pid]
        return Process(pid, 1000, tag, True, [b"0"] * 21 + [b"%d" % (rss // memory.census.PAGE)])

    def _kill(self, pid: int, number: int) -> bool:
        self.killed.append(pid)
        return True

    def look(self, used: int, later: float = 0.01) -> None:
        self.used = used
        self.clock.now += later
        self.guard._look()


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


def test_nothing_is_killed_while_there_is_memory(machine: Machine) -> None:
    machine.processes = {5: (7, 900 * MIB)}
    machine.look(LIMIT)
    machine.look(LIMIT + OVERDRAFT)
    assert machine.killed == []


def test_the_largest_process_is_killed_and_its_tag_remembered(machine: Machine) -> None:
    machine.processes = {5: (7, 100 * MIB), 6: (8, 700 * MIB), 9: (7, 50 * MIB)}
    machine.look(LIMIT + OVERDRAFT + 1)
    assert machine.killed == [6]
    assert machine.memory_kills == {8: 1}


def test_small_processes_are_not_worth_it(machine: Machine) -> None:
    machine.processes = {5: (7, WORTH_KILLING - 4096)}
    machine.look(LIMIT * 2)
    assert machine.killed == []


def test_no_second_one_goes_while_the_first_is_dying_or_its_memory_is_on_its_way_back(machine: Machine) -> None:
    machine.processes = {5: (7, 100 * MIB), 6: (8, 700 * MIB)}
    machine.look(LIMIT + OVERDRAFT + 1)
    machine.look(LIMIT + 200 * MIB)  # it takes more until it notices
    del machine.processes[6]
    machine.look(LIMIT + 200 * MIB)  # dead, nothing given back yet
    assert machine.killed == [6]


def test_a_second_one_goes_if_still_more_is_taken_after_the_first_is_dead(machine: Machine) -> None:
    machine.processes = {5: (7, 400 * MIB), 6: (8, 700 * MIB)}
    machine.look(LIMIT + OVERDRAFT + 1)
    del machine.processes[6]
    machine.look(LIMIT + OVERDRAFT + 1 + WORTH_KILLING)
    assert machine.killed == [6, 5]


def test_a_second_one_goes_if_the_memory_does_not_come_back(machine: Machine) -> None:
    machine.processes = {5: (7, 400 * MIB), 6: (8, 700 * MIB)}
    machine.look(LIMIT + OVERDRAFT + 1)
    del machine.processes[6]
    machine.look(LIMIT + OVERDRAFT + 1, later=AFTER_KILL + 0.1)
    assert machine.killed == [6, 5]


def test_after_memory_came_back_the_next_flood_is_answered_at_once(machine: Machine) -> None:
    machine.processes = {5: (7, 400 * MIB), 6: (8, 700 * MIB)}
    machine.look(LIMIT + OVERDRAFT + 1)
    del machine.processes[6]
    machine.look(LIMIT // 2)
    machine.look(LIMIT + OVERDRAFT + 1)
    assert machine.killed == [6, 5]


def test_looks_come_closer_as_memory_runs_out(machine: Machine) -> None:
    pauses = []
    for left in (900, 400, 100, 30, 1):
        machine.used = LIMIT - left * MIB
        pauses.append(machine.guard._look())
    assert pauses == sorted(pauses, reverse=True)
    assert (max(pauses), min(pauses)) == (memory.MAX_PAUSE, memory.MIN_PAUSE)


# --- the ceiling of a kernel --------------------------------------------------------------------------------------


def ceiling(machine: Machine, left: int, mapped: int, untouched: int) -> int:
    return machine.guard._limit(3, left, mapped, untouched)


def test_while_much_is_left_a_hundred_threads_fit_and_three_gib_do_not(machine: Machine) -> None:
    free = ceiling(machine, 900 * MIB, 100 * MIB, 60 * MIB) - 100 * MIB
    assert 100 * 8 * MIB + 4 * 64 * MIB < free < 2048 * MIB


def test_near_the_end_the_ceiling_stays_where_it_is_however_the_kernel_creeps(machine: Machine) -> None:
    ceiling(machine, NEAR_THE_END, 800 * MIB, 20 * MIB)
    ceilings = {ceiling(machine, NEAR_THE_END - step * MIB, (800 + step) * MIB, 20 * MIB) for step in range(1, 128)}
    assert ceilings == {800 * MIB + NEAR_THE_END}


def test_what_is_mapped_and_not_used_near_the_end_has_taken_its_part(machine: Machine) -> None:
    ceiling(machine, NEAR_THE_END, 800 * MIB, 20 * MIB)
    grown = ceiling(machine, 100 * MIB, 850 * MIB, 60 * MIB)  # 40 MiB of slack in a list that has just been moved
    assert grown == 850 * MIB + 60 * MIB


def test_a_full_kernel_may_map_nothing_but_a_grant_per_run(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    ceiling(machine, NEAR_THE_END, 800 * MIB, 20 * MIB)
    assert ceiling(machine, -5 * MIB, 940 * MIB, 20 * MIB) == 940 * MIB
    machine.children = {3: type("Child", (), {"pid": 3, "forked": True})()}
    monkeypatch.setattr(memory, "_mapped_and_used", lambda pid: (940 * MIB, 920 * MIB))
    machine.guard._may_limit = True
    monkeypatch.setattr(machine.guard, "_look", lambda: 0.0)
    machine.guard._tight = True
    machine.guard.ended()
    assert ceiling(machine, -5 * MIB, 940 * MIB, 20 * MIB) == 940 * MIB + GRANT
    ceiling(machine, LIMIT, 30 * MIB, 20 * MIB)
    assert ceiling(machine, 0, 30 * MIB, 20 * MIB) == 30 * MIB  # freed: the grant is gone with what it was for
