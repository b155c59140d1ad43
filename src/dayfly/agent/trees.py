"""Directories as tar streams, in the errand process: packed without setuid bits, devices or waiting; unpacked without
ever leaving the directory that was named.
"""

from __future__ import annotations

import os
import stat

from dayfly.agent import problems, tar
from dayfly.agent.descent import Descent
from dayfly.agent.errands import Errand, Report
from dayfly.agent.paths import MAX_NAME, MAX_PATH, Finder, open_directory
from dayfly.agent.problems import trouble
from dayfly.agent.tar import Member

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from dayfly.agent.core import Agent
    from dayfly.agent.session import Channel, Task

MAX_MEMBERS = 1_000_000
"""Entries of one tree: ten times a large source tree; what they take is bounded by the disk."""

MAX_SIBLINGS = 200_000
"""Entries of one directory of a packed tree: their names are held and sorted."""

_READ = 256 * 1024
_CONTENT = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def pack(agent: Agent, channel: Channel, params: dict[str, Any]) -> Task:
    return Errand(agent, channel, packed, params)


def unpack(agent: Agent, channel: Channel, params: dict[str, Any]) -> Task:
    task = Errand(agent, channel, unpacked, params)
    channel.raise_window()
    return task


# --- packing ------------------------------------------------------------------------------------------------------


def packed(report: Report, finder: Finder, params: dict[str, Any]) -> dict[str, object]:
    """Directories before what they hold, names in order. Hard links become files."""
    with finder.find(params["path"]) as place:
        place.require_content()
        directory = place.open_directory()
    try:
        with Descent(directory) as way:
            packing = _Packing(report, way)
            packing.run()
    finally:
        os.close(directory)
    return {"members": packing.members, "size": packing.size}


class _Packing:
    def __init__(self, report: Report, way: Descent) -> None:
        self.members = 0
        self.size = 0
        self._report = report
        self._way = way

    def run(self) -> None:
        way = self._way
        way.memory = _names(way.directory)
        while True:
            if way.memory:
                self._entry(way.memory.pop())
            elif way.depth:
                way.up()
            else:
                break
        self._report.content(tar.END)

    def _entry(self, name: bytes) -> None:
        try:
            found = os.stat(name, dir_fd=self._way.directory, follow_symlinks=False)
            if stat.S_ISDIR(found.st_mode):
                self._way.down(name)
                self._way.memory = _names(self._way.directory)
                self._begin(b"", tar.DIRECTORY, found)
            elif stat.S_ISREG(found.st_mode):
                self._file(name)
            elif stat.S_ISLNK(found.st_mode):
                target = os.readlink(name, dir_fd=self._way.directory)
                self._begin(name, tar.SYMLINK, found, target=target)
        except FileNotFoundError:  # removed since the directory was read
            return

    def _begin(self, name: bytes, kind: bytes, found: os.stat_result, size: int = 0, target: bytes = b"") -> None:
        """The header. Without a name: of the directory where we are."""
        self.members += 1
        if self.members > MAX_MEMBERS:
            raise trouble(problems.TOO_LARGE, f"more than {MAX_MEMBERS} entries")
        path = self._way.path(name)
        member = Member(path, kind, stat.S_IMODE(found.st_mode), int(found.st_mtime), size, target)
        self._report.content(tar.header(member))

    def _file(self, name: bytes) -> None:
        handle = os.open(name, _CONTENT, dir_fd=self._way.directory)
        try:
            found = os.fstat(handle)
            if stat.S_ISREG(found.st_mode):  # else it was exchanged meanwhile
                self._begin(name, tar.FILE, found, found.st_size)
                self._copy(handle, found.st_size)
        finally:
            os.close(handle)

    def _copy(self, handle: int, size: int) -> None:
        """Exactly ``size`` bytes, as the header says: a file that shrinks meanwhile is filled up with zeros."""
        self.size += size
        left = size
        while left:
            data = os.read(handle, min(left, _READ)) or bytes(min(left, _READ))
            self._report.content(data)
            left -= len(data)
        self._report.content(bytes(tar.padding(size)))


def _names(directory: int) -> list[bytes]:
    """In reverse order, to be taken from the end."""
    names = []
    with os.scandir(directory) as found:
        for entry in found:
            names.append(os.fsencode(entry.name))
            if len(names) > MAX_SIBLINGS:
                raise trouble(problems.TOO_LARGE, f"more than {MAX_SIBLINGS} entries in one directory")
    names.sort(reverse=True)
    return names


