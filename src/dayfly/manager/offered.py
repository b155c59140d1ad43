"""What a sandbox offers below a directory: walked by its agent's listings, which are claims."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from dayfly.errors import FileProblem, SandboxFileError
from dayfly.manager.recorded import RecordedLife
from dayfly.network import Output
from dayfly.saved import LeftOut
from dayfly.spec import FileInfo, FileKind

__all__ = ["MOST_ENTRIES", "MOST_FILES", "MOST_TOLD", "Found", "Offered"]

MOST_FILES = 10_000
"""Of one save: what takes a minute where the store answers in 50 ms. Beyond it, an archive is one object."""

MOST_ENTRIES = 50_000
"""That are looked at for them, directories and what is left out too: a tree without files does not keep anybody busy."""

MOST_TOLD = 100
"""Of what was left out, by name. The rest is a number."""

LONGEST_PATH = 2048
"""Bytes below the output's directory: a key has less, and the whole is to be a path of Linux."""

LONGEST_NAME = 255

DEEPEST = 64
"""Directories in each other: deeper than any tree of results, and far less than a key has room for."""


@dataclass(frozen=True)
class Found:
    """``path`` inside, ``below``: below the output's directory, ``size`` in bytes as the agent says."""

    path: str
    below: str
    size: int


class Offered:
    """Of one save."""

    def __init__(self, life: RecordedLife) -> None:
        self._life = life
        self._files = 0
        self._entries = 0
        self._full = False
        self.left_out: list[LeftOut] = []
        self.left_out_count = 0

    def leave_out(self, path: str, reason: str) -> None:
        self.left_out_count += 1
        if len(self.left_out) < MOST_TOLD:
            self.left_out.append(LeftOut(path, reason))

    async def below(self, one: Output) -> list[Found]:
        """The files to save, in order. Raises ``SandboxEnded``."""
        found: list[Found] = []
        if not await self._is_directory(one.directory):
            return found
        waiting = [""]
        while waiting and not self._full:
            inside = waiting.pop()
            async for entry in self._entries_of(one.directory, inside):
                below = inside + entry.name
                if len(_bytes(below)) > LONGEST_PATH:
                    self.leave_out(f"{one.directory}/{below}", "has a path that is too long")
                elif entry.kind is FileKind.DIRECTORY and below.count("/") < DEEPEST:
                    waiting.append(f"{below}/")
                elif entry.kind is FileKind.FILE and self._files < MOST_FILES:
                    self._files += 1
                    found.append(Found(f"{one.directory}/{below}", below, entry.size))
                else:
                    self.leave_out(f"{one.directory}/{below}", _REASONS.get(entry.kind, "is no regular file"))
        return found

    async def _is_directory(self, path: str) -> bool:
        """Not a link to one either."""
        try:
            kind = (await self._life.stat(path, follow=False)).kind
        except SandboxFileError as error:
            if error.problem is not FileProblem.NOT_FOUND:
                self.leave_out(path, f"cannot be listed: {error.problem.value}")
            else:
                self.leave_out(path, "is not there")
            return False
        if kind is not FileKind.DIRECTORY:
            self.leave_out(path, "is no directory")
        return kind is FileKind.DIRECTORY

    async def _entries_of(self, root: str, inside: str) -> AsyncIterator[FileInfo]:
        """By name. A listing that goes back or names what is no name is not believed any further."""
        path = f"{root}/{inside}".removesuffix("/")
        after: str | None = None
        try:
            more = True
            while more:
                rows, more = await self._life.list_files(path, after=after)
                for entry in rows:
                    if not _is_next(entry.name, after):
                        self.leave_out(path, "is listed in a way that no directory is")
                        return
                    after = entry.name
                    self._entries += 1
                    if self._entries > MOST_ENTRIES:
                        self._full = True
                        self.leave_out(path, f"and what follows: more than {MOST_ENTRIES} entries are not looked at")
                        return
                    yield entry
                if more and not rows:
                    self.leave_out(path, "is listed in a way that no directory is")
                    return
        except SandboxFileError as error:
            self.leave_out(path, f"cannot be listed: {error.problem.value}")


_REASONS = {
    FileKind.FILE: f"is beyond the {MOST_FILES} files of one save",
    FileKind.DIRECTORY: f"is a directory more than {DEEPEST} deep",
    FileKind.SYMLINK: "is a symbolic link",
}


def _is_next(name: str, after: str | None) -> bool:
    try:
        size = len(_bytes(name))
    except UnicodeEncodeError:  # no bytes of a name are read as this
        return False
    if not 0 < size <= LONGEST_NAME or "/" in name or "\0" in name or name in (".", ".."):
        return False
    return after is None or _bytes(name) > _bytes(after)


def _bytes(name: str) -> bytes:
    """How the agent orders them."""
    return name.encode("utf-8", "surrogateescape")
