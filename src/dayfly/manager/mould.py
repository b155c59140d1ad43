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
from pathlib import Path

from dayfly.boundaries import forks
from dayfly.errors import AdmissionRefused, DayflyError, OutOfSpace, SandboxEnded
from dayfly.manager.recorded import RecordedLife
from dayfly.paths import host_error, make_directory
from dayfly.sandbox import Suspended

__all__ = ["Mould", "clear_abandoned"]

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
        """A new directory, held by this process and nobody else's. Raises ``HostError``."""
        make_directory(self._directory, 0o700)
        while self._lease < 0:
            self._made = make_directory(self._directory / secrets.token_hex(8), 0o700)
            try:
                self._lease = _hold(self._made, fcntl.LOCK_EX)
            except FileNotFoundError:  # swept away before it was held: by a process that has just started
                continue
            except OSError as error:
                raise host_error(error, f"cannot use {self._made}") from error
            if not self._made.exists():
                self.close()
        assert self._made is not None
        return self._made

    def close(self) -> None:
        """Remove the snapshot. Idempotent; the next ``cast`` makes a new one."""
        self._suspended = None
        if self._lease >= 0 and self._made is not None:
            shutil.rmtree(self._made, ignore_errors=True)  # what cannot be removed now is for ``clear_abandoned``
            forks.close(self._lease)
            self._lease = -1


def clear_abandoned(directory: Path) -> None:
    """Remove what processes that are gone have left. Raises ``OSError``."""
    for place in directory.glob("*"):
        try:
            lease = _hold(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, FileNotFoundError):  # in use, or just removed
            continue
        try:
            shutil.rmtree(place)
        finally:
            forks.close(lease)


def _hold(place: Path, how: int) -> int:
    """A lock on the directory that ends with this process, whatever its forked children do. Raises ``OSError``."""
    lease = forks.keep_from_children(os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
    try:
        fcntl.flock(lease, how)
    except OSError:
        forks.close(lease)
        raise
    return lease
