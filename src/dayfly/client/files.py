"""Files inside. Nothing is held in memory but what ``read`` returns; everything else is streamed."""

from __future__ import annotations

import builtins
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

from dayfly.client import trees
from dayfly.client.arguments import LocalPath, decoded, local_path, number_or_none, whole_number
from dayfly.client.backend import Backend, WriteMode
from dayfly.client.content import Content, pieces
from dayfly.client.local import LocalFile, PartFile, local_error
from dayfly.client.names import SandboxPath, last_name, path_text
from dayfly.client.streams import capped, closing, pouring, reading
from dayfly.client.watch import AsyncWatch
from dayfly.client.worker import Worker
from dayfly.errors import FileProblem, SandboxFileError
from dayfly.limits import GIB, MIB
from dayfly.spec import FileInfo

if TYPE_CHECKING:
    from pathlib import Path

    from dayfly.client.sandbox import AsyncSandbox

__all__ = ["MAX_LISTED", "MAX_READ", "AsyncFiles", "LocalPath"]

MAX_READ = 256 * MIB
"""Bytes that ``read`` takes into memory unless told otherwise: code inside may make a file of any size."""

MIN_DOWNLOAD = 4 * GIB
"""Bytes that a download may have at least: files of the image count too, so the disk limit alone is no measure."""

MAX_LISTED = 10_000
"""Entries that ``list`` gives at once: more is no directory that somebody wants to look at."""

PAGE = 1000
MAX_ENTRIES = 1_000_000
"""Entries of one listing: a sandbox that never stops listing must not keep the caller for ever."""


