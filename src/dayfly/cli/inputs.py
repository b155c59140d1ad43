"""What ``--in`` names, checked before a sandbox is opened for it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from dayfly.errors import InputError
from dayfly.limits import MIB

__all__ = ["checked_inputs"]


def checked_inputs(paths: list[Path] | None, room: int) -> list[Path]:
    """The paths, resolved; they must have names of their own and fit into ``room`` bytes. Raises ``InputError``."""
    found = [path.resolve() for path in paths or []]
    names = [path.name for path in found]
    for path, given in zip(found, paths or [], strict=True):
        if not path.exists():
            raise InputError(f"--in {given}: there is no such file", remedy="give the path of a file or a directory")
        if not path.name:
            raise InputError(f"--in {given}: it has no name", remedy="give a directory below it")
        if names.count(path.name) > 1:
            raise InputError(f"--in gives {path.name!r} twice", remedy="rename one of them, or give their directories")
    _refuse_too_much(found, room)
    return found


def _refuse_too_much(paths: list[Path], room: int) -> None:
    left = room
    for path in paths:
        for size in _sizes(path):
            left -= size
            if left < 0:
                message = f"--in {path}: what goes in is more than the disk limit of {room / MIB:.0f} MiB"
                raise InputError(message, remedy="raise limits.disk in a policy, or mount it read-only with [[mounts]]")


def _sizes(path: Path) -> Iterator[int]:
    """Bytes of the files in or at ``path``."""
    if not path.is_dir():
        yield path.stat().st_size
        return
    for directory, _, names in os.walk(path):
        for name in names:
            try:
                yield (Path(directory) / name).lstat().st_size
            except OSError:  # gone meanwhile; or unreadable, which the upload tells
                continue
