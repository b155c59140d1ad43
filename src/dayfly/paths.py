"""Where dayfly keeps things on this machine. Nothing is created by asking; ``make_directory`` creates.

Root uses the system's places, everybody else their own. ``DAYFLY_DATA`` moves all of it, the run directory included,
so that two installations never see each other's sandboxes.
"""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dayfly.errors import HostError, OutOfSpace

__all__ = ["Paths", "default_paths", "host_error", "make_directory", "untraversable", "write_atomically"]


@dataclass(frozen=True)
class Paths:
    """``data`` holds what is worth keeping and is big; ``run`` the small state of live cells (locks, sockets)."""

    data: Path
    run: Path

    @property
    def bin(self) -> Path:
        """Programs that ``dayfly setup`` obtained."""
        return self.data / "bin"

    @property
    def images(self) -> Path:
        return self.data / "images"

    @property
    def cache(self) -> Path:
        """Downloads and probe results. May be removed at any time."""
        return self.data / "cache"

    @property
    def secrets(self) -> Path:
        """What rules of the network name and nothing inside has: for this user only."""
        return self.data / "secrets"

    @property
    def cells(self) -> Path:
        """Writable layers of live cells: on disk, since what a sandbox writes must not count as memory."""
        return self.data / "cells"


def default_paths(environment: Mapping[str, str] | None = None) -> Paths:
    """The places for the current user. ``environment`` defaults to ``os.environ``. Raises ``HostError``."""
    env = os.environ if environment is None else environment
    override = env.get("DAYFLY_DATA")
    if override:
        if not Path(override).is_absolute():
            raise HostError(f"DAYFLY_DATA is not an absolute path: {override!r}", remedy="set it to an absolute path")
        return Paths(Path(override), Path(override) / "run")
    if os.geteuid() == 0:
        return Paths(Path("/var/lib/dayfly"), Path("/run/dayfly"))
    data = _user_data(env) / "dayfly"
    runtime_dir = _own_runtime_dir(env)
    return Paths(data, runtime_dir / "dayfly" if runtime_dir else data / "run")


def make_directory(path: Path, mode: int = 0o755) -> Path:
    """Create ``path`` and its parents with exactly ``mode``, whatever the umask; an existing one keeps its mode.

    0755: the sandbox reads images as another host uid. A directory of ours that others could write, or that belongs to
    somebody else, is refused. Raises ``HostError`` or ``OutOfSpace``.
    """
    try:
        _create(path, mode)
        found = path.stat()
    except OSError as error:
        raise host_error(error, f"cannot use {path}") from error
    if found.st_uid not in (0, os.geteuid()) or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise HostError(
            f"{path} belongs to or can be written by others", remedy=f"chmod go-w {path}, or set DAYFLY_DATA"
        )
    return path


def host_error(error: OSError, what: str) -> HostError:
    """The dayfly error for an ``OSError`` of this process's own file work. ``what``: "cannot ..."."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return OutOfSpace(f"{what}: no space left", remedy="free some space, or set DAYFLY_DATA to another disk")
    reason = f"{error.strerror or error} {error.filename or ''}".rstrip()
    return HostError(f"{what}: {reason}", remedy="set DAYFLY_DATA to a directory of yours")


def write_atomically(path: Path, text: str) -> None:
    """Put ``text`` at ``path`` (0644), whole or not at all. The directory must exist. Raises ``HostError``."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except OSError as error:
        Path(name).unlink(missing_ok=True)
        raise host_error(error, f"cannot use {path}") from error


def untraversable(path: Path) -> Path | None:
    """The first of ``path`` and its parents that another uid cannot enter, or ``None`` if all can be."""
    for part in (*reversed(path.parents), path):
        if part.exists() and not part.stat().st_mode & stat.S_IXOTH:
            return part
    return None


def _create(path: Path, mode: int) -> None:
    if path.is_dir():
        return
    if path.parent != path:
        _create(path.parent, 0o755)
    try:
        path.mkdir()
    except FileExistsError:
        if not path.is_dir():
            raise
        return
    path.chmod(mode)


def _user_data(env: Mapping[str, str]) -> Path:
    xdg = env.get("XDG_DATA_HOME", "")
    if xdg and Path(xdg).is_absolute():  # the XDG specification: a relative one is to be ignored
        return Path(xdg)
    home = env.get("HOME", "")
    if not Path(home).is_absolute():
        raise HostError("HOME is not set", remedy="set HOME or DAYFLY_DATA to an absolute path")
    return Path(home) / ".local/share"


def _own_runtime_dir(env: Mapping[str, str]) -> Path | None:
    """XDG_RUNTIME_DIR if it is really ours: after ``su`` it may still name another user's."""
    path = Path(env.get("XDG_RUNTIME_DIR", ""))
    try:
        return path if path.is_absolute() and path.stat().st_uid == os.geteuid() else None
    except OSError:  # absent or not enterable: then it is not ours to use
        return None
