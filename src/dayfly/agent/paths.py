"""Where a path leads, found step by step through directory descriptors.

The rule about symbolic links. Going down from "/", the first directory that the user could write to is where the *user's
tree* begins, such as /tmp; and the home is always a tree of its own. A link above it is the image's own (/bin -> usr/bin) and is followed like the kernel does.
A link inside it may have been made by hostile code, so it is followed only as far as it stays inside that same tree: what
names something in the home never leads out of the home. ``..`` is refused in what the caller gives; in a link it is
taken for what it means, never by textual shortening. /proc, /sys and /dev (but for /dev/shm) have no content for us.

Everything here runs with the rights of the user (see worker.py), so a wrong step could only reach what user code reaches.
"""

from __future__ import annotations

import os
import stat

from dayfly.agent import problems
from dayfly.agent.problems import trouble

MAX_PATH = 4096  # bytes: Linux's PATH_MAX
MAX_NAME = 255  # bytes: Linux's NAME_MAX

MAX_TURNS = 64
"""Links and ``..`` of links that one path may take: Linux follows 40 links."""

_STEP = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


_SCRATCH = (b".dayfly-new-", b".dayfly-old-")
"""What names of unfinished files begin with: such as will be new, and such as replace one. (All of them are of one length.)"""

_SCRATCH_DIGITS = 16


