"""Directories that are one process's own, and are cleared away by the next one when it has died."""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
from pathlib import Path

from dayfly.boundaries import forks
from dayfly.paths import host_error

__all__ = ["LeasedDirectory", "clear_abandoned"]


class LeasedDirectory:
    """A new directory in ``parent``, held by this process and nobody else's until ``close``. Raises ``HostError``.

    ``prefix`` tells them apart where others have directories too.
    """

    def __init__(self, parent: Path, prefix: str = "") -> None:
        self.path, self._lease = _made(parent, prefix)

    def close(self) -> None:
        """Remove it; what cannot be removed now is for ``clear_abandoned``. Idempotent."""
        if self._lease >= 0:
            shutil.rmtree(self.path, ignore_errors=True)
            forks.close(self._lease)
            self._lease = -1


def clear_abandoned(parent: Path, prefix: str = "") -> None:
    """Remove what processes of this user that are gone have left. Raises ``OSError``."""
    for path in parent.glob(f"{prefix}*"):
        try:
            lease = _hold(path, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (
            BlockingIOError,
            FileNotFoundError,
            NotADirectoryError,
            PermissionError,
        ):  # in use, gone, or no such one
            continue
        try:
            if os.fstat(lease).st_uid == os.geteuid():
                shutil.rmtree(path)
        finally:
            forks.close(lease)


def _made(parent: Path, prefix: str) -> tuple[Path, int]:
    while True:
        path = parent / f"{prefix}{secrets.token_hex(8)}"
        try:
            path.mkdir(mode=0o700)
            lease = _hold_new(path)
        except OSError as error:
            raise host_error(error, f"cannot use {path}") from error
        if lease is not None:
            return path, lease


def _hold_new(path: Path) -> int | None:
    """``None`` if it was swept away before it was held, by a process that has just started. Raises ``OSError``."""
    try:
        lease = _hold(path, fcntl.LOCK_EX)
    except FileNotFoundError:
        return None
    if path.exists():
        return lease
    forks.close(lease)
    return None


def _hold(path: Path, how: int) -> int:
    """A lock on the directory that ends with this process, whatever its forked children do. Raises ``OSError``."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    lease = forks.keep_from_children(os.open(path, flags))
    try:
        fcntl.flock(lease, how)
    except OSError:
        forks.close(lease)
        raise
    return lease
