"""Bringing back what a run made: files that are new or changed, and its rich results. Written as from an enemy.

Only regular files come, under names that are judged here, through directory descriptors and without following links; each
appears whole or not at all. The sandbox's own word about sizes and listings is a claim and is capped.
"""

from __future__ import annotations

import json
import os
import secrets
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dayfly import Sandbox
from dayfly.cli.endings import note
from dayfly.client.trees import MAX_NAME, Folder
from dayfly.errors import FileProblem, HostError, InputError, SandboxFileError, UnsafeTree
from dayfly.spec import Execution, FileInfo, FileKind, Result

__all__ = ["SAVABLE", "Saved", "Saver", "checked_directory"]

MAX_FILES = 1000
"""Files that one run may bring back: more are a mistake of the code, or meant to fill this disk with inodes."""

MAX_LOOKED_AT = 20_000
"""Entries of the home that are looked at."""

MAX_DEPTH = 20
"""Directories in each other that are looked into."""

_EXTENSIONS = {  # of a rich result: (stem, suffix)
    "image/png": ("chart", "png"),
    "image/jpeg": ("chart", "jpg"),
    "image/svg+xml": ("chart", "svg"),
    "text/html": ("table", "html"),
    "text/markdown": ("text", "md"),
    "text/latex": ("formula", "tex"),
    "application/json": ("data", "json"),
    "application/pdf": ("document", "pdf"),
}

SAVABLE = frozenset(_EXTENSIONS)
"""The types of rich results that become files."""

_HTML = (
    '<!doctype html><meta charset="utf-8">\n'
    # It came out of a sandbox: a browser that opens it must not run it or call anybody.
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">\n"
)


@dataclass(frozen=True)
class Saved:
    """One file on this machine, ``name`` relative to the directory, ``size`` in bytes."""

    name: str
    size: int


def checked_directory(directory: Path | None) -> Path | None:
    """Make the directory if it is not there, and try that it can be written. Raises ``InputError``."""
    if directory is None:
        return None
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            return directory
    except FileExistsError as error:
        raise InputError(f"--out {directory}: is not a directory", remedy="name another one") from error
    except OSError as error:
        remedy = "name a directory that this user can write, or make"
        raise InputError(f"--out {directory}: {error.strerror}", remedy=remedy) from error


