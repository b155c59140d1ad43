"""The directory of one cell on the host, and the lease that says whether its dayfly process still lives.

A directory is made, and judged by ``sweep``, only under the lock of the directory above, so nobody ever sees one
without its lease. The lease is an flock: the kernel lets go of it when the process ends, however it ends.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from dayfly.boundaries import forks
from dayfly.boundaries.gvisor.abilities import FIRST_UID, UIDS
from dayfly.boundaries.gvisor.layout import Layout
from dayfly.errors import HostError
from dayfly.paths import make_directory, write_atomically

__all__ = ["CellDirectory", "Record", "abandoned"]

_UID_TRIES = 64
"""Draws for a uid that no other cell here has; even with a million cells one in sixteen would fail."""


@dataclass(frozen=True)
class Record:
    """What ``sweep`` needs to find a dead dayfly's processes: ``pid`` is runsc's, with its start in ticks since boot."""

    boot: str
    pid: int = 0
    started: int = 0
    cgroup_version: int = 0
    cgroups: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Record | None:
        try:
            found: dict[str, Any] = json.loads(path.read_text("utf-8"))
            return cls(**found)
        except (OSError, ValueError, TypeError):  # the process died before it wrote one: nothing was started yet
            return None


class CellDirectory:
    """Holds the lease from ``create`` to ``remove``. ``uid`` is the cell's own host uid and gid, if it has one."""

    def __init__(self, layout: Layout, lease: int, uid: int | None) -> None:
        self.layout = layout
        self.uid = uid
        self._lease: int | None = lease
        self._record = Record(boot_id())

    @classmethod
    def create(cls, layout: Layout, *, foreign: bool) -> CellDirectory:
        """Raises ``OSError`` or ``HostError`` and leaves nothing."""
        cells = layout.cell.parent
        make_directory(cells.parent)
        make_directory(cells, 0o711)
        with _locked(cells):
            uid = _free_uid(cells) if foreign else None
            layout.cell.mkdir(mode=0o700)
            try:
                lease = _take(layout.lease, os.O_CREAT | os.O_EXCL)
                _open_to(layout.cell, uid)
            except BaseException:
                shutil.rmtree(layout.cell, ignore_errors=True)
                raise
        return cls(layout, lease, uid)

    def fill(self, files: Mapping[Path, str]) -> None:
        """Make the parts of the directory and write ``files``. Raises ``OSError``."""
        layout = self.layout
        for part in (layout.root, layout.bundle, layout.overlay, layout.skeleton, layout.rootfs):
            part.mkdir(mode=0o700)
        layout.skeleton.chmod(0o755)  # it becomes the root directory inside
        for path, text in files.items():
            path.write_text(text, "utf-8")
            path.chmod(0o400)
        for source, place in layout.places.items():
            place.parent.mkdir(mode=0o700, exist_ok=True)
            _open_to(place.parent, self.uid)
            place.mkdir() if source.is_dir() else place.touch()

    def note(self, **changes: Any) -> None:
        """Add to what is on record for ``sweep``. Whoever is killed meanwhile leaves the record as it was."""
        self._record = Record(**{**asdict(self._record), **changes})
        write_atomically(self.layout.record, json.dumps(asdict(self._record)))

    def remove(self) -> None:
        """Remove the directory and give the lease back. Idempotent. Raises ``OSError`` if something cannot be removed."""
        if self._lease is None:
            return
        try:
            with _locked(self.layout.cell.parent), suppress(FileNotFoundError):
                shutil.rmtree(self.layout.cell)
        finally:
            self.leave()

    def leave(self) -> None:
        """Give the lease back and keep the directory, for ``sweep``. Idempotent."""
        lease, self._lease = self._lease, None
        if lease is not None:
            forks.close(lease)


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()


def abandoned(cells: Path) -> Iterator[CellDirectory]:
    """The directories whose dayfly is dead, one by one, each with its lease taken."""
    if not cells.is_dir():
        return
    for path in sorted(cells.iterdir()):
        with _locked(cells):
            lease = _take_over(path) if path.is_dir() else None
        if lease is not None:
            yield CellDirectory(Layout(path), lease, None)


def _take_over(path: Path) -> int | None:
    try:
        return _take(path / "lease", os.O_CREAT)
    except (BlockingIOError, FileNotFoundError):  # a living process holds it, or has just removed it
        return None


def _take(path: Path, flags: int) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | flags, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(descriptor)
        raise
    return forks.keep_from_children(descriptor)


@contextmanager
def _locked(cells: Path) -> Iterator[None]:
    """The lock under which directories appear. Held for microseconds, so waiting for it is fine."""
    descriptor = os.open(cells, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _open_to(directory: Path, uid: int | None) -> None:
    """Let the cell's user pass through; its group is the cell's alone. Nobody else gets in."""
    if uid is not None:
        os.chown(directory, 0, uid)
        directory.chmod(0o710)


def _free_uid(cells: Path) -> int:
    taken = {entry.stat(follow_symlinks=False).st_gid for entry in os.scandir(cells)}
    for _ in range(_UID_TRIES):
        uid = FIRST_UID + secrets.randbelow(UIDS)
        if uid not in taken:
            return uid
    raise HostError("no host uid is free for another sandbox", remedy="end some sandboxes")
