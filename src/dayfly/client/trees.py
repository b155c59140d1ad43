"""Directories as tar streams, on this machine's side. What comes out of a sandbox is written as if an enemy had sent it.

Laws of unpacking: every step goes through a directory descriptor and follows no link; nothing is made outside the new
directory, nothing that is there is replaced; only files, directories, and links that stay inside exist afterwards; a refused
stream leaves nothing. A symbolic link stays inside if it is relative and its ``..`` come first and are no more than the real
directories around it: then no chain of such links can leave either, since each of them starts at a real directory.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dayfly.client.local import local_error
from dayfly.client.tar import BLOCK, Kind, Member, TarReader, shown
from dayfly.errors import HostError, InputError, UnsafeTree
from dayfly.limits import GIB, KIB

__all__ = ["MAX_MEMBERS", "Caps", "Folder", "Packed", "Unpacking", "pack"]

MAX_MEMBERS = 100_000
"""Entries of one tree, implied directories included: a large source tree, and still a bounded number of inodes."""

MAX_DEPTH = 100
"""Directories in each other: deeper than any real tree, shallow enough for every tool that will walk it."""

MAX_NAME = 255  # bytes: Linux's NAME_MAX
MAX_PATH = 4096 - 512  # bytes: Linux's PATH_MAX, less what the place of the directory itself needs

_READ = 256 * KIB


@dataclass(frozen=True)
class Caps:
    """The most that one tree may bring: bytes of content, and entries."""

    size: int = 4 * GIB
    members: int = MAX_MEMBERS


class Folder:
    """A directory of this machine that is held by its descriptor, and what is below it without following links."""

    def __init__(self, path: Path) -> None:
        """Raises ``InputError`` if it is no directory, ``HostError`` where the system has no such descriptors."""
        if os.open not in os.supports_dir_fd:
            raise HostError("directories cannot be received on this system", remedy="download single files")
        try:
            self._root = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise local_error(path, error) from error
        self._open: tuple[tuple[bytes, ...], int] = (
            (),
            self._root,
        )  # the directory used last: the next is often the same

    def enter(self, parts: tuple[bytes, ...], *, make: bool = True) -> tuple[int, int]:
        """The descriptor of the directory ``parts`` (kept by the folder, until the next call), and how many were made."""
        if parts == self._open[0]:
            return self._open[1], 0
        current, made = os.dup(self._root), 0
        try:
            for part in parts:
                if make:
                    made += _make(part, current)
                inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=current)
                os.close(current)
                current = inner
        except OSError as error:
            os.close(current)
            raise UnsafeTree(f"{shown(b'/'.join(parts))} is not a plain directory: {error.strerror}") from error
        self._leave()
        self._open = (parts, current)
        return current, made

    def create(self, parts: tuple[bytes, ...], mode: int) -> tuple[int, int]:
        """A new file's descriptor, and how many directories were made for it. Something that is there is refused."""
        directory, made = self.enter(parts[:-1])
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            return os.open(parts[-1], flags, mode, dir_fd=directory), made
        except FileExistsError as error:
            raise UnsafeTree(f"{shown(b'/'.join(parts))} is there twice") from error

    def replace(self, parts: tuple[bytes, ...], by: bytes) -> None:
        """Put the file named ``by`` in the same directory in the place of ``parts``; a directory there is refused."""
        directory, _ = self.enter(parts[:-1])
        try:
            os.replace(by, parts[-1], src_dir_fd=directory, dst_dir_fd=directory)
        except OSError as error:
            raise local_error(os.fsdecode(b"/".join(parts)), error) from error

    def remove(self, parts: tuple[bytes, ...]) -> None:
        directory, _ = self.enter(parts[:-1])
        os.unlink(parts[-1], dir_fd=directory)

    def _leave(self) -> None:
        if self._open[1] != self._root:
            os.close(self._open[1])
        self._open = ((), self._root)

    def close(self) -> None:
        """Idempotent."""
        if self._root >= 0:
            self._leave()
            os.close(self._root)
            self._root = -1


def _make(name: bytes, directory: int) -> int:
    try:
        os.mkdir(name, 0o755, dir_fd=directory)
    except FileExistsError:
        return 0
    return 1


