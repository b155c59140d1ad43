"""What the boundary contract kit is given, and what its clauses share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from dayfly.boundaries.base import Boundary, Cell, CellEnd
from dayfly.spec import SandboxSpec
from dayfly.testing.echo import Echo
from dayfly.testing.traces import descendants, gone

__all__ = ["HANGING", "OPEN_SECONDS", "SLEEPING", "SOON", "MakeSpec", "Subject", "opened", "within"]

SOON = 5.0
"""Seconds within which a cell must be gone, whatever happened to it; the contract's own number."""

OPEN_SECONDS = 30.0
"""For one cell to answer on a machine that does much else."""

HANGING = (
    "reply('hangs')\nimport signal\nfor n in (1, 2, 3, 10, 12, 15): signal.signal(n, signal.SIG_IGN)\nwhile True: pass"
)
"""Code inside that neither reads its stream nor ends."""

SLEEPING = "reply('sleeps')\nimport time\nwhile True: time.sleep(1000)"


class MakeSpec(Protocol):
    """A specification that can be opened, with a new id; keywords replace its fields."""

    def __call__(self, **changes: Any) -> SandboxSpec: ...


@dataclass(frozen=True)
class Subject:
    """What a maker gives to the kit.

    ``traces`` tells what cells have on the host beside processes (directories, mounts, cgroups), as names for a person;
    it is asked while a cell lives, too, and must see it. ``factory`` is ``(\"module:function\", argument)``: called in another process, it gives a subject over the
    same places, so that the kit can kill a process that holds cells.
    """

    boundary: Boundary
    make_spec: MakeSpec
    traces: Callable[[], list[str]]
    factory: tuple[str, str]


@asynccontextmanager
async def opened(subject: Subject, **changes: Any) -> AsyncIterator[tuple[Cell, Echo]]:
    """A cell whose agent has answered. Afterwards it is killed, and nothing of it may be left."""
    async with asyncio.timeout(OPEN_SECONDS):
        cell = await subject.boundary.open(subject.make_spec(**changes))
        echo = Echo(cell.stream)
        await echo.run("pass")
    processes = descendants()
    assert processes, "a living cell has no process: the kit would miss what is left of one"
    assert subject.traces(), "a living cell leaves no trace: the kit would miss what is left of one"
    try:
        yield cell, echo
    finally:
        await cell.kill()
    assert not await gone(processes, 0.0), "processes are left after kill"
    assert not subject.traces(), f"left after kill: {subject.traces()}"


async def within(seconds: float, work: Awaitable[CellEnd]) -> CellEnd:
    async with asyncio.timeout(seconds):
        return await work
