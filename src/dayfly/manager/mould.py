"""A template's warm sandbox on disk, of which its spares are restores: a tenth of the time that warming one takes.

Laws: nobody's code has run in what was cast. Everything that a restore can draw anew is drawn anew before anybody gets it
(``Life.restore``). A snapshot that does not fit any more is made again, and whoever waits gets a sandbox all the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from dayfly.errors import AdmissionRefused, DayflyError, OutOfSpace, SandboxEnded
from dayfly.manager.leased import LeasedDirectory
from dayfly.manager.recorded import RecordedLife
from dayfly.paths import make_directory
from dayfly.sandbox import Suspended

__all__ = ["Mould"]

MAX_FAILURES = 3
"""Snapshots that fail in a row until no more are tried: this machine cannot make them."""


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
        self._made: LeasedDirectory | None = None
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
            life = await self._restore(self._suspended)
            self._failures = 0
            return life
        except (AdmissionRefused, OutOfSpace):  # the machine is full: that says nothing of the snapshot
            raise
        except DayflyError:
            await self._give_up()
            return await self._warm()

    async def _taken(self, life: RecordedLife) -> Suspended | None:
        """A snapshot of it, after which it has ended; or nothing, and it goes on."""
        try:
            place = await asyncio.to_thread(self._place)
            return await life.suspend(place / "snapshot")
        except SandboxEnded:
            await self._give_up()
            raise
        except OutOfSpace:  # that passes, and says nothing of what this machine can do
            await asyncio.to_thread(self.close)
            return None
        except DayflyError:
            await self._give_up()
            return None

    async def _give_up(self) -> None:
        self._failures += 1
        await asyncio.to_thread(self.close)

    def _place(self) -> Path:
        """A new place for a snapshot. Raises ``HostError``."""
        make_directory(self._directory, 0o700)
        self._made = LeasedDirectory(self._directory)
        return self._made.path

    def close(self) -> None:
        """Remove the snapshot. Idempotent; the next ``cast`` makes a new one."""
        self._suspended = None
        if self._made is not None:
            self._made.close()