def scratch_name(replaces: bool) -> bytes:
    """A name for a file until it is whole. ``replaces``: there is one of its final name."""
    return _SCRATCH[replaces] + os.urandom(_SCRATCH_DIGITS // 2).hex().encode()


def scratch_kind(name: bytes) -> bool | None:
    """What ``scratch_name`` was told for this name; ``None`` if it is no such name."""
    start, digits = name[: len(_SCRATCH[0])], name[len(_SCRATCH[0]) :]
    if start not in _SCRATCH or len(digits) != _SCRATCH_DIGITS or digits.strip(b"0123456789abcdef"):
        return None
    return start == _SCRATCH[True]


class Place:
    """One name in one directory. ``directory`` is a descriptor that this object owns; ``parts`` the real path to it.

    For "/" itself the name is ".".
    """

    __slots__ = ("directory", "name", "parts")

    def __init__(self, directory: int, name: bytes, parts: list[bytes]) -> None:
        self.directory = directory
        self.name = name
        self.parts = parts

    def __enter__(self) -> Place:
        return self

    def __exit__(self, *unused: object) -> None:
        os.close(self.directory)

    @property
    def path(self) -> bytes:
        """The whole real path."""
        return b"/" + b"/".join([*self.parts, self.name] if self.name != b"." else self.parts)

    def status(self) -> os.stat_result | None:
        """lstat, or ``None`` if there is nothing of this name."""
        try:
            return os.stat(self.name, dir_fd=self.directory, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def open_directory(self) -> int:
        return open_directory(self.name, self.directory)

    def open(self, flags: int, mode: int = 0) -> int:
        """Open a file without following a link that took this name meanwhile, and without ever waiting."""
        extra = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
        return os.open(self.name, flags | extra, mode, dir_fd=self.directory)

    def require_content(self) -> None:
        """Raises ``not_regular`` where the kernel invents files."""
        top = [*self.parts, self.name][:2]
        if top[0] in (b"proc", b"sys") or (top[0] == b"dev" and top[1:] != [b"shm"]):
            raise trouble(problems.NOT_REGULAR, "kernel files have no content here")


class Finder:
    """Finds places for one user. ``uid`` and ``gid`` are the user's; relative paths start at ``home``."""

    def __init__(self, uid: int, gid: int, home: str) -> None:
        self._uid = uid
        self._gid = gid
        self.home = split(os.fsencode(home))

    def find(self, path: str, *, follow: bool = True, make_parents: bool = False) -> Place:
        """The place that ``path`` names. It may be empty; its directory exists. Raises ``Refused`` or ``OSError``."""
        walk = _Walk(self, follow, make_parents)
        pending = self._components(path)
        for _ in range(MAX_TURNS):
            found = walk.down(pending)
            if isinstance(found, Place):
                return found
            pending = found
        raise trouble(problems.UNSAFE_PATH, "too many symbolic links")

    def _components(self, path: str) -> list[bytes]:
        try:
            raw = os.fsencode(path)
        except UnicodeEncodeError:
            raise trouble(problems.UNSAFE_PATH, "the path is not encodable") from None
        if not raw or b"\0" in raw or len(raw) > MAX_PATH:
            raise trouble(problems.UNSAFE_PATH, "the path is empty, too long, or has a NUL in it")
        parts = split(raw)
        if b".." in parts:
            raise trouble(problems.UNSAFE_PATH, "'..' in the path")
        if any(len(part) > MAX_NAME for part in parts):
            raise trouble(problems.UNSAFE_PATH, "a name is too long")
        return parts if raw.startswith(b"/") else self.home + parts

    def owns(self, status: os.stat_result) -> bool:
        """Whether the user could put a link into this directory. Root, where it stands in for a user, owns its home only."""
        if self._uid and status.st_uid == self._uid:
            return True
        mine = stat.S_IWOTH | (stat.S_IWGRP if status.st_gid == self._gid else 0)
        return bool(status.st_mode & mine)


def open_directory(name: bytes, directory: int) -> int:
    """A directory, to be read; never through a link. Raises ``NotADirectoryError`` for one.

    In two steps, because gVisor (2024 and current) follows a link in spite of O_NOFOLLOW if O_DIRECTORY is given and
    O_PATH is not.
    """
    step = os.open(name, _STEP, dir_fd=directory)
    try:
        return os.open(b".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=step)
    finally:
        os.close(step)


def split(raw: bytes) -> list[bytes]:
    return [part for part in raw.split(b"/") if part not in (b"", b".")]


class _Walk:
    """One search. ``floor`` is the user's tree, once a link in it was followed: from then on nothing leads out of it."""

    def __init__(self, finder: Finder, follow: bool, make_parents: bool) -> None:
        self._finder = finder
        self._follow = follow
        self._make_parents = make_parents
        self._floor: list[bytes] | None = None

    def down(self, pending: list[bytes]) -> Place | list[bytes]:
        """Go down from "/". Gives the place, or another list of names to go by instead."""
        directory = os.open("/", _STEP)
        done: list[bytes] = []
        tree: list[bytes] | None = None  # where the user's tree begins on this way
        try:
            for index, name in enumerate(pending):
                rest = pending[index + 1 :]
                if name == b"..":
                    return self._up(done) + rest
                if done == self._finder.home or (tree is None and self._finder.owns(os.fstat(directory))):
                    tree = list(done)
                status = self._look(name, directory, bool(rest))
                if status is not None and stat.S_ISLNK(status.st_mode) and (rest or self._follow):
                    return self._through(os.readlink(name, dir_fd=directory), done, tree) + rest
                if not rest:
                    place, directory = Place(directory, name, done), -1
                    return place
                if status is None or not stat.S_ISDIR(status.st_mode):
                    raise trouble(problems.NOT_DIRECTORY)
                directory = _step(name, directory)
                done.append(name)
            place, directory = Place(directory, b".", done), -1
            return place
        finally:
            if directory >= 0:
                os.close(directory)

    def _look(self, name: bytes, directory: int, inner: bool) -> os.stat_result | None:
        try:
            return os.stat(name, dir_fd=directory, follow_symlinks=False)
        except FileNotFoundError:
            if not inner:
                return None
            if not self._make_parents:
                raise
        os.mkdir(name, 0o755, dir_fd=directory)
        return os.stat(name, dir_fd=directory, follow_symlinks=False)

    def _through(self, target: bytes, done: list[bytes], tree: list[bytes] | None) -> list[bytes]:
        """The names to go by after a link in directory ``done``."""
        parts = split(target)
        if tree is not None:
            self._floor = tree if self._floor is None else self._floor
            if target.startswith(b"/") and parts[: len(self._floor)] != self._floor:
                raise _leads_out()
        return parts if target.startswith(b"/") else done + parts

    def _up(self, done: list[bytes]) -> list[bytes]:
        if self._floor is not None and len(done) <= len(self._floor):
            raise _leads_out()
        return done[:-1]


def _leads_out() -> Exception:
    return trouble(problems.UNSAFE_PATH, "a symbolic link leads out of the user's tree")


def _step(name: bytes, directory: int) -> int:
    """Into a subdirectory; the old descriptor is closed. A link that took its place meanwhile is an error."""
    inner = os.open(name, _STEP, dir_fd=directory)
    os.close(directory)
    return inner