class Unpacking:
    """Makes the new directory ``local`` from a tar stream: ``feed``, then ``commit``; ``discard`` in any case."""

    def __init__(self, local: Path, caps: Caps | None = None) -> None:
        """Raises ``InputError`` if ``local`` is there and not an empty directory."""
        self._local = local
        self._caps = caps or Caps()
        self._reader = TarReader()
        self._members = 0
        self._size = 0
        self._file: int | None = None
        self._left = 0  # bytes that the current file still gets
        self._modified = 0.0
        _refuse_occupied(local)
        try:
            self._part = Path(tempfile.mkdtemp(prefix=".dayfly-", dir=local.parent))
        except OSError as error:
            raise local_error(local, error) from error
        self._folder = Folder(self._part)

    def feed(self, data: bytes) -> None:
        """Write what ``data`` completes. Raises ``UnsafeTree``, ``OutOfSpace`` or ``InputError``."""
        try:
            for event in self._reader.feed(data):
                if isinstance(event, Member):
                    self._begin(event)
                else:
                    self._write(event)
        except OSError as error:
            raise local_error(self._local, error) from error

    def commit(self) -> int:
        """Put the directory in its place; returns how many entries it has. Raises like ``feed``."""
        self._reader.finish()
        try:
            self._part.chmod(0o755)
            self._part.rename(self._local)
        except OSError as error:
            raise local_error(self._local, error) from error
        self._folder.close()
        return self._members

    def discard(self) -> None:
        """Remove what is not committed. Idempotent."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
        self._folder.close()
        shutil.rmtree(self._part, ignore_errors=True)

    def _begin(self, member: Member) -> None:
        parts = _parts(member.name)
        self._count(1)
        if not parts:
            if member.kind is not Kind.DIRECTORY:
                raise UnsafeTree("the root of the tree is not a directory")
            self._count(-1)  # it is the directory itself
        elif member.kind is Kind.DIRECTORY:
            self._directory(parts, member)
        elif member.kind is Kind.FILE:
            self._create(parts, member)
        elif member.kind is Kind.SYMLINK:
            self._symlink(parts, member)
        else:
            self._hardlink(parts, member)

    def _count(self, members: int) -> None:
        self._members += members
        if self._members > self._caps.members:
            raise UnsafeTree(f"more than {self._caps.members} entries")

    def _directory(self, parts: tuple[bytes, ...], member: Member) -> None:
        directory, made = self._folder.enter(parts)
        self._count(made - 1)
        os.fchmod(directory, member.mode & 0o755 | 0o700)

    def _create(self, parts: tuple[bytes, ...], member: Member) -> None:
        self._size += member.size
        if self._size > self._caps.size:
            raise UnsafeTree(f"more than {self._caps.size} bytes")
        descriptor, made = self._folder.create(parts, 0o600)
        self._file, self._left = descriptor, member.size
        self._count(made)
        os.fchmod(descriptor, member.mode & 0o755 | 0o600)
        self._modified = member.modified
        self._close_if_complete()

    def _write(self, content: bytes) -> None:
        assert self._file is not None  # only files have content: TarReader's law
        view = memoryview(content)
        while view:
            view = view[os.write(self._file, view) :]
        self._left -= len(content)
        self._close_if_complete()

    def _close_if_complete(self) -> None:
        if self._left == 0 and self._file is not None:
            descriptor, self._file = self._file, None
            try:
                os.utime(descriptor, (self._modified, self._modified))
            finally:
                os.close(descriptor)

    def _symlink(self, parts: tuple[bytes, ...], member: Member) -> None:
        if not stays_inside(member.target, len(parts) - 1):
            raise UnsafeTree(f"the link {shown(member.name)} leads out of the tree, to {shown(member.target)}")
        directory, made = self._folder.enter(parts[:-1])
        self._count(made)
        try:
            os.symlink(member.target, parts[-1], dir_fd=directory)
        except FileExistsError as error:
            raise UnsafeTree(f"{shown(member.name)} is there twice") from error

    def _hardlink(self, parts: tuple[bytes, ...], member: Member) -> None:
        target = _parts(member.target)
        if not target:
            raise UnsafeTree(f"the hard link {shown(member.name)} names no file")
        held, _ = self._folder.enter(target[:-1], make=False)
        source = os.dup(held)
        try:
            directory, made = self._folder.enter(parts[:-1])
            self._count(made)
            if not stat.S_ISREG(os.stat(target[-1], dir_fd=source, follow_symlinks=False).st_mode):
                raise UnsafeTree(f"the hard link {shown(member.name)} is to something that is not a file")
            os.link(target[-1], parts[-1], src_dir_fd=source, dst_dir_fd=directory, follow_symlinks=False)
        except (FileNotFoundError, FileExistsError) as error:
            raise UnsafeTree(f"the hard link {shown(member.name)} cannot be made: {error.strerror}") from error
        finally:
            os.close(source)


def _refuse_occupied(local: Path) -> None:
    try:
        occupied = local.is_symlink() or (local.exists() and (not local.is_dir() or any(local.iterdir())))
    except OSError as error:
        raise local_error(local, error) from error
    if occupied:
        raise InputError(f"{str(local)!r} is there already", remedy="name a new directory")


def _parts(name: bytes) -> tuple[bytes, ...]:
    """The components of a member's name; empty for the root itself. Raises ``UnsafeTree``."""
    if not name or len(name) > MAX_PATH or b"\0" in name:
        raise UnsafeTree(f"an unusable name: {shown(name)}")
    parts = tuple(name.removesuffix(b"/").split(b"/"))
    if parts[0] == b".":
        parts = parts[1:]
    if any(part in (b"", b".", b"..") or len(part) > MAX_NAME for part in parts) or len(parts) > MAX_DEPTH:
        raise UnsafeTree(f"an unsafe name: {shown(name)}")
    return parts


