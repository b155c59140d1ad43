"""A cell is bound to its CPUs and sees no others. Its gofer, which runs no guest code, has more while the cell starts."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import pytest

from dayfly.boundaries.gvisor import GvisorBoundary, cell, cpus
from dayfly.boundaries.processes import Child, Program, in_spawner
from dayfly.errors import LimitUnenforceable
from dayfly.limits import Limits
from dayfly.testing.boundary_contract import MakeSpec
from dayfly.testing.traces import descendants
from tests.boundaries.test_gvisor_limits import abilities, boundary, make_spec, room  # noqa: F401 - fixtures

EVERYWHERE = frozenset(os.sched_getaffinity(0))
ONE = frozenset({min(EVERYWHERE)})
ONE_CPU = Limits(cpus=1)
MANY = 2 * min(3, len(EVERYWHERE)) + 1
"""Cells at once: more than there are CPUs on a small machine, and never as many on each."""

COUNT = """
reply([os.cpu_count(), len(os.sched_getaffinity(0)), open('/proc/cpuinfo').read().count('processor\\t')])
"""

several_cpus = pytest.mark.skipif(len(EVERYWHERE) < 2, reason="with one CPU there is nothing to choose")


def bound(pid: int) -> frozenset[int]:
    """The CPUs that any thread of the process may use; none if it has just ended."""
    found: set[int] = set()
    with suppress(FileNotFoundError, ProcessLookupError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(ProcessLookupError):
                found |= os.sched_getaffinity(int(task.name))
    return frozenset(found)


def bindings(*without: int) -> set[frozenset[int]]:
    """What the processes of the cells that live are bound to."""
    return {bound(pid) for pid, _ in descendants() if pid not in without} - {frozenset()}


def started_as(name: str) -> list[int]:
    """Processes of the cells that live, by the first word of their command lines."""
    found: list[int] = []
    for pid, _ in descendants():
        with suppress(FileNotFoundError, ProcessLookupError):
            if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(f"{name}\0".encode()):
                found.append(pid)
    return found


# --- moving a process -------------------------------------------------------------------------------------------------


def start(*argv: str, stdin: int = 0, stdout: int = 2) -> Child:
    program = Program(argv, stdin, stdout, 2, {"PATH": os.defpath}, Path("/"))
    return in_spawner(lambda: Child.start(program)).result(5)


def test_a_process_is_moved_with_all_its_threads_and_what_it_starts_later() -> None:
    threads = "for _ in range(3): threading.Thread(target=threading.Event().wait, daemon=True).start()"
    tell = "print([sorted(os.sched_getaffinity(int(task))) for task in os.listdir('/proc/self/task')], flush=True)"
    later = "os.system(f'exec {sys.executable} -c \"import os; print(sorted(os.sched_getaffinity(0)))\"')"
    (their_input, ours), (result, their_output) = os.pipe(), os.pipe()
    code = f"import os, sys, threading\n{threads}\nprint(flush=True)\nos.read(0, 1)\n{tell}\n{later}\nos._exit(0)"
    child = start(sys.executable, "-c", code, stdin=their_input, stdout=their_output)
    os.close(their_output)
    with os.fdopen(result) as told:
        told.readline()
        cpus.move(child.pid, ONE)
        os.write(ours, b".")
        assert told.read().splitlines() == [str([sorted(ONE)] * 4), str(sorted(ONE))]
    child.wait(5)
    child.reap()
    os.close(ours)
    os.close(their_input)


def test_a_thread_that_starts_while_others_are_moved_is_moved_too(monkeypatch: pytest.MonkeyPatch) -> None:
    late: list[threading.Thread] = []
    moved: set[int] = set()
    stop = threading.Event()

    def moving(thread: int, _: object) -> None:
        if not late:
            late.append(threading.Thread(target=stop.wait))
            late[0].start()
        moved.add(thread)

    monkeypatch.setattr(os, "sched_setaffinity", moving)
    cpus.move(os.getpid(), ONE)
    stop.set()
    late[0].join()
    assert late[0].native_id in moved


def test_a_process_that_has_ended_need_not_be_moved() -> None:
    child = start("true")
    child.wait(5)
    child.reap()
    cpus.move(child.pid, ONE)


def refuse(*_: object) -> None:
    raise PermissionError(1, "Operation not permitted")


# --- cells ------------------------------------------------------------------------------------------------------------


@pytest.mark.gvisor
async def test_only_the_gofer_has_more_cpus_and_only_until_the_cell_has_started(
    boundary: GvisorBoundary,  # noqa: F811
    make_spec: MakeSpec,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks: list[Callable[[], float | None]] = []
    monkeypatch.setattr(cell, "watch", looks.append)
    async with room(boundary, make_spec, ONE_CPU) as (_, echo):
        assert await echo.run(COUNT) == [[1, 1, 1]]
        (gofer,), (sentry,) = started_as("runsc-gofer"), started_as("runsc-sandbox")
        chosen = bound(sentry)
        assert len(chosen) == 1
        look = looks[-1]
        look()
        assert bound(gofer) == EVERYWHERE
        assert bindings(gofer) == {chosen}
        with monkeypatch.context() as patch:
            patch.setattr(cpus, "move", refuse)
            look()
        assert bound(gofer) == EVERYWHERE
        look()
        assert bindings() == {chosen}


@pytest.mark.gvisor
async def test_many_that_start_at_once_are_bound_each_to_its_own(
    boundary: GvisorBoundary,  # noqa: F811
    make_spec: MakeSpec,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chosen: Counter[int] = Counter()
    monkeypatch.setattr(cpus, "_bound", chosen)
    async with AsyncExitStack() as rooms:
        opening = [rooms.enter_async_context(room(boundary, make_spec, ONE_CPU)) for _ in range(MANY)]
        echoes = [echo for _, echo in await asyncio.gather(*opening)]
        assert await asyncio.gather(*(echo.run(COUNT) for echo in echoes)) == [[[1, 1, 1]]] * MANY
        assert Counter(cpu for pid in started_as("runsc-sandbox") for cpu in bound(pid)) == chosen
    assert not +chosen


@several_cpus
@pytest.mark.gvisor
async def test_where_the_gofer_may_not_be_moved_the_cell_starts_all_the_same(
    boundary: GvisorBoundary,  # noqa: F811
    make_spec: MakeSpec,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cpus, "move", refuse)
    async with room(boundary, make_spec, ONE_CPU) as (_, echo):
        assert await echo.run(COUNT) == [[1, 1, 1]]
        (chosen,) = bindings()
    assert len(chosen) == 1


@several_cpus
@pytest.mark.gvisor
async def test_a_cell_that_is_not_bound_is_refused_and_leaves_nothing(
    boundary: GvisorBoundary,  # noqa: F811
    make_spec: MakeSpec,  # noqa: F811
    data: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "sched_setaffinity", lambda *_: None)
    with pytest.raises(LimitUnenforceable, match="other CPUs"):
        await boundary.open(make_spec(limits=ONE_CPU))
    assert descendants() == frozenset()
    assert list((data / "cells").iterdir()) == []


@pytest.mark.gvisor
async def test_nothing_of_a_cell_takes_the_cpu_by_waking_up(boundary: GvisorBoundary, make_spec: MakeSpec) -> None:  # noqa: F811
    async with room(boundary, make_spec, ONE_CPU) as (_, echo):
        assert await echo.run(COUNT) == [[1, 1, 1]]
        found = {os.sched_getscheduler(pid) for pid in (*started_as("runsc-sandbox"), *started_as("runsc-gofer"))}
        assert found == {os.SCHED_BATCH}
