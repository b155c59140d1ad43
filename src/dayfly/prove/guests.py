"""How many processes a sandbox has, counted on this machine: by those that its kernel has for them here. Nothing inside is asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from dayfly.prove.posture import SENTRY, processes_of

__all__ = ["HOSTS_FOR_ONE", "Guests", "counted"]

HOSTS_FOR_ONE = 2
"""Processes here for one inside. Measured (2026-12): gVisor's systrap, builds of 2024 and 2026, from 1 to 97 inside. Its threads have none
of their own."""

_SECONDS = 0.1
"""Between two looks: a flood that counts stays for longer."""


class Guests:
    """``most``: of processes inside, as far as this machine can tell; ``None`` where it sees no kernel of theirs."""

    def __init__(self, sandbox: str) -> None:
        self._kernels = [one.pid for one in processes_of(sandbox, ()).processes if one.name == SENTRY]
        self.most: int | None = None

    def look(self) -> None:
        here = sum(len(list(_below(pid))) for pid in self._kernels)
        if self._kernels:
            self.most = max(self.most or 0, here // HOSTS_FOR_ONE)

    async def keep_looking(self) -> None:
        while True:
            self.look()
            await asyncio.sleep(_SECONDS)


@asynccontextmanager
async def counted(sandbox: str) -> AsyncIterator[Guests]:
    """Looks as long as it is held, and once more at its end."""
    guests = Guests(sandbox)
    looking = asyncio.create_task(guests.keep_looking())
    try:
        yield guests
    finally:
        looking.cancel()
        with suppress(asyncio.CancelledError):
            await looking
        guests.look()


def _below(pid: int) -> Iterator[int]:
    """All that come from it. What ends meanwhile is left out."""
    for child in _children(pid):
        yield child
        yield from _below(child)


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with suppress(FileNotFoundError, ProcessLookupError):
        for thread in list(Path(f"/proc/{pid}/task").iterdir()):
            with suppress(FileNotFoundError, ProcessLookupError):
                found += map(int, (thread / "children").read_text("ascii").split())
    return found
