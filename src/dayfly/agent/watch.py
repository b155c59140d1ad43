"""Watching files, in the errand process: inotify, spoken to through ctypes, which only this process pays for.

Paths in events are real and absolute. What the kernel's queue could not hold is told as ``overflow``. A file that the agent
writes has another name until it is whole: that name is never told, and the end of the write as ``created`` or ``modified``.
"""

from __future__ import annotations

import os
import select
import stat
from _struct import Struct

from dayfly.agent import problems
from dayfly.agent.descent import Descent
from dayfly.agent.errands import Errand, Report
from dayfly.agent.paths import Finder, open_directory, scratch_kind
from dayfly.agent.problems import trouble

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from dayfly.agent.core import Agent
    from dayfly.agent.session import Channel, Task

MAX_WATCHES = 8192
"""Directories under one watch: Linux's old default for a user."""

IN_MODIFY = 0x2
IN_MOVED_FROM = 0x40
IN_MOVED_TO = 0x80
IN_CREATE = 0x100
IN_DELETE = 0x200
IN_DELETE_SELF = 0x400
IN_MOVE_SELF = 0x800
IN_Q_OVERFLOW = 0x4000
IN_IGNORED = 0x8000
IN_DONT_FOLLOW = 0x02000000
IN_ISDIR = 0x40000000
_MASK = IN_MODIFY | IN_MOVED_FROM | IN_MOVED_TO | IN_CREATE | IN_DELETE | IN_DELETE_SELF | IN_MOVE_SELF | IN_DONT_FOLLOW
_CLOEXEC = 0o2000000

_EVENT = Struct("iIII")
_READ = 64 * 1024


def watch(agent: Agent, channel: Channel, params: dict[str, Any]) -> Task:
    return Errand(agent, channel, watched, params)


def watched(report: Report, finder: Finder, params: dict[str, Any]) -> dict[str, object]:
    """Tells of changes until the agent loses interest, or what is watched is gone."""
    with finder.find(params["path"]) as place:
        place.require_content()
        found = place.status()
        if found is None:
            raise trouble(problems.NOT_FOUND)
        watching = _Watching(report, _Inotify(), place.path, params["recursive"])
        if stat.S_ISDIR(found.st_mode):
            watching.add_root(place.directory, place.name)
        else:
            watching.add_file(place.directory, place.name)
        report.event("ready", {})
        watching.run(report.hears)
    return {}


class _Inotify:
    """The two calls. Watches are added by way of the working directory, which a descriptor sets: no path to mislead."""

    def __init__(self) -> None:
        import ctypes

        self._ctypes = ctypes
        self._libc = ctypes.CDLL(None, use_errno=True)
        self.fd = self._checked(self._libc.inotify_init1(_CLOEXEC))

    def add(self, directory: int, name: bytes) -> int:
        os.fchdir(directory)
        try:
            return self._checked(self._libc.inotify_add_watch(self.fd, name, _MASK))
        finally:
            os.chdir("/")  # whoever stays in a directory, or holds it open, is never told of its end

    def _checked(self, result: int) -> int:
        if result < 0:
            number = self._ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return result


