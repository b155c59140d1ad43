"""The file operations themselves, as they run in the worker: with the user's rights, one after the other, and blocking.

Each function takes the operation's params and gives (value for the answer, descriptor to hand over or -1).
"""

from __future__ import annotations

import os
import stat

from dayfly.agent import problems
from dayfly.agent.paths import Finder, Place, scratch_name
from dayfly.agent.problems import trouble
from dayfly.wire.messages import dump_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Params = dict[str, Any]
    Answer = tuple[dict[str, object], int]

MAX_PAGE_BYTES = 384 * 1024
"""Bytes of one page of a listing as JSON, so that it fits into one message of the worker's socket. A longer one goes on."""

MAX_PAGE = 4096
"""Entries of one page, whatever is asked."""

KEPT_NAMES = 200_000
"""Names of one directory that are held and sorted: some 20 MB. Of a larger one, every page reads it all again."""

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
        self._names = _Names()

    def stat(self, params: Params) -> Answer:
        with self._finder.find(params["path"], follow=params["follow"]) as place:
            return _entry(place.directory, place.name, place.path), -1

    def list(self, params: Params) -> Answer:
        after = os.fsencode(params["after"]) if params.get("after") is not None else b""
        with self._finder.find(params["path"]) as place:
            directory = place.open_directory()
            try:
                limit = min(max(1, params["limit"]), MAX_PAGE)
                return _page(directory, place.path, *self._names.after(directory, after, limit)), -1
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
        """A descriptor to write to. ``write`` is a new number, under which to ``commit`` or ``abort`` it."""
        if len(self._writes) >= MAX_WRITES:
            raise trouble(problems.OTHER, f"{MAX_WRITES} files are being written")
        place = self._finder.find(params["path"], make_parents=params["parents"])
        try:
            write = Write(place, params["how"], params["mode"] & 0o777)
        except BaseException:
            os.close(place.directory)
            raise
        self._writes[params["write"]] = write
        return {"write": params["write"]}, os.dup(write.handle)

    def commit(self, params: Params) -> Answer:
        write = self._end(params)
        try:
            write.commit()
        except BaseException:
            write.abort()
            raise
        finally:
            write.close()
        return {}, -1

    def abort(self, params: Params) -> Answer:
        write = self._end(params)
        write.abort()
        write.close()
        return {}, -1

    def _end(self, params: Params) -> Write:
        write = self._writes.pop(params["write"], None)
        if write is None:
            raise trouble(problems.OTHER, "the file worker that began this write is gone")
        return write

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
        self._scratch = scratch_name(replaces=found is not None)
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


class _Names:
    """The names of a directory in order. Those of the last long one are kept: a listing is asked for page by page."""

    def __init__(self) -> None:
        self._kept: tuple[object, list[bytes]] = (None, [])

    def after(self, directory: int, after: bytes, limit: int) -> tuple[list[bytes], bool]:
        """The first ``limit`` names above ``after``, and whether there are more."""
        status = os.fstat(directory)
        identity = (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns)
        if self._kept[0] == identity:
            names = self._kept[1]
            start = _first_above(names, after)
            return names[start : start + limit], start + limit < len(names)
        return self._read(directory, identity, after, limit)

    def _read(self, directory: int, identity: object, after: bytes, limit: int) -> tuple[list[bytes], bool]:
        names: list[bytes] = []
        whole = True
        with os.scandir(directory) as found:
            for number, entry in enumerate(found):
                if number >= MAX_NAMES:
                    raise trouble(problems.TOO_LARGE, f"more than {MAX_NAMES} entries")
                names.append(os.fsencode(entry.name))
                if len(names) > KEPT_NAMES:  # too many to hold: only those of this page
                    names = sorted(name for name in names if name > after)[: limit + 1]
                    whole = False
        names.sort()
        self._kept = (identity, names) if whole and len(names) > limit else (None, [])
        start = _first_above(names, after)
        return names[start : start + limit], start + limit < len(names)


def _first_above(names: list[bytes], after: bytes) -> int:
    low, high = 0, len(names)
    while low < high:
        middle = (low + high) // 2
        if names[middle] <= after:
            low = middle + 1
        else:
            high = middle
    return low


def _page(directory: int, path: bytes, names: list[bytes], more: bool) -> dict[str, object]:
    entries: list[dict[str, object]] = []
    size = 0
    for name in names:
        try:
            entry = _entry(directory, name, path.rstrip(b"/") + b"/" + name)
        except FileNotFoundError:  # removed since the directory was read
            continue
        size += len(dump_json(entry)) + 1
        if size > MAX_PAGE_BYTES and entries:
            return {"entries": entries, "more": True}
        entries.append(entry)
    return {"entries": entries, "more": more}
