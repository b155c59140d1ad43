"""A template's warm sandbox on disk, of which its spares are restores: a tenth of the time that warming one takes.

Laws: nobody's code has run in what was cast. Everything that a restore can draw anew is drawn anew before anybody gets it
(``Life.restore``). A snapshot that does not fit any more is made again, and whoever waits gets a sandbox all the same.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import secrets
import shutil
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from dayfly.errors import DayflyError, SandboxEnded
from dayfly.manager.recorded import RecordedLife
from dayfly.sandbox import Suspended

__all__ = ["Mould", "clear_abandoned"]

MAX_FAILURES = 3
"""Snapshots that fail in a row until no more are tried: this machine cannot make them."""

LEASE = "lease"
"""A file in each directory, locked by the process that uses it."""


class Mould:
    """``warm`` opens and warms one as ever; ``restore`` goes on from a snapshot. ``directory`` is where snapshots are kept."""

    def __init__(
        self,
        directory: Path,
        warm: Callable[[], Awaitable[RecordedLife]],
        restore: Callable[[Suspended], Awaitable[RecordedLife]],
    ) -> None:
        self._directory = directory
        self._warm = warm
        self._restore = restore
        self._suspended: Suspended | None = None
        self._made: Path | None = None
        self._lease = -1
        self._failures = 0

    async def cast(self) -> RecordedLife:
        """A warm sandbox that nobody has used. Raises what opening one raises."""
        if self._suspended is None:
            life = await self._warm()
            if self._failures < MAX_FAILURES:
                self._suspended = await self._taken(life)
            if self._suspended is None:
                return life
        try:
            return await self._restore(self._suspended)
        except DayflyError:
            await self._give_up()
            return await self._warm()

    async def _taken(self, life: RecordedLife) -> Suspended | None:
        """A snapshot of it, after which it has ended; or nothing, and it goes on."""
        place = await asyncio.to_thread(self._place)
        try:
            return await life.suspend(place / "snapshot")
        except SandboxEnded:
            await self._give_up()
            raise
        except DayflyError:
            await self._give_up()
            return None

    async def _give_up(self) -> None:
        self._failures += 1
        await asyncio.to_thread(self.close)

    def _place(self) -> Path:
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        place = self._directory / secrets.token_hex(8)
        place.mkdir(mode=0o700)
        self._lease = os.open(place / LEASE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lease, fcntl.LOCK_EX)
        self._made = place
        return place

    def close(self) -> None:
        """Remove the snapshot. Idempotent; the next ``cast`` makes a new one."""
        self._suspended = None
        if self._lease >= 0 and self._made is not None:
            with suppress(OSError):  # what cannot be removed now is for ``clear_abandoned``
                shutil.rmtree(self._made)
            os.close(self._lease)
            self._lease = -1


def clear_abandoned(directory: Path) -> None:
    """Remove what processes that are gone have left. Raises ``OSError``."""
    for place in directory.glob("*"):
        try:
            lease = os.open(place / LEASE, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:  # just being made, or half removed
            continue
        try:
            fcntl.flock(lease, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(place)
        except BlockingIOError:
            continue
        finally:
            os.close(lease)
