"""The file operations themselves, as they run in the worker: with the user's rights, one after the other, and blocking.

Each function takes the operation's params and gives (value for the answer, descriptor to hand over or -1).
"""

from __future__ import annotations

import os
import stat

from dayfly.agent import problems
from dayfly.agent.paths import MAX_NAME, Finder, Place
from dayfly.agent.problems import trouble

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Params = dict[str, Any]
    Answer = tuple[dict[str, object], int]

MAX_PAGE_BYTES = 128 * 1024
"""Bytes of one page of a listing, so that it fits into one message of the worker's socket. A longer one goes on."""

MAX_NAMES = 4_000_000
"""Entries looked at for one page: an hour's work of hostile code, and some seconds for us."""

MAX_WRITES = 64
"""Unfinished writes: one per channel."""

_KINDS = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "symlink"}


class Files:
    """What the worker does, by name. ``writes`` are those that were begun and neither committed nor given up."""

    def __init__(self, finder: Finder) -> None:
        self._finder = finder
        self._writes: dict[int, Write] = {}
        self._next_write = 1

    def stat(self, params: Params) -> Answer:
        with self._finder.find(params["path"], follow=params["follow"]) as place:
            return _entry(place.directory, place.name, place.path), -1

    def list(self, params: Params) -> Answer:
        after = os.fsencode(params["after"]) if params.get("after") is not None else b""
        with self._finder.find(params["path"]) as place:
            directory = place.open(os.O_RDONLY | os.O_DIRECTORY)
            try:
                return _page(directory, place.path, after, max(1, params["limit"])), -1
            finally:
                os.close(directory)

    def mkdir(self, params: Params) -> Answer:
        with self._finder.find(params["path"], make_parents=params["parents"]) as place:
            found = place.status()
            if found is None:
                os.mkdir(place.name, params["mode"] & 0o777, dir_fd=place.directory)
            elif not stat.S_ISDIR(found.st_mode) or not params["parents"]:
                raise trouble(problems.EXISTS)
            return {"created": found is None}, -1

    def rename(self, params: Params) -> Answer:
        with (
            self._finder.find(params["path"], follow=False) as old,
            self._finder.find(params["to"], follow=False) as new,
        ):
            if not params["replace"] and new.status() is not None:
                raise trouble(problems.EXISTS)
            os.rename(old.name, new.name, src_dir_fd=old.directory, dst_dir_fd=new.directory)
            return {}, -1

    def remove(self, params: Params) -> Answer:
        """One entry; whole trees are an errand of their own."""
        with self._finder.find(params["path"], follow=False) as place:
            found = place.status()
            if found is None:
                raise trouble(problems.NOT_FOUND)
            if stat.S_ISDIR(found.st_mode):
                os.rmdir(place.name, dir_fd=place.directory)
            else:
                os.unlink(place.name, dir_fd=place.directory)
            return {"removed": 1}, -1

    def read(self, params: Params) -> Answer:
        """A descriptor to read from, and how much there is."""
        with self._finder.find(params["path"]) as place:
            place.require_content()
            _require_regular(place, missing=False)
            handle = place.open(os.O_RDONLY)
            found = os.fstat(handle)
            if not stat.S_ISREG(found.st_mode):  # it was exchanged between the look and the opening
                os.close(handle)
                raise trouble(problems.NOT_REGULAR)
            return {"size": found.st_size}, handle

    def write(self, params: Params) -> Answer:
        """A descriptor to write to, and the number under which to ``commit`` or ``abort``."""
        if len(self._writes) >= MAX_WRITES:
            raise trouble(problems.OTHER, f"{MAX_WRITES} files are being written")
        place = self._finder.find(params["path"], make_parents=params["parents"])
        try:
            write = Write(place, params["how"], params["mode"] & 0o777)
        except BaseException:
            os.close(place.directory)
            raise
        number = self._next_write
        self._next_write += 1
        self._writes[number] = write
        return {"write": number}, os.dup(write.handle)

    def commit(self, params: Params) -> Answer:
        write = self._writes.pop(params["write"])
        try:
            write.commit()
        except BaseException:
            write.abort()
            raise
        finally:
            write.close()
        return {}, -1

    def abort(self, params: Params) -> Answer:
        write = self._writes.pop(params["write"])
        write.abort()
        write.close()
        return {}, -1

    @property
    def idle(self) -> bool:
        return not self._writes