# --- unpacking ----------------------------------------------------------------------------------------------------


def unpacked(report: Report, finder: Finder, params: dict[str, Any]) -> dict[str, object]:
    """Into a directory, made if it is not there. What was unpacked before something is refused stays."""
    with finder.find(params["path"], make_parents=True) as place:
        place.require_content()
        if place.status() is None:
            os.mkdir(place.name, 0o755, dir_fd=place.directory)
        target = place.open_directory()
    unpacking = _Unpacking(report, target)
    try:
        unpacking.run()
    finally:
        unpacking.close()
        os.close(target)
    return {"members": unpacking.members, "size": unpacking.size}


class _Unpacking:
    def __init__(self, report: Report, target: int) -> None:
        self.members = 0
        self.size = 0
        self._report = report
        self._target = target
        self._last: tuple[list[bytes], int] = ([], os.dup(target))  # the next member is often in the same directory

    def close(self) -> None:
        os.close(self._last[1])

    def run(self) -> None:
        while True:
            member = tar.next_member(self._report.read)
            if member is None:
                break
            self.members += 1
            if self.members > MAX_MEMBERS:
                raise trouble(problems.TOO_LARGE, f"more than {MAX_MEMBERS} entries")
            self._take(member)
        while self._report.read(_READ):  # the padding of the archive
            continue

    def _take(self, member: Member) -> None:
        parts = _parts(member.name)
        if not parts:
            if member.kind != tar.DIRECTORY:
                raise _unsafe(member.name)
            return
        try:
            directory = self._enter(parts[:-1])
            self._make(member, parts, directory)
        except NotADirectoryError:  # a link or a file stands where a directory is needed
            raise _unsafe(member.name) from None
        except OSError as error:
            refused = problems.translated(error)
            raise trouble(refused.code, f"{_shown(member.name)}: {refused}") from None

    def _make(self, member: Member, parts: list[bytes], directory: int) -> None:
        if member.kind == tar.DIRECTORY:
            os.fchmod(self._enter(parts), member.mode | 0o700)
        elif member.kind == tar.FILE:
            self._file(member, parts[-1], directory)
        elif member.kind == tar.SYMLINK:
            _clear(parts[-1], directory)
            os.symlink(member.target, parts[-1], dir_fd=directory)
        else:
            raise trouble(problems.NOT_REGULAR, f"{_shown(member.name)} is no file, directory or symbolic link")

    def _file(self, member: Member, name: bytes, directory: int) -> None:
        _clear(name, directory)
        handle = os.open(name, _NEW, 0o600, dir_fd=directory)
        try:
            left = member.size
            while left:
                data = self._report.read(min(left, _READ))
                if not data:
                    raise trouble(problems.OTHER, "the archive is cut short")
                _write_all(handle, data)
                left -= len(data)
            os.fchmod(handle, member.mode)
            os.utime(handle, (member.modified, member.modified))
        finally:
            os.close(handle)
        self.size += member.size
        self._report.read(tar.padding(member.size))

    def _enter(self, parts: list[bytes]) -> int:
        """The directory ``parts`` below the target, made as needed, never through a link."""
        if parts == self._last[0]:
            return self._last[1]
        current = os.dup(self._target)
        for part in parts:
            try:
                inner = _open_or_make(part, current)
            finally:
                os.close(current)
            current = inner
        os.close(self._last[1])
        self._last = (parts, current)
        return current


def _open_or_make(name: bytes, directory: int) -> int:
    try:
        return open_directory(name, directory)
    except FileNotFoundError:
        os.mkdir(name, 0o755, dir_fd=directory)
        return open_directory(name, directory)


def _clear(name: bytes, directory: int) -> None:
    """Make way for a member, as tar does; a directory in the way is an error."""
    try:
        os.unlink(name, dir_fd=directory)
    except FileNotFoundError:
        return


def _parts(name: bytes) -> list[bytes]:
    parts = [part for part in name.split(b"/") if part not in (b"", b".")]
    bad = name.startswith(b"/") or b".." in parts or b"\0" in name or len(name) > MAX_PATH
    if bad or any(len(part) > MAX_NAME for part in parts):
        raise _unsafe(name)
    return parts


def _unsafe(name: bytes) -> Exception:
    return trouble(problems.UNSAFE_PATH, f"a member with the name {_shown(name)}")


def _shown(name: bytes) -> str:
    return ascii(name[:200].decode("utf-8", "surrogateescape"))


def _write_all(handle: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]
