"""Where paused sandboxes lie: sealed, on disk, within a cap. As plain files they are only ever in the machine's memory.

Blocks; for use in threads.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection
from pathlib import Path

from dayfly.errors import HostError, OutOfSpace
from dayfly.limits import MIB, MOST_PAUSED, size_text
from dayfly.manager.admission import available_memory
from dayfly.manager.leased import LeasedDirectory, clear_abandoned
from dayfly.manager.sealing import Sealed, seal, unseal
from dayfly.paths import make_directory

__all__ = ["SCRATCH", "Shelf"]

SCRATCH = Path("/dev/shm")  # noqa: S108 - what is made there is this user's own
"""A file system in memory, which every Linux has (filesystem hierarchy of systemd and of initscripts; POSIX shared memory)."""

RESERVE = 256 * MIB
"""Of the machine's memory, that stays free whatever is paused or resumed."""

SUFFIX = ".sealed"


class Shelf:
    """Sealed sandboxes in ``directory``, ``most`` bytes of them. With ``lasting`` they are there for the next process, which
    must be told their keys; without, they go with this one."""

    def __init__(
        self,
        directory: Path,
        *,
        lasting: bool,
        most: int = MOST_PAUSED,
        scratch: Path = SCRATCH,
        free_memory: Callable[[], int] = available_memory,
    ) -> None:
        self._directory = directory
        self._lasting = lasting
        self._most = most
        self._scratch = scratch
        self._free_memory = free_memory
        self._own: LeasedDirectory | None = None
        self._sealing = threading.Lock()  # one at a time: each needs to know what is left

    def plain(self, size: int) -> LeasedDirectory:
        """A place in memory for so many bytes of one sandbox's plain files, to be closed. Raises ``HostError``, also
        ``OutOfSpace`` where the machine has not that much to spare."""
        if not self._scratch.is_dir():
            raise HostError(
                f"{self._scratch} is not there, and a paused sandbox is written nowhere but in memory before it is encrypted",
                remedy=f"mount -t tmpfs tmpfs {self._scratch}",
            )
        found = os.statvfs(self._scratch)
        if min(found.f_bavail * found.f_frsize, self._free_memory() - RESERVE) < size:
            raise OutOfSpace(
                f"there are no {size_text(size)} of memory free for a copy of the sandbox in {self._scratch}",
                remedy=f"close some sandboxes, or make {self._scratch} larger",
            )
        return LeasedDirectory(self._scratch, _prefix())

    def put(self, plain: Path, name: str, most: int | None = None) -> Sealed:
        """Seal what is in ``plain``. Raises ``OutOfSpace`` beyond the cap, or beyond ``most`` bytes, and ``HostError``."""
        with self._sealing:
            room = self._most - self.used
            return seal(plain, self._place() / f"{name}{SUFFIX}", room if most is None else min(room, most))

    def take(self, sealed: Sealed, plain: Path) -> None:
        """Unseal into the new directory ``plain``. It stays on the shelf. Raises ``HostError``."""
        unseal(sealed, plain)

    @property
    def used(self) -> int:
        """Bytes."""
        place = self._directory if self._lasting else self._own and self._own.path
        return sum(path.stat().st_size for path in place.glob(f"*{SUFFIX}")) if place else 0

    def sweep(self, known: Collection[Path]) -> None:
        """Remove what dead processes left: plain files, and sealed ones that nobody has a key for. Raises ``OSError``."""
        clear_abandoned(self._scratch, _prefix())
        if not self._lasting:
            clear_abandoned(self._directory)
            return
        for path in self._directory.glob(f"*{SUFFIX}*"):
            if path not in known:
                path.unlink()

    def close(self) -> None:
        """Remove what does not last. Idempotent."""
        if self._own is not None:
            self._own.close()
            self._own = None

    def _place(self) -> Path:
        make_directory(self._directory, 0o700)
        if self._lasting:
            return self._directory
        if self._own is None:
            self._own = LeasedDirectory(self._directory)
        return self._own.path


def _prefix() -> str:
    return f"dayfly-{os.geteuid()}-"