class _Watching:
    """``paths`` gives the directory (below the root, b"" for itself) of each watch."""

    def __init__(self, report: Report, inotify: _Inotify, root: bytes, recursive: bool) -> None:
        self._report = report
        self._inotify = inotify
        self._root = root
        self._recursive = recursive
        self._parent = -1  # the root is opened by its name in here, each time anew
        self._name = b""
        self._paths: dict[int, bytes] = {}
        self._written: tuple[int, bool] | None = (
            None  # the last unfinished file that left its name: cookie, and its kind
        )
        self._over = False

    # --- what is watched ------------------------------------------------------------------------------------------

    def add_file(self, directory: int, name: bytes) -> None:
        self._paths[self._inotify.add(directory, name)] = b""

    def add_root(self, parent: int, name: bytes) -> None:
        self._parent = parent
        self._name = name
        self._add_tree(b"", told=False)

    def _add_tree(self, below: bytes, told: bool) -> None:
        """Watch a directory, and what is in it if recursive. ``told``: it is new, so what is there already is news."""
        start = self._open(below)
        try:
            with Descent(start) as way:
                self._enter(way, below, told)
                while way.depth or way.memory:
                    if way.memory:
                        self._down(way, way.memory.pop(), below, told)
                    else:
                        way.up()
        finally:
            os.close(start)

    def _down(self, way: Descent, name: bytes, below: bytes, told: bool) -> None:
        try:
            way.down(name)
        except (FileNotFoundError, NotADirectoryError, PermissionError):  # gone, exchanged, or not for us to see
            return
        self._enter(way, below, told)

    def _enter(self, way: Descent, below: bytes, told: bool) -> None:
        here = way.path(b"").rstrip(b"/")
        path = b"/".join(part for part in (below, here) if part)
        if len(self._paths) >= MAX_WATCHES:
            raise trouble(problems.TOO_LARGE, f"more than {MAX_WATCHES} directories")
        self._paths[self._inotify.add(way.directory, b".")] = path
        way.memory = []
        if not self._recursive:
            return
        with os.scandir(way.directory) as found:
            for entry in found:
                name = os.fsencode(entry.name)
                is_directory = entry.is_dir(follow_symlinks=False)
                if told and (is_directory or scratch_kind(name) is None):
                    self._tell("created", _joined(path, name))
                if is_directory:
                    way.memory.append(name)

    def _open(self, below: bytes) -> int:
        """A directory below the root, step by step."""
        current = open_directory(self._name, self._parent)
        for part in below.split(b"/") if below else []:
            try:
                inner = open_directory(part, current)
            finally:
                os.close(current)
            current = inner
        return current

    # --- what happens ---------------------------------------------------------------------------------------------

    def run(self, hears: int) -> None:
        poll = select.poll()
        poll.register(self._inotify.fd, select.POLLIN)
        poll.register(hears, 0)  # its end shows without being asked for: the agent is gone
        while not self._over:
            for fd, _ in poll.poll():
                if fd == hears:
                    return
                self._take(os.read(self._inotify.fd, _READ))

    def _take(self, data: bytes) -> None:
        moved: dict[int, bytes] = {}  # by cookie: where things went away from
        last: tuple[str, bytes] | None = None
        for watch, mask, cookie, name in _events(data):
            path = self._paths.get(watch)
            if mask & IN_Q_OVERFLOW:
                self._tell("overflow", b"")
            elif path is None:
                continue
            elif mask & (IN_IGNORED | IN_DELETE_SELF | IN_MOVE_SELF):
                self._gone(watch, path, mask)
            elif not mask & IN_ISDIR and scratch_kind(name) is not None:
                self._unfinished(mask, cookie, name)
            elif mask & IN_MOVED_FROM:
                moved[cookie] = _joined(path, name)
            else:
                there = _joined(path, name)
                kind = self._finished(mask, cookie)
                news = (kind, there) if kind else self._news(mask, there, moved.pop(cookie, None) if cookie else None)
                if news != last:
                    self._tell(*news)
                    last = news if news[0] == "modified" else None
                if mask & IN_ISDIR and news[0] == "created":
                    self._new_directory(news[1])
        for path in moved.values():  # out of what is watched
            self._tell("removed", path)
            self._move(path, None)

    def _unfinished(self, mask: int, cookie: int, name: bytes) -> None:
        """Of all that happens to an unfinished file only its getting another name is news, which comes next."""
        if mask & IN_MOVED_FROM:
            self._written = (cookie, bool(scratch_kind(name)))

    def _finished(self, mask: int, cookie: int) -> str | None:
        """What to call this event if it is the end of a write."""
        written = self._written
        if not mask & IN_MOVED_TO or written is None or written[0] != cookie:
            return None
        self._written = None
        return "modified" if written[1] else "created"

    def _news(self, mask: int, path: bytes, before: bytes | None) -> tuple[str, bytes]:
        if mask & IN_MOVED_TO and before is not None:
            self._move(before, path)
            return "renamed", path
        if mask & (IN_CREATE | IN_MOVED_TO):
            return "created", path
        return ("removed" if mask & IN_DELETE else "modified"), path

    def _new_directory(self, path: bytes) -> None:
        if not self._recursive:
            return
        try:
            self._add_tree(path, told=True)
        except OSError:  # gone again; its removal is told by the directory above
            return

    def _gone(self, watch: int, path: bytes, mask: int) -> None:
        if mask & (IN_IGNORED | IN_DELETE_SELF):
            del self._paths[watch]
        if not path and not self._over and mask & (IN_IGNORED | IN_DELETE_SELF | IN_MOVE_SELF):
            self._over = True
            self._tell("removed", b"")

    def _move(self, before: bytes, after: bytes | None) -> None:
        """A directory has another name now, and so has all below it; or it is out of sight, and no longer told of."""
        for watch, path in list(self._paths.items()):
            if path == before or path.startswith(before + b"/"):
                if after is None:
                    del self._paths[watch]
                else:
                    self._paths[watch] = after + path[len(before) :]

    def _tell(self, kind: str, path: bytes) -> None:
        self._report.event("change", {"kind": kind, "path": os.fsdecode(_joined(self._root, path))})


def _joined(path: bytes, name: bytes) -> bytes:
    return b"/".join(part for part in (path, name) if part) if path != b"/" else path + name


def _events(data: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    position = 0
    while position + _EVENT.size <= len(data):
        watch, mask, cookie, length = _EVENT.unpack_from(data, position)
        position += _EVENT.size
        yield watch, mask, cookie, data[position : position + length].split(b"\0", 1)[0]
        position += length