class Saver:
    """Remembers the home before a run and brings back what differs after it."""

    def __init__(self, sandbox: Sandbox, directory: Path) -> None:
        self._sandbox = sandbox
        self._directory = directory
        self._before = dict(self._look())

    def collect(self, execution: Execution) -> list[Saved]:
        """Save what the run left; only results if the sandbox is gone. Raises ``HostError`` if this machine cannot."""
        try:
            return self._collect(execution)
        except BrokenPipeError:  # of our own output
            raise
        except OSError as error:  # the names in it are of parts that nobody else knows
            remedy = "free some space, or name another directory"
            raise HostError(f"cannot save into {self._directory}: {error.strerror}", remedy=remedy) from error

    def _collect(self, execution: Execution) -> list[Saved]:
        folder = Folder(self._directory)
        try:
            saved = [] if self._sandbox.end_reason is not None else self._files(folder)
            return saved + self._results(folder, execution, {one.name for one in saved})
        finally:
            folder.close()

    def _look(self) -> Iterator[tuple[tuple[bytes, ...], tuple[int, float]]]:
        """(path, (size, time)) of the regular files below the home; hidden ones are caches and settings."""
        waiting: list[tuple[bytes, ...]] = [()]
        seen = 0
        while waiting:
            parts = waiting.pop()
            for info in self._list(parts):
                seen += 1
                if seen > MAX_LOOKED_AT:
                    note(f"more than {MAX_LOOKED_AT} files in the home: the rest is not looked at")
                    return
                name = _name(info)
                if name is None:
                    continue
                if info.kind is FileKind.FILE:
                    yield (*parts, name), (info.size, info.modified)
                elif info.kind is FileKind.DIRECTORY and len(parts) < MAX_DEPTH:
                    waiting.append((*parts, name))

    def _list(self, parts: tuple[bytes, ...]) -> Iterator[FileInfo]:
        try:
            yield from self._sandbox.files.iterate(b"/".join(parts) or ".")
        except SandboxFileError as error:
            if error.problem not in (FileProblem.DENIED, FileProblem.NOT_FOUND):  # gone meanwhile, or closed to us
                raise

    def _files(self, folder: Folder) -> list[Saved]:
        saved: list[Saved] = []
        left = self._sandbox.policy.limits.disk
        for parts, state in self._look():
            if self._before.get(parts) == state:
                continue
            if len(saved) == MAX_FILES:
                note(f"more than {MAX_FILES} new files: the rest stays in the sandbox")
                break
            try:
                size = self._fetch(folder, parts, left)
            except (SandboxFileError, UnsafeTree, InputError) as error:
                note(f"not saved: {error.message}")
                continue
            left -= size
            saved.append(Saved(os.fsdecode(b"/".join(parts)), size))
        return saved

    def _fetch(self, folder: Folder, parts: tuple[bytes, ...], limit: int) -> int:
        return _save(folder, parts, self._sandbox.files.stream(b"/".join(parts), limit=limit))

    def _results(self, folder: Folder, execution: Execution, taken: set[str]) -> list[Saved]:
        saved: list[Saved] = []
        most = MAX_FILES - len(taken)
        for name, content in _named(_contents(execution.results), taken):
            if len(saved) == most:
                note(f"more than {MAX_FILES} files and results: the rest is not saved")
                break
            try:
                saved.append(Saved(name, _save(folder, (os.fsencode(name),), iter([content]))))
            except (UnsafeTree, InputError) as error:  # a directory has that name
                note(f"not saved: {error.message}")
        return saved


def _name(info: FileInfo) -> bytes | None:
    """The name as bytes, or nothing if it is hidden, a cache, or no name at all."""
    name = info.name.encode("utf-8", "surrogateescape")
    if not 0 < len(name) <= MAX_NAME or b"/" in name or b"\0" in name or name.startswith(b"."):
        return None
    return None if name == b"__pycache__" else name


def _save(folder: Folder, parts: tuple[bytes, ...], pieces: Iterator[bytes]) -> int:
    """Write beside and put in place."""
    part = (*parts[:-1], f".dayfly-{secrets.token_hex(8)}".encode())
    descriptor, _ = folder.create(part, 0o644)
    size = 0
    try:
        with os.fdopen(descriptor, "wb") as file:
            for piece in pieces:
                size += file.write(piece)
        folder.replace(parts, part[-1])
    except BaseException:
        folder.remove(part)
        raise
    return size


def _contents(results: tuple[Result, ...]) -> Iterator[tuple[str, str, bytes]]:
    for result in results:
        for mime, (stem, suffix) in _EXTENSIONS.items():
            if mime in result.data:
                yield stem, suffix, _content(mime, result.data[mime])


def _content(mime: str, value: Any) -> bytes:
    if mime == "application/json":
        return json.dumps(value).encode()  # not indented: that could make a hundred times as much of it
    if isinstance(value, bytes):
        return value
    text = f"{_HTML}{value}\n" if mime == "text/html" else str(value)
    return text.encode("utf-8", "backslashreplace")


def _named(contents: Iterator[tuple[str, str, bytes]], taken: set[str]) -> Iterator[tuple[str, bytes]]:
    """Each with a name of its own, numbered by kind; ``taken`` are the names of files that the run left."""
    numbers: dict[str, int] = {}
    for stem, suffix, content in contents:
        name = ""
        while not name or name in taken:
            number = numbers[suffix] = numbers.get(suffix, 0) + 1
            name = f"{stem}-{number}.{suffix}"
        yield name, content
