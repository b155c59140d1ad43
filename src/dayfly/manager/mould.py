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

from dayfly.errors import AdmissionRefused, DayflyError, HostError, SandboxEnded
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
            life = await self._restore(self._suspended)
            self._failures = 0
            return life
        except AdmissionRefused:  # the machine is full: that says nothing of the snapshot
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
        except DayflyError:
            await self._give_up()
            return None

    async def _give_up(self) -> None:
        self._failures += 1
        await asyncio.to_thread(self.close)

    def _place(self) -> Path:
        """Raises ``HostError``."""
        try:
            return self._make_place()
        except OSError as error:
            raise HostError(
                f"no place for a snapshot in {self._directory}: {error.strerror}", remedy="free some space there"
            ) from error

    def _make_place(self) -> Path:
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        place = self._directory / secrets.token_hex(8)
        place.mkdir(mode=0o700)
        self._made = place
        self._lease = os.open(place / LEASE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lease, fcntl.LOCK_EX)
        return place

    def close(self) -> None:
        """Remove the snapshot. Idempotent; the next ``cast`` makes a new one."""
        self._suspended = None
        if self._lease >= 0 and self._made is not None:
            with suppress(OSError):  # what cannot be removed now is for ``clear_abandoned``
                _remove(self._made)
            os.close(self._lease)
            self._lease = -1


def _remove(place: Path) -> None:
    """The lease last: whoever is killed meanwhile leaves what can still be found."""
    for part in place.iterdir():
        if part.name != LEASE:
            shutil.rmtree(part)
    shutil.rmtree(place)


def clear_abandoned(directory: Path) -> None:
    """Remove what processes that are gone have left. Raises ``OSError``."""
    for place in directory.glob("*"):
        try:
            lease = os.open(place / LEASE, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:  # just being made, or half removed
            continue
        try:
            fcntl.flock(lease, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(place)
        except BlockingIOError:
            continue
        finally:
            os.close(lease)
