"""Going through a tree of any depth with few descriptors: hostile code may have nested directories by the thousand."""

from __future__ import annotations

import os

from dayfly.agent import problems
from dayfly.agent.paths import open_directory
from dayfly.agent.problems import trouble

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_OPEN = 64
"""Last levels whose descriptors stay open. One further up is found again by its name, and must be the same directory."""

ANCHOR = 64
MAX_ANCHORS = 128
"""Every 64th level stays open as well, down to the 8192nd: from there the way back is short."""

MAX_DEPTH = 100_000
"""Levels of a tree: what a disk's worth of directories can reach, and some MB of bookkeeping."""


class _Level:
    __slots__ = ("descriptor", "identity", "memory", "name")

    def __init__(self, descriptor: int, name: bytes) -> None:
        self.descriptor = descriptor
        self.name = name
        self.identity = _identity(descriptor)
        self.memory: Any = None


class Descent:
    """A way down from a directory, one level at a time. Owns all its descriptors. ``memory`` is the caller's, per level."""

    def __init__(self, directory: int) -> None:
        self._levels = [_Level(open_directory(b".", directory), b"")]

    def __enter__(self) -> Descent:
        return self

    def __exit__(self, *unused: object) -> None:
        for level in self._levels:
            if level.descriptor >= 0:
                os.close(level.descriptor)

    @property
    def depth(self) -> int:
        """0 in the first directory."""
        return len(self._levels) - 1

    @property
    def directory(self) -> int:
        """The descriptor of where we are."""
        return self._levels[-1].descriptor

    @property
    def memory(self) -> Any:
        return self._levels[-1].memory

    @memory.setter
    def memory(self, value: Any) -> None:
        self._levels[-1].memory = value

    def path(self, name: bytes) -> bytes:
        """``name`` here, from the first directory on."""
        return b"/".join([*(level.name for level in self._levels[1:]), name])

    def down(self, name: bytes) -> None:
        """Into a subdirectory; never through a link. Raises ``OSError``, and then we are where we were."""
        if len(self._levels) >= MAX_DEPTH:
            raise trouble(problems.TOO_LARGE, f"more than {MAX_DEPTH} directories in each other")
        self._levels.append(_Level(open_directory(name, self.directory), name))
        self._rest(len(self._levels) - 1 - MAX_OPEN)

    def up(self) -> bytes:
        """Back; returns the name of the directory that was left."""
        left = self._levels.pop()
        _let_go(left)
        if self.directory < 0:
            self._reopen()
        return left.name

    def _reopen(self) -> None:
        """The current level, from the last one above that is open (the first always is)."""
        start = max(index for index, level in enumerate(self._levels) if level.descriptor >= 0)
        for index in range(start + 1, len(self._levels)):
            level, above = self._levels[index], self._levels[index - 1]
            level.descriptor = open_directory(level.name, above.descriptor)
            if _identity(level.descriptor) != level.identity:
                raise trouble(problems.OTHER, "the tree was moved meanwhile")
            if index - 1 < len(self._levels) - MAX_OPEN // 2:
                self._rest(index - 1)

    def _rest(self, index: int) -> None:
        """A level far above may do without a descriptor; the first one never, since all can be found from it."""
        if index > 0 and (index % ANCHOR or index // ANCHOR > MAX_ANCHORS):
            _let_go(self._levels[index])


def _let_go(level: _Level) -> None:
    if level.descriptor >= 0:
        os.close(level.descriptor)
        level.descriptor = -1


def _identity(descriptor: int) -> tuple[int, int]:
    found = os.fstat(descriptor)
    return found.st_dev, found.st_ino