class Write:
    """One file being written. "replace" and "create" fill a file of another name, so a reader never sees half of one."""

    def __init__(self, place: Place, how: str, mode: int) -> None:
        place.require_content()
        found = _require_regular(place, missing=True)
        if how == "create" and found is not None:
            raise trouble(problems.EXISTS)
        self._place = place
        self._how = how
        self._scratch = b""
        if how == "append":
            self.handle = place.open(os.O_WRONLY | os.O_APPEND | os.O_CREAT, mode)
            if not stat.S_ISREG(os.fstat(self.handle).st_mode):
                os.close(self.handle)
                raise trouble(problems.NOT_REGULAR)
            return
        self._scratch = b".dayfly-" + os.urandom(8).hex().encode()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        self.handle = os.open(self._scratch, flags, 0o600, dir_fd=place.directory)
        os.fchmod(self.handle, mode)

    def commit(self) -> None:
        if not self._scratch:
            return
        directory = self._place.directory
        if self._how == "create":  # a link, unlike a rename, fails if the name is taken
            os.link(self._scratch, self._place.name, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)
            self._forget_scratch()
        else:
            os.rename(self._scratch, self._place.name, src_dir_fd=directory, dst_dir_fd=directory)
            self._scratch = b""

    def abort(self) -> None:
        """Leave nothing. What was appended stays: the file was the user's before."""
        if self._scratch:
            self._forget_scratch()

    def _forget_scratch(self) -> None:
        name, self._scratch = self._scratch, b""
        try:
            os.unlink(name, dir_fd=self._place.directory)
        except OSError:  # taken away by code inside: then there is nothing to leave
            return

    def close(self) -> None:
        os.close(self.handle)
        os.close(self._place.directory)


def _require_regular(place: Place, missing: bool) -> os.stat_result | None:
    """Look before opening: opening a FIFO or a device can have effects."""
    found = place.status()
    if found is None:
        if not missing:
            raise trouble(problems.NOT_FOUND)
    elif stat.S_ISDIR(found.st_mode):
        raise trouble(problems.IS_DIRECTORY)
    elif not stat.S_ISREG(found.st_mode):
        raise trouble(problems.NOT_REGULAR)
    return found


def _entry(directory: int, name: bytes, path: bytes) -> dict[str, object]:
    found = os.stat(name, dir_fd=directory, follow_symlinks=False)
    kind = _KINDS.get(stat.S_IFMT(found.st_mode), "other")
    return {
        "name": os.fsdecode(b"/" if name == b"." else name),
        "path": os.fsdecode(path),
        "kind": kind,
        "size": found.st_size,
        "mode": stat.S_IMODE(found.st_mode),
        "modified": found.st_mtime,
        "target": os.fsdecode(os.readlink(name, dir_fd=directory)) if kind == "symlink" else None,
    }


def _page(directory: int, path: bytes, after: bytes, limit: int) -> dict[str, object]:
    names, more = _names_after(directory, after, limit)
    entries: list[dict[str, object]] = []
    size = 0
    for name in names:
        try:
            entry = _entry(directory, name, path.rstrip(b"/") + b"/" + name)
        except FileNotFoundError:  # removed since the directory was read
            continue
        size += 6 * (2 * len(name) + len(path) + len(str(entry["target"] or ""))) + 120  # as JSON, at worst
        if size > MAX_PAGE_BYTES and entries:
            return {"entries": entries, "more": True}
        entries.append(entry)
    return {"entries": entries, "more": more}


def _names_after(directory: int, after: bytes, limit: int) -> tuple[list[bytes], bool]:
    """The first ``limit`` names above ``after`` in order, and whether there are more. Holds a few pages of names at most."""
    limit = min(limit, MAX_PAGE_BYTES // 120)
    best: list[bytes] = []
    highest = b"\xff" * (MAX_NAME + 1)
    with os.scandir(directory) as found:
        for number, entry in enumerate(found):
            if number >= MAX_NAMES:
                raise trouble(problems.TOO_LARGE, f"more than {MAX_NAMES} entries")
            name = os.fsencode(entry.name)
            if after < name < highest:
                best.append(name)
                if len(best) > 4 * limit + 4096:
                    best = sorted(best)[: limit + 1]
                    highest = best[-1]
    best.sort()
    return best[:limit], len(best) > limit