def stays_inside(target: bytes, depth: int) -> bool:
    """Whether a link with this target, in a real directory ``depth`` below the root, stays below the root."""
    if not target or target.startswith(b"/") or len(target) > MAX_PATH or b"\0" in target:
        return False
    parts = [part for part in target.split(b"/") if part not in (b"", b".")]
    ups = next((index for index, part in enumerate(parts) if part != b".."), len(parts))
    return ups <= depth and b".." not in parts[ups:]


# --- the way in ---


class Packed:
    """A directory as a tar stream, read a piece at a time."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = blocks
        self._rest = b""

    def read(self, size: int) -> bytes:
        """About ``size`` bytes; empty at the end. Raises ``InputError`` if a file changed while it was read."""
        parts = [self._rest]
        length = len(self._rest)
        while length < size and (block := next(self._blocks, None)) is not None:
            parts.append(block)
            length += len(block)
        data = b"".join(parts)
        self._rest = data[size:]
        return data[:size]


def pack(local: Path) -> Packed:
    """``local`` and all below it. Raises ``InputError`` for what cannot be sent, before anything is."""
    try:
        os.scandir(local).close()
    except OSError as error:
        raise local_error(local, error) from error
    for name, status, target in _walk(local):
        if stat.S_ISLNK(status.st_mode) and not stays_inside(os.fsencode(target), name.count("/")):
            raise InputError(f"the link {name!r} leads out of the directory, to {target!r}", remedy="remove it")
        if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode) or stat.S_ISLNK(status.st_mode)):
            raise InputError(f"{name!r} is no file, directory or link", remedy="remove it")
    return Packed(_blocks(local))


def _walk(local: Path) -> Iterator[tuple[str, os.stat_result, str]]:
    """(name below ``local``, status, target of a link), directories before what they hold."""
    waiting = [""]
    while waiting:
        inside = waiting.pop()
        try:
            with os.scandir(local / inside) as found:
                entries = sorted(found, key=lambda entry: entry.name)
            for entry in entries:
                name = f"{inside}/{entry.name}" if inside else entry.name
                status = entry.stat(follow_symlinks=False)
                yield name, status, str(Path(entry).readlink()) if entry.is_symlink() else ""
                if stat.S_ISDIR(status.st_mode):
                    waiting.append(name)
        except OSError as error:
            raise local_error(local / inside, error) from error


def _blocks(local: Path) -> Iterator[bytes]:
    for name, status, target in _walk(local):
        if stat.S_ISREG(status.st_mode):
            yield from _file(local / name, name)
        elif stat.S_ISDIR(status.st_mode):
            yield _header(name, b"5", status)
        elif stat.S_ISLNK(status.st_mode):
            yield _header(name, b"2", status, target=target)
    yield bytes(2 * BLOCK)


def _file(path: Path, name: str) -> Iterator[bytes]:
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
        with os.fdopen(descriptor, "rb", buffering=0) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise InputError(f"{name!r} changed while it was read")
            yield _header(name, b"0", status, size=status.st_size)
            left = status.st_size
            while left:
                piece = file.read(min(left, _READ))
                if not piece:
                    raise InputError(f"{name!r} became shorter while it was read")
                left -= len(piece)
                yield piece
            yield bytes(-status.st_size % BLOCK)
    except OSError as error:
        raise local_error(path, error) from error


def _header(name: str, kind: bytes, status: os.stat_result, *, size: int = 0, target: str = "") -> bytes:
    import tarfile  # only here, and slow to import

    info = tarfile.TarInfo(name)
    info.type, info.size, info.linkname = kind, size, target
    info.mode, info.mtime = stat.S_IMODE(status.st_mode) & 0o777, int(status.st_mtime)
    return info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")