class AsyncFiles:
    """``sandbox.files``. Paths are absolute or relative to the home; what a path names is never left by a link.

    Every method raises ``SandboxFileError`` (its ``problem`` says why), ``SandboxEnded`` or ``InputError``; those with a
    local path ``LocalFileError`` (also an ``OSError``) or ``OutOfSpace`` for what this machine's files refuse.
    """

    def __init__(self, sandbox: AsyncSandbox, current: Callable[[], Backend]) -> None:
        self._sandbox = sandbox  # kept, so that the sandbox lives as long as this is used
        self._current = current

    @property
    def _backend(self) -> Backend:
        return self._current()  # after a pause it is another one

    async def read(self, path: SandboxPath, *, limit: int = MAX_READ) -> bytes:
        """The whole content. More than ``limit`` bytes is a ``SandboxFileError`` with problem ``too_large``."""
        async with closing(self.stream(path, limit=limit)) as chunks:
            return b"".join([chunk async for chunk in chunks])

    async def read_text(self, path: SandboxPath, *, encoding: str = "utf-8", limit: int = MAX_READ) -> str:
        """The whole content as text. Bytes that the encoding does not have become U+FFFD: ``read`` gives them exactly."""
        return decoded(await self.read(path, limit=limit), encoding)

    async def stream(
        self, path: SandboxPath, *, offset: int = 0, length: int | None = None, limit: int | None = None
    ) -> AsyncIterator[bytes]:
        """The content in pieces, ``length`` bytes from ``offset``. More than ``limit`` bytes in all is an error."""
        name = path_text(path)
        offset, length = whole_number("offset", offset), number_or_none("length", length)
        limit = number_or_none("limit", limit)
        source = self._backend.read_file(name, offset=offset, length=length)
        async with closing(capped(source, name, limit)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def download(self, path: SandboxPath, local: LocalPath, *, limit: int | None = None) -> int:
        """Copy a file to this machine; returns its size. ``local`` is a file's name or an existing directory.

        The local file appears whole or not at all, and replaces one that is there. ``limit`` caps its bytes (default:
        the larger of 4 GiB and the disk limit).
        """
        name, target, limit = path_text(path), local_path(local), self._most(limit)
        async with Worker("download") as worker:
            part = await worker.do(_part_file, target, name, undo=PartFile.discard)
            try:
                size = await pouring(self.stream(name, limit=limit), worker, part.write)
                await worker.do(part.commit)
                return size
            finally:
                await worker.do(part.discard)

    async def write(
        self, path: SandboxPath, content: Content, *, mode: int = 0o644, parents: bool = True, exclusive: bool = False
    ) -> int:
        """Make or replace a file; returns its size. It appears whole or not at all. ``exclusive``: it must be new.

        ``parents`` makes missing directories, ``mode`` are permission bits.
        """
        return await self._write(path, content, "create" if exclusive else "replace", mode, parents)

    async def append(self, path: SandboxPath, content: Content, *, mode: int = 0o644, parents: bool = True) -> int:
        """Write at the end of a file, which is made if missing; returns how many bytes were added."""
        return await self._write(path, content, "append", mode, parents)

    async def _write(self, path: SandboxPath, content: Content, how: WriteMode, mode: int, parents: bool) -> int:
        name, mode = path_text(path), whole_number("mode", mode, most=0o7777)
        async with closing(pieces(content)) as chunks:
            return await self._backend.write_file(name, chunks, how=how, mode=mode, parents=bool(parents))

    async def upload(self, local: LocalPath, path: SandboxPath | None = None, *, mode: int = 0o644) -> int:
        """Copy a file of this machine into the sandbox; returns its size. ``path`` defaults to its name, in the home."""
        source = local_path(local)
        name = source.name if path is None else path_text(path)
        async with Worker("upload") as worker:
            file = await worker.do(LocalFile, source, undo=LocalFile.close)
            try:
                return await self.write(name, reading(worker, file.read), mode=mode)
            finally:
                await worker.do(file.close)  # not while it is being read

    async def list(self, path: SandboxPath = ".") -> builtins.list[FileInfo]:
        """The entries of a directory, sorted by name. More than 10,000 are too many: ``iterate`` gives them."""
        found: builtins.list[FileInfo] = []
        async with closing(self.iterate(path)) as entries:
            async for entry in entries:
                if len(found) == MAX_LISTED:
                    raise SandboxFileError(
                        FileProblem.TOO_LARGE,
                        path_text(path),
                        f"more than {MAX_LISTED} entries",
                        remedy="files.iterate(path) gives them all, a page at a time",
                    )
                found.append(entry)
        return found

    async def iterate(self, path: SandboxPath = ".") -> AsyncIterator[FileInfo]:
        """The entries of a directory of any size, sorted by name, one after the other; fetched a page at a time."""
        name = path_text(path)
        after, count, more = None, 0, True
        while more:
            entries, more = await self._backend.list_files(name, after=after, limit=PAGE)
            for entry in entries:
                if after is not None and not _bytes(after) < _bytes(entry.name):
                    raise SandboxFileError(FileProblem.OTHER, name, "the sandbox lists names out of order")
                after, count = entry.name, count + 1
                yield entry
            if more and (not entries or count >= MAX_ENTRIES):
                raise SandboxFileError(
                    FileProblem.TOO_LARGE, name, f"the listing does not end, {MAX_ENTRIES} entries at most"
                )

    async def stat(self, path: SandboxPath, *, follow: bool = True) -> FileInfo:
        """One entry. ``follow=False`` describes a link itself."""
        return await self._backend.stat(path_text(path), follow=bool(follow))

    async def exists(self, path: SandboxPath) -> bool:
        """Whether the path names something."""
        try:
            await self.stat(path)
        except SandboxFileError as error:
            if error.problem in (FileProblem.NOT_FOUND, FileProblem.NOT_DIRECTORY):
                return False
            raise
        return True

    async def mkdir(self, path: SandboxPath, *, parents: bool = True, mode: int = 0o755) -> bool:
        """Make a directory; returns whether it is new."""
        mode = whole_number("mode", mode, most=0o7777)
        return await self._backend.make_directory(path_text(path), parents=bool(parents), mode=mode)

    async def rename(self, path: SandboxPath, to: SandboxPath, *, replace: bool = True) -> None:
        """Rename. ``replace=False`` refuses if ``to`` exists."""
        await self._backend.rename(path_text(path), path_text(to), replace=bool(replace))

    async def remove(self, path: SandboxPath, *, recursive: bool = False) -> int:
        """Remove a file, or a directory (``recursive``: with all it holds); returns how many entries went."""
        return await self._backend.remove(path_text(path), recursive=bool(recursive))

    async def watch(self, path: SandboxPath, *, recursive: bool = False) -> AsyncWatch:
        """Follow changes below a directory, from the moment this returns. Close it when done."""
        watch = AsyncWatch(self._sandbox, self._backend.watch(path_text(path), recursive=bool(recursive)))
        await watch.ready()
        return watch

    async def download_directory(
        self, path: SandboxPath, local: LocalPath, *, limit: int | None = None, members: int = trees.MAX_MEMBERS
    ) -> int:
        """Copy a directory to this machine as the new directory ``local``; returns how many entries it has.

        What comes is not trusted: anything that would leave ``local``, special files and more than ``limit`` bytes or
        ``members`` entries are refused with ``UnsafeTree``, and then nothing is left. Modes lose set-id bits and write
        for others.
        """
        name, target = path_text(path), local_path(local)
        caps = trees.Caps(size=self._most(limit), members=whole_number("members", members))
        async with Worker("download") as worker:
            unpacking = await worker.do(trees.Unpacking, target, caps, undo=trees.Unpacking.discard)
            try:
                await pouring(self._backend.pack_tree(name), worker, unpacking.feed)
                return await worker.do(unpacking.commit)
            finally:
                await worker.do(unpacking.discard)

    async def upload_directory(self, local: LocalPath, path: SandboxPath) -> int:
        """Copy a directory of this machine into the sandbox; returns how many entries it has.

        Links stay links if they stay inside; one that leaves, or anything that is no file, directory or link, is an
        ``InputError`` naming it, before anything is sent.
        """
        name, source = path_text(path), local_path(local)
        async with Worker("upload") as worker:
            tree = await worker.do(trees.pack, source)
            return await self._backend.unpack_tree(name, reading(worker, tree.read))

    def _most(self, limit: int | None) -> int:
        limit = number_or_none("limit", limit)
        return max(MIN_DOWNLOAD, self._sandbox.policy.limits.disk) if limit is None else limit


def _part_file(local: Path, name: str) -> PartFile:
    try:
        is_directory = local.is_dir()
    except OSError as error:
        raise local_error(local, error) from error
    return PartFile(local / last_name(name) if is_directory else local)


def _bytes(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")
