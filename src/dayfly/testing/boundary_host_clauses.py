"""Clauses of the boundary contract about the host process: killed, forked, or sweeping after a dead one."""

from __future__ import annotations

import asyncio
import atexit
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from dayfly.spec import EndReason
from dayfly.testing.boundary_subject import HANGING, OPEN_SECONDS, SLEEPING, SOON, Subject, opened, within
from dayfly.testing.traces import descendants, gone


class _Holder:
    """Another process that holds one cell."""

    def __init__(self, subject: Subject, code: str) -> None:
        factory, argument = subject.factory
        self.process = subprocess.Popen(
            [sys.executable, "-m", "dayfly.testing.hold_cell", factory, argument, code], stdout=subprocess.PIPE
        )

    async def ready(self) -> None:
        assert self.process.stdout is not None
        async with asyncio.timeout(OPEN_SECONDS):
            line = await asyncio.to_thread(self.process.stdout.readline)
        assert line, "the process that should hold a cell ended"

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


@asynccontextmanager
async def _held(subject: Subject, code: str = "") -> AsyncIterator[_Holder]:
    holder = _Holder(subject, code)
    try:
        await holder.ready()
        yield holder
    finally:
        holder.kill()


async def cells_die_with_a_host_process_that_is_killed(subject: Subject) -> None:
    for code in ("", HANGING, SLEEPING):
        async with _held(subject, code) as holder:
            processes = descendants(holder.process.pid)
            assert processes
            assert subject.traces()
            holder.kill()
            assert not await gone(processes, SOON), f"still there after {SOON} s, agent: {code[:20]!r}"
        assert await asyncio.to_thread(subject.boundary.sweep) == 1
        assert not subject.traces(), f"left after sweep: {subject.traces()}"


async def sweep_clears_what_dead_processes_left_and_spares_the_living(subject: Subject) -> None:
    async with opened(subject) as (_, echo):
        async with _held(subject) as alive:
            async with _held(subject) as dead:
                processes = descendants(dead.process.pid)
                dead.kill()
                assert not await gone(processes, SOON)
            left = set(subject.traces())
            assert await asyncio.to_thread(subject.boundary.sweep) == 1
            assert set(subject.traces()) < left, "sweep said that it cleared a cell, and nothing went"
            assert descendants(alive.process.pid), "sweep ended a cell of a living process"
        assert await echo.echo(b"alive") == b"alive"
        assert await asyncio.to_thread(subject.boundary.sweep) == 1  # of the process that was alive
        assert await asyncio.to_thread(subject.boundary.sweep) == 0


async def a_forked_child_neither_holds_nor_ends_its_parents_cells(subject: Subject) -> None:
    async with opened(subject) as (cell, echo):
        leaves, stays = _fork(lambda _: os._exit(_leave())), _fork(lambda orders: orders.read(1))
        os.close(leaves[1])
        assert (await asyncio.to_thread(os.waitpid, leaves[0], 0))[1] == 0
        assert await echo.echo(b"alive") == b"alive"
        try:
            assert (await within(SOON, cell.close(grace=SOON))).reason is EndReason.STOPPED
            assert not subject.traces(), "the child holds what its parent has cleared away"
        finally:
            os.close(stays[1])
            await asyncio.to_thread(os.waitpid, stays[0], 0)


def _leave() -> int:
    """What an ordinary exit of a forked interpreter does, except for flushing the parent's output twice."""
    atexit._run_exitfuncs()
    return 0


def _fork(work: Callable[[Any], object]) -> tuple[int, int]:
    """A forked child that does ``work`` with a file of orders; its pid, and the descriptor whose close ends the orders."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(write)
        with os.fdopen(read, "rb") as orders:
            work(orders)
        os._exit(0)
    os.close(read)
    return pid, write
